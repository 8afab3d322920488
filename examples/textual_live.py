"""A live view in the terminal with Textual: a table that follows the state of a workflow.

Run it: python examples/textual_live.py DIRECTORY
Then change something: smithers db set phase '"review"' --path DIRECTORY
"""

from __future__ import annotations

import sys
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import DataTable, Footer, Header

from smithers import create_async_smithers_db

DEFAULT = ".smithers/data"


class Live(App[None]):
    """The state of one database, row by row."""

    TITLE = "State"
    BINDINGS: ClassVar[list[BindingType]] = [("q", "quit", "Quit")]

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def compose(self) -> ComposeResult:
        yield Header()
        yield DataTable[str](zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self.run_worker(self.follow())

    async def follow(self) -> None:
        """Draw the state whenever it has changed, in this process or in another one."""
        table = self.query_one(DataTable[str])
        table.add_columns("key", "value")
        async with create_async_smithers_db(self._folder) as db:
            async for state in db.state.observe_all():
                table.clear()
                table.add_rows((key, repr(value)) for key, value in state.items())


if __name__ == "__main__":
    Live(sys.argv[1] if len(sys.argv) > 1 else DEFAULT).run()
