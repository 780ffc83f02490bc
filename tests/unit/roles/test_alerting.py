"""A scheduler asks rules about events: each counts once, is told once, and survives crashes of the scheduler."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.unit.roles.rig import drive
from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices import index
from tickwise.domain.notices.judging import FOLD_SECONDS, PAUSES, STORM_EBB_SECONDS
from tickwise.domain.notices.rules import (
    INSTALLATION,
    Alert,
    AlertState,
    Escalation,
    Notice,
    NoticeChannel,
    NoticeChannelKind,
    NoticeEvent,
    NoticeState,
    NotificationRule,
    QuietHours,
)
from tickwise.ports.store import AlertQuery, ClaimRequest, NewAlertDecision, NewJob, NotedEvent
from tickwise.roles.scheduler import alerting
from tickwise.roles.scheduler.alerting import (
    IDLE_SECONDS,
    LOOK_SECONDS,
    RIVAL_SECONDS,
    Alerting,
    DelayLooks,
    is_long,
)
from tickwise.testing.contracts.base import began
from tickwise.testing.factories import executor, outcome

FAILURES = frozenset({NoticeEvent.FAILURE, NoticeEvent.RECOVERY})


class Night:
    """A store with rules, jobs that end, and schedulers that judge."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.store, self.make = self.rig.store, self.rig.make
        self.alerting = Alerting(self.rig.flaky, self.rig.clock)

    def channel(self, name: str = "ops", namespace: str = "default") -> UUID:
        """A channel that is there."""
        channel = NoticeChannel(
            channel_id=self.make.identifier(), namespace=namespace, name=name, kind=NoticeChannelKind.WEBHOOK
        )
        self.store.state.channels[channel.channel_id] = channel
        return channel.channel_id

    async def rule(self, name: str = "nights", **fields: Any) -> NotificationRule:
        """A stored rule about failures and recoveries."""
        namespace = fields.pop("namespace", "default")
        given: dict[str, Any] = {"on": FAILURES, **fields}
        if "channels" not in given:
            given["channels"] = (self.channel(f"of {name}", namespace),)
        rule = NotificationRule(rule_id=self.make.identifier(), namespace=namespace, name=name, **given)
        return await self.store.notification_rules.add(rule)

    async def jobs(self, number: int = 1, **fields: Any) -> list[NewJob]:
        """Jobs that run on request."""
        given = {"schedule_type": "ON_DEMAND", "due": None, "run_id": None, **fields}
        jobs = [self.make.job(**given) for _ in range(number)]
        await self.store.jobs.add(jobs)
        return jobs

    async def end(self, state: RunState, *jobs: NewJob, **fields: Any) -> list[UUID]:
        """One run of each job, and all of them end so."""
        await self.rig.clock.advance(1.0)
        for job in jobs:
            await self.store.runs.add(job.namespace, job.job_id, [self.make.run(job.job_id, self.rig.clock.now())])
        holder = await self.store.executors.join(executor(lease_seconds=1e6))
        request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=10_000, ahead_seconds=0.0)
        claims = await self.store.attempts.claim(request)
        assert len(jobs) == len(claims)
        said = {"reason": "error", "error": "no disk"} if state is not RunState.SUCCESS else {}
        ends = [outcome(claim, state, **{**said, **fields}) for claim in claims]
        assert [] == list(await self.store.attempts.finish(holder, ends))
        return [claim.run_id for claim in claims]

    async def judge(self) -> None:
        """Until nothing is left."""
        while await self.alerting.step() < LOOK_SECONDS:
            pass

    async def alerts(self, **fields: Any) -> Sequence[Alert]:
        """All of a namespace."""
        return await self.store.alerts.find(AlertQuery(**{"namespace": "default", "limit": 10_000, **fields}))

    def notices(self) -> list[Notice]:
        """All, the oldest first."""
        return [each.notice for each in self.store.state.notices.values()]

    def send(self) -> list[Notice]:
        """What is due is delivered."""
        now, records = self.rig.clock.now(), self.store.state.notices.values()
        due = [
            each
            for each in records
            if each.notice.state is NoticeState.WAITING and each.sender is None and each.notice.due <= now
        ]
        for each in due:
            each.sender = "sender"
        return [each.notice for each in due]


async def test_a_failure_is_told_and_so_is_its_recovery() -> None:
    """Once each, by the channel of the rule."""
    night = Night()
    rule = await night.rule()
    [job] = await night.jobs()
    [run_id] = await night.end(RunState.FAILED, job)
    await night.judge()
    [notice] = night.send()
    assert (rule.channels[0], 1, rule.rule_id) == (notice.channel_id, notice.events, notice.rule_id)
    assert [(NoticeEvent.FAILURE, run_id, job.name)] == [
        (line.event, line.run_id, line.subject_name) for line in notice.lines
    ]
    await night.end(RunState.FAILED, job)
    await night.judge()
    assert [] == night.send()
    await night.rig.clock.advance(PAUSES[0][1])
    await night.end(RunState.SUCCESS, job)
    await night.judge()
    [notice] = night.send()
    assert [NoticeEvent.RECOVERY] == [line.event for line in notice.lines]
    [alert] = await night.alerts()
    assert (AlertState.CLOSED, 2) == (alert.state, alert.events)


async def test_without_rules_a_scheduler_rests() -> None:
    """And heeds the first one within that time; from then on it looks often."""
    night = Night()
    assert IDLE_SECONDS == await night.alerting.step()
    await night.rule()
    assert LOOK_SECONDS == await night.alerting.step()


async def test_rules_are_read_when_they_changed() -> None:
    """And not at each look."""
    night = Night()
    rule = await night.rule()
    reads = Counter[str]()
    real = night.store.notification_rules.find

    async def find(query: Any) -> Any:
        reads["rules"] += 1
        return await real(query)

    night.store.notification_rules.find = find  # type: ignore[method-assign]  # to count
    for _ in range(3):
        await night.alerting.step()
    assert 1 == reads["rules"]
    await night.store.notification_rules.remove("default", rule.rule_id)
    await night.alerting.step()
    assert 2 == reads["rules"]


# ------------------------------------------------------------------------------------------- crashes and rivals


@pytest.mark.parametrize("lost", ["before", "after"])
async def test_a_scheduler_that_dies_at_a_fold_loses_and_doubles_nothing(lost: str) -> None:
    """Whether the store has it or not."""
    night = Night()
    await night.rule()
    jobs = await night.jobs(5)
    await night.end(RunState.FAILED, *jobs)
    flaky = night.rig.flaky
    (flaky.away if lost == "before" else flaky.answers_lost).add("alerts.fold")
    with pytest.raises(Unavailable):
        await night.alerting.step()
    flaky.away.clear()
    flaky.answers_lost.clear()
    night.alerting = Alerting(flaky, night.rig.clock)
    await night.judge()
    await night.judge()
    assert [1] * 5 == [alert.events for alert in await night.alerts()]
    assert [5] == [notice.events for notice in night.notices()]


async def test_two_schedulers_make_one_message() -> None:
    """Both have read the same page before either folds it."""
    night = Night()
    await night.rule()
    await night.end(RunState.FAILED, *await night.jobs(5))
    both = asyncio.Barrier(2)
    real = night.store.alerts.fold

    async def fold(fold: Any) -> bool:
        async with asyncio.timeout(60):
            await both.wait()
        return await real(fold)

    night.store.alerts.fold = fold  # type: ignore[method-assign]  # to meet there
    pauses = await asyncio.gather(night.alerting.step(), Alerting(night.rig.flaky, night.rig.clock).step())
    night.store.alerts.fold = real  # type: ignore[method-assign]  # as it was
    assert [RIVAL_SECONDS, LOOK_SECONDS] == sorted(pauses)
    await night.judge()
    assert [5] == [notice.events for notice in night.notices()]
    assert 5 == len(await night.alerts())


async def test_two_schedulers_repeat_an_alert_once() -> None:
    """Both saw that its time has come."""
    night = Night()
    await night.rule(repeat_seconds=600.0)
    await night.end(RunState.FAILED, *await night.jobs())
    await night.judge()
    night.send()
    await night.rig.clock.advance(601.0)
    due = await night.store.alerts.due(10)
    rival = Alerting(night.rig.flaky, night.rig.clock)
    await rival.refresh()
    await night.judge()
    await rival._judge_due("default", due)
    assert [1] == [notice.events for notice in night.send()]


async def test_a_decision_between_look_and_fold_counts() -> None:
    """The page is judged anew: nothing is told of an alert that a person has just snoozed."""
    night = Night()
    await night.rule()
    [job] = await night.jobs()
    await night.end(RunState.FAILED, job)
    await night.judge()
    night.send()
    await night.rig.clock.advance(1.0)
    await night.end(RunState.SUCCESS, job)
    [alert] = await night.alerts()
    real = night.store.alerts.fold

    async def fold(fold: Any) -> bool:
        night.store.alerts.fold = real  # type: ignore[method-assign]  # only this one time
        snooze = NewAlertDecision(AlertState.SNOOZED, "ada", until=night.rig.clock.now() + 600.0)
        assert await night.store.alerts.decide("default", alert.alert_id, snooze)
        return await real(fold)

    night.store.alerts.fold = fold  # type: ignore[method-assign]  # to come between
    assert RIVAL_SECONDS == await night.alerting.step()
    await night.judge()
    assert [] == night.send()
    assert [AlertState.CLOSED] == [each.state for each in await night.alerts()]


@pytest.mark.parametrize("seed", range(12))
async def test_the_outcome_does_not_depend_on_pages_and_schedulers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other in any pages, by two schedulers, some of which die: alerts and counts are the same."""

    async def played(pages: bool) -> list[tuple[str, str, int]]:
        draw, chance = random.Random(seed), random.Random(seed + 1000)
        night = Night()
        await night.rule("all", group_seconds=0.0)
        await night.rule("row", in_a_row=3, on=frozenset({NoticeEvent.FAILURE}))
        await night.rule("first", on=frozenset({NoticeEvent.FIRST_FAILURE, NoticeEvent.RECOVERY}))
        jobs = await night.jobs(3)
        others = [night.alerting, Alerting(night.rig.flaky, night.rig.clock)]
        for _ in range(40):
            await night.end(draw.choice([RunState.FAILED, RunState.FAILED, RunState.SUCCESS]), draw.choice(jobs))
            if not pages:
                await night.judge()
                continue
            monkeypatch.setattr(alerting, "PAGE", chance.randrange(1, 6))
            lost = chance.choice([None, None, "away", "answers_lost"])
            if lost is not None:
                getattr(night.rig.flaky, lost).add("alerts.fold")
            with contextlib.suppress(Unavailable):
                await chance.choice(others).step()
            night.rig.flaky.away.clear()
            night.rig.flaky.answers_lost.clear()
        await night.judge()
        names = {rule.rule_id: rule.name for rule in night.store.state.notification_rules.values()}
        opened = Counter[tuple[str, str]]()
        for alert in await night.alerts():
            opened[names[alert.rule_id or UUID(int=0)], alert.subject] += alert.events
        return sorted((name, str(jobs.index(job)), opened[name, str(job.job_id)]) for name, _ in opened for job in jobs)

    assert await played(pages=False) == await played(pages=True), f"seed {seed}"


# ------------------------------------------------------------------------------------------- storms


async def test_a_storm_is_a_message_at_once_and_one_with_its_count() -> None:
    """1,200 failures of 1,200 jobs that come for some seconds."""
    night = Night()
    await night.rule()
    sent = []
    for _ in range(3):
        await night.end(RunState.FAILED, *await night.jobs(400))
        await night.judge()
        sent += night.send()
    assert [(400, 400)] == [(notice.events, notice.subjects) for notice in sent]
    await night.rig.clock.advance(STORM_EBB_SECONDS)
    sent += night.send()
    assert [(400, 400), (800, 800)] == [(notice.events, notice.subjects) for notice in sent]
    assert 1_200 == len(await night.alerts())


async def test_a_small_storm_is_two_messages() -> None:
    """Some failures with each look, for some seconds: fewer than those of a page that is a storm."""
    night = Night()
    await night.rule()
    sent = []
    for _ in range(5):
        await night.end(RunState.FAILED, *await night.jobs(6))
        await night.judge()
        sent += night.send()
    await night.rig.clock.advance(PAUSES[1][1])
    sent += night.send()
    assert [6, 24] == [notice.events for notice in sent]


async def test_a_storm_that_does_not_end_is_told_now_and_then() -> None:
    """At once, within its longest time, and then as seldom as its rule says; each says how many jobs have failed since
    the one before, those that fail again among them."""
    night = Night()
    await night.rule(group_seconds=60.0)
    jobs = await night.jobs(10)
    begun, sent = night.rig.clock.now(), []
    for _ in range(160):
        await night.end(RunState.FAILED, *await night.jobs(10), *jobs)
        await night.judge()
        sent += [(night.rig.clock.now() - begun, notice) for notice in night.send()]
    assert [1.0, 32.0, 92.0, 152.0] == [at for at, _ in sent]
    assert [20, 31 * 20, 60 * 20, 60 * 20] == [notice.events for _, notice in sent]
    assert [20, 31 * 10 + 10, 60 * 10 + 10, 60 * 10 + 10] == [notice.subjects for _, notice in sent]


async def test_one_time_jobs_that_fail_together_are_one_alert() -> None:
    """2,000 of one name: the first few have alerts of their own, the others one. Rules of other events do not mind."""
    night = Night()
    rule = await night.rule(on=frozenset({NoticeEvent.FAILURE, NoticeEvent.DEAD_LETTER}))
    jobs = [*await night.jobs(2_000, schedule_type="FUTURE", name="resize")]
    await night.end(RunState.FAILED, *jobs[:5])
    await night.judge()
    await night.end(RunState.FAILED, *jobs[5:])
    await night.judge()
    alerts = await night.alerts()
    assert Counter({1: 5, 1_995: 1}) == Counter(alert.events for alert in alerts)
    assert {rule.rule_id} == {alert.rule_id for alert in alerts}
    await night.end(RunState.FAILED, *await night.jobs(1, schedule_type="FUTURE", name="resize"))
    await night.judge()
    assert Counter({1: 5, 1_996: 1}) == Counter(alert.events for alert in await night.alerts())
    await night.rig.clock.advance(FOLD_SECONDS)
    await night.end(RunState.FAILED, *await night.jobs(1, schedule_type="FUTURE", name="resize"))
    await night.judge()
    assert Counter({1: 6, 1_996: 1}) == Counter(alert.events for alert in await night.alerts())


async def test_a_rule_that_is_deleted_while_its_notice_waits_says_nothing() -> None:
    """What is pending of it is judged by the rules of now."""
    night = Night()
    rule = await night.rule()
    await night.end(RunState.FAILED, *await night.jobs(25))
    await night.judge()
    await night.end(RunState.FAILED, *await night.jobs(1))
    await night.store.notification_rules.remove("default", rule.rule_id)
    other = await night.rule("other")
    await night.judge()
    await night.rig.clock.advance(31.0)
    assert [other.rule_id] == [notice.rule_id for notice in night.send()]
    assert {NoticeState.DROPPED, NoticeState.WAITING} == {notice.state for notice in night.notices()}


async def test_a_step_judges_as_many_events_as_their_rules_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is for the next step, and the notices of the first one gather as those of a storm do."""
    monkeypatch.setattr(alerting, "SLICE", 15)
    night = Night()
    rules = [await night.rule(f"rule {number}") for number in range(4)]
    await night.end(RunState.FAILED, *await night.jobs(7))
    assert 0.0 == await night.alerting.step()
    assert 4 == len(night.store.state.notice_events)
    assert [3] * 4 == [each.events for each in night.send()]
    await night.judge()
    await night.rig.clock.advance(5.0)
    assert {rule.rule_id: 4 for rule in rules} == {each.rule_id: each.events for each in night.send()}
    assert 28 == len(await night.alerts())


async def test_other_tasks_have_a_turn_between_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rules each has."""
    night = Night()
    turns, slept = [], night.rig.clock.sleep
    fold = night.store.alerts.fold

    async def sleep(seconds: float) -> None:
        turns.append("turn")
        await slept(seconds)

    async def folded(one: Any) -> bool:
        turns.append(one.namespace)
        return await fold(one)

    monkeypatch.setattr(night.rig.clock, "sleep", sleep)
    monkeypatch.setattr(night.store.alerts, "fold", folded)
    events = []
    for namespace in ("default", INSTALLATION):
        await night.rule(namespace=namespace, on=frozenset({NoticeEvent.EXPIRING}))
        events.append(NotedEvent(namespace, NoticeEvent.EXPIRING, "once", "cert", "cert", "ends soon"))
    await night.store.alerts.note(events)
    await night.alerting.step()
    assert ["default", "turn", INSTALLATION, "turn"] == turns


async def test_rules_that_are_not_asked_are_named_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once a minute for each namespace."""
    monkeypatch.setattr(index, "MAX_ASKED", 2)
    night = Night()
    for number in range(3):
        await night.rule(f"rule {number}")
    with capture_logs() as logs:
        for _ in range(3):
            await night.end(RunState.FAILED, *await night.jobs())
            await night.judge()
        await night.rig.clock.advance(60.0)
        await night.end(RunState.FAILED, *await night.jobs())
        await night.judge()
    assert [("rules_left_out", "default")] * 2 == [(each["event"], each["namespace"]) for each in logs]
    assert 8 == len(await night.alerts())


async def test_a_rule_that_comes_while_a_scheduler_looks_is_asked() -> None:
    """An event that is noted is one of a rule that is there."""
    night = Night()
    real = night.store.alerts.events

    async def events(limit: int) -> Any:
        night.store.alerts.events = real  # type: ignore[method-assign]  # only this one time
        await night.rule()
        await night.end(RunState.FAILED, *await night.jobs())
        return await real(limit)

    night.store.alerts.events = events  # type: ignore[method-assign]  # to come between
    await night.alerting.step()
    assert [1] == [notice.events for notice in night.notices()]


async def test_a_later_rule_is_not_told_what_came_before_it() -> None:
    """What a rule that is gone has left is dropped."""
    night = Night()
    rule = await night.rule()
    await night.end(RunState.FAILED, *await night.jobs())
    await night.store.notification_rules.remove("default", rule.rule_id)
    assert IDLE_SECONDS == await night.alerting.step()
    await night.rule("later")
    await night.judge()
    assert [] == night.notices()


# ------------------------------------------------------------------------------------------- later


async def test_an_alert_that_nobody_looks_at_is_repeated_and_escalated() -> None:
    """Until somebody acknowledges it."""
    night = Night()
    pager = night.channel("pager")
    rule = await night.rule(repeat_seconds=600.0, escalation=Escalation(900.0, (pager,)))
    await night.end(RunState.FAILED, *await night.jobs())
    told = Counter[tuple[UUID, bool]]()
    for _ in range(40):
        await night.judge()
        told.update((notice.channel_id, notice.is_escalation) for notice in night.send())
        await night.rig.clock.advance(60.0)
    assert {(rule.channels[0], False): 4, (pager, True): 1} == told
    [alert] = await night.alerts()
    await night.store.alerts.decide("default", alert.alert_id, NewAlertDecision(AlertState.ACKNOWLEDGED, "ada"))
    for _ in range(20):
        await night.rig.clock.advance(600.0)
        await night.judge()
        assert [] == night.send()


async def test_what_comes_in_quiet_hours_is_told_at_their_end() -> None:
    """All of it in one message."""
    night = Night()
    now = night.rig.clock.now()
    minutes = int(now // 60 % 1440)
    await night.rule(quiet=QuietHours(minutes, (minutes + 60) % 1440, "UTC"))
    for _ in range(5):
        await night.end(RunState.FAILED, *await night.jobs())
        await night.judge()
        assert [] == night.send()
    await night.rig.clock.advance(3_600.0)
    assert [5] == [notice.events for notice in night.send()]


async def test_a_job_names_its_channels() -> None:
    """No rule is needed."""
    night = Night()
    ops = night.channel()
    await night.store.notification_rules.watch("default")
    [job] = await night.jobs(definition=json.dumps({"notify": ["ops"]}))
    await night.end(RunState.FAILED, job)
    await night.judge()
    [notice] = night.send()
    assert (ops, None) == (notice.channel_id, notice.rule_id)


# ------------------------------------------------------------------------------------------- delays


async def looked(night: Night, *, times: int = 2) -> list[tuple[NoticeEvent, str]]:
    """What is told after so many looks for delays: each event, and what it says."""
    looks = DelayLooks(night.alerting, night.rig.flaky)
    for _ in range(times):
        await looks.step()
        await night.judge()
    return [(line.event, line.sentence) for notice in night.send() for line in notice.lines]


async def test_a_late_run_is_told_once_by_each_rule() -> None:
    """After the time of each."""
    night = Night()
    await night.rule("soon", on=frozenset({NoticeEvent.LATE}), after=30.0)
    await night.rule("later", on=frozenset({NoticeEvent.LATE}), after=300.0)
    [job] = await night.jobs()
    await night.store.runs.add("default", job.job_id, [night.make.run(job.job_id, night.rig.clock.now())])
    assert [] == await looked(night)
    await night.rig.clock.advance(31.0)
    assert [(NoticeEvent.LATE, "a run has not begun 31 s after it was due")] == await looked(night)
    await night.rig.clock.advance(300.0)
    assert [(NoticeEvent.LATE, "a run has not begun 331 s after it was due")] == await looked(night)
    assert [] == await looked(night)


async def test_a_job_that_is_late_again_and_again_is_told_once() -> None:
    """Each run ends well, late; the alert counts them. The first that is on time closes it; then it opens anew."""
    night = Night()
    await night.rule("soon", on=frozenset({NoticeEvent.LATE, NoticeEvent.RECOVERY}), after=30.0)
    [job] = await night.jobs()
    holder = await night.store.executors.join(executor(lease_seconds=1e6))
    request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)

    async def run(*, late: bool) -> list[NoticeEvent]:
        made = night.make.run(job.job_id, night.rig.clock.now())
        await night.store.runs.add("default", job.job_id, [made])
        await night.rig.clock.advance(40.0 if late else 1.0)
        told = [event for event, _ in await looked(night)]
        [claim] = await night.store.attempts.claim(request)
        await night.store.attempts.finish(holder, [outcome(claim, RunState.SUCCESS)])
        await night.judge()
        return told + [line.event for notice in night.send() for line in notice.lines]

    assert [NoticeEvent.LATE] == await run(late=True)
    for _ in range(15):
        assert [] == await run(late=True)
    [alert] = await night.alerts()
    assert (16, AlertState.OPEN) == (alert.events, alert.state)
    assert alert.sentence.endswith("; that run ended well")
    assert [] == await run(late=False)
    assert [AlertState.CLOSED] == [each.state for each in await night.alerts()]
    assert [NoticeEvent.LATE] == await run(late=True)


async def test_a_long_run_is_told_once() -> None:
    """After the time of the rule, or of one that says nothing far beyond the history of its job."""
    night = Night()
    [job] = await night.jobs()
    for _ in range(5):
        await night.end(RunState.SUCCESS, job)
    await night.rule("fixed", on=frozenset({NoticeEvent.LONG}), after=20.0)
    await night.rule("usual", on=frozenset({NoticeEvent.LONG}))
    await night.store.runs.add("default", job.job_id, [night.make.run(job.job_id, night.rig.clock.now())])
    holder = await night.store.executors.join(executor(lease_seconds=1e6))
    request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=10, ahead_seconds=0.0)
    [claim] = await night.store.attempts.claim(request)
    await night.store.attempts.start(holder, [began(claim)])
    await night.rig.clock.advance(21.0)
    assert [(NoticeEvent.LONG, "a run is still running 21 s after its start")] == await looked(night)
    await night.rig.clock.advance(40.0)
    assert [(NoticeEvent.LONG, "a run is still running 61 s after its start")] == await looked(night)
    assert [] == await looked(night)


@pytest.mark.parametrize(
    ("seconds", "durations", "expected"),
    [
        (100.0, [1.0] * 5, True),
        (59.0, [1.0] * 5, False),
        (100.0, [1.0] * 4, False),
        (100.0, [], False),
        (200.0, [70.0] * 5, False),
        (211.0, [70.0] * 5, True),
        (211.0, [70.0] * 5 + [400.0], False),
    ],
)
def test_a_run_is_long_beside_its_history(seconds: float, durations: list[float], expected: bool) -> None:
    """Three times the median, and longer than each."""
    assert expected == is_long(seconds, durations)


async def test_a_timer_that_nobody_decides_is_told() -> None:
    """At once, also in quiet hours."""
    night = Night()
    await night.rule(on=frozenset({NoticeEvent.DID_NOT_RUN}), quiet=QuietHours(0, 0, "UTC"))
    await night.rig.cron("0 * * * *", night.rig.clock.now() + 10.0)
    await night.rig.clock.advance(60.0)
    assert [] == await looked(night)
    await night.rig.clock.advance(20.0)
    told = await looked(night)
    assert [(NoticeEvent.DID_NOT_RUN, "its time has passed, and no scheduler has made a run of it")] == told


async def test_overdue_timers_of_others_do_not_hide_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look goes on where the last one ended, soon; at the end it begins anew."""
    monkeypatch.setattr(alerting, "MAX_LOOKED", 2)
    night = Night()
    for number in range(5):
        await night.rig.cron("0 * * * *", night.rig.clock.now() + number)
    for record in night.store.state.timers():
        record.job.namespace = "elsewhere"
    await night.rule(on=frozenset({NoticeEvent.DID_NOT_RUN}))
    await night.rig.cron("0 * * * *", night.rig.clock.now() + 10.0)
    await night.rig.clock.advance(80.0)
    looks = DelayLooks(night.alerting, night.rig.flaky)
    pauses = [await looks.step() for _ in range(4)]
    assert [alerting.REST_SECONDS] * 3 + [alerting.DELAYS_SECONDS] == pauses
    assert 1 == len(night.store.state.notice_events)


async def test_late_runs_of_the_same_namespace_do_not_hide_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many were told before it and wait still: a look goes on where the last one ended, soon; at the end it
    begins anew."""
    monkeypatch.setattr(alerting, "MAX_LOOKED", 2)
    night = Night()
    await night.rule(on=frozenset({NoticeEvent.LATE}), after=30.0)
    [job] = await night.jobs()
    looks = DelayLooks(night.alerting, night.rig.flaky)

    async def late(*, runs: int) -> set[UUID]:
        made = [night.make.run(job.job_id, night.rig.clock.now()) for _ in range(runs)]
        await night.store.runs.add("default", job.job_id, made)
        await night.rig.clock.advance(40.0)
        return {run.run_id for run in made}

    async def told(*, looked: int) -> set[UUID]:
        before = set(night.store.state.notice_events)
        assert [alerting.REST_SECONDS] * (looked - 1) + [alerting.DELAYS_SECONDS] == [
            await looks.step() for _ in range(looked)
        ]
        events = [night.store.state.notice_events[each] for each in night.store.state.notice_events.keys() - before]
        return {each.run_id for each in events if each.run_id is not None}

    assert await late(runs=5) == await told(looked=3)
    assert await late(runs=1) == await told(looked=4)
    assert set() == await told(looked=4)


async def test_a_lost_executor_is_told_and_its_return() -> None:
    """By rules of the installation."""
    night = Night()
    rule = await night.rule(namespace=INSTALLATION, on=frozenset({NoticeEvent.EXECUTOR_LOST, NoticeEvent.RECOVERY}))
    assert INSTALLATION == rule.namespace
    await night.rule("of a namespace", on=frozenset({NoticeEvent.EXECUTOR_LOST}))
    await night.store.executors.join(executor("one", lease_seconds=10.0))
    await night.rig.clock.advance(60.0)
    await night.store.executors.expire(crashes_max=3)
    assert [NoticeEvent.EXECUTOR_LOST] == [event for event, _ in await looked(night)]
    await night.store.executors.join(executor("one", lease_seconds=10.0))
    await night.rig.clock.advance(PAUSES[0][1])
    assert [NoticeEvent.RECOVERY] == [event for event, _ in await looked(night)]
    assert [AlertState.CLOSED] == [each.state for each in await night.alerts(namespace=INSTALLATION)]


async def test_a_scheduler_does_all_of_it_in_its_round() -> None:
    """Beside its other duties."""
    night = Night()
    await night.rule()
    await night.end(RunState.FAILED, *await night.jobs())
    await drive(night.rig.clock, night.rig.scheduler().tick())
    assert [1] == [notice.events for notice in night.send()]
