"""Bodies of notification rules, and the rule that each means.

    RuleBody, names of channels and jobs looked up ──► NotificationRule
                                                        └─ `check_rule`: a rule that can never fire is refused

Invariant: each field of a stored rule has an effect. What would be ignored is refused, with the field.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.control.bodies import Labels
from tickwise.control.jobs.planning import duration_seconds
from tickwise.control.notices.channel_bodies import ForInstallation
from tickwise.domain.calendar.entries import WEEKDAYS
from tickwise.domain.errors import Invalid
from tickwise.domain.notices.rules import (
    ALWAYS_AT_ONCE,
    GOOD,
    INSTALLATION,
    MAX_CHANNELS_OF_RULE,
    OF_NAMED_JOBS,
    FailuresOf,
    NoticeEvent,
    NotificationRule,
    QuietHours,
    Severity,
)
from tickwise.domain.zones import zone_named

JOBS_MAX: Final = 100
RUNS_MAX: Final = 100
"""The most ended runs of a job that a rule looks back at."""
ATTEMPTS_MAX: Final = 1_000
SECONDS_MAX: Final = 30 * 86_400.0
REPEAT_SECONDS_LEAST: Final = 60.0
OF_INSTALLATION: Final = frozenset({NoticeEvent.EXECUTOR_LOST})
"""Events that belong to no namespace."""
OF_NO_JOB: Final = frozenset({NoticeEvent.EXPIRING})
"""Events of keys, which a namespace has, and of certificates, which the installation has; no job has any."""
_TIMED: Final = frozenset({NoticeEvent.LATE, NoticeEvent.LONG})
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")

Span = Annotated[
    float | str,
    Meta(description="Seconds, or a duration such as 90s, 5m, 1h30m.", extra_json_schema={"minLength": 2}),
]
EventName = Annotated[str, Meta(extra_json_schema={"enum": [each.value for each in NoticeEvent]})]
Events = Annotated[
    list[EventName], Meta(min_length=1, max_length=len(NoticeEvent), description="The events that it is about.")
]
ChannelNames = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=100)]],
    Meta(min_length=1, max_length=MAX_CHANNELS_OF_RULE, description="The channels that are told, by their names."),
]
JobReferences = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=200)]],
    Meta(max_length=JOBS_MAX, description="These jobs, by id, key or name."),
]
RuleLabels = Annotated[
    Labels,
    Meta(
        description="Jobs that have all of these labels. Without jobs and labels: the whole namespace. A rule about "
        "success names jobs, and has no labels."
    ),
]
Time = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="A time of day, such as 22:00.")]


class QuietBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A time of day in which notices wait. One that ends before it begins goes over midnight."""

    begin: Time = msgspec.field(name="from")
    end: Time = msgspec.field(name="to")
    timezone: Annotated[str, Meta(min_length=1, max_length=100, description="IANA name.")] = "UTC"
    days: (
        Annotated[
            list[Annotated[str, Meta(max_length=3)]],
            Meta(min_length=1, max_length=7, description="The days on which it begins: mon … sun. Not sent: each day."),
        ]
        | UnsetType
        | None
    ) = UNSET


class EscalateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Further channels for an alert that nobody acknowledges."""

    after: Annotated[
        Span, Meta(description="Seconds, or a duration such as 30m, after the first event; at least one minute.")
    ]
    channels: ChannelNames


class FailuresOfBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A number of failures among the newest ended runs of a job."""

    failures: Annotated[int, Meta(ge=1, le=RUNS_MAX)]
    runs: Annotated[int, Meta(ge=2, le=RUNS_MAX)]


InARow = Annotated[int, Meta(ge=1, le=RUNS_MAX, description="With failure: only when this many runs in a row failed.")]
Attempts = Annotated[
    int, Meta(ge=1, le=ATTEMPTS_MAX, description="Of retries: when so many attempts of a run failed; 3 if not sent.")
]
After = Annotated[
    Span,
    Meta(description="Of late and long: seconds, or a duration such as 10m. Not sent: what is usual of each."),
]
Group = Annotated[
    Span, Meta(description="After the first notice, later ones of this rule are gathered for so long: 5m if not sent.")
]
Repeat = Annotated[
    Span, Meta(description="An open alert that nobody acknowledged is told again after so long. Not sent: never.")
]


class NotificationRuleBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A notification rule to make, or to preview."""

    name: Annotated[str, Meta(min_length=1, max_length=100, description="Unique in the namespace.")]
    on: Events
    channels: ChannelNames
    jobs: JobReferences | UnsetType = UNSET
    labels: RuleLabels | UnsetType = UNSET
    severity: Severity = Severity.WARNING
    after: After | UnsetType | None = UNSET
    in_a_row: InARow | UnsetType | None = UNSET
    failures_of: FailuresOfBody | UnsetType | None = UNSET
    attempts: Attempts | UnsetType | None = UNSET
    group: Group | UnsetType | None = UNSET
    repeat: Repeat | UnsetType | None = UNSET
    quiet: QuietBody | UnsetType | None = UNSET
    escalate: EscalateBody | UnsetType | None = UNSET
    enabled: bool = True
    installation: ForInstallation = False


class NotificationRuleChangeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of a rule to change; those that are not sent stay, null takes one away; it says nothing of a
    field that each rule has."""

    name: Annotated[str, Meta(min_length=1, max_length=100)] | UnsetType = UNSET
    on: Events | UnsetType | None = UNSET
    channels: ChannelNames | UnsetType | None = UNSET
    jobs: JobReferences | UnsetType | None = UNSET
    labels: RuleLabels | UnsetType | None = UNSET
    severity: Severity | UnsetType = UNSET
    after: After | UnsetType | None = UNSET
    in_a_row: InARow | UnsetType | None = UNSET
    failures_of: FailuresOfBody | UnsetType | None = UNSET
    attempts: Attempts | UnsetType | None = UNSET
    group: Group | UnsetType | None = UNSET
    repeat: Repeat | UnsetType | None = UNSET
    quiet: QuietBody | UnsetType | None = UNSET
    escalate: EscalateBody | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


def events_named(names: Sequence[str]) -> frozenset[NoticeEvent]:
    """The events of these names. Raises `Invalid`, with the nearest name."""
    found = set()
    for place, name in enumerate(names):
        try:
            found.add(NoticeEvent(name))
        except ValueError:
            near = difflib.get_close_matches(name[:50].lower().replace("-", "_"), list(NoticeEvent), n=1, cutoff=0.5)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(NoticeEvent)}"
            raise Invalid(
                f"there is no event {name[:50]!r}; {advice}", pointer=f"/on/{place}", code="event_unknown"
            ) from None
    return frozenset(found)


def seconds_of(said: float | str, pointer: str, *, least: float = 0.0) -> float:
    """The seconds of a span. Raises `Invalid`."""
    seconds = duration_seconds(said, pointer) if isinstance(said, str) else float(said)
    if not least <= seconds <= SECONDS_MAX:
        raise Invalid(f"give {least:.0f} seconds to 30 days", pointer=pointer)
    return seconds


def simple_fields(body: NotificationRuleBody | NotificationRuleChangeBody) -> dict[str, Any]:
    """The fields of a rule that name nothing that is stored, as far as they were sent. Raises `Invalid`."""
    found: dict[str, Any] = {}
    if body.on:
        found["on"] = events_named(body.on)
    if not isinstance(body.labels, UnsetType):
        found["labels"] = body.labels or {}
    for name in ("severity", "enabled", "in_a_row", "attempts"):
        if getattr(body, name) is not UNSET:
            found[name] = getattr(body, name)
    if not isinstance(body.after, UnsetType):
        found["after"] = None if body.after is None else seconds_of(body.after, "/after", least=1.0)
    if not isinstance(body.repeat, UnsetType):
        repeat = body.repeat
        found["repeat_seconds"] = None if repeat is None else seconds_of(repeat, "/repeat", least=REPEAT_SECONDS_LEAST)
    if body.group is not UNSET:
        found["group_seconds"] = 300.0 if body.group is None else seconds_of(body.group, "/group")
    if not isinstance(body.failures_of, UnsetType):
        found["failures_of"] = _failures_of(body.failures_of)
    if not isinstance(body.quiet, UnsetType):
        found["quiet"] = None if body.quiet is None else _quiet(body.quiet)
    return found


def _failures_of(said: FailuresOfBody | None) -> FailuresOf | None:
    if said is None:
        return None
    if said.failures > said.runs:
        raise Invalid(
            f"{said.failures} of {said.runs} runs cannot fail; write failures no greater than runs",
            pointer="/failures_of/failures",
        )
    return FailuresOf(said.failures, said.runs)


def _quiet(said: QuietBody) -> QuietHours:
    begin, end = _minutes(said.begin, "/quiet/from"), _minutes(said.end, "/quiet/to")
    if begin == end:
        raise Invalid("quiet hours that end as they begin have no length; give another end", pointer="/quiet/to")
    try:
        zone_named(said.timezone)
    except Invalid as refusal:
        raise Invalid(refusal.detail, pointer="/quiet/timezone", code="timezone_unknown") from None
    days = frozenset(range(7))
    if said.days:
        days = frozenset(_day(each, f"/quiet/days/{place}") for place, each in enumerate(said.days))
    return QuietHours(begin, end, said.timezone, days)


def _minutes(text: str, pointer: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise Invalid("write a time of day such as 22:00", pointer=pointer)
    return 60 * int(found[1]) + int(found[2])


def _day(text: str, pointer: str) -> int:
    if text.lower() not in WEEKDAYS:
        raise Invalid(f"{text!a} is no weekday; write one of {', '.join(WEEKDAYS)}", pointer=pointer)
    return WEEKDAYS.index(text.lower())


def check_rule(rule: NotificationRule) -> None:
    """Raises `Invalid` for a rule that can never fire, or that has a field without effect."""
    if rule.namespace == INSTALLATION:
        _check_installation(rule)
    else:
        for event in sorted(rule.on & OF_INSTALLATION):
            raise Invalid(
                f"{event.value} belongs to no namespace; make a rule of the installation for it (installation: true)",
                pointer="/on",
            )
        _check_no_jobs(rule)
        _check_named_jobs(rule)
    for name, value, events in (
        ("after", rule.after, _TIMED),
        ("in_a_row", rule.in_a_row, {NoticeEvent.FAILURE}),
        ("failures_of", rule.failures_of, {NoticeEvent.FAILURE}),
        ("attempts", rule.attempts, {NoticeEvent.RETRIES}),
    ):
        if value is not None and not rule.on & events:
            needed = " or ".join(sorted(each.value for each in events))
            raise Invalid(f"{name} is for the event {needed}, which is not in on; add it, or leave {name} out",
                          pointer=f"/{name}")  # fmt: skip
    if rule.quiet is not None and rule.severity is Severity.CRITICAL:
        raise Invalid(
            "a critical rule waits for no quiet hours; leave quiet out, or give the rule a lower severity",
            pointer="/quiet",
        )
    if rule.quiet is not None and rule.on <= ALWAYS_AT_ONCE:
        raise Invalid(
            "that a job did not run is told at once, also in quiet hours; leave quiet out, or add other events",
            pointer="/quiet",
        )
    if rule.escalation is not None and set(rule.escalation.channels) <= set(rule.channels):
        raise Invalid(
            "an escalation to the channels that were told already reaches nobody else; name further channels",
            pointer="/escalate/channels",
        )


def _check_no_jobs(rule: NotificationRule) -> None:
    for event in sorted(rule.on & OF_NO_JOB) if rule.jobs or rule.labels else ():
        raise Invalid(
            f"{event.value} is about keys, and no job has any: make a rule of its own for it, without jobs and labels",
            pointer="/on",
        )


def _check_named_jobs(rule: NotificationRule) -> None:
    for event in sorted(rule.on & OF_NAMED_JOBS) if rule.labels or not rule.jobs else ():
        advice = (
            "leave labels out, and name each job" if rule.jobs else "name the jobs that it is about, without labels"
        )
        raise Invalid(
            f"{event.value} is noted of the jobs that a rule names, and of no others; {advice}",
            pointer="/labels" if rule.labels else "/jobs",
        )
    for name, value in (("repeat", rule.repeat_seconds), ("escalate", rule.escalation)):
        if value is not None and rule.on <= GOOD and rule.on & OF_NAMED_JOBS:
            raise Invalid(
                f"a success opens no alert that could stay open; leave {name} out, or add other events",
                pointer=f"/{name}",
            )


def _check_installation(rule: NotificationRule) -> None:
    others = sorted(rule.on - OF_INSTALLATION - OF_NO_JOB - {NoticeEvent.RECOVERY})
    if others:
        raise Invalid(
            f"{others[0].value} is about jobs, and a rule of the installation is about none; it takes "
            f"{', '.join(sorted(each.value for each in OF_INSTALLATION | OF_NO_JOB))} and recovery",
            pointer="/on",
        )
    if rule.jobs or rule.labels:
        raise Invalid(
            "a rule of the installation is about no jobs; leave jobs and labels out",
            pointer="/jobs" if rule.jobs else "/labels",
        )


def rule_fields(rule: NotificationRule) -> dict[str, object]:
    """The fields of a rule for the audit log."""
    return {
        "name": rule.name,
        "on": sorted(each.value for each in rule.on),
        "channels": [str(each) for each in rule.channels],
        "jobs": [str(each) for each in rule.jobs],
        "labels": dict(rule.labels),
        "severity": rule.severity.value,
        "after": rule.after,
        "in_a_row": rule.in_a_row,
        "failures_of": None if rule.failures_of is None else list(rule.failures_of),
        "attempts": rule.attempts,
        "group": rule.group_seconds,
        "repeat": rule.repeat_seconds,
        "quiet": None if rule.quiet is None else quiet_words(rule.quiet),
        "escalate": None if rule.escalation is None else _escalation_fields(rule.escalation.channels),
        "escalate_after": None if rule.escalation is None else rule.escalation.after_seconds,
        "enabled": rule.enabled,
    }


def _escalation_fields(channels: Sequence[UUID]) -> list[str]:
    return [str(each) for each in channels]


def clock_text(minutes: int) -> str:
    """A time of day: 22:00."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def quiet_words(quiet: QuietHours) -> str:
    """Quiet hours for people: `22:00 to 07:00 Europe/Berlin, mon, tue`."""
    days = "" if len(quiet.weekdays) == 7 else ", " + ", ".join(WEEKDAYS[day] for day in sorted(quiet.weekdays))
    return f"{clock_text(quiet.begin)} to {clock_text(quiet.end)} {quiet.zone}{days}"
