"""`tickwise blobs …`: where scripts, outputs and artefacts lie."""

from __future__ import annotations

import click

from tickwise.cli import moments
from tickwise.cli.session import Session, json_option
from tickwise.cli.terminal.progress import progress


@click.group()
def blobs() -> None:
    """Move scripts, outputs and artefacts to another store."""


@blobs.command()
@click.argument("source")
@click.argument("goal")
@json_option
@click.pass_obj
def copy(session: Session, source: str, goal: str) -> None:
    """Copy all blobs from one address to another.

    SOURCE and GOAL are as in TICKWISE_BLOBS_URL: `file:///folder`, or `s3://bucket/prefix?…` with the credentials
    of the settings. Copies what GOAL lacks and deletes nothing, so it can run twice: once while the roles run, and
    again after they have stopped.

    \b
    tickwise blobs copy file:///var/lib/tickwise/blobs 's3://my-bucket/tickwise?region=eu-central-1'
    """
    from tickwise import config
    from tickwise.wiring.storage.copying import copy_blobs

    settings = config.load(session.environ, {})
    with progress("blobs", quiet=session.as_json) as tell:
        report = copy_blobs(settings, source, goal, tell)
    if session.as_json:
        session.show_json(report._asdict())
        return
    session.say(
        f"{report.copied} blobs are copied, {moments.size(report.copied_bytes)}; {report.present} were there already."
    )
    if report.gone:
        session.say(f"{report.gone} were deleted by their retention in the meantime.")
