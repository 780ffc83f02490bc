"""What one run starts when it ends: each once, through any crash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from tests.support.spans import KeptSpans
from tests.unit.roles.rig import LANE, Silent
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSignals
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger, run_id
from tickwise.domain.retry import CRASHES_MAX, OnUnknown
from tickwise.domain.trace_context import trace_id_of_run
from tickwise.observability.tracing import Tracer
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    Began,
    ClaimRequest,
    JobAction,
    JobRow,
    JobTransfer,
    LetterResolution,
    LetterStatus,
    NewJob,
    RunQuery,
    RunRow,
    Settlement,
)
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.roles.scheduler import sequences
from tickwise.roles.scheduler.sequences import MAX_CHAIN, PUT_OFF_SECONDS, Sequences
from tickwise.testing.factories import Factory, executor, outcome

FOREVER = 1e9
TEAM = "team-a"


class Failing(WrappedStore):
    """A store whose n-th call of one method fails: before it takes effect, or after."""

    def __init__(self, store: MemoryStore, method: str, number: int, *, after: bool) -> None:
        self._method = method
        self._left = number
        self._after = after
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        """Only the one method fails."""
        if name != self._method:
            return call

        async def failing(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left or self._after:
                answer = await call(*arguments, **named)
            if not self._left:
                raise InDoubt("the answer is lost") if self._after else StoreUnavailable("it is away")
            return answer

        return failing


class Committed(WrappedStore):
    """A store that notes which jobs successors are stored for, by the namespace of the ends."""

    def __init__(self, store: MemoryStore) -> None:
        self.successors: dict[str, list[UUID]] = {}
        super().__init__(store)

    def around(self, name: str, call: Call) -> Call:
        """Only commits are noted."""
        if name != "completions.commit":
            return call

        async def noting(namespace: str, ends: sequences.Ends, **named: Any) -> Any:
            self.successors.setdefault(namespace, []).extend(each.job_id for starts in ends.values() for each in starts)
            return await call(namespace, ends, **named)

        return noting


class Rig:
    """Jobs that start each other, and an executor that does what a test says."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock, near_seconds=2.0)
        self.make = Factory(self.clock.now())
        self.signals = LocalSignals()
        self._number: int | None = None

    def sequences(self, store: Any = None, tracer: Tracer | None = None) -> Sequences:
        """Those of one more scheduler."""
        return Sequences(store or self.store, signals=self.signals, clock=self.clock, telemetry=Silent(), tracer=tracer)

    async def job(
        self, *, first: bool = False, namespace: str = "default", job_id: UUID | None = None, **said: Any
    ) -> NewJob:
        """A job that runs when it is asked to; with `first` it runs at once."""
        named = {"schedule_type": "IMMEDIATE" if first else "ON_DEMAND", "task": {"kind": "scripted"}, **said}
        given: dict[str, Any] = {
            "definition": json.dumps(named),
            "lane": LANE,
            "namespace": namespace,
            "job_id": job_id or self.make.identifier(),
        }
        if not first:
            given |= {"schedule_type": "ON_DEMAND", "recurring": True, "never": True, "run_id": None}
        job = self.make.job(None, **given)
        await self.store.jobs.add([job])
        return job

    async def work(self, state: RunState = RunState.SUCCESS, *, follow: bool = True, **more: Any) -> int:
        """Whatever is ready runs and ends; how many there were."""
        if self._number is None:
            self._number = await self.store.executors.join(executor(lease_seconds=FOREVER))
        request = ClaimRequest(
            executor=self._number, queues=["default"], labels=["task:scripted"], limit=100, ahead_seconds=0.0
        )
        claims = await self.store.attempts.claim(request)
        await self.clock.advance(1.0)
        ends = [outcome(each, state, ended=self.clock.now(), follow=follow, **more) for each in claims]
        assert [] == list(await self.store.attempts.finish(self._number, ends))
        return len(claims)

    async def runs(self, job: NewJob) -> list[RunRow]:
        """All that it has made, the oldest first."""
        rows = await self.store.searches.runs(RunQuery(namespace=job.namespace, job_id=job.job_id))
        return sorted(rows, key=lambda row: row.run_id)

    async def definition(self, job: NewJob) -> Any:
        """The only run's own definition."""
        (row,) = await self.runs(job)
        return None if row.definition is None else json.loads(row.definition)


@pytest.fixture
def rig() -> Rig:
    """A fresh store."""
    return Rig()


async def test_success_starts_the_next_with_the_result_as_its_payload(rig: Rig) -> None:
    """Named by the run that it follows, due at its end."""
    second = await rig.job(payload={"its": "own"})
    first = await rig.job(first=True, then=[str(second.job_id)])
    await rig.work(result='{"rows": 7}')
    await rig.sequences().step()
    (run,) = await rig.runs(second)
    (before,) = await rig.runs(first)
    assert (Trigger.SEQUENCE, before.run_id) == (run.trigger, run.origin)
    assert before.ended_at == run.due_at == run.nominal_at
    assert run_id(second.job_id, run.nominal_at, Trigger.SEQUENCE, before.run_id.bytes) == run.run_id
    assert {"rows": 7} == (await rig.definition(second))["payload"]


async def test_without_a_result_the_next_has_its_own_payload(rig: Rig) -> None:
    """Nothing is put in its place."""
    second = await rig.job(payload={"its": "own"})
    await rig.job(first=True, then=[str(second.job_id)])
    await rig.work()
    await rig.sequences().step()
    assert await rig.definition(second) is None


async def test_failure_starts_what_is_there_for_it_and_says_what_failed(rig: Rig) -> None:
    """And what would follow success is not started."""
    good, bad = await rig.job(), await rig.job()
    first = await rig.job(first=True, then=[str(good.job_id)], on_failure=[str(bad.job_id)])
    await rig.work(RunState.FAILED, reason="timeout", error="it ran too long")
    await rig.sequences().step()
    (failed,) = await rig.runs(first)
    assert [] == await rig.runs(good)
    assert {
        "job_id": str(first.job_id),
        "run_id": str(failed.run_id),
        "reason": "timeout",
        "error": "it ran too long",
        "attempt": 1,
    } == (await rig.definition(bad))["payload"]


async def test_an_end_is_followed_once_by_any_number_of_schedulers(rig: Rig) -> None:
    """Each named twice is started once as well."""
    second = await rig.job()
    await rig.job(first=True, then=[str(second.job_id), str(second.job_id)])
    await rig.work()
    for _ in range(3):
        await rig.sequences().step()
    assert 1 == len(await rig.runs(second))


def _to_team(row: JobRow) -> JobTransfer:
    return JobTransfer(namespace="default", job_id=row.job_id, to=TEAM, expected_version=row.version)


@pytest.mark.parametrize("here_first", [True, False], ids=["its former namespace first", "its namespace first"])
async def test_a_successor_that_moved_away_is_started_where_it_is_and_hides_nothing(rig: Rig, here_first: bool) -> None:
    """Its former namespace still names it: there nothing is started, and what else follows is. A run of its namespace
    that names it too, looked at in the same step, starts it, in either order."""
    await rig.store.namespaces.add(NewNamespace(name=TEAM, display_name=TEAM, created_by="ada"))
    moved, stays = await rig.job(), await rig.job()
    row = await rig.store.jobs.get("default", moved.job_id)
    assert row is not None
    await rig.store.jobs.move(_to_team(row))
    ends: list[tuple[str, list[str]]] = [
        ("default", [str(moved.job_id), str(stays.job_id)]),
        (TEAM, [str(moved.job_id)]),
    ]
    for namespace, then in ends if here_first else ends[::-1]:
        await rig.job(first=True, namespace=namespace, then=then)
        await rig.work()
    assert 2 == len(await rig.store.completions.pending(10))
    started = Committed(rig.store)
    await rig.sequences(started).step()
    assert [] == list(await rig.store.completions.pending(10))
    assert {"default": [stays.job_id], TEAM: [moved.job_id]} == started.successors
    assert [] == await rig.runs(moved)
    (run,) = await rig.store.searches.runs(RunQuery(namespace=TEAM, job_id=moved.job_id))
    (other,) = await rig.runs(stays)
    assert ((TEAM, Trigger.SEQUENCE), ("default", Trigger.SEQUENCE)) == (
        (run.namespace, run.trigger), (other.namespace, other.trigger),
    )  # fmt: skip


async def test_executors_hear_of_what_was_started(rig: Rig) -> None:
    """At once."""
    second = await rig.job()
    await rig.job(first=True, then=[str(second.job_id)])
    heard = rig.signals.listen(Topic.RUNS)
    await rig.work()
    assert not heard.is_set()
    await rig.sequences().step()
    assert heard.is_set()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["completions.pending", "jobs.get", "runs.get", "completions.commit"])
async def test_three_jobs_in_a_row_run_once_each_wherever_the_scheduler_dies(
    rig: Rig, method: str, number: int, after: bool
) -> None:
    """Before or after the n-th call of each step; another scheduler goes on."""
    third = await rig.job()
    second = await rig.job(then=[str(third.job_id)])
    first = await rig.job(first=True, then=[str(second.job_id)])
    dying, died = rig.sequences(Failing(rig.store, method, number, after=after)), False
    for _ in range(6):
        await rig.work()
        if not died:
            try:
                await dying.step()
            except (StoreUnavailable, InDoubt):
                died = True
        if died:
            await rig.sequences().step()
    for job in (first, second, third):
        assert [RunState.SUCCESS] == [run.state for run in await rig.runs(job)]


async def test_a_page_of_ends_is_one_step_of_the_store(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, they are followed in one transaction for each namespace."""
    second = await rig.job()
    for _ in range(5):
        await rig.job(first=True, then=[str(second.job_id)])
    await rig.work()
    real, asked = rig.store.completions.commit, []

    async def completions_commit(namespace: str, ends: Mapping[UUID, Any]) -> int:
        asked.append((namespace, len(ends)))
        return await real(namespace, ends)

    monkeypatch.setattr(rig.store.completions, "commit", completions_commit)
    await rig.sequences().step()
    assert [("default", 5)] == asked
    assert 5 == len(await rig.runs(second))


@pytest.mark.parametrize("bound", ["MAX_STARTS", "MAX_LENGTH"])
async def test_a_transaction_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """By the runs that it makes, and by how long their definitions are."""
    second = await rig.job()
    for _ in range(5):
        await rig.job(first=True, then=[str(second.job_id)])
    await rig.work(result='{"of": "the first"}')
    real, asked = rig.store.completions.commit, []

    async def completions_commit(namespace: str, ends: Mapping[UUID, Any]) -> int:
        asked.append(len(ends))
        return await real(namespace, ends)

    monkeypatch.setattr(rig.store.completions, "commit", completions_commit)
    monkeypatch.setattr(sequences, bound, 2 if bound == "MAX_STARTS" else 1)
    await rig.sequences().step()
    assert ([2, 2, 1] if bound == "MAX_STARTS" else [1] * 5) == asked
    assert 5 == len(await rig.runs(second))


async def test_a_paused_successor_leaves_a_record_and_a_cancelled_one_nothing(rig: Rig) -> None:
    """The record says why it did not run."""
    paused, cancelled = await rig.job(), await rig.job()
    await rig.job(first=True, then=[str(paused.job_id), str(cancelled.job_id)])
    await rig.store.jobs.move(rig.make.move(paused.job_id, JobAction.PAUSE))
    await rig.store.jobs.move(rig.make.move(cancelled.job_id, JobAction.CANCEL))
    await rig.work()
    await rig.sequences().step()
    assert [(RunState.SKIPPED, "paused")] == [(run.state, run.reason) for run in await rig.runs(paused)]
    assert [] == await rig.runs(cancelled)
    assert [] == list(await rig.store.completions.pending(10))


async def test_a_job_of_another_namespace_is_not_started(rig: Rig) -> None:
    """Whatever a definition names."""
    other = await rig.job(namespace="other")
    await rig.job(first=True, then=[str(other.job_id)])
    await rig.work()
    await rig.sequences().step()
    assert [] == await rig.runs(other)


async def test_a_poisonous_run_is_a_failure_to_its_sequence(rig: Rig) -> None:
    """The store itself ended it."""
    after = await rig.job()
    await rig.job(first=True, on_failure=[str(after.job_id)])
    for _ in range(CRASHES_MAX):
        number = await rig.store.executors.join(executor())
        request = ClaimRequest(
            executor=number, queues=["default"], labels=["task:scripted"], limit=1, ahead_seconds=0.0
        )
        (claimed,) = await rig.store.attempts.claim(request)
        await rig.store.attempts.start(number, [Began(claimed.run_id, claimed.token, rig.clock.now())])
        await rig.clock.advance(11.0)
        await rig.store.executors.expire(CRASHES_MAX)
    await rig.sequences().step()
    assert "poison" == (await rig.definition(after))["payload"]["reason"]


@pytest.mark.parametrize("resolution", LetterResolution)
async def test_from_an_unknown_outcome_nothing_goes_on_before_a_person_has_decided_it(
    rig: Rig, resolution: LetterResolution
) -> None:
    """Then as they decided; and what is started then is due then."""
    then, failed = await rig.job(), await rig.job()
    first = await rig.job(first=True, then=[str(then.job_id)], on_failure=[str(failed.job_id)])
    number = await rig.store.executors.join(executor())
    request = ClaimRequest(executor=number, queues=["default"], labels=["task:scripted"], limit=1, ahead_seconds=0.0)
    (claimed,) = await rig.store.attempts.claim(request)
    began = Began(claimed.run_id, claimed.token, rig.clock.now(), OnUnknown.HOLD)
    await rig.store.attempts.start(number, [began])
    await rig.clock.advance(11.0)
    await rig.store.executors.expire(CRASHES_MAX)
    await rig.sequences().step()
    assert ([], []) == (await rig.runs(then), await rig.runs(failed))
    await rig.clock.advance(86_400.0)
    (held,) = await rig.runs(first)
    decided = Settlement(held.run_id, LetterStatus.RESOLVED, resolution=resolution)
    await rig.store.letters.settle("default", [decided], by="ada")
    await rig.sequences().step()
    started, other = (then, failed) if resolution is LetterResolution.SUCCEEDED else (failed, then)
    (run,) = await rig.runs(started)
    assert (rig.clock.now(), held.ended_at) == (run.due_at, run.nominal_at)
    assert [] == await rig.runs(other)


async def test_a_circle_that_nobody_refused_comes_to_an_end(rig: Rig) -> None:
    """Two edits at one moment could make one between them."""
    one, other = rig.make.identifier(), rig.make.identifier()
    await rig.job(job_id=one, first=True, then=[str(other)])
    await rig.job(job_id=other, then=[str(one)])
    follower = rig.sequences()
    ran = 0
    for _ in range(2 * MAX_CHAIN):
        ran += await rig.work()
        await follower.step()
    assert MAX_CHAIN + 1 == ran


async def test_one_end_that_cannot_be_gone_on_from_holds_up_no_other(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is the oldest, and there are more of its kind than one look takes. It is tried again later."""
    monkeypatch.setattr(sequences, "PAGE", 3)
    second = await rig.job()
    broken = [await rig.job(first=True, then=[str(second.job_id)]) for _ in range(5)]
    await rig.work()
    await rig.job(first=True, then=[str(second.job_id)])
    await rig.work()
    names = {job.run_id for job in broken}
    real = rig.store.completions.commit

    async def completions_commit(namespace: str, ends: Mapping[UUID, Any]) -> int:
        if names.intersection(ends):
            raise ValueError("a defect")
        return await real(namespace, ends)

    monkeypatch.setattr(rig.store.completions, "commit", completions_commit)
    follower = rig.sequences()
    while await follower.step() == 0:
        pass
    assert 1 == len(await rig.runs(second))
    names.clear()
    await rig.clock.advance(PUT_OFF_SECONDS)
    while await follower.step() == 0:
        pass
    assert 6 == len(await rig.runs(second))


TRACE = "0af7651916cd43dd8448eb211c80319c"
SENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize("result", [None, '{"rows": 7}'])
async def test_the_next_goes_on_in_the_trace_of_the_one_before_and_so_on(rig: Rig, result: str | None) -> None:
    """With a payload from its result and without, to the end of the chain."""
    third = await rig.job()
    second = await rig.job(then=[str(third.job_id)])
    await rig.job(first=True, then=[str(second.job_id)], traceparent=SENT, tracestate="a=b")
    for job in (second, third):
        await rig.work(result=result)
        await rig.sequences().step()
        own = await rig.definition(job)
        assert (SENT, "a=b") == (own["traceparent"], own["tracestate"])


@pytest.mark.parametrize("ratio", [0.0, 1.0])
async def test_the_next_of_a_run_that_is_recorded_is_in_its_trace(rig: Rig, ratio: float) -> None:
    """A run of a schedule is in a trace of its own, whose id each process knows. One that is not recorded has none."""
    second = await rig.job()
    first = await rig.job(first=True, then=[str(second.job_id)])
    await rig.work()
    await rig.sequences(tracer=Tracer(KeptSpans(), ratio, rig.clock)).step()
    own = await rig.definition(second)
    assert first.run_id is not None
    if ratio:
        assert f"{trace_id_of_run(first.run_id):032x}" == own["traceparent"][3:35]
    else:
        assert own is None
