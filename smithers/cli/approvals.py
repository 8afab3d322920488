"""`smithers db approve | deny`: answers to the gates at which workflows wait for a person."""

from __future__ import annotations

from collections.abc import Callable

import click

from smithers.cli.ids import whole_id
from smithers.cli.output import as_fields, print_json, shown_text
from smithers.cli.target import json_option, open_for_writing, path_option
from smithers.db import SmithersDB
from smithers.records import Approval

Decision = Callable[..., Approval]


@click.command()
@path_option
@json_option
@click.option("--comment", metavar="TEXT", help="Why, for the record and for the workflow.")
@click.option("--execution", metavar="ID", help="Of which execution, where several wait.")
@click.argument("key")
def approve(
    path: str | None, as_json: bool, comment: str | None, execution: str | None, key: str
) -> None:
    """Let the workflow pass that waits at gate KEY.

    It goes on at once, in whichever process it runs; one that does not run finds the answer when
    it is resumed.
    """
    with open_for_writing(path) as db:
        decided = _decided(db, db.approvals.approve, key, comment, execution)
    _told(decided, as_json)


@click.command()
@path_option
@json_option
@click.option("--comment", metavar="TEXT", help="Why, for the record and for the workflow.")
@click.option("--execution", metavar="ID", help="Of which execution, where several wait.")
@click.argument("key")
def deny(
    path: str | None, as_json: bool, comment: str | None, execution: str | None, key: str
) -> None:
    """Refuse the workflow that waits at gate KEY.

    It learns that at once, in whichever process it runs; one that does not run finds the answer
    when it is resumed.
    """
    with open_for_writing(path) as db:
        decided = _decided(db, db.approvals.deny, key, comment, execution)
    _told(decided, as_json)


def _decided(
    db: SmithersDB, decide: Decision, key: str, comment: str | None, execution: str | None
) -> Approval:
    whole = None if execution is None else whole_id(db, execution, "execution")[1]
    return decide(key, comment, execution_id=whole)


def _told(approval: Approval, as_json: bool) -> None:
    if as_json:
        print_json(as_fields(approval))
        return
    comment = "" if approval.comment is None else f": {shown_text(approval.comment)}"
    click.echo(f"{shown_text(approval.key)} {approval.status}{comment}")
