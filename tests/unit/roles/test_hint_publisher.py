"""Who tells executors what they can claim: everybody who made runs, at once, and schedulers again of what stays."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest

from tests.support.kinds import builtin_kinds
from tests.unit.roles.rig import LANE, Silent, drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.adapters.clock import VirtualClock
from tickwise.control.bodies import BackfillBody, JobBody, RedriveBody, RunNowBody, RunRetryBody
from tickwise.control.context import ControlContext
from tickwise.control.control import Control
from tickwise.control.jobs.submission import GroupCommit, Submitted
from tickwise.domain.errors import Refused, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Lane, Principal
from tickwise.ports.broker import Channel, ChannelKind, Consumer, lane_of
from tickwise.ports.store import ClaimRequest
from tickwise.roles.scheduler.hint_sweep import HintSweep
from tickwise.roles.scheduler.sequences import Sequences
from tickwise.roles.shared.hint_publisher import HintPublisher
from tickwise.roles.shared.messages import Hints, decode
from tickwise.testing.factories import executor, outcome

LANES = 3
WHO = Principal("someone", "default", frozenset({"*"}))


class Ear:
    """Hears every hint."""

    def __init__(self, clock: VirtualClock) -> None:
        self.exchange = Exchange(lanes=LANES, partitions=2)
        self._broker = MemoryBroker(self.exchange, clock)
        self._consumer: Consumer | None = None
        self.hint_publisher = HintPublisher(self._broker)

    async def hints(self) -> Sequence[Hints]:
        """What was said since the last look."""
        if self._consumer is None:
            channels = [Channel(ChannelKind.RUNS, lane) for lane in range(LANES)]
            self._consumer = self._broker.consumer(channels, "of the test")
            await self._consumer.start()
        found = await self._consumer.take(1000, 0.0)
        for delivery in found:
            assert delivery.channel == lane_of(decode(Hints, delivery.value).priority, LANES)
        return [decode(Hints, delivery.value) for delivery in found]

    async def runs(self) -> set[UUID]:
        """The names in it."""
        return {run for hints in await self.hints() for run in hints.ids()}


@pytest.fixture
def rig() -> Rig:
    """A store for schedulers."""
    return Rig()


@pytest.fixture
def ear(rig: Rig) -> Ear:
    """Who hears what is said about it."""
    return Ear(rig.clock)


@pytest.fixture
async def control(rig: Rig, ear: Ear) -> AsyncIterator[Control]:
    """What people ask, on that store."""
    made = Control(
        ControlContext(
            sandboxes=False,
            store=rig.flaky,
            blobs=rig.blobs,
            signals=rig.signals,
            clock=rig.clock,
            hint_publisher=ear.hint_publisher,
        ),
        keys=rig.store.keys,
        kinds={kind.name: kind for kind in builtin_kinds()},
        calendars=CalendarFiles(),
        group_commit=GroupCommit(seconds=0.0),
    )
    await made.start()
    yield made
    await made.stop()


def body(**said: object) -> JobBody:
    """One job of a shell command, as people say it."""
    text = msgspec.json.encode({"name": "a", "task": {"kind": "shell", "command": "true"}, **said})
    return msgspec.json.decode(text, type=JobBody)


async def submitted(control: Control, **said: object) -> UUID:
    """One job of a shell command."""
    done = await control.requests.create(WHO, lambda: body(**said))
    assert isinstance(done, Submitted)
    return done.job_id


async def active(rig: Rig) -> set[UUID]:
    """All runs that have not ended."""
    return {row.run_id for row in await rig.rows(RunState.QUEUED)}


async def failed(rig: Rig, job_id: UUID) -> UUID:
    """Its only queued run ends FAILED."""
    number = await rig.store.executors.join(executor())
    request = ClaimRequest(executor=number, queues=["default"], labels=["task:shell"], limit=10, ahead_seconds=0.0)
    claims = [each for each in await rig.store.attempts.claim(request) if each.job_id == job_id]
    await rig.store.attempts.finish(number, [outcome(claim, RunState.FAILED) for claim in claims])
    return claims[0].run_id


async def test_a_job_that_is_due_is_told_of_when_it_is_stored(rig: Rig, ear: Ear, control: Control) -> None:
    """Its run, under its name, in its lane; one that is far away is not."""
    await submitted(control, schedule_type="IMMEDIATE", priority=9)
    later = datetime.fromtimestamp(rig.clock.now() + 3_600, UTC).isoformat()
    await submitted(control, schedule_type="FUTURE", schedule_time=later)
    (hints,) = await ear.hints()
    assert await active(rig) == set(hints.ids())
    assert Lane("default", 9, ("task:shell",)) == hints.lane


async def test_all_jobs_of_a_batch_are_told_of(rig: Rig, ear: Ear, control: Control) -> None:
    """In few messages."""

    async def read() -> list[JobBody | Refused]:
        return [body(schedule_type="IMMEDIATE") for _ in range(10)]

    await control.requests.create_many(WHO, read)
    hints = await ear.hints()
    assert await active(rig) == {run for each in hints for run in each.ids()}
    assert 3 == len(hints)


async def test_what_people_ask_to_run_is_told_of(rig: Rig, ear: Ear, control: Control) -> None:
    """A run now, a retry, a redrive and a backfill."""
    job = await submitted(control, schedule_type="IMMEDIATE")
    first = await failed(rig, job)
    await ear.hints()
    assert {await control.jobs.run_now(WHO, job, RunNowBody())} == await ear.runs()
    redriven = await control.letters.redrive(WHO, first, RedriveBody())
    assert {redriven} == await ear.runs()
    again = await failed(rig, job)
    retried = await control.runs.retry(WHO, again, RunRetryBody())
    assert {retried} == await ear.runs()
    hourly = await submitted(control, schedule_type="CRON", cron_expression="0 * * * *")
    now = rig.clock.now()
    start, end = (datetime.fromtimestamp(at, UTC) for at in (now - 7_200, now))
    before = await active(rig)
    await control.schedules.backfill(WHO, hourly, BackfillBody(start=start, end=end))
    assert await active(rig) - before == await ear.runs()


async def test_a_hint_that_cannot_be_made_harms_nothing_that_is_stored(rig: Rig, ear: Ear, control: Control) -> None:
    """The run is made, and that is what is answered."""
    job = await submitted(control, schedule_type="IMMEDIATE")
    await ear.hints()
    real = rig.store.runs.add

    async def and_then_away(*arguments: object, **named: object) -> object:
        made = await real(*arguments, **named)  # type: ignore[arg-type]  # as they were asked
        rig.flaky.away = {"jobs.get"}
        return made

    rig.flaky.runs.add = and_then_away
    run = await control.jobs.run_now(WHO, job, RunNowBody())
    assert run in await active(rig)
    assert set() == await ear.runs()


async def test_what_schedulers_make_is_told_of(rig: Rig, ear: Ear) -> None:
    """Of one-time jobs and of those with a schedule, each in its lane."""
    due = rig.clock.now() + 60.0
    once = rig.make.job(due, lane=LANE._replace(priority=1))
    await rig.store.jobs.add([once])
    cron = await rig.cron("* * * * *", due)
    await rig.clock.advance(59.0)
    await drive(rig.clock, rig.scheduler(hint_publisher=ear.hint_publisher).fire_due())
    hints = await ear.hints()
    assert await active(rig) == {run for each in hints for run in each.ids()}
    assert {once.lane, cron.lane} == {each.lane for each in hints}
    assert {due} == {each.ready for each in hints}


async def test_what_follows_an_end_is_told_of(rig: Rig, ear: Ear) -> None:
    """In the lane of the job that follows."""

    def definition(**said: object) -> str:
        return json.dumps({"schedule_type": "IMMEDIATE", "task": {"kind": "scripted"}, **said})

    second = rig.make.job(None, definition=definition(), lane=LANE._replace(priority=7))
    second = second._replace(schedule_type="ON_DEMAND", recurring=True, never=True, run_id=None)
    first = rig.make.job(None, definition=definition(then=[str(second.job_id)]), lane=LANE)
    await rig.store.jobs.add([first, second])
    number = await rig.store.executors.join(executor())
    request = ClaimRequest(executor=number, queues=["default"], labels=["task:scripted"], limit=10, ahead_seconds=0.0)
    claims = await rig.store.attempts.claim(request)
    await rig.store.attempts.finish(number, [outcome(claim, follow=True) for claim in claims])
    sequences = Sequences(
        rig.store, signals=rig.signals, clock=rig.clock, telemetry=Silent(), hint_publisher=ear.hint_publisher
    )
    await sequences.step()
    (hints,) = await ear.hints()
    assert (await active(rig), 7) == (set(hints.ids()), hints.priority)


async def test_what_stays_queued_is_told_of_again_the_more_seldom_the_longer(rig: Rig, ear: Ear) -> None:
    """By any scheduler, none of which remembers anything: a scheduler that dies costs nothing."""
    await rig.store.jobs.add([job := rig.make.job(None, lane=LANE)])
    told = []
    for number in range(40):
        if job.run_id in {run for hints in await ear.hints() for run in hints.ids()}:
            told.append(number * 0.5)
        await rig.clock.advance(0.5)
        await drive(rig.clock, HintSweep(rig.flaky, ear.hint_publisher).step())
    assert [0.5, 1.5, 2.5, 4.5, 8.5, 16.5] == told


async def test_what_is_held_or_has_ended_is_not_told_of_again(rig: Rig, ear: Ear) -> None:
    """Somebody has it."""
    await rig.store.jobs.add([rig.make.job(None, lane=LANE)])
    number = await rig.store.executors.join(executor())
    request = ClaimRequest(executor=number, queues=["default"], labels=["task:scripted"], limit=10, ahead_seconds=0.0)
    assert 1 == len(await rig.store.attempts.claim(request))
    for _ in range(6):
        await rig.clock.advance(0.5)
        await drive(rig.clock, HintSweep(rig.flaky, ear.hint_publisher).step())
    assert set() == await ear.runs()


async def test_without_a_broker_nobody_sweeps(rig: Rig) -> None:
    """The store is not even asked."""
    rig.flaky.away = {"runs.waiting"}
    await drive(rig.clock, rig.scheduler().tick())
    with pytest.raises(StoreUnavailable):
        await drive(rig.clock, rig.scheduler(hint_publisher=Ear(rig.clock).hint_publisher).tick())
