"""A page of your own that follows a query: one line of FastAPI, and an `EventSource` in the page.

Run it: python examples/fastapi_live.py DIRECTORY
Then change something: smithers db set phase '"review"' --path DIRECTORY
"""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from smithers import create_smithers_db
from smithers.web import sse

STATE = "SELECT key, value, updated_at FROM state ORDER BY key"
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>State</title>
<table><tbody id="rows"></tbody></table>
<script>
  new EventSource("/state").onmessage = (event) => {
    document.getElementById("rows").replaceChildren(...JSON.parse(event.data).map((row) => {
      const line = document.createElement("tr");
      for (const name of ["key", "value", "updated_at"]) {
        line.insertCell().textContent = row[name];
      }
      return line;
    }));
  };
</script>
"""


def main(folder: str) -> None:
    with create_smithers_db(folder) as db:
        app = FastAPI()
        app.add_route("/state", sse(db.observe(STATE)))

        @app.get("/", response_class=HTMLResponse)
        def page() -> str:
            return PAGE

        with socket.create_server(("127.0.0.1", 0)) as listening:
            print(f"http://127.0.0.1:{listening.getsockname()[1]}/ shows {folder}", flush=True)
            server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
            server.run(sockets=[listening])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, contextlib.suppress(KeyboardInterrupt):
        main(sys.argv[1] if len(sys.argv) > 1 else temporary)
