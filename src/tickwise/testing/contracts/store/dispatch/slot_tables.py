"""Tables of starts under limits and rates: what `domain.rules` says, and what the store does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Claimed
from tickwise.domain.rules.limits import CLAIM_SECONDS, START_SECONDS, Reservation, has_slot, reservation, wakes
from tickwise.domain.rules.rates import RateState, step
from tickwise.ports.store import Gate, NewRun, Store
from tickwise.testing.contracts.base import began, lane
from tickwise.testing.contracts.store.dispatch.rule_tables import TableContract
from tickwise.testing.factories import Factory, outcome

MAX_RUNNING: Final = 3


class CrowdSituation(NamedTuple):
    """Runs under one key: some go on, and others ask for a slot or wait for one."""

    running: int
    limits: tuple[int, ...]
    """Of each of the others, the longest ready first."""
    ended: int = 0
    """The number of the first that end."""

    @property
    def key(self) -> str:
        return f"crowd {self.running} {self.limits} {self.ended}"


STARTING: Final = [CrowdSituation(*each) for each in product(range(MAX_RUNNING + 1), [(most,) for most in range(1, 5)])]
WAITING: Final = [
    CrowdSituation(running, limits, ended)
    for running in range(1, MAX_RUNNING + 1)
    for count in range(1, MAX_RUNNING + 1)
    for limits in product(range(1, running + 1), repeat=count)
    for ended in range(1, running + 1)
]
"""All wait, for as many run as each of them allows."""


class LateSituation(NamedTuple):
    """A woken run that has not started, and runs that wait behind it for the one slot."""

    claimed: bool
    on_hold: bool
    behind: int

    @property
    def queue(self) -> str:
        return "held" if self.on_hold else "default"

    @property
    def key(self) -> str:
        return f"late {self.claimed} {self.on_hold} {self.behind}"


LATE: Final = [LateSituation(*each) for each in product((False, True), (False, True), range(1, 3))]


class SlotTableContract(TableContract):
    """`Gate.limit_key` follows `domain.rules.limits`."""

    async def test_each_start_under_a_limit_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By its limit, and the number of runs under the key."""
        executor, crowds = await self._crowds(store, make, STARTING)
        expected = {one: [has_slot(one.limits[0], one.running)] for one in STARTING}
        found = {one: await self._running(store, crowds[one][one.running :]) for one in STARTING}
        self.assert_table(expected, found)
        assert executor > 0

    async def test_each_slot_that_is_free_goes_to_the_runs_of_the_verdict(self, store: Store, make: Factory) -> None:
        """By the limits of the waiting runs, the longest ready first. The end of a hold frees several slots at once."""
        executor, crowds = await self._crowds(store, make, WAITING)
        waiting = {one: [run.run_id for run in crowds[one][one.running :]] for one in WAITING}
        assert {await self.waits(store, run) for runs in waiting.values() for run in runs} == {True}
        await store.queues.hold(make.hold("held"))
        ends = [outcome(claimed) for one in WAITING for claimed in crowds[one][: one.ended]]
        assert await self.finish(store, executor, *ends) == []
        assert await store.queues.resume("default", "held")
        expected = {one: woken(one.limits, taken=one.running - one.ended) for one in WAITING}
        found = {one: [not await self.waits(store, run) for run in waiting[one]] for one in WAITING}
        self.assert_table(expected, found)

    async def _crowds(
        self, store: Store, make: Factory, situations: Sequence[CrowdSituation]
    ) -> tuple[int, dict[CrowdSituation, list[Claimed]]]:
        """The executor that holds them, and the runs of each situation after their starts: first those that go on."""
        executor = await self.executor(store, "one")
        runs: dict[CrowdSituation, list[NewRun]] = {}
        for one in situations:
            count = one.running + len(one.limits)
            runs[one] = [make.run(make.identifier(), make.now + number) for number in range(count)]
        await self.jobs_for(store, make, runs, lane=lane(queue="held"))
        await self.shift(store, 10.0)
        claims = await self.take(store, executor, [run.run_id for each in runs.values() for run in each])
        crowds = {one: [claims[run.run_id] for run in each] for one, each in runs.items()}
        for place in range(max(len(each) for each in runs.values())):
            starts = [
                began(each[place], gate=Gate(limit_key=one.key, limit=limit_at(one, place)))
                for one, each in crowds.items()
                if place < len(each)
            ]
            await store.attempts.start(executor, starts)
        return executor, crowds

    async def _running(self, store: Store, claims: Sequence[Claimed]) -> list[bool]:
        return [await self.run_state(store, claimed.run_id) is RunState.RUNNING for claimed in claims]

    async def test_each_sweep_wakes_the_runs_of_the_verdict(self, store: Store, make: Factory) -> None:
        """By the woken runs that have reserved no slot: unclaimed, claimed and not started, or in a queue on hold."""
        executor = await self.executor(store, "one")
        runs: dict[LateSituation, list[UUID]] = {}
        for one in LATE:
            made = [make.run(make.identifier(), make.now + number) for number in range(2 + one.behind)]
            runs[one] = [run.run_id for run in made]
            first = make.recurring(make.now + 1_000_000.0, lane=lane(queue=one.queue))
            await self.add(store, first)
            assert await store.runs.add("default", first.job_id, made[:2]) is True
            await self.job_for(store, make, *made[2:])
        await self.shift(store, 10.0)
        claims = await self.take(store, executor, [run for each in runs.values() for run in each])
        for place in range(4):
            starts = [
                began(claims[each[place]], gate=Gate(limit_key=one.key, limit=1))
                for one, each in runs.items()
                if place < len(each)
            ]
            await store.attempts.start(executor, starts)
        assert await self.finish(store, executor, *(outcome(claims[each[0]]) for each in runs.values())) == []
        await self.take(store, executor, [each[1] for one, each in runs.items() if one.claimed])
        await store.queues.hold(make.hold("held"))
        await self.shift(store, START_SECONDS + CLAIM_SECONDS + 1.0)
        await store.runs.unblock()
        found = {one: [not await self.waits(store, run) for run in each[2:]] for one, each in runs.items()}
        self.assert_table({one: woken_behind(one) for one in LATE}, found)


def limit_at(one: CrowdSituation, place: int) -> int:
    """The limit of the run at a place: those that go on have room."""
    return MAX_RUNNING + 1 if place < one.running else one.limits[place - one.running]


def woken(limits: Sequence[int], *, taken: int, late: int = 0) -> list[bool]:
    """The waiting runs that go on, by the rule."""
    answers: list[bool] = []
    for limit in limits:
        answers.append(wakes(limit, taken, answers.count(True), late))
    return answers


def woken_behind(one: LateSituation) -> list[bool]:
    """The runs behind a late one that go on at a sweep, by the rule."""
    now = START_SECONDS + CLAIM_SECONDS + 1.0
    found = reservation(ready=0.0, claimed=0.0 if one.claimed else None, on_hold=one.on_hold, now=now)
    return woken([1] * one.behind, taken=found is Reservation.TAKES, late=found is Reservation.LATE)


GAP_SECONDS: Final = 100.0
SHIFTS: Final = (0.0, 20.0, 20.0, 155.0, 60.0)
"""Before each round of starts: three rounds within a gap; then slots are late by less than a gap, and by more."""
RUNS: Final = 3
"""One that has started, one that has a slot, and one that asks for the slot after that."""
NOBODY: Final = RUNS
SCRIPTS: Final = list(product(range(NOBODY + 1), repeat=len(SHIFTS)))
"""The run that asks to start in each round, or none."""


class Told(NamedTuple):
    """The state of a run under a rate."""

    running: bool
    slot: float | None


class RateTableContract(TableContract):
    """`Gate.rate_key` follows `domain.rules.rates`."""

    async def test_each_start_under_a_rate_meets_the_verdict(self, store: Store, make: Factory) -> None:
        """By the last start, the slots that others have, and its own: over several rounds, of three runs each.

        The store's clock goes on within a call, so that each instant is compared with the rule's at the beginning and
        at the end of that call.
        """
        executor = await self.executor(store, "one")
        made = {script: [make.run(make.identifier(), make.now) for _ in range(RUNS)] for script in SCRIPTS}
        await self.jobs_for(store, make, made)
        runs = {script: [run.run_id for run in each] for script, each in made.items()}
        early = {script: Rehearsal() for script in SCRIPTS}
        late = {script: Rehearsal() for script in SCRIPTS}
        for number, seconds in enumerate(SHIFTS):
            await self.shift(store, seconds)
            asking = {
                script: runs[script][script[number]]
                for script in SCRIPTS
                if script[number] != NOBODY and not early[script].told[script[number]].running
            }
            claims = await self.take(store, executor, asking.values())
            gates = {script: Gate(rate_key=f"rate {script}", rate_gap_seconds=GAP_SECONDS) for script in asking}
            starts = [began(claims[run], gate=gates[script]) for script, run in asking.items()]
            before = await store.now()
            refused = set(await store.attempts.start(executor, starts))
            after = await store.now()
            expected, found = {}, {}
            for script, run in asking.items():
                low, high = early[script].ask(script[number], before), late[script].ask(script[number], after)
                row = await self.run_row(store, run)
                assert low.running == high.running, "the machine stood still for half a gap"
                expected[number, script] = (low.running, True)
                found[number, script] = (run not in refused, lies_between(row.ready_at, low.slot, high.slot))
            self.assert_table(expected, found)


class Rehearsal:
    """The course of one script by the rule."""

    def __init__(self) -> None:
        self.rate = RateState()
        self.told = [Told(False, None)] * RUNS

    def ask(self, place: int, now: float) -> Told:
        """A run asks to start at an instant."""
        slots = [each.slot for each in self.told if each.slot is not None]
        rate = self.rate._replace(given=max(slots, default=None))
        slot, rate = step(rate, gap=GAP_SECONDS, slot=self.told[place].slot, now=now)
        self.rate, runs = rate, slot <= now
        self.told[place] = Told(runs, None if runs else slot)
        return self.told[place]


def lies_between(ready_at: float | None, low: float | None, high: float | None) -> bool:
    """Check whether a slot lies where the rule puts it; a run that goes on has none."""
    if low is None or high is None:
        return True
    return ready_at is not None and low - 0.001 <= ready_at <= high + 0.001
