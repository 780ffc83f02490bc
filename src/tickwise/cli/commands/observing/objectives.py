"""`tickwise objectives …`: how the objectives for starts stand, and those by priority or labels."""

from __future__ import annotations

from typing import Any

import click

from tickwise.cli import moments, output, work
from tickwise.cli.failures import CommandFailure, Exit
from tickwise.cli.labels import labels_text, read_labels
from tickwise.cli.lookup.endings import is_id
from tickwise.cli.lookup.pages import first_of
from tickwise.cli.session import Session, list_options, view_options

Json = dict[str, Any]


@click.group()
def objectives() -> None:
    """Manage objectives for starts, and see their error budgets."""


@objectives.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="The most rows to show.")
@list_options
@click.pass_obj
def list_objectives(session: Session, limit: int) -> None:
    """List the objectives of jobs, and those by priority or labels.

    A job has one by --objective of `tickwise jobs create` and `jobs edit`.
    """
    found, more = first_of(session, "/objectives", {}, limit, page=50)
    if session.as_json:
        session.show_json(found)
        return
    rows = [
        (
            each["name"], _scope(each), each["state"],
            f"{each['ratio']:.3%} in {moments.length(each['start_within_seconds'])}",
            str(each["good"]), str(each["late"]), f"{each['budget_left']:.1%}" if each["budget_left"] > 0 else "none",
            f"{max(burn['rate'] for burn in each['burn']):.1f}",
        )
        for each in found
    ]  # fmt: skip
    titles = ("NAME", "OF", "STATE", "OBJECTIVE", "IN TIME", "LATE", "BUDGET LEFT", "BURN")
    output.table(session, titles, rows, empty="There is no objective.", more=more)


@objectives.command("create")
@click.argument("name")
@click.option("--within", required=True, metavar="DURATION", help="The runs begin within this time of their due time.")
@click.option("--ratio", type=float, help="This share of them, above 0 and below 1.  [0.99]")
@click.option("--priority", type=click.IntRange(0, 9), help="Of jobs with this priority.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of jobs with this label.")
@view_options
@click.pass_obj
def create(
    session: Session, name: str, *, within: str, ratio: float | None, priority: int | None, labels: tuple[str, ...]
) -> None:
    """Make an objective by priority or labels; without both it is about all runs of the namespace.

    tickwise objectives create urgent --within 5s --ratio 0.995 --priority 9
    """
    body: Json = {"name": name, "start_within_seconds": work.duration_seconds("--within", within)}
    if ratio is not None:
        body["ratio"] = ratio
    if priority is not None:
        body["priority"] = priority
    if labels:
        body["labels"] = read_labels(labels)
    for pointer, option, text in (("/name", "NAME", name), ("/start_within_seconds", "--within", within)):
        work.blame(session, pointer, option, text)
    work.blame(session, "/ratio", "--ratio", ratio)
    made = session.client.request("POST", "/objectives", body=body).body
    if session.as_json:
        session.show_json(made)
        return
    session.say(f"Objective {output.safe(made['name'])} is made. It counts the runs that end from now on.")


@objectives.command("remove")
@click.argument("objective")
@view_options
@click.pass_obj
def remove(session: Session, objective: str) -> None:
    """Remove an objective by priority or labels, by its name or id."""
    path = f"/objectives/{objective if is_id(objective) else _id_of(session, objective)}"
    removed = session.client.request("DELETE", path).body
    if session.as_json:
        session.show_json(removed)
        return
    session.say(f"Objective {output.safe(removed['name'])} is removed.")


def _id_of(session: Session, name: str) -> str:
    pages = session.client.pages("/objectives", {"limit": 50})
    found = [each for page in pages for each in page if each["objective_id"] is not None]
    for each in found:
        if each["name"] == name:
            return str(each["objective_id"])
    names = ", ".join(each["name"] for each in found)
    advice = f"there are: {names}" if names else "there is none by priority or labels"
    raise CommandFailure(f"there is no objective {name!r}.", Exit.NOT_FOUND, advice=advice)


def _scope(each: Json) -> str:
    if each["job_id"] is not None:
        return "job"
    parts = [] if each["priority"] is None else [f"priority {each['priority']}"]
    if each["labels"]:
        parts.append(labels_text(each["labels"]))
    return ", ".join(parts) or "all runs"
