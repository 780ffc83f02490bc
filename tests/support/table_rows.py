"""The rows of readable tables in a Cassandra of tests, in the form of the model (`readable`); and runs to be read."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.support.readable import Rows
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.keeper.readable.tables import READABLE
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome, executor_number
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.factories import Factory


async def rows_in(link: CassandraLink) -> dict[str, Rows]:
    """All rows of all tables."""
    found: dict[str, Rows] = {}
    for table in READABLE:
        keys = [*table.partition, *table.clustering]
        names = [*keys, *table.columns]
        rows = await link.run(f"SELECT {', '.join(names)} FROM {table.name}")
        found[table.name] = {
            tuple(map(_plain, row[: len(keys)])): {
                name: _plain(value)
                for name, value in zip(table.columns, row[len(keys) :], strict=True)
                if _is_said(value)
            }
            for row in rows
        }
    return found


def _is_said(value: Any) -> bool:
    return value is not None and value != [] and value != {}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round(value.replace(tzinfo=UTC).timestamp() * 1_000)
    if isinstance(value, str | bytes | int | float):
        return value
    if hasattr(value, "items"):
        return dict(value.items())
    return list(value) if isinstance(value, list | tuple) else value


async def end_runs(store: Any, jobs: int, seed: str) -> None:
    """Make jobs whose runs are claimed and end, every second one badly."""
    make = Factory(await store.now(), seed=seed)
    await store.jobs.add([make.job() for _ in range(jobs)])
    await end_claimed(store)


async def end_claimed(store: Any) -> None:
    """Claim runs, and end them in turn well and badly."""
    number = executor_number(round(1_000 * await store.now()), os.urandom(2))
    executor = await store.executors.join(replace(factories.executor("ends"), number=number))
    request = ClaimRequest(executor=executor, queues=("default",), labels=(), limit=1_000, ahead_seconds=1.0)
    now = await store.now()
    outcomes = [
        Outcome(
            run_id=each.run_id, token=each.token, started=now, ended=now, result="7",
            state=CODES[RunState.FAILED if place % 2 else RunState.SUCCESS],
        )
        for place, each in enumerate(await store.attempts.claim(request))
    ]  # fmt: skip
    assert [] == list(await store.attempts.finish(executor, outcomes))
