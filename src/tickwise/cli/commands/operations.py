"""`tickwise operations …`: operations over many subjects, and their progress."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.lookup.endings import is_id, listed_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, list_options, server_options


@click.group()
def operations() -> None:
    """Look at bulk operations, and cancel them."""


@operations.command("list")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_operations(session: Session, limit: int) -> None:
    """List operations, newest first."""
    found, more = first_of(session, "/operations", {}, limit)
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (session.short(each["operation_id"]), each["kind"], each["status"], _progress(each), str(each["refused"]),
         session.age(each["created_at"], seen_at=seen_at), each["created_by"])
        for each in found
    ]  # fmt: skip
    output.table(
        session,
        ("OPERATION", "WHAT", "STATUS", "DONE", "REFUSED", "ASKED FOR", "BY"),
        rows,
        empty="No operations.",
        more=more,
    )


def _progress(found: dict[str, Any]) -> str:
    return str(found["done"]) if found["matched"] is None else f"{found['done']} of {found['matched']}"


@operations.command()
@click.argument("operation")
@click.option("--wait", is_flag=True, help="Wait until it has ended.")
@list_options
@click.pass_obj
def show(session: Session, operation: str, wait: bool) -> None:
    """Show an operation: what it does, how far it has come, and what it could not do."""
    identifier = _operation_id(session, operation)
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
        output.entries(session, ("ID", "CODE", "ERROR"), rows, lead=2, empty="")


@operations.command()
@click.argument("operation")
@server_options
@click.pass_obj
def cancel(session: Session, operation: str) -> None:
    """Stop an operation; finished items stay done."""
    found = session.client.operation_cancel(_operation_id(session, operation))
    if session.as_json:
        session.show_json(found)
    else:
        session.say(f"Operation {found['operation_id']} is {found['status']}; {_progress(found)} done.")


def _operation_id(session: Session, text: str) -> str:
    found = listed_id(session, "/operations", "operation_id", text)
    if is_id(found):
        return found
    raise CommandFailure(
        f"{text!r} is not the id of an operation, or the end of one.", Exit.USAGE,
        advice="`tickwise operations list` shows them.",
    )  # fmt: skip
