"""The waits of a run for a limit or a queue, its end, and the runs before and after it.

A part of `reasons`: it uses the same facts, and claims nothing that they do not show.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from tickwise.control.explain.explanations import Because, Cause, Followed, RunFacts, stop_data, stop_words
from tickwise.control.jobs.confining import below_floor_waits
from tickwise.control.jobs.policies import key_in_words
from tickwise.control.jobs.replans import pause_words
from tickwise.control.times import written
from tickwise.domain.excerpts import cause_line, one_line
from tickwise.domain.lifecycle import FINAL, JobStatus, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import EXECUTOR_LOST, RETRY_DEADLINE, UNKNOWN_OUTCOME, After
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.domain.rules.sentences import FAILED_SENTENCE, HELD_SENTENCE
from tickwise.ports.store import Incident, LetterRow, LetterStatus, RunRow
from tickwise.roles.shared.served_queues import in_use, unserved

BY_RULE: Final = "Its job says not to try again after"
BY_DEADLINE: Final = "(retry.deadline_seconds)"
"""The end of the error of a run that was given up by a rule of its job, or for its deadline (`domain.retry`)."""
TOLD_HOLDERS: Final = 5
MAX_CAUSE_CHARACTERS: Final = 200
POISON: Final = "poison"
"""The reason of a run that was given up, and of the last of its attempts that were lost."""

_LIMITS: Final[dict[str, tuple[Because, str, str]]] = {
    "cpu_limit": (Because.LIMIT_CPU, "it used more processor time than its job allows", "cpu_seconds"),
    "memory_limit": (Because.LIMIT_MEMORY, "it used more memory than its job allows", "memory_bytes"),
    "process_limit": (Because.LIMIT_PROCESSES, "it had more processes and threads than its job allows", "processes"),
    "disk_limit": (Because.LIMIT_DISK, "it kept more in its work folder than is allowed", "disk_bytes"),
    "file_limit": (Because.LIMIT_FILES, "it kept more files in its work folder than its job allows", "files"),
    "output_limit": (Because.LIMIT_OUTPUT, "it wrote more than its job allows", "output_bytes"),
}


class Waits(NamedTuple):
    """The cause of a run's wait."""

    code: Because
    words: str
    """The words after its name in a sentence."""
    data: dict[str, Any]


def waits(facts: RunFacts) -> Waits | None:
    """A stop, a slot, its turn under a rate, or a queue that stands still; None: none of these."""
    run, now = facts.run, facts.now
    stop = facts.stop_at(now)
    if stop is not None:
        return Waits(Because.WAITING_STOPPED, f"waits: {stop_words(stop, facts.said)}", stop_data(stop))
    if run.blocked and run.limit_key == QUOTA_KEY:
        return _for_quota(facts)
    if run.blocked and run.limit_key is not None:
        return _for_slot(facts, run.limit_key)
    if is_paused(facts):
        return _for_resume(facts)
    if facts.is_below_floor:
        floor = facts.least_isolation
        return Waits(Because.WAITING_ISOLATION, f"waits: {below_floor_waits(floor)}", {"min_isolation": floor.value})
    hold = None if facts.queue is None else facts.queue.hold
    if facts.queue is not None and facts.queue.held and hold is not None:
        until = "until it is resumed" if hold.until is None else f"until {facts.said(hold.until)}"
        why = f": {hold.reason}" if hold.reason else ""
        words = f"waits: its queue {facts.queue.queue!r} was put on hold by {hold.by}, {until}{why}"
        data = {
            "queue": facts.queue.queue,
            "held_by": hold.by,
            "held_until": None if hold.until is None else written(hold.until),
            "reason": hold.reason,
        }
        return Waits(Because.WAITING_QUEUE_HELD, words, data)
    if run.ready_at is None or run.ready_at <= now:
        return None
    if not run.failures and (capacity := _for_capacity(facts)) is not None:
        return capacity
    at = facts.said(run.ready_at)
    if run.paced:
        key = "" if facts.plan is None or facts.plan.rate is None else key_in_words(facts.plan.rate.key)
        words = f"waits for its turn under the rate limit{key}, at {at}"
        return Waits(Because.WAITING_RATE, words, {"ready_time": written(run.ready_at)})
    if run.state is RunState.QUEUED and facts.circuits and facts.circuits[-1].end >= now:
        return _for_host(facts.circuits[-1], at, run.ready_at)
    if run.state is RunState.QUEUED and facts.secrets_away and facts.secrets_away[-1].end >= now:
        return _for_secrets(facts.secrets_away[-1], at, run.ready_at)
    if run.state is RunState.QUEUED and run.due_at <= now:
        words = f"was given back by an executor that cannot run it for now, and is offered again at {at}"
        return Waits(Because.WAITING_GIVEN_BACK, words, {"ready_time": written(run.ready_at)})
    return None


def is_paused(facts: RunFacts) -> bool:
    """Check whether a pause of its job holds the run back. A pause concerns runs of the schedule alone."""
    run, job = facts.run, facts.job
    if job is None or job.status is not JobStatus.PAUSED or run.trigger != Trigger.SCHEDULE or run.blocked:
        return False
    return run.state is RunState.QUEUED and (run.ready_at is None or run.ready_at > max(facts.now, run.due_at))


def _for_resume(facts: RunFacts) -> Waits:
    job = facts.job
    until = None if job is None else job.pause_until
    paused = "paused" if job is None else pause_words(job, facts.said)
    words = f"waits: its job is {paused}; then it runs, and not before {facts.said(facts.run.due_at)}"
    data = {
        "paused_by": None if job is None else job.paused_by,
        "paused_until": None if until is None else written(until),
        "reason": None if job is None else job.pause_reason,
    }
    return Waits(Because.WAITING_PAUSED, words, data)


def _for_host(open_circuit: Incident, at: str, ready_at: float) -> Waits:
    words = f"waits: {open_circuit.who} keeps failing, so it is left alone for a while; it is offered again at {at}"
    data = {"host": open_circuit.who, "open_from": written(open_circuit.begin), "ready_time": written(ready_at)}
    return Waits(Because.WAITING_CIRCUIT, words, data)


def _for_secrets(away: Incident, at: str, ready_at: float) -> Waits:
    words = f"waits: the provider of {away.who} does not answer its executor; it is offered again at {at}"
    data = {"secret": away.who, "away_from": written(away.begin), "ready_time": written(ready_at)}
    return Waits(Because.WAITING_SECRETS, words, data)


def _for_slot(facts: RunFacts, key: str) -> Waits:
    """All slots of its concurrency limit are taken."""
    limit = None if facts.plan is None or facts.plan.concurrency is None else facts.plan.concurrency.limit
    slots = "its slot" if limit is None else "the one slot" if limit == 1 else f"one of the {limit} slots"
    words = f"waits for {slots} of its concurrency limit ({key})"
    words += _taken_by(facts)
    data = {"limit_key": key, "limit": limit, "taken_by": [str(run.run_id) for run, _ in facts.holders]}
    return Waits(Because.WAITING_SLOT, words, data)


def _for_capacity(facts: RunFacts) -> Waits | None:
    """The counted capacity for which an executor gave it back; None: none."""
    job, demand = facts.job, facts.demand
    if job is None or demand is None or not facts.active:
        return None
    needs = {"needs": dict(demand)}
    missing = unserved(job.lane, facts.function, facts.active, job.namespace, demand)
    if missing is not None:
        return Waits(Because.WAITING_NOT_OFFERED, f"waits: {missing}", needs)
    able = [each for each in facts.active if unserved(job.lane, facts.function, [each], job.namespace, demand) is None]
    taken = in_use(demand, able)
    return None if taken is None else Waits(Because.WAITING_CAPACITY, f"waits: {taken}", needs)


def _for_quota(facts: RunFacts) -> Waits:
    """As many runs of its namespace go on as its quota allows."""
    quota = facts.concurrent_runs
    if quota is None:
        return Waits(Because.WAITING_QUOTA, "waits: the quota of its namespace was taken away, and it goes on soon", {})
    words = (
        f"waits for one of the runs that its namespace {facts.run.namespace!r} may have at once, {quota} by its quota "
    )
    words += f"concurrent_runs{_taken_by(facts)}"
    taken_by = [str(run.run_id) for run, _ in facts.holders]
    return Waits(Because.WAITING_QUOTA, words, {"concurrent_runs": quota, "taken_by": taken_by})


def _taken_by(facts: RunFacts) -> str:
    """The runs that have the slots."""
    if not facts.holders:
        return ""
    shown = ", ".join(f"{run.run_id} of the job {name!r}" for run, name in facts.holders[:TOLD_HOLDERS])
    more = len(facts.holders) - TOLD_HOLDERS
    words = f", which {'is' if len(facts.holders) == 1 else 'are'} taken by {shown}"
    return words + (f" and {more} more" if more > 0 else "")


# ------------------------------------------------------------------------------------------ on the way


def ended_because(facts: RunFacts) -> list[Cause]:
    """The cause of its end, where it tells more than its error."""
    found = [*_asked_to_stop(facts), *_by_rule_again(facts)]
    run = facts.run
    if run.state is not RunState.FAILED:
        return found
    if run.reason in _LIMITS:
        code, words, field = _LIMITS[run.reason]
        value = None if facts.plan is None else getattr(facts.plan.limits, field)
        said = "" if value is None else f" (limits.{field}: {value:.15g})"
        found.append(Cause(code, words + said, {"limit": field, "allowed": value}))
    if run.reason == UNKNOWN_OUTCOME:
        found.append(_unknown(facts))
    elif run.reason == EXECUTOR_LOST:
        words = f"{_lost(run)}, and its job says to fail then (on_unknown: fail)"
        found.append(Cause(Because.FAILED_EXECUTOR_LOST, words))
    if run.reason == RETRY_DEADLINE or (run.error or "").rstrip().endswith(f"{BY_DEADLINE}."):
        deadline = None if facts.plan is None else facts.plan.retry.deadline_seconds
        after = "" if deadline is None else f" of {deadline:g} s"
        words = f"it was not tried again, for its deadline{after} was over"
        found.append(Cause(Because.NOT_RETRIED_DEADLINE, words, {"deadline_seconds": deadline}))
    elif BY_RULE in (run.error or ""):
        _, _, what = (run.error or "").rpartition(BY_RULE)
        words = f"it was not tried again, for its job says so after{what.rstrip().rstrip('.')} (retry.on)"
        found.append(Cause(Because.NOT_RETRIED_RULE, words, {"failed_of": what.strip().rstrip(".")}))
    if run.reason != UNKNOWN_OUTCOME:  # of that one, its letter is told above
        found += [] if run.reason == POISON else [_failed(facts)]  # its attempts tell what it was given up for
        found += [] if facts.letter is None else [_letter(facts.letter)]
    return found


def _failed(facts: RunFacts) -> Cause:
    """The failure of its last attempt, and the number of attempts."""
    run = facts.run
    error = cause_in_words(run.error)
    times = "" if run.failures < 2 else f" {run.failures} times, the last time"
    words = f"it failed{times}" + (f" with {error!r}" if error else f" with the reason {run.reason}")
    retries = None if facts.plan is None else facts.plan.max_retries
    if retries is not None and run.failures > retries:
        words += "; it had no retries (max_retries: 0)" if retries == 0 else f"; all {retries} retries are used up"
    data = {"reason": run.reason, "error": error or None, "failures": run.failures, "max_retries": retries}
    return Cause(Because.FAILED, words, data)


def _letter(letter: LetterRow) -> Cause:
    """The handling of its dead letter."""
    by = f" by {letter.settled_by}" if letter.settled_by else ""
    words = {
        LetterStatus.OPEN: "its dead letter waits for a person: redrive it, or discard it",
        LetterStatus.REDRIVEN: f"its dead letter was redriven as {letter.redriven_as}{by}",
        LetterStatus.DISCARDED: f"its dead letter was discarded{by}",
        LetterStatus.EXPIRED: "its dead letter expired without a decision",
    }
    data = {
        "dead_letter": letter.status.value,
        "redriven_as": None if letter.redriven_as is None else str(letter.redriven_as),
    }
    return Cause(Because.DEAD_LETTER, words.get(letter.status, f"its dead letter is {letter.status.value}"), data)


def cause_in_words(error: str | None) -> str:
    """Of an error, for a sentence: the line that says most, at most 200 characters of it; a cut one ends in `…`."""
    return one_line(cause_line(error), MAX_CAUSE_CHARACTERS)


def _unknown(facts: RunFacts) -> Cause:
    """Its outcome was lost, and its job wants a person to say what is true."""
    words = f"{_lost(facts.run)}, so what it has done is unknown (on_unknown: hold)"
    letter = facts.letter
    if letter is None:
        return Cause(Because.UNKNOWN_OUTCOME, words)
    data = {
        "dead_letter": letter.status.value,
        "outcome": None if letter.resolution is None else letter.resolution.value,
        "redriven_as": None if letter.redriven_as is None else str(letter.redriven_as),
    }
    by = f" by {letter.settled_by}" if letter.settled_by else ""
    said = {
        LetterStatus.HELD: "; it waits until a person decides",
        LetterStatus.RESOLVED: f"; it was decided as {letter.resolution}{by}",
        LetterStatus.REDRIVEN: f"; it was run again as {letter.redriven_as}{by}",
        LetterStatus.DISCARDED: f"; its dead letter was discarded{by}",
        LetterStatus.EXPIRED: "; the time for a decision is over, and none is needed any more",
    }
    return Cause(Because.UNKNOWN_OUTCOME, words + said.get(letter.status, ""), data)


def _lost(run: RunRow) -> str:
    """The way in which its outcome was lost. An error of the executor's own says another way than its loss."""
    if run.error is None or run.error in (FAILED_SENTENCE, HELD_SENTENCE):
        return "its executor was lost after it had begun"
    return f"its outcome was lost after it had begun ({cause_line(run.error)[:200].partition(';')[0]})"


def _asked_to_stop(facts: RunFacts) -> list[Cause]:
    run, asked = facts.run, facts.run.cancel
    if asked is None:
        return []
    who = (asked.error or "").removeprefix("cancelled by ") if (asked.error or "").startswith("cancelled by ") else None
    words = f"{who or 'somebody'} asked to stop it at {facts.said(asked.asked_at)}"
    words += "" if who or not asked.error else f" ({asked.error})"
    if asked.heard_at is None:
        words += "" if run.state in FINAL else "; its executor has not heard of it yet"
    else:
        words += f"; its executor heard of it at {facts.said(asked.heard_at)}"
    data = {
        "cancelled_by": who,
        "asked_time": written(asked.asked_at),
        "heard_time": None if asked.heard_at is None else written(asked.heard_at),
    }
    return [Cause(Because.ASKED_TO_STOP, words, data)]


def _by_rule_again(facts: RunFacts) -> list[Cause]:
    """Attempts that were followed by another one only, or also, because a rule of the job says so."""
    if facts.plan is None:
        return []
    rules = facts.plan.retry.on
    for each in facts.attempts:
        if each.state is RunState.RETRYING and each.reason is not None:
            named = rules.reason.get(each.reason) is After.RETRY
            if named or each.reason == "invalid":
                words = f"its job says to try again after the reason {each.reason} (retry.on)"
                return [Cause(Because.RETRIED_BY_RULE, words, {"failed_of": each.reason})]
    return []


# ------------------------------------------------------------------------------------------ sequences


def started_by(facts: RunFacts) -> list[Cause]:
    """The run of another job whose end started this one."""
    run = facts.run
    if run.trigger != Trigger.SEQUENCE:
        return []
    data: dict[str, Any] = {"started_by": None if run.origin is None else str(run.origin)}
    if facts.origin is None:
        return [Cause(Because.STARTED_BY_SEQUENCE, f"the end of the run {run.origin} started it", data)]
    before, name = facts.origin
    words = f"the run {before.run_id} of the job {name!r} started it when it ended as {before.state.value}"
    return [Cause(Because.STARTED_BY_SEQUENCE, words, data | {"started_by_job": str(before.job_id)})]


def went_on(facts: RunFacts) -> list[Cause]:
    """The jobs that its end started, and those that it did not."""
    found: list[Cause] = []
    for each in facts.followed:
        code, words = _followed(each)
        data = {"job_id": str(each.job_id), "run_id": None if each.run is None else str(each.run.run_id)}
        found.append(Cause(code, words, data))
    return found


def _followed(each: Followed) -> tuple[Because, str]:
    name = f"the job {each.name!r} ({each.field})"
    if each.run is not None and each.run.state is not RunState.SKIPPED:
        return Because.SUCCESSOR_STARTED, f"its end started the run {each.run.run_id} of {name}"
    if each.run is not None:
        why = "it was paused" if each.run.reason == "paused" else _skipped(each.run)
        return Because.SUCCESSOR_NOT_STARTED, f"its end did not start {name}, for {why}"
    if each.status is None or each.status is JobStatus.CANCELLED:
        why = "it is gone" if each.status is None else "it is cancelled"
        return Because.SUCCESSOR_NOT_STARTED, f"its end did not start {name}, for {why}"
    return Because.SUCCESSOR_NOT_STARTED, f"its end has not started {name} yet"


def _skipped(run: RunRow) -> str:
    return run.error or f"it was skipped: {run.reason}"
