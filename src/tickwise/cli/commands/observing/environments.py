"""`tickwise environments …`: the environments of scripts on this machine, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwise.cli import moments, output
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.session import Session, json_option

if TYPE_CHECKING:
    from tickwise.config import Settings

SHOWN_KEY: int = 12


@click.group()
def environments() -> None:
    """Look at the environments of scripts on this machine, and remove them.

    They are those of an executor with the settings of this command, so call it on the executor's machine, as its user.
    """


def _settings(session: Session) -> Settings:
    from tickwise import config

    return config.load(session.environ)


@environments.command("list")
@json_option
@click.pass_obj
def list_(session: Session) -> None:
    """List the environments, those used last first."""
    from tickwise.wiring.environments import kept_environments

    kept, now = kept_environments(_settings(session)), moments.now()
    if session.as_json:
        session.show_json([each._asdict() for each in kept])
        return
    rows = [
        (
            each.key[:SHOWN_KEY],
            each.namespace,
            each.declared,
            each.python,
            f"{each.size_bytes / 1e6:.1f} MB",
            "in use" if each.in_use else moments.relative(each.used_at, now),
        )
        for each in kept
    ]
    heads = ("ENVIRONMENT", "NAMESPACE", "DECLARED", "PYTHON", "SIZE", "LAST USED")
    empty = "No environments. They are built for jobs with scripts that declare one."
    output.table(session, heads, rows, empty=empty)


@environments.command()
@click.argument("environment")
@json_option
@click.pass_obj
def show(session: Session, environment: str) -> None:
    """Show one environment and the log of its build; the beginning of its name is enough."""
    from tickwise.wiring.environments import build_log, kept_environments

    settings = _settings(session)
    found = [each for each in kept_environments(settings) if each.key.startswith(environment)]
    if len(found) != 1:
        how_many = "no environment" if not found else f"{len(found)} environments"
        raise CommandFailure(f"{how_many} of this machine begin with {environment!r}", Exit.NOT_FOUND)
    log, facts = build_log(settings, found[0].key), found[0]._asdict()
    if session.as_json:
        session.show_json({**facts, "log": log})
        return
    for name, value in facts.items():
        session.say(f"{name}: {value}")
    session.say(f"\n{log.rstrip()}")


@environments.command()
@click.option(
    "--unused", metavar="DURATION", help="Remove only those unused for this long, and no downloads: 12h, 30d.",
)  # fmt: skip
@json_option
@click.pass_obj
def prune(session: Session, unused: str | None) -> None:
    """Remove all environments that no script uses, and the downloads. The next run of a script builds its own again."""
    from tickwise.wiring.environments import prune_environments

    try:
        seconds = None if unused is None else moments.duration_seconds(unused)
    except moments.UnreadableTime as error:
        raise click.UsageError(f"--unused: {error}") from None
    removed = prune_environments(_settings(session), seconds)
    if session.as_json:
        session.show_json({"removed": removed})
        return
    session.say(f"Removed {len(removed)} environments.")
