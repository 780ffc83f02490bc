"""`tickwise operations …`: operations over many subjects, and their progress."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.references import is_id
from tickwise.cli.session import Session, server_options, view_options


@click.group()
def operations() -> None:
    """Look at bulk operations, and cancel them."""


@operations.command("list")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most rows to show.")
@view_options
@click.pass_obj
def list_operations(session: Session, limit: int) -> None:
    """List operations, newest first."""
    pages = session.client.pages("/operations", {"limit": min(limit, 500)})
    found = list(islice((each for page in pages for each in page), limit))
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (each["operation_id"], each["kind"], each["status"], _progress(each), str(each["refused"]),
         session.time(each["created_at"], seen_at=seen_at), each["created_by"])
        for each in found
    ]  # fmt: skip
    output.table(
        session, ("OPERATION", "WHAT", "STATUS", "DONE", "REFUSED", "ASKED FOR", "BY"), rows, empty="No operations."
    )


def _progress(found: dict[str, Any]) -> str:
    return str(found["done"]) if found["matched"] is None else f"{found['done']} of {found['matched']}"


@operations.command()
@click.argument("operation")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@view_options
@click.pass_obj
def show(session: Session, operation: str, wait: bool) -> None:
    """Show an operation: what it does, how far it has come, and what it could not do."""
    identifier = _operation_id(operation)
    found = bulk.watch(session, identifier) if wait else session.client.operation_get(identifier)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    fields: dict[str, Any] = {}
    for name, value in found.items():
        if name == "problems":
            continue
        if name.endswith("_at") and isinstance(value, str):
            value = session.time(value, seen_at=seen_at)
        fields[name.replace("_", " ")] = value if isinstance(value, str) else work.compact(value)
    output.record(session, fields)
    rows = [(each["id"], each["code"], each["detail"]) for each in found.get("problems", ())]
    if rows:
        click.echo()
        output.table(session, ("ID", "CODE", "ERROR"), rows, empty="")


@operations.command()
@click.argument("operation")
@server_options
@click.pass_obj
def cancel(session: Session, operation: str) -> None:
    """Stop an operation; finished items stay done."""
    found = session.client.operation_cancel(_operation_id(operation))
    if session.as_json:
        session.show_json(found)
    else:
        session.say(f"Operation {found['operation_id']} is {found['status']}; {_progress(found)} done.")


def _operation_id(text: str) -> str:
    if is_id(text):
        return text
    raise CommandFailure(
        f"{text!r} is not the id of an operation.", Exit.USAGE, advice="`tickwise operations list` shows them."
    )
