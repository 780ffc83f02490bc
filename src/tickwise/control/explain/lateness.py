"""The waits of a run, each with its time: what the record shows of stops, holds, absences and other runs.

      due ────────┬───────────────┬──────────────────┬──────── began
       a stop     │ its queue held │ an earlier run   │ the rest: limits, priority, executors
       └──────────┴── of two at one time, the one that is named first here ──┴────

Pure, and only what the facts bear out: a limit or a busy executor leaves no record, so it gets the rest of the time,
and only if the job has that limit, or nothing else can have kept it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tickwise.control.explain.explanations import (
    ON_TIME_SECONDS,
    Because,
    Cause,
    PastWait,
    RunFacts,
    stop_data,
    stop_words,
)
from tickwise.control.times import written
from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.domain.stops import Stop
from tickwise.ports.store import QUEUE_HELD, ExecutorRow, Incident, RunRow
from tickwise.roles.shared.served_queues import unserved

ASKED_TRIGGERS: Final = (Trigger.RUN_NOW, Trigger.RETRY)
"""Triggers whose runs wait their turn under every overlap policy."""
QUEUEING: Final = (Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING)
_ABSENCES: Final = {"store_away": "the database could not be reached", "scheduler_away": "no scheduler was at work"}
_REST: Final = frozenset(
    {Because.LATE_PRIORITY, Because.LATE_LIMITED, Because.LATE_EXECUTORS_LEFT, Because.LATE_EXECUTORS_BUSY}
)
"""Causes that leave no record of their time."""


def past_waits(facts: RunFacts) -> tuple[PastWait, ...]:
    """The waits of a run from its due time to its end, or to now; the earliest first, none at the time of another one.
    Between two attempts only what kept the next one from beginning is known: stops, holds, absences."""
    run = facts.run
    end = facts.now if run.ended_at is None else run.ended_at
    found: list[PastWait] = []
    for wait in _known(facts, end):
        found += _beside(found, wait, run.due_at, end)
    began = facts.began
    rest = None if began is None or began - run.due_at <= ON_TIME_SECONDS else _nobody_took_it(facts)
    if rest is not None and rest.code in _REST and began is not None:
        # A run that has its turn under a rate is handed out ahead of it.
        taken = facts.attempts[0].dispatched_at if facts.attempts else run.dispatched_at
        until = began if rest.code is Because.LATE_LIMITED or taken is None else taken
        left = _beside(found, PastWait(rest, run.due_at, until), run.due_at, end)
        # Less than a second beside other waits is the time that handing out takes.
        found += [each for each in left if not found or each.end - each.begin > ON_TIME_SECONDS]
    return tuple(sorted(found, key=lambda each: each.begin))


def _known(facts: RunFacts, end: float) -> Iterator[PastWait]:
    """The waits whose times are on record, the most telling first."""
    run, due = facts.run, facts.run.due_at
    if run.queued_at - due > ON_TIME_SECONDS:
        yield PastWait(_made_late(facts), due, run.queued_at)
    for away in facts.incidents:
        if away.kind == "store_away":
            yield PastWait(_away(facts, away, Because.LATE_STORE_AWAY), away.begin, away.end)
    for stop in sorted(facts.stops, key=lambda each: each.until, reverse=True):
        yield PastWait(_stopped(facts, stop), stop.begin, stop.until)
    for hold in facts.holds:
        yield PastWait(_held(facts, hold), hold.begin, hold.end)
    for circuit in facts.circuits:
        yield PastWait(_left_alone(facts), circuit.begin, circuit.end)
    until = facts.began or end
    absent = _without_executor(facts, until) if facts.executors else None
    if absent is not None:
        offered = [each for each in facts.executors if can_take(facts, each)]
        yield PastWait(absent, due, min(_alive_from(offered, due) or until, until))
    earlier = None if facts.began is None else _waited_for(facts, due, facts.began)
    if earlier is not None and earlier.ended_at is not None:
        yield PastWait(_behind(facts, earlier), due, earlier.ended_at)


def _beside(found: Sequence[PastWait], wait: PastWait, begin: float, end: float) -> list[PastWait]:
    """The parts of a wait between two instants, beside those that are found already."""
    begin, end = max(begin, wait.begin), min(end, wait.end)
    parts: list[PastWait] = []
    for other in sorted(found, key=lambda each: each.begin):
        if other.end <= begin or other.begin >= end:
            continue
        if other.begin > begin:
            parts.append(PastWait(wait.cause, begin, other.begin))
        begin = max(begin, other.end)
    if begin < end:
        parts.append(PastWait(wait.cause, begin, end))
    return parts


def first_delay(facts: RunFacts, began: float) -> Cause:
    """The first thing on its way that took longer than it should."""
    run, due = facts.run, facts.run.due_at
    if run.queued_at - due > ON_TIME_SECONDS:
        return _made_late(facts)
    away = _absence(facts.incidents, "store_away", due, began)
    if away is not None:
        return _away(facts, away, Because.LATE_STORE_AWAY)
    stop = facts.stop_at(due)
    if stop is not None and min(stop.until, began) - due > ON_TIME_SECONDS:
        return _stopped(facts, stop)
    hold = _absence(facts.holds, QUEUE_HELD, due, began)
    if hold is not None:
        return _held(facts, hold)
    if facts.circuits:
        return _left_alone(facts)
    absent = _without_executor(facts, began)
    if absent is not None:
        # Also of a run that then waited for an earlier one: that waited for an executor, too.
        return absent
    earlier = _waited_for(facts, due, began)
    if earlier is not None:
        return _behind(facts, earlier)
    if facts.attempts and facts.attempts[0].attempt > 1:
        return Cause(
            Because.LATE_EXECUTOR_LOST,
            "the executor that held it first was lost before it began",
            {"first_attempt": facts.attempts[0].attempt},
        )
    return _nobody_took_it(facts)


def _made_late(facts: RunFacts) -> Cause:
    run = facts.run
    away = [
        (found, code)
        for kind, code in (
            ("store_away", Because.LATE_STORE_AWAY),
            ("scheduler_away", Because.LATE_SCHEDULER_AWAY),
        )
        if (found := _absence(facts.incidents, kind, run.due_at, run.queued_at)) is not None
    ]
    if away:
        # If both absences were noticed, the longer one.
        found, code = max(away, key=lambda each: each[0].end - each[0].begin)
        return _away(facts, found, code)
    return Cause(
        Because.LATE_SCHEDULER_BEHIND,
        f"schedulers made the run only at {facts.said(run.queued_at)}; no absence was noticed",
        {"made_time": written(run.queued_at)},
    )


def _stopped(facts: RunFacts, stop: Stop) -> Cause:
    return Cause(Because.LATE_STOPPED, stop_words(stop, facts.said), stop_data(stop))


def _held(facts: RunFacts, hold: Incident) -> Cause:
    goes_on = math.isinf(hold.end)
    until = "and still is" if goes_on else f"to {facts.said(hold.end)}"
    words = f"its queue {hold.who!r} was on hold from {facts.said(hold.begin)} {until}"
    data = {
        "queue": hold.who,
        "held_from": written(hold.begin),
        "held_until": None if goes_on else written(hold.end),
    }
    return Cause(Because.LATE_QUEUE_HELD, words, data)


def _behind(facts: RunFacts, earlier: RunRow) -> Cause:
    words = f"it waited until the run of {facts.said(earlier.nominal_at)} had ended{by_overlap(facts)}"
    return Cause(Because.LATE_OVERLAP, words, {"waited_for": str(earlier.run_id)})


def _left_alone(facts: RunFacts) -> Cause:
    """The circuit of its host was open."""
    first, last = facts.circuits[0], facts.circuits[-1]
    words = f"{first.who} kept failing and was left alone from {facts.said(first.begin)} to {facts.said(last.end)}"
    data = {"host": first.who, "open_from": written(first.begin), "open_until": written(last.end)}
    return Cause(Because.LATE_CIRCUIT, words, data)


def _away(facts: RunFacts, away: Incident, code: Because) -> Cause:
    return Cause(
        code,
        f"{absent_words(facts, away)}, as {away.who} noticed",
        {"away_from": written(away.begin), "away_to": written(away.end), "noticed_by": away.who},
    )


def absent_words(facts: RunFacts, away: Incident) -> str:
    """An absence in a sentence."""
    what = _ABSENCES.get(away.kind, away.kind)
    return f"{what} from {facts.said(away.begin)} to {facts.said(away.end)}"


def _absence(incidents: Sequence[Incident], kind: str, begin: float, end: float) -> Incident | None:
    """The longest one of this time, if it was long enough to matter."""
    found = [
        each
        for each in incidents
        if each.kind == kind and min(each.end, end) - max(each.begin, begin) > ON_TIME_SECONDS
    ]
    return max(found, key=lambda each: min(each.end, end) - max(each.begin, begin), default=None)


def _waited_for(facts: RunFacts, due: float, began: float) -> RunRow | None:
    """The run of the job whose end let this one begin."""
    if facts.plan is None or (facts.plan.overlap not in QUEUEING and facts.run.trigger not in ASKED_TRIGGERS):
        return None
    ended = [
        each
        for each in facts.earlier
        if each.state is not RunState.SKIPPED and each.ended_at is not None and due < each.ended_at <= began
    ]
    return max(ended, key=lambda each: each.ended_at or 0.0, default=None)


def _without_executor(facts: RunFacts, began: float) -> Cause | None:
    """No executor was active at its due time, or none that could take it."""
    due = facts.run.due_at
    anybody = _alive_from(facts.executors, due)
    if anybody is None or anybody - due > ON_TIME_SECONDS:
        until = began if anybody is None else min(anybody, began)
        return Cause(
            Because.LATE_NO_EXECUTOR,
            f"no executor was alive until {facts.said(until)}",
            {"executors_from": written(until)},
        )
    able = [each for each in facts.executors if can_take(facts, each)]
    somebody = _alive_from(able, due)
    if somebody is None or somebody - due > ON_TIME_SECONDS:
        until = began if somebody is None else min(somebody, began)
        return Cause(
            Because.LATE_NOT_OFFERED,
            f"no executor with {_needs(facts)} was alive until {facts.said(until)}",
            {"executors_from": written(until), **wanted(facts)},
        )
    return None


def _nobody_took_it(facts: RunFacts) -> Cause:
    """Executors: none free, or one that was slow."""
    due = facts.run.due_at
    able = [each for each in facts.executors if can_take(facts, each)]
    if facts.favoured:
        return Cause(Because.LATE_PRIORITY, *priority_words(facts))
    if facts.plan is not None and (facts.plan.concurrency or facts.plan.rate):
        what = " and ".join(name for name in ("concurrency", "rate") if getattr(facts.plan, name) is not None)
        return Cause(Because.LATE_LIMITED, f"its job has a limit ({what}), and nothing else is known that kept it")
    if facts.concurrent_runs is not None:
        words = f"its namespace has a quota of runs at once ({facts.concurrent_runs}), and nothing else is known that "
        return Cause(Because.LATE_LIMITED, f"{words}kept it", {"concurrent_runs": facts.concurrent_runs})
    taken = facts.attempts[0].dispatched_at if facts.attempts else facts.run.dispatched_at
    if taken is not None and taken - due > ON_TIME_SECONDS:
        gone = [each.gone_at for each in able if each.registered_at <= due < (each.gone_at or each.lease_until)]
        ends = [each for each in gone if each is not None and each <= taken]
        if ends and len(ends) == len(gone):
            # An executor that stops claims nothing more; when it began to stop is not on record.
            return Cause(
                Because.LATE_EXECUTORS_LEFT,
                f"the executors that could take it were stopping or lost; the last of them was gone at "
                f"{facts.said(max(ends))}",
                {"taken_time": written(taken), "executors_gone": written(max(ends))},
            )
        return Cause(
            Because.LATE_EXECUTORS_BUSY,
            f"until {facts.said(taken)} the executors that could take it had no free slot",
            {"taken_time": written(taken), "slots": sum(each.slots for each in able)},
        )
    if taken is not None:
        return Cause(
            Because.LATE_START,
            f"its executor had it since {facts.said(taken)} and began late; that machine may be overloaded",
            {"taken_time": written(taken)},
        )
    return Cause(Because.LATE, "nothing on record says why")


def _alive_from(executors: Sequence[ExecutorRow], instant: float) -> float | None:
    """From when on, at or after `instant`, one of them was alive."""
    alive = [each for each in executors if (each.gone_at or each.lease_until) > instant]
    return min((max(each.registered_at, instant) for each in alive), default=None)


def can_take(facts: RunFacts, executor: ExecutorRow) -> bool:
    """Check whether an executor offers what the run needs."""
    job = facts.job
    return job is None or unserved(job.lane, facts.function, [executor], job.namespace, facts.demand) is None


def wanted(facts: RunFacts) -> dict[str, Any]:
    """The needs of the run, for programs."""
    if facts.job is None:
        return {}
    labels = [label for label in facts.job.lane.requires if ":" not in label]
    return {"queue": facts.job.lane.queue, "labels": labels, "function": facts.function}


def _needs(facts: RunFacts) -> str:
    asked = wanted(facts)
    words = [f"the queue {asked.get('queue')!r}"]
    if asked.get("labels"):
        words.append(f"the labels {', '.join(asked['labels'])}")
    if facts.function is not None:
        words.append(f"the function {facts.function!r}")
    return " and ".join(words)


def priority_words(facts: RunFacts) -> tuple[str, dict[str, Any]]:
    """The runs of a higher priority that went first, in a sentence and for programs."""
    own = 0 if facts.job is None else facts.job.lane.priority
    highest = max(job.lane.priority for _, job in facts.favoured)
    words = f"runs of a higher priority (up to {highest}, its own is {own}) were taken first"
    return words, {"priority": own, "higher": highest, "taken_first": [str(run.run_id) for run, _ in facts.favoured]}


def by_overlap(facts: RunFacts) -> str:
    """The policy, in brackets; nothing of a job that is gone."""
    if facts.run.trigger in ASKED_TRIGGERS:
        return " (a run that a person asked for waits its turn)"
    return "" if facts.plan is None else f" (overlap: {facts.plan.overlap.value})"
