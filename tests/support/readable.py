"""A model of a database with the readable tables, and what must stand in them.

`ModelTables` keeps cells as Cassandra does: of two writes the higher timestamp counts, of a write and an end at one
timestamp the end, of two values at one timestamp the greater one. `expected_rows` says what must be there, from a state
alone: it knows nothing of logs, images or projectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tickwise.adapters.store.keeper.blocks import names_in, pages_of_blocks
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.readable.pending import PendingRows
from tickwise.adapters.store.keeper.readable.shadow import Shadow
from tickwise.adapters.store.keeper.readable.tables import (
    ATTEMPTS,
    AUDIT,
    DUE,
    JOBS,
    READABLE,
    RUNS,
    PartitionDrop,
    ReadableTable,
    RowWrite,
    TablesPlace,
)
from tickwise.adapters.store.keeper.readable.window import ChangeWindow
from tickwise.adapters.store.memory.rows import Report, attempt_row
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import TickwiseError
from tickwise.domain.model import Trigger
from tickwise.ports.store import AttemptRow, RunRow

HOUR = 3_600_000
Rows = dict[tuple[Any, ...], dict[str, Any]]


class ModelTables:
    """The port `ReadableTables`, in memory. `fails`: the next calls raise this."""

    def __init__(self) -> None:
        self.generation = 1
        self.kept: int | None = None
        self.fails: TickwiseError | None = None
        self.writes: list[tuple[Sequence[RowWrite], PartitionDrop | None]] = []
        """All that came, in its order."""
        self.lose()

    def lose(self) -> None:
        """Empty tables, and no place."""
        self.kept = None
        self._cells: dict[tuple[str, tuple[Any, ...]], dict[str, tuple[int, Any]]] = {}
        self._ends: dict[tuple[str, tuple[Any, ...]], int] = {}
        self._drops: dict[tuple[str, tuple[Any, ...]], int] = {}

    async def place(self) -> TablesPlace:
        self._fail()
        return TablesPlace(self.generation, self.kept)

    async def keep_place(self, place: TablesPlace) -> None:
        self._fail()
        if place.generation == self.generation and place.position is not None:
            self.kept = max(self.kept or 0, place.position)

    async def write(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        self._fail()
        self.writes.append((list(rows), drop))
        self.store(rows, drop)

    def store(self, rows: Sequence[RowWrite], drop: PartitionDrop | None) -> None:
        """Store at once."""
        partitions = {(row.table.group, row.key[: len(row.table.partition)]) for row in rows}
        partitions |= {(drop.group, drop.key)} if drop is not None else set()
        assert 1 == len(partitions), "a write is of one partition"
        if drop is not None:
            self._drops[drop.group, drop.key] = max(drop.position, self._drops.get((drop.group, drop.key), 0))
        for table, key, position, columns in rows:
            assert len(key) == len(table.partition) + len(table.clustering)
            if columns is None:
                self._ends[table.name, key] = max(position, self._ends.get((table.name, key), 0))
                continue
            assert columns.keys() <= set(table.columns)
            cells = self._cells.setdefault((table.name, key), {})
            for name, value in {"": True, **columns}.items():
                stamp, before = cells.get(name, (0, None))
                greater = position == stamp and repr(value) > repr(before)
                if position > stamp or greater:
                    cells[name] = (position, value)

    def rows(self, table: ReadableTable) -> Rows:
        """The rows of a table by their keys; columns without a value are left out."""
        found: Rows = {}
        for (name, key), cells in self._cells.items():
            if name == table.name:
                partition = table.group, key[: len(table.partition)]
                end = max(self._ends.get((name, key), 0), self._drops.get(partition, 0))
                live = {column: value for column, (stamp, value) in cells.items() if stamp > end}
                if live:
                    found[key] = {
                        column: value for column, value in live.items() if column and value not in (None, [], {})
                    }
        return found

    def tombstones(self, table: ReadableTable) -> int:
        """Ends of single rows."""
        return sum(name == table.name for name, _ in self._ends)

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None or not math.isfinite(seconds) else math.floor(seconds * 1_000)


def _some(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty; a text as far as UTF-8 has bytes for it."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in columns.items()
        if value not in (None, [], {})
    }


def expected_rows(state: State, shard: int = 0) -> dict[str, Rows]:
    """The rows of jobs, timers, runs, attempts and audit entries of a state, by table."""
    found: dict[str, Rows] = {table.name: {} for table in (JOBS, DUE, RUNS, ATTEMPTS, AUDIT)}
    for job in state.jobs.values():
        due = None if job.timer is None else _ms(job.timer.pending.due)
        pending = None if job.timer is None else job.timer.pending
        hold = pending.hold.value if pending is not None and pending.hold is not None else None
        found["jobs"][job.namespace, job.job_id.int % 16, job.job_id] = _some(
            {
                "name": job.name, "job_key": job.key, "schedule_type": job.schedule_type, "task_kind": job.task_kind,
                "queue": job.lane.queue, "priority": job.lane.priority, "requires": list(job.lane.requires),
                "labels": dict(job.labels), "owner": job.owner, "definition": job.definition, "version": job.version,
                "recurring": job.recurring, "created_at": _ms(job.created_at), "created_by": job.created_by,
                "updated_at": _ms(job.updated_at), "next_due_at": due, "timer_hold": hold,
                "fired": None if pending is None else pending.fired, "paused_at": _ms(job.paused_at),
                "pause_until": _ms(job.pause_until), "pause_reason": job.pause_reason, "paused_by": job.paused_by,
                "state": {"pause": "PAUSED", "cancel": "CANCELLED"}.get(job.standing or "", "ACTIVE"),
            }
        )  # fmt: skip
        if due is not None:
            key = (shard, due - due % HOUR, job.job_id.int % 16, due, job.namespace, job.job_id)
            found["due"][key] = _some({"hold": hold})
    for run in state.runs.values():
        row = state.run_row(run)
        ready = None if run.ready == math.inf else run.ready
        _add_run(found, row._replace(ready_at=ready), run.token)
        current = [attempt_row(run, run.state, Report(started=run.started))] if run.held else []
        _add_attempts(found, row, [*run.attempts, *current])
    for ended in state.ended.values():
        _add_run(found, ended.row, ended.token)
        _add_attempts(found, ended.row, ended.attempts)
    for entry in state.audit.rows.values():
        at = math.floor(entry.at * 1_000)
        found["audit"][entry.namespace, at - at % HOUR, entry.entry] = _some(
            {
                "at": at, "action": str(entry.action), "source_kind": str(entry.source.kind),
                "source_id": entry.source.caller_id, "source_name": entry.source.name,
                "source_address": entry.source.address, "request_id": entry.source.request_id,
                "target_kind": entry.target_kind, "target": entry.target, "targets": list(entry.targets),
                "value_before": entry.before, "value_after": entry.after, "detail": entry.detail,
            }
        )  # fmt: skip
    return found


def _run_key(row: RunRow) -> tuple[Any, ...]:
    at = row.run_id.int >> 80
    return row.namespace, at - at % HOUR, row.job_id.int % 64, row.job_id, row.run_id


def _add_run(found: dict[str, Rows], row: RunRow, token: int) -> None:
    cancel = row.cancel
    ended = {"occurrences": row.occurrences, "until_at": _ms(row.until)} if row.ended_at is not None else {}
    found["runs"][_run_key(row)] = _some(
        {
            "state": row.state.value, "trigger": Trigger(row.trigger).name, "due_at": _ms(row.due_at),
            "nominal_at": _ms(row.nominal_at), "queued_at": _ms(row.queued_at), "ready_at": _ms(row.ready_at),
            "dispatched_at": _ms(row.dispatched_at), "started_at": _ms(row.started_at), "ended_at": _ms(row.ended_at),
            "attempt": row.attempt, "failures": row.failures, "crashes": row.crashes, "executor": row.executor,
            "execution_token": token or None, "reason": row.reason, "error": row.error, "result": row.result,
            "origin": row.origin, "definition": row.definition,
            "cancel_asked_at": None if cancel is None else _ms(cancel.asked_at),
            "cancel_error": None if cancel is None else cancel.error,
            "cancel_heard_at": None if cancel is None else _ms(cancel.heard_at), **ended,
        }
    )  # fmt: skip


def _add_attempts(found: dict[str, Rows], row: RunRow, attempts: Sequence[AttemptRow]) -> None:
    for each in attempts:
        found["attempts"][(*_run_key(row), each.token)] = _some(
            {
                "attempt": each.attempt, "executor": each.executor, "state": each.state.value,
                "dispatched_at": _ms(each.dispatched_at), "started_at": _ms(each.started_at),
                "ended_at": _ms(each.ended_at), "reason": each.reason, "error": each.error,
                "cpu_seconds": each.cpu_seconds, "memory_bytes": each.memory_bytes, "output_bytes": each.output_bytes,
                "read_bytes": each.read_bytes, "written_bytes": each.written_bytes,
                "network_bytes": each.network_bytes, "work_bytes": each.work_bytes, "image": each.image,
            }
        )  # fmt: skip


def wrong_rows(tables: Mapping[str, Rows], state: State, shard: int = 0) -> dict[str, Any]:
    """Rows that differ from the state, by table. A run or an entry past its retention may stay while others of
    its partition are kept."""
    wrong: dict[str, Any] = {}
    live = {(run.job.job_id, run.run_id) for run in state.runs.values()}
    known = live | {(each.row.job_id, run_id) for run_id, each in state.ended.items()}
    partitions = {key[:3] for key in expected_rows(state, shard)["runs"]}
    for name, rows in expected_rows(state, shard).items():
        there = {key: _some(row) for key, row in tables[name].items()}
        if name == "jobs":
            there = {
                key: {column: value for column, value in row.items() if column != "first_hour"}
                for key, row in there.items()
            }
        if name in ("runs", "attempts"):
            there = {key: row for key, row in there.items() if key[3:5] in known or key[:3] not in partitions}
        if name == "audit":
            hours = {key[:2] for key in rows}
            there = {key: row for key, row in there.items() if key in rows or key[:2] not in hours}
        if there != rows:
            keys = [key for key in there.keys() | rows.keys() if there.get(key) != rows.get(key)]
            wrong[name] = {key: (there.get(key), rows.get(key)) for key in keys[:3]}
    if hours_wrong := _wrong_hours(tables, state):
        wrong["hours"] = hours_wrong
    return wrong


def _wrong_hours(tables: Mapping[str, Rows], state: State) -> dict[Any, Any]:
    """Hours of jobs that the tables do not name, or name without a run."""
    expected: dict[Any, set[int]] = {}
    for namespace, hour, _, job_id, _ in expected_rows(state)["runs"]:
        expected.setdefault((namespace, job_id), set()).add(hour)
    there: dict[Any, set[int]] = {}
    for namespace, job_id, hour in tables["run_hours"]:
        there.setdefault((namespace, job_id), set()).add(hour)
    for (namespace, _, job_id), job in tables["jobs"].items():
        first = job.get("first_hour")
        if first is not None and (namespace, job_id) in expected:
            there.setdefault((namespace, job_id), set()).add(first)
    more = {name: (there.get(name), hours) for name, hours in expected.items() if not hours <= there.get(name, set())}
    return more | {name: (hours, None) for name, hours in there.items() if name not in expected}


def rows_of(tables: ModelTables) -> dict[str, Rows]:
    """All rows, by table."""
    return {table.name: tables.rows(table) for table in READABLE}


class ProjectedRows:
    """Entries of a log, projected into a model: some of them at a time, as a projector does."""

    EACH = 3
    """After so many entries the pending rows are written."""

    def __init__(self, shard: int = 0) -> None:
        self.tables = ModelTables()
        self.position = 0
        self._shadow, self._reader, self._window = Shadow(shard), Reader(), ChangeWindow()
        self._shadow.pending = PendingRows(0)

    async def begin(self, log: EffectLog, tenure: Tenure) -> None:
        """Read what the log has and is not known here: all of it, in place of a checkpoint that hides some."""
        if self.position < tenure.checkpoint:
            self.__init__(self._shadow.shard)  # type: ignore[misc]  # as new
            is_first = True
            async for part in log.checkpoint(tenure.checkpoint):
                if is_first:
                    self._reader.head(part)
                elif names := names_in(part):
                    async for rows in pages_of_blocks(log, names):
                        self._shadow.take_rows("ended", rows, tenure.checkpoint)
                else:
                    found = self._reader.part(part)
                    if not isinstance(found, int) and found[0] is not None:
                        self._shadow.take_rows(found[0].table.path, dict(found[1]), tenure.checkpoint)
                is_first = False
            self.position = tenure.checkpoint
        async for entry in log.entries(self.position):
            self.take(entry.position, entry.body)

    def take(self, position: int, body: bytes) -> None:
        """One more entry. What came with one of the last two is held back."""
        assert position == self.position + 1
        entry = self._reader.entry(body)
        is_apart = self._window.is_apart(entry)
        if is_apart:
            self._settle()
        self._window.add(self._reader, entry, position, position)
        if is_apart:
            self._settle()
        self.position = position
        if position % self.EACH == 0:
            self.write(position - 2)

    def _settle(self, came_before: float = math.inf) -> None:
        for portion in self._window.take(came_before):
            self._shadow.take(portion, self._window.position)

    def write(self, came_before: float = math.inf) -> None:
        """Write what is pending."""
        self._settle(came_before)
        pending, self._shadow.pending = self._shadow.pending, PendingRows(0)
        assert pending is not None
        for rows, drop in pending.writes():
            self.tables.store(rows, drop)

    def wrong(self, state: State) -> dict[str, Any]:
        """Rows that differ from the state."""
        self.write()
        return wrong_rows(rows_of(self.tables), state, self._shadow.shard)
