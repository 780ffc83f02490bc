"""Bodies of jobs, runs and tasks, as used by the API, the job files and the command line.

Decoded by msgspec, so unknown fields and wrong types are refused while they are read. Fields that were not sent
are `UNSET`, which a change needs to know; a field that may be sent as `null` means the same as not sending it on
create, and takes the value away on change.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.documents.definition import (
    CalendarUse,
    ClockChanges,
    Concurrency,
    IdentityToken,
    Limits,
    MisfirePolicy,
    Rate,
    RetryOn,
)
from tickwise.documents.drawn_fields import with_sent_fields
from tickwise.domain.decision import Overlap
from tickwise.domain.job_fields import JOB_FIELDS, SCHEDULE_FIELDS
from tickwise.domain.retry import Backoff
from tickwise.domain.rules.confinement import Isolation
from tickwise.domain.schedule import (
    INTERVAL_MAX_SECONDS,
    MAX_RUNS,
    SPREAD_MAX_SECONDS,
    ScheduleType,
)
from tickwise.ports.store import LetterResolution

TEXT_MAX: Final = 200
OCCURRENCES_MAX: Final = 1_000
"""The most runs that one request asks for."""

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_MAX,
        description="The name for people. Beside `taskId` it may be left out: then it is the name of that task.",
    ),
]
Key = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, description="Unique in the namespace.")]
TaskId = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, description="The id of a stored task.")]
Time = Annotated[datetime, Meta(tz=True, description="RFC 3339 with an offset, such as 2027-09-25T10:00:00Z.")]
Every = Annotated[
    str, Meta(min_length=2, max_length=50, description="A duration such as 90s, 5m, 1h30m: short for interval_seconds.")
]
CronLine = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="5 fields, 6 with seconds first, or @daily; `@every 90s` is taken as interval_seconds.",
    ),
]
Seconds = Annotated[float, Meta(ge=1, le=INTERVAL_MAX_SECONDS, description="At least 1.")]
Labels = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)], Annotated[str, Meta(max_length=TEXT_MAX)]],
    Meta(max_length=50),
]
LABEL_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,99}(=[A-Za-z0-9_./-]{0,99})?$(?!\n)"
QUEUE_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$(?!\n)"
Label = Annotated[str, Meta(pattern=LABEL_PATTERN)]
Requires = Annotated[
    list[Label], Meta(max_length=20, description="Labels, `name` or `name=value`, that an executor must have.")
]
Timezone = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        description="IANA name, UTC if it is not sent. It belongs to the schedule: a change with a new schedule and no "
        "timezone resets it to UTC; a timezone alone keeps the schedule and moves it to that clock.",
    ),
]
Anchor = Annotated[
    datetime,
    Meta(
        tz=True,
        description="Of an interval: it fires at the anchor plus any whole number of intervals. If it is not sent, "
        "start_at; without that, the moment at which the schedule is stored.",
    ),
]
StartAt = Annotated[
    datetime,
    Meta(
        tz=True,
        description="Of CRON and INTERVAL: no occurrence is before it. Like end_at, max_runs, dst and timezone it "
        "belongs to the schedule: a new schedule without it has none; sent alone it changes the one that is there.",
    ),
]
EndAt = Annotated[datetime, Meta(tz=True, description="Of CRON and INTERVAL: no occurrence is after it.")]
MaxRuns = Annotated[
    int,
    Meta(
        ge=1,
        le=MAX_RUNS,
        description="Of CRON and INTERVAL: after so many runs by schedule it is over. Runs that are skipped when "
        "they are decided do not count, nor do runs that people ask for; runs that overlap or a pause keeps from "
        "starting do. A new schedule counts from 0.",
    ),
]
Jitter = Annotated[
    float,
    Meta(
        ge=0,
        le=SPREAD_MAX_SECONDS,
        description="Each run is due up to so many seconds after its nominal time; for one occurrence always the same. "
        "Like window_seconds, misfire, overlap, calendars and fuse_per_minute it is a policy: it stays until another "
        "one is sent; null is the default.",
    ),
]
Window = Annotated[
    float,
    Meta(ge=0, le=SPREAD_MAX_SECONDS, description="A flexible window: as jitter_seconds; only one of the two."),
]
OverlapRule = Annotated[
    Overlap,
    Meta(
        description="The treatment of a scheduled run that is due while an earlier one goes on: skip (the "
        "default), queue_one, queue_all, cancel_running or allow."
    ),
]
Calendars = Annotated[list[CalendarUse], Meta(max_length=10)]
TaskObject = Annotated[
    msgspec.Raw,
    Meta(
        description="The task to run: its kind and parameters.", extra_json_schema={"$ref": "#/components/schemas/Task"}
    ),
]
"""Read by its kind; the description of the API has its schema from there."""
Payload = Annotated[msgspec.Raw, Meta(description="The parameters: any JSON value.")]


Reference = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Then = Annotated[
    Reference | list[Reference],
    Meta(
        description="Jobs that run when a run of this one ends well: an id or key, or a list of up to 20. The result, "
        "if there is one, is their payload."
    ),
]
OnFailure = Annotated[
    Reference | list[Reference],
    Meta(
        description="The same for a run that failed for good; their payload says which run it was, and why it failed."
    ),
]


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The rule by which another attempt follows a failed one. It is replaced as a whole."""

    backoff: Annotated[
        Backoff, Meta(description="The growth of the delay: exponential, or list with delays_seconds.")
    ] | (UnsetType | None) = UNSET
    base_seconds: Annotated[
        float, Meta(description="The first delay; with linear also the amount that is added each time.")
    ] = 1.0
    factor: Annotated[float, Meta(description="Of exponential: each delay is so many times the one before.")] = 2.0
    cap_seconds: Annotated[float, Meta(description="No delay is longer, but for those of a list.")] = 300.0
    jitter: Annotated[float, Meta(description="Each delay is moved by up to this share of itself, 0 to 1.")] = 0.2
    delays_seconds: (
        Annotated[
            list[float],
            Meta(
                max_length=100,
                description="Before the first retry, the second, …; then the last, again and again.",
                extra_json_schema={"minItems": 1},
            ),
        ]
        | UnsetType
        | None
    ) = UNSET
    deadline_seconds: Annotated[
        float | None, Meta(description="So long after the run was due no further attempt begins.")
    ] = None
    on: Annotated[RetryOn, Meta(description="The failures that are tried again, and those that are not.")] = RetryOn()


IsolationName = Annotated[
    Isolation,
    Meta(
        description="The wall around a python or shell task: process, sandbox, or container with `container_image`. "
        "Not sent: sandbox if the executors of the queue offer it, else process with a warning; it is stored, and "
        "stays. A task of the kind container is always in one."
    ),
]
ContainerImage = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="The image of a python or shell task with isolation container: `python:3.12`, "
        "`ghcr.io/acme/etl@sha256:…`.",
    ),
]
AllowNetwork = Annotated[
    bool | list[Annotated[str, Meta(max_length=300)]],
    Meta(
        description="The network of a task in a sandbox: none if not sent, true for all that its executor reaches, or "
        "destinations such as api.example.com:443, *.example.com:443 or [2001:db8::1]:5432."
    ),
]
RunAs = Annotated[
    str, Meta(min_length=1, max_length=32, description="The system user that the task runs as; executors name those.")
]
Resources = Annotated[
    dict[Annotated[str, Meta(max_length=63)], int],
    Meta(max_length=16, description='Counted capacities of an executor that a run holds, by name: {"gpu": 1}.'),
]
TokenRequest = Annotated[
    IdentityToken,
    Meta(
        description="A signed token for each attempt that says which run it is, in the file that "
        "TICKWISE_IDENTITY_TOKEN_FILE names: clouds and Vault trust it, so no key is stored."
    ),
]
Notify = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=100)]],
    Meta(
        max_length=10,
        description="Names of channels that are told when the job fails, succeeds again, did not run, or is paused by "
        "its fuse. A notification rule says more than that.",
    ),
]


@with_sent_fields(JOB_FIELDS)
class JobBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A job as people write it. `cron`, `every`, `at` and `params` are short forms."""

    name: Name | UnsetType | None = UNSET
    job_id: UUID | UnsetType | None = UNSET
    key: Key | UnsetType | None = UNSET
    labels: Labels | UnsetType | None = UNSET
    owner: Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)] | UnsetType | None = UNSET
    schedule_type: ScheduleType | UnsetType | None = UNSET
    schedule_time: Time | UnsetType | None = UNSET
    at: Time | UnsetType | None = UNSET
    cron_expression: CronLine | UnsetType | None = UNSET
    cron: CronLine | UnsetType | None = UNSET
    interval_seconds: Seconds | UnsetType | None = UNSET
    every: Every | UnsetType | None = UNSET
    anchor: Anchor | UnsetType | None = UNSET
    timezone: Timezone | UnsetType | None = UNSET
    start_at: StartAt | UnsetType | None = UNSET
    end_at: EndAt | UnsetType | None = UNSET
    max_runs: MaxRuns | UnsetType | None = UNSET
    dst: ClockChanges | UnsetType | None = UNSET
    jitter_seconds: Jitter | UnsetType | None = UNSET
    window_seconds: Window | UnsetType | None = UNSET
    misfire: MisfirePolicy | UnsetType | None = UNSET
    overlap: OverlapRule | UnsetType | None = UNSET
    calendars: Calendars | UnsetType | None = UNSET
    task: TaskObject | UnsetType = UNSET
    task_id: TaskId | UnsetType | None = msgspec.field(default=UNSET, name="taskId")
    payload: Payload | UnsetType = UNSET
    params: Payload | UnsetType = UNSET
    isolation: IsolationName | UnsetType | None = UNSET
    allow_network: AllowNetwork | UnsetType | None = UNSET
    run_as: RunAs | UnsetType | None = UNSET
    resources: Resources | UnsetType | None = UNSET
    identity_token: TokenRequest | UnsetType | None = UNSET
    container_image: ContainerImage | UnsetType | None = UNSET
    queue: Annotated[str, Meta(pattern=QUEUE_PATTERN)] | UnsetType | None = UNSET
    requires: Requires | UnsetType | None = UNSET
    priority: Annotated[int, Meta(ge=0, le=9, description="9 first.")] | UnsetType | None = UNSET
    limits: Limits | UnsetType | None = UNSET
    retry: RetryBody | UnsetType | None = UNSET
    concurrency: Concurrency | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET
    then: Then | UnsetType | None = UNSET
    on_failure: OnFailure | UnsetType | None = UNSET
    notify: Notify | UnsetType | None = UNSET


class JobChangeBody(JobBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The fields of a job to change; those that are not sent stay as they are."""


class PauseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The reason and the end of a pause."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    until: Time | None = None


class JobMoveBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The namespace that a job goes to."""

    namespace: Annotated[str, Meta(min_length=1, max_length=63)]


class MissedMode(StrEnum):
    """The handling of occurrences that fell into a pause."""

    SKIP = "skip"
    RUN_LATEST = "run_latest"
    RUN_ALL = "run_all"


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The treatment of missed occurrences after a pause. Occurrences of the pause that do not run are recorded as
    skipped."""

    missed: MissedMode = MissedMode.SKIP
    limit: (
        Annotated[
            int,
            Meta(ge=1, le=OCCURRENCES_MAX, description="With run_all: only the latest so many of them run."),
        ]
        | None
    ) = None


Occurrence = Annotated[
    datetime,
    Meta(
        tz=True,
        description="The time by the schedule of the occurrence that is meant: refused if another one is the next by "
        "now. With it, sending the same twice is sending it once.",
    ),
]


class SkipNextBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The reason for which the next occurrence is skipped."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    occurrence: Occurrence | None = None


class SnoozeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The other time of the next occurrence."""

    until: Annotated[datetime, Meta(tz=True, description="After the occurrence's own time, and within 366 days of it.")]
    occurrence: Occurrence | None = None


class BackfillBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Occurrences of the past to run now, the earliest first."""

    start: Annotated[datetime, Meta(tz=True, description="From this instant on …")] = msgspec.field(name="from")
    end: Annotated[datetime, Meta(tz=True, description="… up to and including this one, which has passed.")] = (
        msgspec.field(name="to")
    )
    overlap: Annotated[
        Overlap,
        Meta(description="The treatment of each while an earlier one goes on; runs of a backfill see only each other."),
    ] = Overlap.QUEUE_ALL
    limit: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=OCCURRENCES_MAX,
                description="Only so many runs; go on from `last` of the answer. If it is not sent, a range with more "
                f"than {OCCURRENCES_MAX} occurrences is refused.",
            ),
        ]
        | None
    ) = None
    payload: Payload | UnsetType = UNSET
    params: Payload | UnsetType = UNSET


AskedOverlap = Annotated[
    Overlap,
    Meta(
        description="The treatment of this run while an earlier one of the job goes on. If it is not sent, it "
        "waits its "
        "turn (queue_all), or runs beside the others if fires of the job may (overlap: allow, or a job that does not "
        "recur). With skip and queue_one it may be skipped; with cancel_running earlier ones are stopped."
    ),
]


class RunNowBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A payload for this one run; the job's own if it is not sent."""

    payload: Payload | UnsetType = UNSET
    params: Payload | UnsetType = UNSET
    overlap: AskedOverlap | UnsetType = UNSET


class RunRetryBody(RunNowBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A payload for the new run; that of the run being repeated if it is not sent."""


NOTE_MAX: Final = 1_000
"""Characters."""
Note = Annotated[str, Meta(max_length=NOTE_MAX, description="A note for later readers.")]


class RedriveBody(RunRetryBody, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A payload for the run that the dead letter becomes; its own if it is not sent."""

    note: Note | None = None


class DiscardBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The reason for which a dead letter is discarded."""

    note: Note | None = None


class DecideBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The true outcome of a run whose outcome was unknown. A sequence goes on from there."""

    outcome: Annotated[LetterResolution, Meta(description="The finding of a person: its task succeeded, or failed.")]
    note: Note | None = None


class ErrorResolveBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A group of errors is resolved; it is open again when it fails again."""

    note: Note | None = None


class ErrorIgnoreBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A group of errors is ignored until a time, or for a number of failures; with both, until the first of them."""

    until: Annotated[datetime, Meta(tz=True, description="It is open again at this time.")] | None = None
    failures: (
        Annotated[int, Meta(ge=1, le=1_000_000_000, description="It is open again after so many more failures.")] | None
    ) = None
    note: Note | None = None


class QueueHoldBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The reason and the time of a hold."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    begin: Annotated[datetime, Meta(tz=True, description="From this time on; now if not sent.")] | None = msgspec.field(
        name="from", default=None
    )
    until: (
        Annotated[datetime, Meta(tz=True, description="Until this time; until it is resumed if not sent.")] | None
    ) = None


class QueueDrainBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The reason of a drain, and the end of its hold."""

    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    until: (
        Annotated[datetime, Meta(tz=True, description="Until this time; until it is resumed if not sent.")] | None
    ) = None


class TaskBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A task to store: a whole task, or the text of a Python script."""

    task_id: TaskId | UnsetType = msgspec.field(default=UNSET, name="taskId")
    name: Name | UnsetType = UNSET
    task: TaskObject | UnsetType = UNSET
    script: Annotated[str, Meta(min_length=1, description="The text of a Python script.")] | UnsetType = UNSET


@with_sent_fields(SCHEDULE_FIELDS)
class PreviewBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A schedule that is not saved, in the words of a job body."""

    schedule_type: ScheduleType | UnsetType | None = UNSET
    schedule_time: Time | UnsetType | None = UNSET
    at: Time | UnsetType | None = UNSET
    cron_expression: CronLine | UnsetType | None = UNSET
    cron: CronLine | UnsetType | None = UNSET
    interval_seconds: Seconds | UnsetType | None = UNSET
    every: Every | UnsetType | None = UNSET
    anchor: Anchor | UnsetType | None = UNSET
    timezone: Timezone | UnsetType | None = UNSET
    start_at: StartAt | UnsetType | None = UNSET
    end_at: EndAt | UnsetType | None = UNSET
    max_runs: MaxRuns | UnsetType | None = UNSET
    dst: ClockChanges | UnsetType | None = UNSET
    jitter_seconds: Jitter | UnsetType | None = UNSET
    window_seconds: Window | UnsetType | None = UNSET
    misfire: MisfirePolicy | UnsetType | None = UNSET
    overlap: OverlapRule | UnsetType | None = UNSET
    calendars: Calendars | UnsetType | None = UNSET
    labels: Labels | UnsetType | None = UNSET
    start: Annotated[datetime, Meta(tz=True, description="Fires after this instant. Default: now.")] | None = (
        msgspec.field(name="from", default=None)
    )
    count: Annotated[int, Meta(ge=1, le=1_000)] = 20
    viewer_timezone: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


SCHEDULE_NAMED: Final = (
    "schedule_type", "schedule_time", "at", "cron_expression", "cron", "interval_seconds", "every",
)  # fmt: skip
"""A change with one of these fields makes a new schedule. It replaces the old one as a whole and counts from now;
those of `SCHEDULE_DETAILS` that are not sent with it are at their defaults."""
SCHEDULE_DETAILS: Final = ("anchor", "timezone", "start_at", "end_at", "max_runs", "dst")
"""Sent without any of the above, they change the schedule that is there."""
SCHEDULE_POLICIES: Final = (
    "jitter_seconds", "window_seconds", "misfire", "overlap", "calendars",
    *(field.name for field in SCHEDULE_FIELDS),
)  # fmt: skip
"""The policies on the times of a schedule. They stay until others are sent, also under a new schedule."""


def decode_object(text: bytes | msgspec.Raw) -> dict[str, Any] | None:
    """A JSON object, or None if it is another kind of JSON value."""
    value = msgspec.json.decode(text)
    return value if isinstance(value, dict) else None
