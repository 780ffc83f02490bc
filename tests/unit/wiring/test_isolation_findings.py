"""What `tickwise doctor` says of jobs whose runs wait because of their isolation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import pytest_asyncio

from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.model import Lane
from tickwise.domain.quotas import Quotas
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import JobAction, JobMove
from tickwise.testing.factories import NOTHING_MORE, Factory, executor
from tickwise.wiring.storage import isolation_findings as module
from tickwise.wiring.storage.isolation_findings import isolation_findings

PLAIN = Lane(requires=("task:shell",))
SANDBOXED = Lane(requires=("isolation:sandbox", "task:shell"))
OFFERS_NOTHING = ("task:shell",)
OFFERS_SANDBOX = ("isolation:sandbox", "task:shell")


@pytest_asyncio.fixture
async def store() -> MemoryStore:
    """A store with a namespace that demands a sandbox, and one that demands nothing."""
    made = MemoryStore(VirtualClock())
    for name in ("strict", "free"):
        await made.namespaces.add(NewNamespace(name=name, display_name=name, created_by="ada"))
    row = await made.namespaces.get("strict")
    assert row is not None
    await made.namespaces.change(replace(row, quotas=Quotas(min_isolation="sandbox")))
    return made


async def add(store: MemoryStore, namespace: str, name: str, lane: Lane) -> str:
    """A job with a schedule; its name as findings give it."""
    make = Factory(await store.now(), namespace=namespace, seed=name)
    new = make.recurring(make.now + 3_600.0, name=name, lane=lane)
    await store.jobs.add([new])
    return f"{namespace}/{name} ({new.job_id})"


async def said(store: MemoryStore, most: int = 100) -> list[tuple[str, str]]:
    return [(each.level, each.detail) async for each in isolation_findings(store, most)]


async def test_jobs_below_the_least_isolation_of_their_namespace_are_named(store: MemoryStore) -> None:
    """Those alone: not what has enough, and not the same job where nothing is demanded."""
    below = await add(store, "strict", "old", PLAIN)
    await add(store, "strict", "new", SANDBOXED)
    await add(store, "free", "old", PLAIN)
    expected = f"1 below the min_isolation of their namespace, so their runs wait: {below}"
    assert [("warning", expected)] == await said(store)


async def test_jobs_whose_isolation_no_executor_of_their_queue_offers_are_named(store: MemoryStore) -> None:
    """Until one does, and not while none serves the queue: then nothing is known of what it will offer."""
    waiting = await add(store, "free", "boxed", SANDBOXED)
    await add(store, "free", "plain", PLAIN)
    assert [] == await said(store)
    await store.executors.join(executor(name="bare", labels=OFFERS_NOTHING))
    await store.executors.join(executor(name="other", labels=OFFERS_SANDBOX, queues=("another",)))
    await store.executors.join(executor(name="bound", labels=OFFERS_SANDBOX, namespaces=("strict",)))
    [(level, detail)] = await said(store)
    assert ("warning", True) == (level, detail.endswith(f"so their runs wait: {waiting}"))
    await store.executors.join(executor(name="able", labels=OFFERS_SANDBOX))
    assert [] == await said(store)


async def test_a_cancelled_job_is_not_named(store: MemoryStore) -> None:
    """It has no runs to come."""
    make = Factory(await store.now(), namespace="strict")
    new = make.recurring(make.now + 3_600.0, lane=PLAIN)
    await store.jobs.add([new])
    gone = JobMove(namespace="strict", job_id=new.job_id, action=JobAction.CANCEL, by="ada", replan=NOTHING_MORE)
    await store.jobs.move(gone)
    assert [] == await said(store)


async def test_all_pages_are_looked_at_and_many_jobs_are_counted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are named."""
    monkeypatch.setattr(module, "PAGE", 3)
    for number in range(8):
        await add(store, "strict", f"job-{number}", PLAIN)
    [(_, detail)] = await said(store)
    assert (True, True) == (detail.startswith("8 below"), detail.endswith(" and 3 more"))


async def test_a_look_that_ends_early_says_so(store: MemoryStore) -> None:
    """The number is then the least that there are."""
    for number in range(4):
        await add(store, "strict", f"job-{number}", PLAIN)
    (_, detail), ended = await said(store, most=2)
    assert detail.startswith("2 at least below")
    assert ("ok", "the first 2 jobs were looked at, and no more") == ended
