"""The log of a shard as the journal of all runs: each change of each run, in the order in which it was committed.

    log ──each 0.2 s──► entries ──► moves of runs, executors, ends

A keeper decides and writes; this reads what it wrote, keeps its own tables, and asks no keeper anything. It reads on
while there are faults: what a keeper has in a checkpoint leaves the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from tests.chaos.scene import Seen
from tests.support.cassandras import CLOCK
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.link import CassandraLink, opened_link
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.shards import ALONE
from tickwise.adapters.store.keeper.tables import TimerImage
from tickwise.adapters.store.keeper.tracking import FIELDS, GONE
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.decision import NEVER
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import CODES, HELD, RunState
from tickwise.ports.store import AttemptRow

READ_SECONDS: Final = 0.2
CHANGE_SECONDS: Final = 60.0
"""For changes of the schema and for whole tables: three nodes on a busy machine take more than 2 s to agree."""
TAKEN: Final = frozenset({"poison", "executor_lost", "unknown_outcome"})
"""Reasons of ends that the store wrote for an executor that is gone."""
JOB_FIELDS: Final = ("name", "namespace", "timer")
"""There may be a million jobs."""
Fields = dict[str, Any]


class LogWitness:
    """`start` it before anything is asked for."""

    def __init__(self, url: str, wall: float) -> None:
        """`wall`: Unix seconds minus monotonic ones, as in the witness of the tasks."""
        self._url, self._wall = url, wall
        self._link: CassandraLink | None = None
        self._patient: CassandraLink | None = None
        self._log: CassandraLog | None = None
        self._reader = Reader()
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self.position = 0
        self.moves: list[Fields] = []
        self.runs: dict[UUID, Fields] = {}
        self.ended: dict[UUID, EndedRun] = {}
        self.jobs: dict[UUID, Fields] = {}
        self.executors: dict[int, Fields] = {}
        self.completions: set[Any] = set()
        self.timed: set[UUID] = set()
        """Jobs with a timer that comes."""
        self.fires: set[UUID] = set()
        """Of these, those whose timer is the fire of a one-time job."""
        self._left: dict[UUID, RunState] = {}
        """The state in which a run left the table of active ones."""

    async def start(self) -> None:
        """Open a link of its own, and read from now on."""
        self._link = await opened_link(read_address(self._url), CLOCK)
        self._patient = await opened_link(read_address(self._url), CLOCK, answer_seconds=CHANGE_SECONDS)
        self._log = CassandraLog(self._link, ALONE)
        self._task = asyncio.create_task(self._follow())

    async def rest(self) -> None:
        """Follow the log no more. Raises the error with which that had ended before."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """Read no more."""
        await self.rest()
        for link in (self._link, self._patient):
            if link is not None:
                await link.close()

    async def refresh(self) -> None:
        """Read what is there. Raises `StoreUnavailable`; an error of any other kind is the scene's end."""
        if self._task is not None and self._task.done():
            self._task.result()
        await self._read()

    async def told_at(self) -> float:
        """The latest time that led to an entry or a renewal, in Unix seconds. Raises `StoreUnavailable`."""
        assert self._log is not None
        return (await self._log.owner()).told_at / 1_000

    async def rows(self, cql: str) -> Sequence[Any]:
        """The rows of a question about the keyspace, past the product."""
        assert self._patient is not None
        return await self._patient.run(cql)

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(Unavailable):
                await self._read()
            await CLOCK.sleep(READ_SECONDS)

    async def _read(self) -> None:
        assert self._log is not None
        async with self._turn:
            seen = await self._log.peek()
            if seen is None or seen.last == self.position:
                return
            async for entry in self._log.entries(self.position):
                self._take(entry.body)
                self.position = entry.position

    # ------------------------------------------------------------------ entries

    def _take(self, body: bytes) -> None:
        entry = self._reader.entry(body)
        for path, how, raw_key, raw in entry.changes:
            reader = self._reader.table(path)
            take = _TAKES.get(path)
            if reader is None or take is None:
                continue
            take(self, reader.key(raw_key), how, None if how == GONE else reader.value(raw))

    def _take_run(self, run_id: UUID, how: int, value: Any) -> None:
        old = self.runs.get(run_id)
        if how == GONE:
            if old is not None:
                del self.runs[run_id]
                self._left[run_id] = _state(old)
                self._move(run_id, _state(old), None, old, old)
            return
        new = {**(old or {}), **value} if how == FIELDS else value
        self.runs[run_id] = new
        if old is None:
            self._move(run_id, None, _state(new), new, new)
        elif (_state(old), old.get("executor")) != (_state(new), new.get("executor")):
            self._move(run_id, _state(old), _state(new), old, new)

    def _move(self, run_id: UUID, before: RunState | None, after: RunState | None, old: Fields, new: Fields) -> None:
        holder = new.get("executor") or old.get("executor") or 0
        taken = bool(old.get("executor")) and after is not None and not new.get("executor")
        freed = taken and self.executors.get(holder, {}).get("gone_at") is not None
        token = new.get("token") or old.get("token") or 0
        self._note(run_id, before, after, token=token, holder=holder, freed=freed)

    def _take_ended(self, run_id: UUID, how: int, value: Any) -> None:
        if how == GONE or run_id in self.ended:
            return
        self.ended[run_id] = value
        active = self.runs.get(run_id)
        before = self._left.get(run_id) if active is None else _state(active)
        if before is None:
            # It was made and ended in one call: a skip, of which the journal has the end alone.
            before = RunState.QUEUED
        row = value.row
        held = before in HELD
        self._note(
            run_id, before, row.state, token=value.token if held else 0, holder=row.executor or 0,
            freed=row.reason in TAKEN,
        )  # fmt: skip

    def _note(
        self, run_id: UUID, before: RunState | None, after: RunState | None, *, token: int, holder: int, freed: bool
    ) -> None:
        at = time.monotonic() + self._wall
        codes = [0 if state is None else CODES[state] for state in (before, after)]
        self.moves.append(
            {"run_id": run_id, "before": codes[0], "after": codes[1], "token": token, "holder": holder,
             "freed": freed, "at": at}
        )  # fmt: skip

    def _take_job(self, job_id: UUID, how: int, value: Any) -> None:
        if how == GONE:
            self.timed.discard(job_id)
            self.fires.discard(job_id)
            return
        kept = {name: value[name] for name in JOB_FIELDS if name in value}
        job = self.jobs[job_id] = {**self.jobs.get(job_id, {}), **kept} if how == FIELDS else kept
        timer: TimerImage | None = job.get("timer")
        comes = timer is not None and timer.pending.due != NEVER
        (self.timed.add if comes else self.timed.discard)(job_id)
        fires = comes and timer is not None and timer.run_id is not None
        (self.fires.add if fires else self.fires.discard)(job_id)

    def _take_executor(self, number: int, how: int, value: Any) -> None:
        if how != GONE:
            self.executors[number] = {**self.executors.get(number, {}), **value}

    def _take_completion(self, key: Any, how: int, value: Any) -> None:
        del value
        (self.completions.discard if how == GONE else self.completions.add)(key)

    # ------------------------------------------------------------------ what rows ask

    def active(self) -> int:
        """Runs that have not ended, one-time jobs whose run is not made, and ends that start others."""
        return len(self.runs) + len(self.fires) + len(self.completions)

    def unfired(self) -> int:
        """Timers and runs that have not ended."""
        return len(self.runs) + len(self.timed)

    def held(self, name: str) -> int:
        """How many runs the executors of one name hold."""
        mine = {number for number, each in self.executors.items() if each["said"].name == name}
        return sum(_state(run) in HELD and run.get("executor") in mine for run in self.runs.values())

    def is_gone(self, number: int) -> bool:
        """Whether an executor is on record as gone."""
        return self.executors.get(number, {}).get("gone_at") is not None

    def seen(self) -> Seen:
        """For the judge."""
        taken: dict[int, set[UUID]] = {}
        for move in self.moves:
            if move["freed"]:
                taken.setdefault(move["holder"], set()).add(move["run_id"])
        return Seen(
            moves=self.moves,
            records=[*map(self._active_record, self.runs), *map(self._ended_record, self.ended.values())],
            executors=[self._executor(number) for number in sorted(self.executors)],
            freed={number: len(runs) for number, runs in taken.items()},
            given_back=self._given_back(),
        )

    def _given_back(self) -> list[Fields]:
        counts: Counter[int] = Counter()
        last: dict[int, float] = {}
        attempts: list[AttemptRow] = [each for run in self.runs.values() for each in run.get("attempts", ())]
        attempts += [each for run in self.ended.values() for each in run.attempts]
        for attempt in attempts:
            if attempt.reason == "lease_over":
                counts[attempt.executor] += 1
                last[attempt.executor] = max(last.get(attempt.executor, 0.0), attempt.ended_at or 0.0)
        return [{"executor": number, "attempts": count, "at": last[number]} for number, count in counts.items()]

    def _executor(self, number: int) -> Fields:
        each = self.executors[number]
        return {
            "executor": number, "name": each["said"].name, "born": each["registered_at"], "lease": each["lease_until"],
            "gone": each.get("gone_at"),
        }  # fmt: skip

    def _active_record(self, run_id: UUID) -> Fields:
        run = self.runs[run_id]
        return {
            "run_id": run_id, "job_id": run["job"], "name": self.jobs[run["job"]]["name"], "state": CODES[_state(run)],
            "trigger": run["trigger"], "due": run["due"], "nominal": run["nominal"], "until": None,
            "started": run.get("started"), "ended": None, "token": run.get("token", 0),
            "attempt": run.get("attempt", 0), "failures": run.get("failures", 0), "crashes": run.get("crashes", 0),
            "reason": None, "origin": run.get("origin"),
        }  # fmt: skip

    def _ended_record(self, ended: EndedRun) -> Fields:
        row = ended.row
        return {
            "run_id": row.run_id, "job_id": row.job_id, "name": self.jobs[row.job_id]["name"],
            "state": CODES[row.state], "trigger": row.trigger, "due": row.due_at, "nominal": row.nominal_at,
            "until": row.until, "started": row.started_at, "ended": row.ended_at, "token": ended.token,
            "attempt": row.attempt, "failures": row.failures, "crashes": row.crashes, "reason": row.reason,
            "origin": row.origin,
        }  # fmt: skip


def _state(run: Fields) -> RunState:
    state: RunState = run.get("state", RunState.QUEUED)
    return state


_TAKES: Final[Mapping[str, Callable[[LogWitness, Any, int, Any], None]]] = {
    "runs": LogWitness._take_run,
    "ended": LogWitness._take_ended,
    "jobs": LogWitness._take_job,
    "executors": LogWitness._take_executor,
    "completions": LogWitness._take_completion,
}
