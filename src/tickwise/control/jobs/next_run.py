"""The time of a job's next run, as people are told it."""

from __future__ import annotations

from tickwise.documents.definition import Definition
from tickwise.domain.decision import Hold
from tickwise.domain.schedule import first_fire
from tickwise.ports.store import JobRow


def next_run_of(row: JobRow, definition: Definition) -> float | None:
    """The time of its next run. A pause with an end is a time to look again, and the schedule may name another."""
    timer, next_run = row.timer, row.next_run_at
    if timer is None or timer.hold is not Hold.PAUSED or next_run is None or next_run != timer.due:
        return next_run
    return first_fire(definition.schedule(row.job_id), next_run)
