"""`tickwise backup` and `tickwise restore`: an embedded installation in one file, and in an empty folder again."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickwise.cli import moments
from tickwise.cli.session import Session, data_dir_option, json_option, keep_quiet

if TYPE_CHECKING:
    from tickwise.wiring.installation.archive import ArchiveHead


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@data_dir_option
@json_option
@click.pass_obj
def backup(session: Session, file: Path | None) -> None:
    """Write the installation of a `tickwise up` into one file.

    With its database, scripts, outputs, keys and settings, as of one moment, also while it runs. FILE must not be there
    yet; without one it is tickwise-TIME.backup, here. It holds keys, so only you may read it.

    \b
    tickwise backup /srv/backups/tickwise-monday.backup
    """
    from tickwise import config
    from tickwise.cli.commands.up import running_up
    from tickwise.wiring.installation.backup import BackupSource, back_up

    keep_quiet()
    settings = config.load(session.environ, {"data_dir": session.data_dir})
    local = running_up(settings.data_dir)
    told = [(each.name, each.value, each.origin) for each in settings.describe()]
    if local is not None and local.settings is not None:
        told = list(local.settings)
    source = BackupSource(
        data_dir=settings.data_dir.absolute(),
        settings=told,
        database_url=None if local is None else local.database_url,
    )
    if file is None:
        file = Path(f"tickwise-{datetime.fromtimestamp(moments.now(), UTC):%Y-%m-%dT%H%M%SZ}.backup")
    report = back_up(source, file.absolute())
    if session.as_json:
        session.show_json(asdict(report))
        return
    session.say(
        f"{report.file} is complete: {moments.size(report.bytes)}, the database and {report.blobs} scripts and outputs."
    )
    _say_head(session, report.head)
    session.say("It holds keys. Only you may read it; keep it so where you take it.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--check", is_flag=True, help="Only verify the file: its checksums, and that this version can restore it."
)
@data_dir_option
@json_option
@click.pass_obj
def restore(session: Session, file: Path, check: bool) -> None:
    """Make the installation of a backup in an empty data folder.

    Shows what runs at the next start: runs that were queued, and what the `misfire` rule of each job makes of the times
    since the backup. Nothing runs before you start it.

    \b
    tickwise restore /srv/backups/tickwise-monday.backup --data-dir /srv/tickwise
    """
    from tickwise import config
    from tickwise.wiring.installation import restore as restoring

    keep_quiet()
    file = file.absolute()
    if check:
        head = restoring.verified(file)
        if session.as_json:
            session.show_json(asdict(head))
            return
        session.say(f"{file} is whole, and this version can restore it.")
        _say_head(session, head)
        return
    data_dir = config.load(session.environ, {"data_dir": session.data_dir}).data_dir.absolute()
    report = restoring.restore(file, data_dir)
    if session.as_json:
        session.show_json({**asdict(report), "follows": report.follows.as_dict()})
        return
    session.say(f"{report.data_dir} holds the installation of {file}, with {report.blobs} scripts and outputs.")
    _say_head(session, report.head)
    session.say(report.follows.as_text())
    for place in report.settings_files:
        name = Path(place).relative_to(data_dir).as_posix()
        session.say(
            f"{place} was {report.head.places.get(name, 'a file of settings')}; nothing reads it here by itself."
        )
    session.say("If the installation that was backed up still runs, stop it first: else its jobs run in both.")
    session.say(f"Start it with: tickwise up --data-dir {shlex.quote(report.data_dir)}")


def _say_head(session: Session, head: ArchiveHead) -> None:
    session.say(f"As of {head.taken_at}; Tickwise {head.tickwise}, schema {head.schema}, PostgreSQL {head.postgresql}.")
    if head.settings:
        session.say("Settings that were in force besides the defaults:")
    for name, value, origin in head.settings:
        session.say(f"  {name} = {value} ({origin})")
