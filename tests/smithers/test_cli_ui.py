"""`smithers ui`, in a process of its own: what it prints, and how it begins and ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from smithers import SmithersDB
from tests.smithers.commandline import Run, environment


@pytest.fixture
def serving(
    db: SmithersDB, path: Path
) -> Iterator[Callable[..., tuple[str, subprocess.Popen[str]]]]:
    """Start `smithers ui` and return its address and its process."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str) -> tuple[str, subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "smithers", "ui", "--path", str(path), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        started.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip(), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_an_address_with_a_token_and_ends_at_once_with_streams_open(
    serving: Callable[..., tuple[str, subprocess.Popen[str]]], number: signal.Signals
) -> None:
    url, process = serving()
    assert url.startswith("http://127.0.0.1:")
    with httpx.Client(timeout=20) as client:
        assert client.get(url).status_code == 303
        address = url.partition("?")[0] + "events"
        with client.stream("GET", address, params={"topic": "state"}) as answer:
            lines = answer.iter_lines()
            while not next(lines).startswith("event: value"):
                pass
            asked = time.monotonic()
            process.send_signal(number)
            assert process.wait(timeout=20) == (0 if number == signal.SIGINT else -number)
            took = time.monotonic() - asked
    assert took < 10, "nothing waits for a page to go"
    assert process.stderr is not None
    assert process.stderr.read().splitlines()[1:] == [], "no traceback, no warning"


def test_it_ends_at_once_whatever_it_is_being_asked(
    serving: Callable[..., tuple[str, subprocess.Popen[str]]],
) -> None:
    url, process = serving()
    host = httpx.URL(url)
    forever = "SELECT instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1')"
    with httpx.Client(timeout=20) as client:
        assert client.get(url).status_code == 303
        asked = client.build_request("GET", host.copy_with(path="/api/sql", params={"q": forever}))
        lines = [f"{name}: {value}" for name, value in asked.headers.items()]
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        head = [f"GET {asked.url.raw_path.decode()} HTTP/1.1", *lines, f"Cookie: {cookies}", "", ""]
        with socket.create_connection((host.host, host.port or 80), timeout=20) as connection:
            connection.sendall("\r\n".join(head).encode())
            # What comes later is answered, so that the question is under way.
            other = client.get(host.copy_with(path="/api/value", params={"key": "x"}))
            assert other.status_code == 404
            asked_at = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) == 0
            assert time.monotonic() - asked_at < 10
            answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 503")
    assert process.stderr is not None
    told = process.stderr.read().splitlines()[1:]
    assert [line for line in told if "graceful" not in line] == [], "no traceback"


def test_it_serves_at_the_port_that_it_is_given_or_says_that_it_is_taken(
    serving: Callable[..., tuple[str, subprocess.Popen[str]]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _, refused = serving("--port", str(port))
        assert refused.wait(timeout=30) == 1
        assert refused.stderr is not None
        assert "in use" in refused.stderr.read()
    url, _ = serving("--port", str(port))
    assert url.startswith(f"http://127.0.0.1:{port}/?token=")


def test_a_missing_database_is_one_line(smithers: Run, tmp_path: Path) -> None:
    result = smithers("ui", "--path", str(tmp_path / "none"))
    assert result.code == 1
    assert "there is no database" in result.err


def test_without_the_extra_it_says_what_to_install(
    smithers: Run, db: SmithersDB, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("smithers.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = smithers("ui", "--path", str(path))
    assert result.code == 1
    assert "pip install 'smithers-py[ui]'" in result.err
