"""Runs become attempts become results.

    claim ──► held until due ──► (guarded: start recorded) ──► runner ──► ended ──► outcomes ──► finish, in batches
                 ▲                                                │
    beat ────────┴── lease renewed; cancels come back ────────────┘ (began: recorded in batches)

Invariants: nothing starts before its due time on the store's clock, nor while our own lease may have run out; every
claimed run ends in exactly one outcome, which is sent until the store has accepted or refused it; an executor that
was buried kills what it runs, reports nothing, and is born again under a new number.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
import structlog

from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome
from tickwise.domain.retry import delay_seconds
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Assignment, Ending, Runner, Verdict
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Began, CancelKind, ClaimRequest, NewExecutor, Runs
from tickwise.roles.definition import Work, decode_work
from tickwise.roles.intake import Intake
from tickwise.roles.outbox import Outbox
from tickwise.roles.service import Loop, Service, Telemetry, wait_for
from tickwise.roles.store_clock import StoreClock

SUCCESS: Final = CODES[RunState.SUCCESS]
FAILED: Final = CODES[RunState.FAILED]
CANCELLED: Final = CODES[RunState.CANCELLED]
RETRYING: Final = CODES[RunState.RETRYING]
QUEUED: Final = CODES[RunState.QUEUED]
SKIPPED: Final = CODES[RunState.SKIPPED]

CLAIM_GAP_SECONDS: Final = 0.003
"""Between two claims that did not fill: so that a ring for each submit does not become a claim for each submit."""
CALM_SECONDS: Final = 0.05
"""How often runners with little to do are asked for while another one is busy."""
PREFETCH_LEAST: Final = 100
"""A claim smaller than this is not worth being sent ahead."""
LAUNCH_BATCH: Final = 500
"""Held runs started at once before other tasks get a turn."""
FINE_SECONDS: Final = 0.0015
"""Timers of the event loop are exact to a millisecond: the last stretch to a due time is slept in such steps."""
AHEAD_SLOTS_SECONDS: Final = 0.6
"""How far ahead runs that need a slot are claimed: they keep the slot free until then."""
GUARD_RETRY_SECONDS: Final = 0.5
"""Between two tries to record the start of a guarded run."""
RETRY_AFTER_MAX_SECONDS: Final = 86_400.0
"""The longest that a task may put its own retry off."""
UNOFFERED_SECONDS: Final = 10.0
"""A run that cannot go on here goes back for this long: time for an executor that has it to take it."""
ERROR_LENGTH: Final = 4000
"""Characters of an error message that are stored; the whole is in the output."""

logger = structlog.get_logger("tickwise.executor")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """What wiring hands over from the settings."""

    name: str
    queues: tuple[str, ...] = ("default",)
    labels: tuple[str, ...] = ()
    slots: int = 16
    lease_seconds: float = 10.0
    heartbeat_seconds: float = 3.0
    ahead_seconds: float = 1.5
    poll_seconds: float = 0.3
    claim_batch: int = 500
    held_max: int = 60_000
    finish_batch: int = 1000
    finish_flush_seconds: float = 0.004
    drain_seconds: float = 30.0
    kill_grace_seconds: float = 5.0


class Seat(NamedTuple):
    """A runner and how it is fed."""

    runner: Runner
    spare: Callable[[], int] | None = None
    """Of a quick runner, which works off batches of short tasks: how many more could begin there now. The others take
    one run a slot."""


class Stage(Enum):
    """How far a claimed run has come here."""

    HOLDING = 1
    """It waits for its due time."""
    STARTING = 2
    """It is due, guarded, and its start is being recorded."""
    LAUNCHED = 3
    """Its runner has it."""


class Held:
    """One claimed run, from claim to outcome."""

    __slots__ = ("cancelling", "claimed", "intake", "stage", "work")

    def __init__(self, claimed: Claimed, work: Work, intake: Intake) -> None:
        self.claimed = claimed
        self.work = work
        self.intake = intake
        self.stage = Stage.HOLDING
        self.cancelling = False


class Executor(Service):
    """One executor. `start` runs the loops; `drain` ends them in peace."""

    name = "executor"

    def __init__(
        self,
        *,
        runs: Runs,
        seats: Sequence[Seat],
        signals: Signals,
        clock: Clock,
        settings: ExecutorSettings,
        telemetry: Telemetry,
    ) -> None:
        super().__init__()
        self._runs = runs
        self._signals = signals
        self._clock = clock
        self._settings = settings
        self._telemetry = telemetry
        self._time = StoreClock(clock)
        self._claim_wake = signals.listen(Topic.RUNS)
        self._calm_claimed_at = 0.0
        self._intakes = [
            Intake(
                seat.runner,
                clock=clock,
                wake=self._claim_wake,
                slots=settings.slots,
                spare=seat.spare,
                held_max=settings.held_max,
            )
            for seat in seats
        ]
        self._by_kind = {kind: intake for intake in self._intakes for kind in intake.kinds}
        self._number = 0
        self._lease_until = 0.0
        self._live: dict[UUID, Held] = {}
        self._heap: list[tuple[float, int, Held]] = []
        self._order = itertools.count()
        self._heap_changed = asyncio.Event()
        self._ghosts: dict[UUID, Intake] = {}
        self._idle = asyncio.Event()
        self._claim_in_doubt = False
        self._outbox = Outbox(
            runs=runs,
            clock=clock,
            telemetry=telemetry,
            batch=settings.finish_batch,
            flush_seconds=settings.finish_flush_seconds,
            emptied=self._idle,
        )
        self._draining = False
        self._starting: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Be born in the store, make the runners ready, and begin."""
        await self.prepare()
        clock, outbox = self._clock, self._outbox
        self.spawn(
            Loop("beat", self._beat, clock, self._signals.listen(Topic.CANCELS)),
            Loop("hold", self._launch_due, clock, self._heap_changed),
            Loop("starts", self._record_starts, clock, outbox.starts_more),
            Loop("finish", self._finish, clock, outbox.outcomes_more),
            Loop("claim", self._claim, clock, self._claim_wake),
        )

    async def prepare(self) -> None:
        """The first half of `start`, for a test that drives `tick` itself."""
        for intake in self._intakes:
            await intake.runner.start(self, self._time.now)
        await self._join()

    async def tick(self) -> None:
        """One step of every loop."""
        await self._beat()
        await self._claim()
        await self._launch_due()
        if self._outbox.starts_more.is_set():
            await self._record_starts()
        await self._finish()

    async def drain(self) -> None:
        """Claim nothing more, give back what has not begun, and let the rest end, for `drain_seconds` at most.

        Heartbeats go on until the last has ended, so nobody takes over what is still running here.
        """
        self._draining = True
        self._give_back([held for held in self._live.values() if held.stage is Stage.HOLDING])
        for intake in self._intakes:
            intake.runner.release_waiting()
        until = self._clock.monotonic() + self._settings.drain_seconds
        while (self._live or self._outbox) and (left := until - self._clock.monotonic()) > 0:
            self._idle.clear()
            await wait_for(self._idle, left)
        if self._live:
            logger.warning("drain_over", still_open=len(self._live), seconds=self._settings.drain_seconds)

    async def stop(self) -> None:
        """End at once: kill what still runs, report nothing of it, and give it back."""
        self._draining = True
        for held in [*self._live.values()]:
            self._abandon(held)
        for intake in self._intakes:
            await intake.runner.close()
        for task in [*self._starting]:
            task.cancel()
        await super().stop()
        await self._runs.executor_leave(self._number)

    async def _join(self) -> None:
        settings = self._settings
        asked = self._clock.monotonic()
        self._number = await self._runs.executor_join(
            NewExecutor(
                name=settings.name,
                queues=settings.queues,
                labels=settings.labels,
                functions=self._functions(),
                slots=settings.slots,
                lease_seconds=settings.lease_seconds,
            )
        )
        for _ in range(3):
            # The shortest of three round trips bounds the store's clock best.
            sent = self._clock.monotonic()
            beat = await self._runs.executor_beat(self._number, settings.lease_seconds)
            self._time.saw(beat.now, sent)
        self._lease_until = asked + settings.lease_seconds
        logger.info("executor_joined", executor=self._number, name=settings.name, queues=list(settings.queues))

    def _functions(self) -> tuple[str, ...]:
        return tuple(name for intake in self._intakes for name in intake.runner.offers())

    def _leased(self) -> bool:
        return self._clock.monotonic() < self._lease_until

    # ------------------------------------------------------------------ the lease

    async def _beat(self) -> float:
        settings = self._settings
        asked = self._clock.monotonic()
        beat = await self._runs.executor_beat(self._number, settings.lease_seconds, self._functions())
        self._time.saw(beat.now, asked)
        if not beat.alive:
            await self._rise()
            return 0.0
        # Counted from before we asked: the store's lease ends no earlier.
        self._lease_until = asked + settings.lease_seconds
        for request in beat.cancels:
            self._cancel(request.run_id, request.kind)
        return settings.heartbeat_seconds

    async def _rise(self) -> None:
        """Buried: others may run what we run. Kill it all, tell nothing, and come back under a new number."""
        logger.error("executor_buried", executor=self._number, still_open=len(self._live))
        self._lease_until = 0.0
        for held in [*self._live.values()]:
            self._abandon(held)
        self._heap.clear()
        self._outbox.forget()
        while self._ghosts:
            # Until its task is dead, a run must not begin here again.
            self._idle.clear()
            await wait_for(self._idle, 1.0)
        await self._join()

    def _cancel(self, run: UUID, kind: CancelKind) -> None:
        held = self._live.get(run)
        if held is None:
            return
        if held.stage is Stage.HOLDING:
            now = self._time.now()
            state, reason = (CANCELLED, "cancelled") if kind is CancelKind.CANCEL else (SKIPPED, "revoked")
            self._settle(held, Outcome(run, held.claimed.token, state, now, now, reason))
        elif kind is CancelKind.CANCEL and not held.cancelling:
            held.cancelling = True
            if held.stage is Stage.LAUNCHED:
                held.intake.runner.stop(run, grace_seconds=self._settings.kill_grace_seconds)

    # ------------------------------------------------------------------ claim

    async def _claim(self) -> float:
        """Take what there is room for.

        While there is little to do, one claim asks for all runners at once, so that a ring costs one statement. After
        a claim that filled, each runner asks for itself, as much as it has room for and as far ahead as suits it, until
        one of its claims does not fill; meanwhile the others ask together now and then.
        """
        settings = self._settings
        if self._draining:
            return 3600.0
        if self._claim_in_doubt:
            await self._recover()
        ready = [intake for intake in self._intakes if intake.runner.labels() and intake.ready()]
        groups = [[intake] for intake in ready if intake.hungry]
        calm = [intake for intake in ready if not intake.hungry]
        now = self._clock.monotonic()
        if calm and (not groups or now - self._calm_claimed_at >= CALM_SECONDS):
            groups.append(calm)
            self._calm_claimed_at = now
        filled = False
        for group in groups:
            filled |= await self._claim_for(group)
        if filled:
            return 0.0
        await self._clock.sleep(CLAIM_GAP_SECONDS)
        return settings.poll_seconds

    async def _claim_for(self, group: Sequence[Intake]) -> bool:
        """Claim for these runners; whether the last claim filled, so that there may be more.

        While one runner's claims fill, the next is on its way to the store before the last one's runs are looked at:
        store and executor then work at the same time, instead of waiting for each other.
        """
        limit = self._limit(group, 0)
        claim: Awaitable[Sequence[Claimed]] = self._ask(group, limit)
        while True:
            rows = await claim
            filled = len(rows) >= limit
            limit = self._limit(group, len(rows))
            further = filled and len(group) == 1 and limit >= PREFETCH_LEAST and not self._draining
            if further:
                claim = asyncio.ensure_future(self._ask(group, limit))
                # One turn of the loop: the request is sent.
                await self._clock.sleep(0)
            for intake in group:
                intake.hungry = filled
                if rows:
                    intake.ahead_only = rows[0].due > rows[0].now
            if rows:
                self._time.saw(rows[0].now)
                self._telemetry.claimed(len(rows))
                self._take(rows)
            if not further:
                return filled

    def _limit(self, group: Sequence[Intake], coming: int) -> int:
        """How many to claim, with `coming` on their way into the books."""
        return min(self._settings.claim_batch, *(intake.room() - coming for intake in group))

    async def _ask(self, group: Sequence[Intake], limit: int) -> Sequence[Claimed]:
        settings = self._settings
        # A busy runner with slots takes little ahead, so that they stay free; with little to do that is no matter.
        near = len(group) == 1 and not group[0].quick
        request = ClaimRequest(
            executor=self._number,
            queues=settings.queues,
            labels=(*settings.labels, *itertools.chain.from_iterable(intake.runner.labels() for intake in group)),
            limit=limit,
            ahead_seconds=min(settings.ahead_seconds, AHEAD_SLOTS_SECONDS) if near else settings.ahead_seconds,
        )
        self._claim_in_doubt = True
        rows = await self._runs.attempts_claim(request)
        self._claim_in_doubt = False
        return rows

    async def _recover(self) -> None:
        """A claim failed, and may have been carried out all the same: what the store says is ours and we do not know
        goes back. Nobody else would ever free it, because we go on living."""
        returned = await self._runs.attempts_keep(self._number, [*self._tokens()])
        self._claim_in_doubt = False
        if returned:
            logger.warning("claim_given_back", executor=self._number, count=returned)

    def _tokens(self) -> Iterator[int]:
        for held in self._live.values():
            yield held.claimed.token
        yield from self._outbox.tokens()

    def _take(self, rows: Sequence[Claimed]) -> None:
        """Claimed runs: those that are due go on at once, the others are held."""
        now, leased = self._time.now(), self._leased()
        live, heap, by_kind = self._live, self._heap, self._by_kind
        due: list[Held] = []
        waiting = False
        for claimed in rows:
            try:
                work = decode_work(claimed.spec)
                intake = by_kind[work.task["kind"]]
            except (msgspec.MsgspecError, KeyError) as wrong:
                self._refuse(claimed, f"{type(wrong).__name__}: {wrong}")
                continue
            held = Held(claimed, work, intake)
            live[claimed.run_id] = held
            intake.held += 1
            # A retry is ready after its backoff, long after it was due; it is claimed ahead as well.
            start_at = max(claimed.due, claimed.ready)
            if start_at <= now and leased:
                due.append(held)
            else:
                heapq.heappush(heap, (start_at, next(self._order), held))
                waiting = True
        if self._draining:
            # It was under way when the end was asked for.
            self._give_back([held for held in live.values() if held.stage is Stage.HOLDING])
            return
        if due:
            self._launch(due)
        if waiting:
            self._heap_changed.set()

    def _refuse(self, claimed: Claimed, detail: str) -> None:
        """A defect of ours or of a plugin: the run fails with it instead of coming back for ever."""
        logger.error("definition_unreadable", run_id=str(claimed.run_id), detail=detail)
        now = self._time.now()
        error = f"its definition cannot be read: {detail}"[:ERROR_LENGTH]
        self._outbox.add(Outcome(claimed.run_id, claimed.token, FAILED, now, now, "invalid", error), self._intakes[0])

    def _give_back(self, batch: Iterable[Held]) -> None:
        now = self._time.now()
        for held in batch:
            self._settle(held, Outcome(held.claimed.run_id, held.claimed.token, QUEUED, now, now))

    # ------------------------------------------------------------------ hold and launch

    async def _launch_due(self) -> float:
        """Start what has become due; return the time to the next."""
        heap = self._heap
        if not heap:
            return 3600.0
        if not self._leased():
            # Somebody else may have these by now, and what waits in the runners too. The next heartbeat tells.
            for intake in self._intakes:
                intake.runner.release_waiting()
            await self._clock.sleep(0.02)
            return 0.0
        now = self._time.now()
        due: list[Held] = []
        while heap and heap[0][0] <= now and len(due) < LAUNCH_BATCH:
            held = heapq.heappop(heap)[2]
            if held.stage is Stage.HOLDING and self._live.get(held.claimed.run_id) is held:
                due.append(held)
        if due:
            self._launch(due)
            return 0.0
        if not heap:
            return 3600.0
        gap = heap[0][0] - now
        return gap - FINE_SECONDS if gap > 2 * FINE_SECONDS else 0.001

    def _launch(self, batch: Iterable[Held]) -> None:
        groups: dict[Intake, list[Assignment]] = {}
        guarded: list[Held] = []
        for held in batch:
            intake = held.intake
            intake.held -= 1
            intake.launched += 1
            if held.claimed.guarded:
                held.stage = Stage.STARTING
                guarded.append(held)
                continue
            held.stage = Stage.LAUNCHED
            if intake in groups:
                groups[intake].append(_assignment(held))
            else:
                groups[intake] = [_assignment(held)]
        for intake, assignments in groups.items():
            intake.runner.launch(assignments)
        if guarded:
            task = asyncio.create_task(self._launch_guarded(guarded))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _launch_guarded(self, batch: Sequence[Held]) -> None:
        """Record the start, fenced, and begin only what the store accepted."""
        while True:
            now = self._time.now()
            batch = [held for held in batch if self._live.get(held.claimed.run_id) is held]
            begun = [Began(held.claimed.run_id, held.claimed.token, now) for held in batch]
            try:
                refused = set(await self._runs.attempts_start(self._number, begun)) if begun else set()
                break
            except Exception as failure:  # noqa: BLE001  # whatever it was, only the store's word can end this
                # Whether it was recorded is unknown, so only saying it again can tell. Being buried ends this too.
                logger.warning("start_unrecorded", runs=len(batch), detail=str(failure))
                await self._clock.sleep(GUARD_RETRY_SECONDS)
        while not self._leased() and any(self._live.get(held.claimed.run_id) is held for held in batch):
            # The answer was long under way: we may be buried by now, and this is the run that must not begin twice.
            await self._clock.sleep(0.02)
        for held in batch:
            if self._live.get(held.claimed.run_id) is not held:
                continue
            if held.claimed.run_id in refused:
                # Somebody else's by now, or it waits for an earlier run of its job, or is skipped for one: nothing is
                # wrong, and nothing is left to report.
                self._forget(held)
                self._idle.set()
            elif held.cancelling:
                self._end(held, CANCELLED, Ending(Verdict.CANCELLED, now, now, "cancelled"))
            else:
                held.stage = Stage.LAUNCHED
                held.intake.runner.launch([_assignment(held)])

    # ------------------------------------------------------------------ what runners report

    def began(self, run_id: UUID, started: float) -> None:
        """A task has been going on for a while: record its start with the next batch."""
        held = self._live.get(run_id)
        if held is not None and not held.claimed.guarded:
            self._outbox.start(Began(run_id, held.claimed.token, started))

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        """Many tasks are over. Quick functions that went well are the bulk of a busy executor's work, so they go
        straight to the outbox, without the calls that the others take."""
        live, done = self._live, []
        for run_id, ending in endings:
            held = live.get(run_id)
            if held is None or ending.verdict is not Verdict.OK:
                self.ended(run_id, ending)
                continue
            del live[run_id]
            held.intake.launched -= 1
            claimed = held.claimed
            if claimed.attempt == 1:
                self._outbox.late(ending.started - claimed.due)
            done.append(
                (
                    Outcome(run_id, claimed.token, SUCCESS, ending.started, ending.ended, None, None, ending.result),
                    held.intake,
                )
            )
        self._outbox.add_many(done)
        for intake in {intake for _, intake in done}:
            intake.freed()

    def ended(self, run_id: UUID, ending: Ending) -> None:
        """A task is over: decide what follows and queue that for the store."""
        held = self._live.get(run_id)
        if held is None:
            self._ghost_ended(run_id)
            return
        verdict = ending.verdict
        if verdict is Verdict.OK:
            self._end(held, SUCCESS, ending)
        elif verdict is Verdict.CANCELLED or (held.cancelling and verdict is not Verdict.FAILED):
            self._end(held, CANCELLED, ending._replace(reason="cancelled"))
        elif verdict is Verdict.RELEASED:
            self._end(held, QUEUED, ending)
        elif verdict is Verdict.UNOFFERED:
            self._end(held, QUEUED, ending, retry_at=ending.ended + UNOFFERED_SECONDS)
        elif verdict is Verdict.INVALID:
            self._end(held, FAILED, ending)
        else:
            self._failed(held, ending)

    def _ghost_ended(self, run_id: UUID) -> None:
        """Abandoned when we were buried, or refused as stale: it is dead now, and that is all that matters."""
        intake = self._ghosts.pop(run_id, None)
        if intake is not None:
            intake.launched -= 1
            intake.freed()
            self._idle.set()

    def _failed(self, held: Held, ending: Ending) -> None:
        failures = held.claimed.failures + 1
        delay = delay_seconds(held.work.retry_policy(), failures=failures, chance=self._clock.chance())
        if delay is None:
            self._end(held, FAILED, ending)
        else:
            asked = min(ending.retry_after_seconds or 0.0, RETRY_AFTER_MAX_SECONDS)
            self._end(held, RETRYING, ending, retry_at=ending.ended + max(delay, asked))

    def _end(self, held: Held, state: int, ending: Ending, *, retry_at: float | None = None) -> None:
        claimed = held.claimed
        if claimed.attempt == 1:
            self._outbox.late(ending.started - claimed.due)
        error = ending.error
        if error is not None and len(error) > ERROR_LENGTH:
            error = error[:ERROR_LENGTH]
        outcome = Outcome(
            claimed.run_id,
            claimed.token,
            state,
            ending.started,
            ending.ended,
            ending.reason,
            error,
            ending.result,
            retry_at,
        )
        self._settle(held, outcome)

    def _settle(self, held: Held, outcome: Outcome) -> None:
        """From here on the run is an outcome that waits for the store."""
        self._forget(held)
        self._outbox.add(outcome, held.intake)

    def _forget(self, held: Held) -> None:
        if self._live.pop(held.claimed.run_id, None) is None:
            return
        intake = held.intake
        if held.stage is Stage.HOLDING:
            intake.held -= 1
        else:
            intake.launched -= 1
        intake.freed()

    def _abandon(self, held: Held) -> None:
        """Kill it and report nothing. While its task still dies, it is a ghost that keeps its place."""
        self._forget(held)
        if held.stage is Stage.LAUNCHED:
            held.intake.launched += 1
            self._ghosts[held.claimed.run_id] = held.intake
            held.intake.runner.stop(held.claimed.run_id, grace_seconds=0.0)

    # ------------------------------------------------------------------ what the store is told

    async def _finish(self) -> float:
        pressed = any(intake.pressed() for intake in self._intakes)
        return await self._outbox.send_outcomes(lambda: self._number, pressed=pressed)

    async def _record_starts(self) -> float:
        refused = await self._outbox.send_starts(self._number, self._live.__contains__)
        for began in refused:
            held = self._live.get(began.run_id)
            if held is not None and held.claimed.token == began.token:
                logger.warning("attempt_stale", run_id=str(began.run_id), executor=self._number)
                self._abandon(held)
        return 3600.0


def _assignment(held: Held) -> Assignment:
    claimed, work = held.claimed, held.work
    return Assignment(
        claimed.run_id,
        claimed.token,
        claimed.job_id,
        claimed.namespace,
        claimed.attempt,
        claimed.due,
        claimed.nominal,
        work.task,
        bytes(work.payload),
        work.timeout_seconds,
        work.limits.of_task(),
    )
