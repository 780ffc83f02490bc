"""`tickwise config`: the settings in force, and the source of each."""

from __future__ import annotations

import click

from tickwise.cli import output
from tickwise.cli.session import Session, data_dir_option, json_option


@click.command()
@click.option("--set", "only_set", is_flag=True, help="Only the settings that differ from the defaults.")
@click.option("--explain", is_flag=True, help="Also the meaning of each setting.")
@data_dir_option
@json_option
@click.pass_obj
def config(session: Session, only_set: bool, explain: bool) -> None:
    """Show the settings in force and where each came from.

    Secrets are masked.
    """
    from tickwise.config import load

    settings = load(session.environ, {"data_dir": session.data_dir})
    described = [each for each in settings.describe() if not only_set or each.origin != "default"]
    for warning in settings.warnings:
        session.note(f"Warning: {warning}")
    if session.as_json:
        session.show_json([each._asdict() for each in described])
        return
    titles = ["SETTING", "VALUE", "FROM"] + (["MEANING"] if explain else [])
    rows = [(each.name, each.value, each.origin) + ((each.meaning,) if explain else ()) for each in described]
    output.table(session, titles, rows, empty="Every setting has its default.")
