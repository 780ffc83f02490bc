"""Events are noted with the end that they tell of, where a rule may ask for them, and are folded once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tickwise.domain.decision import SkipReason
from tickwise.domain.errors import Conflict
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.domain.notices.changes import AlertChange, AlertKey, NoticeChange, StandingAlert
from tickwise.domain.notices.judging import STORM_SECONDS
from tickwise.domain.notices.rules import (
    INSTALLATION,
    MAX_LINES,
    AlertState,
    NoticeEvent,
    NoticeLine,
    NoticeState,
    NotificationRule,
    Severity,
)
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import (
    ALERTS_KEPT_SECONDS,
    FROM_THE_FIRST,
    FROM_THE_FIRST_RUN,
    NOTED_SECONDS,
    NewAlertDecision,
    NotedEvent,
    Retention,
    SettledNotice,
    SlowRun,
    StandingAlertsQuery,
    Store,
)
from tickwise.testing.contracts.base import DAY_SECONDS
from tickwise.testing.contracts.store.notices.base import LONG_SECONDS, NoticesContract, entry
from tickwise.testing.contracts.store.people.removals import TEAM, open_namespace
from tickwise.testing.factories import Factory, outcome

RETENTION = Retention(runs_seconds=LONG_SECONDS, failed_seconds=LONG_SECONDS)


def noted(once: str = "late/1", **fields: Any) -> NotedEvent:
    """An event that is noted by its name."""
    given: dict[str, Any] = {
        "namespace": "default",
        "event": NoticeEvent.LATE,
        "subject": "job",
        "subject_name": "nightly",
        "sentence": "a run has not begun",
        **fields,
    }
    return NotedEvent(once=once, **given)


class NotedEventsContract(NoticesContract):
    """The ends that leave an event."""

    async def test_a_failure_leaves_an_event(self, store: Store, make: Factory) -> None:
        """With what a rule and a message need."""
        await self.rule(store, make)
        job = make.job(labels={"team": "payments"})
        claimed = await self.ended(store, make, job=job, error="exit status 1: " + "x" * 4_950 + "the cause")
        page = await store.alerts.events(10)
        [event] = page.events
        assert (event.namespace, event.event_id, event.token) == ("default", claimed.run_id, claimed.token)
        assert (event.job_id, event.state, event.attempt) == (job.job_id, RunState.FAILED, 1)
        assert (event.reason, event.event) == ("error", None)
        # How it ended stands at the begin, and the cause at the end.
        assert event.error == "exit status 1: " + "x" * 85 + "\n…\n" + "x" * 888 + "the cause"
        assert event.at > 0
        assert (page.jobs[job.job_id].name, page.jobs[job.job_id].labels) == (job.name, {"team": "payments"})
        assert not page.more

    async def test_a_namespace_without_rules_notes_nothing(self, store: Store, make: Factory) -> None:
        """Although another one has a rule."""
        await open_namespace(store)
        await self.rule(store, make, namespace=TEAM)
        await self.ended(store, make)
        assert await self.pending(store) == []

    async def test_a_success_leaves_an_event_where_it_may_be_a_recovery(self, store: Store, make: Factory) -> None:
        """Of a job with a pending event, or with an alert that a success closes. Else it leaves none."""
        rule = await self.rule(store, make)
        letter = await self.ended(store, make, RunState.SUCCESS)
        assert await self.pending(store) == []
        key = AlertKey("default", rule.rule_id, NoticeEvent.DEAD_LETTER, str(letter.job_id))
        assert await store.alerts.fold(self.fold(self.alert(rule, make, key=key)))
        await self.again(store, make, letter.job_id, RunState.SUCCESS)
        assert await self.pending(store) == []
        failed = await self.ended(store, make)
        await self.again(store, make, failed.job_id, RunState.SUCCESS)
        first, second = await self.pending(store)
        assert (first.state, second.state) == (RunState.FAILED, RunState.SUCCESS)
        change = self.alert(rule, make, str(failed.job_id))
        assert await store.alerts.fold(self.fold(change, judged=[first, second]))
        await self.ended(store, make, RunState.SUCCESS)
        assert await self.pending(store) == []
        await self.again(store, make, failed.job_id, RunState.SUCCESS)
        [third] = await self.pending(store)
        assert (third.job_id, third.state) == (failed.job_id, RunState.SUCCESS)
        [standing] = await store.alerts.standing("default", [str(failed.job_id)])
        closed = change._replace(seen=standing.version, close=True)
        assert await store.alerts.fold(self.fold(closed, judged=[third]))
        await self.again(store, make, failed.job_id, RunState.SUCCESS)
        assert await self.pending(store) == []

    async def test_a_success_leaves_an_event_where_a_rule_names_its_job(self, store: Store, make: Factory) -> None:
        """While the rule is enabled. Jobs that it does not name, and rules about other events, note none."""
        asked = make.job()
        success = frozenset({NoticeEvent.SUCCESS})
        rule = await self.rule(store, make, on=success, jobs=(asked.job_id, make.identifier()))
        failing = await self.ended(store, make)
        await self.rule(store, make, "failures", jobs=(failing.job_id,))
        assert await store.alerts.fold(self.fold(judged=await self.pending(store)))
        await self.ended(store, make, RunState.SUCCESS)
        await self.again(store, make, failing.job_id, RunState.SUCCESS)
        assert await self.pending(store) == []
        claimed = await self.ended(store, make, RunState.SUCCESS, asked)
        [event] = await self.pending(store)
        assert (event.event_id, event.token, event.job_id) == (claimed.run_id, claimed.token, asked.job_id)
        assert (event.state, event.reason, event.error) == (RunState.SUCCESS, None, None)
        assert await store.alerts.fold(self.fold(judged=[event]))
        off = await store.notification_rules.change(replace(rule, enabled=False))
        assert off is not None
        await self.again(store, make, asked.job_id, RunState.SUCCESS)
        assert await self.pending(store) == []
        await store.notification_rules.change(replace(off, enabled=True))
        await self.again(store, make, asked.job_id, RunState.SUCCESS)
        [event] = await self.pending(store)
        # Its rule goes: the success that waits is no reason to note the next one.
        await store.notification_rules.remove("default", rule.rule_id)
        await self.again(store, make, asked.job_id, RunState.SUCCESS)
        assert await self.pending(store) == [event]

    async def test_a_rule_of_another_namespace_notes_no_success(self, store: Store, make: Factory) -> None:
        """Although it names the job, by an id that its writer guessed."""
        await open_namespace(store)
        await self.rule(store, make)
        job = make.job()
        await self.rule(store, make, namespace=TEAM, on=frozenset({NoticeEvent.SUCCESS}), jobs=(job.job_id,))
        await self.ended(store, make, RunState.SUCCESS, job)
        assert await self.pending(store) == []

    async def test_a_skip_leaves_an_event_if_nobody_chose_it(self, store: Store, make: Factory) -> None:
        """A skip by a pause, a stop, a window, an overlap or a person is no surprise."""
        await self.rule(store, make)
        job = make.recurring(make.now)
        await self.add(store, job)
        skips = [
            make.skip(job.job_id, make.now - number - 1, reason=reason) for number, reason in enumerate(SkipReason)
        ]
        async with self.near(store, 2.0) as batch:
            await batch.commit([make.fire(job.job_id, make.now, None, runs=(), skips=skips)])
        reasons = {event.reason for event in await self.pending(store)}
        assert reasons == {SkipReason.MISFIRE, SkipReason.QUOTA, SkipReason.EXPIRED, SkipReason.FUSE}

    async def test_an_attempt_that_is_tried_again_leaves_an_event_for_rules_about_retries(
        self, store: Store, make: Factory
    ) -> None:
        """For others it leaves none."""
        await self.rule(store, make)
        later = make.now + DAY_SECONDS
        await self.ended(store, make, RunState.RETRYING, retry_at=later)
        assert await self.pending(store) == []
        await self.rule(store, make, "retries", on=frozenset({NoticeEvent.RETRIES}))
        job = make.job()
        claimed = await self.ended(store, make, RunState.RETRYING, job, retry_at=later)
        [event] = await self.pending(store)
        assert (event.event_id, event.token, event.job_id) == (claimed.run_id, claimed.token, job.job_id)
        assert (event.state, event.attempt, event.error) == (RunState.RETRYING, 1, "no disk")

    async def test_a_page_of_events_is_the_oldest(self, store: Store, make: Factory) -> None:
        """And says that there are more."""
        await self.rule(store, make)
        claims = [await self.ended(store, make, ended=make.now + 10.0 - number) for number in range(3)]
        page = await store.alerts.events(2)
        assert [event.event_id for event in page.events] == [claims[2].run_id, claims[1].run_id]
        assert page.more

    async def test_a_job_that_names_channels_is_watched(self, store: Store, make: Factory) -> None:
        """Without a rule; channels that are not there are left out."""
        ops = await self.channel(store)
        await store.notification_rules.watch("default")
        assert (await store.notification_rules.version()).is_watched
        job = make.job(definition='{"notify":["ops","gone"]}')
        await self.ended(store, make, job=job)
        page = await store.alerts.events(10)
        assert len(page.events) == 1
        assert list(page.jobs[job.job_id].notify) == [ops]
        rule = await self.rule(store, make)
        await store.notification_rules.remove("default", rule.rule_id)
        assert (await store.notification_rules.version()).is_watched

    async def test_an_event_is_noted_by_its_name_once(self, store: Store, other: Store, make: Factory) -> None:
        """By two schedulers at once too, where a namespace is watched; after its time it may come again."""
        await self.rule(store, make)
        run_id, job_id, rule_id = make.identifier(), make.identifier(), make.identifier()
        late = noted(job_id=job_id, run_id=run_id, rule_id=rule_id)
        counts = await asyncio.gather(
            store.alerts.note([late, late, noted("late/2")]), other.alerts.note([late, noted("late/2")])
        )
        assert sum(counts) == 2
        assert await store.alerts.note([noted(namespace=TEAM), late]) == 0
        first = next(event for event in await self.pending(store) if event.job_id is not None)
        assert (first.event, first.subject, first.subject_name) == (NoticeEvent.LATE, "job", "nightly")
        assert (first.run_id, first.job_id, first.rule_id) == (run_id, job_id, rule_id)
        assert (first.state, first.error) == (None, "a run has not begun")
        await self.shift(store, NOTED_SECONDS + DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert await store.alerts.note([late]) == 1

    async def test_events_of_the_installation_are_noted(self, store: Store, make: Factory) -> None:
        """Its rules are of no namespace."""
        assert await store.alerts.note([noted(namespace=INSTALLATION)]) == 0
        await self.rule(store, make, namespace=INSTALLATION, on=frozenset({NoticeEvent.EXECUTOR_LOST}))
        assert await store.alerts.note([noted(namespace=INSTALLATION)]) == 1
        assert [event.namespace for event in await self.pending(store)] == [INSTALLATION]

    async def test_the_newest_ends_of_a_job(self, store: Store, make: Factory) -> None:
        """Successes and failures, by their runs."""
        failed = await self.ended(store, make)
        states = (RunState.SUCCESS, RunState.CANCELLED, RunState.FAILED)
        ends = [failed, *[await self.again(store, make, failed.job_id, state) for state in states]]
        [found] = await store.alerts.ends([failed.job_id, make.identifier()], 10)
        assert [tuple(end) for end in found.ends] == [
            (ends[3].run_id, RunState.FAILED),
            (ends[1].run_id, RunState.SUCCESS),
            (ends[0].run_id, RunState.FAILED),
        ]
        [newest] = await store.alerts.ends([failed.job_id], 2)
        assert list(newest.ends) == list(found.ends)[:2]


class FoldsContract(NoticesContract):
    """`AlertStore.fold`."""

    async def test_a_fold_takes_its_events(self, store: Store, make: Factory) -> None:
        """With what came of them; done twice, it is refused and changes nothing."""
        rule = await self.rule(store, make)
        await self.ended(store, make)
        fold = self.fold(self.alert(rule, make), self.notice(rule, make), judged=await self.pending(store))
        assert await store.alerts.fold(fold)
        assert not await store.alerts.fold(fold)
        assert await self.pending(store) == []
        [alert] = await self.alerts(store)
        assert (alert.state, alert.events, alert.severity) == (AlertState.OPEN, 1, Severity.WARNING)
        assert (alert.subject, alert.subject_name, alert.sentence) == ("job", "name of job", "a run failed")
        [notice] = await self.notices(store)
        assert (notice.state, notice.events, notice.rule_name) == (NoticeState.WAITING, 1, "nights")
        assert [line.subject_name for line in notice.lines] == ["nightly"]
        assert notice.due == pytest.approx(make.now, abs=1e-3)

    async def test_two_schedulers_fold_one_event_once(self, store: Store, other: Store, make: Factory) -> None:
        """Each has judged the same page."""
        rule = await self.rule(store, make)
        for _ in range(5):
            await self.ended(store, make)
        events = await self.pending(store)
        # Without an alert, whose version would refuse the second one too.
        folds = [self.fold(self.notice(rule, make, events=5), judged=each) for each in (events, events[::-1])]
        applied = await asyncio.gather(store.alerts.fold(folds[0]), other.alerts.fold(folds[1]))
        assert sorted(applied) == [False, True]
        assert [each.events for each in await self.notices(store)] == [5]
        assert await self.pending(store) == []

    async def test_two_schedulers_open_one_alert(self, store: Store, other: Store, make: Factory) -> None:
        """Each of them by an event of its own: one is refused, and keeps its event."""
        rule = await self.rule(store, make)
        for _ in range(2):
            await self.ended(store, make)
        one, two = await self.pending(store)
        folds = [self.fold(self.alert(rule, make), self.notice(rule, make), judged=[each]) for each in (one, two)]
        applied = await asyncio.gather(store.alerts.fold(folds[0]), other.alerts.fold(folds[1]))
        assert sorted(applied) == [False, True]
        assert len(await self.pending(store)) == 1
        assert [each.events for each in await self.notices(store)] == [1]

    async def test_an_alert_changes_only_as_it_was_seen(self, store: Store, make: Factory) -> None:
        """A person's decision between the look and the fold counts."""
        rule = await self.rule(store, make)
        change = self.alert(rule, make)
        assert await store.alerts.fold(self.fold(change, self.notice(rule, make)))
        [seen] = await store.alerts.standing("default", ["job"])
        assert await store.alerts.decide("default", change.alert_id, NewAlertDecision(AlertState.ACKNOWLEDGED, "ada"))
        later = change._replace(seen=seen.version, events=2, last_at=make.now + 5.0, sentence="again")
        assert not await store.alerts.fold(self.fold(later, self.notice(rule, make)))
        [acknowledged] = await store.alerts.standing("default", ["job"])
        assert await store.alerts.fold(self.fold(later._replace(seen=acknowledged.version)))
        [alert] = await self.alerts(store)
        assert (alert.events, alert.state, alert.sentence) == (3, AlertState.ACKNOWLEDGED, "again")
        assert alert.last_at == pytest.approx(make.now + 5.0, abs=1e-3)
        assert alert.first_at == pytest.approx(make.now, abs=1e-3)
        assert [each.events for each in await self.notices(store)] == [1]

    async def test_an_alert_closes_and_another_opens(self, store: Store, make: Factory) -> None:
        """In one fold; one that opens and closes in it is on record."""
        rule = await self.rule(store, make)
        first = self.alert(rule, make)
        assert await store.alerts.fold(self.fold(first))
        [seen] = await store.alerts.standing("default", ["job"])
        fold = self.fold(
            first._replace(seen=seen.version, events=0, close=True),
            self.alert(rule, make, close=True, last_at=make.now + 1.0),
            self.alert(rule, make, last_at=make.now + 2.0),
        )
        assert await store.alerts.fold(fold)
        found = await self.alerts(store)
        assert [each.state for each in found] == [AlertState.OPEN, AlertState.CLOSED, AlertState.CLOSED]
        assert [each.closed_at is None for each in found] == [True, False, False]

    async def test_what_concerns_a_rule_or_a_channel_that_is_gone_is_left_out(
        self, store: Store, make: Factory
    ) -> None:
        """Its events go all the same."""
        gone, rule = await self.rule(store, make, "gone"), await self.rule(store, make)
        await self.ended(store, make)
        events = await self.pending(store)
        await store.notification_rules.remove("default", gone.rule_id)
        changes: list[AlertChange | NoticeChange] = [
            self.alert(gone, make), self.notice(gone, make), self.alert(rule, make), self.notice(rule, make),
            self.notice(rule, make, channel_id=make.identifier()),
        ]  # fmt: skip
        assert await store.alerts.fold(self.fold(*changes, judged=events))
        assert [each.rule_id for each in await self.alerts(store)] == [rule.rule_id]
        assert [each.channel_id for each in await self.notices(store)] == [rule.channels[0]]
        assert await self.pending(store) == []

    async def test_lines_join_the_notice_that_waits(self, store: Store, make: Factory) -> None:
        """The newest stay; it is due as early as before, and as bad as its worst."""
        rule = await self.rule(store, make)
        notice = self.notice(rule, make, due=make.now + 60.0)
        await store.alerts.fold(self.fold(notice))
        many = notice._replace(
            events=40, lines=[*notice.lines] * MAX_LINES, severity=Severity.CRITICAL, last_at=make.now + 9.0
        )
        await store.alerts.fold(self.fold(many._replace(notice_id=make.identifier(), due=make.now + 90.0)))
        [found] = await self.notices(store)
        assert (found.events, len(found.lines), found.severity) == (41, MAX_LINES, Severity.CRITICAL)
        assert found.due == pytest.approx(make.now + 60.0, abs=1e-3)
        assert found.last_at == pytest.approx(make.now + 9.0, abs=1e-3)

    async def test_a_notice_that_a_sender_has_collects_nothing(self, store: Store, make: Factory) -> None:
        """Later lines make another one; lines that only join are counted in none."""
        rule = await self.rule(store, make)
        await store.alerts.fold(self.fold(self.notice(rule, make)))
        await self.take_notices(store)
        await store.alerts.fold(self.fold(self.notice(rule, make, joins=True)))
        assert [each.events for each in await self.notices(store)] == [1]
        await store.alerts.fold(self.fold(self.notice(rule, make, events=2)))
        await store.alerts.fold(self.fold(self.notice(rule, make, events=3, joins=True)))
        assert [each.events for each in await self.notices(store)] == [1, 5]

    async def test_a_job_of_two_notices_that_become_one_is_counted_once(self, store: Store, make: Factory) -> None:
        """Those that failed again while their notice was under way, which is tried again then."""
        rule = await self.rule(store, make)
        await store.alerts.fold(self.fold(self.notice(rule, make, events=30, subjects=30)))
        [taken], _ = await store.notices.due("one", 9)
        begun = make.now + 10.0
        later = self.notice(
            rule, make, events=12, subjects=10, before=[make.now] * 4, first_at=begun, last_at=begun, lines=[]
        )
        await store.alerts.fold(self.fold(later))
        # One that is in both, one that is in the later one alone, and one that was told before both.
        before = (make.now + 1.0, begun, make.now - 900.0)
        joins = later._replace(notice_id=make.identifier(), events=5, subjects=5, before=before, joins=True)
        await store.alerts.fold(self.fold(joins))
        assert [each.subjects for each in await self.notices(store)] == [30, 14]
        await store.notices.settle("one", [SettledNotice(taken.notice_id, NoticeState.WAITING, "away", 1.0)])
        [whole] = await self.notices(store)
        assert (whole.events, whole.subjects) == (47, 30 + 14 - 5)

    async def test_a_storm_is_gathered_for_so_long(self, store: Store, make: Factory) -> None:
        """Each page of it puts its notice off, until the longest time has passed."""
        rule = await self.rule(store, make)
        made = await store.now()
        for seconds in (15.0, 18.0, 25.0, STORM_SECONDS + 40.0):
            await store.alerts.fold(
                self.fold(self.notice(rule, make, notice_id=make.identifier(), gathers=True, due=made + seconds))
            )
        [notice] = await self.notices(store)
        assert notice.events == 4
        assert made + STORM_SECONDS - 1.0 <= notice.due <= await store.now() + STORM_SECONDS

    async def test_the_first_message_of_a_storm_is_not_put_off(self, store: Store, make: Factory) -> None:
        """It is due when it is made; later pages join it, and each job is counted once."""
        rule = await self.rule(store, make)
        made = await store.now()
        first = self.notice(rule, make, gathers=True, due=made, subjects=1)
        await store.alerts.fold(self.fold(first))
        page = first._replace(
            notice_id=make.identifier(), due=made + 5.0, events=9, subjects=4, before=(first.first_at, made - 900.0)
        )
        await store.alerts.fold(self.fold(page))
        [notice] = await self.notices(store)
        assert notice.due == pytest.approx(made, abs=1e-3)
        assert (notice.events, notice.subjects) == (10, 4)

    async def test_escalations_are_notices_of_their_own(self, store: Store, make: Factory) -> None:
        """Also to the same channel."""
        rule = await self.rule(store, make)
        await store.alerts.fold(self.fold(self.notice(rule, make)))
        await store.alerts.fold(self.fold(self.notice(rule, make, is_escalation=True)))
        assert [each.is_escalation for each in await self.notices(store)] == [False, True]

    async def test_bursts_count_the_newest_notices(self, store: Store, make: Factory) -> None:
        """Of a rule and channel; an escalation is none of them."""
        rule = await self.rule(store, make)
        pair = (rule.rule_id, rule.channels[0])
        assert await store.alerts.bursts({pair: 300.0}) == {}
        for _ in range(3):
            await store.alerts.fold(self.fold(self.notice(rule, make)))
            await self.take_notices(store)
        await store.alerts.fold(self.fold(self.notice(rule, make, is_escalation=True)))
        await store.alerts.fold(self.fold(self.notice(rule, make, due=make.now + 5.0)))  # it collects
        [(found, burst)] = (await store.alerts.bursts({pair: 300.0, (None, rule.channels[0]): 300.0})).items()
        assert (found, burst.made, burst.storms) == (pair, 3, 0)
        [events] = {each.events for each in await self.notices(store) if not each.is_escalation}
        assert burst.events == 3 * events
        assert burst.newest_at == pytest.approx(make.now, abs=30.0)
        assert await store.alerts.bursts({pair: 0.0}) == {}
        await self.shift(store, 301.0)
        assert await store.alerts.bursts({pair: 300.0}) == {}
        assert (await store.alerts.bursts({pair: 900.0}))[pair].made == 3


class DecidedAlertsContract(NoticesContract):
    """`AlertStore.decide`, `due` and `find`."""

    async def opened(self, store: Store, make: Factory, **fields: Any) -> tuple[NotificationRule, UUID]:
        """A rule with an open alert."""
        rule = await self.rule(store, make)
        change = self.alert(rule, make, **fields)
        assert await store.alerts.fold(self.fold(change))
        return rule, change.alert_id

    async def test_decisions(self, store: Store, make: Factory) -> None:
        """Each with who, when and why."""
        _, alert_id = await self.opened(store, make)
        decide = store.alerts.decide
        found = await decide("default", alert_id, NewAlertDecision(AlertState.ACKNOWLEDGED, "ada", "disk ordered"))
        assert found is not None
        assert (found.state, found.acknowledged_by, found.note) == (AlertState.ACKNOWLEDGED, "ada", "disk ordered")
        assert found.acknowledged_at is not None
        until = await store.now() + 600.0
        found = await decide("default", alert_id, NewAlertDecision(AlertState.SNOOZED, "bob", until=until))
        assert found is not None
        assert (found.state, found.note) == (AlertState.SNOOZED, "disk ordered")
        assert found.snoozed_until == pytest.approx(until, abs=1e-3)
        found = await decide("default", alert_id, NewAlertDecision(AlertState.CLOSED, "bob"))
        assert found is not None
        assert (found.state, found.snoozed_until) == (AlertState.CLOSED, None)
        assert found.closed_at is not None
        again = await decide("default", alert_id, NewAlertDecision(AlertState.ACKNOWLEDGED, "ada"))
        assert again == found
        found = await decide("default", alert_id, NewAlertDecision(AlertState.OPEN, "ada"))
        assert found is not None
        assert (found.state, found.closed_at, found.acknowledged_by) == (AlertState.OPEN, None, None)

    async def test_a_decision_is_on_record(self, store: Store, make: Factory) -> None:
        """One about nothing is neither kept nor recorded."""
        _, alert_id = await self.opened(store, make)
        decision = NewAlertDecision(AlertState.CLOSED, "ada")
        for namespace, target in (("default", make.identifier()), (TEAM, alert_id)):
            assert await store.alerts.decide(namespace, target, decision, audit=entry(target)) is None
        assert await store.alerts.decide("default", alert_id, decision, audit=entry(alert_id))
        found = await store.audit.find(AuditQuery(namespace="default", limit=10))
        assert [each.target for each in found] == [str(alert_id)]

    async def test_a_decision_about_all_that_match(self, store: Store, make: Factory) -> None:
        """One entry names them. What is closed, is of others, or came after the look stays as it is."""
        rule, first = await self.opened(store, make, last_at=make.now)
        others = [self.alert(rule, make, f"job {number}", last_at=make.now + number) for number in range(1, 5)]
        assert await store.alerts.fold(self.fold(*others))
        closed, taken, seen, late = [each.alert_id for each in others]
        await store.alerts.decide("default", closed, NewAlertDecision(AlertState.CLOSED, "ada"))
        await store.alerts.decide("default", taken, NewAlertDecision(AlertState.ACKNOWLEDGED, "eve"))
        query = StandingAlertsQuery(namespace="default", rule_id=rule.rule_id, until=make.now + 3.5)
        assert [3, 2, 1, 0, 0, 0] == [
            len(await store.alerts.decide_all(each, None))
            for each in (
                query,
                replace(query, states=[AlertState.OPEN]),
                replace(query, subject="job 2"),
                replace(query, event=NoticeEvent.LATE),
                replace(query, rule_id=make.identifier()),
                replace(query, namespace=TEAM),
            )
        ]
        taking = NewAlertDecision(AlertState.ACKNOWLEDGED, "ada", "the disk")
        assert [] == await store.alerts.decide_all(replace(query, namespace=TEAM), taking, audit=entry(first))
        assert {first, seen} == set(await store.alerts.decide_all(query, taking, audit=entry(first)))
        found = {each.alert_id: each for each in await self.alerts(store)}
        assert [AlertState.ACKNOWLEDGED] * 3 == [found[each].state for each in (first, taken, seen)]
        assert ["ada", "eve", "ada"] == [found[each].acknowledged_by for each in (first, taken, seen)]
        assert ("the disk", None) == (found[first].note, found[taken].note)
        assert (AlertState.CLOSED, AlertState.OPEN) == (found[closed].state, found[late].state)
        [row] = await store.audit.find(AuditQuery(namespace="default", limit=10))
        assert {first, seen} == set(row.targets)
        closing = NewAlertDecision(AlertState.CLOSED, "ada")
        assert 4 == len(await store.alerts.decide_all(StandingAlertsQuery(namespace="default"), closing))
        assert all(each.closed_at is not None for each in await self.alerts(store))

    async def test_one_alert_of_a_kind_stands(self, store: Store, make: Factory) -> None:
        """A closed alert cannot be opened beside an open one."""
        rule, alert_id = await self.opened(store, make)
        await store.alerts.decide("default", alert_id, NewAlertDecision(AlertState.CLOSED, "ada"))
        assert await store.alerts.fold(self.fold(self.alert(rule, make)))
        with pytest.raises(Conflict) as refused:
            await store.alerts.decide("default", alert_id, NewAlertDecision(AlertState.OPEN, "ada"))
        assert refused.value.code == "alert_stands"

    async def test_an_alert_is_due_at_its_time(self, store: Store, make: Factory) -> None:
        """Unless a person has it in hand; a snoozed one at the end of its snooze."""
        due_at = await store.now() + 60.0
        _, alert_id = await self.opened(store, make, next_at=due_at, told_at=make.now)
        assert await store.alerts.due(10) == []
        await self.shift(store, 61.0)
        [due] = await store.alerts.due(10)
        assert isinstance(due, StandingAlert)
        assert (due.alert.alert_id, due.version, due.escalated_at) == (alert_id, 1, None)
        assert due.next_at == pytest.approx(due_at, abs=1e-3)
        assert due.told_at == pytest.approx(make.now, abs=1e-3)
        await store.alerts.decide("default", alert_id, NewAlertDecision(AlertState.ACKNOWLEDGED, "ada"))
        assert await store.alerts.due(10) == []
        until = await store.now() + 60.0
        await store.alerts.decide("default", alert_id, NewAlertDecision(AlertState.SNOOZED, "ada", until=until))
        assert await store.alerts.due(10) == []
        await self.shift(store, 61.0)
        [due] = await store.alerts.due(10)
        reopened = self.alert(
            NotificationRule(rule_id=make.identifier(), namespace="default", name="", on=frozenset(), channels=()),
            make,
            key=AlertKey("default", due.alert.rule_id, due.alert.event, due.alert.subject),
            alert_id=alert_id,
            seen=due.version,
            events=0,
            reopen=True,
            told_at=until + 61.0,
            escalated_at=until + 61.0,
        )
        assert await store.alerts.fold(self.fold(reopened))
        [standing] = await store.alerts.standing("default", ["job"])
        assert (standing.alert.state, standing.alert.snoozed_until) == (AlertState.OPEN, None)
        assert standing.told_at == pytest.approx(until + 61.0, abs=1e-3)
        assert standing.escalated_at == pytest.approx(until + 61.0, abs=1e-3)
        assert await store.alerts.due(10) == []

    async def test_an_alert_whose_notices_are_all_dead_was_told_to_nobody(self, store: Store, make: Factory) -> None:
        """Its next event is told. An alert counts as told once one channel has its message, or still tries to send it.
        A dead escalation changes nothing."""
        names = ("first", "second", "third")
        rule = await self.rule(store, make, channels=[await self.channel(store, name) for name in names])
        alert = self.alert(rule, make, told_at=make.now)
        line = NoticeLine(
            make.now, NoticeEvent.FAILURE, rule.severity, "job", "nightly", None, "a run failed", alert.alert_id
        )
        dead, late, escalation = (
            self.notice(rule, make, channel_id=channel, lines=[line], is_escalation=channel == rule.channels[2])
            for channel in rule.channels
        )
        assert await store.alerts.fold(self.fold(alert, dead, late, escalation))
        assert 3 == len((await store.notices.due("one", 9)).notices)
        [seen] = await store.alerts.standing(DEFAULT_NAMESPACE, {"job"})
        for each, is_told in ((escalation, True), (dead, True), (late, False)):
            await store.notices.settle("one", [SettledNotice(each.notice_id, NoticeState.DEAD, "no mail server")])
            [standing] = await store.alerts.standing(DEFAULT_NAMESPACE, {"job"})
            assert (is_told, is_told) == (standing.told_at is not None, standing.version == seen.version), each
        assert await store.alerts.fold(self.fold(alert._replace(seen=standing.version, told_at=make.now + 1.0)))
        [standing] = await store.alerts.standing(DEFAULT_NAMESPACE, {"job"})
        assert standing.told_at == pytest.approx(make.now + 1.0, abs=1e-3)

    async def test_a_changed_rule_makes_its_open_alerts_due(self, store: Store, make: Factory) -> None:
        """The time at which they are told again may have changed."""
        rule, alert_id = await self.opened(store, make)
        await store.notification_rules.change(rule)
        assert [each.alert.alert_id for each in await store.alerts.due(10)] == [alert_id]

    async def test_alerts_are_found_page_by_page(self, store: Store, make: Factory) -> None:
        """Those with the newest event first, by each condition."""
        rule, other = await self.rule(store, make), await self.rule(store, make, "other")
        changes = [
            self.alert(each, make, f"job {number}", last_at=make.now + number // 2)
            for number, each in enumerate([rule, rule, other, other, other])
        ]
        await store.alerts.fold(self.fold(*changes))
        await store.alerts.decide("default", changes[0].alert_id, NewAlertDecision(AlertState.CLOSED, "ada"))
        rows = await self.alerts(store)
        assert [row.last_at for row in rows] == sorted((row.last_at for row in rows), reverse=True)
        seen, before = [], None
        while page := await self.alerts(store, before=before, limit=2):
            seen += page
            before = (page[-1].last_at, page[-1].alert_id)
        assert seen == rows
        for fields, expected in (
            ({"states": [AlertState.CLOSED]}, 1),
            ({"states": [AlertState.OPEN, AlertState.SNOOZED]}, 4),
            ({"rule_id": rule.rule_id}, 2),
            ({"subject": "job 3"}, 1),
            ({"alert_id": changes[2].alert_id}, 1),
            ({"namespace": TEAM}, 0),
        ):  # fmt: skip
            assert len(await self.alerts(store, **fields)) == expected, fields

    async def test_closed_alerts_are_dropped_after_their_time(self, store: Store, make: Factory) -> None:
        """Those that stand are kept."""
        rule, alert_id = await self.opened(store, make)
        await store.alerts.fold(self.fold(self.alert(rule, make, "stands"), self.notice(rule, make)))
        await store.alerts.decide("default", alert_id, NewAlertDecision(AlertState.CLOSED, "ada"))
        await self.shift(store, ALERTS_KEPT_SECONDS - DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert len(await self.alerts(store)) == 2
        await self.shift(store, 2 * DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert [each.subject for each in await self.alerts(store)] == ["stands"]
        assert len(await self.notices(store)) == 1
        await store.notification_rules.remove("default", rule.rule_id)
        await self.shift(store, ALERTS_KEPT_SECONDS + DAY_SECONDS)
        await store.upkeep.maintain(RETENTION)
        assert await self.alerts(store) == []
        assert list(await self.notices(store)) == []


class DelaysContract(NoticesContract):
    """`DelayStore`."""

    async def slow(
        self, store: Store, seconds: float = 60.0, *, namespaces: Sequence[str] = ("default",)
    ) -> Sequence[SlowRun]:
        """The slow runs on the first page, which is the last one."""
        page = await store.delays.slow_runs(namespaces, seconds, 10)
        assert page.beyond is None
        return page.runs

    async def test_a_run_that_has_not_begun_is_slow(self, store: Store, make: Factory) -> None:
        """A run that an executor holds is late, too; one that a stop or a hold keeps back is not."""
        job = make.job(make.now - 100.0, labels={"team": "payments"})
        held, blocked = make.job(make.now - 90.0), make.job(make.now - 80.0)
        await self.add(store, job, held)
        executor = await self.register(store, lease_seconds=LONG_SECONDS)
        await self.add(store, blocked)
        await store.queues.hold(make.hold())
        assert await self.slow(store) == []
        await store.queues.resume("default", "default")
        found = await self.slow(store)
        assert [each.job_id for each in found] == [job.job_id, held.job_id, blocked.job_id]
        assert (found[0].labels, found[0].job_name, found[0].started_at) == ({"team": "payments"}, job.name, None)
        assert {each.namespace for each in found} == {"default"}
        assert found[0].due_at == pytest.approx(make.now - 100.0, abs=1e-3)
        claims = {each.job_id: each for each in await self.claim(store, executor)}
        await self.begin(store, executor, claims[job.job_id])
        found = await self.slow(store)
        assert [each.started_at is None for each in found] == [False, True, True]
        ended = [outcome(claims[each], RunState.SUCCESS) for each in (job.job_id, held.job_id)]
        await self.finish(store, executor, *ended)
        assert [each.job_id for each in await self.slow(store)] == [blocked.job_id]
        assert await self.slow(store, 10_000.0) == []
        assert await self.slow(store, namespaces=[TEAM]) == []
        assert [each.job_id for each in await self.slow(store, namespaces=[TEAM, "default"])] == [blocked.job_id]

    async def test_a_newer_late_run_is_found_behind_many_old_ones(self, store: Store, make: Factory) -> None:
        """Page by page: those of the same namespace and those of others hide none, and each is found once in a
        round."""
        old = [make.job(make.now - 500.0 + number) for number in range(5)]
        others = [make.job(make.now - 400.0 + number, namespace=TEAM) for number in range(5)]
        newest = make.job(make.now - 70.0)
        await self.add(store, *old)
        await self.add(store, *others)
        await self.add(store, newest, make.job(make.now - 10.0))
        found, places = list[UUID](), [FROM_THE_FIRST_RUN]
        for _ in range(10):
            page = await store.delays.slow_runs(["default"], 60.0, 3, after=places[-1])
            assert len(page.runs) <= 3
            found += [each.job_id for each in page.runs]
            if page.beyond is None:
                break
            places.append(page.beyond)
        assert found == [*(job.job_id for job in old), newest.job_id]
        assert places == sorted(set(places))

    async def test_a_run_that_is_tried_again_is_not_late(self, store: Store, make: Factory) -> None:
        """It has begun."""
        await self.ended(store, make, RunState.RETRYING, make.job(make.now - 100.0), retry_at=make.now + 5.0)
        assert await self.slow(store) == []

    async def test_the_durations_of_successes(self, store: Store, make: Factory) -> None:
        """The newest ones."""
        job = make.job()
        now = make.now
        claimed = await self.ended(store, make, RunState.SUCCESS, job, started=now, ended=now + 30.0)
        await self.again(store, make, job.job_id, RunState.FAILED)
        found = await store.delays.durations([claimed.job_id, make.identifier()], 5)
        assert {key: list(value) for key, value in found.items()} == {job.job_id: [pytest.approx(30.0, abs=1e-3)]}

    async def test_a_timer_whose_time_has_passed_is_overdue(self, store: Store, make: Factory) -> None:
        """In the namespaces that are asked about; one that is held back is not."""
        job = make.recurring(make.now + 100.0)
        await self.add(store, job)
        assert await store.delays.overdue_timers(["default"], 60.0, 10) == ([], None)
        await self.shift(store, 161.0)
        [timer], after = await store.delays.overdue_timers(["default"], 60.0, 10)
        assert after is None
        assert (timer.namespace, timer.job_id, timer.job_name) == ("default", job.job_id, job.name)
        assert timer.due_at == pytest.approx(make.now + 100.0, abs=1e-3)
        assert await store.delays.overdue_timers([TEAM], 60.0, 10) == ([], None)

    async def test_overdue_timers_of_others_hide_none(self, store: Store, make: Factory) -> None:
        """Page by page each is found once, also those that are due at one moment."""
        await open_namespace(store)
        mine = [make.recurring(make.now + 100.0) for _ in range(3)]
        jobs = [make.recurring(make.now + 10.0 + number, namespace=TEAM) for number in range(5)]
        await self.add(store, *jobs, *mine)
        await self.shift(store, 200.0)
        seen, after = [list[UUID]()], FROM_THE_FIRST
        while True:
            timers, beyond = await store.delays.overdue_timers(["default"], 60.0, 2, after=after)
            seen.append([each.job_id for each in timers])
            if beyond is None:
                break
            after = beyond
        assert [len(each) for each in seen[1:]] == [0, 0, 1, 2, 0]
        assert sorted(job_id for page in seen for job_id in page) == sorted(job.job_id for job in mine)

    async def test_an_executor_that_left_is_not_lost(self, store: Store) -> None:
        """One whose lease ended is, until there is one of its name."""
        left, lost = await self.register(store, "left"), await self.register(store, "lost")
        await store.executors.leave(left)
        await self.shift(store, 60.0)
        await store.executors.expire(crashes_max=3)
        [found] = await store.delays.lost_executors(600.0, 10)
        assert (found.number, found.name, found.is_back) == (lost, "lost", False)
        await self.register(store, "lost")
        [found] = await store.delays.lost_executors(600.0, 10)
        assert found.is_back
        await self.shift(store, 601.0)
        assert await store.delays.lost_executors(600.0, 10) == []
