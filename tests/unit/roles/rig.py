"""An executor on the memory store and a virtual clock, with a runner whose tasks end when the test says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.domain.model import Lane
from tickwise.domain.notices.rules import NoticeChannelKind
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.observability.tracing import Tracer
from tickwise.ports.identity.tokens import TokenIssuer
from tickwise.ports.runner import Assignment, Ending, Reports, TaskKind, TaskLimits, Verdict
from tickwise.ports.secrets import SecretProvider
from tickwise.ports.store import KindBacklog, NewJob, RunRow, StoreStats
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.roles.executor.capacity import RunnerConfig
from tickwise.roles.executor.role import Executor
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.shared.signatures import ResultsSigning
from tickwise.testing.factories import Factory

LANE = Lane(requires=("task:scripted",))


class ScriptedKind:
    """A kind whose tasks do what the test says."""

    name = "scripted"
    limits = TaskLimits._fields
    schema: Mapping[str, Any] = {}  # the port's shape; never changed

    def check(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Anything goes."""
        return task


class ScriptedRunner:
    """Keeps what was launched until the test ends it."""

    def __init__(self) -> None:
        self.kinds: Sequence[TaskKind] = (ScriptedKind(),)
        self.running: dict[UUID, Assignment] = {}
        self.launched: list[UUID] = []
        self.stopped: list[UUID] = []
        self.launched_at: dict[UUID, float] = {}
        self.graces: list[float] = []
        """Of each request to stop one that runs."""
        self.stubborn = False
        """Tasks go on when they are asked to stop, until the test ends them."""
        self.released = 0
        self._reports: Reports
        self._now: Callable[[], float]

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Ready at once."""
        self._reports, self._now = reports, now

    def offers(self) -> Sequence[str]:
        """No functions."""
        return ()

    def labels(self) -> Sequence[str]:
        """One kind."""
        return ("task:scripted",)

    def release_waiting(self) -> None:
        """Nothing waits here: what is launched has begun."""
        self.released += 1

    def launch(self, assignments: Sequence[Assignment]) -> None:
        """Note them."""
        for assignment in assignments:
            self.running[assignment.run_id] = assignment
            self.launched.append(assignment.run_id)
            self.launched_at[assignment.run_id] = self._now()

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        """Tasks here obey at once, unless they are stubborn."""
        if run_id in self.running:
            self.stopped.append(run_id)
            self.graces.append(grace_seconds)
            if not self.stubborn:
                self.end(run_id, Verdict.CANCELLED)

    async def close(self) -> None:
        """End everything."""
        for run_id in [*self.running]:
            self.end(run_id, Verdict.CANCELLED)

    def end(self, run_id: UUID, verdict: Verdict = Verdict.OK, **more: Any) -> None:
        """The task of this run is over."""
        assignment = self.running.pop(run_id)
        started = self.launched_at[assignment.run_id]
        self._reports.ended(run_id, Ending(verdict, started, self._now(), **more))

    def end_many(self, run_ids: Sequence[UUID], result: str | None = None) -> None:
        """These tasks went well, and that comes in one report."""
        now = self._now()
        endings = [(each, Ending(Verdict.OK, self.launched_at[each], now, result=result)) for each in run_ids]
        for run_id in run_ids:
            del self.running[run_id]
        self._reports.ended_many(endings)

    def begin(self, run_id: UUID) -> None:
        """The task of this run has been going on for a while."""
        self._reports.began(run_id, self.launched_at[run_id])


class Silent:
    """Telemetry that nobody reads."""

    def claimed(self, count: int) -> None: ...
    def started(self, lateness_seconds: Sequence[float]) -> None: ...
    def finished(
        self, states: Sequence[int], durations_seconds: Sequence[float], latencies_seconds: Sequence[float]
    ) -> None: ...
    def used(self, kind: str, usage: ResourceUsage) -> None: ...
    def refused(self, count: int) -> None: ...
    def retried(self, reasons: Mapping[str, int]) -> None: ...
    def failed(self, reasons: Mapping[str, int]) -> None: ...
    def lease_stopped(self, count: int) -> None: ...
    def differed(self, count: int) -> None: ...
    def fired(self, count: int) -> None: ...
    def skipped(self, occurrences: Mapping[str, int]) -> None: ...
    def parked(self, count: int) -> None: ...
    def healed(self, *, executors: int, freed: int, quarantined: int, unknown: int) -> None: ...
    def sequenced(self, count: int) -> None: ...
    def operated(self, *, done: int, refused: int) -> None: ...
    def violated(self, invariant: str, count: int | None) -> None: ...
    def mended(self, invariant: str, count: int) -> None: ...
    def queues_counted(self, stats: StoreStats | None) -> None: ...
    def notices_counted(self, backlog: Mapping[NoticeChannelKind, KindBacklog] | None) -> None: ...
    def pinged(self, result: str) -> None: ...
    def hinted(self, *, named: int, claimed: int) -> None: ...
    def expects(self, channel: str, reasons: Sequence[str] = ()) -> None: ...
    def parked_message(self, channel: str) -> None: ...
    def unverified(self, channel: str, reason: str) -> None: ...
    def unsigned(self, channel: str, count: int) -> None: ...


class Flaky(WrappedStore):
    """A store whose named methods are away, fail otherwise, or lose their answer, as long as the test says."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.gone = False
        """All of it is away."""
        self.away: set[str] = set()
        self.broken: dict[str, Exception] = {}
        self.answers_lost: set[str] = set()

    def around(self, name: str, _call: Call) -> Call:
        """As the test says when it is called."""

        part, _, method = name.rpartition(".")

        async def flaky(*arguments: Any, **named: Any) -> Any:
            # Looked up anew: a test may put something else in its place.
            call = getattr(getattr(self.part, part) if part else self.part, method)
            if name in self.broken:
                raise self.broken[name]
            if name in self.answers_lost:
                await call(*arguments, **named)
                raise InDoubt(f"the answer to {name} is lost")
            if self.gone or name in self.away:
                raise StoreUnavailable(f"{name} is away")
            return await call(*arguments, **named)

        return flaky


class Rig:
    """One executor and all that it stands on."""

    def __init__(
        self,
        runner: ScriptedRunner | None = None,
        *,
        exchange: Exchange | None = None,
        quick: int = 0,
        signing: ResultsSigning | None = None,
        tracer: Tracer | None = None,
        issuer: TokenIssuer | None = None,
        secrets: Mapping[str, SecretProvider] | None = None,
        **settings: Any,
    ) -> None:
        """With an `exchange` it has a broker, and its executor `quick` places for quick runs (0: a slot for each). Open
        circuits are told to the store. With `signing` it signs what it publishes; `tracer` records its attempts,
        `issuer` signs their identity tokens. `secrets`: the providers of secrets."""
        self.clock = VirtualClock()
        self.broker = None if exchange is None else MemoryBroker(exchange, self.clock)
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.flaky = Flaky(self.store)
        self.runner = runner or ScriptedRunner()
        self.make = Factory(self.clock.now())
        self.signals = LocalSignals()
        self.executor = Executor(
            store=self.flaky,
            runner_configs=[
                RunnerConfig(self.runner, spare=(lambda: quick - len(self.runner.running)) if quick else None)
            ],
            signals=self.signals,
            clock=self.clock,
            settings=ExecutorSettings(name="under test", **settings),
            telemetry=Silent(),
            broker=self.broker,
            incidents=self.store.incidents,
            signing=signing,
            tracer=tracer,
            issuer=issuer,
            secrets=secrets,
        )

    async def submit(self, due: float | None = None, **definition: Any) -> NewJob:
        """Store one job of the scripted kind."""
        body = {"schedule_type": "FUTURE", "task": {"kind": "scripted"}, **definition}
        job = self.make.job(due, definition=json.dumps(body), task_kind="scripted", lane=LANE)
        await self.store.jobs.add([job])
        return job

    async def state(self, job: NewJob) -> str:
        """The state of its first run."""
        assert job.run_id is not None
        row = await self.store.runs.get("default", job.run_id)
        assert row is not None
        return str(row.state)

    async def row(self, job: NewJob) -> RunRow:
        """Its first run."""
        assert job.run_id is not None
        row = await self.store.runs.get("default", job.run_id)
        assert row is not None
        return row

    async def attempts(self, job: NewJob) -> list[tuple[int, str, str | None]]:
        """Number, state and reason of all attempts of its first run."""
        assert job.run_id is not None
        return [(each.attempt, str(each.state), each.reason) for each in await self.store.runs.attempts(job.run_id)]

    async def tick(self, after_seconds: float = 0.0) -> None:
        """Let time pass, then one step of every loop, with whatever sleeps they take."""
        await self.clock.advance(after_seconds)
        await drive(self.clock, self.executor.tick())


async def drive(clock: VirtualClock, step: Any) -> None:
    """Await `step` while time passes for it."""
    import asyncio

    task = asyncio.ensure_future(step)
    while not task.done():
        await clock.settle()
        alarm = clock.next_alarm_seconds()
        if not task.done() and alarm is not None:
            await clock.advance(alarm)
    await task
