"""Jobs as rows, and one job as fields: what was said of it, and what follows from that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tickwise.cli import moments, output
from tickwise.cli.labels import labels_text
from tickwise.cli.lookup.names import latest_runs
from tickwise.cli.session import Session
from tickwise.cli.terminal.columns import TableColumn
from tickwise.domain.job_fields import JOB_FIELDS
from tickwise.domain.pauses import pause_in_words

Json = dict[str, Any]

JOBS: Final = (
    TableColumn("JOB", 0),
    TableColumn("NAME", 1, 10),
    TableColumn("STATUS", 3),
    TableColumn("LAST RUN", 4, 50),
    TableColumn("NEXT", 2, 40),
    TableColumn("WHEN", 9, 10),
    TableColumn("KIND", 10, is_wide=True),
    TableColumn("QUEUE", 11, is_wide=True),
    TableColumn("OWNER", 12, is_wide=True),
    TableColumn("KEY", 13, is_wide=True),
    TableColumn("LABELS", 14, is_wide=True),
)
USUAL: Final[Mapping[str, Any]] = {
    "namespace": "default", "timezone": "UTC", "queue": "default", "priority": 5, "allow_network": False,
    "resources": {}, "jitter_seconds": 0.0, "window_seconds": 0.0, "version": 1, "overlap": "skip",
    "misfire": {"grace_seconds": 60.0, "mode": "latest", "max_catchup": 10},
    "limits": {"output_bytes": 10_485_760, "cpu_seconds": None, "memory_bytes": None, "processes": None},
    "retry": {
        "backoff": "exponential", "base_seconds": 1.0, "factor": 2.0, "cap_seconds": 300.0, "jitter": 0.2,
        "delays_seconds": [], "deadline_seconds": None,
        "on": {"exit_code": {}, "error": {}, "status": {}, "reason": {}},
    },
    **{field.name: field.default for field in JOB_FIELDS},
}  # fmt: skip
"""Values of fields that `jobs show` leaves out: those of a job that says nothing of them."""
PAUSE_TIMES: Final = ("paused_at", "pause_until")
_OWN_LINES: Final = frozenset(
    {
        "job_id", "name", "status", "schedule_type", "cron_expression", "interval_seconds", "next_run_at", "task",
        "schedule_time", "warnings",
    }
)  # fmt: skip
_MAX_SOURCE_LINES: Final = 8
"""Lines of a script that are shown."""


def job_table(session: Session, found: Sequence[Json], *, empty: str, more: str | None = None) -> None:
    """Jobs as rows, with the latest run of each."""
    seen_at = moments.now()
    latest = latest_runs(session, [job["job_id"] for job in found])
    rows = [
        (
            session.short(job["job_id"]), job["name"], job["status"],
            last_run(session, latest.get(job["job_id"]), seen_at), next_run(session, job, seen_at), when(job),
            str((job.get("task") or {}).get("kind", "")), job["queue"], job["owner"], job["key"] or "",
            labels_text(job["labels"]),
        )
        for job in found
    ]  # fmt: skip
    output.table(session, JOBS, rows, empty=empty, more=more)


def last_run(session: Session, run: Json | None, seen_at: float) -> str:
    """`SUCCESS 16s ago`."""
    if run is None or _is_to_come(run, seen_at):
        return "–"
    at = run["end_time"] or run["start_time"] or run["due_time"]
    return f"{run['status']} {session.age(at, seen_at=seen_at)}"


def _is_to_come(run: Json, seen_at: float) -> bool:
    """Check whether it has not begun and is due later, as a run that was snoozed: it is the next one, and no last."""
    if run["status"] != "QUEUED" or run["start_time"] is not None:
        return False
    return (moments.instant(run["due_time"]) or 0.0) > seen_at


def next_run(session: Session, job: Json, seen_at: float) -> str:
    """The time of the next run."""
    return session.age(job["next_run_at"], seen_at=seen_at) if job.get("next_run_at") else "–"


def when(job: Json) -> str:
    """A job's schedule in a few words."""
    kind = job["schedule_type"]
    zone = job.get("timezone") or "UTC"
    if kind == "CRON":
        return f"{job['cron_expression']}" + (f" ({zone})" if zone != "UTC" else "")
    if kind == "INTERVAL":
        return f"every {moments.length(job['interval_seconds'])}"
    if kind == "ON_DEMAND":
        return "on demand"
    return "once, at once" if kind == "IMMEDIATE" else "once"


def fields(session: Session, job: Json) -> dict[str, Any]:
    """The fields that get a line: those that say something that is not usual, and what follows from them; with `-o
    wide` all."""
    seen_at = moments.now()
    found: dict[str, Any] = {"job": job["job_id"], "name": job["name"], "status": job["status"], "when": when(job)}
    found["next run"] = session.time(job.get("next_run_at"), seen_at=seen_at)
    found["at"] = session.time(job.get("schedule_time"), seen_at=seen_at)
    found |= task_fields(session, job.get("task") or {})
    shown = set(_OWN_LINES)
    if job["status"] == "PAUSED":
        begin, end = (session.time(job[name], seen_at=seen_at) if job.get(name) else None for name in PAUSE_TIMES)
        words = pause_in_words(by=job.get("paused_by"), since=begin, until=end, reason=job.get("pause_reason"))
        found["paused"] = words.removeprefix("paused ")
        shown |= {*PAUSE_TIMES, "paused_by", "pause_reason"}
    for name, value in job.items():
        if name in shown or not says_something(value) or not (session.is_wide or _is_unusual(job, name, value)):
            continue
        if name.endswith(("_at", "_until")) and isinstance(value, str):
            value = session.time(value, seen_at=seen_at)
        found[name.replace("_", " ")] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for number, warning in enumerate(job.get("warnings") or [], 1):
        found[f"warning {number}"] = warning
    return found


def says_something(value: Any) -> bool:
    """Check whether a field of a job is set; an object without a set member is not."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    return value not in (None, "", [])


def _is_unusual(job: Json, name: str, value: Any) -> bool:
    if name == "timezone" and job["schedule_type"] == "CRON":
        return False  # it stands beside the cron line
    if name == "owner":
        return bool(value != job.get("created_by"))
    if name in ("updated_at", "planned_at", "anchor"):
        return bool(value != job.get("created_at")) and job.get("version", 1) > 1
    return name not in USUAL or bool(USUAL[name] != value)


def task_fields(session: Session, task: Json) -> dict[str, Any]:
    """The task: its kind, its command or the beginning of its source as they are, then the rest of it."""
    found: dict[str, Any] = {"kind": task.get("kind")}
    for name, value in task.items():
        if name == "kind" or not says_something(value):
            continue
        if name == "name":
            found[str(task.get("kind"))] = value  # `function  clean_up`
        elif name == "files" and isinstance(value, dict):
            found["files"] = ", ".join(value)
        elif name == "command" and isinstance(value, str):
            found["command"] = _excerpt(session, value)
        elif isinstance(value, str) and "\n" in value.rstrip("\n"):
            found[name] = _excerpt(session, value)
        else:
            found[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return found


def _excerpt(session: Session, text: str) -> str:
    """The first lines of a text; of several in a pipe, where a field is one line, their number."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) == 1:
        return lines[0]
    if session.width is None and not session.is_wide:
        return f"{len(lines)} lines"
    if len(lines) > _MAX_SOURCE_LINES and not session.is_wide:
        lines = [*lines[:_MAX_SOURCE_LINES], f"… ({len(lines)} lines; -o wide shows all)"]
    return "\n".join(lines)
