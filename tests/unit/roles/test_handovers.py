"""What a store did besides reaches whoever can act on it; an end that runs may wait for is told at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from operator import eq
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.waiting import eventually
from tests.unit.roles.rig import Rig, drive
from tickwise.adapters.signals.local import LocalSignals
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.model import Lane
from tickwise.ports.signals import Topic
from tickwise.ports.store import ClaimRequest, Handover, Ready
from tickwise.roles.shared.handovers import handover_bell

ONE, TWO = UUID(int=1), UUID(int=2)
HOUR = 3600.0


class Hints:
    """Keeps what executors are told by a broker."""

    def __init__(self) -> None:
        self.told: list[Ready] = []

    def publish(self, runs: Iterable[Ready]) -> None:
        self.told += runs


def test_what_is_claimable_is_rung_and_hinted() -> None:
    """All executors hear the bell, and those with a broker the names."""
    signals, hints = LocalSignals(), Hints()
    runs, cancels = signals.listen(Topic.RUNS), signals.listen(Topic.CANCELS)
    ready = Ready(ONE, 1.0, Lane(), "default")
    handover_bell(signals, cast(Any, hints))(Handover((ready,)))
    assert (runs.is_set(), cancels.is_set(), hints.told) == (True, False, [ready])


def test_what_is_to_stop_concerns_its_holder_alone() -> None:
    """Others need not ask the store."""
    signals = LocalSignals()
    runs = signals.listen(Topic.RUNS)
    holder, other = (signals.listen(Topic.CANCELS, concerns=partial(eq, own)) for own in (ONE, TWO))
    handover_bell(signals)(Handover(stopping=(ONE,)))
    assert (holder.is_set(), other.is_set(), runs.is_set()) == (True, False, False)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """An executor at work that looks, and is heard, once an hour, and gathers what ended for as long: whatever it does
    sooner, it was woken for."""
    made = Rig(
        poll_seconds=HOUR, heartbeat_seconds=HOUR, lease_seconds=10 * HOUR, finish_flush_seconds=HOUR, slots=4,
    )  # fmt: skip
    made.store.on_handover(handover_bell(made.signals))
    await made.executor.start()
    yield made
    await drive(made.clock, made.executor.stop())


async def soon(rig: Rig, holds: Callable[[], bool], what: str) -> None:
    """While some moments pass."""

    async def look() -> bool:
        await rig.clock.advance(0.001)
        return holds()

    await eventually(look, what=what)


async def submitted(rig: Rig, **definition: Any) -> UUID:
    """A run that can be claimed, and that somebody was rung for."""
    run = cast(UUID, (await rig.submit(**definition)).run_id)
    rig.signals.send(Topic.RUNS)
    await soon(rig, lambda: run in rig.runner.launched or rig.store.state.runs[run].blocked, "it is taken")
    return run


async def test_the_end_of_a_run_brings_the_one_that_waits_for_its_slot(rig: Rig) -> None:
    """Without a look in between."""
    limit = {"concurrency": {"limit": 1, "key": "key:one"}, "limit_key": "key:one"}
    runs = {await submitted(rig, **limit) for _ in range(3)}
    for count in (2, 3):
        rig.runner.end(rig.runner.launched[-1])
        await soon(rig, partial(_launched, rig, count), "the next one begins")
    assert runs == set(rig.runner.launched)


def _launched(rig: Rig, count: int) -> bool:
    return len(rig.runner.launched) == count


@pytest.mark.parametrize("overlap", ["queue_one", "queue_all", "cancel_running"])
async def test_an_end_that_later_runs_of_its_job_may_wait_for_is_told_at_once(rig: Rig, overlap: str) -> None:
    """With what was gathered until then."""
    ordinary, waited_for = await submitted(rig), await submitted(rig, overlap=overlap)
    rig.runner.end(ordinary)
    rig.runner.end_many([waited_for])
    await soon(rig, lambda: not rig.store.state.runs, "both are told")


async def test_an_end_that_nobody_can_wait_for_is_gathered_with_others(rig: Rig) -> None:
    """The hot path tells many at once."""
    run = await submitted(rig)
    rig.runner.end(run)
    for _ in range(100):
        await rig.clock.advance(0.001)
    assert run in rig.store.state.runs


async def test_after_a_queue_went_on_the_next_claim_looks_at_all_of_it(rig: Rig) -> None:
    """What waits there has been ready for long, and lies behind where claims read. A claim that failed is no look."""
    asked: list[bool] = []
    claim = rig.store.attempts.claim

    async def attempts_claim(request: ClaimRequest) -> Any:
        asked.append(request.afresh)
        if len(asked) == 1:
            raise StoreUnavailable("away")
        return await claim(request)

    rig.store.attempts.claim = attempts_claim  # type: ignore[method-assign]  # to listen
    rig.signals.send(Topic.QUEUES)
    await soon(rig, lambda: len(asked) >= 1, "it looks")
    rig.signals.send(Topic.RUNS)
    await soon(rig, lambda: len(asked) >= 2, "it looks again")
    rig.signals.send(Topic.RUNS)
    await soon(rig, lambda: len(asked) >= 3, "it looks once more")
    assert asked[:3] == [True, True, False]
