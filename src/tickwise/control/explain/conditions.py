"""The wait inspector: each condition for the start of a run, or of a job's next run, with its evidence.

        RunFacts | Standing ──► due · stop · pause · queue · earlier runs · limit · quota · rate · … ──► Condition, each

Pure, and from the facts of the explanation alone, so the table and the sentence never disagree on what was seen. A
condition that does not apply is met, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tickwise.control.explain.explanations import (
    Condition,
    ConditionName,
    RunFacts,
    last_stop,
    stop_data,
    stop_words,
)
from tickwise.control.explain.standing import Standing
from tickwise.control.explain.waits import is_paused
from tickwise.control.jobs.policies import key_in_words
from tickwise.control.jobs.replans import pause_words
from tickwise.domain import schedule as schedules
from tickwise.domain.calendar.rules import Closed, ScheduleRules
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.rules.capacities import amount_in_words
from tickwise.domain.rules.confinement import Isolation
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.roles.shared.served_queues import in_use, unserved

SHOWN: Final = 5
"""The most runs or executors that an evidence names."""


class _Finding(NamedTuple):
    """A condition before its time is added."""

    name: ConditionName
    met: bool
    evidence: str
    change: str = ""
    data: dict[str, Any] = {}  # noqa: RUF012 - made once, never changed


def run_conditions(facts: RunFacts) -> tuple[Condition, ...]:
    """Each condition of a run that has not begun; empty for any other."""
    if facts.run.state not in (RunState.QUEUED, RunState.RETRYING):
        return ()
    return _dated(_of_run(facts), facts.now)


def job_conditions(standing: Standing) -> tuple[Condition, ...]:
    """Each condition of the next run of a job by its schedule."""
    return _dated(_of_job(standing), standing.now)


def _dated(found: Iterator[_Finding], now: float) -> tuple[Condition, ...]:
    return tuple(
        Condition(each.name, each.met, each.evidence, now, None if each.met else each.change, each.data)
        for each in found
    )


# ------------------------------------------------------------------------------------------ of a run


def _of_run(facts: RunFacts) -> Iterator[_Finding]:
    run, now = facts.run, facts.now
    due = run.due_at <= now
    yield _Finding(ConditionName.DUE, due, f"due at {facts.said(run.due_at)}", "its time comes; nothing has to be done")
    stop = facts.stop_at(now)
    if stop is None:
        yield _Finding(ConditionName.STOP, True, "no stop concerns its job")
    else:
        change = f"tickwise stops lift {stop.stop_id}, or the end of the stop"
        yield _Finding(ConditionName.STOP, False, stop_words(stop, facts.said), change, stop_data(stop))
    yield _pause(facts)
    yield _queue(facts)
    yield _earlier(facts)
    yield _concurrency(facts)
    yield _quota(facts)
    yield _rate(facts)
    yield _ready(facts)
    yield _circuit(facts)
    if run.trigger == Trigger.SEQUENCE:
        origin = facts.origin
        words = f"started by the run {run.origin}"
        if origin is not None:
            words += f" of the job {origin[1]!r}, which ended as {origin[0].state.value}"
        yield _Finding(ConditionName.PREDECESSOR, True, words, data={"run_ids": [str(run.origin)]})
    floor = facts.least_isolation
    if floor is not Isolation.PROCESS:
        met = not facts.is_below_floor
        words = f"its namespace demands isolation {floor} of python and shell tasks (min_isolation), and it "
        words += "has that or more, or is of another kind" if met else "has less"
        change = f"its job is changed to isolation {floor}, or the demand of its namespace is lifted"
        yield _Finding(ConditionName.ISOLATION, met, words, change, {"min_isolation": floor.value})
    yield from _executors(facts)


def _pause(facts: RunFacts) -> _Finding:
    job, run = facts.job, facts.run
    if job is None or job.status is not JobStatus.PAUSED:
        return _Finding(ConditionName.PAUSE, True, "its job is not paused")
    words = f"its job is {pause_words(job, facts.said)}"
    if run.trigger != Trigger.SCHEDULE:
        return _Finding(ConditionName.PAUSE, True, f"{words}; that concerns runs of the schedule alone")
    return _Finding(ConditionName.PAUSE, not is_paused(facts), words, f"tickwise jobs resume {job.job_id}")


def _queue(facts: RunFacts) -> _Finding:
    queue = facts.queue
    if queue is None:
        return _Finding(ConditionName.QUEUE, True, "its queue has no hold")
    counts = f"{queue.queued} wait, {queue.dispatched} are handed out, {queue.running} run"
    data = {"queue": queue.queue, "queued": queue.queued, "dispatched": queue.dispatched, "running": queue.running}
    hold = queue.hold
    if hold is None or not queue.held:
        return _Finding(ConditionName.QUEUE, True, f"the queue {queue.queue!r} goes on: {counts}", data=data)
    until = "until it is resumed" if hold.until is None else f"until {facts.said(hold.until)}"
    why = f": {hold.reason}" if hold.reason else ""
    words = f"the queue {queue.queue!r} is on hold by {hold.by}, {until}{why}; {counts}"
    return _Finding(ConditionName.QUEUE, False, words, f"tickwise queues resume {queue.queue}", data)


def _earlier(facts: RunFacts) -> _Finding:
    run = facts.run
    policy = "" if facts.plan is None else f" (overlap: {facts.plan.overlap.value})"
    going = [each for each in facts.earlier if each.ended_at is None and each.state is not RunState.SKIPPED]
    ids = [str(each.run_id) for each in going[:SHOWN]]
    shown = f"; unfinished: {', '.join(ids)}" if ids else ""
    if run.blocked and run.limit_key is None:
        words = f"it waits for an earlier run of its job{policy}{shown}"
        return _Finding(
            ConditionName.EARLIER_RUNS, False, words, "the earlier run ends, or is cancelled", {"run_ids": ids}
        )
    return _Finding(
        ConditionName.EARLIER_RUNS, True, f"it waits for no earlier run{policy}{shown}", data={"run_ids": ids}
    )


def _taken(facts: RunFacts) -> tuple[str, dict[str, Any]]:
    """The runs that have the slots, for a run that waits for one."""
    ids = [str(run.run_id) for run, _ in facts.holders]
    shown = ", ".join(f"{run.run_id} of the job {name!r}" for run, name in facts.holders[:SHOWN])
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return (f"; taken by {shown}{more}" if shown else ""), {"run_ids": ids}


def _concurrency(facts: RunFacts) -> _Finding:
    run, said = facts.run, None if facts.plan is None else facts.plan.concurrency
    waits = run.blocked and run.limit_key is not None and run.limit_key != QUOTA_KEY
    if waits:
        taken, data = _taken(facts)
        limit = "" if said is None else f", {said.limit} at once"
        words = f"no slot of its concurrency limit ({run.limit_key}{limit}) is free{taken}"
        return _Finding(ConditionName.CONCURRENCY, False, words, "one of these runs ends, or the limit is raised", data)
    words = "its job has no concurrency limit"
    if said is not None:
        words = f"{said.limit} at once{key_in_words(said.key)}; a slot is asked for when it starts"
    return _Finding(ConditionName.CONCURRENCY, True, words)


def _quota(facts: RunFacts) -> _Finding:
    run, quota = facts.run, facts.concurrent_runs
    if run.blocked and run.limit_key == QUOTA_KEY:
        taken, data = _taken(facts)
        words = f"the quota concurrent_runs of its namespace ({quota}) is used up{taken}"
        return _Finding(ConditionName.QUOTA, False, words, "one of these runs ends, or the quota is raised", data)
    words = (
        "its namespace has no quota of runs at once" if quota is None else f"{quota} runs at once by concurrent_runs"
    )
    return _Finding(ConditionName.QUOTA, True, words)


def _rate(facts: RunFacts) -> _Finding:
    run, rate = facts.run, None if facts.plan is None else facts.plan.rate
    words = "its job has no rate limit"
    if rate is not None:
        words = f"{rate.limit} starts in {rate.per_seconds:g} s{key_in_words(rate.key)}"
    if run.paced and run.ready_at is not None and run.ready_at > facts.now:
        turn = f"{words}; its turn is at {facts.said(run.ready_at)}"
        return _Finding(ConditionName.RATE, False, turn, "its turn comes, or the rate is raised")
    return _Finding(ConditionName.RATE, True, words)


def _ready(facts: RunFacts) -> _Finding:
    run = facts.run
    failed = f"{run.failures} failed attempts" if run.failures else "no failed attempt"
    waits = run.ready_at is not None and run.ready_at > max(facts.now, run.due_at) and not run.paced
    if waits and not is_paused(facts) and run.ready_at is not None:
        words = f"{failed}; it is offered again at {facts.said(run.ready_at)}"
        return _Finding(ConditionName.READY, False, words, "that time comes; nothing has to be done")
    return _Finding(ConditionName.READY, True, failed)


def _circuit(facts: RunFacts) -> _Finding:
    last = facts.circuits[-1] if facts.circuits else None
    if last is None:
        return _Finding(ConditionName.CIRCUIT, True, "no host that it calls is left alone")
    words = f"the host {last.who} was left alone from {facts.said(last.begin)} to {facts.said(last.end)}"
    return _Finding(ConditionName.CIRCUIT, last.end < facts.now, words, f"{last.who} answers again", {"host": last.who})


def _executors(facts: RunFacts) -> Iterator[_Finding]:
    active = facts.active
    if facts.job is None:
        return
    lane, namespace = facts.job.lane, facts.job.namespace
    needs = f"queue {lane.queue!r}" + (f", labels {', '.join(sorted(lane.requires))}" if lane.requires else "")
    demand = facts.demand
    able = [each for each in active if unserved(lane, facts.function, [each], namespace, demand) is None]
    named = ", ".join(f"{each.name} ({each.executor})" for each in able[:SHOWN])
    data = {"executor_ids": [str(each.executor) for each in able]}
    if not able:
        why = unserved(lane, facts.function, active, namespace, demand) if active else "no executor is active"
        change = f"start an executor that takes it: {needs}"
        yield _Finding(
            ConditionName.EXECUTOR, False, f"{why} (it needs: {needs}; active executors: {len(active)})", change, data
        )
        return
    words = f"{len(able)} of {len(active)} active executors can take it ({needs}): {named}"
    yield _Finding(ConditionName.EXECUTOR, True, words, data=data)
    slots, held = sum(each.slots for each in able), sum(each.held for each in able)
    change = "a run of these executors ends, or another executor starts"
    yield _Finding(ConditionName.SLOTS, held < slots, f"{held} of their {slots} slots are in use", change, data)
    if demand is not None:
        taken = in_use(demand, able)
        words = taken or "one of them has free what it holds: " + ", ".join(
            amount_in_words(name, amount) for name, amount in sorted(demand.items())
        )
        change = "a run that holds it ends, or an executor with more of it starts"
        yield _Finding(ConditionName.CAPACITY, taken is None, words, change, {**data, "needs": dict(demand)})


# ------------------------------------------------------------------------------------------ of a job


def _of_job(standing: Standing) -> Iterator[_Finding]:
    row, now, schedule = standing.row, standing.now, standing.schedule
    over = row.status is JobStatus.CANCELLED
    change = "a cancelled job never runs again: create another one"
    yield _Finding(ConditionName.STATUS, not over, f"the job is {row.status.value}", change)
    timer = row.timer
    if timer is None:
        words = f"its schedule ({schedules.explain(schedule)}) has no further time"
        yield _Finding(ConditionName.SCHEDULE, False, words, "run it now, or change its schedule")
    else:
        words = f"{schedules.explain(schedule)}; the next time without a record is {standing.said(timer.first_open)}"
        due = timer.first_open <= now
        yield _Finding(ConditionName.SCHEDULE, due, words, "its time comes; nothing has to be done")
        late = timer.hold is None and timer.due < now - 1.0
        seen = f"its timer is due since {standing.said(timer.due)}" if late else "no scheduler is behind with it"
        yield _Finding(ConditionName.SCHEDULER, not late, seen, "a scheduler that runs and reaches the database")
    stop = None if standing.rules is None else last_stop(standing.rules.stops, now)
    if stop is None:
        yield _Finding(ConditionName.STOP, True, "no stop concerns it")
    else:
        change = f"tickwise stops lift {stop.stop_id}, or the end of the stop"
        yield _Finding(ConditionName.STOP, False, stop_words(stop, standing.said), change, stop_data(stop))
    paused = row.status is JobStatus.PAUSED
    words = f"the job is {pause_words(row, standing.said)}" if paused else "the job is not paused"
    yield _Finding(ConditionName.PAUSE, not paused, words, f"tickwise jobs resume {row.job_id}")
    yield _calendar(standing)


def _calendar(standing: Standing) -> _Finding:
    """Calendars and windows, at the next time of the schedule or now."""
    rules, timer = standing.rules, standing.row.timer
    if rules is None or not (rules.calendars or rules.windows):
        return _Finding(ConditionName.CALENDAR, True, "no calendar and no maintenance window concerns it")
    at = standing.now if timer is None else max(timer.first_open, standing.now)
    named = [*(each.name for each in rules.calendars), *(each.name for each in rules.windows)]
    verdict = ScheduleRules(rules.calendars, rules.windows).verdict(at)
    if not isinstance(verdict, Closed):
        return _Finding(ConditionName.CALENDAR, True, f"open at {standing.said(at)}: {', '.join(named)}")
    opens = "never, as far as can be seen" if verdict.opens is None else standing.said(verdict.opens)
    words = f"at {standing.said(at)} it is {verdict.sentence}; it opens: {opens}"
    return _Finding(ConditionName.CALENDAR, False, words, f"the calendar or window {verdict.name} opens, or is changed")
