"""Runs and their attempts as rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from tickwise.cli import moments, output
from tickwise.cli.lookup.names import names_of
from tickwise.cli.session import Session
from tickwise.cli.terminal.columns import TableColumn
from tickwise.domain.excerpts import cause_line

Json = dict[str, Any]

NAME: Final = TableColumn("NAME", 2, 10)
RUNS: Final = (
    TableColumn("RUN", 0),
    TableColumn("STATUS", 1),
    TableColumn("STARTED", 3, 40),
    TableColumn("TOOK", 4),
    TableColumn("TRY", 8),
    TableColumn("ERROR", 9, 10),
    TableColumn("TRIGGER", 10, is_wide=True),
    TableColumn("EXECUTOR", 11, is_wide=True),
    TableColumn("JOB", 12, is_wide=True),
)
HIDDEN: Final = frozenset({"log_url", "payload_bytes", "queued_time", "dispatched_time"})
"""Fields of a run that `runs show` leaves out: for programs, and for questions that few people ask."""
USUAL: Final[Mapping[str, Any]] = {
    "failures": 0, "crashes": 0, "waiting": False, "waits_for_slot": False, "paced": False, "occurrences": 1,
    "payload_from": "job",
}  # fmt: skip
"""Values of fields that it leaves out too."""
MOVED: Final = ("read_bytes", "written_bytes", "network_bytes", "work_bytes")
"""The parts of an attempt's usage that few people ask for."""
ATTEMPTS: Final = (
    TableColumn("TRY", 0),
    TableColumn("STATUS", 1),
    TableColumn("STARTED", 2, 40),
    TableColumn("TOOK", 3),
    TableColumn("CPU", 5),
    TableColumn("MEMORY", 6),
    *[TableColumn(name.partition("_")[0].upper(), is_wide=True) for name in MOVED],
    TableColumn("IMAGE", is_wide=True),
    TableColumn("EXECUTOR", 7),
    TableColumn("ERROR", 4, 10),
)


def run_table(session: Session, found: Sequence[Json], *, with_job: bool, more: str | None = None) -> None:
    """Runs as rows; `with_job`: with the names of their jobs."""
    seen_at = moments.now()
    names = names_of(session, [run["job_id"] for run in found]) if with_job else {}
    rows = []
    for run in found:
        row = [
            session.short(run["run_id"]), run["status"], started(session, run, seen_at), took(session, run, seen_at),
            str(run.get("attempt_number") or ""), cause_line(run.get("error_message")), str(run.get("trigger") or ""),
            str(run.get("executor_id") or ""), session.short(run["job_id"]),
        ]  # fmt: skip
        if with_job:
            row.insert(1, names.get(run["job_id"], session.short(run["job_id"])))
        rows.append(row)
    columns = [RUNS[0], NAME, *RUNS[1:]] if with_job else RUNS
    output.table(session, columns, rows, empty="No runs.", more=more)


def fields(session: Session, run: Json, seen_at: float) -> dict[str, Any]:
    """The fields that get a line: those that say something that is not usual; with `-o wide` all."""
    name = names_of(session, [run["job_id"]]).get(run["job_id"]) if "job_id" in run else None
    found: dict[str, Any] = {}
    for field, value in run.items():
        if field in ("attempts", "warnings", "anomalies") or value in (None, "", [], {}):
            continue
        if not session.is_wide and (field in HIDDEN or USUAL.get(field) == value or _is_repeated(run, field)):
            continue
        if field == "progress":
            value = f"{value['share']:.0%} {value['text']}".rstrip()
        if field.endswith(("_time", "_at")) and isinstance(value, str):
            value = session.time(value, seen_at=seen_at)
        found[field.replace("_", " ")] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if field == "job_id":
            found["job name"] = name
    for number, warning in enumerate(run.get("warnings") or [], 1):
        found[f"warning {number}"] = warning
    for each in run.get("anomalies") or []:
        written = moments.size if each["quantity"] == "output" else moments.length
        found[f"unusual {each['quantity']}"] = (
            f"{written(each['value'])}, usually {written(each['low'])} to {written(each['high'])}"
        )
    return found


def _is_repeated(run: Json, field: str) -> bool:
    """Check whether a time says what another one says."""
    same = {"due_time": "nominal_time", "modified_time": "end_time", "origin": "retry_of"}
    return field in same and run[field] == run.get(same[field])


def started(session: Session, run: Json, seen_at: float) -> str:
    """The start of a run; of one that has none, the time at which it was due."""
    if run.get("start_time"):
        return session.age(run["start_time"], seen_at=seen_at)
    return f"due {session.age(run['due_time'], seen_at=seen_at)}"


def took(session: Session, run: Json, seen_at: float) -> str:
    """The time from its start to its end, or until now; empty: it has not begun."""
    began, ended = moments.instant(run.get("start_time")), moments.instant(run.get("end_time"))
    if began is None:
        return ""
    return session.span(max(0.0, (seen_at if ended is None else ended) - began))


def attempts_table(session: Session, attempts: Sequence[Json], seen_at: float) -> None:
    """The attempts of a run as rows, if it has any."""
    if attempts:
        click.echo()
        output.table(session, ATTEMPTS, [
            (str(each["attempt_number"]), each["status"], session.age(each.get("start_time"), seen_at=seen_at),
             took(session, each, seen_at), _measured(session.span, each.get("cpu_seconds")),
             _measured(moments.size, each.get("memory_bytes")),
             *[_measured(moments.size, each.get(name)) for name in MOVED], str(each.get("image") or ""),
             str(each.get("executor_id") or ""),
             cause_line(each.get("error_message") or each.get("reason")))
            for each in attempts
        ], empty="")  # fmt: skip


def _measured(written: Callable[[float], str], value: float | None) -> str:
    """A measured quantity; empty: it was not measured."""
    return "" if value is None else written(value)
