"""What a scheduler promises, on the memory store."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.decision import Hold, Overlap
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import run_id, time_id
from tickwise.domain.retry import OnUnknown
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.signals import Topic
from tickwise.ports.store import Began, ClaimRequest
from tickwise.roles.scheduler.fire_loop import AFTER_SECOND, until_next_look
from tickwise.testing.factories import executor


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


async def test_fires_within_the_horizon_become_runs_with_their_names(rig: Rig) -> None:
    """Each second of the horizon, named by job and nominal time."""
    first = rig.clock.now() + 1
    job = await rig.cron("* * * * * *", first)
    await drive(rig.clock, rig.scheduler().tick())
    assert [first, first + 1] == await rig.dues()
    assert await rig.store.runs.get("default", run_id(job.job_id, first)) is not None


async def test_two_schedulers_make_each_run_once(rig: Rig) -> None:
    """No leader, no double."""
    first = rig.clock.now() + 1
    await rig.cron("* * * * * *", first)
    one, two = rig.scheduler(), rig.scheduler()
    for _ in range(5):
        await drive(rig.clock, one.tick())
        await drive(rig.clock, two.tick())
        await rig.clock.advance(1)
    dues = await rig.dues()
    assert [first + number for number in range(len(dues))] == dues
    assert 6 <= len(dues)


async def test_after_downtime_the_latest_missed_fire_runs_once_and_the_next_is_ahead(rig: Rig) -> None:
    """Beyond the grace, missed fires are one."""
    job = await rig.cron("0 * * * *", rig.clock.now() + 1)
    await rig.clock.advance(86_400 + 1800)
    await drive(rig.clock, rig.scheduler().tick())
    (run,) = await rig.rows(RunState.QUEUED)
    assert rig.clock.now() - 3600 <= run.nominal_at <= rig.clock.now()
    assert rig.clock.now() <= run.due_at <= rig.clock.now() + 10
    (skip,) = await rig.rows(RunState.SKIPPED)
    assert ("misfire", 24) == (skip.reason, skip.occurrences)
    assert "after its time, and the grace is 60 s" in (skip.error or "")
    row = await rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert row.timer is not None
    assert rig.clock.now() < row.timer.due


async def test_a_run_bears_the_time_that_it_stands_for_and_what_its_job_says_of_overlap(rig: Rig) -> None:
    """Jitter moves the due time alone."""
    first = rig.clock.now() + 1
    job = await rig.cron("* * * * *", first, jitter_seconds=50.0, overlap="queue_one")
    await drive(rig.clock, rig.scheduler().tick())
    row = await rig.store.runs.get("default", run_id(job.job_id, first))
    assert row is not None
    assert first == row.nominal_at
    assert first < row.due_at < first + 50


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("skip", Overlap.QUEUE_ALL),
        ("queue_one", Overlap.QUEUE_ALL),
        ("cancel_running", Overlap.CANCEL_RUNNING),
        ("allow", Overlap.ALLOW),
    ],
)
async def test_what_is_made_up_for_does_not_skip_itself(rig: Rig, said: str, made: Overlap) -> None:
    """Several missed runs at once are no overlap that somebody asked to avoid: they queue."""
    scheduler = rig.scheduler()
    misfire = {"mode": "all", "max_catchup": 3}
    await rig.cron("0 * * * *", rig.clock.now() + 1, overlap=said, misfire=misfire)
    await rig.clock.advance(86_400 + 1800)
    assert [made] * 3 == [run.overlap for fire in await rig.decided(scheduler) for run in fire.runs]


async def test_a_run_in_time_has_the_overlap_of_its_job(rig: Rig) -> None:
    """By default the one that skips."""
    await rig.cron("* * * * * *", rig.clock.now() + 1)
    overlaps = [run.overlap for fire in await rig.decided(rig.scheduler()) for run in fire.runs]
    assert {Overlap.SKIP} == set(overlaps)


async def test_what_was_missed_by_many_is_recorded_bit_by_bit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction does not hold all that a thousand jobs make up for; what is left is decided right after it."""
    monkeypatch.setattr("tickwise.roles.scheduler.fire_loop.RUNS_AT_ONCE", 25)
    due = rig.clock.now()
    for _ in range(6):
        await rig.cron("* * * * * *", due, misfire={"mode": "all", "max_catchup": 10, "grace_seconds": 0})
    await rig.clock.advance(3600)
    scheduler = rig.scheduler()
    looks = [await scheduler.fire_due() for _ in range(4)]
    assert [2, 2, 2, 0] == looks
    assert 6 * 10 <= len(await rig.rows(RunState.QUEUED))


async def test_a_look_goes_on_at_once_after_one_that_was_cut(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """So one round of everything leaves nothing that is due."""
    monkeypatch.setattr("tickwise.roles.scheduler.fire_loop.RUNS_AT_ONCE", 1)
    due = rig.clock.now()
    jobs = [await rig.cron("0 0 * * *", due) for _ in range(5)]
    await drive(rig.clock, rig.scheduler().tick())
    assert {run_id(job.job_id, due) for job in jobs} == {row.run_id for row in await rig.rows()}


@pytest.mark.parametrize(("longest", "gap"), [(0.05, 0.05), (0.5, 0.5), (2 / 3, 0.5), (1.0, 1.0), (20.0, 1.0)])
def test_looks_come_between_whole_seconds_and_never_too_late(longest: float, gap: float) -> None:
    """Cron lines name whole seconds: while executors begin what is due then, schedulers are to keep quiet."""
    after = min(AFTER_SECOND, gap / 2)
    for number in range(1000):
        now = 1_790_000_000 + number * 0.0137
        pause = until_next_look(now, longest)
        assert 0 <= pause <= longest
        assert longest - gap - 1e-6 <= pause, "it looks more often than it has to"
        off = (now + pause - after) % gap
        assert min(off, gap - off) < 1e-6


async def test_a_timer_that_cannot_be_decided_blocks_no_other(rig: Rig) -> None:
    """It is parked, and said."""
    broken = rig.make.recurring(rig.clock.now() + 0.5, definition='{"schedule_type":"CRON"}')
    await rig.store.jobs.add([broken])
    await rig.cron("* * * * * *", rig.clock.now() + 1)
    await drive(rig.clock, rig.scheduler().tick())
    assert 2 == len(await rig.dues())


async def test_a_timer_that_cannot_be_decided_keeps_its_time(rig: Rig) -> None:
    """It is looked at again later, and what it stands for is not lost by that."""
    due = rig.clock.now() + 0.5
    broken = rig.make.recurring(due, definition='{"schedule_type":"CRON"}')
    await rig.store.jobs.add([broken])
    await drive(rig.clock, rig.scheduler().tick())
    row = await rig.store.jobs.get("default", broken.job_id)
    assert row is not None
    assert row.timer is not None
    assert (due, Hold.CALENDAR) == (row.timer.since, row.timer.hold)
    assert rig.clock.now() < row.timer.due <= rig.clock.now() + 60


async def test_a_job_that_blows_its_fuse_is_paused_with_the_reason(rig: Rig) -> None:
    """By the fuse, until somebody resumes it."""
    job = await rig.cron("* * * * * *", rig.clock.now() + 1, fuse_per_minute=2)
    scheduler = rig.scheduler()
    for _ in range(4):
        await drive(rig.clock, scheduler.tick())
        await rig.clock.advance(1)
    assert 2 == len(await rig.rows(RunState.QUEUED))
    assert ["fuse"] == [row.reason for row in await rig.rows(RunState.SKIPPED)]
    row = await rig.store.jobs.get("default", job.job_id)
    assert row is not None
    assert ("PAUSED", "fuse") == (str(row.status), row.paused_by)
    assert "more than 2 runs in one minute" in (row.pause_reason or "")


async def test_what_waits_for_a_run_that_is_gone_is_freed_by_any_scheduler(rig: Rig) -> None:
    """And executors hear of it."""
    woken = rig.signals.listen(Topic.RUNS)
    freed = [2]

    async def runs_unblock() -> int:
        return freed.pop() if freed else 0

    rig.store.runs.unblock = runs_unblock  # type: ignore[method-assign]  # the memory store frees them at once
    await drive(rig.clock, rig.scheduler()._lease_expiry.step())
    assert [] == freed
    assert woken.is_set()


async def test_a_look_at_very_many_that_wait_is_not_made_all_the_time(rig: Rig) -> None:
    """The longer it takes, the less often; while nothing waits, with every look for the dead."""
    looks: list[float] = []
    lasts = 0.0

    async def runs_unblock() -> int:
        looks.append(rig.clock.monotonic())
        await rig.clock.sleep(lasts)
        return 0

    rig.store.runs.unblock = runs_unblock  # type: ignore[method-assign]  # to listen
    scheduler = rig.scheduler()
    for _ in range(3):
        await drive(rig.clock, scheduler._lease_expiry.step())
        await rig.clock.advance(1)
    assert 3 == len(looks)
    lasts = 0.25
    for _ in range(7):
        await drive(rig.clock, scheduler._lease_expiry.step())
        await rig.clock.advance(1)
    # A quarter of a second, and then five seconds in which others look for the dead only.
    assert 5 == len(looks)
    assert looks[4] - looks[3] >= 0.25 + 5.0


async def test_dead_executors_are_expired(rig: Rig) -> None:
    """A lease that ran out frees what it held."""
    scheduler = rig.scheduler()
    number = await rig.store.executors.join(executor())
    await drive(rig.clock, scheduler._lease_expiry.step())
    for _ in range(11):
        await rig.clock.advance(1)
        await drive(rig.clock, scheduler._lease_expiry.step())
    assert not (await rig.store.executors.beat(number, 10.0)).alive


async def test_runs_that_are_lost_with_their_executor_are_counted_by_why_they_failed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose outcome a person has to decide is no `executor_lost`: its dead letter bears another reason."""
    scheduler = rig.scheduler()
    told: list[Mapping[str, int]] = []
    monkeypatch.setattr(scheduler._lease_expiry._telemetry, "failed", told.append)
    number = await rig.store.executors.join(executor(slots=3))
    unknown = [OnUnknown.FAIL, OnUnknown.HOLD, OnUnknown.HOLD]
    await rig.store.jobs.add([rig.make.job(rig.clock.now()) for _ in unknown])
    request = ClaimRequest(executor=number, queues=("default",), labels=(), limit=3, ahead_seconds=0.0)
    claims = await rig.store.attempts.claim(request)
    await rig.store.attempts.start(
        number,
        [Began(claim.run_id, claim.token, rig.clock.now(), on) for claim, on in zip(claims, unknown, strict=True)],
    )
    await drive(rig.clock, scheduler._lease_expiry.step())
    for _ in range(11):
        await rig.clock.advance(1)
        await drive(rig.clock, scheduler._lease_expiry.step())
    assert [{"executor_lost": 1, "unknown_outcome": 2}] == told
    assert ["executor_lost", "unknown_outcome", "unknown_outcome"] == sorted(
        str(row.reason) for row in await rig.rows(RunState.FAILED)
    )


async def test_after_the_store_was_away_executors_first_get_one_lease_to_be_heard(rig: Rig) -> None:
    """Nobody could renew a lease meanwhile, so nobody is expired for that."""
    scheduler = rig.scheduler()
    number = await rig.store.executors.join(executor())
    await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.away = {"now", "executors.expire"}
    for _ in range(20):
        await rig.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.away = set()
    await drive(rig.clock, scheduler._lease_expiry.step())
    await rig.clock.advance(5)
    await drive(rig.clock, scheduler._lease_expiry.step())
    assert (await rig.store.executors.beat(number, 10.0)).alive


async def test_a_scheduler_that_found_the_store_away_when_it_began_gives_executors_their_time_too(rig: Rig) -> None:
    """It does not know how long they could not be heard."""
    number = await rig.store.executors.join(executor())
    rig.flaky.gone = True
    scheduler = rig.scheduler()
    for _ in range(15):
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, scheduler._lease_expiry.step())
        await rig.clock.advance(1)
    rig.flaky.gone = False
    await drive(rig.clock, scheduler._lease_expiry.step())
    await rig.clock.advance(5)
    await drive(rig.clock, scheduler._lease_expiry.step())
    assert (await rig.store.executors.beat(number, 10.0)).alive


async def test_a_store_that_stood_still_while_it_was_asked_buries_nobody_at_once(rig: Rig) -> None:
    """Nobody else was answered either."""
    number = await rig.store.executors.join(executor())
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler._lease_expiry.step())
    real = rig.store.now

    async def now() -> float:
        await rig.clock.sleep(30.0)
        return await real()

    rig.store.now = now  # type: ignore[method-assign]  # for one call
    await drive(rig.clock, scheduler._lease_expiry.step())
    rig.store.now = real  # type: ignore[method-assign]  # as it was
    assert (await rig.store.executors.beat(number, 10.0)).alive


async def test_a_store_that_stood_still_while_it_looked_at_what_waits_buries_nobody_at_once(rig: Rig) -> None:
    """Nobody was answered meanwhile, and whoever expires afterwards has to know that."""
    number = await rig.store.executors.join(executor())
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler._lease_expiry.step())

    async def runs_unblock() -> int:
        await rig.clock.sleep(30.0)
        return 0

    rig.store.runs.unblock = runs_unblock  # type: ignore[method-assign]  # as a frozen server answers
    await drive(rig.clock, scheduler._lease_expiry.step())
    await drive(rig.clock, scheduler._lease_expiry.step())
    assert (await rig.store.executors.beat(number, 10.0)).alive


async def test_the_dead_are_expired_though_what_waits_cannot_be_freed(rig: Rig) -> None:
    """One defect does not bring another."""
    number = await rig.store.executors.join(executor())
    scheduler = rig.scheduler()
    await drive(rig.clock, scheduler._lease_expiry.step())
    rig.flaky.broken = {"runs.unblock": ValueError("a defect")}
    for _ in range(11):
        await rig.clock.advance(1)
        with pytest.raises(ValueError, match="a defect"):
            await drive(rig.clock, scheduler._lease_expiry.step())
    assert not (await rig.store.executors.beat(number, 10.0)).alive


async def test_what_waits_goes_on_though_the_dead_cannot_be_expired(rig: Rig) -> None:
    """Nor does that defect bring this one."""
    looks: list[float] = []

    async def runs_unblock() -> int:
        looks.append(rig.clock.now())
        return 0

    rig.store.runs.unblock = runs_unblock  # type: ignore[method-assign]  # to listen
    rig.flaky.broken = {"executors.expire": ValueError("a defect")}
    with pytest.raises(ValueError, match="a defect"):
        await drive(rig.clock, rig.scheduler()._lease_expiry.step())
    assert 1 == len(looks)


async def test_outputs_go_when_their_day_is_over_its_retention(rig: Rig) -> None:
    """Seven days by default; younger ones stay."""
    names = {days: time_id(int((rig.clock.now() - days * 86_400) * 1000), bytes(10)) for days in (1, 6, 9)}
    keys = {days: log_chunk_key(name, 1, 0, last=True) for days, name in names.items()}
    for key in keys.values():
        await rig.blobs.put(key, b"said")
    await drive(rig.clock, rig.scheduler().tick())
    left = [blob.key for blob in await rig.blobs.list("logs/")]
    assert [keys[6], keys[1]] == left
