"""`tickwise top`: what runs, drawn again and again until it is left."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tickwise.cli import moments, output
from tickwise.cli.failures import Exit
from tickwise.cli.session import Session, view_options

if TYPE_CHECKING:
    from tickwise.cli.overview.glance import Glance
    from tickwise.cli.terminal.screen import Screen

LOOK_SECONDS = 2.0
MOST = 200
"""Runs that are read for one picture: a terminal has no more lines."""


@click.command()
@click.option(
    "--interval", metavar="DURATION", default="2s", show_default=True, help="The time between two looks: 1s, 10s."
)
@view_options
@click.pass_obj
def top(session: Session, interval: str) -> int:
    """Show what runs, live; q or Ctrl-C leaves. In a pipe, one picture."""
    from tickwise.cli.work import duration_seconds

    seconds = duration_seconds("--interval", interval)
    if seconds < 0.5:
        raise click.UsageError(f"--interval {interval!r}: 500ms is the least; each look asks the server.")
    if session.as_json:
        raise click.UsageError("`top` is for a terminal; `tickwise status --json` has the same for programs.")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in _picture(session, _look(session)):
            click.echo(line)
        return Exit.OK
    from tickwise.cli.terminal.screen import screen

    first = _look(session)  # an error is told on the usual screen
    with screen() as shown:
        return _watch(session, shown, first, seconds)


def _watch(session: Session, shown: Screen, found: Glance, seconds: float) -> int:
    from tickwise.cli.terminal.screen import QUIT
    from tickwise.sdk.client import Unreachable

    away = ""
    while True:
        session.view_width = shown.size.columns
        lines = _picture(session, found)
        shown.draw([*([output.title(session, away)] if away else []), *lines])
        if shown.key(seconds) in QUIT:
            return Exit.OK
        try:
            found, away = _look(session), ""
        except Unreachable as error:
            away = f"The server is away ({error}); what is below is old."


def _look(session: Session) -> Glance:
    from tickwise.cli.overview.glance import look

    at = moments.now()
    return look(session, at=at, since=moments.begin_of_yesterday(at, session.zone), most=MOST)


def _picture(session: Session, found: Glance) -> list[str]:
    from tickwise.cli.overview.lines import RUNNING, alive, running_rows, summary

    head = [
        f"{moments.absolute(found.seen_at, session.zone)}  {session.target.url}",
        alive(found),
        summary(session, found),
    ]
    lines = [line for text in head if text for line in output.wrapped(session, output.safe(text))]
    rows = running_rows(session, found)
    return [*lines, "", *(output.table_lines(session, RUNNING, rows) if rows else ["Nothing runs."])]
