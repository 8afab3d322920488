"""Programs for the tests of feeds, run as processes of their own: writers and consumers."""

from __future__ import annotations

import sys

from reactive_sqlite import Change, Database, sqlite3

TABLES = ("orders", "notes")


def write_plainly(path: str, writer: int, writes: int) -> None:
    """Write with Python's own module: one commit each, some of them rolled back in between."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    for sql in statements(writer, writes):
        connection.execute(sql)
    connection.close()


def statements(writer: int, writes: int) -> list[str]:
    """Return what a writer writes: so many changes, and every tenth time one that is undone."""
    said: list[str] = []
    for number in range(writes):
        key = writer * 1_000_000 + number
        if number % 10 == 9:
            said += ["BEGIN IMMEDIATE", f"INSERT INTO orders VALUES ({-key}, 'undone')", "ROLLBACK"]
        if number % 2:
            said.append(f"UPDATE orders SET state = 'paid' WHERE id = {key - 1}")
        else:
            said.append(f"INSERT INTO orders VALUES ({key}, 'new')")
    return said


def consume(path: str, name: str, expected: int) -> None:
    """Note each change in the transaction that acknowledges it, and say so on stdout."""
    with Database(path, busy_timeout=60) as db:
        feed = db.feed(name, "orders", start="beginning", batch_size=50)
        done = db.execute("SELECT count(*) FROM noted WHERE consumer = ?", [name]).fetchone()[0]
        if done >= expected:
            return
        for change in feed:
            with db.transaction():
                note(db, name, change)
                feed.ack(change)
            done += 1
            print(done, flush=True)
            if done >= expected:
                return


def note(db: Database, consumer: str, change: Change) -> None:
    """Write down that the consumer has handled a change."""
    db.execute(
        "INSERT INTO noted(consumer, seq, op, key) VALUES (?, ?, ?, ?)",
        [consumer, change.seq, change.op, change.key],
    )


if __name__ == "__main__":
    role, path, name, count = sys.argv[1:]
    if role == "write":
        write_plainly(path, int(name), int(count))
    else:
        consume(path, name, int(count))
