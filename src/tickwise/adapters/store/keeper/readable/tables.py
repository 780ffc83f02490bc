"""The readable tables: their keys, their columns, and the port to the database that has them.

    jobs       ((namespace, part), job_id)                                  part: the last digit of the job's id
    runs       ((namespace, hour, part), job_id, run_id, newest first)      hour: of the time in the run's id
    attempts   ((namespace, hour, part), job_id, run_id, execution_token)   part: the last byte of the job's id, mod 64
    run_hours  ((namespace, job_id), hour, newest first)                    hours with runs of a job, beside its first
    due        ((shard, hour, part), due_at, namespace, job_id)
    audit      ((namespace, hour), entry, newest first)
    audit_hours (namespace, hour, newest first)

Runs and their attempts share partitions, so one write stores both. All keys hold the namespace or the shard: no two
logs write the same row. Invariant: a key follows from ids, a namespace and the time of one event, and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

HOUR_MILLIS: Final = 3_600_000
JOB_PARTS: Final = 16
"""A million jobs of a namespace: 62,500 rows a partition, some 40 MB."""
RUN_PARTS: Final = 64
"""At 5,000 runs a second of a namespace: 280,000 rows a partition, some 100 MB."""
DUE_PARTS: Final = 16
"""A million timers in one hour: 62,500 rows a partition."""


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: each row looks one up
class ReadableTable:
    """A table. Tables of one `group` share partitions."""

    name: str
    group: str
    partition: tuple[str, ...]
    clustering: tuple[str, ...]
    columns: tuple[str, ...]


_RUN_PARTITION: Final = ("namespace", "hour", "part")

JOBS: Final = ReadableTable(
    "jobs", "jobs", ("namespace", "part"), ("job_id",),
    (
        "name", "job_key", "state", "schedule_type", "task_kind", "queue", "priority", "requires", "labels", "owner",
        "definition", "recurring", "version", "created_at", "created_by", "updated_at", "next_due_at", "timer_hold",
        "fired", "paused_at", "pause_until", "pause_reason", "paused_by", "first_hour",
    ),
)  # fmt: skip
RUNS: Final = ReadableTable(
    "runs", "runs", _RUN_PARTITION, ("job_id", "run_id"),
    (
        "state", "trigger", "due_at", "nominal_at", "queued_at", "ready_at", "dispatched_at", "started_at", "ended_at",
        "attempt", "failures", "crashes", "executor", "execution_token", "reason", "error", "result", "origin",
        "definition", "occurrences", "until_at", "cancel_asked_at", "cancel_error", "cancel_heard_at",
    ),
)  # fmt: skip
ATTEMPTS: Final = ReadableTable(
    "attempts", "runs", _RUN_PARTITION, ("job_id", "run_id", "execution_token"),
    (
        "attempt", "executor", "state", "dispatched_at", "started_at", "ended_at", "reason", "error", "cpu_seconds",
        "memory_bytes", "output_bytes", "read_bytes", "written_bytes", "network_bytes", "work_bytes", "image",
    ),
)  # fmt: skip
RUN_HOURS: Final = ReadableTable("run_hours", "run_hours", ("namespace", "job_id"), ("hour",), ())
DUE: Final = ReadableTable("due", "due", ("shard", "hour", "part"), ("due_at", "namespace", "job_id"), ("hold",))
AUDIT: Final = ReadableTable(
    "audit", "audit", ("namespace", "hour"), ("entry",),
    (
        "at", "action", "source_kind", "source_id", "source_name", "source_address", "request_id", "target_kind",
        "target", "targets", "value_before", "value_after", "detail",
    ),
)  # fmt: skip
AUDIT_HOURS: Final = ReadableTable("audit_hours", "audit_hours", ("namespace",), ("hour",), ())

READABLE: Final = (JOBS, RUNS, ATTEMPTS, RUN_HOURS, DUE, AUDIT, AUDIT_HOURS)


def hour_of(millis: int) -> int:
    """The begin of the hour of a time, in ms."""
    return millis - millis % HOUR_MILLIS


def hour_of_run(run_id: UUID) -> int:
    """The begin of the hour in which a run is filed: that of the time in its id, in ms."""
    return hour_of(run_id.int >> 80)


def job_part(job_id: UUID) -> int:
    """The part of `jobs` that has a job: the last hexadecimal digit of its id."""
    return job_id.int % JOB_PARTS


def run_part(job_id: UUID) -> int:
    """The part of `runs` and `attempts` that has the runs of a job."""
    return job_id.int % RUN_PARTS


def due_part(job_id: UUID) -> int:
    """The part of `due` that has the timer of a job: the last hexadecimal digit of its id."""
    return job_id.int % DUE_PARTS


class RowWrite(NamedTuple):
    """A row, or what is new in it, or its end."""

    table: ReadableTable
    key: tuple[Any, ...]
    """Partition, then clustering."""
    position: int
    """Its timestamp."""
    columns: Mapping[str, Any] | None
    """None empties a column; those that are left out stay as they are. Times in ms. None in place of all: the row is
    deleted."""


class PartitionDrop(NamedTuple):
    """The end of all rows of a partition, in all tables of its group."""

    group: str
    key: tuple[Any, ...]
    position: int


class TablesPlace(NamedTuple):
    """The place of a projection in the tables."""

    generation: int
    """Grows when all tables are made anew."""
    position: int | None
    """Up to there all entries are in the tables; None: these tables are new."""


class ReadableTables(Protocol):
    """A database with the tables, for one shard. Each method raises `StoreUnavailable` if it cannot be reached, and
    `Misconfigured` if a table is not there."""

    async def place(self) -> TablesPlace:
        """Read the place of this shard."""
        ...

    async def write(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        """Store rows of one partition, and drop what was there before. They count by their positions, not by their
        order; a repeat changes nothing. Raises `Bug` for what the database can never take."""
        ...

    async def keep_place(self, place: TablesPlace) -> None:
        """Note how far the tables are. A lower position never replaces a higher one."""
        ...
