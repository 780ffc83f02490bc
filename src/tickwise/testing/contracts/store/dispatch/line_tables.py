"""Tables of runs of one job that would overlap: what `domain.rules.overlap` says, and what the store does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import CancelKind, RunState
from tickwise.domain.model import Claimed, Trigger
from tickwise.domain.rules.overlap import (
    LinedRun,
    ReplacedVerdict,
    StartVerdict,
    is_earlier,
    next_in_line,
    replaced,
    replaces,
    settle,
)
from tickwise.domain.rules.sentences import CANCELLED, REPLACED_SENTENCE, cancelled_sentence, overlap_sentence
from tickwise.ports.store import NewRun, RunQuery, Store
from tickwise.testing.contracts.base import began
from tickwise.testing.contracts.store.dispatch.rule_tables import HOUR, SKIP_SENTENCE, Ask, TableContract
from tickwise.testing.factories import Factory, outcome

TRIGGERS: Final = (Trigger.SCHEDULE, Trigger.RUN_NOW, Trigger.BACKFILL)
POLICIES: Final = tuple(policy for policy in Overlap if policy is not Overlap.ALLOW)
STAGES: Final = (RunState.QUEUED, RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)


class OtherRun(NamedTuple):
    """Another unfinished run of the job."""

    stage: RunState
    trigger: Trigger
    waits: bool = False
    """It asked to start, and waits for an earlier one."""
    beside: bool = False
    """A fire that may run beside others (ALLOW)."""


class LineSituation(NamedTuple):
    """A run that wants to start, and the others of its job."""

    policy: Overlap
    trigger: Trigger
    first: OtherRun | None
    """Due before the second one."""
    second: OtherRun | None
    """Due before the run."""
    later: OtherRun | None
    """Due after the run."""
    asked: CancelKind | None = None


BESIDE: Final = tuple(OtherRun(stage, Trigger.SCHEDULE, beside=True) for stage in STAGES)
FIRSTS: Final = (*(OtherRun(stage, trigger) for stage, trigger in product(STAGES, TRIGGERS)), *BESIDE)
SECONDS: Final = (
    None,
    OtherRun(RunState.QUEUED, Trigger.RUN_NOW),
    OtherRun(RunState.DISPATCHED, Trigger.SCHEDULE),
    OtherRun(RunState.QUEUED, Trigger.SCHEDULE, waits=True),
    OtherRun(RunState.QUEUED, Trigger.RUN_NOW, waits=True),
    OtherRun(RunState.DISPATCHED, Trigger.SCHEDULE, beside=True),
)
LATERS: Final = (
    None,
    OtherRun(RunState.QUEUED, Trigger.RUN_NOW),
    OtherRun(RunState.DISPATCHED, Trigger.RUN_NOW),
    OtherRun(RunState.RUNNING, Trigger.RUN_NOW),
    OtherRun(RunState.RETRYING, Trigger.BACKFILL),
    *BESIDE,
)
LINES: Final = [
    *(
        LineSituation(policy, trigger, first, second, None)
        for policy, trigger, first, second in product(POLICIES, TRIGGERS, FIRSTS, SECONDS)
        # A second run says what a first one does not where both are of the line: a backfill's are looked at alone.
        if second is None or (first.trigger is not Trigger.BACKFILL and first.stage is not RunState.DISPATCHED)
    ),
    *(
        LineSituation(policy, trigger, None, None, later)
        for policy, trigger, later in product(POLICIES, TRIGGERS, LATERS)
    ),
    *(
        LineSituation(policy, Trigger.RUN_NOW, first, second, None, asked)
        for policy, first, second, asked in product(
            POLICIES, (None, FIRSTS[7]), (None, SECONDS[1]), (CancelKind.CANCEL, CancelKind.REVOKE)
        )
    ),
]


class ShownLine(NamedTuple):
    """The runs of a job as the store shows them, after one of them asked to start."""

    run: tuple[RunState, bool, str | None, str | None]
    """Its state, whether it waits, its reason and its error."""
    others: tuple[tuple[RunState, str | None, str | None], ...]
    """Their states, reasons and errors. What waited for one that ended here goes on in this call, or by the sweep."""
    stopping: frozenset[int]
    """The others that are to be stopped, by their place."""


class LineTableContract(TableContract):
    """`attempts.start` of runs whose overlap is open follows `domain.rules.overlap`."""

    async def test_each_start_in_a_line_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By its policy, its trigger, the state of earlier and later runs, and what was asked of it."""
        mine: dict[LineSituation, NewRun] = {}
        others: dict[LineSituation, list[tuple[OtherRun, NewRun]]] = {}
        for one in LINES:
            mine[one] = make.run(make.identifier(), make.now + 3.0, trigger=one.trigger, overlap=one.policy)
            places = ((one.first, 1.0), (one.second, 2.0), (one.later, 4.0))
            others[one] = [(each, other_run(make, each, due)) for each, due in places if each is not None]
        jobs = await self.jobs_for(store, make, {one: [*(run for _, run in others[one]), mine[one]] for one in LINES})
        await self.shift(store, 5.0)
        executor, bystander = await self.executor(store, "one"), await self.executor(store, "two")
        await self._bring(store, bystander, [pair for pairs in others.values() for pair in pairs])
        claims = await self.take(store, executor, [run.run_id for run in mine.values()])
        await self.ask(store, make, [Ask(one.asked, mine[one].run_id, jobs[one]) for one in LINES])
        starts = [began(claims[run.run_id]) for run in mine.values()]
        await store.attempts.start(executor, starts)
        beat = await store.executors.beat(bystander, 100 * HOUR)
        stopping = {request.run_id for request in beat.cancels if request.kind is CancelKind.CANCEL}
        found = {one: await self._seen(store, jobs[one], mine[one], others[one], stopping) for one in LINES}
        self.assert_table({one: expected_line(one, mine[one], others[one]) for one in LINES}, found)

    async def _bring(self, store: Store, executor: int, others: Sequence[tuple[OtherRun, NewRun]]) -> None:
        """Bring the other runs to their stages."""
        claims: dict[UUID, Claimed] = {}
        # A claimed fire that may run beside others is earlier than each run that starts later.
        for beside in (False, True):
            mine = [(other, run) for other, run in others if other.beside is beside]
            taken = [run.run_id for other, run in mine if other.waits or other.stage is not RunState.QUEUED]
            claims |= await self.take(store, executor, taken)
            begun = [run for other, run in mine if other.stage in (RunState.RUNNING, RunState.RETRYING)]
            assert await self._start(store, executor, claims, begun) == set()
        retried = [run for other, run in others if other.stage is RunState.RETRYING]
        later = await store.now() + HOUR
        ends = [outcome(claims[run.run_id], RunState.RETRYING, retry_at=later) for run in retried]
        assert await self.finish(store, executor, *ends) == []
        waiting = [run for other, run in others if other.waits]
        assert await self._start(store, executor, claims, waiting) == {run.run_id for run in waiting}

    async def _start(
        self, store: Store, executor: int, claims: Mapping[UUID, Claimed], runs: Iterable[NewRun]
    ) -> set[UUID]:
        """Record the starts of these runs; the refused."""
        return set(await store.attempts.start(executor, [began(claims[run.run_id]) for run in runs]))

    async def _seen(
        self,
        store: Store,
        job_id: UUID,
        mine: NewRun,
        others: Sequence[tuple[OtherRun, NewRun]],
        stopping: set[UUID],
    ) -> ShownLine:
        rows = {row.run_id: row for row in await store.searches.runs(RunQuery(namespace="default", job_id=job_id))}
        row, rest = rows[mine.run_id], [rows[run.run_id] for _, run in others]
        told = tuple((other.state, other.reason, other.error) for other in rest)
        asked = frozenset(place for place, (_, run) in enumerate(others) if run.run_id in stopping)
        return ShownLine((row.state, row.blocked, row.reason, row.error), told, asked)


def other_run(make: Factory, other: OtherRun, due: float) -> NewRun:
    """A run that comes to its stage without being settled first: a fire is settled when it is the first of its job, and
    any other run, and a fire that is `beside`, may start beside others."""
    open_policy = other.waits or (other.trigger is Trigger.SCHEDULE and not other.beside)
    policy = Overlap.QUEUE_ALL if open_policy else Overlap.ALLOW
    return make.run(make.identifier(), make.now + due, trigger=other.trigger, overlap=policy)


def lined(other: OtherRun, run: NewRun) -> LinedRun:
    """Another run as the rule sees it."""
    settled = run.overlap is not Overlap.ALLOW and other.stage in (RunState.RUNNING, RunState.RETRYING)
    return LinedRun(run.due, run.run_id, run.overlap, run.trigger, settled, other.stage)


def expected_line(one: LineSituation, run: NewRun, others: Sequence[tuple[OtherRun, NewRun]]) -> ShownLine:
    """The runs of a job as the rule predicts them, after one of them asked to start."""
    mine = LinedRun(run.due, run.run_id, one.policy, one.trigger, False, RunState.DISPATCHED)
    earlier, stopping = 0, set()
    told: list[tuple[RunState, str | None, str | None]] = []
    for place, (other, row) in enumerate(others):
        seen = lined(other, row)
        told.append((other.stage, None, None))
        if not is_earlier(seen, mine):
            continue
        if not replaces(mine, seen):
            earlier += 1
            continue
        held = other.stage in (RunState.DISPATCHED, RunState.RUNNING)
        match replaced(held=held, begun=other.stage in (RunState.RUNNING, RunState.RETRYING)):
            case ReplacedVerdict.STOP:
                earlier += 1
                stopping.add(place)
            case ReplacedVerdict.SKIP:
                told[-1] = (RunState.SKIPPED, "overlap", REPLACED_SENTENCE)
            case ReplacedVerdict.CANCEL:
                told[-1] = (RunState.CANCELLED, CANCELLED, REPLACED_SENTENCE)
    verdict = settle(one.policy, earlier, one.asked)
    return ShownLine(expected_run(verdict, earlier, one.asked), tuple(told), frozenset(stopping))


def expected_run(
    verdict: StartVerdict, earlier: int, asked: CancelKind | None
) -> tuple[RunState, bool, str | None, str | None]:
    """The run itself, as the rule predicts it."""
    if verdict is StartVerdict.START:
        return RunState.RUNNING, False, None, None
    if verdict is StartVerdict.SKIP:
        return RunState.SKIPPED, False, "overlap", overlap_sentence(earlier)
    return waiting(asked)


def waiting(asked: CancelKind | None) -> tuple[RunState, bool, str | None, str | None]:
    """A run that does not start now: it waits, or ends as it was asked to."""
    if asked is CancelKind.CANCEL:
        return RunState.CANCELLED, False, CANCELLED, cancelled_sentence("ada")
    if asked is CancelKind.REVOKE:
        return RunState.SKIPPED, False, "requested", SKIP_SENTENCE
    return RunState.QUEUED, True, None, None


class QueuedRun(NamedTuple):
    """A run that waits behind one that goes on."""

    policy: Overlap
    trigger: Trigger


QUEUED: Final = tuple(
    QueuedRun(*each)
    for each in product((Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING), (Trigger.SCHEDULE, Trigger.RUN_NOW))
)
QUEUES: Final = [queue for count in range(1, 4) for queue in product(QUEUED, repeat=count)]
"""In the order of their times, which is the one in which they ask to start."""


class WaitingTableContract(TableContract):
    """The end of a run makes the next one of its line claimable, by `domain.rules.overlap`."""

    async def test_each_line_goes_on_with_the_run_of_the_verdict(self, store: Store, make: Factory) -> None:
        """By the policies and triggers of the runs that wait; one goes on, and no other."""
        await self._follow(store, make, make.run)

    async def test_runs_that_wait_for_a_fire_that_may_run_beside_others_go_on_after_it(
        self, store: Store, make: Factory
    ) -> None:
        """Its own policy (ALLOW) says nothing of theirs."""
        await self._follow(store, make, partial(make.run, trigger=Trigger.SCHEDULE, overlap=Overlap.ALLOW))

    async def _follow(self, store: Store, make: Factory, first: Callable[[UUID, float], NewRun]) -> None:
        executor = await self.executor(store, "one")
        runs = {queue: [first(make.identifier(), make.now), *queued_runs(make, queue)] for queue in QUEUES}
        await self.jobs_for(store, make, runs)
        await self.shift(store, 10.0)
        claims = await self.take(store, executor, [run.run_id for each in runs.values() for run in each])
        for place in range(max(map(len, runs.values()))):
            asking = [each[place].run_id for each in runs.values() if place < len(each)]
            await store.attempts.start(executor, [began(claims[run]) for run in asking])
        before = [await self._shown(store, run.run_id) for each in runs.values() for run in each[1:]]
        assert (RunState.QUEUED, False) not in before
        assert await self.finish(store, executor, *(outcome(claims[each[0].run_id]) for each in runs.values())) == []
        await store.runs.unblock()
        found = {queue: [await self._shown(store, run.run_id) for run in runs[queue][1:]] for queue in QUEUES}
        self.assert_table({queue: expected_queue(runs[queue][1:]) for queue in QUEUES}, found)

    async def _shown(self, store: Store, run_id: UUID) -> tuple[RunState, bool]:
        row = await self.run_row(store, run_id)
        return row.state, row.blocked


def queued_runs(make: Factory, queue: Sequence[QueuedRun]) -> list[NewRun]:
    """The runs of a situation, a second apart."""
    return [
        make.run(make.identifier(), make.now + place, trigger=each.trigger, overlap=each.policy)
        for place, each in enumerate(queue, 1)
    ]


def expected_queue(runs: Sequence[NewRun]) -> list[tuple[RunState, bool]]:
    """Waiting runs as the rule predicts them: each replaced the earlier ones that it may replace."""
    queue = [LinedRun(run.due, run.run_id, run.overlap, run.trigger, False, RunState.QUEUED) for run in runs]
    left = [run for place, run in enumerate(queue) if not any(replaces(later, run) for later in queue[place + 1 :])]
    following = next_in_line(left)
    return [(RunState.QUEUED, run is not following) if run in left else (RunState.SKIPPED, False) for run in queue]
