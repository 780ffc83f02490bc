"""`tickwise config`: the settings in force, and the source of each: of the server of the data folder, or of this shell.

an `up` runs ──► what it has written about itself when it started
none runs ─────► what one would have that was started here
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from tickwise.cli import output
from tickwise.cli.commands.up import running_up
from tickwise.cli.connection import Local
from tickwise.cli.session import Session, data_dir_option, json_option


@click.command()
@click.option("--set", "only_set", is_flag=True, help="Only the settings that differ from the defaults.")
@click.option("--explain", is_flag=True, help="Show the meaning of each setting, too.")
@click.option("--here", is_flag=True, help="The settings of this shell, also while a server runs.")
@data_dir_option
@json_option
@click.pass_obj
def config(session: Session, only_set: bool, explain: bool, here: bool) -> None:
    """Show the settings in force and where each came from.

    These are the settings of the `tickwise up` that runs in the data folder. If none runs, or with --here, they are
    those of a process started from this shell. Secrets are masked.
    """
    from tickwise.config import load
    from tickwise.config.described import Described

    settings = load(session.environ, {"data_dir": session.data_dir})
    described: Sequence[Described] = settings.describe()
    server = None if here else running_up(settings.data_dir)
    if server is None:
        for warning in settings.warnings:
            session.note(f"Warning: {warning}")
        absent = "" if here else f"; no server runs in {settings.data_dir}"
        session.note(f"These are the settings of this shell{absent}.")
    elif server.settings is None:
        session.note(
            f"These are the settings of this shell. The server in {settings.data_dir} (process {server.pid}) has not "
            "written its own; a restart of that server does it."
        )
    else:
        described = _of_server(server, {each.name: each.meaning for each in described})
        session.note(
            f"These are the settings with which the server in {settings.data_dir} (process {server.pid}) started. "
            "--here shows those of this shell."
        )
    _show(session, [each for each in described if not only_set or each.origin != "default"], explain=explain)


def _of_server(server: Local, meanings: dict[str, str]) -> Sequence[Any]:
    """The settings of a running server. One of another release may have others than are known here."""
    from tickwise.config.described import Described

    return [
        Described(name=name, value=value, origin=origin, meaning=meanings.get(name, ""))
        for name, value, origin in server.settings or ()
    ]


def _show(session: Session, described: Sequence[Any], *, explain: bool) -> None:
    if session.as_json:
        session.show_json([each._asdict() for each in described])
        return
    titles = ["SETTING", "VALUE", "FROM"] + (["MEANING"] if explain else [])
    rows = [(each.name, each.value, each.origin) + ((each.meaning,) if explain else ()) for each in described]
    output.table(session, titles, rows, empty="Every setting has its default.")
