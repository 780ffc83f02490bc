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
)
from tickwise.control.explain.lateness import (
    absent_words,
    by_overlap,
    can_take,
    first_delay,
    past_waits,
    priority_words,
    wanted,
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
from tickwise.ports.store import RunRow
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
_ON_THE_WAY: Final = (
    Because.EXECUTOR_LOST, Because.EXECUTOR_LEFT, Because.RETRIED, Because.RETRIED_BY_RULE, Because.NOT_RETRIED_RULE,
    Because.NOT_RETRIED_DEADLINE, Because.UNKNOWN_OUTCOME, Because.FAILED_EXECUTOR_LOST, Because.ASKED_TO_STOP,
    Because.LIMIT_CPU, Because.LIMIT_MEMORY, Because.LIMIT_PROCESSES, Because.LIMIT_OUTPUT,
)  # fmt: skip


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
        causes.append(first_delay(facts, began))
    ended = ended_because(facts)
    causes += [*ended, *_along_the_way(facts)]
    moved = _moved(facts)
    causes += [moved] if moved else []
    causes += _asked(facts)
    causes += _waited_too(facts, causes)
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
    why = "no scheduler fired it in time" if not away else absent_words(facts, away[0])
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


def _waited_too(facts: RunFacts, told: Sequence[Cause]) -> list[Cause]:
    """The waits that are over, beside those that are told already."""
    found: list[Cause] = []
    for each in past_waits(facts):
        is_over = each.end < facts.now and each.end - each.begin > ON_TIME_SECONDS
        if is_over and each.cause not in told and each.cause not in found:
            found.append(each.cause)
    return found


def _waiting(facts: RunFacts) -> Explanation:
    run, now = facts.run, facts.now
    data = _of_run(facts)
    if run.state is RunState.QUEUED and run.due_at > now and not run.blocked and not is_paused(facts):
        return _not_due(facts)
    code, words, more = _waits(facts)
    since = max(run.due_at, run.queued_at)
    data |= {"waiting_seconds": round(max(0.0, now - since), 3), **more}
    causes = [*started_by(facts), *ended_because(facts), *_along_the_way(facts)]
    causes += _waited_too(facts, causes)
    return Explanation(code=code, sentence=sentence(f"{facts.name} {words}"), data=data, causes=tuple(causes), run=run)


def _waits(facts: RunFacts) -> tuple[Because, str, dict[str, Any]]:
    run, now = facts.run, facts.now
    found = waits(facts)
    if found is not None:
        return found
    if run.blocked:
        first = _in_the_way(facts, now)
        which = "an earlier run of its job" if first is None else f"the run of {facts.said(first.nominal_at)}"
        data = {} if first is None else {"waits_for": str(first.run_id)}
        return Because.WAITING_OVERLAP, f"waits until {which} has ended{by_overlap(facts)}", data
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
        return Because.WAITING_NOT_OFFERED, f"waits: {missing}", wanted(facts)
    if facts.favoured:
        words, data = priority_words(facts)
        return Because.WAITING_PRIORITY, f"waits: {words}", data
    able = [each for each in facts.active if can_take(facts, each)]
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
        return f"{said}{by_overlap(facts)}", {}
    words = f"the run of {facts.said(going.nominal_at)} was still unfinished{by_overlap(facts)}"
    return words, {"unfinished_run": str(going.run_id)}


def _why_skipped(facts: RunFacts, code: Because) -> tuple[str, dict[str, Any]]:
    run = facts.run
    said = run.error or f"the reason on record is {run.reason}"
    if code is Because.SKIPPED_OVERLAP:
        return _overlapped(facts, said)
    if code is Because.SKIPPED_MISFIRE:
        last = run.nominal_at if run.until is None else run.until
        away = [each for each in facts.incidents if each.begin <= last + 1.0 and each.end >= run.nominal_at]
        noticed = "".join(f"; {absent_words(facts, each)}" for each in away[:3])
        absences = [{"kind": each.kind, "from": written(each.begin), "to": written(each.end)} for each in away]
        return said + noticed, {"absences": absences}
    if code is Because.SKIPPED_PAUSED:
        return said, _still_paused(facts)
    if code in (Because.SKIPPED_CALENDAR, Because.SKIPPED_MAINTENANCE, Because.SKIPPED_STOPPED):
        closed = _closed(facts, run.nominal_at)
        same = closed is not None and closed.reason.value == run.reason
        return said, {"closed_by": closed.name if same and closed is not None else None}
    if code is Because.SKIPPED_EXPIRED and facts.job is not None:
        delay = first_delay(facts, facts.now if run.ended_at is None else run.ended_at)
        if delay.code is not Because.LATE:
            return f"{said.rstrip('.')}; {delay.sentence}", delay.data
    return said, {}


def _still_paused(facts: RunFacts) -> dict[str, Any]:
    """The person who paused the job, while that pause lasts; the name is not kept afterwards."""
    job = facts.job
    if job is None or job.paused_at is None or job.paused_at > facts.run.nominal_at:
        return {}
    return {"paused_by": job.paused_by, "paused_reason": job.pause_reason, "paused_time": written(job.paused_at)}
