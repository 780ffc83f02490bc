"""Counted resources and memory of an executor: a run holds what it needs from its claim until its task is dead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.unit.roles.rig import Rig, ScriptedRunner, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane
from tickwise.domain.rules.capacities import MEMORY, Capacity, demand_of, needed_of_memory, needed_of_resources
from tickwise.ports.runner import Verdict
from tickwise.ports.store import ClaimRequest, NewJob, RunCancel
from tickwise.roles.executor.admission import LATER_SECONDS
from tickwise.roles.executor.ledger import LOOK_SECONDS, AdmissionVerdict, CapacityLedger
from tickwise.roles.executor.outcomes import UNOFFERED_SECONDS
from tickwise.testing.factories import executor

GB = 1 << 30
HELD, REMEMBERED = AdmissionVerdict.HELD, AdmissionVerdict.REMEMBERED
LATER, NEVER = AdmissionVerdict.LATER, AdmissionVerdict.NEVER


def ledger(**whole: int) -> CapacityLedger:
    return CapacityLedger(whole, clock=VirtualClock(), wake=asyncio.Event())


class CountedRig(Rig):
    """An executor with these capacities; jobs are stored with the labels that control gives them."""

    def __init__(self, memory_bytes: int | None = None, *, slots: int = 16, **resources: int) -> None:
        super().__init__(resources=resources, memory_bytes=memory_bytes, slots=slots)
        self.claims: list[ClaimRequest] = []
        self.given: list[UUID] = []
        """The runs that the store gave, each time."""
        claim = self.store.attempts.claim

        async def counted(request: ClaimRequest) -> Any:
            rows = await claim(request)
            self.claims.append(request)
            self.given += [row.run_id for row in rows]
            return rows

        self.store.attempts.claim = counted  # type: ignore[method-assign]  # counts them

    async def begin(self) -> CountedRig:
        await drive(self.clock, self.executor.prepare())
        return self

    async def add(
        self, memory_bytes: int | None = None, *, labelled: bool = True, priority: int = 5, **resources: int
    ) -> NewJob:
        body: dict[str, Any] = {"schedule_type": "FUTURE", "task": {"kind": "scripted"}, "resources": resources}
        if memory_bytes is not None:
            body["limits"] = {"memory_bytes": memory_bytes}
        labels = [*needed_of_resources(resources), *(needed_of_memory(memory_bytes) if labelled else [])]
        lane = Lane(requires=tuple(sorted(["task:scripted", *labels])), priority=priority)
        job = self.make.job(definition=json.dumps(body), task_kind="scripted", lane=lane)
        await self.store.jobs.add([job])
        return job

    def runs(self, *jobs: NewJob) -> list[bool]:
        return [job.run_id in self.runner.running for job in jobs]

    def end(self, job: NewJob, verdict: Verdict = Verdict.OK) -> None:
        assert job.run_id is not None
        self.runner.end(job.run_id, verdict)

    async def capacity(self, name: str) -> Capacity:
        await self.tick()
        [row] = await self.store.executors.all()
        return row.capacities[name]


# ------------------------------------------------------------------------------------------ the ledger


def test_what_is_held_is_never_more_than_there_is() -> None:
    book = ledger(gpu=2)
    first, second, third = uuid4(), uuid4(), uuid4()
    assert [HELD, HELD, REMEMBERED] == [book.admit(each, {"gpu": 1}) for each in (first, second, third)]
    assert Capacity(2, 2) == book.capacities()["gpu"]
    book.release(first)
    book.release(first)
    assert Capacity(2, 1) == book.capacities()["gpu"]


def test_a_label_is_offered_while_some_is_free_and_nobody_waits_for_it() -> None:
    book = ledger(gpu=4, license=1)
    assert {"resource:gpu", "resource:gpu:2", "resource:gpu:4", "resource:license"} == set(book.counted_labels())
    small, large = uuid4(), uuid4()
    book.admit(small, {"gpu": 1})
    assert REMEMBERED is book.admit(large, {"gpu": 4})
    assert ("resource:license",) == book.counted_labels()
    book.release(small)
    assert [large] == [each.run_id for each in book.to_look_for()]
    assert HELD is book.admit(large, {"gpu": 4}, by_name=True)
    assert ("resource:license",) == book.counted_labels()


def test_a_small_run_does_not_go_past_a_remembered_one() -> None:
    book = ledger(gpu=4)
    book.admit(uuid4(), {"gpu": 2})
    assert [REMEMBERED, LATER] == [book.admit(uuid4(), {"gpu": 4}), book.admit(uuid4(), {"gpu": 1})]


def test_more_than_there_is_is_never_waited_for() -> None:
    book = ledger(gpu=3)
    assert NEVER is book.admit(uuid4(), {"gpu": 4})
    assert NEVER is book.admit(uuid4(), {"license": 1})
    assert "resource:gpu" in book.counted_labels()
    assert not [*book.to_look_for()]


def test_memory_that_is_not_counted_holds_nobody_back() -> None:
    book = ledger()
    assert [HELD] * 9 == [book.admit(uuid4(), {MEMORY: 1 << 45}) for _ in range(9)]
    assert set(needed_of_memory(1 << 45)).issubset(book.labels())
    assert not book.is_counting


def test_a_remembered_run_that_the_store_does_not_give_is_forgotten() -> None:
    clock = VirtualClock()
    book = CapacityLedger({"gpu": 1}, clock=clock, wake=asyncio.Event())
    holder, waiting = uuid4(), uuid4()
    book.admit(holder, {"gpu": 1})
    book.admit(waiting, {"gpu": 1})
    book.release(holder)
    book.not_found(waiting)
    assert not book.counted_labels(), "it may be on its way back to the store"


@pytest.mark.parametrize(
    ("amount", "labels"),
    [
        (1, {"resource:gpu"}),
        (2, {"resource:gpu", "resource:gpu:2"}),
        (3, {"resource:gpu", "resource:gpu:2"}),
        (4, {"resource:gpu", "resource:gpu:4"}),
        (1_000_000, {"resource:gpu", "resource:gpu:524288"}),
    ],
)
def test_each_executor_with_enough_offers_the_labels_of_an_amount(amount: int, labels: set[str]) -> None:
    assert labels == set(needed_of_resources({"gpu": amount}))
    assert labels.issubset(ledger(gpu=amount).offered())
    if amount > 1:
        assert not labels.issubset(ledger(gpu=amount // 2 - 1).offered())


@pytest.mark.parametrize("size", [1 << 20, GB - 1, GB, 2 * GB, 3 * GB, 64 * GB])
def test_each_executor_with_enough_memory_offers_the_labels_of_a_size(size: int) -> None:
    assert set(needed_of_memory(size)).issubset(ledger(**{MEMORY: size}).offered())


@pytest.mark.parametrize(
    ("resources", "memory_bytes", "demand"),
    [({}, None, None), ({"gpu": 1}, None, {"gpu": 1}), ({}, 5, {MEMORY: 5}), ({"a": 2}, 5, {"a": 2, MEMORY: 5})],
)
def test_a_demand_has_resources_and_memory(
    resources: Mapping[str, int], memory_bytes: int | None, demand: Mapping[str, int] | None
) -> None:
    assert demand == demand_of(resources, memory_bytes)


# ------------------------------------------------------------------------------------------ the executor


async def test_ten_runs_of_two_gigabytes_go_on_four_at_a_time_on_eight() -> None:
    """Each waits in the store, and begins when one before it ends; no attempt is counted for what was given back."""
    rig = await CountedRig(8 * GB).begin()
    jobs = [await rig.add(2 * GB) for _ in range(10)]
    begun: set[UUID] = set()
    for _ in range(40):
        await rig.tick(0.5)
        assert len(rig.runner.running) <= 4
        begun |= set(rig.runner.running)
        for run_id in [*rig.runner.running][:1]:
            rig.runner.end(run_id)
    assert {job.run_id for job in jobs} == begun
    await rig.tick()
    assert [1] * 10 == [(await rig.row(job)).attempt for job in jobs]
    assert Capacity(8 * GB, 0) == await rig.capacity(MEMORY)


async def test_memory_that_is_full_is_not_asked_for_again_and_again() -> None:
    rig = await CountedRig(2 * GB).begin()
    jobs = [await rig.add(2 * GB) for _ in range(5)]
    await rig.tick()
    await rig.tick(LATER_SECONDS)
    before = len(rig.given)
    for _ in range(40):
        await rig.tick(0.1)
    assert len(rig.given) - before <= 1, "one look at the run that is remembered"
    assert [1, 4] == [len(rig.runner.running), len([each for each in jobs if each.run_id not in rig.runner.running])]


async def test_runs_that_hold_a_resource_are_claimed_one_at_a_time() -> None:
    """Of many, as many as fit come; the others keep their places in the queue, for any executor."""
    rig = await CountedRig(gpu=2).begin()
    jobs = [await rig.add(gpu=1) for _ in range(6)]
    await rig.tick()
    assert [True, True, False, False, False, False] == rig.runs(*jobs)
    assert [None] * 4 == [(await rig.row(job)).executor for job in jobs[2:]]
    rig.end(jobs[0])
    await rig.tick()
    await rig.tick()
    assert [True, True] == rig.runs(jobs[1], jobs[2])
    assert Capacity(2, 2) == await rig.capacity("gpu")


async def test_a_large_run_is_not_starved_by_small_ones() -> None:
    """Small ones come all the time; the large one begins as soon as those before it have ended."""
    rig = await CountedRig(gpu=2).begin()
    first = [await rig.add(gpu=1), await rig.add(gpu=1)]
    await rig.tick()
    large = await rig.add(gpu=2)
    rig.end(first[0])
    await rig.tick(0.1)
    for _ in range(10):
        await rig.add(gpu=1)
        await rig.tick(0.1)
        assert [first[1].run_id] == [*rig.runner.running]
    rig.end(first[1])
    await rig.tick(0.1)
    await rig.tick(0.1)
    assert [large.run_id] == [*rig.runner.running]
    assert (await rig.row(large)).attempt == 1


async def test_a_remembered_run_may_begin_elsewhere_or_be_cancelled() -> None:
    """It is not held here meanwhile; what it waited for is for others again after a look."""
    rig = await CountedRig(gpu=2).begin()
    first = await rig.add(gpu=1)
    await rig.tick()
    large = await rig.add(gpu=2)
    await rig.tick(0.1)
    small = await rig.add(gpu=1)
    await rig.tick(0.1)
    assert [True, False, False] == rig.runs(first, large, small)
    assert large.run_id is not None
    state = await rig.store.runs.move(RunCancel(namespace="default", run_id=large.run_id, by="ada"))
    assert state is RunState.CANCELLED, "no executor has to be asked"
    for _ in range(int(LOOK_SECONDS) + 1):
        await rig.tick(1.0)
    assert [True, True] == rig.runs(first, small)


async def test_an_abandoned_task_holds_its_resource_until_it_is_dead() -> None:
    """Its lease is over, and the store gives its run to others; the device is not free before the task is."""
    rig = await CountedRig(gpu=1).begin()
    rig.runner.stubborn = True
    job = await rig.add(gpu=1)
    await rig.tick()
    held = rig.executor._held_runs
    held.abandon_all()
    assert Capacity(1, 1) == rig.executor._ledger.capacities()["gpu"]
    assert not rig.executor._ledger.counted_labels()
    rig.end(job, Verdict.CANCELLED)
    assert Capacity(1, 0) == rig.executor._ledger.capacities()["gpu"]


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.INVALID, Verdict.CANCELLED, Verdict.RELEASED])
async def test_each_end_gives_back_what_a_run_held(verdict: Verdict) -> None:
    rig = await CountedRig(8 * GB, gpu=1).begin()
    job = await rig.add(GB, gpu=1)
    await rig.tick()
    assert [True] == rig.runs(job)
    rig.end(job, verdict)
    assert {"gpu": Capacity(1), MEMORY: Capacity(8 * GB)} == rig.executor._ledger.capacities()


async def test_ends_that_come_in_one_report_give_back_what_was_held() -> None:
    rig = await CountedRig(gpu=2).begin()
    jobs = [await rig.add(gpu=1), await rig.add(gpu=1)]
    await rig.tick()
    rig.runner.end_many([job.run_id for job in jobs if job.run_id is not None])
    assert Capacity(2) == rig.executor._ledger.capacities()["gpu"]


async def test_a_run_that_needs_more_than_this_executor_has_goes_back_for_others() -> None:
    rig = await CountedRig(gpu=3).begin()
    job = await rig.add(gpu=3)
    too_large = rig.make.job(
        definition='{"schedule_type":"FUTURE","task":{"kind":"scripted"},"resources":{"gpu":4}}',
        task_kind="scripted",
        lane=Lane(requires=("resource:gpu", "resource:gpu:2", "task:scripted")),
    )
    await rig.store.jobs.add([too_large])
    await rig.tick()
    await rig.tick()
    assert [True, False] == rig.runs(job, too_large)
    rig.end(job)
    await rig.tick()
    row = await rig.row(too_large)
    assert (RunState.QUEUED, None) == (row.state, row.executor)
    before = len(rig.given)
    for _ in range(50):
        await rig.tick(0.1)
    assert before == len(rig.given), "it is for others for a while"
    await rig.tick(UNOFFERED_SECONDS)
    assert len([run_id for run_id in rig.given if run_id == too_large.run_id]) in (1, 2)


async def test_runs_of_jobs_stored_before_memory_was_reserved_do_not_spin() -> None:
    """Their lanes do not say that they need memory, so each claim brings them."""
    rig = await CountedRig(2 * GB).begin()
    jobs = [await rig.add(2 * GB, labelled=False) for _ in range(3)]
    await rig.tick()
    before = len(rig.given)
    for _ in range(50):
        await rig.tick(0.1)
    assert 1 == len(rig.runner.running)
    assert len(rig.given) - before <= 2 * 5.0 / (LATER_SECONDS - 1.5), "each is asked for seldom"
    for _ in range(30):
        for run_id in [*rig.runner.running]:
            rig.runner.end(run_id)
        await rig.tick(1.0)
    assert {job.run_id for job in jobs} == set(rig.runner.launched)


async def test_urgent_runs_without_a_resource_do_not_wait_for_those_with_one() -> None:
    """And the other way round: the store gives the most urgent of all."""
    rig = await CountedRig(slots=1, gpu=5).begin()
    low, high = await rig.add(priority=1), await rig.add(priority=9, gpu=1)
    middle = await rig.add(priority=5)
    order = []
    for _ in range(6):
        await rig.tick(0.1)
        for run_id in [*rig.runner.running]:
            order.append(run_id)
            rig.runner.end(run_id)
    assert [high.run_id, middle.run_id, low.run_id] == order


async def test_an_executor_without_resources_makes_one_claim_as_before() -> None:
    """Claims for runs without confinement cost no further statement, while the memory is not full."""
    rig = await CountedRig(8 * GB).begin()
    await rig.add()
    await drive(rig.clock, rig.executor._claim_loop.step())
    assert [(16, None)] == [(claim.limit, claim.runs) for claim in rig.claims]


async def test_heartbeats_say_what_is_held() -> None:
    rig = await CountedRig(8 * GB, gpu=2).begin()
    [row] = await rig.store.executors.all()
    assert {"gpu": Capacity(2), MEMORY: Capacity(8 * GB)} == row.capacities
    await rig.add(3 * GB, gpu=1)
    await rig.tick()
    assert Capacity(2, 1) == await rig.capacity("gpu")
    assert Capacity(8 * GB, 3 * GB) == await rig.capacity(MEMORY)


async def test_a_program_of_the_release_before_counts_nothing() -> None:
    rig = Rig()
    number = await rig.store.executors.join(executor(labels=()))
    await rig.store.executors.beat(number, 10.0)
    [row] = await rig.store.executors.all()
    assert {} == row.capacities
    assert isinstance(rig.runner, ScriptedRunner)
