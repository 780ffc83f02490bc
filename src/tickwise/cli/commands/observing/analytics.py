"""`tickwise analytics`: ended runs counted and measured by groups."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from tickwise.cli import bulk, moments, output, work
from tickwise.cli.commands.runs import past
from tickwise.cli.references import job_id
from tickwise.cli.session import Session, view_options

SORTS: Final = ("runs", "failed", "seconds", "cpu")
TOP_MOST: Final = 100
ROWS: Final = {"none": "(none)", "rest": "(all others)"}


@click.command()
@click.option(
    "--group-by",
    default="job",
    show_default=True,
    metavar="WHAT",
    help="job, label:NAME, namespace, executor, reason or hour.",
)
@click.option(
    "--since", metavar="TIME", help="Due since then: '2026-11-21 08:00', or 2h (ago).  [a day before the end]"
)
@click.option("--until", metavar="TIME", help="Due until then: a time, or 2h (ago).  [now]")
@click.option(
    "--sort", type=click.Choice(SORTS), default="runs", show_default=True, help="Sort by this, the largest first."
)
@click.option(
    "--top",
    type=click.IntRange(1, TOP_MOST),
    default=20,
    show_default=True,
    help="The most groups with a row of their own.",
)
@click.option("--job", metavar="JOB", help="Runs of this job: its id, key or name.")
@click.option("--status", "statuses", multiple=True, help="SUCCESS, FAILED, CANCELLED or SKIPPED; repeat it for more.")
@click.option(
    "--trigger", "triggers", multiple=True, type=click.Choice(bulk.TRIGGERS), help="The trigger; repeat it for more."
)
@click.option("--reason", help="Ended for this reason, such as timeout.")
@click.option("--name", "job_name", metavar="TEXT", help="Runs of jobs with this in their name.")
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="Of jobs with this label; repeat it for more."
)
@click.option("--queue", help="Runs of jobs of this queue.")
@click.option("--executor", metavar="ID", help="Runs that this executor had last.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@view_options
@click.pass_obj
def analytics(session: Session, /, as_csv: bool, **said: Any) -> None:
    """Count and measure ended runs by groups.

    \b
    tickwise analytics --group-by job --sort failed --since 7d
    tickwise analytics --group-by label:team --csv
    """
    query = _query(session, said)
    if as_csv:
        stream = session.client.stream("/analytics", query={**query, "format": "csv"})
        for piece in stream:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    found = session.client.request("GET", "/analytics", query=query).body
    if session.as_json:
        session.show_json(found)
        return
    _show(session, found)


def _query(session: Session, said: dict[str, Any]) -> dict[str, Any]:
    query: dict[str, Any] = {
        "group_by": said["group_by"],
        "from": past(session, "--since", said["since"]),
        "until": past(session, "--until", said["until"]),
        "sort": said["sort"],
        "top": said["top"],
        "job_id": None if said["job"] is None else job_id(session, said["job"]),
        "status": [status.upper() for status in said["statuses"]] or None,
        "trigger": list(said["triggers"]) or None,
        "reason": said["reason"],
        "job_name": said["job_name"],
        "label": list(said["labels"]) or None,
        "queue": said["queue"],
        "executor_id": said["executor"],
    }
    work.blame(session, "?group_by", "--group-by", said["group_by"])
    for option, name in (("--since", "from"), ("--until", "until"), ("--executor", "executor_id")):
        work.blame(session, f"?{name}", option, said["executor" if name == "executor_id" else option[2:]] or "")
    for status in said["statuses"]:
        work.blame(session, "?status", "--status", status)
    for label in said["labels"]:
        work.blame(session, "?label", "--label", label)
    return {name: value for name, value in query.items() if value is not None}


def _show(session: Session, found: dict[str, Any]) -> None:
    rows = [_cells(session, row, found["group_by"]) for row in found["groups"]]
    titles = (
        "GROUP",
        "RUNS",
        "FAILED",
        "SUCCESS",
        "P50",
        "P95",
        "P99",
        "MAX",
        "LATE P95",
        "TOOK",
        "RETRIES",
        "CPU",
        "MEM P95",
    )
    if rows:
        rows.append(("total", *_figures(found["total"])))
    output.table(session, titles, rows, empty="No run has ended in this time.")
    if found["coverage"] == "sampled":
        session.note(f"Estimated from {found['rows_read']} runs, a sample of {found['share']:.2%}.")
    if found["coverage"] == "newest":
        session.note(f"Only the newest {found['rows_read']} runs, due since {session.time(found['since'])}.")


def _cells(session: Session, row: dict[str, Any], group_by: str) -> tuple[str, ...]:
    name = ROWS.get(row["kind"]) or row["name"] or str(row["key"])
    if group_by == "hour" and row["key"] is not None:
        name = session.time(row["key"])
    return (name, *_figures(row))


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    ratio, took, late, memory = row["success_ratio"], row["duration"], row["lateness"], row["memory"]
    return (
        str(row["runs"]),
        str(row["by_status"]["FAILED"]),
        "" if ratio is None else f"{ratio:.2%}",
        *("" if took is None else moments.length(took[name]) for name in ("p50", "p95", "p99", "max")),
        "" if late is None else moments.length(late["p95"]),
        moments.length(row["seconds"]) if row["seconds"] else "",
        str(row["retries"] or ""),
        "" if row["cpu"] is None else moments.length(row["cpu_seconds"]),
        "" if memory is None else moments.size(memory["p95"]),
    )
