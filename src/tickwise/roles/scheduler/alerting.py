"""Asks notification rules about events (`domain.notices`), and looks for delays that no event tells.

    events that are pending ──► judged by rules, ends, standing alerts ──► fold (one transaction for each namespace)
    alerts that are due     ──► told again, told to others, open after a snooze ──► fold
    runs that are late or long, overdue timers, lost executors ──► noted once, and judged as events

Any number of schedulers at once. Invariant: the store applies a fold only while its events are pending and its alerts
are as they were seen; so of two schedulers that judge one event, one changes something.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.callers import INSTALLATION
from tickwise.domain.model import time_id
from tickwise.domain.notices.changes import Burst, Fold, NoticeJob, PendingEvent, StandingAlert
from tickwise.domain.notices.index import MAX_ASKED, RuleIndex
from tickwise.domain.notices.judging import (
    Situation,
    burst_seconds,
    common_subject,
    ends_needed,
    judge,
    judge_due,
    rule_of_job,
    subject_before,
)
from tickwise.domain.notices.rules import NoticeEvent, NotificationRule
from tickwise.domain.notices.slicing import sliced
from tickwise.ports.clock import Clock
from tickwise.ports.store import (
    FROM_THE_FIRST,
    FROM_THE_FIRST_RUN,
    NotedEvent,
    NotificationRuleQuery,
    PendingEvents,
    SlowRun,
    Store,
)

PAGE: Final = 1_000
"""Events of one step."""
SLICE: Final = 3_000
"""The weight of the events of one namespace that are judged in one step (`sliced`): some 60 ms on one core, in which
the loop does nothing else. 29 events of 100 rules, or 1,000 of two."""
LEFT_OUT_SECONDS: Final = 60.0
"""Between two lines in the log about one namespace with too many rules."""
DUE_PAGE: Final = 200
"""Alerts that are told again in one step."""
LOOK_SECONDS: Final = 0.5
RIVAL_SECONDS: Final = 0.05
"""Another scheduler judges the same events just now."""
IDLE_SECONDS: Final = 1.0
"""Between two looks while no namespace notes events: a first rule is heeded within it."""

DELAYS_SECONDS: Final = 3.0
"""Between two looks for delays,"""
DELAYS_IDLE_SECONDS: Final = 10.0
"""while no namespace notes events,"""
REST_SECONDS: Final = 0.2
"""and to the next one while there are more runs or overdue timers than one looks at."""
LATE_USUAL_SECONDS: Final = 60.0
"""`after` of LATE if the rule names none."""
LONG_LEAST_SECONDS: Final = 60.0
"""A run that has been running for less is not long, unless a rule says so by `after`."""
LONG_FACTOR: Final = 3.0
"""A run is long when it takes so many times the median of its job's successes, and longer than each of them."""
LONG_RUNS: Final = 20
LONG_RUNS_LEAST: Final = 5
"""With fewer successes nothing is usual."""
TIMER_SECONDS: Final = 60.0
"""A timer that is overdue for so long is one that no scheduler decides."""
LOST_SECONDS: Final = 600.0
MAX_LOOKED: Final = 1_000
"""Runs, timers and executors of one look."""

logger = structlog.get_logger("tickwise.scheduler")


class Alerting:
    """The judging of events by one scheduler."""

    def __init__(self, store: Store, clock: Clock, *, is_due: Callable[[], None] = lambda: None) -> None:
        """`is_due` is called after a fold with a notice that is due at once."""
        self._alerts = store.alerts
        self._rules = store.notification_rules
        self._store = store
        self._clock = clock
        self._is_due = is_due
        self._version: int | None = None
        self._left_out: dict[str, float] = {}
        """By namespace: when it was last in the log that rules are left out."""
        self.index = RuleIndex(())

    async def step(self) -> float:
        """Judge a page of events, and the alerts that are due; how long until the next look."""
        # Before the rules: an event was noted after its rule, so that one is among those that are read then.
        pending = await self._alerts.events(PAGE)
        is_watched = await self.refresh()
        # Also without a rule: what was noted for one that is gone must not be told by a later one.
        pause = await self._judge_events(pending)
        if not is_watched:
            return pause or IDLE_SECONDS
        due = await self._alerts.due(DUE_PAGE)
        for namespace, some in _by_namespace(due).items():
            await self._judge_due(namespace, some)
            await self._clock.sleep(0)
        if pause is not None:
            return pause
        return LOOK_SECONDS if len(due) < DUE_PAGE else 0.0

    async def refresh(self) -> bool:
        """Read the rules if they have changed. False: no namespace notes events."""
        version = await self._rules.version()
        if version.version != self._version:
            rules = await self._rules.find(NotificationRuleQuery(namespace=None))
            self._version, self.index = version.version, RuleIndex(rules)
        return version.is_watched

    async def _judge_events(self, pending: PendingEvents) -> float | None:
        """A slice of each namespace. None: that was all. Else how long until the rest: there are more events, or
        another scheduler was faster."""
        by_namespace: dict[str, list[PendingEvent]] = defaultdict(list)
        for event in pending.events:
            by_namespace[event.namespace].append(event)
        pause = 0.0 if pending.more else None
        for namespace, waiting in by_namespace.items():
            events, leaves_out = sliced(waiting, self.index, pending.jobs, SLICE)
            if leaves_out:
                self._log_left_out(namespace)
            is_cut = len(events) < len(waiting)
            if is_cut and pause is None:
                pause = 0.0
            situation = Situation(
                now=await self._store.now(),
                rules=self.index,
                new_id=self._new_id,
                jobs=pending.jobs,
                more=pending.more or is_cut,
            )
            situation = await self._informed(namespace, events, situation)
            if not await self._folded(judge(namespace, events, situation), situation.now):
                pause = RIVAL_SECONDS
            await self._clock.sleep(0)
        return pause

    def _log_left_out(self, namespace: str) -> None:
        now = self._clock.monotonic()
        if now - self._left_out.get(namespace, -LEFT_OUT_SECONDS) >= LEFT_OUT_SECONDS:
            self._left_out = {name: at for name, at in self._left_out.items() if now - at < LEFT_OUT_SECONDS}
            self._left_out[namespace] = now
            logger.warning("rules_left_out", namespace=namespace, asked=MAX_ASKED)

    async def _informed(self, namespace: str, events: Sequence[PendingEvent], situation: Situation) -> Situation:
        """The situation with the ends, alerts and notices that these events need."""
        job_ids, most = ends_needed(events, self.index, situation.jobs)
        ends = await self._alerts.ends(job_ids, most) if job_ids else []
        subjects = {each.subject or str(each.job_id or each.event_id) for each in events}
        jobs = ((each, situation.jobs.get(each.job_id)) for each in events if each.job_id is not None)
        for each, job in jobs:
            if job is not None and (common := common_subject(each, job)) and (before := subject_before(each, job)):
                subjects |= {common, before}
        standing = await self._alerts.standing(namespace, subjects)
        pairs = {
            (rule_id, channel_id) for event in events for rule_id, channel_id in self._tellers(event, situation.jobs)
        } | {
            (each.alert.rule_id, channel_id)
            for each in standing
            if each.alert.rule_id in self.index.by_id
            for channel_id in self.index.by_id[each.alert.rule_id].channels
        }
        bursts = await self._bursts(pairs)
        return replace(situation, ends={each.job_id: each for each in ends}, standing=standing, bursts=bursts)

    async def _bursts(self, pairs: Collection[tuple[UUID | None, UUID]]) -> Mapping[tuple[UUID | None, UUID], Burst]:
        """The notices of rules and channels that went lately."""
        lengths = {
            pair: burst_seconds(None if pair[0] is None else self.index.by_id.get(pair[0])) for pair in pairs
        }  # fmt: skip
        return await self._alerts.bursts(lengths) if lengths else {}

    def _tellers(self, event: PendingEvent, jobs: Mapping[UUID, NoticeJob]) -> list[tuple[UUID | None, UUID]]:
        job = None if event.job_id is None else jobs.get(event.job_id)
        labels = {} if job is None else job.labels
        found: dict[UUID, NotificationRule] = {}
        for name in (event.event,) if event.event is not None else NoticeEvent:
            for rule in self.index.concerning(event.namespace, name, event.job_id, labels):
                found[rule.rule_id] = rule
        pairs: list[tuple[UUID | None, UUID]] = [
            (rule.rule_id, channel_id) for rule in found.values() for channel_id in rule.channels
        ]
        if job is not None:
            pairs += [(None, channel_id) for channel_id in rule_of_job(event.namespace, job).channels]
        return pairs

    async def _judge_due(self, namespace: str, due: Sequence[StandingAlert]) -> None:
        situation = Situation(now=await self._store.now(), rules=self.index, new_id=self._new_id)
        fold = judge_due(namespace, due, situation)
        pairs = {(each.rule_id, each.channel_id) for each in fold.notices}
        if pairs:
            bursts = await self._bursts(pairs)
            fold = judge_due(namespace, due, replace(situation, bursts=bursts))
        await self._folded(fold, situation.now)

    async def _folded(self, fold: Fold, now: float) -> bool:
        """Fold, and have what is due sent at once: no look of a sender is waited for."""
        is_done = await self._alerts.fold(fold)
        if is_done and any(each.due <= now for each in fold.notices):
            self._is_due()
        return is_done

    def _new_id(self) -> UUID:
        return time_id(int(self._clock.now() * 1000), self._clock.random_bytes(10))


class DelayLooks:
    """The looks of one scheduler for what no event tells."""

    def __init__(self, alerting: Alerting, store: Store) -> None:
        self._alerting = alerting
        self._alerts = store.alerts
        self._delays = store.delays
        self._store = store
        self._timers_after = FROM_THE_FIRST
        self._runs_after = FROM_THE_FIRST_RUN

    async def step(self) -> float:
        """Note the delays that rules ask about; how long until the next look."""
        if not await self._alerting.refresh():
            return DELAYS_IDLE_SECONDS
        index = self._alerting.index
        noted = [*await self._slow(index), *await self._timers(index)]
        if INSTALLATION in index.namespaces(NoticeEvent.EXECUTOR_LOST):
            noted += await self._executors()
        await self._alerts.note(noted)
        is_round_over = self._timers_after == FROM_THE_FIRST and self._runs_after == FROM_THE_FIRST_RUN
        return DELAYS_SECONDS if is_round_over else REST_SECONDS

    async def _slow(self, index: RuleIndex) -> list[NotedEvent]:
        """Runs on a page that a rule takes for late or for long."""
        namespaces = {*index.namespaces(NoticeEvent.LATE), *index.namespaces(NoticeEvent.LONG)}
        rules = [
            rule
            for namespace in namespaces
            for event in (NoticeEvent.LATE, NoticeEvent.LONG)
            for rule in index.about(namespace, event)
        ]
        if not rules:
            self._runs_after = FROM_THE_FIRST_RUN
            return []
        least = min(LATE_USUAL_SECONDS if rule.after is None else rule.after for rule in rules)
        runs, beyond = await self._delays.slow_runs(namespaces, least, MAX_LOOKED, after=self._runs_after)
        self._runs_after = FROM_THE_FIRST_RUN if beyond is None else beyond
        if not runs:
            return []
        now = await self._store.now()
        noted, unusual = [], list[tuple[NotificationRule, SlowRun]]()
        for run in runs:
            name = NoticeEvent.LATE if run.started_at is None else NoticeEvent.LONG
            for rule in index.concerning(run.namespace, name, run.job_id, run.labels):
                seconds = now - (run.due_at if run.started_at is None else run.started_at)
                if rule.after is None and name is NoticeEvent.LONG:
                    if seconds > LONG_LEAST_SECONDS:
                        unusual.append((rule, run))
                elif seconds > (LATE_USUAL_SECONDS if rule.after is None else rule.after):
                    noted.append(_slow_event(rule, run, name, seconds))
        if unusual:
            durations = await self._delays.durations({run.job_id for _, run in unusual}, LONG_RUNS)
            for rule, run in unusual:
                seconds = now - (run.started_at or now)
                if is_long(seconds, durations.get(run.job_id, ())):
                    noted.append(_slow_event(rule, run, NoticeEvent.LONG, seconds))
        return noted

    async def _timers(self, index: RuleIndex) -> list[NotedEvent]:
        namespaces = [each for each in index.namespaces(NoticeEvent.DID_NOT_RUN) if each != INSTALLATION]
        if not namespaces:
            self._timers_after = FROM_THE_FIRST
            return []
        timers, beyond = await self._delays.overdue_timers(
            namespaces, TIMER_SECONDS, MAX_LOOKED, after=self._timers_after
        )
        self._timers_after = FROM_THE_FIRST if beyond is None else beyond
        return [
            NotedEvent(
                timer.namespace,
                NoticeEvent.DID_NOT_RUN,
                f"timer/{timer.job_id}/{timer.due_at:.3f}",
                str(timer.job_id),
                timer.job_name,
                "its time has passed, and no scheduler has made a run of it",
                timer.job_id,
            )
            for timer in timers
        ]

    async def _executors(self) -> list[NotedEvent]:
        """Executors that were lost; of one that is back, that it is."""
        lost = await self._delays.lost_executors(LOST_SECONDS, MAX_LOOKED)
        noted = []
        for executor in reversed(lost):
            once = f"executor/{executor.number}"
            if executor.is_back:
                back = "an executor of this name is there again"
                noted.append(
                    NotedEvent(INSTALLATION, NoticeEvent.RECOVERY, f"{once}/back", executor.name, executor.name, back)
                )
            else:
                gone = "its lease ended without a sign of it: what it held goes on elsewhere"
                noted.append(
                    NotedEvent(INSTALLATION, NoticeEvent.EXECUTOR_LOST, once, executor.name, executor.name, gone)
                )
        return noted


def is_long(seconds: float, durations: Sequence[float]) -> bool:
    """Check whether a run takes far longer than the job usually does."""
    if len(durations) < LONG_RUNS_LEAST:
        return False
    return seconds > max(LONG_LEAST_SECONDS, LONG_FACTOR * median(durations), *durations)


def _slow_event(rule: NotificationRule, run: SlowRun, name: NoticeEvent, seconds: float) -> NotedEvent:
    what = "has not begun" if name is NoticeEvent.LATE else "is still running"
    since = "after it was due" if name is NoticeEvent.LATE else "after its start"
    return NotedEvent(
        rule.namespace,
        name,
        f"{name}/{rule.rule_id}/{run.run_id}",
        str(run.job_id),
        run.job_name,
        f"a run {what} {seconds:.0f} s {since}",
        run.job_id,
        run.run_id,
        rule.rule_id,
    )


def _by_namespace(due: Sequence[StandingAlert]) -> dict[str, list[StandingAlert]]:
    found: dict[str, list[StandingAlert]] = defaultdict(list)
    for each in due:
        found[each.alert.namespace].append(each)
    return found
