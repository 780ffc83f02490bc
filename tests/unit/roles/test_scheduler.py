"""What a scheduler promises, on the memory store."""

from __future__ import annotations

import json

import pytest

from tests.unit.roles.rig import Flaky, Silent, drive
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.model import run_id, time_id
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.store import NewJob, Retention, RunQuery
from tickwise.roles.scheduler import Scheduler, SchedulerSettings
from tickwise.testing.factories import Factory, executor

RETENTION = Retention(runs_seconds=86_400, failed_seconds=86_400)


class Rig:
    """Schedulers on one store."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=1_800_000_000.0)
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.flaky = Flaky(self.store)
        self.make = Factory(self.clock.now())
        self.blobs = open_blobs("memory://")

    def scheduler(self) -> Scheduler:
        """One more."""
        return Scheduler(
            store=self.flaky,
            blobs=self.blobs,
            signals=LocalSignals(),
            clock=self.clock,
            settings=SchedulerSettings(retention=RETENTION),
            telemetry=Silent(),
        )

    async def cron(self, expression: str, due: float) -> NewJob:
        """Store a cron job whose first fire is at `due`."""
        definition = {"schedule_type": "CRON", "cron_expression": expression, "task": {"kind": "scripted"}}
        job = self.make.recurring(due, definition=json.dumps(definition))
        await self.store.jobs_add([job])
        return job

    async def dues(self) -> list[float]:
        """The due times of all runs, the earliest first."""
        rows = await self.store.runs_list(RunQuery(namespace="default", limit=1000))
        return sorted(row.due_at for row in rows)


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
    assert await rig.store.run_get("default", run_id(job.job_id, first)) is not None


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
    await rig.cron("0 * * * *", rig.clock.now() + 1)
    await rig.clock.advance(86_400)
    await drive(rig.clock, rig.scheduler().tick())
    dues = await rig.dues()
    assert 1 == len(dues)
    assert rig.clock.now() - 3600 <= dues[0] <= rig.clock.now()
    async with rig.store.fires(2 * 3600.0, 1) as batch:
        assert [True] == [rig.clock.now() < timer.due for timer in batch.timers]


async def test_a_timer_that_cannot_be_decided_blocks_no_other(rig: Rig) -> None:
    """It is parked, and said."""
    broken = rig.make.recurring(rig.clock.now() + 0.5, definition='{"schedule_type":"CRON"}')
    await rig.store.jobs_add([broken])
    await rig.cron("* * * * * *", rig.clock.now() + 1)
    await drive(rig.clock, rig.scheduler().tick())
    assert 2 == len(await rig.dues())


async def test_dead_executors_are_buried(rig: Rig) -> None:
    """A lease that ran out frees what it held."""
    scheduler = rig.scheduler()
    number = await rig.store.executor_join(executor())
    await drive(rig.clock, scheduler._heal())
    for _ in range(11):
        await rig.clock.advance(1)
        await drive(rig.clock, scheduler._heal())
    assert not (await rig.store.executor_beat(number, 10.0)).alive


async def test_after_the_store_was_away_executors_first_get_one_lease_to_be_heard(rig: Rig) -> None:
    """Nobody could renew a lease meanwhile, so nobody is buried for that."""
    scheduler = rig.scheduler()
    number = await rig.store.executor_join(executor())
    await drive(rig.clock, scheduler._heal())
    rig.flaky.away = {"now", "leases_expire"}
    for _ in range(20):
        await rig.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await drive(rig.clock, scheduler._heal())
    rig.flaky.away = set()
    await drive(rig.clock, scheduler._heal())
    await rig.clock.advance(5)
    await drive(rig.clock, scheduler._heal())
    assert (await rig.store.executor_beat(number, 10.0)).alive


async def test_outputs_go_when_their_day_is_over_its_retention(rig: Rig) -> None:
    """Seven days by default; younger ones stay."""
    names = {days: time_id(int((rig.clock.now() - days * 86_400) * 1000), bytes(10)) for days in (1, 6, 9)}
    keys = {days: log_chunk_key(name, 1, 0, last=True) for days, name in names.items()}
    for key in keys.values():
        await rig.blobs.put(key, b"said")
    await drive(rig.clock, rig.scheduler().tick())
    left = [blob.key for blob in await rig.blobs.list("logs/")]
    assert [keys[6], keys[1]] == left
