"""Schedulers whose clocks differ see one delay and one failure: each is told once, at the time of the store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.roles.test_alerting import Night
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.rules import NoticeEvent, QuietHours
from tickwise.roles.scheduler.alerting import Alerting, DelayLooks
from tickwise.testing.clock import VirtualClock

HOUR = 3_600.0


async def test_two_schedulers_that_see_one_delay_make_one_message() -> None:
    """Both have found the run before either notes it."""
    night = Night()
    await night.rule(on=frozenset({NoticeEvent.LATE}), after=30.0)
    [job] = await night.jobs()
    await night.store.runs.add("default", job.job_id, [night.make.run(job.job_id, night.rig.clock.now())])
    await night.rig.clock.advance(31.0)
    both, real, noted = asyncio.Barrier(2), night.store.alerts.note, []

    async def note(events: Any) -> int:
        async with asyncio.timeout(60):
            await both.wait()
        noted.append(await real(events))
        return noted[-1]

    night.store.alerts.note = note  # type: ignore[method-assign, assignment]  # to meet there
    schedulers = [night.alerting, Alerting(night.rig.flaky, night.rig.clock)]
    await asyncio.gather(*(DelayLooks(each, night.rig.flaky).step() for each in schedulers))
    assert [0, 1] == sorted(noted)
    for each in schedulers:
        await each.step()
    assert [1] == [notice.events for notice in night.send()]
    assert [1] == [alert.events for alert in await night.alerts()]


@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
async def test_the_clock_of_a_scheduler_decides_nothing(ahead: float) -> None:
    """One that is an hour off judges a late run and quiet hours by the clock of the store, as the others do; its notice
    is due at once, and its alert is that of the others."""
    night = Night()
    now = night.rig.clock.now()
    minute = int(now // 60 % 1440)
    off = Alerting(night.rig.flaky, VirtualClock(start=now + ahead))
    await night.rule("late", on=frozenset({NoticeEvent.LATE}), after=30.0)
    # Quiet for the clock that is off, and not for that of the store.
    begin = (minute + int(ahead // 60) - 10) % 1440
    await night.rule("quiet", quiet=QuietHours(begin, (begin + 20) % 1440, "UTC"))
    await night.end(RunState.FAILED, *await night.jobs())
    [job] = await night.jobs()
    await night.store.runs.add("default", job.job_id, [night.make.run(job.job_id, night.rig.clock.now())])
    await off.step()
    await DelayLooks(off, night.rig.flaky).step()
    assert {} == night.store.state.notice_events
    await night.rig.clock.advance(31.0)
    await DelayLooks(off, night.rig.flaky).step()
    await off.step()
    told = night.send()
    assert {"late", "quiet"} == {notice.rule_name for notice in told}
    assert all(notice.due <= night.rig.clock.now() for notice in told)
    await night.judge()
    assert [] == night.send()
    assert 2 == len(await night.alerts())


async def test_a_notice_that_is_due_is_sent_without_a_look() -> None:
    """The scheduler that made it rings; one that waits for quiet hours does not, nor one of a fold in doubt."""
    night, rings = Night(), []
    ringing = Alerting(night.rig.flaky, night.rig.clock, is_due=lambda: rings.append("due"))
    quiet = QuietHours(0, 0, "UTC")
    await night.rule("waits", quiet=quiet)
    await night.end(RunState.FAILED, *await night.jobs())
    await ringing.step()
    assert [] == rings
    await night.rule("goes")
    [job] = await night.jobs()
    await night.end(RunState.FAILED, job)
    await ringing.step()
    assert ["due"] == rings
    await night.end(RunState.FAILED, *await night.jobs())
    night.rig.flaky.answers_lost.add("alerts.fold")
    with pytest.raises(Unavailable):
        await ringing.step()
    assert ["due"] == rings
