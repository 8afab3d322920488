"""`smithers db commits | reviews`: what version control did during the workflow."""

from __future__ import annotations

import click

from smithers.cli.columns import count_column, text_column, time_column
from smithers.cli.ids import whole_id
from smithers.cli.output import as_fields, glance, print_json, shown_text
from smithers.cli.tables import Column, print_listing, print_nothing
from smithers.cli.target import json_option, limit_option, open_for_reading, path_option
from smithers.records import Review

# As git shortens them.
SHORT_HASH = 10


@click.command()
@path_option
@json_option
@limit_option(20, "Show the newest N commits.")
@click.option("--execution", metavar="ID", help="Only those of one execution.")
def commits(path: str | None, as_json: bool, limit: int, execution: str | None) -> None:
    """List the commits that were logged.

    The newest ones, in the order of their logging.
    """
    with open_for_reading(path) as db:
        whole = None if execution is None else whole_id(db, execution, "execution")[1]
        shown = db.vcs.commits(whole, limit=limit)
        none_at_all = not shown and not db.vcs.commits(limit=1)
    if as_json:
        print_json([as_fields(commit) for commit in shown])
    elif not shown:
        print_nothing("There are no commits." if none_at_all else "No commit matches.")
    else:
        hashes = [shown_text(commit.hash) for commit in shown]
        print_listing(
            [
                Column("hash", hashes, [one[:SHORT_HASH] for one in hashes], whole=True),
                time_column("time", [commit.timestamp for commit in shown]),
                _message_column([commit.message for commit in shown]),
                count_column("files", [commit.files_changed for commit in shown], spare=False),
                count_column("+", [commit.insertions for commit in shown], spare=False),
                count_column("-", [commit.deletions for commit in shown], spare=False),
                text_column("author", [commit.author for commit in shown], spare=True),
                Column("vcs", [commit.vcs_type for commit in shown], whole=True, spare=True),
                text_column("change", [commit.change_id for commit in shown], spare=True),
            ]
        )


@click.command()
@path_option
@json_option
@limit_option(20, "Show the newest N reviews.")
@click.option("--blocking", is_flag=True, help="Only those that block: not approved, not resolved.")
@click.option("--execution", metavar="ID", help="Only those of one execution.")
def reviews(
    path: str | None, as_json: bool, limit: int, blocking: bool, execution: str | None
) -> None:
    """List the reviews that were logged.

    The newest ones, in the order of their logging.
    """
    with open_for_reading(path) as db:
        whole = None if execution is None else whole_id(db, execution, "execution")[1]
        listed = db.vcs.blocking_reviews if blocking else db.vcs.reviews
        shown = listed(whole, limit=limit)
        none_at_all = not shown and not db.vcs.reviews(limit=1)
    if as_json:
        print_json([as_fields(review) for review in shown])
    elif not shown:
        print_nothing("There are no reviews." if none_at_all else "No review matches.")
    else:
        print_listing(
            [
                text_column("review", [review.review_id for review in shown]),
                text_column("target", [review.target for review in shown]),
                Column("verdict", [_verdict(review) for review in shown], whole=True),
                count_column("issues", [len(review.issues) for review in shown], spare=False),
                text_column("summary", [review.summary for review in shown]),
                time_column("time", [review.timestamp for review in shown], spare=True),
            ]
        )


def _message_column(messages: list[str]) -> Column:
    # A terminal shows the first line, as git does.
    first = [glance(message.partition("\n")[0]) for message in messages]
    return Column("message", [shown_text(message) for message in messages], first, lines=2)


def _verdict(review: Review) -> str:
    if review.approved:
        return "approved"
    if review.resolved_at is not None:
        return "resolved"
    return "blocking" if review.blocking else "not approved"
