"""Runs become attempts become results.

    claim ──► held until due ──► (guarded: start recorded) ──► runner ──► ended ──► outcomes ──► finish, in batches
                 ▲                                                │
    beat ────────┴── lease renewed; cancels come back ────────────┘ (began: recorded in batches)
                     not renewed: tasks are stopped before it ends, and that is reported when the store is back

With a broker, hints name what to claim (`claim_hints.py`), and outcomes may go to the store through it
(`result_publisher.py`).

Invariants: nothing starts before its due time on the store's clock, nor while our own lease may have run out; nothing
goes on here beyond our lease; every claimed run ends in exactly one outcome, which is sent until the store has accepted
or refused it; an executor that was buried kills what it runs, reports nothing, and is born again under a new number.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import msgspec
import structlog

from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import CancelKind
from tickwise.domain.model import Claimed, Outcome
from tickwise.observability.buffers import Buffer
from tickwise.ports.broker import Broker
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Ending, Verdict
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.signing import ExecutorKey
from tickwise.ports.store import Began, Executing, NewExecutor, Records
from tickwise.roles.executor.capacity import ClaimTerms, RunnerCapacity
from tickwise.roles.executor.circuit_record import CircuitRecord
from tickwise.roles.executor.claim_hints import Hinting
from tickwise.roles.executor.claim_loop import ClaimLoop
from tickwise.roles.executor.held_runs import HeldRun, HeldRuns, RunnerConfig, RunStage, read_body
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.outbox import Outbox
from tickwise.roles.executor.outcomes import KILLED, SUCCESS, called_off, given_back, outcome_of, unreadable
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.executor.result_publisher import MAX_KEPT, Publisher
from tickwise.roles.executor.run_log import RunLog
from tickwise.roles.executor.run_starter import IDLE_SECONDS, RunStarter
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.dead_letter_writer import DeadLetterWriter
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import Loop, Service, Telemetry, wait_for
from tickwise.roles.shared.signatures import ResultsSigning

__all__ = ["Executor", "ExecutorSettings", "RunnerConfig"]

CLAIM_GAP_SECONDS: Final = 0.001
"""Between two claims that did not fill, so that a ring for each submit does not become a claim for each submit. Rings
of one process are 2 ms apart; a longer gap would add its own half to what an immediate job waits."""
WATCH_SECONDS: Final = 0.05
"""How often a lease that is over is looked at: what a runner had not begun by then, or was just given, ends too."""
GHOST_SECONDS: Final = 1.0
"""A run of which an older attempt still dies here goes back for so long."""
PUBLISHES_NOTHING: Final = b""
"""The key of an executor that writes outcomes to the store: every message in its name at the broker is forged."""
LEAVE_SECONDS: Final = 5.0
"""How long an executor that ends tries to tell the store so. If it cannot, its lease runs out by itself."""
LEAVE_RETRY_SECONDS: Final = 0.25
"""Between two tries."""

_OK: Final = Verdict.OK
_new = tuple.__new__
"""A named tuple without the steps of its constructor, for what is made tens of thousands of times a second."""

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
    finish_batch: int = 2000
    finish_flush_seconds: float = 0.004
    drain_seconds: float = 30.0
    kill_grace_seconds: float = 5.0
    log_runs_per_second: int | None = None
    """Lines of starts, of ends and of failures of runs, each; None: no line at all."""
    results: str = "direct"
    """Which way outcomes go: `direct` to the store, or through the `broker`, where there is one."""


class Executor(Service):
    """One executor. `start` runs the loops; `drain` ends them in peace."""

    name = "executor"

    def __init__(
        self,
        *,
        runs: Executing,
        seats: Sequence[RunnerConfig],
        signals: Signals,
        clock: Clock,
        settings: ExecutorSettings,
        telemetry: Telemetry,
        broker: Broker | None = None,
        records: Records | None = None,
        hold_until: Callable[[float], None] | None = None,
        signing: ResultsSigning | None = None,
    ) -> None:
        """`broker` brings hints. Without one, or while it is away, signals wake it, and it looks what there is.
        `records` stores open circuits. Each heartbeat gives `hold_until` the end of the lease on the monotonic clock,
        for the watchers of the tasks while this process is stopped. `signing` signs the outcomes that go through the
        broker."""
        super().__init__()
        self._runs = runs
        self._signals = signals
        self._clock = clock
        self._circuits = None if records is None else CircuitRecord(records)
        self._settings = settings
        self._telemetry = telemetry
        self._time = StoreClock(clock)
        self._rings = signals.listen(Topic.RUNS)
        self._claim_wake = self._rings if broker is None else asyncio.Event()
        self._beat_wake = signals.listen(Topic.CANCELS, concerns=lambda run: run in self._books.live)
        self._lease = Lease(clock, settings.lease_seconds, doubt=self._beat_wake.set, tell=hold_until)
        self._books = HeldRuns()
        bound = settings.log_runs_per_second
        self._run_log = None if bound is None else RunLog(clock, lambda: self._lease.number, bound)
        self._draining = self._releasing = False
        self._intakes = [self._intake(seat) for seat in seats]
        self._by_kind = {kind: intake for intake in self._intakes for kind in intake.kinds}
        self._publisher: Publisher | None = None
        self._outbox = self._make_outbox(broker, signing)
        self._reconciliation = self._make_reconciliation()
        self._starter = RunStarter(
            runs=runs,
            clock=clock,
            time=self._time,
            lease=self._lease,
            books=self._books,
            settle=self._settle,
            ended=self._end,
            run_log=self._run_log,
        )
        terms = ClaimTerms(
            queues=settings.queues,
            labels=settings.labels,
            ahead_seconds=settings.ahead_seconds,
            batch=settings.claim_batch,
            lease_seconds=settings.lease_seconds,
            poll_seconds=settings.poll_seconds,
        )
        self._hinting = None if broker is None else self._make_hinting(broker, terms)
        self._claimer = ClaimLoop(
            runs=runs,
            clock=clock,
            time=self._time,
            lease=self._lease,
            terms=terms,
            intakes=self._intakes,
            take=self._take,
            tokens=self._tokens,
            telemetry=telemetry,
            hinting=self._hinting,
        )

    def _make_outbox(self, broker: Broker | None, signing: ResultsSigning | None) -> Outbox:
        settings = self._settings
        teller = OutcomeWriter(self._runs, self._telemetry, self._signals)
        if broker is not None and settings.results == "broker":
            self._publisher = Publisher(broker, runs=self._runs, clock=self._clock, teller=teller, signing=signing)
        return Outbox(
            runs=self._runs,
            clock=self._clock,
            telemetry=self._telemetry,
            batch=settings.finish_batch,
            flush_seconds=settings.finish_flush_seconds,
            emptied=self._books.idle,
            teller=teller,
            publisher=self._publisher,
        )

    def _make_reconciliation(self) -> Reconciliation:
        return Reconciliation(
            self._runs,
            clock=self._clock,
            time=self._time,
            lease=self._lease,
            books=self._books,
            outbox=self._outbox,
            telemetry=self._telemetry,
            report=lambda outcome: self._outbox.add(outcome, self._intakes[0]),
        )

    def _make_hinting(self, broker: Broker, terms: ClaimTerms) -> Hinting:
        return Hinting(
            broker,
            clock=self._clock,
            time=self._time,
            parking=DeadLetterWriter(broker, role=self.name, clock=self._clock, telemetry=self._telemetry),
            terms=terms,
            intakes=self._intakes,
            slots=self._settings.slots,
        )

    def _intake(self, seat: RunnerConfig) -> RunnerCapacity:
        settings = self._settings
        return RunnerCapacity(
            seat.runner,
            clock=self._clock,
            wake=self._claim_wake,
            slots=settings.slots,
            spare=seat.spare,
            held_max=settings.held_max,
        )

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Be born in the store, make the runners ready, and begin."""
        await self.prepare()
        clock, outbox = self._clock, self._outbox
        self.spawn(
            Loop("beat", self._beat, clock, self._beat_wake),
            Loop("lease", self._watch_lease, clock),
            Loop("compare", self._compare, clock, self._reconciliation.wake),
            Loop("hold", self._starter.launch_due, clock, self._starter.changed),
            Loop("starts", self._record_starts, clock, outbox.starts_more),
            Loop("finish", self._finish, clock, outbox.outcomes_more),
            Loop("claim", self._claim, clock, self._claim_wake),
            Loop("queues", self._look_afresh, clock, self._signals.listen(Topic.QUEUES)),
        )
        if self._publisher is not None:
            self.spawn(Loop("published", self._ask_published, clock, self._publisher.kept_more))
        if self._circuits is not None:
            self.spawn(Loop("circuits", self._circuits.record, clock, self._circuits.more))
        hinting = self._hinting
        if hinting is not None:
            self.spawn(
                Loop("ring", self._heard, clock, self._rings),
                Loop("hints", self._listen, clock, hinting.room_more),
                Loop("hints done", self._confirm, clock, hinting.done_more),
            )

    async def prepare(self) -> None:
        """The first half of `start`, for a test that drives `tick` itself."""
        for intake in self._intakes:
            await intake.runner.start(self, self._time.now)
        await self._join()
        if self._hinting is not None:
            await self._hinting.start()

    async def tick(self) -> None:
        """One step of every loop."""
        await self._watch_lease()
        await self._beat()
        await self._compare()
        if self._hinting is not None:
            await self._hinting.listen(0.0)
        await self._claim()
        await self._starter.launch_due()
        if self._outbox.starts_more.is_set():
            await self._record_starts()
        await self._finish()
        await self._ask_published()
        if self._hinting is not None and self._hinting.done_more.is_set():
            await self._confirm()

    async def drain(self) -> None:
        """Claim nothing more, give back what has not begun, and let the rest end, for `drain_seconds` at most.

        Heartbeats go on until the last has ended, so nobody takes over what is still running here.
        """
        self._draining = self._claimer.ending = True
        if self._hinting is not None:
            # What it has not claimed goes to others now, not when its tasks have ended.
            await self._hinting.stop()
        self._give_back([held for held in self._books.live.values() if held.stage is RunStage.HOLDING])
        for intake in self._intakes:
            intake.runner.release_waiting()
        idle, until = self._books.idle, self._clock.monotonic() + self._settings.drain_seconds
        while (self._books.live or self._outbox) and (left := until - self._clock.monotonic()) > 0:
            idle.clear()
            await wait_for(idle, left)
        if self._books.live:
            logger.warning("drain_over", still_open=len(self._books.live), seconds=self._settings.drain_seconds)

    async def stop(self) -> None:
        """End at once: kill what still runs, report nothing of it, and give it back."""
        self._draining = self._claimer.ending = True
        now = self._time.now() if self._lease.number else 0.0
        launched = [held for held in self._books.live.values() if held.stage is RunStage.LAUNCHED]
        begun = [Began(held.claimed.run_id, held.claimed.token, now) for held in launched if not held.guarded]
        if starting := [held for held in self._books.live.values() if held.stage is RunStage.STARTING]:
            # Perhaps their starts are on record, and then only we know that they came to nothing.
            self._give_back(starting)
        # Comparisons go on with the heartbeats.
        self._reconciliation.leaving({(held.claimed.run_id, held.claimed.token) for held in self._books.live.values()})
        for held in [*self._books.live.values()]:
            self._books.abandon(held)
        try:
            for intake in self._intakes:
                await intake.runner.close()
        finally:
            # Heartbeats go on until here.
            self._starter.stop()
            if self._hinting is not None:
                await self._hinting.stop()
            await super().stop()
        if self._lease.number:
            await self._leave(begun)

    async def _leave(self, begun: Sequence[Began]) -> None:
        """Free what we held. First the store must know what ended and what began: all else it takes for runs that never
        began, and the next attempt of such a run would bear the same number."""
        until = self._clock.monotonic() + LEAVE_SECONDS
        try:
            # A store that is away for a moment is asked again; one that does not answer is given up.
            async with asyncio.timeout(LEAVE_SECONDS):
                while not await self._said_farewell(begun):
                    if self._clock.monotonic() + LEAVE_RETRY_SECONDS > until:
                        raise TimeoutError
                    await self._clock.sleep(LEAVE_RETRY_SECONDS)
        except TimeoutError:
            logger.warning("leave_unheard", executor=self._lease.number, seconds=LEAVE_SECONDS)

    async def _said_farewell(self, begun: Sequence[Began]) -> bool:
        """Whether the store has heard all of it. Each part may be said again."""
        try:
            await self._empty_outbox()
            await self._reconciliation.settle()
            await self._empty_outbox()
            if begun:
                await self._runs.attempts_start(self._lease.number, begun)
            await self._runs.executor_leave(self._lease.number)
        except Unavailable:
            return False
        return True

    async def _empty_outbox(self) -> None:
        while self._outbox:
            await self._finish()
            await self._outbox.tell_published(self._lease.number)

    async def _join(self) -> None:
        settings = self._settings
        mark = self._lease.mark()
        publisher = self._publisher
        # A pair for each life: a number is never used again, and neither is its key.
        key = None if publisher is None else publisher.new_key()
        number = await self._runs.executor_join(
            NewExecutor(
                name=settings.name,
                queues=settings.queues,
                labels=settings.labels,
                functions=self._functions(),
                slots=settings.slots,
                lease_seconds=settings.lease_seconds,
                results_key=_public(publisher, key),
            )
        )
        if publisher is not None:
            publisher.joined(number, key)
        for _ in range(3):
            # The shortest of three round trips bounds the store's clock best.
            sent = self._clock.monotonic()
            beat = await self._runs.executor_beat(number, settings.lease_seconds)
            self._time.saw(beat.now, sent)
        self._lease.number = number
        self._lease.renewed(mark)
        logger.info("executor_joined", executor=number, name=settings.name, queues=list(settings.queues))

    def _functions(self) -> tuple[str, ...]:
        return tuple(name for intake in self._intakes for name in intake.runner.offers())

    # ------------------------------------------------------------------ the lease

    async def _beat(self) -> float:
        settings = self._settings
        mark = self._lease.mark()
        beat = await self._runs.executor_beat(
            self._lease.number, settings.lease_seconds, self._functions(), differs=self._reconciliation.differs
        )
        self._time.saw(beat.now, mark.monotonic)
        if not beat.alive:
            await self._rejoin()
            return 0.0
        self._lease.renewed(mark)
        self._reconciliation.heard(beat.epoch)
        for request in beat.cancels:
            self._cancel(request.run_id, request.kind)
        if self._run_log is not None:
            self._run_log.flush()
        return settings.heartbeat_seconds

    async def _compare(self) -> float:
        """Compare what we hold with what the store says."""
        return await self._reconciliation.compare(self._settings.heartbeat_seconds)

    async def _watch_lease(self) -> float:
        """Stop everything that our lease covers before it ends, unless it is renewed; how long until then."""
        left = self._lease.left_seconds()
        if left > 0.0:
            return max(left, 0.001)
        self._stop_covered()
        return WATCH_SECONDS

    def _release_late(self) -> None:
        """Once our lease is over, runners give back what waits in them.

        They report an end before they fill the place that it frees, and this is asked with each report: so nothing
        begins after a time in which this process stood still, though the watch has not had its turn yet.
        """
        if self._lease.left_seconds() > 0.0 or self._releasing:
            return
        self._releasing = True
        try:
            for intake in self._intakes:
                intake.runner.release_waiting()
        finally:
            self._releasing = False

    def _stop_covered(self) -> None:
        self._release_late()
        running = [
            held for held in self._books.live.values() if held.stage is RunStage.LAUNCHED and not held.letting_go
        ]
        if running:
            logger.error("lease_over", executor=self._lease.number, stopped=len(running))
            self._telemetry.let_go(len(running))
        grace = self._lease.grace_seconds()
        for held in running:
            held.letting_go = True
            held.intake.runner.stop(held.claimed.run_id, grace_seconds=grace)

    async def _rejoin(self) -> None:
        """Buried: others may run what we run. Kill it all, tell nothing, and come back under a new number."""
        logger.error("executor_expired", executor=self._lease.number, still_open=len(self._books.live))
        self._lease.ended()
        for held in [*self._books.live.values()]:
            self._books.abandon(held)
        self._starter.forget()
        self._outbox.forget()
        self._reconciliation.forget()
        while self._books.ghosts:
            # Until its task is dead, a run must not begin here again.
            self._books.idle.clear()
            await wait_for(self._books.idle, 1.0)
        await self._join()

    def _cancel(self, run: UUID, kind: CancelKind) -> None:
        held = self._books.live.get(run)
        if held is None:
            if all(run != known for known, _ in self._outbox.pairs()):
                # The store believes that we hold it, and nothing of it is on its way.
                self._reconciliation.doubt()
            return
        if held.stage is RunStage.HOLDING:
            now = self._time.now()
            if kind is CancelKind.RETURN:
                self._settle(held, given_back(held, now))
            else:
                self._settle(held, called_off(held, now, revoked=kind is CancelKind.REVOKE))
        elif kind is CancelKind.CANCEL and not held.cancelling:
            held.cancelling = True
            if held.stage is RunStage.LAUNCHED:
                held.intake.runner.stop(run, grace_seconds=self._settings.kill_grace_seconds)

    # ------------------------------------------------------------------ claim

    async def _claim(self) -> float:
        if self._draining:
            return IDLE_SECONDS
        if self._lease.stands() and await self._claimer.claim():
            return 0.0
        await self._clock.sleep(CLAIM_GAP_SECONDS)
        return self._claimer.until_look()

    async def _heard(self) -> float:
        """A bell rang: with hints on their way, only for those who do not get them."""
        if self._hinting is not None and not self._hinting.reachable():
            self._claim_wake.set()
        return IDLE_SECONDS

    async def _look_afresh(self) -> float:
        """Claim from the start of a queue that goes on: its runs have no hint, and the last claims read past them."""
        self._claimer.look_afresh()
        self._claim_wake.set()
        return IDLE_SECONDS

    async def _listen(self) -> float:
        """Take hints, until there are as many as can wait."""
        hinting = self._hinting
        if hinting is None or self._draining:
            return IDLE_SECONDS
        room = await hinting.listen()
        if hinting.size():
            self._claim_wake.set()
        return 0.0 if room else self._settings.poll_seconds

    async def _confirm(self) -> float:
        if self._hinting is not None:
            await self._hinting.confirm()
        return IDLE_SECONDS

    def _tokens(self) -> Iterator[int]:
        """The tokens of all claims that the store answered, ended ones too: the store may have lost their ends."""
        live = (held.claimed.token for held in self._books.live.values())
        return itertools.chain(live, self._outbox.tokens(), self._reconciliation.claims.tokens())

    def _take(self, rows: Sequence[Claimed]) -> None:
        """Claimed runs come into the books."""
        self._time.saw(rows[0].now)
        self._reconciliation.claims.add(rows)
        self._telemetry.claimed(len(rows))
        by_kind, live, ghosts, taken = self._by_kind, self._books.live, self._books.ghosts, []
        for claimed in rows:
            try:
                body = read_body(claimed.spec)
                held = HeldRun(claimed, body, by_kind[body.kind], claimed.guarded or body.guarded)
            except (msgspec.MsgspecError, KeyError) as wrong:
                self._refuse(claimed, f"{type(wrong).__name__}: {wrong}")
                continue
            run_id = claimed.run_id
            if (run_id in live or run_id in ghosts) and self._has_dying_attempt(claimed):
                later = self._time.now() + GHOST_SECONDS
                self._outbox.add(given_back(held, self._time.now())._replace(retry_at=later), held.intake)
                continue
            live[run_id] = held
            held.intake.held += 1
            taken.append(held)
        if self._draining:
            # It was under way when the end was asked for.
            self._give_back(taken)
        else:
            self._starter.take(taken)

    def _has_dying_attempt(self, claimed: Claimed) -> bool:
        """Whether an attempt of this run, which the store has taken from us, is still alive here. Its end would be
        taken for that of the new one."""
        old = self._books.live.get(claimed.run_id)
        if old is not None:
            logger.warning("attempt_superseded", run_id=str(claimed.run_id), executor=self._lease.number)
            self._books.abandon(old)
        return claimed.run_id in self._books.ghosts

    def _refuse(self, claimed: Claimed, detail: str) -> None:
        logger.error("definition_unreadable", run_id=str(claimed.run_id), detail=detail)
        self._outbox.add(unreadable(claimed, self._time.now(), detail), self._intakes[0])

    def _give_back(self, batch: Iterable[HeldRun]) -> None:
        now = self._time.now()
        for held in batch:
            self._settle(held, given_back(held, now))

    # ------------------------------------------------------------------ what runners report

    def began(self, run_id: UUID, started: float) -> None:
        """A task has been going on for a while: record its start with the next batch."""
        self._release_late()
        held = self._books.live.get(run_id)
        if held is not None and not held.guarded:
            self._outbox.start(Began(run_id, held.claimed.token, started))

    def ended_many(self, endings: Sequence[tuple[UUID, Ending]]) -> None:
        """Many tasks are over. Quick functions that went well are the bulk of a busy executor's work, so they go
        straight to the outbox, without the calls that the others take."""
        self._release_late()
        live, done, late, urgent = self._books.live, [], [], False
        logged: list[tuple[Claimed, float]] = []
        lines = 0 if self._run_log is None else self._run_log.ends_room
        for run_id, ending in endings:
            held = live.get(run_id)
            verdict, started, ended, _, _, result, _, _ = ending
            if held is None or verdict is not _OK:
                self.ended(run_id, ending)
                continue
            del live[run_id]
            claimed, intake = held.claimed, held.intake
            intake.launched -= 1
            if claimed.attempt == 1:
                late.append(started - claimed.due)
            outcome = (run_id, claimed.token, SUCCESS, started, ended, None, None, result, None, held.body.is_followed)
            done.append((_new(Outcome, outcome), intake))
            if len(logged) < lines:
                logged.append((claimed, ended - started))
            urgent = urgent or held.body.is_waited_for or claimed.guarded
        if self._run_log is not None:
            self._run_log.succeeded(logged, len(done))
        self._outbox.add_many(done, late, urgent=urgent)
        for intake in {intake for _, intake in done}:
            intake.freed()

    def ended(self, run_id: UUID, ending: Ending) -> None:
        """A task is over: decide what follows and queue that for the store."""
        self._release_late()
        held = self._books.live.get(run_id)
        if held is None:
            # Abandoned when we were buried, or refused as stale: it is dead now, and that is all that matters.
            self._books.bury(run_id)
        elif self._lease.left_seconds() <= 0.0 and ending.reason in KILLED:
            # The watcher of the lease killed it while this process was stopped. The task did not fail.
            held.letting_go = True
            self._end(held, ending._replace(verdict=Verdict.CANCELLED))
        else:
            self._end(held, ending)

    def _end(self, held: HeldRun, ending: Ending) -> None:
        if held.claimed.attempt == 1:
            self._outbox.late(ending.started - held.claimed.due)
        if ending.verdict is Verdict.UNOFFERED and self._circuits is not None:
            self._circuits.add(ending)
        self._settle(held, outcome_of(held, ending, self._clock.chance()))

    def _settle(self, held: HeldRun, outcome: Outcome) -> None:
        """From here on the run is an outcome that waits for the store."""
        self._books.forget(held)
        if self._run_log is not None:
            self._run_log.ended(held.claimed, outcome)
        self._outbox.add(outcome, held.intake, urgent=held.is_urgent())

    # ------------------------------------------------------------------ what the store is told

    async def _finish(self) -> float:
        pressed = any(intake.pressed() for intake in self._intakes)
        return await self._outbox.send_outcomes(lambda: self._lease.number, pressed=pressed)

    async def _ask_published(self) -> float:
        return await self._outbox.ask_published(lambda: self._lease.number)

    def slots(self) -> Mapping[str, Buffer]:
        """How many of its slots are busy, by the kinds of tasks that share them."""
        return {",".join(intake.kinds): intake.busy for intake in self._intakes}

    def buffers(self) -> Mapping[str, Buffer]:
        """What waits here, and how much may."""
        settings, books = self._settings, self._books
        slots = settings.slots * len(self._intakes)
        found = {
            "executor_held": Buffer(len(books.live), settings.held_max + slots),
            "executor_outcomes": Buffer(len(self._outbox), settings.held_max + slots),
        }
        if self._hinting is not None:
            found["executor_hints"] = Buffer(self._hinting.size(), self._hinting.limit())
        if self._publisher is not None:
            found["executor_published"] = Buffer(self._publisher.count, MAX_KEPT)
        return found

    async def _record_starts(self) -> float:
        live = self._books.live

        def lives(began: Began) -> bool:
            held = live.get(began.run_id)
            return held is not None and held.claimed.token == began.token

        for began in await self._outbox.send_starts(self._lease.number, lives):
            if lives(began):
                held = live[began.run_id]
                logger.warning("attempt_stale", run_id=str(began.run_id), executor=self._lease.number)
                self._books.abandon(held)
        return IDLE_SECONDS


def _public(publisher: Publisher | None, key: ExecutorKey | None) -> bytes | None:
    """The key that an executor joins with."""
    if publisher is None:
        return PUBLISHES_NOTHING
    return None if key is None else key.public
