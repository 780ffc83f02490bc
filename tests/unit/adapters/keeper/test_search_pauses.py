"""A search that may pause looks at a bounded number of rows; a caller that follows its places sees each row once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.keepers import GatedLog
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory import definitions, history
from tickwise.adapters.store.memory.rows import ROW_COST
from tickwise.domain.lifecycle import JobStatus
from tickwise.ports.store import JobQuery, RunQuery
from tickwise.testing.factories import Factory

JOBS = 300
BUDGET = 400


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KeeperStore]:
    for module in (definitions, history):
        monkeypatch.setattr(module, "LOOK_BUDGET", BUDGET)
    log = GatedLog(tmp_path)
    store = KeeperStore(log, SystemClock(), make_ended=lambda: SpilledRuns(tmp_path, 1_000))
    await store.open()
    make = Factory(await store.now(), seed="paused")
    await store.jobs.add([make.job(name=f"job {number}", labels={"n": str(number)}) for number in range(JOBS)])
    other = Factory(await store.now(), seed="other", namespace="other")
    await store.jobs.add([other.job() for _ in range(JOBS)])
    yield store
    await store.close()


async def followed(search: Any, query: Any) -> tuple[list[Any], int]:
    """All rows of a search by its places, and the number of pauses."""
    rows, pauses = [], 0
    while True:
        page = await search(query)
        rows += page
        if page.paused_at is None:
            return rows, pauses
        pauses += 1
        query = replace(query, before=page.paused_at.before)


@pytest.mark.parametrize(
    "query",
    [
        JobQuery(namespace="default", name="JOB", limit=JOBS + 1),
        JobQuery(namespace="default", statuses=[JobStatus.SCHEDULED], limit=JOBS + 1),
        JobQuery(namespace="default", labels={"n": "3"}, limit=JOBS + 1),
        RunQuery(namespace="default", job_name="job", limit=JOBS + 1),
        RunQuery(namespace="default", labels={"n": "3"}, limit=JOBS + 1),
    ],
    ids=["name", "status", "label", "runs by name", "runs by label"],
)
async def test_the_places_of_a_search_lead_to_each_row_once(store: KeeperStore, query: JobQuery | RunQuery) -> None:
    """The same rows in the same order as one that does not pause has."""
    search: Any = store.searches.jobs if isinstance(query, JobQuery) else store.searches.runs
    whole = await search(query)
    assert whole
    rows, pauses = await followed(search, replace(query, may_pause=True))
    assert [*whole] == rows
    if len(whole) > 1 or isinstance(query, RunQuery):
        assert pauses >= JOBS * ROW_COST // BUDGET - 1


async def test_a_search_that_may_not_pause_looks_at_all_rows(store: KeeperStore) -> None:
    """As the port says."""
    page = await store.searches.jobs(JobQuery(namespace="default", name="job", limit=JOBS + 1))
    assert (JOBS, None) == (len(page), page.paused_at)


async def test_a_count_says_that_it_is_not_whole(store: KeeperStore) -> None:
    """Where its look has paused."""
    query = JobQuery(namespace="default", name="job", limit=JOBS + 1, may_pause=True)
    count = await store.searches.count(query)
    assert 0 < count < JOBS
    assert not count.is_whole
    whole = await store.searches.count(replace(query, may_pause=False))
    assert (JOBS, True) == (whole, whole.is_whole)


async def test_runs_of_other_namespaces_cost_a_search_no_row(store: KeeperStore) -> None:
    """A namespace with very many live runs makes the pages of no other one short."""
    page = await store.searches.runs(RunQuery(namespace="third", job_name="job", may_pause=True))
    assert ([], None) == ([*page], page.paused_at)
