"""What PostgreSQL really refuses of one job holds up no other."""

from __future__ import annotations

from tests.unit.roles.rig import Silent
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.decision import Hold
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import Retention, RunQuery
from tickwise.roles.scheduler.role import Scheduler, SchedulerSettings
from tickwise.testing.factories import Factory

LONG_AGO = -2_500_000_000.0
"""In seconds since 1970: so many seconds were missed since that no column of the records holds their number."""
EACH_SECOND = '{"schedule_type":"CRON","cron_expression":"* * * * * *","task":{"kind":"scripted"}}'
EACH_MINUTE = '{"schedule_type":"CRON","cron_expression":"* * * * *","task":{"kind":"scripted"}}'


async def test_a_number_that_no_column_holds_stops_no_other_job(database_url: str) -> None:
    """The others of its batch run; it waits, and its time is kept."""
    await upgrade(database_url)
    clock = SystemClock()
    store = PostgresStore(database_url, clock=clock)
    await store.open()
    try:
        make = Factory(await store.now())
        bad = make.recurring(LONG_AGO, definition=EACH_SECOND)
        good = [make.recurring(make.now - 1, definition=EACH_MINUTE) for _ in range(3)]
        await store.jobs.add([good[0], bad, *good[1:]])
        scheduler = Scheduler(
            store=store,
            blobs=open_blobs("memory://"),
            signals=LocalSignals(),
            clock=clock,
            settings=SchedulerSettings(retention=Retention(runs_seconds=86_400, failed_seconds=86_400)),
            telemetry=Silent(),
        )
        await scheduler.tick()
        rows = await store.searches.runs(RunQuery(namespace="default", states=(RunState.QUEUED,), limit=100))
        assert {job.job_id for job in good} == {row.job_id for row in rows}
        row = await store.jobs.get("default", bad.job_id)
        assert row is not None
        assert row.timer is not None
        assert (LONG_AGO, Hold.CALENDAR) == (row.timer.since, row.timer.hold)
        assert row.timer.due > make.now
    finally:
        await store.close()
