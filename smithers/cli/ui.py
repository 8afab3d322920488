"""`smithers ui`: the database in a browser, live."""

from __future__ import annotations

import contextlib
import webbrowser

import click

from smithers.cli.target import existing, open_for_reading, path_option
from smithers.errors import SmithersError


@click.command()
@path_option
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="Port to use.")
@click.option("--host", metavar="ADDRESS", help="Listen there, not on this machine alone.")
@click.option("--open", "open_page", is_flag=True, help="Open it in the browser.")
@click.option("--allow-write", is_flag=True, help="Let the pages change something, too.")
def ui(path: str | None, port: int, host: str | None, open_page: bool, allow_write: bool) -> None:
    """Show the database in a browser, live.

    It follows what any process commits. The address that is printed is for this machine alone and
    has a token in it; Ctrl-C ends. Nothing is changed unless --allow-write says so: then the pages
    can restore a state, answer gates, retry triggers and cancel executions.
    """
    try:
        from smithers.web.server import LOOPBACK, LiveView, Options, is_loopback
    except ModuleNotFoundError as error:
        raise SmithersError(
            f"the live view needs the extra `ui`: pip install 'smithers-py[ui]' ({error})"
        ) from error
    file = existing(path)
    open_for_reading(str(file)).close()  # what is wrong with it is said before anything is served

    def ready(url: str) -> None:
        click.echo(url)
        click.echo(f"showing {file}; Ctrl-C ends", err=True)
        if open_page:
            webbrowser.open(url)

    host = host or LOOPBACK
    if not is_loopback(host):
        click.echo(f"{host} is for others too: what they see goes unencrypted", err=True)
    options = Options(path=file, host=host, port=port, allow_write=allow_write)
    view = LiveView(options, ready=ready)
    with contextlib.suppress(KeyboardInterrupt):
        view.serve_until_stopped()
