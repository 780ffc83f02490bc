"""The work that cases hand in, made as control makes it, and the store as roles use it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bench import raw
from bench.harness import Rig
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.domain.model import DEFAULT_NAMESPACE, Lane, run_id, time_id
from tickwise.ports.store import NewJob

LANE = Lane(requires=("function:*", "task:function"))


def jobs(
    rig: Rig,
    count: int,
    *,
    due: list[float] | None = None,
    definitions: list[str] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[NewJob]:
    """One-time jobs, as control makes them: of a function that does nothing, if no definitions say otherwise."""
    clock = rig.clock
    now = clock.now()
    made = []
    for number in range(count):
        job_id = time_id(int(now * 1000), clock.random_bytes(10))
        at = due[number] if due else None
        made.append(
            NewJob(
                job_id=job_id,
                namespace=namespace,
                name="bench",
                schedule_type="IMMEDIATE" if at is None else "FUTURE",
                task_kind="function",
                definition=definitions[number] if definitions else raw.SPEC,
                lane=LANE,
                created_by="bench",
                recurring=False,
                run_id=run_id(job_id, now if at is None else at),
                due=at,
            )
        )
    return made


@contextlib.asynccontextmanager
async def store(rig: Rig) -> AsyncIterator[PostgresStore]:
    """The store as roles use it."""
    opened = PostgresStore(rig.dsn, clock=rig.clock)
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()
