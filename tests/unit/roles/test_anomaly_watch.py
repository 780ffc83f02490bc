"""A scheduler tells rules of runs that are unlike earlier ones of their job: once, and only where a rule asks."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from tests.unit.roles.rig import drive
from tests.unit.roles.test_alerting import Night
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import NoticeEvent
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.ports.store import ClaimRequest, NewJob
from tickwise.roles.scheduler.alerting import IDLE_SECONDS, Alerting
from tickwise.roles.scheduler.observing import anomaly_watch
from tickwise.roles.scheduler.observing.anomaly_watch import REST_SECONDS, ROUND_SECONDS, AnomalyWatch
from tickwise.testing.factories import executor, outcome

ANOMALY = frozenset({NoticeEvent.ANOMALY})


class Watched(Night):
    """Jobs with a history, and a watch."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = AnomalyWatch(self.alerting, self.rig.flaky, self.rig.clock)

    async def run(self, job: NewJob, seconds: float, output: int | None = None) -> UUID:
        """A run that succeeded just now."""
        await self.rig.clock.advance(1.0)
        now = self.rig.clock.now()
        await self.store.runs.add(job.namespace, job.job_id, [self.make.run(job.job_id, now)])
        holder = await self.store.executors.join(executor(lease_seconds=1e6))
        request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)
        [claim] = await self.store.attempts.claim(request)
        usage = {} if output is None else {claim.run_id: ResourceUsage(output_bytes=output)}
        end = outcome(claim, RunState.SUCCESS, started=now, ended=now + seconds)
        assert [] == list(await self.store.attempts.finish(holder, [end], usage))
        return claim.run_id

    async def history(self, job: NewJob, *runs: tuple[float, int], times: int = 1) -> None:
        """Runs of a job, the first ones first, again and again."""
        for _ in range(times):
            for seconds, output in runs:
                await self.run(job, seconds, output)

    async def told(self) -> list[str]:
        """What a round and the rules come to: the sentence of each new notice."""
        while await self.watch.step() < ROUND_SECONDS:
            pass
        await self.judge()
        return [line.sentence for notice in self.send() for line in notice.lines]


async def test_a_run_that_is_unlike_earlier_ones_is_told_once() -> None:
    """Its duration and its output, each once; at a later round it is old."""
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, (2.0, 10_000), (3.0, 12_000), times=10)
    assert [] == await night.told()
    odd = await night.run(job, 60.0, 3_200_000)
    assert [
        "a run took 60 s, usually 2 s to 3 s",
        "a run wrote 3.2 MB, usually 10 kB to 12 kB",
    ] == sorted(await night.told())
    [alert] = await night.alerts()
    assert (odd, str(job.job_id), 2) == (alert.run_id, alert.subject, alert.events)
    assert [] == await night.told()
    await night.rig.clock.advance(3_600.0)
    assert [] == await night.told()


async def test_a_success_closes_the_alert() -> None:
    """The next one, which is as usual."""
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, (2.0, 100), times=12)
    await night.run(job, 60.0, 100)
    assert 1 == len(await night.told())
    await night.rig.clock.advance(60.0)
    await night.run(job, 2.0, 100)
    assert [] == await night.told()
    assert ["closed"] == [alert.state.value for alert in await night.alerts()]


@pytest.mark.parametrize(
    ("history", "times"),
    [
        pytest.param([(2.0, 100)], 9, id="too few runs"),
        pytest.param([(2.0, 100), (2.0, 100), (60.0, 100)], 10, id="a job with two ways to run"),
        pytest.param([], 0, id="the first run"),
    ],
)
async def test_what_may_be_usual_is_not_told(history: list[tuple[float, int]], times: int) -> None:
    """Of few runs, of the first one, and of a job that often takes so long."""
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, *history, times=times)
    await night.run(job, 60.0, 100)
    assert [] == await night.told()


async def test_only_jobs_of_rules_about_anomalies_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, by label, or of the whole namespace; without such a rule nothing is read."""
    night = Watched()
    asked: list[set[UUID]] = []
    real = night.store.delays.samples

    async def samples(job_ids: set[UUID], *rest: object, **said: object) -> object:
        asked.append(set(job_ids))
        return await real(job_ids, *rest, **said)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(night.store.delays, "samples", samples)
    [plain], [named], [labelled] = (
        await night.jobs(),
        await night.jobs(),
        await night.jobs(labels={"team": "data"}),
    )
    assert IDLE_SECONDS == await night.watch.step()
    await night.rule("failures")
    assert ROUND_SECONDS == await night.watch.step()
    assert [] == asked
    rule = await night.rule("by name", on=ANOMALY, jobs=(named.job_id,))
    assert ROUND_SECONDS == await night.watch.step()
    assert [{named.job_id}] == asked
    asked.clear()
    await night.rule("by label", on=ANOMALY, labels={"team": "data"})
    assert ROUND_SECONDS == await night.watch.step()
    assert [{named.job_id, labelled.job_id}] == asked
    asked.clear()
    await night.store.notification_rules.remove("default", rule.rule_id)
    await night.rule("all", on=ANOMALY)
    assert ROUND_SECONDS == await night.watch.step()
    assert [{plain.job_id, named.job_id, labelled.job_id}] == asked


async def test_jobs_are_looked_at_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each job in one round, and all runs that ended since the round before."""
    monkeypatch.setattr(anomaly_watch, "PAGE", 2)
    night = Watched()
    await night.rule(on=ANOMALY)
    jobs = await night.jobs(5)
    for job in jobs:
        await night.history(job, (2.0, 100), times=10)
        await night.run(job, 60.0, 100)
    pauses = [await night.watch.step() for _ in range(3)]
    assert [REST_SECONDS, REST_SECONDS, ROUND_SECONDS] == pauses
    await night.judge()
    assert {str(job.job_id) for job in jobs} == {alert.subject for alert in await night.alerts()}


async def test_two_schedulers_tell_one_anomaly_once() -> None:
    """Both find it before either has noted it."""
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, (2.0, 100), times=12)
    await night.run(job, 60.0, 100)
    both = asyncio.Barrier(2)
    real = night.store.alerts.note

    async def note(noted: object) -> int:
        async with asyncio.timeout(60):
            await both.wait()
        return await real(noted)  # type: ignore[arg-type]  # as it was called

    night.store.alerts.note = note  # type: ignore[method-assign]  # to meet there
    other = AnomalyWatch(Alerting(night.rig.flaky, night.rig.clock), night.rig.flaky, night.rig.clock)
    await asyncio.gather(night.watch.step(), other.step())
    night.store.alerts.note = real  # type: ignore[method-assign]  # as it was
    await night.judge()
    assert [1] == [alert.events for alert in await night.alerts()]
    assert [1] == [notice.events for notice in night.notices()]


async def test_earlier_runs_of_a_busy_job_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a time: a round then reads the new runs alone."""
    monkeypatch.setattr(anomaly_watch, "FRESH", 2)
    monkeypatch.setattr(anomaly_watch, "SAMPLE", 12)
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, (2.0, 100), times=14)
    read: list[int] = []
    real = night.store.delays.samples

    async def samples(job_ids: set[UUID], most: int, **said: float | None) -> object:
        read.append(most)
        return await real(job_ids, most, **said)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(night.store.delays, "samples", samples)
    assert [] == await night.told()
    await night.run(job, 60.0, 100)
    assert ["a run took 60 s, usually 2 s to 2 s"] == await night.told()
    assert [2, 14, 2] == read
    await night.rig.clock.advance(anomaly_watch.KEPT_SECONDS)
    await night.run(job, 2.0, 100)
    assert [] == await night.told()
    assert [2, 14, 2, 2, 14] == read


async def test_a_scheduler_does_it_in_its_round() -> None:
    """Beside its other duties."""
    night = Watched()
    await night.rule(on=ANOMALY)
    [job] = await night.jobs()
    await night.history(job, (2.0, 100), times=12)
    await night.run(job, 60.0, 100)
    await drive(night.rig.clock, night.rig.scheduler().tick())
    assert [1] == [notice.events for notice in night.send()]
