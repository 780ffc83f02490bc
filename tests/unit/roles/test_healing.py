"""What is not as it must be is found by any scheduler, told, and put right where that can be."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog

from tests.unit.roles.rig import Silent, drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane
from tickwise.domain.schedule import Schedule, ScheduleType
from tickwise.ports.signals import Topic
from tickwise.ports.store import Check, Examined, JobAction, NewExecutor, NewJob, Violation
from tickwise.ports.store.wrapping import WrappedStore
from tickwise.roles.scheduler import invariant_repair
from tickwise.roles.scheduler.invariant_repair import PAUSE_JITTER, Healing, timer_after

HOUR = 3600.0


class Told(Silent):
    """What the metrics say."""

    def __init__(self) -> None:
        self.left: dict[str, int | None] = {}
        self.cured: Counter[str] = Counter()

    def violated(self, invariant: str, count: int | None) -> None:
        self.left[invariant] = count

    def mended(self, invariant: str, count: int) -> None:
        self.cured[invariant] += count


class Sick(WrappedStore):
    """A store with violations: as many subjects as the test says, of which some are wrong."""

    def __init__(self, store: Any, wrong: dict[Check, list[int]], subjects: int = 0) -> None:
        super().__init__(store)
        self.checks.violations, self.checks.heal = self._violations, self._heal
        self.wrong = wrong
        self.subjects = subjects
        self.asked: list[tuple[Check, int]] = []
        self.curable = True
        self.trouble: dict[str, Exception] = {}
        self.broken: set[Check] = set()

    async def _violations(self, check: Check, *, after: UUID | None, limit: int) -> Examined:
        if "violations" in self.trouble and check in self.broken:
            raise self.trouble["violations"]
        begin = 1 if after is None else after.int + 1
        page = range(begin, min(begin + limit, self.subjects + 1))
        self.asked.append((check, begin))
        found = [Violation(UUID(int=n), f"{n} is wrong", "default") for n in page if n in self.wrong.get(check, ())]
        return Examined(last=UUID(int=page[-1]) if len(page) == limit else None, found=found)

    async def _heal(self, check: Check, found: Sequence[Violation]) -> int:
        if "heal" in self.trouble:
            raise self.trouble["heal"]
        if not self.curable:
            return 0
        cured = {violation.subject.int for violation in found}
        self.wrong[check] = [number for number in self.wrong[check] if number not in cured]
        return len(cured)


class Ward:
    """One scheduler's healing, of a sick store or of the memory store itself."""

    def __init__(self, wrong: dict[Check, list[int]] | None = None, subjects: int = 0) -> None:
        self.rig = Rig()
        self.told = Told()
        self.store = Sick(self.rig.store, wrong or {}, subjects)
        self.signals = self.rig.signals

    def healing(self, store: Any = None) -> Healing:
        """As a scheduler has it."""
        return Healing(store or self.store, signals=self.signals, clock=self.rig.clock, telemetry=self.told)


# ------------------------------------------------------------------------------------------ walking


async def test_where_all_is_well_every_invariant_is_zero() -> None:
    """Each has its own."""
    ward = Ward()
    await ward.rig.cron("* * * * *", ward.rig.clock.now() + 1)
    await ward.healing(ward.rig.store).look()
    assert {check.value: 0 for check in Check} == ward.told.left


async def test_what_can_be_healed_is_and_what_cannot_stays_in_the_metric() -> None:
    """Both are counted, each in its own way."""
    ward = Ward({Check.ENDED_ONCE: [1, 2], Check.CLAIMED_IN_TIME: [3]}, subjects=5)
    await ward.healing().look()
    assert (0, 1) == (ward.told.left["ended_once"], ward.told.left["claimed_in_time"])
    assert Counter({"ended_once": 2}) == ward.told.cured


async def test_what_cannot_be_healed_starves_nothing_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though there are whole pages of it, the walk comes to the end."""
    monkeypatch.setattr(invariant_repair, "PAGE", 10)
    ward = Ward({Check.ENDED_ONCE: [*range(1, 31), 95]}, subjects=100)
    ward.store.curable = False
    await ward.healing().look()
    asked = [begin for check, begin in ward.store.asked if check is Check.ENDED_ONCE]
    assert [1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 101] == asked
    assert 31 == ward.told.left["ended_once"]


@pytest.mark.parametrize("where", ["violations", "heal"])
async def test_an_invariant_that_fails_holds_up_no_other(where: str) -> None:
    """It is not taken for well."""
    ward = Ward({Check.ENDED_ONCE: [1], Check.HAS_A_JOB: [2]}, subjects=5)
    ward.store.trouble[where] = ValueError("a defect")
    ward.store.broken = {Check.ENDED_ONCE}
    await ward.healing().look()
    assert (None if where == "violations" else 1) == ward.told.left["ended_once"]
    assert 1 == ward.told.left["has_a_job"]


async def test_a_store_that_is_away_ends_the_pass() -> None:
    """The loop that steps waits for it."""
    ward = Ward({Check.ENDED_ONCE: [1]}, subjects=5)
    ward.store.trouble["heal"] = StoreUnavailable("it is away")
    with pytest.raises(StoreUnavailable):
        await ward.healing().look()


async def test_each_violation_is_told_once_a_pass_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it is about."""
    monkeypatch.setattr(invariant_repair, "PAGE", 10)
    monkeypatch.setattr(invariant_repair, "MAX_LOGGED", 15)
    ward = Ward({Check.CLAIMED_IN_TIME: [*range(1, 31)]}, subjects=30)
    with structlog.testing.capture_logs() as logs:
        await ward.healing().look()
    told = [subject for log in logs if log["event"] == "invariant_violated" for subject in log["subjects"]]
    assert [str(UUID(int=number)) for number in range(1, 16)] == told
    assert [15] == [log["count"] for log in logs if log["event"] == "invariant_violations_untold"]
    assert "1 is wrong" == logs[0]["detail"]


async def test_who_could_do_something_about_it_is_woken() -> None:
    """Perhaps a signal was lost."""
    ward = Ward({Check.FOLLOWED_IN_TIME: [1]}, subjects=1)
    sequences, runs = ward.signals.listen(Topic.COMPLETIONS), ward.signals.listen(Topic.RUNS)
    await ward.healing().look()
    assert (True, False) == (sequences.is_set(), runs.is_set())


async def test_a_pass_takes_no_more_than_a_hundredth_of_the_time() -> None:
    """A minute lies between two, and a hundred times what one took. The first comes after a random wait."""
    ward = Ward()
    steps = ward.healing()
    first = await steps.step()
    assert 0.0 <= first < 60.0
    assert [] == ward.store.asked
    short = await steps.step()
    assert 60.0 <= short <= 60.0 * (1.0 + PAUSE_JITTER)
    real = ward.store._violations

    async def slowly(check: Check, **more: Any) -> Examined:
        await ward.rig.clock.sleep(1.0)
        return await real(check, **more)

    ward.store.checks.violations = slowly
    pauses: list[float] = []

    async def step() -> None:
        pauses.append(await steps.step())

    await drive(ward.rig.clock, step())
    took = float(len(Check))
    assert 100.0 * took <= pauses[0] <= 100.0 * took * (1.0 + PAUSE_JITTER)


async def test_what_stays_wrong_is_told_once_an_hour() -> None:
    """The metric says it all the time."""
    ward = Ward({Check.HAS_A_JOB: [1]}, subjects=3)
    steps = ward.healing()
    told = []
    for wrong in ([1], [1], [1, 2], [1, 2]):
        ward.store.wrong[Check.HAS_A_JOB] = wrong
        with structlog.testing.capture_logs() as logs:
            await steps.look()
        told.append([log["subjects"] for log in logs if log["event"] == "invariant_violated"])
        assert len(wrong) == ward.told.left["has_a_job"]
    first, second = (str(UUID(int=number)) for number in (1, 2))
    assert [[[first]], [], [[second]], []] == told
    await ward.rig.clock.advance(HOUR + 1)
    with structlog.testing.capture_logs() as logs:
        await steps.look()
    assert [first, second] == logs[0]["subjects"]


async def test_a_slot_in_handoff_is_no_violation() -> None:
    """What is free for a moment is looked at again; what stays free is told and put right."""
    ward = Ward({Check.WAITS_FOR_SOMETHING: [1, 2]}, subjects=3)
    look = asyncio.ensure_future(ward.healing().look())
    await ward.rig.clock.settle()
    ward.store.wrong[Check.WAITS_FOR_SOMETHING] = [2, 3]
    with structlog.testing.capture_logs() as logs:
        await drive(ward.rig.clock, look)
    assert [[str(UUID(int=2))]] == [log["subjects"] for log in logs if log["event"] == "invariant_violated"]
    assert (0, 1) == (ward.told.left["waits_for_something"], ward.told.cured["waits_for_something"])


async def test_runs_that_no_executor_can_take_are_told_of_once_and_are_no_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They wait for an executor, however many they are; one that could be taken, and is not, is a violation."""
    monkeypatch.setattr(invariant_repair, "PAGE", 20)
    ward = Ward()
    rig = ward.rig
    for queue in ("reports",) * 50 + ("default",):
        job = rig.make.job(rig.clock.now(), lane=Lane(queue))
        await rig.store.jobs.add([job])
    named = NewExecutor(
        number=1, name="e", queues=["default"], labels=[], functions=[], slots=1, lease_seconds=9 * HOUR
    )
    await rig.store.executors.join(named)
    await rig.clock.advance(120.0)
    steps = ward.healing(rig.store)
    for first in (True, False):
        with structlog.testing.capture_logs() as logs:
            await steps.look()
        assert 1 == ward.told.left["claimed_in_time"]
        unserved = [log for log in logs if log["event"] == "runs_unserved"]
        assert first == any("the queue 'reports'" in log["detail"] for log in unserved)
        assert first == ("invariant_violated" in [log["event"] for log in logs])


# ------------------------------------------------------------------------------------------ jobs without a timer


async def without_timer(ward: Ward, job: NewJob) -> None:
    """What should never happen."""
    state = ward.rig.store.state
    state.drop_timer(state.jobs[job.job_id])


async def test_a_job_that_lost_its_timer_goes_on_where_its_record_ends() -> None:
    """Nothing twice, nothing left out: what was lost meanwhile goes the way of what was missed."""
    ward = Ward()
    rig, first = ward.rig, ward.rig.clock.now() + HOUR
    job = await rig.cron("0 * * * *", first, misfire={"mode": "all", "max_catchup": 10, "grace_seconds": 60})
    scheduler = rig.scheduler()
    for _ in range(3):
        await rig.clock.advance(HOUR)
        await drive(rig.clock, scheduler.tick())
    await without_timer(ward, job)
    await rig.clock.advance(3 * HOUR)
    await ward.healing(rig.store).look()
    assert 1 == ward.told.cured["planned"]
    await drive(rig.clock, scheduler.tick())
    await rig.clock.advance(60.0)
    assert [first + number * HOUR for number in range(6)] == [row.nominal_at for row in await rig.rows()]


async def test_a_job_that_never_ran_begins_where_it_was_planned() -> None:
    """There is no record yet."""
    ward = Ward()
    first = ward.rig.clock.now() + HOUR
    job = await ward.rig.cron("0 * * * *", first)
    await without_timer(ward, job)
    await ward.healing(ward.rig.store).look()
    row = await ward.rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert first == row.timer.due


@pytest.mark.parametrize("action", [JobAction.PAUSE, JobAction.CANCEL])
async def test_a_job_that_is_not_to_run_gets_no_timer(action: JobAction) -> None:
    """And it is no violation."""
    ward = Ward()
    job = await ward.rig.cron("0 * * * *", ward.rig.clock.now() + HOUR)
    await ward.rig.store.jobs.move(ward.rig.make.move(job.job_id, action))
    await without_timer(ward, job)
    await ward.healing(ward.rig.store).look()
    assert 0 == ward.told.left["planned"]
    row = await ward.rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is None


async def test_a_schedule_that_is_over_is_no_violation_and_is_not_looked_into_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be very many of them."""
    ward = Ward()
    rig = ward.rig
    job = await rig.cron("0 * * * *", rig.clock.now() + HOUR, end_at=rig.clock.now() + HOUR)
    await rig.clock.advance(HOUR)
    await drive(rig.clock, rig.scheduler().tick())
    assert [RunState.QUEUED] == [row.state for row in await rig.rows()]
    looked: list[UUID] = []
    real = rig.store.jobs.get

    async def job_get(namespace: str, job_id: UUID) -> Any:
        looked.append(job_id)
        return await real(namespace, job_id)

    monkeypatch.setattr(rig.store.jobs, "get", job_get)
    steps = ward.healing(rig.store)
    for _ in range(3):
        await steps.look()
    assert (0, [job.job_id]) == (ward.told.left["planned"], looked)


async def test_a_job_whose_plan_cannot_be_read_holds_up_no_other() -> None:
    """It stays in the metric."""
    ward = Ward()
    rig = ward.rig
    broken = rig.make.recurring(rig.clock.now() + HOUR, definition='{"schedule_type":"CRON"}')
    await rig.store.jobs.add([broken])
    fine = await rig.cron("0 * * * *", rig.clock.now() + HOUR)
    for job in (broken, fine):
        await without_timer(ward, job)
    await ward.healing(rig.store).look()
    assert (1, 1) == (ward.told.left["planned"], ward.told.cured["planned"])


HOURLY = Schedule(type=ScheduleType.CRON, cron_expression="0 * * * *")
START = 1_800_000_000.0  # a whole hour


@pytest.mark.parametrize(
    ("schedule", "last", "since", "due"),
    [
        (HOURLY, START, START - HOUR, START + HOUR),
        (HOURLY, START, START + 10 * HOUR + 1, START + 11 * HOUR),
        (HOURLY, None, START + 1, START + HOUR),
        (Schedule(type=ScheduleType.CRON, cron_expression="0 * * * *", end_at=START + 1), START, START, None),
        (Schedule(type=ScheduleType.CRON, cron_expression="0 * * * *", max_runs=5), START, START, None),
        (Schedule(type=ScheduleType.ON_DEMAND), None, START, None),
    ],
)
def test_a_schedule_goes_on_after_its_record_and_not_before_it_counts(
    schedule: Schedule, last: float | None, since: float, due: float | None
) -> None:
    """One that counts its runs does not: its count is gone, and one too many would be worse than none."""
    timer = timer_after(schedule, last, since)
    assert due == (None if timer is None else timer.due)


def test_the_page_of_stuck_runs_names_every_check() -> None:
    """An operator who sees one in a metric finds there what is done about it."""
    page = (Path(__file__).resolve().parents[3] / "docs/how-to/stuck-runs.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= {check.value for check in Check}
