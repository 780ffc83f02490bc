"""Tables of situations: what the rules of `domain.rules` say of each, and what the store does in it.

Each test sets up all situations of a small domain in one store, many of them in each call, and compares all outcomes
with the verdicts. A failure shows the situations in which the store does something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.domain.rules.losses import LossFate, LossVerdict, LostAttempt, lost
from tickwise.domain.rules.returns import ReturnVerdict, came_back, claimable_at
from tickwise.domain.rules.sentences import CANCELLED, LEASE_LOST, cancelled_sentence
from tickwise.ports.store import ClaimRequest, JobAction, NewRun, RunCancel, RunSkip, Store
from tickwise.testing.contracts.base import LEASE_SECONDS, StoreContract, began, microseconds
from tickwise.testing.factories import Factory, outcome

HOUR: Final = 3600.0
CRASHES_MAX: Final = 3
SKIP_SENTENCE: Final = "not today"
POSTPONED_SECONDS: Final = 10.0

S = TypeVar("S")


class Ask(NamedTuple):
    """A request to the holder of a run, and its job."""

    kind: CancelKind | None
    run_id: UUID
    job_id: UUID


class ShownRun(NamedTuple):
    """A run as the store shows it, after the call under test."""

    state: RunState
    reason: str | None
    error: str | None
    attempt: int
    failures: int
    crashes: int
    executor: int | None
    ready_at: int | None
    """In microseconds; None: it cannot be claimed."""
    attempts: tuple[tuple[RunState, str | None], ...]


class TableContract(StoreContract):
    """Shortcuts for many situations at once."""

    async def executor(self, store: Store, name: str, lease_seconds: float = 100 * HOUR) -> int:
        """An executor that lives long."""
        return await self.register(store, name, lease_seconds=lease_seconds)

    async def job_for(self, store: Store, make: Factory, *runs: NewRun) -> UUID:
        """A job whose schedule is far from firing, with these runs."""
        job = make.recurring(make.now + 1000 * HOUR)
        await self.add(store, job)
        assert await store.runs.add("default", job.job_id, runs) is True
        return job.job_id

    async def jobs_for(
        self, store: Store, make: Factory, runs: Mapping[S, Sequence[NewRun]], **fields: Any
    ) -> dict[S, UUID]:
        """As `job_for`, a job for each situation."""
        jobs = {situation: make.recurring(make.now + 1000 * HOUR, **fields) for situation in runs}
        await self.add(store, *jobs.values())
        for situation, job in jobs.items():
            assert await store.runs.add("default", job.job_id, runs[situation]) is True
        return {situation: job.job_id for situation, job in jobs.items()}

    async def take(
        self, store: Store, executor: int, runs: Iterable[UUID], *, queues: Sequence[str] = ("default", "held")
    ) -> dict[UUID, Claimed]:
        """Claim these runs, whenever they are due."""
        wanted = list(runs)
        request = ClaimRequest(
            executor=executor,
            queues=queues,
            labels=(),
            limit=len(wanted),
            ahead_seconds=10 * HOUR,
            runs=wanted,
        )
        claims = {claimed.run_id: claimed for claimed in await store.attempts.claim(request)}
        assert set(claims) == set(wanted)
        return claims

    async def ask(self, store: Store, make: Factory, asks: Iterable[Ask]) -> None:
        """Ask the holders of runs: RETURN by a pause of the job, REVOKE by a skip, CANCEL by a cancel."""
        for kind, run_id, job_id in asks:
            if kind is CancelKind.CANCEL:
                await store.runs.move(RunCancel("default", run_id, "ada"))
            elif kind is CancelKind.REVOKE:
                await store.runs.move(RunSkip("default", run_id, SKIP_SENTENCE))
            elif kind is CancelKind.RETURN:
                move = make.move(job_id, JobAction.PAUSE, postponed_after_seconds=POSTPONED_SECONDS / 2)
                await store.jobs.move(move)

    async def seen(self, store: Store, run_id: UUID) -> ShownRun:
        """A run as the store shows it."""
        row = await self.run_row(store, run_id)
        attempts = [(each.state, each.reason) for each in await store.runs.attempts(run_id)]
        return ShownRun(
            *(row.state, row.reason, row.error, row.attempt, row.failures, row.crashes, row.executor),
            microseconds(row.ready_at),
            tuple(attempts),
        )

    def assert_table(self, expected: Mapping[S, object], found: Mapping[S, object]) -> None:
        """Fail with the situations in which the store differs from the rule."""
        assert expected, "the table is empty"
        differing = {
            situation: {"the rule": verdict, "the store": found[situation]}
            for situation, verdict in expected.items()
            if found[situation] != verdict
        }
        assert differing == {}, f"{len(differing)} of {len(expected)} situations differ"


class LossSituation(NamedTuple):
    """A run whose executor is gone."""

    begun: bool
    in_order: bool
    on_unknown: OnUnknown
    crashes: int
    asked: CancelKind | None


LOSSES: Final = [
    LossSituation(begun, in_order, on_unknown, crashes, asked)
    for begun, in_order, on_unknown, crashes, asked in product(
        (False, True), (False, True), OnUnknown, range(CRASHES_MAX), (None, *CancelKind)
    )
    # Only a recorded start says what a loss means; a run that had begun is neither skipped nor held back.
    if (begun or on_unknown is OnUnknown.RERUN) and (crashes == 0 or asked in (None, CancelKind.CANCEL))
]


class LossTableContract(TableContract):
    """`executors.expire` and `executors.leave` follow `domain.rules.losses`."""

    async def test_each_lost_attempt_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By how its executor went, its recorded start, earlier crashes, and what was asked of it."""
        due = make.now + HOUR
        runs, jobs = await self._runs(store, make, due)
        await self._crash(store, runs)
        lost_one, left_one = await self.register(store, "lost"), await self.executor(store, "left")
        holders = {one: left_one if one.in_order else lost_one for one in LOSSES}
        claims: dict[UUID, Claimed] = {}
        for holder in (lost_one, left_one):
            claims |= await self.take(store, holder, [runs[one] for one in LOSSES if holders[one] == holder])
        await self.ask(store, make, [Ask(one.asked, runs[one], jobs[one]) for one in LOSSES])
        for holder in (lost_one, left_one):
            begun = [one for one in LOSSES if one.begun and holders[one] == holder]
            starts = [began(claims[runs[one]], on_unknown=one.on_unknown) for one in begun]
            assert list(await store.attempts.start(holder, starts)) == []
        await store.executors.leave(left_one)
        await self.shift(store, LEASE_SECONDS + 1.0)
        expired = await store.executors.expire(crashes_max=CRASHES_MAX)
        found = {one: await self.seen(store, runs[one]) for one in LOSSES}
        self.assert_table({one: expected_loss(one, holders[one], due) for one in LOSSES}, found)
        fates = {runs[one]: loss_verdict(one).fate for one in LOSSES if not one.in_order}
        assert expired.freed == list(fates.values()).count(LossFate.REQUEUE)
        assert set(expired.quarantined) == {run for run, fate in fates.items() if fate is LossFate.QUARANTINE}
        assert set(expired.unknown) == {run for run, fate in fates.items() if fate in (LossFate.FAIL, LossFate.HOLD)}
        assert set(expired.held) == {run for run, fate in fates.items() if fate is LossFate.HOLD}

    async def _runs(
        self, store: Store, make: Factory, due: float
    ) -> tuple[dict[LossSituation, UUID], dict[LossSituation, UUID]]:
        """A postponed fire for each situation, in a job of its own: the runs and the jobs."""
        runs: dict[LossSituation, UUID] = {}
        jobs: dict[LossSituation, UUID] = {}
        for one in LOSSES:
            run = postponed(make, due)
            runs[one], jobs[one] = run.run_id, await self.job_for(store, make, run)
        return runs, jobs

    async def _crash(self, store: Store, runs: Mapping[LossSituation, UUID]) -> None:
        """Lose runs with their executors as often as the situations say."""
        for crash in range(1, CRASHES_MAX):
            executor = await self.register(store, f"crash {crash}")
            crashing = [runs[one] for one in LOSSES if one.crashes >= crash]
            claims = await self.take(store, executor, crashing)
            assert list(await store.attempts.start(executor, [began(claims[run]) for run in crashing])) == []
            await self.shift(store, LEASE_SECONDS + 1.0)
            assert (await store.executors.expire(crashes_max=CRASHES_MAX)).freed == len(crashing)


def postponed(make: Factory, due: float) -> NewRun:
    """A fire that a person gave another time."""
    nominal = due - POSTPONED_SECONDS
    return make.scheduled(make.identifier(), due, nominal=nominal)


def loss_verdict(one: LossSituation) -> LossVerdict:
    """The verdict of the rule."""
    return lost(
        LostAttempt(
            begun=one.begun,
            in_order=one.in_order,
            on_unknown=one.on_unknown,
            crashes=one.crashes,
            crashes_max=CRASHES_MAX,
            asked=one.asked,
        )
    )


def expected_loss(one: LossSituation, holder: int, due: float) -> ShownRun:
    """A run as the rule predicts it, after its executor is gone."""
    verdict = loss_verdict(one)
    attempts: list[tuple[RunState, str | None]] = [(RunState.QUEUED, LEASE_LOST)] * one.crashes
    if verdict.lost_reason is not None:
        attempts.append((RunState.QUEUED, verdict.lost_reason))
    number = one.crashes + verdict.counted
    match verdict.fate:
        case LossFate.REQUEUE:
            # A run that was asked back for a pause waits for its end, unless it has begun.
            held_back = came_back(one.asked, begun=one.begun, paused=True) is ReturnVerdict.HOLD_BACK
            ready = None if held_back else microseconds(due)
            return ShownRun(RunState.QUEUED, None, None, number, 0, verdict.crashes, None, ready, tuple(attempts))
        case LossFate.CANCEL:
            told = (RunState.CANCELLED, CANCELLED, cancelled_sentence("ada"))
        case LossFate.REVOKE:
            told = (RunState.SKIPPED, "requested", SKIP_SENTENCE)
        case _:
            attempts.append((RunState.FAILED, verdict.reason))
            failed = (RunState.FAILED, verdict.reason, verdict.error)
            return ShownRun(*failed, number, 0, verdict.crashes, holder, None, tuple(attempts))
    return ShownRun(*told, number, 0, verdict.crashes, None, None, tuple(attempts))


class ReturnSituation(NamedTuple):
    """A run that its holder gives back, or that is to be tried again."""

    target: RunState
    begun: bool
    asked: CancelKind | None
    due_seconds: float
    """From now on."""
    retry_seconds: float | None
    """From now on; None: the executor names no time."""


RETURNS: Final = [
    ReturnSituation(target, begun, asked, due_seconds, retry_seconds)
    for target, begun, asked, due_seconds, retry_seconds in product(
        (RunState.QUEUED, RunState.RETRYING), (False, True), (None, *CancelKind), (0.0, HOUR), (None, -HOUR, 2 * HOUR)
    )
    # A pause asks nothing of a run that is due, and no attempt ends before its run is due.
    if (due_seconds > 0.0 or asked is not CancelKind.RETURN) and (due_seconds == 0.0 or retry_seconds != -HOUR)
]


class ReturnTableContract(TableContract):
    """`attempts.finish` with QUEUED and RETRYING follows `domain.rules.returns`."""

    async def test_each_run_that_comes_back_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By whether it had begun, what was asked of its holder, and when it is to be tried again."""
        runs: dict[ReturnSituation, UUID] = {}
        jobs: dict[ReturnSituation, UUID] = {}
        for one in RETURNS:
            run = postponed(make, make.now + one.due_seconds)
            runs[one], jobs[one] = run.run_id, await self.job_for(store, make, run)
        executor = await self.executor(store, "one")
        claims = await self.take(store, executor, runs.values())
        await self.ask(store, make, [Ask(one.asked, runs[one], jobs[one]) for one in RETURNS])
        starts = [began(claims[runs[one]]) for one in RETURNS if one.begun]
        assert list(await store.attempts.start(executor, starts)) == []
        ends = [outcome(claims[runs[one]], one.target, **self._fields(one, make)) for one in RETURNS]
        assert await self.finish(store, executor, *ends) == []
        found = {one: await self.seen(store, runs[one]) for one in RETURNS}
        now = {one: instant_near(found[one].ready_at, make.now) for one in RETURNS}
        self.assert_table({one: expected_return(one, make.now, now[one]) for one in RETURNS}, found)

    def _fields(self, one: ReturnSituation, make: Factory) -> dict[str, Any]:
        retry_at = None if one.retry_seconds is None else make.now + one.retry_seconds
        # The instant of a start that was recorded in vain is 0.
        started = {} if one.begun or one.target is RunState.RETRYING else {"started": 0.0}
        return {"reason": "busy", "error": "no room", "retry_at": retry_at, **started}


def instant_near(ready: int | None, now: float) -> float:
    """The reading of the store's clock that a call took, if the run became claimable then: all other instants of the
    table are an hour away."""
    return ready / 1_000_000 if ready is not None and 0.0 <= ready / 1_000_000 - now < HOUR / 2 else now


def expected_return(one: ReturnSituation, began_at: float, now: float) -> ShownRun:
    """A run as the rule predicts it, after it came back."""
    retried = one.target is RunState.RETRYING
    begun = one.begun or retried
    attempts = ((one.target, "busy"),) if begun else ()
    number, failures = int(begun), int(retried)
    match came_back(one.asked, begun=begun, paused=True):
        case ReturnVerdict.CANCEL:
            ended = (RunState.CANCELLED, CANCELLED, cancelled_sentence("ada"))
            return ShownRun(*ended, number, failures, 0, None, None, attempts)
        case ReturnVerdict.REVOKE:
            ended = (RunState.SKIPPED, "requested", SKIP_SENTENCE)
            return ShownRun(*ended, number, failures, 0, None, None, attempts)
        case ReturnVerdict.HOLD_BACK:
            ready = None
        case _:
            retry_at = None if one.retry_seconds is None else began_at + one.retry_seconds
            ready = microseconds(claimable_at(now=now, due=began_at + one.due_seconds, retry_at=retry_at))
    return ShownRun(one.target, None, None, number, failures, 0, None, ready, attempts)
