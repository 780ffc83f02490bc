"""`tickwise roles …` and `tickwise executors …`: the active roles, and the processes that run tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from tickwise.cli import moments, output
from tickwise.cli.session import Session, list_options
from tickwise.domain.rules.capacities import size_in_words


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
            _offers(each),
            str(each["slots"]),
            str(each["held"]),
        )
        for each in found
    ]
    head = ("EXECUTOR", "NAME", "STATE", "QUEUES", "NAMESPACES", "OFFERS", "SLOTS", "HELD")
    output.table(session, head, rows, empty="No executor is there. Start one: tickwise executor")


def _offers(executor: Mapping[str, Any]) -> str:
    """Its labels and what it can give tasks: `zone=eu, sandbox, gpu: 1 of 2 free, memory: 6 GB of 8 GB free`."""
    parts = [*executor["labels"], *(level for level in executor["isolation"] if level != "process")]
    parts += [f"{name}: {each['free']} of {each['total']} free" for name, each in executor["resources"].items()]
    memory = executor["memory"]
    if memory is not None:
        free = max(0, memory["total_bytes"] - memory["reserved_bytes"])
        parts.append(f"memory: {size_in_words(free)} of {size_in_words(memory['total_bytes'])} free")
    parts += [f"run as {user}" for user in executor["run_as"]]
    return ", ".join(parts)
