"""`tickwise roles …` and `tickwise executors …`: the active roles, and the processes that run tasks."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import moments, output
from tickwise.cli.session import Session, list_options


@click.group()
def roles() -> None:
    """Look at the active roles.

    They are the processes of this installation. `tickwise users roles` is about the roles of people.
    """


@roles.command("list")
@list_options
@click.pass_obj
def list_roles(session: Session) -> None:
    """List the roles that reported within the last ten seconds.

    A role that cannot reach Redis, or the database where there is none, is missing here and may work all the same.
    """
    found: list[dict[str, Any]] = session.client.roles_list()
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            " ".join([each["role"], *([f"({', '.join(each['serves'])})"] if each["serves"] else [])]),
            each["name"],
            each["version"],
            session.age(each["since"], seen_at=seen_at),
            session.age(each["last_scan_at"], seen_at=seen_at) if each["last_scan_at"] else "",
            each["health_url"] or "",
        )
        for each in found
    ]
    head = ("ROLE", "PROCESS", "VERSION", "SINCE", "LAST SCAN", "HEALTH")
    output.table(session, head, rows, empty="No role has reported itself yet: this server may still be starting.")


@click.group()
def executors() -> None:
    """Look at the executors."""


@executors.command("list")
@list_options
@click.pass_obj
def list_executors(session: Session) -> None:
    """List the active executors, and those gone within the last hour: what they take, and how much they hold.

    With permissions in one namespace alone, these are the executors that may claim its runs.
    """
    found: list[dict[str, Any]] = session.client.executors_list()
    if session.as_json:
        session.show_json(found)
        return
    seen_at = moments.now()
    rows = [
        (
            each["executor_id"],
            each["name"],
            "active" if each["alive"] else f"gone {session.age(each['gone_at'], seen_at=seen_at)}",
            " ".join(each["queues"]),
            "all" if each["namespaces"] is None else " ".join(each["namespaces"]),
            " ".join(each["labels"]),
            str(each["slots"]),
            str(each["held"]),
        )
        for each in found
    ]
    head = ("EXECUTOR", "NAME", "STATE", "QUEUES", "NAMESPACES", "LABELS", "SLOTS", "HELD")
    output.table(session, head, rows, empty="No executor is there. Start one: tickwise executor")
