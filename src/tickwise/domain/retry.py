"""The decision after a failure: the time of the next attempt, or none, with the reason.

A failure is counted per run in the store; losing an executor is a crash, counted apart and capped by `CRASHES_MAX`. The
delay before retry n (n = 1 for the first) is

    fixed         base
    linear        base × n, at most cap
    exponential   base × factor^(n − 1), at most cap
    list          the n-th of the list; then the last, again and again. The cap says nothing of it

and is then moved by up to ± jitter of itself, so that jobs that failed together do not return together. What the task
itself asked for (`Retry-After`) makes it longer, never shorter.

Before that, `on` says which failures are worth another attempt. The most special rule wins: what exactly failed (an
exit code, a status, an exception) before its `reason`; a number before a range, a narrow range before a wide one, a
range before `5xx`; of exceptions the class itself before its bases.

Invariant: no attempt is planned for a time after the deadline, nor more than `max_retries` of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tickwise.domain.errors import Invalid

CRASHES_MAX: Final = 3
"""A run whose recorded starts were lost with their executor this often is quarantined: `FAILED`, reason `poison`."""
CIRCUIT_OPEN: Final = "circuit_open"
"""The host that its task calls keeps failing, so it was given back before it began."""
TOKEN_MISSING: Final = "identity_token_missing"
"""Its identity token cannot be signed for now, so it was given back before it began."""
TOKEN_REFUSED: Final = "identity_token_refused"
"""It can have no identity token as the settings are."""
RETRY_AFTER_MOST_SECONDS: Final = 86_400.0
"""The longest that a task may put its own retry off."""
MAX_RULES: Final = 100
"""Rules of one kind of a job."""
MAX_NAME: Final = 300
"""Characters of an exception's name in a rule."""
EXIT_CODES: Final = (1, 255)
STATUSES: Final = (100, 599)

# Reasons that end a run, or give it back, without its task having failed: no rule is ever asked about them.
_NO_FAILURES: Final = frozenset(
    (
        "busy", "cancelled", CIRCUIT_OPEN, "end_lost", "engine_away", "executor_left", "executor_lost",
        "isolation_missing", "lease_lost", "lease_over", "outcome_lost", "pod_disrupted", "pod_pending", "poison",
        "retry_deadline", "revoked", "secrets_away", "starter_lost", TOKEN_MISSING, "unknown_function",
        "unknown_outcome",
    )
)  # fmt: skip
FAILURES: Final = frozenset(
    (
        "address_refused", "cpu_limit", "crashed", "directory_missing", "disk_limit", "error", "exit_code",
        "file_limit", "http_error", "http_status", TOKEN_REFUSED, "interpreter_missing", "interpreter_unusable",
        "invalid", "memory_limit", "module_missing", "not_started", "output_limit", "output_lost", "process_limit",
        "python_too_old", "result", "run_as_refused", "run_as_unknown", "secret_missing", "signal", "timeout",
        "unkillable",
    )
)  # fmt: skip
"""The reasons with which an attempt fails whose task is of a kind of ours; kinds of others may have more."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")
_RANGE = re.compile(r"(0|[1-9][0-9]{0,3})-(0|[1-9][0-9]{0,3})")
_CLASS = re.compile(r"([1-5])xx")
_REASON = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ERROR = re.compile(r"[^\W\d]\w*(\.([^\W\d]\w*|<locals>))*")


class Backoff(StrEnum):
    """The growth of the delay from one retry to the next."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    LIST = "list"


class After(StrEnum):
    """The rule of a job for failures of one kind."""

    RETRY = "retry"
    FAIL = "fail"


class OnUnknown(StrEnum):
    """The policy for a run whose executor was lost after its start was recorded: its effect is unknown."""

    RERUN = "rerun"
    """It runs again, elsewhere."""
    FAIL = "fail"
    """It ends FAILED, reason `executor_lost`."""
    HOLD = "hold"
    """It ends FAILED, reason `unknown_outcome`, and its dead letter waits until a person says what is true."""


EXECUTOR_LOST: Final = "executor_lost"
UNKNOWN_OUTCOME: Final = "unknown_outcome"
LEASE_OVER: Final = "lease_over"
"""The reason of an attempt that its executor stopped because it could not hold it any longer: it could not reach the
store."""
END_LOST: Final = "end_lost"
"""The reason of a repeated attempt whose end the store acknowledged and then lost, when a standby took over or a backup
was restored."""
OUTCOME_LOST: Final = "outcome_lost"
"""The reason of an attempt whose task ended without its executor learning how: the process that had started it was
killed."""
BEGUN_UNTOLD: Final = frozenset({LEASE_OVER, END_LOST, OUTCOME_LOST})
"""Reasons with which a run is given back that had begun, perhaps without the store knowing it."""
OUTPUT_LOST: Final = "output_lost"
"""The reason of an attempt that ended well and counts as failed: its output could not be stored."""
SECRET_MISSING: Final = "secret_missing"
"""A secret that its task names is not there. The next attempt would lack it too."""
OUTPUT_LIMIT: Final = "output_limit"
"""The reason of an attempt that wrote more than its job allows. The next would write as much."""
SECRETS_AWAY: Final = "secrets_away"
"""The provider of a secret that its task names does not answer, so the run was given back before it began."""
STARTER_LOST: Final = "starter_lost"
"""The reason of a run that was given back before it began: the processes that start tasks keep ending."""
ISOLATION_MISSING: Final = "isolation_missing"
"""The reason of a run that was given back before it began: its executor cannot confine it as its job says."""
ENGINE_AWAY: Final = "engine_away"
"""The reason of a run that was given back before it began: the container engine of its executor does not answer."""
POD_PENDING: Final = "pod_pending"
"""The reason of a run that was given back before it began: no node took its pod in time, or a quota was full."""
POD_DISRUPTED: Final = "pod_disrupted"
"""The reason of a run that was given back before it began: its pod was evicted, preempted or deleted meanwhile."""
_LIKELY_AGAIN: Final = (
    "It is not tried again, as the next attempt would write as much; if you know better, retry.on.reason "
    '{"output_limit": "retry"} of the job asks for it.'
)
RETRY_DEADLINE: Final = "retry_deadline"
"""The reason of a run that ended because its next attempt would have begun after its deadline: it waited too long for
its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """The rules of a job for failures, by symptom; keys as people write them (`check_rules`)."""

    exit_code: Mapping[str, After] = field(default_factory=dict)
    error: Mapping[str, After] = field(default_factory=dict)
    status: Mapping[str, After] = field(default_factory=dict)
    reason: Mapping[str, After] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A job's own rule. Seconds everywhere; `jitter` is a share of the delay, 0 to 1."""

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.2
    delays_seconds: Sequence[float] = ()
    """With LIST, at least one."""
    deadline_seconds: float | None = None
    """The time after the due time from which no further attempt begins."""
    on: RetryRules = field(default_factory=RetryRules)


class AttemptFailure(NamedTuple):
    """An attempt that failed. Instants are on the store's clock."""

    failures: int
    """Failures of the run, this one included."""
    due: float
    """The due time of the run."""
    at: float
    """The end of the attempt."""
    reason: str | None
    symptoms: Sequence[str] = ()
    """The symptoms of the failure, the most special first (`Ending.symptoms`)."""
    permanent: bool = False
    """It cannot succeed as it is, as far as its runner can tell."""
    retry_after_seconds: float | None = None
    """The delay that the task itself asked for."""


class Resolution(NamedTuple):
    """The decision after a failure."""

    retry_at: float | None
    """The earliest begin of the next attempt; None: never."""
    why: str | None = None
    """Of a failure that is final although retries were left: the sentence that the run's error ends with."""


def resolve(policy: RetryPolicy, failure: AttemptFailure, chance: float) -> Resolution:
    """Decide the time of the next attempt, or none. `chance` is drawn by the caller, uniform in [0, 1)."""
    rule = named_after(policy.on, failure.reason, failure.symptoms)
    if rule is not None and rule.after is After.FAIL:
        return Resolution(None, f"Its job says not to try again after {rule.said}.")
    if rule is None and failure.permanent:
        return Resolution(None)
    if rule is None and failure.reason == OUTPUT_LIMIT:
        return Resolution(None, _LIKELY_AGAIN if failure.failures <= policy.max_retries else None)
    delay = delay_seconds(policy, failures=failure.failures, chance=chance)
    if delay is None:
        return Resolution(None)
    asked = min(failure.retry_after_seconds or 0.0, RETRY_AFTER_MOST_SECONDS)
    retry_at = failure.at + max(delay, asked)
    deadline = policy.deadline_seconds
    if deadline is not None and retry_at > failure.due + deadline:
        return Resolution(None, deadline_sentence(deadline))
    return Resolution(retry_at)


def deadline_sentence(deadline_seconds: float) -> str:
    """The reason that there is no further attempt, for people."""
    return (
        f"There is no further attempt: it would begin more than {deadline_seconds:g} s after the run was due, which is "
        "its deadline (retry.deadline_seconds)."
    )


def delay_seconds(policy: RetryPolicy, *, failures: int, chance: float) -> float | None:
    """Seconds until the next attempt after the `failures`-th failure (from 1), or None: never again.

    `chance` is drawn by the caller, uniform in [0, 1).
    """
    if failures > policy.max_retries:
        return None
    return _plain_delay(policy, failures) * (1.0 + policy.jitter * (2.0 * chance - 1.0))


def _plain_delay(policy: RetryPolicy, failures: int) -> float:
    base, cap = policy.base_seconds, policy.cap_seconds
    match policy.backoff:
        case Backoff.LIST if policy.delays_seconds:
            return policy.delays_seconds[min(failures, len(policy.delays_seconds)) - 1]
        case Backoff.LINEAR:
            # An integer beyond all floats cannot be multiplied with one.
            return min(base * min(failures, 2**53), cap)
        case Backoff.EXPONENTIAL if 0.0 < base < cap:
            try:
                return min(base * policy.factor ** (failures - 1), cap)
            except OverflowError:  # what is beyond all floats is beyond the cap
                return cap
        case _:
            return min(base, cap)


# ------------------------------------------------------------------------------------------ rules by kind of failure


class MatchedRule(NamedTuple):
    """The rule that a failure meets."""

    after: After
    said: str
    """The symptom of the rule, for people."""


def named_after(rules: RetryRules, reason: str | None, symptoms: Sequence[str]) -> MatchedRule | None:
    """The most special rule that this failure meets; None: no rule applies."""
    # A script that an exception ended has an exit code as well, which says less.
    found = (symptom for symptom in symptoms if symptom in rules.error)
    named = next((MatchedRule(rules.error[symptom], symptom) for symptom in found), None)
    if named is None and reason == "exit_code":
        named = _by_number(rules.exit_code, symptoms, "exit code")
    elif named is None and reason == "http_status":
        named = _by_number(rules.status, symptoms, "status")
    if named is None and reason is not None and reason in rules.reason:
        return MatchedRule(rules.reason[reason], f"the reason {reason}")
    return named


def _by_number(rules: Mapping[str, After], symptoms: Sequence[str], what: str) -> MatchedRule | None:
    if not rules or not symptoms or not _NUMBER.fullmatch(symptoms[0]):
        return None
    number = int(symptoms[0])
    spans = [(span, key) for key in rules if (span := _span(key)) is not None and span.first <= number <= span.last]
    if not spans:
        return None
    _, key = min(spans, key=lambda each: (each[0].rank, each[0].last - each[0].first, each[0].first))
    return MatchedRule(rules[key], f"{what} {number}" if key == symptoms[0] else f"{what} {number} ({key})")


class _Span(NamedTuple):
    """The numbers that a rule speaks of; of two that hold one number the smaller `rank` is the more special."""

    first: int
    last: int
    rank: int


def _span(key: str) -> _Span | None:
    """None: it cannot be read."""
    if _NUMBER.fullmatch(key):
        return _Span(int(key), int(key), 0)
    if found := _RANGE.fullmatch(key):
        return _Span(int(found[1]), int(found[2]), 1)
    if found := _CLASS.fullmatch(key):
        return _Span(int(found[1]) * 100, int(found[1]) * 100 + 99, 2)
    return None


def check_rules(rules: RetryRules, pointer: str = "/retry/on") -> None:
    """Raises `Invalid`, with the pointer of the rule at fault, for one that could never be met or is ambiguous."""
    for name in ("exit_code", "error", "status", "reason"):
        count = len(getattr(rules, name))
        if count > MAX_RULES:
            raise Invalid(f"there are {count} rules; give at most {MAX_RULES}", pointer=f"{pointer}/{name}")
    _check_numbers(rules.exit_code, EXIT_CODES, f"{pointer}/exit_code")
    _check_numbers(rules.status, STATUSES, f"{pointer}/status")
    for key in rules.error:
        if len(key) > MAX_NAME or not _ERROR.fullmatch(key):
            raise Invalid(
                f"{_shown(key)} is no name of an exception: write it as in Python, such as ValueError or "
                "package.module.Transient",
                pointer=_pointer(f"{pointer}/error", key),
            )
    for key in rules.reason:
        _check_reason(key, _pointer(f"{pointer}/reason", key))


def _check_reason(key: str, pointer: str) -> None:
    if not _REASON.fullmatch(key):
        raise Invalid(
            f"{_shown(key)} is no reason: write it as runs show it, such as timeout, exit_code, http_error or crashed",
            pointer=pointer,
        )
    if key in _NO_FAILURES:
        raise Invalid(f"{key} is no failure of an attempt, so no rule is asked about it; leave it out", pointer=pointer)


def _check_numbers(rules: Iterable[str], limits: tuple[int, int], pointer: str) -> None:
    """Each number or range lies within `limits`, and no number is claimed by two ranges of which none is narrower."""
    is_status = limits == STATUSES
    what = "status" if is_status else "exit code"
    example = "404, 500-503 or 5xx" if is_status else "75 or 64-78"
    ranges: list[tuple[_Span, str]] = []
    for key in rules:
        at = _pointer(pointer, key)
        span = _span(key)
        if span is None or (span.rank == 2 and not is_status):
            raise Invalid(f"{_shown(key)} is no {what}: write a number or a range, such as {example}", pointer=at)
        if span.first > span.last:
            raise Invalid(f"the range {key} is empty: write {span.last}-{span.first}", pointer=at)
        if span.first < limits[0] or span.last > limits[1]:
            hint = "; 0 is success" if span.first == 0 and not is_status else ""
            raise Invalid(f"{key} is out of range: {what}s go from {limits[0]} to {limits[1]}{hint}", pointer=at)
        if span.rank == 1:
            for other, said in ranges:
                if _cross(span, other):
                    raise Invalid(
                        f"the ranges {said} and {key} overlap, and neither lies within the other: which of them counts "
                        "is not clear; make them disjoint",
                        pointer=at,
                    )
            ranges.append((span, key))


def numbers_within(rules: Iterable[str], wanted: Callable[[int], bool]) -> list[str]:
    """The keys of rules by number that speak of wanted numbers only."""
    spans = ((key, _span(key)) for key in rules)
    return [key for key, span in spans if span is not None and all(map(wanted, range(span.first, span.last + 1)))]


def _cross(one: _Span, other: _Span) -> bool:
    """Check whether two spans share a number, and neither lies within the other."""
    if one.last < other.first or other.last < one.first:
        return False
    within = one.first >= other.first and one.last <= other.last
    around = one.first <= other.first and one.last >= other.last
    return within == around


def _pointer(parent: str, key: str) -> str:
    """RFC 6901."""
    return f"{parent}/{key[:MAX_NAME].replace('~', '~0').replace('/', '~1')}"


def _shown(key: str) -> str:
    """The input, short and printable."""
    return ascii(key if len(key) <= 60 else f"{key[:60]}...")
