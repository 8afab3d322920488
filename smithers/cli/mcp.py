"""`smithers mcp`: the state and the memories as tools for any MCP client, on stdin and stdout."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

import click

from reactive_sqlite.worker import Worker
from smithers.cli.target import open_for_reading, open_for_writing, path_option
from smithers.runtime.host import Host
from smithers.runtime.mcp import serve


@click.command()
@path_option
@click.option("--allow-write", is_flag=True, help="Offer the tools that change something, too.")
def mcp(path: str | None, allow_write: bool) -> None:
    """Offer state and memories to an MCP client.

    It speaks the Model Context Protocol on stdin and stdout and ends when stdin is closed. Tools:
    state_get, state_history and memory_search; with --allow-write also state_set and memory_add.
    """
    opened = open_for_writing(path) if allow_write else open_for_reading(path)
    with _ended_by_an_interrupt(), opened as db:
        if sys.stdin.isatty():
            click.echo(f"serving {db.path} to an MCP client on stdin; Ctrl-C ends", err=True)
        worker = Worker("smithers-mcp")
        try:
            asyncio.run(serve(Host(db, worker), allow_write=allow_write))
        finally:
            worker.close()


@contextmanager
def _ended_by_an_interrupt() -> Generator[None]:
    """Let Ctrl-C end the process: the thread that waits for the next line cannot be woken."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
