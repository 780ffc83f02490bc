"""What rules make of events: which alerts open, count and close, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.unit.notices.situations import (
    FAILURE,
    JOB,
    NOW,
    OPS,
    PAGER,
    RECOVERY,
    RULE,
    SUBJECT,
    alert,
    change,
    ends,
    event,
    judged,
    judged_due,
    rule,
    standing,
    told,
)
from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import RunState
from tickwise.domain.notices.changes import Burst, NoticeJob
from tickwise.domain.notices.folding import WaitingNotice, joined
from tickwise.domain.notices.index import RuleIndex
from tickwise.domain.notices.judging import (
    FOLD_SECONDS,
    RETRIES_USUAL,
    STORM_EBB_SECONDS,
    STORM_EVENTS,
    STORM_SECONDS,
    UNCHOSEN,
    common_subject,
    ends_needed,
)
from tickwise.domain.notices.rules import (
    MAX_LINES,
    OF_NOTIFY,
    OPENS,
    AlertState,
    Escalation,
    FailuresOf,
    NoticeEvent,
    NotificationRule,
    QuietHours,
    Severity,
)

F, S = RunState.FAILED, RunState.SUCCESS
FIRST, DEAD, DID_NOT_RUN = NoticeEvent.FIRST_FAILURE, NoticeEvent.DEAD_LETTER, NoticeEvent.DID_NOT_RUN
SUCCESS = NoticeEvent.SUCCESS
DAY = QuietHours(0, 0, "UTC")


def test_a_recovery_looks_at_the_alerts_of_its_subject_alone() -> None:
    """However many others the page opens."""

    class Counting(str):
        __slots__ = ()
        comparisons = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counting.comparisons += 1
            return super().__eq__(other)

    subjects = [Counting(f"job {number}") for number in range(300)]
    failed = [
        event(number, None, event=FAILURE, subject=subject, job_id=None) for number, subject in enumerate(subjects)
    ]
    over = [
        event(1000 + number, None, event=RECOVERY, subject=subject, job_id=None)
        for number, subject in enumerate(subjects)
    ]
    fold = judged([*failed, *over], rule())
    assert [True] * 300 == [each.close for each in fold.alerts]
    assert Counting.comparisons < 20 * 300


def test_a_failure_opens_an_alert_and_is_told() -> None:
    """By the first line of its error."""
    fold = judged([event(7)], rule())
    opened = change(fold)
    assert (None, 1, False) == (opened.seen, opened.events, opened.close)
    assert ("nightly", "a run failed: no disk", UUID(int=7)) == (
        opened.subject_name, opened.sentence, opened.run_id,
    )  # fmt: skip
    [notice] = fold.notices
    assert [(opened.alert_id, "a run failed: no disk", "nightly")] == [
        (line.alert_id, line.sentence, line.subject_name) for line in notice.lines
    ]
    assert (NOW, False, False) == (notice.due, notice.joins, notice.gathers)
    assert [(UUID(int=7), 7)] == list(fold.judged)


def test_an_event_that_no_rule_concerns_is_judged() -> None:
    """And nothing comes of it."""
    fold = judged([event()], rule(NoticeEvent.LATE))
    assert ([], [], 1) == (list(fold.alerts), list(fold.notices), len(fold.judged))


def test_more_failures_are_counted_and_not_told_again() -> None:
    """In a notice that still waits they are counted too."""
    fold = judged([event(1), event(2)], rule(), stands=[standing(alert(), 5)])
    counted = change(fold)
    assert (5, 2, NOW - 998.0, False) == (counted.seen, counted.events, counted.last_at, counted.close)
    assert [True] == [each.joins for each in fold.notices]
    assert 2 == fold.notices[0].events


def test_a_failure_of_an_alert_that_nobody_was_told_of_is_told() -> None:
    """All of its notices are dead, as those of a webhook that was revoked. Once it is told, further ones are counted
    alone; one that a person has in hand is not told."""
    untold = standing(alert(), told_at=None)
    fold = judged([event(1), event(2)], rule(), stands=[untold])
    assert [(False, NOW)] == [(fold.alerts[0].seen is None, fold.alerts[0].told_at)]
    assert [[False, 2]] == [[each.joins, each.events] for each in fold.notices]
    acknowledged = standing(alert(AlertState.ACKNOWLEDGED), told_at=None)
    assert [] == judged([event()], rule(), stands=[acknowledged]).notices


def test_several_failures_of_a_page_are_one_line_of_thought() -> None:
    """One alert, one notice, all counted."""
    fold = judged([event(number) for number in (3, 1, 2)], rule())
    assert (3, UUID(int=3), NOW - 999.0) == (
        change(fold).events, change(fold).run_id, change(fold).first_at,
    )  # fmt: skip
    assert [(FAILURE, OPS, 3)] == told(fold)


# ------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([F, F, F], True),
        ([S, F, F], False),
        ([S, F, F, F], True),
        ([F, S, F], False),
        ([F, F], False),
        ([F, F, S, F], False),
    ],
)
def test_so_many_failures_in_a_row(states: list[RunState], expected: bool) -> None:
    """Up to the run that failed."""
    fold = judged([event(len(states))], rule(in_a_row=3), history=ends(*states))
    assert expected == bool(fold.alerts)


@pytest.mark.parametrize(
    ("states", "expected"),
    [([F, S, F], False), ([F, S, F, F], True), ([F, S, S, F, F], True), ([F, S, S, S, F, F], False), ([F], False)],
)
def test_so_many_failures_of_so_many(states: list[RunState], expected: bool) -> None:
    """Of the newest runs."""
    fold = judged([event(len(states))], rule(failures_of=FailuresOf(3, 5)), history=ends(*states))
    assert expected == bool(fold.alerts)


def test_later_ends_do_not_count_for_an_earlier_run() -> None:
    """They are judged by their own events."""
    history = ends(F, F, F)
    assert [] == judged([event(2)], rule(in_a_row=3), history=history).alerts
    assert 1 == change(judged([event(2), event(3)], rule(in_a_row=3), history=history)).events


def test_a_run_that_ended_too_long_ago_is_judged_by_the_newest() -> None:
    """In a storm so many ends came since that its own are not among them."""
    assert judged([event(1)], rule(in_a_row=3), history=ends(F, F, F, first=100)).alerts
    assert not judged([event(1)], rule(in_a_row=3), history=ends(F, S, F, first=100)).alerts


def test_a_success_within_so_many_failures_of_so_many_closes_nothing_yet() -> None:
    """Three of the newest five failed still."""
    windowed = rule(failures_of=FailuresOf(3, 5))
    stands = [standing(alert())]
    assert [] == judged([event(5, S)], windowed, stands=stands, history=ends(F, F, F, F, S)).alerts
    assert change(judged([event(5, S)], windowed, stands=stands, history=ends(F, F, S, S, S))).close


@pytest.mark.parametrize(("states", "expected"), [([S, F], True), ([F], True), ([F, F], False), ([F, S, F], True)])
def test_the_first_failure_after_a_success(states: list[RunState], expected: bool) -> None:
    """Or of all."""
    fold = judged([event(len(states))], rule(FIRST), history=ends(*states))
    assert expected == bool(fold.alerts)


def test_the_ends_that_a_page_needs() -> None:
    """Of jobs with such rules alone, and enough for each event of a job."""
    index = RuleIndex([rule(in_a_row=3)])
    jobs = ends_needed([event(1), event(2), event(3, RunState.SKIPPED)], index, {})
    assert ({JOB}, 5) == jobs
    assert (set(), 0) == ends_needed([event(1)], RuleIndex([rule()]), {})
    assert ({JOB}, 3) == ends_needed([event(1)], RuleIndex([rule(FIRST)]), {})


@pytest.mark.parametrize(
    ("attempts", "attempt", "expected"), [(None, RETRIES_USUAL, 1), (None, 2, 0), (5, 5, 1), (5, 4, 0)]
)
def test_many_retries(attempts: int | None, attempt: int, expected: int) -> None:
    """From an attempt on."""
    fold = judged([event(1, RunState.RETRYING, attempt=attempt)], rule(NoticeEvent.RETRIES, attempts=attempts))
    assert expected == len(fold.alerts)


@pytest.mark.parametrize("reason", [*SkipReason])
def test_a_skip_that_nobody_chose(reason: SkipReason) -> None:
    """A fuse is an event of its own."""
    both = rule(DID_NOT_RUN, NoticeEvent.FUSE)
    fold = judged([event(1, RunState.SKIPPED, reason=reason.value)], both)
    expected = {SkipReason.FUSE: [NoticeEvent.FUSE]}.get(reason, [DID_NOT_RUN] if reason in UNCHOSEN else [])
    assert expected == [each.key.event for each in fold.alerts]


@pytest.mark.parametrize("standing_as", [[], [FAILURE], [FAILURE, DEAD]])
def test_a_failed_run_that_is_a_dead_letter_is_one_alert(standing_as: list[NoticeEvent]) -> None:
    """That of the failure: one acknowledgement, and a success closes it."""
    asked = rule(FAILURE, FIRST, DEAD)
    stands = [standing(alert(event=name, alert_id=UUID(int=0xF0 + n))) for n, name in enumerate(standing_as)]
    fold = judged([event()], asked, history=ends(F), stands=stands)
    assert [(FAILURE, 1)] == [(each.key.event, each.events) for each in fold.alerts]
    assert [[FAILURE]] == [[line.event for line in each.lines] for each in fold.notices]
    acknowledged = standing(alert(state=AlertState.ACKNOWLEDGED))
    assert [] == judged([event()], asked, history=ends(F, F), stands=[acknowledged]).notices


def test_a_dead_letter_below_the_threshold_of_failures_is_told() -> None:
    """And by a rule for dead letters alone, whose alert no success closes."""
    fold = judged([event()], rule(FAILURE, DEAD, in_a_row=3), history=ends(F))
    assert [DEAD] == [each.key.event for each in fold.alerts]
    assert [DEAD] == [each.key.event for each in judged([event()], rule(DEAD)).alerts]


# ------------------------------------------------------------------------------------------- recoveries


def test_a_success_closes_the_alert_and_is_told() -> None:
    """Without what it said or why."""
    fold = judged([event(2, S)], rule(), stands=[standing(alert(), 3)])
    closed = change(fold)
    assert (3, True, 0, None) == (closed.seen, closed.close, closed.events, closed.next_at)
    assert [(RECOVERY, OPS, 1)] == told(fold)
    assert "a run succeeded, after 4 failures in 66 min" == fold.notices[0].lines[0].sentence


def test_a_recovery_is_told_by_rules_that_ask_for_it() -> None:
    """It closes the alerts of the others without a word."""
    fold = judged([event(2, S)], rule(FAILURE), stands=[standing(alert())])
    assert change(fold).close
    assert [] == told(fold)


def test_a_rule_of_recoveries_alone_is_told_once() -> None:
    """Of failures that other rules were about."""
    other = rule(RECOVERY, rule_id=UUID(int=0xE2), channels=(PAGER,))
    stands = [standing(alert()), standing(alert(event=FIRST, alert_id=UUID(int=0xF2)))]
    fold = judged([event(2, S)], rule(FAILURE, FIRST, RECOVERY), other, stands=stands)
    assert sorted([(RECOVERY, OPS, 1), (RECOVERY, PAGER, 1)]) == sorted(told(fold))
    assert [True, True] == [each.close for each in fold.alerts]
    assert [] == told(judged([event(2, S)], other))


def test_a_success_of_before_the_last_failure_closes_nothing() -> None:
    """Runs of a job may overlap."""
    fold = judged([event(2, S, at=NOW - 4500.0)], rule(), stands=[standing(alert())])
    assert [] == fold.alerts


def test_a_failure_and_a_success_of_one_page() -> None:
    """The alert opens and closes; a further failure opens another one."""
    fold = judged([event(1), event(2, S)], rule())
    assert (None, True, 1) == (change(fold).seen, change(fold).close, change(fold).events)
    assert [(RECOVERY, OPS, 2)] == told(fold)
    fold = judged([event(1), event(2, S), event(3)], rule())
    assert [True, False] == [each.close for each in fold.alerts]
    assert fold.alerts[0].alert_id != fold.alerts[1].alert_id


def test_a_success_says_nothing_of_a_dead_letter() -> None:
    """A person deals with it. What passes by itself is closed without a word."""
    stands = [
        standing(alert(event=name, alert_id=UUID(int=number)))
        for number, name in enumerate(
            (DEAD, NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.FUSE, NoticeEvent.OBJECTIVE)
        )
    ]
    fold = judged([event(2, S)], rule(*OPENS, RECOVERY), stands=stands)
    assert {NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.FUSE} == {each.key.event for each in fold.alerts}
    assert [] == told(fold)


def of_job(*on: NoticeEvent, **fields: Any) -> NotificationRule:
    """A rule that names `JOB`."""
    return rule(*on, jobs=(JOB,), **fields)


def test_a_success_is_told_each_time_and_opens_no_alert() -> None:
    """By rules that name its job; without what the task said."""
    fold = judged([event(1, S), event(2, S), event(3)], of_job(SUCCESS))
    assert [] == fold.alerts
    assert [(SUCCESS, OPS, 2)] == told(fold)
    [notice] = fold.notices
    assert [("a run succeeded", None, Severity.INFO)] * 2 == [
        (line.sentence, line.alert_id, line.severity) for line in notice.lines
    ]
    assert (Severity.INFO, NOW, [UUID(int=1), UUID(int=2)]) == (
        notice.severity, notice.due, [line.run_id for line in notice.lines],
    )  # fmt: skip
    others = of_job(SUCCESS)
    assert [] == told(judged([event(1, S)], replace(others, jobs=(UUID(int=99),))))


def test_a_success_that_is_a_recovery_is_told_once_by_each_rule() -> None:
    """As the recovery, by a rule that asks for both."""
    both = of_job(FAILURE, RECOVERY, SUCCESS)
    other = of_job(SUCCESS, rule_id=UUID(int=0xE2), channels=(PAGER,))
    fold = judged([event(2, S)], both, other, stands=[standing(alert())])
    assert sorted([(RECOVERY, OPS, 1), (SUCCESS, PAGER, 1)]) == sorted(told(fold))
    of_both = of_job(RECOVERY, SUCCESS, rule_id=UUID(int=0xE3), channels=(PAGER,))
    fold = judged([event(2, S)], of_job(FAILURE), of_both, stands=[standing(alert())])
    assert [(RECOVERY, PAGER, 1)] == told(fold)


def test_successes_are_gathered_and_wait_for_quiet_hours() -> None:
    """As all that a rule tells: the pause grows with what was told lately."""
    pause = Burst(made=30, newest_at=NOW - 1.0, events=30, storms=0)
    gathered = judged([event(1, S)], of_job(SUCCESS), bursts={(RULE, OPS): pause})
    assert NOW - 1.0 + 300.0 == gathered.notices[0].due
    quiet = QuietHours(0, 1439, "UTC")
    assert judged([event(1, S)], of_job(SUCCESS, quiet=quiet)).notices[0].due > NOW


OF_ONE_RUN = [NoticeEvent.LATE, NoticeEvent.LONG, NoticeEvent.RETRIES]


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_a_job_that_is_late_each_time_has_one_alert(name: NoticeEvent) -> None:
    """Its run ends well, the next one is late too: counted, and told no more. A newer run that is not closes it."""
    asks = rule(name, repeat_seconds=60.0)
    run = UUID(int=2)
    stands = standing(alert(event=name, run_id=run, sentence="a run has not begun 31 s after it was due"), 3)
    over = change(judged([event(2, S)], asks, stands=[stands]), name)
    assert (False, 0, None) == (over.close, over.events, over.next_at)
    assert "a run has not begun 31 s after it was due; that run ended well" == over.sentence
    older = change(judged([event(1, S)], asks, stands=[stands]), name)
    assert not older.close
    resting = standing(replace(stands.alert, sentence=over.sentence), 4)
    late = event(3, None, event_id=UUID(int=0x99), event=name, run_id=UUID(int=3), error="late again")
    if name is NoticeEvent.RETRIES:
        late = event(3, RunState.RETRYING, attempt=RETRIES_USUAL)
    again = judged([late], asks, stands=[resting])
    counted = change(again, name)
    assert (False, 1, UUID(int=3), []) == (counted.close, counted.events, counted.run_id, told(again))
    assert counted.next_at is not None
    assert change(judged([event(3, S)], asks, stands=[resting]), name).close


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_the_end_of_a_job_that_runs_once_closes_its_alert(name: NoticeEvent) -> None:
    """There is no newer run that could."""
    once = {JOB: NoticeJob("default", JOB, "once", {}, (), is_once=True)}
    stands = [standing(alert(event=name, run_id=UUID(int=2)))]
    assert change(judged([event(2, S)], rule(name), stands=stands, jobs=once), name).close


def test_a_recovery_that_was_noted_closes_all_of_its_subject() -> None:
    """Those of one rule alone if it names one."""
    stands = [standing(alert(event=NoticeEvent.OBJECTIVE, subject="latency", subject_name="latency"))]
    over = event(9, None, job_id=None, event=RECOVERY, subject="latency", error="the budget is back")
    asks = rule(NoticeEvent.OBJECTIVE, RECOVERY)
    fold = judged([over], asks, stands=stands)
    assert [True] == [each.close for each in fold.alerts]
    assert ["the budget is back"] == [line.sentence for line in fold.notices[0].lines]
    assert [] == judged([over._replace(rule_id=UUID(int=0xE9))], asks, stands=stands).alerts


# ------------------------------------------------------------------------------------------- people's decisions


def test_an_acknowledged_alert_is_silent_until_it_recovers() -> None:
    """Further failures are counted and told nowhere; the recovery is told."""
    stands = [standing(alert(AlertState.ACKNOWLEDGED))]
    fold = judged([event(1)], rule(repeat_seconds=60.0), stands=stands)
    assert (1, None) == (change(fold).events, change(fold).next_at)
    assert [] == fold.notices
    assert [(RECOVERY, OPS, 1)] == told(judged([event(2, S)], rule(), stands=stands))


def test_an_acknowledged_alert_that_fails_again_is_looked_at_no_more() -> None:
    """Its rule repeats and escalates, but a person has it in hand."""
    again = rule(repeat_seconds=60.0, escalation=Escalation(60.0, (PAGER,)))
    fold = judged([event()], again, stands=[standing(alert(AlertState.ACKNOWLEDGED))])
    assert change(fold).next_at is None
    assert change(judged([event()], again, stands=[standing(alert())])).next_at is not None


def test_a_snoozed_alert_is_silent() -> None:
    """Its recovery too, which closes it."""
    stands = [standing(alert(AlertState.SNOOZED, snoozed_until=NOW + 60.0))]
    fold = judged([event(1)], rule(), stands=stands)
    assert (1, False, NOW + 60.0) == (change(fold).events, change(fold).reopen, change(fold).next_at)
    assert [] == fold.notices
    fold = judged([event(2, S)], rule(), stands=stands)
    assert change(fold).close
    assert [] == fold.notices


def test_a_failure_after_a_snooze_is_told() -> None:
    """The alert is open again."""
    fold = judged([event(1), event(2)], rule(), stands=[standing(alert(AlertState.SNOOZED, snoozed_until=NOW))])
    assert (True, NOW) == (change(fold).reopen, change(fold).told_at)
    assert [(FAILURE, OPS, 2)] == told(fold)


@pytest.mark.parametrize(("last_at", "expected"), [(NOW - 10.0, [(FAILURE, OPS, 1)]), (NOW - 5000.0, [])])
def test_the_end_of_a_snooze_tells_what_came_in_it(last_at: float, expected: list[object]) -> None:
    """If something came."""
    due = standing(alert(AlertState.SNOOZED, snoozed_until=NOW - 1.0, last_at=last_at), next_at=NOW - 1.0)
    fold = judged_due(due, rules=[rule()])
    assert change(fold).reopen
    assert expected == told(fold)


def test_an_alert_is_repeated() -> None:
    """And its next time is set by the rule of now."""
    due = standing(alert(), told_at=NOW - 600.0, next_at=NOW)
    fold = judged_due(due, rules=[rule(repeat_seconds=600.0)])
    assert (NOW, NOW + 600.0, 0, 1) == (
        change(fold).told_at, change(fold).next_at, change(fold).events, change(fold).seen,
    )  # fmt: skip
    [line] = fold.notices[0].lines
    since = "2027-01-15 06:36:40 UTC"
    assert (f"still open since {since}, 4 events: a run failed: no disk", True) == (line.sentence, line.is_repeat)
    fold = judged_due(due, rules=[rule(repeat_seconds=900.0)])
    assert (None, NOW + 300.0) == (change(fold).told_at, change(fold).next_at)
    assert [] == fold.notices
    assert change(judged_due(due, rules=[rule()])).next_at is None


def test_an_alert_that_nobody_acknowledged_is_escalated_once() -> None:
    """To other channels."""
    escalating = rule(escalation=Escalation(900.0, (PAGER,)))
    opened = change(judged([event(1)], escalating))
    assert NOW - 999.0 + 900.0 == opened.next_at
    fold = judged_due(standing(alert(), next_at=NOW), rules=[escalating])
    assert (NOW, None) == (change(fold).escalated_at, change(fold).next_at)
    assert [(PAGER, True)] == [(each.channel_id, each.is_escalation) for each in fold.notices]
    fold = judged_due(standing(alert(), escalated_at=NOW - 100.0, next_at=NOW), rules=[escalating])
    assert [] == fold.notices


def test_an_alert_of_a_rule_that_is_gone_is_due_no_more() -> None:
    """Nothing is told of it."""
    fold = judged_due(standing(alert(), next_at=NOW), rules=[])
    assert change(fold).next_at is None
    assert [] == fold.notices


# ------------------------------------------------------------------------------------------- when it is told


def test_later_notices_of_a_burst_are_further_apart() -> None:
    """The first goes at once; after many events, in the time that the rule says. A pause counts from the last."""
    pair = (RULE, OPS)
    gathers = rule(group_seconds=120.0)
    for burst, due in (
        (None, NOW),
        (Burst(1, NOW - 0.4, 1, 0), NOW + 0.6),
        (Burst(4, NOW - 2.0, 4, 0), NOW),
        (Burst(1, NOW - 2.0, 5, 0), NOW + 3.0),
        (Burst(5, NOW - 6.0, 9, 0), NOW),
        (Burst(2, NOW - 10.0, 10, 0), NOW + 50.0),
        (Burst(2, NOW - 61.0, 19, 0), NOW),
        (Burst(3, NOW - 10.0, 20, 1), NOW + 110.0),
    ):
        fold = judged([event()], gathers, bursts={} if burst is None else {pair: burst})
        assert [due] == [each.due for each in fold.notices], burst


def test_the_first_message_of_a_storm_goes_at_once() -> None:
    """Twenty events of a page for one rule and channel, or fewer of a page that is not the last. The second waits until
    the storm ebbs, later ones for the time that the rule says."""
    storm = [event(number, job_id=UUID(int=0xB00 + number)) for number in range(1, 20)]
    pair = (RULE, OPS)
    assert [(NOW, False)] == [(each.due, each.gathers) for each in judged(storm, rule()).notices]
    for events, more in (([*storm, event(20)], False), (storm[:2], True)):
        for burst, due in (
            (None, NOW),
            (Burst(9, NOW - 6.0, 19, 0), NOW),
            (Burst(1, NOW - 1.0, 3, 0), NOW + STORM_EBB_SECONDS),
            (Burst(1, NOW - 9.0, 20, 1), NOW + STORM_EBB_SECONDS),
            (Burst(2, NOW - 9.0, 40, 2), NOW + 291.0),
        ):
            [notice] = judged(
                events, rule(), more=more, bursts={} if burst is None else {pair: burst}
            ).notices  # fmt: skip
            assert (due, True, len(events)) == (notice.due, notice.gathers, notice.events)
            assert min(len(events), MAX_LINES) == len(notice.lines)
    assert [False] == [each.gathers for each in judged(storm[:1], rule(), more=True).notices]


def test_a_notice_counts_the_jobs_of_its_events() -> None:
    """Each once, however many events it has, and also beyond the lines that are kept."""
    many = [event(number, job_id=UUID(int=0xB00 + number // 2)) for number in range(2, 102)]
    [notice] = judged(many, rule()).notices
    assert (100, 50, []) == (notice.events, notice.subjects, list(notice.before))
    [joins] = judged([event(5)], rule(), stands=[standing(alert(last_at=NOW - 40.0))]).notices
    assert (1, [NOW - 40.0]) == (joins.subjects, list(joins.before))


def test_a_waiting_notice_counts_a_job_once() -> None:
    """One whose newest event is in it already is counted; one that was told before it was made is not."""
    [first] = judged([event(1), event(2, job_id=UUID(int=0xB2))], rule()).notices
    waits = WaitingNotice(
        first.severity, first.events, first.first_at, first.last_at, NOW, NOW, first.lines, subjects=first.subjects
    )  # fmt: skip
    later = first._replace(events=5, subjects=3, before=(first.first_at, first.first_at - 1.0))
    assert 4 == joined(waits, later).subjects
    assert 0 == joined(waits._replace(subjects=0), later).subjects


def test_a_page_of_a_storm_does_not_put_off_its_first_message() -> None:
    """But its follow-up; one that waits for longer is as early as before."""
    [first] = judged([event()], rule()).notices
    page = first._replace(gathers=True, due=NOW + 8.0)
    waits = WaitingNotice(first.severity, 1, first.first_at, first.last_at, NOW, NOW, first.lines)
    for due, expected in (
        (NOW, NOW),
        (NOW + STORM_EBB_SECONDS, NOW + 8.0),
        (NOW + STORM_SECONDS + 1.0, NOW + 8.0),
    ):
        assert expected == joined(waits._replace(due=due), page).due
    assert NOW + STORM_SECONDS == joined(waits._replace(due=NOW + 5.0), page._replace(due=NOW + 99.0)).due


# ------------------------------------------------------------------------------------------- one-time jobs


def once(number: int, name: str = "resize") -> NoticeJob:
    """A one-time job."""
    return NoticeJob("default", UUID(int=0xD00 + number), name, {}, is_once=True)


def test_one_time_jobs_of_one_name_that_fail_together_are_one_alert() -> None:
    """Of the hour; one line for each job. Fewer are an alert each, as jobs of other kinds and names are."""
    jobs = [once(number) for number in range(STORM_EVENTS)]
    known = {each.job_id: each for each in jobs}
    events = [event(number + 1, job_id=each.job_id) for number, each in enumerate(jobs)]
    fold = judged(events, rule(), jobs=known)
    common = common_subject(events[0], jobs[0])
    [one] = fold.alerts
    assert (common, "resize", 20) == (one.key.subject, one.subject_name, one.events)
    [notice] = fold.notices
    assert (20, 20, {one.alert_id}) == (
        notice.events, notice.subjects, {line.alert_id for line in notice.lines},
    )  # fmt: skip
    assert [str(each.job_id) for each in jobs] == [line.subject for line in notice.lines]
    assert 19 == len(judged(events[:19], rule(), jobs=known).alerts)
    named = {each.job_id: each._replace(name=f"resize {each.job_id}") for each in jobs}
    assert 20 == len(judged(events, rule(), jobs=named).alerts)
    assert 20 == len(
        judged(events, rule(), jobs={key: each._replace(is_once=False) for key, each in known.items()}).alerts
    )


def test_a_later_one_time_job_counts_in_the_alert_of_its_name() -> None:
    """While it stands, and unless the job has an alert of its own."""
    job = once(1)
    failed = event(1, job_id=job.job_id)
    common = standing(alert(subject=common_subject(failed, job) or "", subject_name="resize"))
    fold = judged([failed], rule(), jobs={job.job_id: job}, stands=[common])
    assert [(common.alert.alert_id, 1)] == [(each.alert_id, each.events) for each in fold.alerts]
    assert [False] == [each.joins for each in fold.notices]
    own = standing(alert(alert_id=UUID(int=0xF2), subject=str(job.job_id)))
    fold = judged([failed], rule(), jobs={job.job_id: job}, stands=[common, own])
    assert [UUID(int=0xF2)] == [each.alert_id for each in fold.alerts]


@pytest.mark.parametrize(
    ("told_after", "passed", "expected"),
    [
        (0.0, 10.0, 30.0), (30.0, 31.0, 120.0), (120.0, 400.0, 480.0), (480.0, 3_000.0, 3_000.0),
        (1_920.0, 1_921.0, 1_920.0 + FOLD_SECONDS),
    ],
)  # fmt: skip
def test_a_storm_of_one_time_jobs_that_goes_on_is_told_again_at_growing_distances(
    told_after: float, passed: float, expected: float
) -> None:
    """Its next message counts what came since the last one. Times are seconds since the storm began: of the last
    message, of this page, and of the next message. So a storm of hours is told at 0 s, 30 s, 2 min, 8 min, 32 min, and
    then each hour."""
    job = once(1)
    begun = NOW - 3_600.0
    failed = event(1, job_id=job.job_id, at=begun + passed)
    common = standing(
        alert(subject=common_subject(failed, job) or "", first_at=begun, last_at=begun), told_at=begun + told_after
    )
    fold = judged([failed], rule(), jobs={job.job_id: job}, stands=[common], now=begun + passed)
    [notice], [changed] = fold.notices, fold.alerts
    assert (begun + expected, False, 1) == (notice.due, notice.joins, notice.events)
    assert begun + expected == changed.told_at


def test_further_failures_of_a_storm_join_the_message_that_waits() -> None:
    """Also if that went sooner with others: what comes until its time is told at that time, too."""
    job = once(1)
    failed = event(1, job_id=job.job_id)
    planned = standing(alert(subject=common_subject(failed, job) or "", first_at=NOW - 60.0), told_at=NOW + 120.0)
    fold = judged([failed], rule(), jobs={job.job_id: job}, stands=[planned])
    assert [(NOW + 120.0, False, None)] == [(each.due, each.joins, fold.alerts[0].told_at) for each in fold.notices]


def test_a_storm_that_has_its_second_hour_is_told_once_in_it() -> None:
    """When it begins. Other failures of the page are told at once, and take those of the storm with them."""
    job, other = once(1), once(2, "scale")
    failed = event(1, job_id=job.job_id)
    subject = common_subject(failed, job) or ""
    begin, _, hour = subject.rpartition("/")
    opened = standing(alert(subject=subject, first_at=NOW - 60.0, last_at=NOW - 60.0))
    before = standing(alert(alert_id=UUID(int=0xF3), subject=f"{begin}/{int(hour) - 1}"))
    known = {job.job_id: job, other.job_id: other}
    [notice] = judged([failed], rule(), jobs=known, stands=[opened, before]).notices
    assert NOW - 60.0 + FOLD_SECONDS == notice.due
    [notice] = judged(
        [failed, event(2, job_id=other.job_id)], rule(), jobs=known, stands=[opened, before]
    ).notices  # fmt: skip
    assert (NOW, 2) == (notice.due, notice.events)
    hand = standing(alert(AlertState.ACKNOWLEDGED, subject=subject, acknowledged_by="ada"))
    assert [] == judged([failed], rule(), jobs=known, stands=[hand]).notices


# ------------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("said", "states", "sentence"),
    [
        ({"in_a_row": 3}, [S, F, F, F], "3 runs in a row failed: no disk"),
        ({"in_a_row": 3}, [S, F, F, F, F], "4 runs in a row failed: no disk"),
        ({"failures_of": FailuresOf(2, 3)}, [F, S, F], "2 of the last 3 runs failed: no disk"),
        ({"in_a_row": 4, "failures_of": FailuresOf(2, 3)}, [S, F, F], "2 of the last 3 runs failed: no disk"),
        ({}, [F, F, F], "a run failed: no disk"),
    ],
)
def test_a_failure_says_which_threshold_was_passed(said: dict[str, Any], states: list[RunState], sentence: str) -> None:
    """In the alert and in the message."""
    fold = judged([event(len(states))], rule(**said), history=ends(*states))
    assert (sentence, sentence) == (change(fold).sentence, fold.notices[0].lines[0].sentence)


def test_what_ends_soon_is_told_each_time() -> None:
    """Less time is left; unless a person has it in hand."""
    expiring = event(1, None, job_id=None, event=NoticeEvent.EXPIRING, subject="key/1", error="it ends in 7 days")
    asks = rule(NoticeEvent.EXPIRING)
    stands = alert(event=NoticeEvent.EXPIRING, subject="key/1")
    [notice] = judged([expiring], asks, stands=[standing(stands)]).notices
    assert (1, False) == (notice.events, notice.joins)
    taken = standing(replace(stands, state=AlertState.ACKNOWLEDGED))
    assert [] == judged([expiring], asks, stands=[taken]).notices


@pytest.mark.parametrize(
    ("severity", "state", "waits"),
    [
        (Severity.INFO, F, True),
        (Severity.WARNING, F, True),
        (Severity.CRITICAL, F, False),
        (Severity.WARNING, RunState.SKIPPED, False),
    ],
)
def test_quiet_hours(severity: Severity, state: RunState, waits: bool) -> None:
    """What is critical, and what did not run, wait for none."""
    quiet = rule(FAILURE, DID_NOT_RUN, severity=severity, quiet=DAY)
    [notice] = judged([event(state=state, reason="misfire")], quiet).notices
    midnight = (NOW // 86_400 + 1) * 86_400
    assert (midnight if waits else NOW) == notice.due


def test_quiet_hours_of_a_zone_that_is_not_known_here_keep_nothing_back() -> None:
    """It is told rather than not."""
    [notice] = judged([event()], rule(quiet=QuietHours(0, 0, "Mars/Olympus"))).notices
    assert NOW == notice.due


# ------------------------------------------------------------------------------------------- which rules


def test_a_job_names_channels_itself() -> None:
    """It is told of its failures there, by no rule."""
    fold = judged([event()], rule(), notify=[PAGER])
    assert sorted([(RULE, OPS), (None, PAGER)], key=str) == sorted(
        [(each.rule_id, each.channel_id) for each in fold.notices], key=str
    )
    assert NoticeEvent.LATE not in OF_NOTIFY
    stands = [standing(alert(rule_id=None))]
    assert [(RECOVERY, PAGER, 1)] == told(judged([event(2, S)], stands=stands, notify=[PAGER]))


def test_an_event_for_one_rule_asks_no_other() -> None:
    """Such as that a run is late by that rule."""
    rules = [rule(NoticeEvent.LATE), rule(NoticeEvent.LATE, rule_id=UUID(int=0xE2), channels=(PAGER,))]
    late = event(1, None, event=NoticeEvent.LATE, rule_id=RULE, error="a run has not begun", subject=SUBJECT)
    assert [(NoticeEvent.LATE, OPS, 1)] == told(judged([late], *rules))
    assert [] == told(judged([late._replace(rule_id=UUID(int=0xE9))], *rules))
    assert [] == told(judged([late], rule(FAILURE)))


def test_a_job_that_was_removed_or_moved_is_told_by_its_id() -> None:
    """Its name and labels are those of another namespace by now."""
    other = UUID(int=0xD)
    fold = judged([event(job_id=other)], rule(), rule(rule_id=UUID(int=0xE2), labels={"team": "pay"}))
    assert [str(other)] == [each.subject_name for each in fold.alerts]
    assert [RULE] == [each.key.rule_id for each in fold.alerts]


def test_a_renamed_job_is_told_by_its_new_name() -> None:
    """The alert is the same one."""
    fold = judged([event()], rule(), stands=[standing(alert(subject_name="old name"))])
    assert "nightly" == change(fold).subject_name


def test_a_rule_of_labels_hears_of_its_jobs_alone() -> None:
    """By all of its labels."""
    labelled = rule(labels={"team": "pay"})
    assert judged([event()], labelled, labels={"team": "pay", "tier": "1"}).alerts
    assert not judged([event()], labelled, labels={"team": "ship"}).alerts
