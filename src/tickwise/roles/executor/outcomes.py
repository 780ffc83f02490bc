"""Turns the ending of an attempt into the outcome that the store records.

    Ending (verdict, reason, symptoms) ──┐
    Held (job's rules, what was asked) ──┴──► Outcome (SUCCESS · FAILED · RETRYING · CANCELLED · QUEUED)

Pure: same input, same outcome.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.domain.decision import SkipReason
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome, Trigger
from tickwise.domain.retry import (
    END_LOST,
    EXECUTOR_LOST,
    LEASE_OVER,
    OUTCOME_LOST,
    OUTPUT_LOST,
    RETRY_AFTER_MOST_SECONDS,
    RETRY_DEADLINE,
    UNKNOWN_OUTCOME,
    AttemptFailure,
    OnUnknown,
    deadline_sentence,
    resolve,
)
from tickwise.domain.rules.sentences import REVOKED
from tickwise.ports.runner import Ending, Verdict
from tickwise.roles.executor.held_runs import HeldRun

SUCCESS: Final = CODES[RunState.SUCCESS]
FAILED: Final = CODES[RunState.FAILED]
CANCELLED: Final = CODES[RunState.CANCELLED]
RETRYING: Final = CODES[RunState.RETRYING]
QUEUED: Final = CODES[RunState.QUEUED]
SKIPPED: Final = CODES[RunState.SKIPPED]
SCHEDULE: Final = int(Trigger.SCHEDULE)

UNBEGUN: Final = frozenset({Verdict.RELEASED, Verdict.UNOFFERED})
KILLED: Final = frozenset({"signal", "crashed"})
"""The reasons of an attempt whose process was ended from outside."""
NEVER: Final = 0.0
"""The start of an attempt that did not begin; its start may be on record, because it is recorded first."""
UNOFFERED_SECONDS: Final = 10.0
"""A run that cannot go on here goes back for this long: time for an executor that has it to take it."""
ERROR_LENGTH: Final = 4000
"""Characters of an error message that are stored; the whole is in the output."""
ENDED_UNTOLD: Final = "it ended, and the database lost its outcome when it was set back"
OUTCOME_UNTOLD: Final = "its outcome is lost"
LET_GO: Final = "its executor could not reach the store, and stopped it before its lease ended"


class Sequel(NamedTuple):
    """The next state of the run."""

    state: int
    reason: str | None
    error: str | None
    retry_at: float | None = None


def outcome_of(held: HeldRun, ending: Ending, chance: float) -> Outcome:
    """The outcome of an ending. `chance` is drawn by the caller, uniform in [0, 1)."""
    claimed = held.claimed
    sequel = _sequel(held, ending, chance)
    outcome = Outcome(
        claimed.run_id,
        claimed.token,
        sequel.state,
        NEVER if sequel.state == QUEUED and ending.verdict in UNBEGUN else ending.started,
        ending.ended,
        sequel.reason,
        _short(sequel.error),
        ending.result,
        sequel.retry_at,
        _is_followed(held, sequel),
    )
    return in_whole_characters(outcome)


def in_whole_characters(outcome: Outcome) -> Outcome:
    """With each lone surrogate replaced, as in an answer's headers that are not UTF-8: such a text can go nowhere."""
    reason, error, result = outcome.reason, outcome.error, outcome.result
    if all(text is None or text.isascii() for text in (reason, error, result)):
        return outcome
    return outcome._replace(reason=_whole(reason), error=_whole(error), result=_whole(result))


def _whole(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()


def _sequel(held: HeldRun, ending: Ending, chance: float) -> Sequel:
    verdict, reason, error = ending.verdict, ending.reason, ending.error
    if verdict is Verdict.OK:
        return Sequel(SUCCESS, reason, error)
    if held.cancelling and verdict is not Verdict.FAILED:
        return Sequel(CANCELLED, "cancelled", error)
    if verdict is Verdict.CANCELLED:
        if held.fenced:
            return _by_on_unknown(held.work.on_unknown, LEASE_OVER, LET_GO)
        return Sequel(CANCELLED, "cancelled", error)
    if verdict is Verdict.UNKNOWN:
        return _by_on_unknown(held.work.on_unknown, OUTCOME_LOST, error or OUTCOME_UNTOLD)
    if verdict is Verdict.RELEASED:
        return Sequel(QUEUED, reason, error)
    if verdict is Verdict.UNOFFERED:
        asked = ending.retry_after_seconds
        pause = UNOFFERED_SECONDS if asked is None else min(max(asked, 0.0), RETRY_AFTER_MOST_SECONDS)
        return Sequel(QUEUED, reason, error, ending.ended + pause)
    return _failed(held, ending, chance)


def _failed(held: HeldRun, ending: Ending, chance: float) -> Sequel:
    # The task itself is done, only its output is lost: a job that must not run twice is not repeated for it.
    done = ending.reason == OUTPUT_LOST and held.work.on_unknown is not OnUnknown.RERUN
    failure = AttemptFailure(
        held.claimed.failures + 1,
        held.claimed.due,
        ending.ended,
        ending.reason,
        ending.symptoms,
        ending.verdict is Verdict.INVALID or done,
        ending.retry_after_seconds,
    )
    resolution = resolve(held.work.retry_policy(), failure, chance)
    if resolution.retry_at is not None:
        return Sequel(RETRYING, ending.reason, ending.error, resolution.retry_at)
    return Sequel(FAILED, ending.reason, _joined(ending.error, resolution.why))


def _by_on_unknown(on_unknown: OnUnknown, reason: str, why: str) -> Sequel:
    """Decide on an attempt that began and whose outcome is not known, by the rule of its job. Its effects are as
    unknown as after the loss of the executor. `reason` is that of an attempt that is followed by another one."""
    match on_unknown:
        case OnUnknown.RERUN:
            return Sequel(QUEUED, reason, f"{why}; it runs again")
        case OnUnknown.FAIL:
            return Sequel(FAILED, EXECUTOR_LOST, f"{why}; its job says not to run it again (on_unknown)")
        case OnUnknown.HOLD:
            return Sequel(FAILED, UNKNOWN_OUTCOME, f"{why}; a person must find out its effects until then")


def _is_followed(held: HeldRun, sequel: Sequel) -> bool:
    """Check whether the job names other jobs to start after this outcome. After an unknown outcome none starts before a
    person has decided it."""
    if sequel.state == SUCCESS:
        return bool(held.work.then)
    return sequel.state == FAILED and sequel.reason != UNKNOWN_OUTCOME and bool(held.work.on_failure)


def is_too_late(held: HeldRun, now: float) -> bool:
    """Check whether the next attempt after a failure would begin after its job's deadline."""
    deadline = held.work.retry.deadline_seconds
    return held.claimed.failures > 0 and deadline is not None and now > held.claimed.due + deadline


def too_late(held: HeldRun, now: float) -> Outcome:
    """The end of such a run. It begins no more."""
    error = deadline_sentence(held.work.retry.deadline_seconds or 0.0)
    return _unbegun(held.claimed, FAILED, now, RETRY_DEADLINE, error)._replace(follow=bool(held.work.on_failure))


def is_expired(held: HeldRun, now: float) -> bool:
    """Check whether a run by schedule, which never began, waited for an executor beyond its job's deadline. A run whose
    executor was lost may have begun, so it is never skipped for that."""
    claimed, deadline = held.claimed, held.work.start_deadline_seconds
    if deadline is None or now <= claimed.due + deadline:
        return False
    return claimed.trigger == SCHEDULE and claimed.attempt == 1 and not claimed.failures and not claimed.crashes


def expired(held: HeldRun, now: float) -> Outcome:
    """The end of such a run: it is on record as skipped."""
    late, deadline = now - held.claimed.due, held.work.start_deadline_seconds or 0.0
    error = (
        f"no executor could start it in time: it waited {late:.0f} s, and its deadline is {deadline:g} s "
        "(start_deadline_seconds)"
    )
    return _unbegun(held.claimed, SKIPPED, now, SkipReason.EXPIRED.value, error)._replace(started=NEVER)


def given_back(held: HeldRun, now: float) -> Outcome:
    """A run that has not begun goes back."""
    return _unbegun(held.claimed, QUEUED, now)._replace(started=NEVER)


def never_answered(claimed: Claimed, now: float) -> Outcome:
    """A run of a claim whose answer was lost goes back as if it had never been claimed."""
    return _unbegun(claimed, QUEUED, now)._replace(started=NEVER)


def end_lost(claimed: Claimed, on_unknown: OnUnknown, now: float) -> Outcome:
    """The outcome of an attempt whose own outcome is lost."""
    match on_unknown:
        case OnUnknown.RERUN:
            return _unbegun(claimed, QUEUED, now, END_LOST, f"{ENDED_UNTOLD}; it runs again")
        case OnUnknown.FAIL:
            error = f"{ENDED_UNTOLD}; its job says not to run it again (on_unknown)"
            # The sequence reads later whether the job names others that go on from a failure.
            return _unbegun(claimed, FAILED, now, EXECUTOR_LOST, error)._replace(follow=True)
        case OnUnknown.HOLD:
            error = f"{ENDED_UNTOLD}; a person must find out its effects"
            return _unbegun(claimed, FAILED, now, UNKNOWN_OUTCOME, error)


def called_off(held: HeldRun, now: float, *, revoked: bool) -> Outcome:
    """The end of a run that was asked back before it began; else it was cancelled."""
    state, reason = (SKIPPED, REVOKED) if revoked else (CANCELLED, "cancelled")
    return _unbegun(held.claimed, state, now, reason)


def unreadable(claimed: Claimed, now: float, detail: str) -> Outcome:
    """A defect of ours or of a plugin: the run fails with it instead of coming back for ever."""
    return _unbegun(claimed, FAILED, now, "invalid", f"its definition cannot be read: {detail}")


def _unbegun(claimed: Claimed, state: int, now: float, reason: str | None = None, error: str | None = None) -> Outcome:
    return Outcome(claimed.run_id, claimed.token, state, now, now, reason, _short(error))


def _short(error: str | None) -> str | None:
    return error[:ERROR_LENGTH] if error is not None and len(error) > ERROR_LENGTH else error


def _joined(error: str | None, why: str | None) -> str | None:
    """Both, of which the second is never cut off."""
    if why is None:
        return error
    if not error:
        return why
    kept = error[: ERROR_LENGTH - len(why) - 2].rstrip()
    return f"{kept}{'' if kept.endswith(('.', '!', '?')) else '.'} {why}"
