"""What `doctor` and `db restored` say of executors and what they hold, on the memory store."""

from __future__ import annotations

from collections import Counter

import pytest

from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.model import Claimed
from tickwise.ports.store import ClaimRequest
from tickwise.testing import factories
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import Factory
from tickwise.wiring import continuity
from tickwise.wiring.continuity import begin_and_report
from tickwise.wiring.findings import store_findings
from tickwise.wiring.keys.returned_keys import ReturnedKey

LEASE = 30.0


async def executors_as_told(store: MemoryStore, clock: VirtualClock) -> tuple[str, str]:
    [found] = [each async for each in store_findings(store, clock) if each.name == "executors"]
    return found.level, found.detail


async def test_an_executor_whose_lease_is_over_is_not_alive() -> None:
    """A backup holds the leases of its time; until a scheduler expires them they are on record."""
    clock = VirtualClock()
    store = MemoryStore(clock)
    assert ("warning", "none is alive: nothing will run") == await executors_as_told(store, clock)
    await store.executors.join(factories.executor(lease_seconds=LEASE))
    assert ("ok", "1 alive") == await executors_as_told(store, clock)
    await clock.advance(LEASE + 12.0)
    level, detail = await executors_as_told(store, clock)
    assert ("warning", "none is alive: the last lease ended 12 s ago") == (level, detail)


async def test_the_runs_that_are_held_are_named_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all executors together; what is left out is counted."""
    monkeypatch.setattr(continuity, "MAX_HELD_SHOWN", 5)
    clock = VirtualClock()
    store = MemoryStore(clock)
    make = Factory(clock.now(), seed="held")
    await store.jobs.add([make.job() for _ in range(8)])
    claimed: list[Claimed] = []
    for name, limit in (("one", 3), ("two", 4), ("idle", 0)):
        one = factories.executor(name, lease_seconds=LEASE)
        await store.executors.join(one)
        request = ClaimRequest(executor=one.number, queues=("default",), labels=(), limit=limit, ahead_seconds=0.0)
        claimed += await store.attempts.claim(request) if limit else []
    report = await begin_and_report(store)
    assert (7, 3, 5) == (report.held, report.executors, len(report.holding))
    assert {each.run_id for each in report.holding} < {str(each.run_id) for each in claimed}
    by_name = Counter(each.executor for each in report.holding)
    assert by_name["one"] <= 3
    assert by_name["two"] <= 4
    lines = report.as_text().splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("7 runs are held by 3 executors."))
    assert "  … and 2 more" == lines[at + 6]


def test_a_key_that_came_back_is_told_with_what_became_of_it() -> None:
    """A rotated one was never revoked before."""
    keys = [ReturnedKey("1", "ci", why, revoked) for why in ("revoked", "rotated") for revoked in (False, True)]
    assert [
        "works again: revoked after the backup",
        "revoked after the backup, and now again",
        "its old secret works again: rotated after the backup",
        "rotated after the backup, revoked now",
    ] == [continuity._key_in_words(each) for each in keys]
