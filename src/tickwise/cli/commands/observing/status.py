"""`tickwise status`: one look at everything that a person asks first."""

from __future__ import annotations

import click

from tickwise.cli import moments
from tickwise.cli.session import Session, view_options

SHOWN_RUNS = 10


@click.command()
@click.option(
    "--since",
    metavar="TIME",
    help="Failures, and what did not run, since then: '2026-11-21 08:00', 2h (ago).  [yesterday 0:00]",
)
@view_options
@click.pass_obj
def status(session: Session, since: str | None) -> None:
    """Show what runs, what failed or did not run since yesterday, what is late, and who is there."""
    from tickwise.cli.overview.glance import as_json, look
    from tickwise.cli.overview.lines import status_lines

    at = moments.now()
    begin = moments.begin_of_yesterday(at, session.zone)
    if since is not None:
        try:
            begin = moments.moment(since, session.zone, at, ago=True, tell=session.note).timestamp()
        except moments.UnreadableTime as error:
            raise click.UsageError(f"--since: {error}") from None
        if begin > at:
            raise click.UsageError(f"--since {since!r} is yet to come.")
    found = look(session, at=at, since=begin, most=SHOWN_RUNS)
    if session.as_json:
        session.show_json(as_json(found))
        return
    for line in status_lines(session, found):
        click.echo(line)
