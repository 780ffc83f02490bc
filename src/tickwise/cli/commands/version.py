"""`tickwise version`."""

from __future__ import annotations

import platform

import click

from tickwise import __version__
from tickwise.cli.session import Session, json_option


@click.command()
@json_option
@click.pass_obj
def version(session: Session) -> None:
    """Print the version."""
    if session.as_json:
        session.show_json({"tickwise": __version__, "python": platform.python_version(), "system": platform.platform()})
    else:
        session.say(f"tickwise {__version__}")
