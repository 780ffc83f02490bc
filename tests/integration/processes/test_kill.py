"""Two schedulers, three executors, 20,000 jobs, 200 cron jobs on a one-second grid; one of each role is killed."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.integration.processes.fleet import Fleet
from tests.integration.processes.witness import SQL, Witness, judge, nothing_lives
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.domain.model import Lane, run_id, time_id
from tickwise.ports.store import JobAction, JobMove, NewJob, Replan

LANE = Lane(requires=("function:*", "task:function"))
JOBS, CRONS = 20_000, 200
SPREAD_SECONDS = 8.0
CLOCK = SystemClock()
PLANNED = """
SELECT count(*) FROM (
  SELECT job_id FROM (SELECT job_id, due FROM tickwise.runs UNION ALL SELECT job_id, due FROM tickwise.history) every
  WHERE job_id IN (SELECT job_id FROM tickwise.jobs WHERE recurring)
  GROUP BY job_id HAVING max(due) >= to_timestamp($1)
) planned
"""


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Roles with a short lease, so that the dead are found while the test looks."""
    made = Fleet(
        database_url,
        tmp_path,
        TICKWISE_LEASE_SECONDS="4",
        TICKWISE_HEARTBEAT_SECONDS="0.5",
        TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
    )
    yield made
    made.stop()


def _job(name: str, witness: Witness, due: float | None, **plan: Any) -> NewJob:
    recurring = plan["schedule_type"] == "CRON"
    now = CLOCK.now()
    job_id = time_id(int(now * 1000), CLOCK.random_bytes(10))
    # Whatever is late while roles are killed still runs: here every second counts.
    definition = {
        **plan,
        "overlap": "allow",
        "task": {"kind": "function", "name": "tests.witness"},
        "payload": witness.payload,
    }
    return NewJob(
        job_id=job_id,
        namespace="default",
        name=name,
        schedule_type=plan["schedule_type"],
        task_kind="function",
        definition=json.dumps(definition),
        lane=LANE,
        created_by="tests",
        recurring=recurring,
        run_id=None if recurring else run_id(job_id, now if due is None else due),
        due=due,
    )


async def _submit(store: PostgresStore, witness: Witness, begun: float) -> list[NewJob]:
    """A third is due at once, the rest over the next seconds, at the same time the crons. Returns these."""
    first = float(int(begun) + 2)
    crons = [
        _job(f"cron {number}", witness, first, schedule_type="CRON", cron_expression="* * * * * *")
        for number in range(CRONS)
    ]
    await store.jobs.add(crons)
    for at in range(0, JOBS, 500):
        dues = [None if n % 3 == 0 else begun + 1 + n % 8000 / 8000 * SPREAD_SECONDS for n in range(at, at + 500)]
        kinds = ["IMMEDIATE" if due is None else "FUTURE" for due in dues]
        await store.jobs.add(
            [_job("once", witness, due, schedule_type=kind) for due, kind in zip(dues, kinds, strict=True)]
        )
    return crons


@pytest.mark.takes_up_to(390)
async def test_no_run_is_lost_early_or_ended_twice_while_roles_are_killed(
    fleet: Fleet, database_url: str, tmp_path: Path
) -> None:
    """Whatever is killed: every job runs, every second of every cron job has its run, each ends exactly once."""
    await upgrade(database_url)
    witness = Witness(tmp_path / "witness")
    schedulers = [fleet.start("scheduler") for _ in range(2)]
    executors = [fleet.start("executor") for _ in range(3)]
    await asyncio.gather(*(role.ready() for role in (*schedulers, *executors)))
    store = PostgresStore(database_url, clock=CLOCK)
    await store.open()
    connection = await asyncpg.connect(database_url)

    async def ended(count: int) -> bool:
        return bool(await connection.fetchval(SQL["ended_count"]) >= count)

    async def holds(pid: int) -> bool:
        return bool(await connection.fetchval(SQL["held"], f":{pid}") > 0)

    async def planned(until: float) -> bool:
        """Check whether each cron job has its runs up to then."""
        return bool(await connection.fetchval(PLANNED, until) == CRONS)

    try:
        begun = CLOCK.now()
        crons = await _submit(store, witness, begun)
        await eventually(lambda: ended(JOBS // 4), within_seconds=120, what="a quarter has ended")
        schedulers[0].kill()
        await eventually(lambda: holds(executors[0].pid), what="the executor to kill holds runs")
        executors[0].kill()
        await eventually(lambda: ended(JOBS + 8 * CRONS), within_seconds=120, what="the jobs and 8 rounds have ended")
        paused = CLOCK.now()
        await eventually(lambda: planned(paused - 1.0), what="the scheduler has come to this second")
        for cron in crons:
            plan = Replan(recurring=True, timer=None)
            await store.jobs.move(
                JobMove(namespace="default", job_id=cron.job_id, action=JobAction.PAUSE, replan=plan, reason="the end")
            )
        await eventually(lambda: nothing_lives(connection), what="all has ended")
        rows = await judge(connection, witness)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{fleet.logs()}") from failure
    finally:
        await connection.close()
        await store.close()
    assert any(row["attempt"] > 1 for row in rows), "the kill hit nothing: this has shown nothing"
    _grid_is_whole(rows, crons, paused)


def _grid_is_whole(rows: Any, crons: list[NewJob], paused: float) -> None:
    """Every cron job has each second from its first to its pause once (those just ahead of the pause are on record as
    skipped), and there is nothing else but the jobs."""
    seconds: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        seconds[row["job_id"]].append(row["due"])
    assert JOBS + CRONS == len(seconds)
    for cron in crons:
        dues = sorted(seconds.pop(cron.job_id))
        assert cron.due is not None
        assert [cron.due + n for n in range(len(dues))] == dues, f"{cron.name} missed or repeated a second"
        assert dues[-1] >= int(paused) - 1, f"{cron.name} stopped at {dues[-1]}, paused at {paused}"
    assert {1} == {len(dues) for dues in seconds.values()}
