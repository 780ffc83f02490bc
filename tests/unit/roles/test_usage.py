"""The usage of an attempt goes with its outcome to the store: directly, and through a broker between two releases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from tests.unit.roles.rig import Rig
from tests.unit.roles.test_results import dead, recorder, register, started
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, NOT_MEASURED, ResourceUsage, UsageByRun
from tickwise.observability.metrics import MAX_KINDS, Metrics
from tickwise.ports.broker import RESULTS, Message
from tickwise.ports.runner import Verdict
from tickwise.ports.store import NewJob
from tickwise.roles.executor import result_publisher
from tickwise.roles.shared.messages import OutcomeUsage, Results, UnreadableMessage, decode, encode

USAGE = ResourceUsage(1.25, 48_000_000, 1_024, 4_096, 8_192, 77, 1 << 20)


class OldResults(msgspec.Struct, frozen=True, omit_defaults=True):
    """`Results` of the release before."""

    executor: int
    number: int
    outcomes: tuple[Outcome, ...]
    since: int = 1
    v: int = 1


def made(number: int) -> Outcome:
    """A success."""
    return Outcome(UUID(int=number), number, CODES[RunState.SUCCESS], 1.0, 2.0)


async def usage_of(rig: Rig, job: NewJob) -> ResourceUsage:
    """The usage on record of the last attempt of the job's run."""
    assert job.run_id is not None
    row = (await rig.store.runs.attempts(job.run_id))[-1]
    return ResourceUsage(*[getattr(row, name) for name in ResourceUsage._fields])


@pytest_asyncio.fixture(params=["direct", "broker"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """An executor, by both ways."""
    yield await (register() if request.param == "broker" else register(results="store"))


async def end_all(rig: Rig, **ending: Any) -> None:
    """Every task ends, and its outcome reaches the store."""
    for run in [*rig.runner.running]:
        rig.runner.end(run, **ending)
    await rig.tick()
    await (await recorder(rig)).step(0.0)


@pytest.mark.parametrize(
    ("verdict", "usage", "state"),
    [
        (Verdict.OK, USAGE, "SUCCESS"),
        (Verdict.OK, None, "SUCCESS"),
        (Verdict.INVALID, USAGE, "FAILED"),
        (Verdict.FAILED, USAGE, "RETRYING"),
        (Verdict.CANCELLED, ResourceUsage(0.5), "CANCELLED"),
    ],
)
async def test_usage_comes_on_record_with_the_outcome(
    rig: Rig, verdict: Verdict, usage: ResourceUsage | None, state: str
) -> None:
    """Of each end; nothing of an attempt that was not measured."""
    (job,) = await started(rig)
    await end_all(rig, verdict=verdict, usage=usage)
    assert (state, usage or NOT_MEASURED) == (await rig.state(job), await usage_of(rig, job))


async def test_many_ends_in_one_report_have_their_usage(rig: Rig) -> None:
    """Also beside those without."""
    first, second = await started(rig, 2)
    run_ids = [first.run_id, second.run_id]
    reports, real = rig.runner._reports, rig.runner._reports.ended_many

    def ended_many(endings: Sequence[tuple[UUID, Any]]) -> None:
        real([(run, ending._replace(usage=USAGE) if run == run_ids[0] else ending) for run, ending in endings])

    reports.ended_many = ended_many  # type: ignore[method-assign]  # as a runner that measures reports them
    rig.runner.end_many([run for run in run_ids if run is not None])
    await rig.tick()
    await (await recorder(rig)).step(0.0)
    assert [USAGE, NOT_MEASURED] == [await usage_of(rig, job) for job in (first, second)]


@pytest.mark.parametrize(
    "usage",
    [
        ResourceUsage(float("nan")),
        ResourceUsage(float("inf")),
        ResourceUsage(-1.0),
        ResourceUsage(1.0, 1 << 63),
        ResourceUsage(output_bytes=-1),
        ResourceUsage(cast(Any, "1")),
        ResourceUsage(memory_bytes=cast(Any, 1.5)),
    ],
)
async def test_a_usage_that_cannot_be_is_none(rig: Rig, usage: ResourceUsage) -> None:
    """Of a plugin with a fault: its run ends as it would have."""
    (job,) = await started(rig)
    await end_all(rig, usage=usage)
    assert ("SUCCESS", NOT_MEASURED) == (await rig.state(job), await usage_of(rig, job))


async def test_usage_waits_with_its_outcome_for_the_store() -> None:
    """And is kept no longer than that."""
    rig = await register(results="store")
    (job,) = await started(rig)
    rig.flaky.away = {"attempts.finish"}
    for run in [*rig.runner.running]:
        rig.runner.end(run, usage=USAGE)
    with pytest.raises(Exception, match="away"):
        await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    rig.flaky.away = set()
    await rig.tick()
    assert USAGE == await usage_of(rig, job)
    assert not rig.executor._outbox._usage


async def test_what_no_recorder_applies_is_told_with_its_usage() -> None:
    """Directly, after the patience of the executor."""
    rig = await register()
    (job,) = await started(rig)
    for run in [*rig.runner.running]:
        rig.runner.end(run, usage=USAGE)
    await rig.tick()
    assert "DISPATCHED" == await rig.state(job)
    await rig.tick(after_seconds=result_publisher.PATIENCE_SECONDS + 1.0)
    assert ("SUCCESS", USAGE) == (await rig.state(job), await usage_of(rig, job))


# ------------------------------------------------------------------------------------------- two releases


def test_a_message_without_usage_is_that_of_the_release_before() -> None:
    """Byte for byte; and an older recorder reads what a newer executor says, without the usage."""
    outcomes = (made(1), made(2))
    assert encode(Results.of(7, 3, outcomes, 2, NO_USAGE)) == msgspec.msgpack.encode(OldResults(7, 3, outcomes, 2))
    newer = encode(Results.of(7, 3, outcomes, 2, {UUID(int=2): USAGE}))
    assert OldResults(7, 3, outcomes, 2) == msgspec.msgpack.decode(newer, type=OldResults)


def test_a_message_of_the_release_before_has_no_usage() -> None:
    """A newer recorder reads it."""
    old = msgspec.msgpack.encode(OldResults(7, 3, (made(1),), 2))
    assert {} == decode(Results, old).usage_by_run()


def test_a_message_tells_the_usage_of_each_outcome() -> None:
    """By its place."""
    given: UsageByRun = {UUID(int=3): USAGE, UUID(int=1): ResourceUsage(output_bytes=0), UUID(int=9): USAGE}
    message = decode(Results, encode(Results.of(7, 3, (made(1), made(2), made(3)), 1, given)))
    assert {UUID(int=1): ResourceUsage(output_bytes=0), UUID(int=3): USAGE} == message.usage_by_run()


@pytest.mark.parametrize(
    "usage",
    [OutcomeUsage(1), OutcomeUsage(-1), OutcomeUsage(0, float("inf")), OutcomeUsage(0, None, 1 << 63)],
)
def test_a_usage_of_no_outcome_is_no_message(usage: OutcomeUsage) -> None:
    """Nor is one that cannot be: it would stop the batch at the store."""
    with pytest.raises(UnreadableMessage, match="a usage of no outcome"):
        decode(Results, encode(Results(7, 3, (made(1),), 1, (usage,))))


async def test_a_bad_usage_is_put_aside_with_its_message_alone() -> None:
    """Others are applied."""
    rig = await register()
    (job,) = await started(rig)
    for run in [*rig.runner.running]:
        rig.runner.end(run, usage=USAGE)
    await rig.tick()
    assert rig.broker is not None
    bad = encode(Results(8, 1, (made(1),), 1, (OutcomeUsage(5),)))
    await rig.broker.send(RESULTS, [Message(bad, b"8")])
    recording = await recorder(rig)
    await recording.step(0.0)
    await recording.step(0.0)
    assert USAGE == await usage_of(rig, job)
    assert [bad] == [each.value for each in await dead(rig)]


# ------------------------------------------------------------------------------------------- metrics


def shown(metrics: Metrics) -> Mapping[str, float]:
    """The series of tasks."""
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith("tickwise_task_")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_usage_is_counted_by_the_kind_of_task() -> None:
    """What was not measured counts nothing."""
    metrics = Metrics()
    metrics.used("python", USAGE)
    metrics.used("python", ResourceUsage(0.75))
    metrics.used("function", ResourceUsage(output_bytes=10))
    found = shown(metrics)
    assert 2.0 == found['tickwise_task_cpu_seconds_total{kind="python"}']
    assert 1.0 == found['tickwise_task_memory_peak_bytes_count{kind="python"}']
    assert 48_000_000 == found['tickwise_task_memory_peak_bytes_sum{kind="python"}']
    assert 10 == found['tickwise_task_output_bytes_total{kind="function"}']
    assert 'tickwise_task_cpu_seconds_total{kind="function"}' not in found


def test_the_number_of_kinds_is_bounded() -> None:
    """Further ones are counted together."""
    metrics = Metrics()
    for number in range(MAX_KINDS + 10):
        metrics.used(f"kind-{number}", ResourceUsage(1.0))
    found = {name: value for name, value in shown(metrics).items() if name.startswith("tickwise_task_cpu")}
    assert (MAX_KINDS + 1, 10.0) == (len(found), found['tickwise_task_cpu_seconds_total{kind="other"}'])


async def test_an_executor_counts_what_its_tasks_used() -> None:
    """Once for each attempt, also if a recorder applies it."""
    rig = await register()
    counted: list[tuple[str, ResourceUsage]] = []
    settlement = rig.executor._settlement
    assert settlement._telemetry is not None
    settlement._telemetry.used = lambda kind, usage: counted.append((kind, usage))  # type: ignore[method-assign]  # to listen
    await started(rig)
    await end_all(rig, usage=USAGE)
    assert [("scripted", USAGE)] == counted
