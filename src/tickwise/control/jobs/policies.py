"""The policies of a job on failures, limits and payload: checked, with a pointer to each part that cannot be carried
out.

    JobBody ──► the fields of the definition that were sent ──► beside them, once job and queue are known, the texts
                                                                 by which stores know its limits (`limit_key`)

Pure. `null` means the default; what contradicts itself is refused, never guessed at.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from tickwise.control.bodies import TEXT_MAX, JobBody, RetryBody
from tickwise.control.jobs.identity import checked_token
from tickwise.control.tasks import CheckedTask, TaskCheck
from tickwise.control.texts import clean_text
from tickwise.documents.definition import Concurrency, Definition, Limits, Rate, Retry
from tickwise.documents.drawn_fields import DrawnFields
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import OTHER_FIELDS
from tickwise.domain.retry import FAILURES, Backoff, check_rules, numbers_within
from tickwise.ports.runner import TaskLimits

OUTPUT_BYTES_MAX: Final = 1 << 30
CPU_SECONDS_MIN: Final = 0.01
MEMORY_BYTES_MIN: Final = 1 << 20
"""Nothing starts with less; most likely megabytes were meant."""
MEMORY_BYTES_MAX: Final = 1 << 50
PROCESSES_MAX: Final = 1 << 22
DISK_BYTES_MIN: Final = 1 << 20
DISK_BYTES_MAX: Final = 1 << 50
FILES_MAX: Final = 1 << 40
"""The most that Linux can count."""
DELAY_SECONDS_MAX: Final = 366 * 86_400.0
FACTOR_MAX: Final = 1_000.0
MAX_SLOTS: Final = 1_000_000
_DRAWN: Final = DrawnFields(OTHER_FIELDS)
_ALL: Final = ("retry", "limits", "concurrency", "rate", "identity_token", *(field.name for field in OTHER_FIELDS))
_NOTHING: Final = (UNSET,) * len(_ALL)
_all = attrgetter(*_ALL)
_KEYED: Final = ("concurrency", "rate")
KEYS: Final = "job, queue, namespace, label:NAME or key:TEXT"


def payload_of(payload: msgspec.Raw | UnsetType, params: msgspec.Raw | UnsetType) -> msgspec.Raw | None:
    """The payload under either name, found readable; None if it was not sent."""
    if params is not UNSET:
        if payload is not UNSET:
            raise Invalid("params is short for payload; send one of them", pointer="/params")
        payload, pointer = params, "/params"
    elif payload is UNSET:
        return None
    else:
        pointer = "/payload"
    try:
        # Refuse values that a task cannot read later: numbers out of range, broken text, bottomless nesting.
        msgspec.json.decode(payload)
    except (ValueError, RecursionError) as failure:
        raise Invalid(f"it cannot be read as JSON: {failure}", pointer=pointer) from None
    return payload


def policies_for(
    body: JobBody, task: CheckedTask, check: TaskCheck, job_id: UUID, queue: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """`policies` with the texts of their keys, held against the rules of the task's kind; and the warnings. Raises
    `Invalid`."""
    found = policies(body)
    warnings: tuple[str, ...] = ()
    if body.limits or body.retry:
        rules = check.rules_of(task.kind)
        if body.limits:
            check_kept(found["limits"], task.kind, rules.limits, sent=True)
        if body.retry:
            warnings = doubtful(found["retry"], task, rules.reasons)
    if body.concurrency or body.rate:
        keyed = Keyed(job_id, queue, body.labels or {})
        found |= limit_keys(found.get("concurrency"), found.get("rate"), keyed, _KEYED)
    return found, warnings


def policies(body: JobBody) -> dict[str, Any]:
    """The fields of the definition that the body sets beside task, schedule and successors; `null` means the
    default."""
    # Few jobs send any, and submits are hot: one look at all of them.
    found = {} if _all(body) == _NOTHING else _checked(body)
    payload = payload_of(body.payload, body.params)
    if payload is not None:
        found["payload"] = payload
    return found


def _checked(body: JobBody) -> dict[str, Any]:
    found = _DRAWN.sent(body)
    if body.retry is not UNSET:
        found["retry"] = _checked_retry(body.retry or RetryBody())
    if body.limits is not UNSET:
        found["limits"] = _checked_limits(body.limits or Limits())
    if body.concurrency is not UNSET:
        found["concurrency"] = _checked_concurrency(body.concurrency)
    if body.rate is not UNSET:
        found["rate"] = _checked_rate(body.rate)
    if body.identity_token is not UNSET:
        found["identity_token"] = checked_token(body.identity_token)
    return found


def check_policies(definition: Definition, task: CheckedTask, check: TaskCheck) -> None:
    """Check what a definition says of failures, limits and payload as if a body had said it. Raises `Invalid`."""
    if definition.retry != _NO_RETRY:
        retry = definition.retry
        _checked_retry(RetryBody(**{name: getattr(retry, name) for name in retry.__struct_fields__}))
        doubtful(retry, task, check.rules_of(task.kind).reasons)
    if definition.limits != _NO_LIMITS:
        check_kept(_checked_limits(definition.limits), task.kind, check.rules_of(task.kind).limits, sent=True)
    _checked_concurrency(definition.concurrency)
    _checked_rate(definition.rate)
    checked_token(definition.identity_token)
    if bytes(definition.payload) != b"{}":
        payload_of(definition.payload, UNSET)


# ------------------------------------------------------------------------------------------ failures


def _checked_retry(said: RetryBody) -> Retry:
    backoff = said.backoff
    if backoff is UNSET or backoff is None:
        backoff = Backoff.LIST if said.delays_seconds else Backoff.EXPONENTIAL
    for name, value, least, most in (
        ("base_seconds", said.base_seconds, 0.0, DELAY_SECONDS_MAX),
        ("cap_seconds", said.cap_seconds, 0.0, DELAY_SECONDS_MAX),
        ("factor", said.factor, 1.0, FACTOR_MAX),
        ("jitter", said.jitter, 0.0, 1.0),
    ):
        _check_between(value, (least, most), name=name, pointer=f"/retry/{name}")
    _check_delays(said, backoff)
    _check_spoken_of(said, backoff)
    deadline = said.deadline_seconds
    if deadline is not None and not 0 < deadline <= DELAY_SECONDS_MAX:
        raise Invalid(
            f"deadline_seconds lies above 0 and up to {DELAY_SECONDS_MAX:.0f}; leave it out for none",
            pointer="/retry/deadline_seconds",
        )
    check_rules(said.on.rules())
    return Retry(
        backoff=backoff,
        base_seconds=said.base_seconds,
        factor=said.factor,
        cap_seconds=said.cap_seconds,
        jitter=said.jitter,
        delays_seconds=tuple(said.delays_seconds or ()),
        deadline_seconds=deadline,
        on=said.on,
    )


def _check_delays(said: RetryBody, backoff: Backoff) -> None:
    if said.backoff is UNSET and said.delays_seconds == []:
        raise Invalid(
            "delays_seconds is empty, so it names no delay; write some, such as [1, 60, 600], or leave it out",
            pointer="/retry/delays_seconds",
        )
    if backoff is Backoff.LIST and not said.delays_seconds:
        raise Invalid(
            "backoff list needs delays_seconds, such as [1, 60, 600]: before the first retry, the second, …",
            pointer="/retry/delays_seconds",
        )
    if backoff is not Backoff.LIST and said.delays_seconds:
        raise Invalid(
            f"delays_seconds belongs to backoff list, but backoff is {backoff}; leave one of them out",
            pointer="/retry/delays_seconds",
        )
    for place, seconds in enumerate(said.delays_seconds or ()):
        _check_between(seconds, (0.0, DELAY_SECONDS_MAX), name="a delay", pointer=f"/retry/delays_seconds/{place}")


def _check_spoken_of(said: RetryBody, backoff: Backoff) -> None:
    """Refuse what this backoff would ignore. The default says nothing: a job is answered with all its fields."""
    usual = Retry()
    ignored = [] if backoff is Backoff.EXPONENTIAL else ["factor"]
    if backoff is Backoff.LIST:
        ignored += ["base_seconds", "cap_seconds"]
    for name in ignored:
        if getattr(said, name) != getattr(usual, name):
            raise Invalid(
                f"{name} says nothing of backoff {backoff}, which would ignore it; leave it out, or write another "
                "backoff, such as exponential",
                pointer=f"/retry/{name}",
            )


def doubtful(retry: Retry, task: CheckedTask, reasons: Collection[str] | None) -> tuple[str, ...]:
    """Warnings about rules that no failure of this task meets. `reasons` are those that the task's kind names beside
    the general ones; None: it names none, so any could be its own. Raises `Invalid` for a reason with which no task of
    the kind ends."""
    found = []
    kind, own = task.kind, reasons or ()
    for reason in retry.on.reason:
        if reason in FAILURES or reason in own:
            continue
        known = sorted({*FAILURES, *own})
        near = difflib.get_close_matches(reason, known, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        if reasons is not None:
            raise Invalid(
                f"no task of the kind {kind} fails with the reason {reason!r}; {advice}",
                pointer=f"/retry/on/reason/{reason}",
            )
        found.append(f"retry.on.reason {reason!r} is no reason of Tickwise's own: only the kind {kind} can end with it")
    if kind == "http" and retry.on.status:
        expect = msgspec.json.decode(task.text)["expect"]
        never = numbers_within(retry.on.status, lambda status: status in expect or f"{status // 100}xx" in expect)
        found += [f"retry.on.status {key!r} is never met: the task expects it, so it is no failure" for key in never]
    return tuple(found)


def _check_between(value: float, limits: tuple[float, float], *, name: str, pointer: str) -> None:
    least, most = limits
    if not least <= value <= most:
        raise Invalid(f"{name} lies between {least:.16g} and {most:.16g}", pointer=pointer)


def _checked_limits(limits: Limits) -> Limits:
    for name, value, least, most in (
        ("output_bytes", limits.output_bytes, 1, OUTPUT_BYTES_MAX),
        ("cpu_seconds", limits.cpu_seconds, CPU_SECONDS_MIN, DELAY_SECONDS_MAX),
        ("memory_bytes", limits.memory_bytes, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX),
        ("processes", limits.processes, 1, PROCESSES_MAX),
        ("disk_bytes", limits.disk_bytes, DISK_BYTES_MIN, DISK_BYTES_MAX),
        ("files", limits.files, 1, FILES_MAX),
    ):
        if value is not None:
            _check_between(value, (least, most), name=name, pointer=f"/limits/{name}")
    return limits


def check_kept(limits: Limits, kind: str, known: Collection[str], *, sent: bool) -> None:
    """Refuse a limit that no runner of this kind of task can hold it to: it would be ignored. `sent`: the limits stand
    in the body, not only the task."""
    for name in TaskLimits._fields:
        if name not in known and getattr(limits, name) != getattr(_NO_LIMITS, name):
            raise Invalid(
                f"a task of the kind {kind} cannot be held to {name}; leave it out"
                + ("" if sent else ", by sending limits without it"),
                pointer=f"/limits/{name}" if sent else "/task/kind",
            )


_NO_LIMITS: Final = Limits()
_NO_RETRY: Final = Retry()

# ------------------------------------------------------------------------------------------ limits by key


def _checked_concurrency(said: Concurrency | UnsetType | None) -> Concurrency | None:
    if not isinstance(said, Concurrency):
        return None
    if said.limit > MAX_SLOTS:
        raise Invalid(f"limit lies between 1 and {MAX_SLOTS}", pointer="/concurrency/limit")
    _check_key(said.key, "/concurrency/key")
    return said


def _checked_rate(said: Rate | UnsetType | None) -> Rate | None:
    if not isinstance(said, Rate):
        return None
    if said.limit > MAX_SLOTS:
        raise Invalid(f"limit lies between 1 and {MAX_SLOTS}", pointer="/rate/limit")
    if not math.isfinite(said.per_seconds) or said.per_seconds > DELAY_SECONDS_MAX:
        raise Invalid(f"per_seconds lies above 0 and up to {DELAY_SECONDS_MAX:.0f}", pointer="/rate/per_seconds")
    _check_key(said.key, "/rate/key")
    return said


def _check_key(key: str, pointer: str) -> None:
    word, sign, value = key.partition(":")
    if key in ("job", "queue", "namespace") or (word in ("label", "key") and sign and value):
        if len(value) > TEXT_MAX:
            raise Invalid(f"the text after {word}: has at most {TEXT_MAX} characters", pointer=pointer)
        clean_text(key, pointer)
        return
    raise Invalid(f"{key[:100]!r} is no key of a limit; write {KEYS}", pointer=pointer)


class Keyed(NamedTuple):
    """The fields that the key of a limit may use."""

    job_id: UUID
    queue: str
    labels: Mapping[str, str]


def with_keys(definition: Definition, keyed: Keyed, sent: Collection[str]) -> Definition:
    """The definition with the texts by which stores know its limits. `sent`: the fields of the body, for pointers."""
    keys = limit_keys(definition.concurrency, definition.rate, keyed, sent)
    if keys == {"limit_key": definition.limit_key, "rate_key": definition.rate_key}:
        return definition
    return msgspec.structs.replace(definition, **keys)


def limit_keys(
    concurrency: Concurrency | None, rate: Rate | None, keyed: Keyed, sent: Collection[str]
) -> dict[str, str | None]:
    """The texts by which stores know these limits. `sent`: the fields of the body, for pointers. Raises `Invalid`."""
    keys: dict[str, str | None] = {"limit_key": None, "rate_key": None}
    for name, field, said in (("limit_key", "concurrency", concurrency), ("rate_key", "rate", rate)):
        if said is not None:
            pointer = f"/{field}/key" if field in sent or "labels" not in sent else "/labels"
            keys[name] = _key(said.key, keyed, pointer)
    return keys


def key_in_words(key: str) -> str:
    """The runs that a limit counts, for people; empty if they are the job's own."""
    return "" if key == "job" else f" of {key}"


def _key(key: str, keyed: Keyed, pointer: str) -> str:
    if key == "job":
        return f"job:{keyed.job_id}"
    if key == "queue":
        return f"queue:{keyed.queue}"
    word, _, name = key.partition(":")
    if word != "label":
        return key
    if name not in keyed.labels:
        raise Invalid(f"a limit goes by the label {name!r}, which the job does not have; give it one", pointer=pointer)
    # Names and values may both hold a sign of equality: only the one between them is left as it is.
    return f"label:{name.replace('%', '%25').replace('=', '%3D')}={keyed.labels[name]}"
