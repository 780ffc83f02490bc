"""The reason why a run ran, waits, or did not run: its record, judged and put into one sentence.

        Facts (run, attempts, executors, absences, …) ──► judged ──► Explanation(code, sentence, data, causes)

Pure: same facts, same answer. Invariants: exactly one code leads, the most telling that the facts
bear out; what they do not bear out is not claimed (`late`, `skipped`, `waiting_turn` say only what is certain).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tickwise.control.explain.explanations import (
    ON_TIME_SECONDS,
    Because,
    Cause,
    Explanation,
    RunFacts,
    lasting,
    sentence,
    stop_data,
    stop_words,
)
from tickwise.control.explain.waits import (
    POISON,
    cause_in_words,
    ended_because,
    is_paused,
    started_by,
    waits,
    went_on,
)
from tickwise.control.times import written
from tickwise.domain.calendar.rules import Closed
from tickwise.domain.decision import Overlap, SkipReason, spread
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.rules.sentences import EXECUTOR_LEFT, LEASE_LOST, REPLACED_SENTENCE
from tickwise.ports.store import ExecutorRow, Incident, RunRow
from tickwise.roles.shared.served_queues import not_offered, unserved

PLANNED_AHEAD_SECONDS: Final = 60.0
"""No scheduler makes a run so long before it is due."""
_SKIPPED: Final[dict[str, Because]] = {
    SkipReason.OVERLAP: Because.SKIPPED_OVERLAP,
    SkipReason.MISFIRE: Because.SKIPPED_MISFIRE,
    SkipReason.PAUSED: Because.SKIPPED_PAUSED,
    SkipReason.CALENDAR: Because.SKIPPED_CALENDAR,
    SkipReason.MAINTENANCE: Because.SKIPPED_MAINTENANCE,
    SkipReason.STOPPED: Because.SKIPPED_STOPPED,
    SkipReason.DST: Because.SKIPPED_DST,
    SkipReason.FUSE: Because.SKIPPED_FUSE,
    SkipReason.REQUESTED: Because.SKIPPED_REQUESTED,
    SkipReason.QUOTA: Because.SKIPPED_QUOTA,
    SkipReason.EXPIRED: Because.SKIPPED_EXPIRED,
}
_SKIPPED_TOO: Final = "; skipped"
"""The end of the sentence of a record of times that the clock left out."""
_ABSENCES: Final = {"store_away": "the database could not be reached", "scheduler_away": "no scheduler was at work"}
_ON_THE_WAY: Final = (
    Because.EXECUTOR_LOST, Because.EXECUTOR_LEFT, Because.RETRIED, Because.RETRIED_BY_RULE, Because.NOT_RETRIED_RULE,
    Because.NOT_RETRIED_DEADLINE, Because.UNKNOWN_OUTCOME, Because.FAILED_EXECUTOR_LOST, Because.ASKED_TO_STOP,
    Because.LIMIT_CPU, Because.LIMIT_MEMORY, Because.LIMIT_PROCESSES, Because.LIMIT_OUTPUT,
)  # fmt: skip
_QUEUES: Final = (Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.CANCEL_RUNNING)
_ASKED: Final = (Trigger.RUN_NOW, Trigger.RETRY)
"""Triggers whose runs wait their turn under every overlap policy."""


def judged(facts: RunFacts) -> Explanation:
    """The explanation of the state of a run."""
    state = facts.run.state
    if state is RunState.SKIPPED:
        return _skipped(facts)
    if state in (RunState.QUEUED, RunState.RETRYING):
        return _waiting(facts)
    if state is RunState.DISPATCHED:
        return _handed_out(facts)
    if facts.began is None:
        return _never_began(facts)
    return _ran(facts)


def _of_run(facts: RunFacts, **more: Any) -> dict[str, Any]:
    run, began = facts.run, facts.began
    return {
        "status": run.state.value,
        "due_time": written(run.due_at),
        "started_time": None if began is None else written(began),
        "ended_time": None if run.ended_at is None else written(run.ended_at),
        **more,
    }


# ------------------------------------------------------------------------------------------ it ran, or runs


def _ran(facts: RunFacts) -> Explanation:
    run, began = facts.run, facts.began or facts.run.due_at
    late = began - run.due_at
    causes: list[Cause] = []
    if late > ON_TIME_SECONDS:
        causes.append(_late(facts, began))
    ended = ended_because(facts)
    causes += [*ended, *_along_the_way(facts)]
    moved = _moved(facts)
    causes += [moved] if moved else []
    causes += _asked(facts)
    how = _punctuality(run, late)
    words = f"{facts.name} began {how}, at {facts.said(began)}"
    if causes and causes[0].code is not Because.FAILED:  # the error of a failure ends the sentence
        # An event after the start is no reason for the time of the start: a semicolon, not a colon.
        words += f"{';' if causes[0].code in _ON_THE_WAY else ':'} {causes[0].sentence}"
    if run.state is RunState.RUNNING:
        since = began if run.started_at is None else run.started_at
        words = f"{facts.name} has been running since {facts.said(since)}"
        words += f"; it began {lasting(late)} late" if late > ON_TIME_SECONDS else ""
        words += f": {causes[0].sentence}" if causes else ""
        code = Because.RUNNING
    else:
        words += f"; it ended as {run.state.value}" + (f" at {facts.said(run.ended_at)}" if run.ended_at else "")
        if run.state is RunState.FAILED and run.error and (causes[0] not in ended or causes[0].code is Because.FAILED):
            words += f": {cause_in_words(run.error)}"
        code, causes = (causes[0].code, causes) if causes else (Because.FIRED, causes)
    data = _of_run(facts, late_seconds=round(max(late, 0.0), 3), trigger=Trigger(run.trigger).name.lower())
    for cause in reversed(causes):
        data |= cause.data
    rest = [*(causes if code is Because.RUNNING else causes[1:]), *went_on(facts)]
    return Explanation(code=code, sentence=sentence(words), data=data, causes=tuple(rest), run=run)


def _punctuality(run: RunRow, late: float) -> str:
    """Lateness counts from when a run is due; a run that was moved is not on time to a reader of the schedule."""
    if late > ON_TIME_SECONDS:
        return f"{lasting(late)} late"
    return "when it was due" if run.due_at - run.nominal_at > ON_TIME_SECONDS else "on time"


def _late(facts: RunFacts, began: float) -> Cause:
    """The first thing on its way that took longer than it should."""
    run, due = facts.run, facts.run.due_at
    if run.queued_at - due > ON_TIME_SECONDS:
        return _made_late(facts)
    away = _absence(facts.incidents, "store_away", due, began)
    if away is not None:
        return _away(facts, away, Because.LATE_STORE_AWAY)
    stop = facts.stop_at(due)
    if stop is not None and min(stop.until, began) - due > ON_TIME_SECONDS:
        return Cause(Because.LATE_STOPPED, stop_words(stop, facts.said), stop_data(stop))
    if facts.circuits:
        return _left_alone(facts)
    absent = _without_executor(facts, began)
    if absent is not None:
        # Also of a run that then waited for an earlier one: that waited for an executor, too.
        return absent
    earlier = _waited_for(facts, due, began)
    if earlier is not None:
        return Cause(
            Because.LATE_OVERLAP,
            f"it waited until the run of {facts.said(earlier.nominal_at)} had ended{_by_overlap(facts)}",
            {"waited_for": str(earlier.run_id)},
        )
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


def _left_alone(facts: RunFacts) -> Cause:
    """The circuit of its host was open."""
    first, last = facts.circuits[0], facts.circuits[-1]
    words = f"{first.who} kept failing and was left alone from {facts.said(first.begin)} to {facts.said(last.end)}"
    data = {"host": first.who, "open_from": written(first.begin), "open_until": written(last.end)}
    return Cause(Because.LATE_CIRCUIT, words, data)


def _away(facts: RunFacts, away: Incident, code: Because) -> Cause:
    return Cause(
        code,
        f"{_absent(facts, away)}, as {away.who} noticed",
        {"away_from": written(away.begin), "away_to": written(away.end), "noticed_by": away.who},
    )


def _absent(facts: RunFacts, away: Incident) -> str:
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
    if facts.plan is None or (facts.plan.overlap not in _QUEUES and facts.run.trigger not in _ASKED):
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
    able = [each for each in facts.executors if _can_take(facts, each)]
    somebody = _alive_from(able, due)
    if somebody is None or somebody - due > ON_TIME_SECONDS:
        until = began if somebody is None else min(somebody, began)
        return Cause(
            Because.LATE_NOT_OFFERED,
            f"no executor with {_needs(facts)} was alive until {facts.said(until)}",
            {"executors_from": written(until), **_wanted(facts)},
        )
    return None


def _nobody_took_it(facts: RunFacts) -> Cause:
    """Executors: none free, or one that was slow."""
    due = facts.run.due_at
    able = [each for each in facts.executors if _can_take(facts, each)]
    if facts.favoured:
        return Cause(Because.LATE_PRIORITY, *_priority(facts))
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
            f"until {facts.said(taken)} the executors that could take it had no free slot, or its queue was on hold",
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


def _can_take(facts: RunFacts, executor: ExecutorRow) -> bool:
    job = facts.job
    return job is None or unserved(job.lane, facts.function, [executor], job.namespace) is None


def _wanted(facts: RunFacts) -> dict[str, Any]:
    if facts.job is None:
        return {}
    labels = [label for label in facts.job.lane.requires if ":" not in label]
    return {"queue": facts.job.lane.queue, "labels": labels, "function": facts.function}


def _needs(facts: RunFacts) -> str:
    wanted = _wanted(facts)
    words = [f"the queue {wanted.get('queue')!r}"]
    if wanted.get("labels"):
        words.append(f"the labels {', '.join(wanted['labels'])}")
    if facts.function is not None:
        words.append(f"the function {facts.function!r}")
    return " and ".join(words)


def _priority(facts: RunFacts) -> tuple[str, dict[str, Any]]:
    own = 0 if facts.job is None else facts.job.lane.priority
    highest = max(job.lane.priority for _, job in facts.favoured)
    words = f"runs of a higher priority (up to {highest}, its own is {own}) were taken first"
    return words, {"priority": own, "higher": highest, "taken_first": [str(run.run_id) for run, _ in facts.favoured]}


def _in_the_way(facts: RunFacts, instant: float) -> RunRow | None:
    """The run of the same job that was unfinished at `instant` and kept this one from starting: one that came before
    it, or had been let start; of several one that had, else the first."""
    run = facts.run
    found = [
        each
        for each in facts.earlier
        if each.state is not RunState.SKIPPED
        and (each.state not in FINAL if each.ended_at is None else each.ended_at >= instant)
        and (each.trigger == Trigger.BACKFILL) is (run.trigger == Trigger.BACKFILL)
        and (_had_begun(each, instant) or (each.due_at, each.run_id) < (run.due_at, run.run_id))
    ]
    return min(found, key=lambda each: (not _had_begun(each, instant), each.due_at, each.run_id), default=None)


def _had_begun(run: RunRow, instant: float) -> bool:
    return run.started_at is not None and run.started_at <= instant


def _by_overlap(facts: RunFacts) -> str:
    """The policy, in brackets; nothing of a job that is gone."""
    if facts.run.trigger in _ASKED:
        return " (a run that a person asked for waits its turn)"
    return "" if facts.plan is None else f" (overlap: {facts.plan.overlap.value})"


def _along_the_way(facts: RunFacts) -> list[Cause]:
    """The story of its attempts."""
    found: list[Cause] = []
    lost = [each for each in facts.attempts if each.reason in (LEASE_LOST, POISON)]
    if lost:
        who = ", ".join(str(each.executor) for each in lost)
        words = f"the executor {who} was lost while it ran, and it went on with another attempt"
        if facts.run.reason == POISON:
            words = f"{len(lost)} executors were lost while they ran it ({who}), so it was given up"
        found.append(Cause(Because.EXECUTOR_LOST, words, {"lost_executors": [str(each.executor) for each in lost]}))
    stopped = [each for each in facts.attempts if each.reason == EXECUTOR_LEFT]
    if stopped:
        who = ", ".join(str(each.executor) for each in stopped)
        words = f"the executor {who} was stopped while it ran, and it went on with another attempt"
        left = {"left_executors": [str(each.executor) for each in stopped]}
        found.append(Cause(Because.EXECUTOR_LEFT, words, left))
    failed = [each for each in facts.attempts if each.state is RunState.RETRYING]
    if failed:
        last = failed[-1]
        times, when = ("once", "") if len(failed) == 1 else (f"{len(failed)} times", "the last time ")
        why = f" ({when}with {cause_in_words(last.error)!r})" if cause_in_words(last.error) else ""
        if facts.run.state is RunState.RETRYING:
            return found  # the sentence says with what the last one failed, and when the next one comes
        found.append(Cause(Because.RETRIED, f"it failed {times}{why} and was tried again", {"retries": len(failed)}))
    return found


def _moved(facts: RunFacts) -> Cause | None:
    """The reason why it was due later than the schedule named."""
    run, schedule = facts.run, facts.schedule
    if schedule is None or run.trigger != Trigger.SCHEDULE:
        return None
    own = spread(schedule, run.nominal_at)
    if run.due_at - run.nominal_at <= own + 0.001:
        return None
    to = f"from {facts.said(run.nominal_at)} to {facts.said(run.due_at)}"
    closed = _closed(facts, run.nominal_at) or _closed(facts, run.nominal_at + own)
    if _is_snoozed(run, own, closed):
        return Cause(Because.SNOOZED, f"it was snoozed {to}")
    if closed is not None:
        data = {"closed_by": closed.name, "reason": closed.reason.value}
        return Cause(Because.DEFERRED, f"it was deferred {to}: {closed.sentence}", data)
    away = [each for each in facts.incidents if each.begin <= run.queued_at and each.end >= run.nominal_at]
    why = "no scheduler fired it in time" if not away else _absent(facts, away[0])
    return Cause(Because.MADE_UP_FOR, f"its time was missed, so it was made up for ({why})")


def _is_snoozed(run: RunRow, own: float, closed: Closed | None) -> bool:
    """Check whether a person gave the run its due time. Schedulers make a deferred run a moment before the rules open,
    due then, and a missed one after its time."""
    opens = None if closed is None else closed.opens
    if opens is not None and 0 <= run.due_at - opens + 0.001 <= own + 0.002:
        return False
    if run.queued_at <= run.nominal_at + ON_TIME_SECONDS:
        return True
    return opens is not None and run.queued_at < opens and run.due_at - own - run.queued_at > PLANNED_AHEAD_SECONDS


def _closed(facts: RunFacts, instant: float) -> Closed | None:
    verdict = None if facts.rules is None else facts.rules.verdict(instant)
    return verdict if isinstance(verdict, Closed) else None


def _asked(facts: RunFacts) -> list[Cause]:
    run = facts.run
    by, data = facts.asked_by, {"asked_by": facts.asked_by}
    if run.trigger == Trigger.RUN_NOW:
        who = "" if by is None else f"{by} asked for it; "
        return [Cause(Because.ASKED_FOR, f"{who}it has nothing to do with the schedule", data)]
    if run.trigger == Trigger.RETRY:
        data = {"retry_of": None if run.origin is None else str(run.origin)}
        return [Cause(Because.RETRY_OF, f"a person asked for the run {run.origin} again", data)]
    if run.trigger == Trigger.BACKFILL:
        data |= {"backfill_id": None if run.origin is None else str(run.origin)}
        return [Cause(Because.BACKFILL, "it was asked for by a backfill" + (f" of {by}" if by else ""), data)]
    if run.trigger == Trigger.MISSED:
        return [Cause(Because.MADE_UP_FOR, "it fell into a pause and was made up for when the job was resumed")]
    return started_by(facts)


# ------------------------------------------------------------------------------------------ it waits


def _waiting(facts: RunFacts) -> Explanation:
    run, now = facts.run, facts.now
    data = _of_run(facts)
    if run.state is RunState.QUEUED and run.due_at > now and not run.blocked and not is_paused(facts):
        return _not_due(facts)
    code, words, more = _waits(facts)
    since = max(run.due_at, run.queued_at)
    data |= {"waiting_seconds": round(max(0.0, now - since), 3), **more}
    causes = (*started_by(facts), *ended_because(facts), *_along_the_way(facts))
    return Explanation(code=code, sentence=sentence(f"{facts.name} {words}"), data=data, causes=causes, run=run)


def _waits(facts: RunFacts) -> tuple[Because, str, dict[str, Any]]:
    run, now = facts.run, facts.now
    found = waits(facts)
    if found is not None:
        return found
    if run.blocked:
        first = _in_the_way(facts, now)
        which = "an earlier run of its job" if first is None else f"the run of {facts.said(first.nominal_at)}"
        data = {} if first is None else {"waits_for": str(first.run_id)}
        return Because.WAITING_OVERLAP, f"waits until {which} has ended{_by_overlap(facts)}", data
    if run.ready_at is not None and run.ready_at > now:
        failed = [each for each in facts.attempts if each.state is RunState.RETRYING]
        error = cause_in_words(failed[-1].error) if failed else ""
        words = f"will be tried again at {facts.said(run.ready_at)}, as attempt {run.attempt + 1}"
        words += f"; the last one failed: {error}" if error else ""
        return Because.WAITING_BACKOFF, words, {"ready_time": written(run.ready_at), "failures": run.failures}
    if not facts.active:
        return Because.WAITING_NO_EXECUTOR, "waits: no executor is active; start one", {}
    missing = None
    if facts.job is not None:
        offered = {name for each in facts.active for name in each.functions}
        missing = not_offered(facts.function, frozenset(offered))
        missing = missing or unserved(facts.job.lane, facts.function, facts.active, facts.job.namespace)
    if missing is not None:
        return Because.WAITING_NOT_OFFERED, f"waits: {missing}", _wanted(facts)
    if facts.favoured:
        words, data = _priority(facts)
        return Because.WAITING_PRIORITY, f"waits: {words}", data
    able = [each for each in facts.active if _can_take(facts, each)]
    slots, held = sum(each.slots for each in able), sum(each.held for each in able)
    if held >= slots:
        words = f"waits: the executors that can take it have no free slot ({held} of {slots} are in use)"
        return Because.WAITING_EXECUTORS_BUSY, words, {"slots": slots, "held": held}
    words = "is due, and an executor with a free slot can take it; it should be a moment"
    return Because.WAITING_TURN, words, {"slots": slots, "held": held}


def _not_due(facts: RunFacts) -> Explanation:
    run = facts.run
    moved = _moved(facts)
    words = f"{facts.name} is not due until {facts.said(run.due_at)}" + (f": {moved.sentence}" if moved else "")
    causes = (moved,) if moved else ()
    return Explanation(code=Because.NOT_DUE, sentence=sentence(words), data=_of_run(facts), causes=causes, run=run)


def _handed_out(facts: RunFacts) -> Explanation:
    run = facts.run
    if run.due_at > facts.now:
        return _not_due(facts)
    since = "" if run.dispatched_at is None else f" since {facts.said(run.dispatched_at)}"
    words = f"{facts.name} has been with the executor {run.executor}{since}, which has not said yet that it began"
    data = _of_run(facts, executor_id=str(run.executor))
    causes = tuple(_along_the_way(facts))
    return Explanation(code=Because.HANDED_OUT, sentence=sentence(words), data=data, causes=causes, run=run)


# ------------------------------------------------------------------------------------------ it did not run


def _never_began(facts: RunFacts) -> Explanation:
    run = facts.run
    if run.state is RunState.CANCELLED:
        who = (run.error or "").removeprefix("cancelled by ") if (run.error or "").startswith("cancelled by ") else None
        words = f"{facts.name} was cancelled{f' by {who}' if who else ''} before it began"
        if who is None and run.error:
            words += f": {run.error}"
        data = _of_run(facts, cancelled_by=who)
        return Explanation(code=Because.CANCELLED, sentence=sentence(words), data=data, run=run)
    words = f"{facts.name} ended as {run.state.value} before it began" + (f": {run.error}" if run.error else "")
    causes = (*started_by(facts), *ended_because(facts), *_along_the_way(facts), *went_on(facts))
    return Explanation(
        code=Because.FAILED_UNBEGUN, sentence=sentence(words), data=_of_run(facts), causes=causes, run=run
    )


def _skipped(facts: RunFacts) -> Explanation:
    run = facts.run
    code = _SKIPPED.get(run.reason or "", Because.SKIPPED)
    data: dict[str, Any] = {"status": run.state.value, "reason": run.reason, "occurrences": run.occurrences}
    words = facts.name
    if run.occurrences > 1 and run.until is not None:
        words = f"{run.occurrences} occurrences from {facts.said(run.nominal_at)} to {facts.said(run.until)}"
        data |= {"first": written(run.nominal_at), "until": written(run.until)}
        words += " were skipped"
    else:
        words += " was skipped"
    why, more = _why_skipped(facts, code)
    # A record of a person's wish says "skipped by", and by whom, itself.
    words = f"{words.removesuffix(' skipped')} {why}" if why.startswith("skipped by ") else f"{words}: {why}"
    if code is Because.SKIPPED_DST and why.endswith(_SKIPPED_TOO):
        # The record is named by a time just before the change, which means nothing to a person.
        were = "it was" if run.occurrences == 1 else "they were"
        words = f"on {facts.said(run.nominal_at)[:10]}, {why.removesuffix(_SKIPPED_TOO)}, so {were} skipped"
    return Explanation(code=code, sentence=sentence(words), data=data | more, run=run)


def _overlapped(facts: RunFacts, said: str) -> tuple[str, dict[str, Any]]:
    """The run that was in the way: one that went on, or one that came after it and took its place."""
    run = facts.run
    ended = facts.now if run.ended_at is None else run.ended_at
    if run.error == REPLACED_SENTENCE:
        later = [each for each in facts.earlier if each.nominal_at > run.nominal_at]
        by = min(later, key=lambda each: each.nominal_at, default=None)
        if by is None:
            return f"{said} (overlap: {Overlap.CANCEL_RUNNING.value})", {}
        words = f"the run of {facts.said(by.nominal_at)} took its place (overlap: {Overlap.CANCEL_RUNNING.value})"
        return words, {"replaced_by": str(by.run_id)}
    going = _in_the_way(facts, ended)
    if going is None:
        return f"{said}{_by_overlap(facts)}", {}
    words = f"the run of {facts.said(going.nominal_at)} was still unfinished{_by_overlap(facts)}"
    return words, {"unfinished_run": str(going.run_id)}


def _why_skipped(facts: RunFacts, code: Because) -> tuple[str, dict[str, Any]]:
    run = facts.run
    said = run.error or f"the reason on record is {run.reason}"
    if code is Because.SKIPPED_OVERLAP:
        return _overlapped(facts, said)
    if code is Because.SKIPPED_MISFIRE:
        last = run.nominal_at if run.until is None else run.until
        away = [each for each in facts.incidents if each.begin <= last + 1.0 and each.end >= run.nominal_at]
        noticed = "".join(f"; {_absent(facts, each)}" for each in away[:3])
        absences = [{"kind": each.kind, "from": written(each.begin), "to": written(each.end)} for each in away]
        return said + noticed, {"absences": absences}
    if code is Because.SKIPPED_PAUSED:
        return said, _still_paused(facts)
    if code in (Because.SKIPPED_CALENDAR, Because.SKIPPED_MAINTENANCE, Because.SKIPPED_STOPPED):
        closed = _closed(facts, run.nominal_at)
        same = closed is not None and closed.reason.value == run.reason
        return said, {"closed_by": closed.name if same and closed is not None else None}
    return said, {}


def _still_paused(facts: RunFacts) -> dict[str, Any]:
    """The person who paused the job, while that pause lasts; the name is not kept afterwards."""
    job = facts.job
    if job is None or job.paused_at is None or job.paused_at > facts.run.nominal_at:
        return {}
    return {"paused_by": job.paused_by, "paused_reason": job.pause_reason, "paused_time": written(job.paused_at)}
