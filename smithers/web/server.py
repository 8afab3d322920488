"""Serving the live view: an address on this machine, until Ctrl-C."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from smithers.web.app import web_app
from smithers.web.hub import Hub
from smithers.web.reader import Reader
from smithers.web.security import Guard, new_token

LOOPBACK = "127.0.0.1"
# Of what is still open when it ends; streams end by themselves.
GRACE_SECONDS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `smithers ui` was asked for; `port` 0 is any that is free."""

    path: Path
    host: str = LOOPBACK
    port: int = 0
    allow_write: bool = False


class LiveView(uvicorn.Server):
    """The server of one database.

    Attributes:
        url: the address with the token in it, for the first visit.
        socket: what it listens on.
        write_token: what a page sends with what it wants to be done.
    """

    def __init__(self, options: Options, *, ready: Callable[[str], None]) -> None:
        self.socket = listening(options.host, options.port)
        self._ready = ready
        token, self.write_token = new_token(), new_token()
        port = self.socket.getsockname()[1]
        hosts = names_of(options.host, port)
        reader = Reader(options.path)
        self.hub = Hub(
            options.path,
            hello=lambda: {
                "path": str(options.path),
                "allow_write": options.allow_write,
                "token": self.write_token if options.allow_write else None,
            },
            lost=reader.forget,
        )
        self.url = f"http://{hosts[0]}/?token={token}"
        app = Guard(
            web_app(self.hub, reader, options.path, allow_write=options.allow_write),
            hosts=hosts,
            token=token,
            write_token=self.write_token,
            # Cookies know no ports: two views on one host would take each other's away.
            cookie=f"smithers_ui_{port}",
        )
        super().__init__(
            uvicorn.Config(
                app,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    def serve_until_stopped(self) -> None:
        """Serve until Ctrl-C or a signal to end."""
        self.run(sockets=[self.socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say where."""
        await super().startup(sockets)
        if self.started:
            self._ready(self.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first, which nobody else would."""
        self.hub.end_streams()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Open a socket; a port that is taken raises OSError.

    Raises ValueError for all addresses of the machine at once: by which of them a request may come
    could not be checked then.
    """
    if host in ("0.0.0.0", "::", ""):
        raise ValueError(f"{host!r} is all addresses at once: name the one to listen on")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, port))
    except BaseException:
        opened.close()
        raise
    return opened


def names_of(host: str, port: int) -> Sequence[str]:
    """List what a browser may call this server, the name for the printed address first."""
    own = f"[{host}]" if ":" in host else host
    names = (own, "127.0.0.1", "localhost", "[::1]")
    return [f"{name}:{port}" for name in dict.fromkeys(names)]


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
