"""`tickwise deploy`: brings the schedules that a program declares beside its functions to the server."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import asdict

import click

from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.session import Session, server_options


@click.command()
@click.argument("modules", nargs=-1, required=True, metavar="MODULE…")
@click.option("--app", required=True, help="The name of the program: its jobs bear the label deployed-by=APP.")
@click.option("--prune", is_flag=True, help="Cancel the program's jobs whose schedules are no longer declared.")
@click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")
@server_options
@click.pass_obj
def deploy(session: Session, /, modules: tuple[str, ...], app: str, *, prune: bool, dry_run: bool) -> None:
    """Store the schedules that Python modules declare on the server.

    A module declares them beside its functions: nightly.schedule(cron="0 2 * * *"). Only what differs is written. Jobs
    of others are left alone, and a job that is paused stays paused. The modules are imported here, from this folder or
    from where Python finds them.
    """
    sys.path.insert(0, os.getcwd())
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:
            raise CommandFailure(
                f"the module {module} cannot be imported: {type(error).__name__}: {error}",
                Exit.USAGE,
                advice="Call the command in the module's folder, with the Python that has its packages.",
            ) from error
    from tickwise.sdk.typed_client import TypedClient
    from tickwise_sdk import RegistrationError, sync

    try:
        with session.client_as(TypedClient) as client:
            report = sync(client, app, prune=prune, dry_run=dry_run)
    except RegistrationError as error:
        raise CommandFailure(f"{error}.", Exit.REFUSED) from None
    if session.as_json:
        session.show_json(asdict(report))
        return
    for line in report.lines():
        session.say(line)
