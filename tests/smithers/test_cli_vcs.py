"""`smithers db commits | reviews`: what version control did."""

from __future__ import annotations

from datetime import UTC, datetime

from smithers import SmithersDB
from tests.smithers.commandline import Run, cells

HASH = "a1b2c3d4e5f60718293a4b5c6d7e8f9001122334"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_commits_are_listed_as_they_were_logged(cli: Run, db: SmithersDB) -> None:
    message = "feat: add user auth\n\nA body."
    db.vcs.log_commit(
        hash=HASH,
        message=message,
        author="Jörg <j@example.com>",
        timestamp=NOON,
        files_changed=3,
        insertions=1200,
        deletions=4,
    )
    id = db.execution.start("Feature")
    db.vcs.log_commit(hash="ffff", message="", vcs_type="jj", change_id="qpvuntsm", timestamp=NOON)
    table = cells(cli("commits"))
    assert table == [
        ["hash", "time (UTC)", "message", "files", "+", "-", "author", "vcs", "change"],
        [
            *(HASH, "2026-01-31 12:00:00.000", r'"feat: add user auth\n\nA body."'),
            *("3", "1200", "4", "Jörg <j@example.com>", "git", "-"),
        ],
        ["ffff", "2026-01-31 12:00:00.000", '""', "-", "-", "-", "-", "jj", "qpvuntsm"],
    ]
    shown = cli("commits", columns=80).out.splitlines()
    assert shown[2].split() == [
        *(HASH[:10], "2026-01-31", "12:00", "feat:", "add", "user", "auth", "3", "1,200", "4"),
    ], "the first line of the message, what is spare left out"
    assert [row["hash"] for row in cli("commits", "--json").json] == [HASH, "ffff"]
    assert [row["hash"] for row in cli("commits", "--json", "--limit", "1").json] == ["ffff"]
    assert cli("commits", "--execution", id[-8:], "--json").json[0]["change_id"] == "qpvuntsm"


def test_reviews_tell_their_verdict(cli: Run, db: SmithersDB) -> None:
    issues = [{"severity": "high"}, {"severity": "low"}]
    for name, approved, blocking in (
        ("r1", False, True),
        ("r2", True, True),
        ("r3", False, False),
        ("r4", False, True),
    ):
        db.vcs.log_review(
            review_id=name,
            target="abc",
            approved=approved,
            blocking=blocking,
            summary="Security\nissues",
            issues=issues,
        )
    db.vcs.resolve_review("r4")
    table = cells(cli("reviews"))
    assert table[0] == ["review", "target", "verdict", "issues", "summary", "time (UTC)"]
    assert [(row[0], row[2]) for row in table[1:]] == [
        ("r1", "blocking"),
        ("r2", "approved"),
        ("r3", "not approved"),
        ("r4", "resolved"),
    ]
    assert table[1][3:5] == ["2", r'"Security\nissues"']
    assert [row["review_id"] for row in cli("reviews", "--blocking", "--json").json] == ["r1"]
    assert cli("reviews", "--json", "--limit", "1").json[0]["issues"] == issues


def test_why_nothing_is_shown_is_said_as_it_is(cli: Run, db: SmithersDB) -> None:
    assert cli("commits", columns=80).out == "There are no commits.\n"
    assert cli("reviews", "--blocking", columns=80).out == "There are no reviews.\n"
    assert (cli("commits").out, cli("reviews", "--json").json) == ("", [])
    id = db.execution.start("Feature")
    db.execution.complete(id)
    other = db.execution.start("Other")
    db.vcs.log_commit(hash="ffff", message="m")
    db.vcs.log_review(review_id="r1", target="t", approved=True, summary="s")
    assert db.vcs.commits(other) != []
    assert cli("commits", "--execution", id, columns=80).out == "No commit matches.\n"
    assert cli("reviews", "--blocking", columns=80).out == "No review matches.\n"
    assert cli("commits", "--limit", "0", columns=80).out == "No commit matches.\n"


def test_hostile_text_in_every_column_reaches_no_terminal(cli: Run, db: SmithersDB) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07\r\n\t\u2028\u202e日本語 🎉"
    db.vcs.log_commit(
        hash=hostile, message=hostile, author=hostile, change_id=hostile, vcs_type="jj"
    )
    db.vcs.log_review(
        review_id=hostile, target=hostile, approved=False, summary=hostile, issues=[hostile]
    )
    for command in ("commits", "reviews"):
        for columns in (0, 30, 80, 250):
            done = cli(command, columns=columns)
            assert done.code == 0
            for line in done.out.split("\n"):
                assert all(mark.isprintable() or mark == "\t" for mark in line), (command, line)
