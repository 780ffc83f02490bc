"""The bodies and answers of the API, as they are written in JSON.

Written from the description of the API by `python -m tests.style.sdk_modules`; a test compares. Times are texts of
RFC 3339, ids are texts. Answers gain members with time.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


class AccessRoleView(TypedDict):
    """A role that can be given in the namespace."""

    name: str
    permissions: list[str]
    labels: dict[str, str]
    """The permissions hold for jobs that have all of these; empty: for all jobs."""
    built_in: bool


class AddedUserView(TypedDict):
    """A new person."""

    user_id: str
    name: str
    email: str | None
    roles: list[MemberView]
    """Those in the namespaces that the caller administers."""
    has_password: bool
    needs_link: bool
    """The password was chosen, or could be, by an administrator who holds less than the person does by now: it opens
    nothing. Make a link."""
    active: bool
    created_at: str
    created_by: str | None
    """Null: somebody whom the caller does not see."""
    signed_in_at: str | None
    version: int
    link: str | None
    """The secret of a link, told this once: with it the person chooses a password. Null: the person has one."""


class AlertNoteBody(TypedDict, total=False):
    """An alert is acknowledged, closed or opened again."""

    note: str | None
    """A note for later readers."""


AlertSnoozeBody = TypedDict(
    "AlertSnoozeBody", {"until": "str | None", "for": "float | str | None", "note": "str | None"}, total=False
)


class AlertView(TypedDict):
    """The events that one rule has seen of one subject."""

    alert_id: str
    rule_id: str | None
    """Null: the job's own `notify`."""
    event: Literal[
        "anomaly",
        "dead_letter",
        "did_not_run",
        "executor_lost",
        "expiring",
        "failure",
        "first_failure",
        "fuse",
        "late",
        "long",
        "objective",
        "recovery",
        "retries",
        "success",
    ]
    subject: str
    """The id of the job, the name of the executor or of the certificate."""
    subject_name: str
    severity: Literal["critical", "info", "warning"]
    state: Literal["acknowledged", "closed", "open", "snoozed"]
    events: int
    first_at: str
    last_at: str
    sentence: str
    run_id: str | None
    acknowledged_by: str | None
    acknowledged_at: str | None
    snoozed_until: str | None
    note: str | None
    closed_at: str | None
    installation: bool


class AlertsDecisionBody(TypedDict, total=False):
    """All alerts that are not closed and match are acknowledged or closed; without a filter: all of the namespace."""

    state: list[Literal["acknowledged", "closed", "open", "snoozed"]]
    """In one of these states; not sent: each that is not closed."""
    rule_id: str
    """Of this rule."""
    subject: str
    """About this job, executor or key."""
    event: Literal[
        "anomaly",
        "dead_letter",
        "did_not_run",
        "executor_lost",
        "expiring",
        "failure",
        "first_failure",
        "fuse",
        "late",
        "long",
        "objective",
        "recovery",
        "retries",
        "success",
    ]
    """Of this event."""
    until: str
    """Only those whose newest event is not later: what came since is not decided."""
    note: str | None
    """A note for later readers."""
    dry_run: bool
    """Only count them."""
    installation: bool
    """Those of the installation, not of the namespace: for its administrators."""


class AnalyticsRow(TypedDict):
    """The runs of a group, of those without a key, or of the remainder."""

    kind: Literal["group", "none", "rest"]
    key: str | None
    """Of a group: the id of the job or executor, the value of the label, the namespace, the reason, or the beginning
    of the hour."""
    name: str | None
    """Of a job or executor that is on record."""
    runs: int
    by_status: dict[str, int]
    success_ratio: float | None
    """Succeeded runs among those that succeeded or failed."""
    retries: int
    """Attempts after the first."""
    seconds: float
    """The time that the last attempts took together."""
    duration: SpreadView | None
    """Of the last attempts, from start to end."""
    lateness: SpreadView | None
    """From the due time to the start, of runs with one attempt."""
    cpu_seconds: float
    """The processor time that the last attempts took together, of those that were measured."""
    cpu: SpreadView | None
    """The processor time of the last attempts that were measured."""
    memory: SpreadView | None
    """The peak of the memory of the last attempts that were measured."""


class AnalyticsTotal(TypedDict):
    """All runs that were counted."""

    runs: int
    by_status: dict[str, int]
    success_ratio: float | None
    retries: int
    seconds: float
    duration: SpreadView | None
    lateness: SpreadView | None
    cpu_seconds: float
    cpu: SpreadView | None
    memory: SpreadView | None


AnalyticsView = TypedDict(
    "AnalyticsView",
    {
        "group_by": "str",
        "from": "str",
        "until": "str",
        "coverage": "Literal['exact', 'newest', 'sampled']",
        "rows_read": "int",
        "share": "float",
        "since": "str | None",
        "groups_found": "int",
        "total": "AnalyticsTotal",
        "groups": "list[AnalyticsRow]",
    },
)


class _AnnouncementBodyRequired(TypedDict):
    kind: Literal["incident", "maintenance"]
    title: str
    text: str


_AnnouncementBodyOptional = TypedDict(
    "_AnnouncementBodyOptional",
    {
        "state": "Literal['announced', 'ended', 'identified', 'investigating', 'monitoring', 'resolved']",
        "components": "list[str]",
        "from": "str",
        "until": "str",
    },
    total=False,
)


class AnnouncementBody(_AnnouncementBodyRequired, _AnnouncementBodyOptional):
    """The members of AnnouncementBody."""


class AnnouncementUpdateBody(TypedDict):
    """A further text of an announcement, and the state from now on."""

    text: str
    """Public; plain text."""
    state: Literal["announced", "ended", "identified", "investigating", "monitoring", "resolved"]


AnnouncementView = TypedDict(
    "AnnouncementView",
    {
        "announcement_id": "str",
        "page_id": "str",
        "kind": "Literal['incident', 'maintenance']",
        "title": "str",
        "state": "Literal['announced', 'ended', 'identified', 'investigating', 'monitoring', 'resolved']",
        "over": "bool",
        "components": "list[str]",
        "from": "str",
        "until": "str | None",
        "updates": "list[UpdateView]",
        "created_by": "str",
        "version": "int",
    },
)


class AnomalyView(TypedDict):
    """A quantity of a run that is unlike that of the newest 50 earlier runs of its job that succeeded."""

    quantity: Literal["duration", "output"]
    """`duration` in seconds, `output` in bytes."""
    kind: Literal["less", "more"]
    value: float
    low: float
    """Of ten earlier runs one had less, …"""
    high: float
    """… and one had more."""
    runs_compared: int


class ArtefactView(TypedDict):
    """A file that an attempt left in its work folder."""

    name: str
    attempt_number: int
    size_bytes: int
    sha256: str
    url: str
    """The address of its content."""


class AttemptView(TypedDict):
    """One attempt of a run."""

    attempt_number: int
    status: RunState
    executor_id: str
    dispatched_time: str | None
    start_time: str | None
    end_time: str | None
    reason: str | None
    error_message: str | None
    log_url: str
    cpu_seconds: float | None
    """Processor time of its processes; null: it was not measured, as of functions in a worker, or has not ended."""
    memory_bytes: int | None
    """The peak of its control group, or of its largest process; null: not measured, or below what can be told."""
    output_bytes: int | None
    """The output that was kept; null: not measured, or the attempt has not ended."""
    read_bytes: int | None
    """Bytes that its processes read from disks; null: not measured, as of tasks that were over at once."""
    written_bytes: int | None
    """Bytes that its processes wrote to disks; null: not measured."""
    network_bytes: int | None
    """Bytes between it and the network, both ways; null: nothing counts them."""
    work_bytes: int | None
    """The most that was found in its work folder: while it ran if that is limited, else at its end; null: not looked
    at, or nothing was there."""
    image: str | None
    """The image of its container, exactly: `ghcr.io/acme/etl@sha256:…`, or `sha256:…` for one that came from no
    registry; null: it ran in none."""


class AuditCallerView(TypedDict):
    """The caller of an entry, and the place from which the request came."""

    kind: Literal["key", "person", "program", "stranger"]
    id: str | None
    name: str
    address: str
    request_id: str


class AuditEntryView(TypedDict):
    """An entry of the audit log."""

    entry: int
    """Its number; numbers grow with time, with gaps."""
    at: str
    namespace: str
    """`*`: of the installation itself."""
    action: str
    caller: AuditCallerView
    target_kind: str
    target: str | None
    """The id or the name of the thing."""
    targets: list[str]
    """The ids of the things of an entry about several."""
    before: Any
    """The changed fields as they were, with secrets masked."""
    after: Any
    """The changed fields as they are."""
    detail: Any
    """Further facts."""


_BackfillBodyRequired = TypedDict("_BackfillBodyRequired", {"from": "str", "to": "str"})


class _BackfillBodyOptional(TypedDict, total=False):
    overlap: Overlap
    limit: int | None
    payload: Any
    params: Any


class BackfillBody(_BackfillBodyRequired, _BackfillBodyOptional):
    """The members of BackfillBody."""


class BackfillCancelled(TypedDict):
    """The number of unfinished runs that were ended, or asked to end."""

    cancelled: int


class BackfillView(TypedDict):
    """The runs that were asked for. They are listed by `GET /jobs/{job_id}/runs?origin={backfill_id}`."""

    backfill_id: str
    count: int
    first: str
    last: str
    """Nominal times."""
    closed: int
    """Occurrences that were left out because calendars close them."""
    more: bool
    """The limit came before the end of the range: go on after `last`."""


class BatchView(TypedDict):
    """The results of a batch, in its order."""

    created: int
    refused: int
    results: list[ResultView]


class _BulkProblemRequired(TypedDict):
    id: str
    code: str
    detail: str


class BulkProblem(_BulkProblemRequired, total=False):
    """A subject that an operation could not be carried out on; the operation itself, if it could not go on."""

    pointer: str | None
    """Into the body of a request that could not be applied."""


class BurnView(TypedDict):
    """The speed at which a budget is used in a window before now."""

    window_seconds: float
    rate: float
    """1 uses up the budget of 30 days in 30 days."""


class CalendarBody(TypedDict, total=False):
    """A calendar as people write it: the union of all that is given."""

    timezone: str
    """IANA name."""
    dates: list[str | DaysBody]
    weekly: list[WeeklyBody]
    recurring: list[RecurringBody]
    periods: list[PeriodBody]
    holidays: HolidaysBody | None
    ics: str | None
    """The text of an iCalendar file."""


class CalendarItem(TypedDict):
    """A calendar of a list."""

    name: str
    version: int
    created_by: str
    created_at: str
    updated_at: str
    warnings: list[str]
    """The entries that were not taken over from `ics` or `holidays`."""
    timezone: str
    entries: int
    """The number of its days, hours, windows and periods."""
    ics: bool
    """It was made from an iCalendar file."""
    holidays: HolidaysBody | None


class _CalendarPreviewBodyRequired(TypedDict):
    calendar: CalendarBody


_CalendarPreviewBodyOptional = TypedDict(
    "_CalendarPreviewBodyOptional", {"from": "str", "to": "str", "limit": "int"}, total=False
)


class CalendarPreviewBody(_CalendarPreviewBodyRequired, _CalendarPreviewBodyOptional):
    """The members of CalendarPreviewBody."""


class _CalendarUseRequired(TypedDict):
    name: str


class CalendarUse(_CalendarUseRequired, total=False):
    """One of the `calendars` of a job body. The job runs only inside all that it includes, and never inside one that
    it excludes."""

    mode: Literal["exclude", "include"]
    otherwise: Literal["defer", "skip"]
    """A run in a closed time is skipped, or runs as soon as all calendars allow it."""


class CalendarUseView(TypedDict):
    """A calendar that the job goes by."""

    name: str
    mode: Literal["exclude", "include"]
    otherwise: Literal["defer", "skip"]
    """A run in a closed time is skipped, or runs as soon as all calendars allow it."""


class CalendarView(TypedDict):
    """A calendar."""

    name: str
    version: int
    created_by: str
    created_at: str
    updated_at: str
    warnings: list[str]
    """The entries that were not taken over from `ics` or `holidays`."""
    calendar: CalendarBody
    """As it was sent."""
    resolved: ResolvedBody | None
    """Its resolved entries, if `ics` or `holidays` were given: from the first day of the year before it was stored,
    for ten years on."""


class CallerView(TypedDict):
    """The caller of this request."""

    name: str
    namespace: str
    """Of this request."""
    permissions: list[str]
    """In that namespace."""
    restricted: list[RestrictedView]
    """Further permissions there, each for jobs with certain labels alone."""
    key_id: str | None
    user_id: str | None
    expires_at: str | None


class CancelView(TypedDict):
    """A request to stop a run that an executor held."""

    asked_time: str
    said: str | None
    """Such as who asked."""
    heard_time: str | None
    """The time at which its executor received it; null: not yet, or never."""
    ended_time: str | None
    """The time at which all of its processes had ended."""


class CauseView(TypedDict):
    """Other facts that contributed."""

    code: str
    """One of asked_for, asked_to_stop, backfill, cancelled, dead_letter, deferred, executor_left, executor_lost,
    failed, failed_executor_lost, failed_unbegun, fired, forgotten, handed_out, held_calendar, held_maintenance,
    held_stopped, job_cancelled, last_run_failed, late, late_circuit, late_executor_lost, late_executors_busy,
    late_executors_left, late_limited, late_no_executor, late_not_offered, late_overlap, late_priority,
    late_queue_held, late_scheduler_away, late_scheduler_behind, late_start, late_stopped, late_store_away,
    limit_cpu, limit_disk, limit_files, limit_memory, limit_output, limit_processes, made_up_for, not_an_occurrence,
    not_due, not_retried_deadline, not_retried_rule, not_yet_created, on_demand, over_end_at, over_max_runs,
    over_no_time, over_one_time, paused, paused_fuse, retried, retried_by_rule, retry_of, running, schedule_changed,
    skipped, skipped_calendar, skipped_dst, skipped_expired, skipped_fuse, skipped_maintenance, skipped_misfire,
    skipped_overlap, skipped_paused, skipped_quota, skipped_requested, skipped_stopped, snoozed, started_by_sequence,
    successor_not_started, successor_started, unknown, unknown_outcome, waiting_backoff, waiting_capacity,
    waiting_circuit, waiting_executors_busy, waiting_given_back, waiting_isolation, waiting_no_executor,
    waiting_not_offered, waiting_overlap, waiting_paused, waiting_priority, waiting_queue_held, waiting_quota,
    waiting_rate, waiting_scheduler, waiting_secrets, waiting_slot, waiting_stopped, waiting_turn, will_be_deferred,
    will_be_skipped, will_fire; new ones may come."""
    sentence: str
    data: dict[str, Any]
    """The facts of the sentence, for programs."""


class ChangeView(TypedDict):
    """The effect of a change on the next 20 fires."""

    before: list[str]
    after: list[str]
    removed: list[str]
    added: list[str]
    kept: list[str]
    warnings: list[str]


class _ChannelBodyRequired(TypedDict):
    name: str
    kind: Literal["apprise", "email", "slack", "webhook"]


_ChannelBodyOptional = TypedDict(
    "_ChannelBodyOptional",
    {
        "url": "str | None",
        "to": "list[str] | None",
        "from": "str | None",
        "headers": "dict[str, str] | None",
        "allow_private": "bool",
        "installation": "bool",
    },
    total=False,
)


class ChannelBody(_ChannelBodyRequired, _ChannelBodyOptional):
    """The members of ChannelBody."""


ChannelChangeBody = TypedDict(
    "ChannelChangeBody",
    {
        "url": "str | None",
        "to": "list[str] | None",
        "from": "str | None",
        "headers": "dict[str, str] | None",
        "allow_private": "bool",
    },
    total=False,
)

ChannelView = TypedDict(
    "ChannelView",
    {
        "channel_id": "str",
        "name": "str",
        "kind": "Literal['apprise', 'email', 'slack', 'webhook']",
        "url": "str | None",
        "to": "list[str] | None",
        "from": "str | None",
        "headers": "dict[str, str] | None",
        "allow_private": "bool",
        "installation": "bool",
        "created_at": "str",
        "created_by": "str",
        "version": "int",
        "delivered_at": "str | None",
        "failed_at": "str | None",
        "error": "str | None",
        "failures": "int",
        "resting_until": "str | None",
        "waiting": "int",
        "waiting_events": "int",
    },
)


class ClockChanges(TypedDict, total=False):
    """The `dst` object of a job body, for CRON. What is left out goes as Debian's cron does: a line whose minute or
    hour begins with * keeps real time (skip, both), every other one runs once for each time (run_after, first)."""

    gap: Literal["run_after", "shift", "skip"] | None
    """For times that the clock skips."""
    overlap: Literal["both", "first", "second"] | None
    """For times that the clock shows twice."""


class ClockChangesView(TypedDict):
    """The handling of times that the clock skips or shows twice, for a CRON schedule; null: as Debian's cron does."""

    gap: Literal["run_after", "shift", "skip"] | None
    """For times that the clock skips."""
    overlap: Literal["both", "first", "second"] | None
    """For times that the clock shows twice."""


class CodeBody(TypedDict):
    """The first code of an app."""

    code: str


class _CodesBodyRequired(TypedDict):
    password: str
    """The present one."""


class CodesBody(_CodesBodyRequired, total=False):
    """The enrolment of an app with codes."""

    name: str
    """A name for the app, such as `phone`."""


class CodesEnrolmentView(TypedDict):
    """A new app with codes, which waits for its first code."""

    factor_id: str
    seed_secret: str
    """In base32, to type into the app; told this once."""
    otpauth_link: str
    """The `otpauth:` address for a QR code; told this once."""


class _ComponentBodyRequired(TypedDict):
    name: str
    """Public; unique on the page."""


class ComponentBody(_ComponentBodyRequired, total=False):
    """A component: jobs under a public name. Without jobs and labels, only announcements say something of it."""

    jobs: list[str]
    """Jobs by id, key or name."""
    labels: dict[str, str]


class ComponentView(TypedDict):
    """A component, with the state of the last look."""

    name: str
    jobs: list[str]
    labels: dict[str, str]
    state: Literal["degraded", "down", "late", "operational", "unknown"]


class ConcernedJobView(TypedDict):
    """A job that the rule concerns."""

    job_id: str
    name: str


class _ConcurrencyRequired(TypedDict):
    limit: int


class Concurrency(_ConcurrencyRequired, total=False):
    """The `concurrency` object of a job body: no more than `limit` runs with the same key go on at once."""

    key: str
    """`job`, `queue`, `namespace`, `label:NAME` (its value in this job) or `key:TEXT`."""


class ConcurrencyView(TypedDict):
    """No more than `limit` runs with the same key go on at once."""

    limit: int
    key: str
    """`job`, `queue`, `namespace`, `label:NAME` (its value in this job) or `key:TEXT`."""


class ConditionView(TypedDict):
    """A condition for the start."""

    condition: Literal[
        "calendar",
        "capacity",
        "circuit",
        "concurrency",
        "due",
        "earlier_runs",
        "executor",
        "isolation",
        "pause",
        "predecessor",
        "queue",
        "quota",
        "rate",
        "ready",
        "schedule",
        "scheduler",
        "slots",
        "status",
        "stop",
    ]
    """Stable. New ones may come."""
    met: bool
    evidence: str
    """The figures, names and ids that were seen."""
    looked_at: str
    change: str | None
    """The event that would make it met; null: it is met."""
    data: dict[str, Any]
    """The ids and figures of the evidence, for programs."""


class _ContainerTaskRequired(TypedDict):
    kind: Literal["container"]
    image: str
    """The image: `python:3.12`, `ghcr.io/acme/etl:1`, or with a digest `…@sha256:…`. Executors run images that their
    setting `container_images` allows."""


class ContainerTask(_ContainerTaskRequired, total=False):
    """`{"kind": "container", "image", "command", …}`: a program of an image, in a container."""

    command: str | list[str] | None
    """An array: the arguments of the entry point. A text: a script for the image's `/bin/sh`. Default: the image's
    own."""
    entrypoint: list[str] | None
    """The program with its first arguments, in the place of the image's entry point."""
    env: dict[str, str] | None
    """Environment variables. Names that begin with `TICKWISE_` are reserved. A value `secret:NAME` is that of a
    secret, `secret-file:NAME` the path of a file that holds it."""
    working_dir: str | None
    """The current folder in the container. Default: the image's own."""
    user: str | None
    """A user of the image, or numbers: `1000:1000`. Default: the image's own; 65534:65534 where that is root or not
    said."""
    mounts: list[dict[str, Any]] | None
    """Folders of the engine's host. Each must be in the setting `container_mounts` of the executor."""
    pull: Literal["missing", "always", "never"] | None
    """`missing`: the image is pulled if it is not there; `always`: before each run; `never`."""
    cpus: float | None
    """The most processors that it uses at once: `0.5`, `2`. Default: no limit."""


CoversView = TypedDict(
    "CoversView", {"from": "str", "to": "str", "covers": "list[StretchView]", "more": "bool", "warnings": "list[str]"}
)

_DaysBodyRequired = TypedDict("_DaysBodyRequired", {"from": "str"})


class _DaysBodyOptional(TypedDict, total=False):
    to: str | None
    name: str | None


class DaysBody(_DaysBodyRequired, _DaysBodyOptional):
    """The members of DaysBody."""


class _DecideBodyRequired(TypedDict):
    outcome: Literal["failed", "succeeded"]
    """The finding of a person: its task succeeded, or failed."""


class DecideBody(_DecideBodyRequired, total=False):
    """The true outcome of a run whose outcome was unknown. A sequence goes on from there."""

    note: str | None
    """A note for later readers."""


class DecidedAlertsView(TypedDict):
    """The outcome of a decision about all alerts that match."""

    matched: int
    """10,000 at most."""
    more: bool
    """More matched: the decision was about the oldest of them. Ask again for the others."""
    changed: int
    """0 of a dry run."""


class _DeviceBodyRequired(TypedDict):
    client: str
    """The name of the program and its machine. The person sees it before they approve."""


class DeviceBody(_DeviceBodyRequired, total=False):
    """A terminal that asks to be signed in."""

    client_id: str
    """Taken and not looked at."""
    scope: str
    """Permissions that the tokens are bounded by, spaces between."""
    namespace: str
    """The only namespace in which the tokens work."""


class DeviceView(TypedDict):
    """The codes of a request (RFC 8628, section 3.2)."""

    device_code: str
    """The secret of the terminal, for `POST /auth/token`."""
    user_code: str
    """The terminal shows it, and the person compares it."""
    verification_uri: str
    """The page for the person."""
    verification_uri_complete: str
    """The page with the code filled in. The person confirms it there."""
    expires_in: int
    """Seconds."""
    interval: int
    """Seconds between two polls."""


class DiscardBody(TypedDict, total=False):
    """The reason for which a dead letter is discarded."""

    note: str | None
    """A note for later readers."""


class DiscoveryView(TypedDict):
    """The description of this issuer, by which its tokens are checked (OpenID Connect Discovery 1.0)."""

    issuer: str
    jwks_uri: str
    response_types_supported: list[str]
    subject_types_supported: list[str]
    id_token_signing_alg_values_supported: list[str]
    scopes_supported: list[str]
    claims_supported: list[str]


class ErrorDecidedView(TypedDict):
    """A group of errors after a decision, for a caller without `runs:read`."""

    error_id: str
    status: Literal["ignored", "open", "resolved"]


class ErrorDetailView(TypedDict):
    """A group with what is counted in it."""

    error_id: str
    status: Literal["ignored", "open", "resolved"]
    reason: str
    """As runs have it: `error`, `exit_code`, `timeout`, …"""
    kind: str
    """The exit status, the signal, the status of HTTP or the exception; empty if the text names none."""
    message: str
    """The text of the error, with `<n>`, `<id>`, `<time>`, `<path>` and `<hex>` in place of what changes."""
    task_kind: str
    task: str
    """The name of the function, the method and host, or else the job: of those two, many jobs may share a group."""
    failures: int
    """Attempts that failed so."""
    jobs: int
    """Jobs that failed so, counted to about 1,000."""
    first_seen: str
    last_seen: str
    run_id: str
    """The run of the newest failure."""
    attempt_number: int
    error_message: str | None
    """The text of the newest failure."""
    decision: Literal["ignore", "resolve"] | None
    """The latest decision. The status says whether it still holds."""
    decided_at: str | None
    decided_by: str | None
    note: str | None
    ignored_until: str | None
    ignored_until_failures: int | None
    """It is open again when `failures` has reached this."""
    top_jobs: list[ErrorJobView]
    """Up to 50, those with most failures first."""
    hours: list[ErrorHourView]
    """Of the last 7 days, oldest first."""


class ErrorHourView(TypedDict):
    """An hour in which something failed."""

    hour: str
    failures: int


class ErrorIgnoreBody(TypedDict, total=False):
    """A group of errors is ignored until a time, or for a number of failures; with both, until the first of them."""

    until: str | None
    """It is open again at this time."""
    failures: int | None
    """It is open again after so many more failures."""
    note: str | None
    """A note for later readers."""


class ErrorJobView(TypedDict):
    """A job of a group."""

    job_id: str
    failures: int
    last_seen: str


class ErrorResolveBody(TypedDict, total=False):
    """A group of errors is resolved; it is open again when it fails again."""

    note: str | None
    """A note for later readers."""


class ErrorView(TypedDict):
    """Failures of one cause."""

    error_id: str
    status: Literal["ignored", "open", "resolved"]
    reason: str
    """As runs have it: `error`, `exit_code`, `timeout`, …"""
    kind: str
    """The exit status, the signal, the status of HTTP or the exception; empty if the text names none."""
    message: str
    """The text of the error, with `<n>`, `<id>`, `<time>`, `<path>` and `<hex>` in place of what changes."""
    task_kind: str
    task: str
    """The name of the function, the method and host, or else the job: of those two, many jobs may share a group."""
    failures: int
    """Attempts that failed so."""
    jobs: int
    """Jobs that failed so, counted to about 1,000."""
    first_seen: str
    last_seen: str
    run_id: str
    """The run of the newest failure."""
    attempt_number: int
    error_message: str | None
    """The text of the newest failure."""
    decision: Literal["ignore", "resolve"] | None
    """The latest decision. The status says whether it still holds."""
    decided_at: str | None
    decided_by: str | None
    note: str | None
    ignored_until: str | None
    ignored_until_failures: int | None
    """It is open again when `failures` has reached this."""


class EscalateBody(TypedDict):
    """Further channels for an alert that nobody acknowledges."""

    after: float | str
    """Seconds, or a duration such as 30m, after the first event; at least one minute."""
    channels: list[str]
    """The channels that are told, by their names."""


class EscalateView(TypedDict):
    """An escalation."""

    after: float
    """Seconds."""
    channels: list[str]


class ExecutorView(TypedDict):
    """An executor."""

    executor_id: str
    name: str
    alive: bool
    queues: list[str]
    labels: list[str]
    functions: list[str]
    namespaces: list[str] | None
    """It claims runs of these alone; null: of each one."""
    isolation: list[Literal["container", "process", "sandbox"]]
    """The levels that it offers."""
    run_as: list[str]
    """The users that tasks may name."""
    resources: dict[str, ResourceView]
    memory: MemoryView | None
    """Null: it counts none."""
    slots: int
    held: int
    registered_at: str
    lease_until: str
    gone_at: str | None


class ExplanationView(TypedDict):
    """An explanation."""

    code: str
    """Stable. New ones may come."""
    sentence: str
    """For people, with times on the job's clock."""
    job_id: str | None
    run_id: str | None
    """The run, or the record, that it speaks of."""
    nominal_time: str | None
    data: dict[str, Any]
    """The facts of the sentence, for programs; which members there are follows from the code."""
    causes: list[CauseView]
    conditions: list[ConditionView]
    """Of a run that waits, and of a job at present: each condition for the start, met or not. Else empty."""


class FactorChangeBody(TypedDict):
    """Another name for a factor."""

    password: str
    """The present one."""
    name: str


class FactorView(TypedDict):
    """A second factor."""

    factor_id: str
    kind: str
    """`totp` (an app with codes) or `passkey`."""
    name: str
    place: str | None
    """The host of a passkey."""
    created_at: str
    used_at: str | None
    suspected_at: str | None
    """Of a passkey: its counter fell, so there may be a copy of it. It works no more."""


class FactorsRemovedView(TypedDict):
    """The number of the second factors that were removed."""

    removed: int


class FailuresOfBody(TypedDict):
    """A number of failures among the newest ended runs of a job."""

    failures: int
    runs: int


class FailuresOfView(TypedDict):
    """A number of failures among a number of runs."""

    failures: int
    runs: int


class _FederationBodyRequired(TypedDict):
    name: str
    """The name for people, such as the repository."""
    issuer: str
    """The `iss` of the tokens: an https address without query, such as https://token.actions.githubusercontent.com."""
    audience: str
    """The `aud` that the tokens must have. Name this installation by it, so that no token that was made for another
    service is taken."""
    conditions: dict[str, str]
    """Claims that a token must have, with exact values or patterns: `*` stands for any characters. All must hold. A
    claim within an object is named by its path, `kubernetes.io/namespace`."""


class FederationBody(_FederationBodyRequired, total=False):
    """Trust in the tokens of an issuer."""

    role: str | None
    """As of a key: short for its permissions."""
    permissions: list[str] | None
    """The permissions that such a token gets."""
    namespaces: list[str] | None
    """The namespaces in which it works, as of a key. Left out: the namespace of the request."""
    labels: dict[str, str] | None
    """The permissions hold for jobs that have all of these labels, with their runs, dead letters and logs; for
    nothing else. Left out: for all jobs, and for what has no labels."""
    expires_at: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""
    lifetime_seconds: float
    """The time for which the access token works that such a token is exchanged for."""
    single_use: bool
    """A token that has an id (`jti`) is taken once. Say false for issuers that hand out one token for many requests,
    such as Kubernetes and GitLab."""
    key_set: dict[str, Any] | None
    """The public keys of the issuer as a JWKS, for one that cannot be reached from here. Left out: they are read
    from its discovery document, and again when it rotates them."""


class FederationView(TypedDict):
    """A federation."""

    federation_id: str
    """It is the id of its key, too."""
    name: str
    issuer: str
    audience: str
    conditions: dict[str, str]
    """Patterns by claim. All must hold."""
    key_set: dict[str, Any] | None
    """The public keys of the issuer; null: those that its discovery names."""
    lifetime_seconds: float
    single_use: bool
    namespace: str
    """The namespace of requests that name none."""
    namespaces: list[str]
    permissions: list[str]
    labels: dict[str, str]
    created_by: str | None
    owner_id: str | None
    """The person with whose permissions it works, as of a key."""
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """To the minute or so."""


class FireHitView(TypedDict):
    """A job with fires in the stop."""

    job_id: str
    name: str
    first_fire: str
    fires: int


class FireView(TypedDict):
    """One occurrence to come, on three clocks, and what becomes of it."""

    nominal: str
    """In the job's zone."""
    utc: str
    viewer: str
    """In the viewer's zone."""
    decision: Literal["defer", "fire", "skip"]
    """As far as it is known now: earlier runs may still go on by then."""
    due: str | None
    """The due time of its run in UTC: later than the nominal time by jitter, or by what it is deferred; null:
    skipped."""
    clock_change: bool
    """The job's clock is changed on this day."""
    note: str | None


class FunctionTask(TypedDict):
    """`{"kind": "function", "name": …}`: a function that is registered where executors run."""

    kind: Literal["function"]
    name: str
    """As registered by `@task`."""


class Health(TypedDict):
    """The answer of a healthy process."""

    status: str


class HealthDetails(TypedDict):
    """The health of the installation, with a sentence for each part."""

    status: Literal["degraded", "failing", "ok"]
    """The worst of the parts."""
    parts: dict[str, PartDetails]


class HealthSummary(TypedDict):
    """The health of the installation, as anybody may know it."""

    status: Literal["degraded", "failing", "ok"]
    """The worst of the parts."""
    parts: dict[str, Literal["degraded", "failing", "ok"]]


HoldView = TypedDict(
    "HoldView",
    {"from": "str | None", "until": "str | None", "reason": "str | None", "by": "str", "asked_at": "str | None"},
)


class _HolidaysBodyRequired(TypedDict):
    country: str
    """ISO 3166-1, two letters, such as DE."""


class HolidaysBody(_HolidaysBodyRequired, total=False):
    """The public holidays of a country, and of a part of it."""

    subdivision: str | None
    """ISO 3166-2, such as BY."""


class _HttpTaskRequired(TypedDict):
    kind: Literal["http"]
    url: str
    """May have values of the run behind its host: `/orders/{{ payload.id }}`."""


class HttpTask(_HttpTaskRequired, total=False):
    """`{"kind": "http", "method", "url", "headers", "body", "expect", …}`: one request; the answer is the result.
    `{{ … }}` in its texts is a value of the payload or of the run."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    query: dict[str, str | float | bool | list[str | float | bool]] | None
    """Parameters that are added to the query of the address."""
    headers: dict[str, str]
    body: Any
    """A text is sent as it is, anything else as JSON. With POST, PUT and PATCH it defaults to the payload."""
    form: dict[str, str | float | bool | list[str | float | bool]] | None
    """The fields of a form, sent urlencoded in the place of `body`."""
    templates: bool | None
    """Whether `{{ … }}` stands for a value of the run in address, query, headers, body and form. Default: it does."""
    expect: list[int | str] | None
    """Statuses that mean success, such as `[200, 404]` or `["2xx"]`."""
    sign: dict[str, Any] | None
    """Signs each request as Standard Webhooks says. Two secrets sign side by side while a receiver changes from one
    to the other."""
    oauth: dict[str, Any] | None
    """Signs in with client credentials (OAuth 2), and sends the token as `Authorization: Bearer`."""
    tls: dict[str, Any] | None
    """Certificates of this task for addresses with `https`."""
    connect_seconds: float | None
    """From the look-up of the name to a connection that is ready. Default: 30."""
    first_byte_seconds: float | None
    """From the beginning of a request to the status and headers of its answer. Default: no limit but the job's
    `timeout_seconds`."""
    answer_bytes: int | None
    """Of the body of an answer, unpacked. A larger one ends the attempt (`answer_limit`)."""
    kept_bytes: int | None
    """The beginning of the answer that is kept as output; the rest is read and dropped. Default: all of it."""


class _IdentityBodyRequired(TypedDict):
    subject: str
    """The claim `sub`."""


class IdentityBody(_IdentityBodyRequired, total=False):
    """A person at a provider."""

    issuer: str | None
    """None: the provider of the settings."""


class IdentityKeyRotation(TypedDict, total=False):
    """A rotation."""

    algorithm: Literal["EdDSA", "RS256"]
    at_once: bool
    """The new key signs now, and the others of its algorithm are no longer published: for a key that leaked. Tokens
    that they signed are refused, and tasks that go on get none until renewal."""


class IdentityKeyView(TypedDict):
    """A published key."""

    kid: str
    """Its name in the header of the tokens that it signs."""
    algorithm: Literal["EdDSA", "RS256"]
    created_at: str | None
    signs_at: str | None
    """It signs from then on, until the next one of its algorithm does."""


class _IdentityTokenRequired(TypedDict):
    audience: str | list[str]
    """The one that is to trust it, as it asks: sts.amazonaws.com; or a list of up to 10."""


class IdentityToken(_IdentityTokenRequired, total=False):
    """The `identity_token` object of a job body: each attempt gets a signed token that says which run it is."""

    algorithm: Literal["EdDSA", "RS256"]
    """RS256, which all clouds take, or EdDSA, which is shorter and quicker."""
    subject: Literal["job", "run"]
    """run: `ns:NAME:job:KEY:run:ID`; job: `ns:NAME:job:KEY`, for those that match it as a whole."""


class IdentityTokenView(TypedDict):
    """The signed token that each attempt gets."""

    audience: str | list[str]
    """The one that is to trust it, as it asks: sts.amazonaws.com; or a list of up to 10."""
    algorithm: Literal["EdDSA", "RS256"]
    """RS256, which all clouds take, or EdDSA, which is shorter and quicker."""
    subject: Literal["job", "run"]
    """run: `ns:NAME:job:KEY:run:ID`; job: `ns:NAME:job:KEY`, for those that match it as a whole."""


class IdentityView(TypedDict):
    """A person at a provider."""

    issuer: str
    subject: str
    """The claim `sub`."""


class _JobBodyRequired(TypedDict):
    name: str
    """The name for people. Beside `taskId` it may be left out: then it is the name of that task."""


class JobBody(_JobBodyRequired, total=False):
    """A job as people write it. `cron`, `every`, `at` and `params` are short forms."""

    job_id: str | None
    key: str | None
    """Unique in the namespace."""
    description: str | None
    labels: dict[str, str] | None
    owner: str | None
    schedule_type: ScheduleType | None
    schedule_time: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""
    at: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""
    cron_expression: str | None
    """5 fields, 6 with seconds first, or @daily; `@every 90s` is taken as interval_seconds."""
    cron: str | None
    """5 fields, 6 with seconds first, or @daily; `@every 90s` is taken as interval_seconds."""
    interval_seconds: float | None
    """At least 1."""
    every: str | None
    """A duration such as 90s, 5m, 1h30m: short for interval_seconds."""
    anchor: str | None
    """Of an interval: it fires at the anchor plus any whole number of intervals. If it is not sent, start_at;
    without that, the moment at which the schedule is stored."""
    timezone: str | None
    """IANA name, UTC if it is not sent. It belongs to the schedule: a change with a new schedule and no timezone
    resets it to UTC; a timezone alone keeps the schedule and moves it to that clock."""
    start_at: str | None
    """Of CRON and INTERVAL: no occurrence is before it. Like end_at, max_runs, dst and timezone it belongs to the
    schedule: a new schedule without it has none; sent alone it changes the one that is there."""
    end_at: str | None
    """Of CRON and INTERVAL: no occurrence is after it."""
    max_runs: int | None
    """Of CRON and INTERVAL: after so many runs by schedule it is over. Runs that are skipped when they are decided
    do not count, nor do runs that people ask for; runs that overlap or a pause keeps from starting do. A new
    schedule counts from 0."""
    dst: ClockChanges | None
    jitter_seconds: float | None
    """Each run is due up to so many seconds after its nominal time; for one occurrence always the same. Like
    window_seconds, misfire, overlap, calendars and fuse_per_minute it is a policy: it stays until another one is
    sent; null is the default."""
    window_seconds: float | None
    """A flexible window: as jitter_seconds; only one of the two."""
    misfire: MisfirePolicy | None
    overlap: Overlap | None
    """The treatment of a scheduled run that is due while an earlier one goes on: skip (the default), queue_one,
    queue_all, cancel_running or allow."""
    calendars: list[CalendarUse] | None
    fuse_per_minute: int | None
    """More runs by schedule than this within a minute pause the job; 120 if not sent."""
    task: Task
    """The task to run: its kind and parameters."""
    taskId: str | None
    """The id of a stored task."""
    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""
    isolation: Literal["container", "process", "sandbox"] | None
    """The wall around a python or shell task: process, sandbox, or container with `container_image`. Not sent:
    sandbox if the executors of the queue offer it, else process with a warning; it is stored, and stays. A task of
    the kind container is always in one."""
    allow_network: bool | list[str] | None
    """The network of a task in a sandbox: none if not sent, true for all that its executor reaches, or destinations
    such as api.example.com:443, *.example.com:443 or [2001:db8::1]:5432."""
    run_as: str | None
    """The system user that the task runs as; executors name those."""
    resources: dict[str, int] | None
    """Counted capacities of an executor that a run holds, by name: {"gpu": 1}."""
    identity_token: IdentityToken | None
    container_image: str | None
    """The image of a python or shell task with isolation container: `python:3.12`, `ghcr.io/acme/etl@sha256:…`."""
    queue: str | None
    requires: list[str] | None
    """Labels, `name` or `name=value`, that an executor must have."""
    priority: int | None
    """9 first."""
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    """A run by schedule that no executor could start within this time after it was due is skipped (reason
    `expired`). Without it, such a run waits for an executor however long."""
    objective_start_seconds: float | None
    """The objective for its starts: `objective_ratio` of the runs of 30 days begin within this time of their due
    time. Of recurring jobs; see `GET /objectives`."""
    objective_ratio: float | None
    """The share of its runs that shall begin in time; 0.99 if not sent."""
    limits: Limits | None
    max_retries: int | None
    retry: RetryBody | None
    on_unknown: Literal["fail", "hold", "rerun"] | None
    """The treatment of a run whose executor was lost after it began, so that its outcome is unknown: rerun (the
    default), fail, or hold until a person decides."""
    concurrency: Concurrency | None
    rate: Rate | None
    then: str | list[str] | None
    """Jobs that run when a run of this one ends well: an id or key, or a list of up to 20. The result, if there is
    one, is their payload."""
    on_failure: str | list[str] | None
    """The same for a run that failed for good; their payload says which run it was, and why it failed."""
    notify: list[str] | None
    """Names of channels that are told when the job fails, succeeds again, did not run, or is paused by its fuse. A
    notification rule says more than that."""


class JobChangeBody(TypedDict, total=False):
    """The fields of a job to change; those that are not sent stay as they are."""

    name: str | None
    """The name for people. Beside `taskId` it may be left out: then it is the name of that task."""
    job_id: str | None
    key: str | None
    """Unique in the namespace."""
    description: str | None
    labels: dict[str, str] | None
    owner: str | None
    schedule_type: ScheduleType | None
    schedule_time: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""
    at: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""
    cron_expression: str | None
    """5 fields, 6 with seconds first, or @daily; `@every 90s` is taken as interval_seconds."""
    cron: str | None
    """5 fields, 6 with seconds first, or @daily; `@every 90s` is taken as interval_seconds."""
    interval_seconds: float | None
    """At least 1."""
    every: str | None
    """A duration such as 90s, 5m, 1h30m: short for interval_seconds."""
    anchor: str | None
    """Of an interval: it fires at the anchor plus any whole number of intervals. If it is not sent, start_at;
    without that, the moment at which the schedule is stored."""
    timezone: str | None
    """IANA name, UTC if it is not sent. It belongs to the schedule: a change with a new schedule and no timezone
    resets it to UTC; a timezone alone keeps the schedule and moves it to that clock."""
    start_at: str | None
    """Of CRON and INTERVAL: no occurrence is before it. Like end_at, max_runs, dst and timezone it belongs to the
    schedule: a new schedule without it has none; sent alone it changes the one that is there."""
    end_at: str | None
    """Of CRON and INTERVAL: no occurrence is after it."""
    max_runs: int | None
    """Of CRON and INTERVAL: after so many runs by schedule it is over. Runs that are skipped when they are decided
    do not count, nor do runs that people ask for; runs that overlap or a pause keeps from starting do. A new
    schedule counts from 0."""
    dst: ClockChanges | None
    jitter_seconds: float | None
    """Each run is due up to so many seconds after its nominal time; for one occurrence always the same. Like
    window_seconds, misfire, overlap, calendars and fuse_per_minute it is a policy: it stays until another one is
    sent; null is the default."""
    window_seconds: float | None
    """A flexible window: as jitter_seconds; only one of the two."""
    misfire: MisfirePolicy | None
    overlap: Overlap | None
    """The treatment of a scheduled run that is due while an earlier one goes on: skip (the default), queue_one,
    queue_all, cancel_running or allow."""
    calendars: list[CalendarUse] | None
    fuse_per_minute: int | None
    """More runs by schedule than this within a minute pause the job; 120 if not sent."""
    task: Task
    """The task to run: its kind and parameters."""
    taskId: str | None
    """The id of a stored task."""
    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""
    isolation: Literal["container", "process", "sandbox"] | None
    """The wall around a python or shell task: process, sandbox, or container with `container_image`. Not sent:
    sandbox if the executors of the queue offer it, else process with a warning; it is stored, and stays. A task of
    the kind container is always in one."""
    allow_network: bool | list[str] | None
    """The network of a task in a sandbox: none if not sent, true for all that its executor reaches, or destinations
    such as api.example.com:443, *.example.com:443 or [2001:db8::1]:5432."""
    run_as: str | None
    """The system user that the task runs as; executors name those."""
    resources: dict[str, int] | None
    """Counted capacities of an executor that a run holds, by name: {"gpu": 1}."""
    identity_token: IdentityToken | None
    container_image: str | None
    """The image of a python or shell task with isolation container: `python:3.12`, `ghcr.io/acme/etl@sha256:…`."""
    queue: str | None
    requires: list[str] | None
    """Labels, `name` or `name=value`, that an executor must have."""
    priority: int | None
    """9 first."""
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    """A run by schedule that no executor could start within this time after it was due is skipped (reason
    `expired`). Without it, such a run waits for an executor however long."""
    objective_start_seconds: float | None
    """The objective for its starts: `objective_ratio` of the runs of 30 days begin within this time of their due
    time. Of recurring jobs; see `GET /objectives`."""
    objective_ratio: float | None
    """The share of its runs that shall begin in time; 0.99 if not sent."""
    limits: Limits | None
    max_retries: int | None
    retry: RetryBody | None
    on_unknown: Literal["fail", "hold", "rerun"] | None
    """The treatment of a run whose executor was lost after it began, so that its outcome is unknown: rerun (the
    default), fail, or hold until a person decides."""
    concurrency: Concurrency | None
    rate: Rate | None
    then: str | list[str] | None
    """Jobs that run when a run of this one ends well: an id or key, or a list of up to 20. The result, if there is
    one, is their payload."""
    on_failure: str | list[str] | None
    """The same for a run that failed for good; their payload says which run it was, and why it failed."""
    notify: list[str] | None
    """Names of channels that are told when the job fails, succeeds again, did not run, or is paused by its fuse. A
    notification rule says more than that."""


class _JobCreatedRequired(TypedDict):
    job_id: str


class JobCreated(_JobCreatedRequired, total=False):
    """A job that is stored."""

    warnings: list[str]


class JobMoveBody(TypedDict):
    """The namespace that a job goes to."""

    namespace: str


class _JobViewRequired(TypedDict):
    job_id: str
    namespace: str
    name: str
    key: str | None
    description: str | None
    labels: dict[str, str]
    owner: str
    schedule_type: ScheduleType
    schedule_time: str | None
    cron_expression: str | None
    interval_seconds: float | None
    anchor: str | None
    timezone: str
    start_at: str | None
    end_at: str | None
    max_runs: int | None
    dst: ClockChangesView
    jitter_seconds: float
    window_seconds: float
    misfire: MisfireView
    overlap: Overlap
    calendars: list[CalendarUseView]
    fuse_per_minute: int
    planned_at: str | None
    """Since when its schedule counts: its creation, or the last change of it."""
    task: StoredTask
    taskId: str | None
    task_version: int | None
    payload: Any
    isolation: Literal["container", "process", "sandbox"]
    allow_network: bool | list[str]
    run_as: str | None
    resources: dict[str, int]
    identity_token: IdentityTokenView | None
    container_image: str | None
    queue: str
    requires: list[str]
    priority: int
    timeout_seconds: float | None
    start_deadline_seconds: float | None
    objective_start_seconds: float | None
    objective_ratio: float
    limits: LimitsView
    max_retries: int
    retry: RetryView
    on_unknown: Literal["fail", "hold", "rerun"]
    concurrency: ConcurrencyView | None
    rate: RateView | None
    then: list[str]
    on_failure: list[str]
    notify: list[str]
    status: Literal["CANCELLED", "COMPLETED", "FAILED", "PAUSED", "SCHEDULED"]
    pause_reason: str | None
    pause_until: str | None
    paused_at: str | None
    paused_by: str | None
    next_run_at: str | None
    created_at: str
    updated_at: str
    created_by: str
    version: int
    warnings: list[str]


class JobView(_JobViewRequired, total=False):
    """A job with every field."""

    pending: bool
    """true: a change or a cancel of it was accepted, and is not applied yet."""


class JobWrittenView(TypedDict):
    """A job after a write, for a caller without `jobs:read`."""

    job_id: str
    status: Literal["CANCELLED", "COMPLETED", "FAILED", "PAUSED", "SCHEDULED"]
    version: int
    warnings: list[str]
    """The warnings about this write."""


class JobsBody(TypedDict):
    """A batch as an object."""

    jobs: list[JobBody]


class _JobsCancelBodyRequired(TypedDict):
    filter: JobsFilter


class JobsCancelBody(_JobsCancelBodyRequired, total=False):
    """Jobs to cancel, for good."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""


class JobsFilter(TypedDict, total=False):
    """The jobs; everything given must match."""

    all: bool
    """Everything there is: in place of all other fields."""
    job_ids: list[str]
    """Any of these jobs."""
    key: str
    name: str
    """A part of the name, in any case."""
    labels: dict[str, str]
    status: (
        Literal["CANCELLED", "COMPLETED", "FAILED", "PAUSED", "SCHEDULED"]
        | list[Literal["CANCELLED", "COMPLETED", "FAILED", "PAUSED", "SCHEDULED"]]
    )
    """Any of these."""
    schedule_type: ScheduleType
    task_kind: str
    owner: str
    next_run_after: str
    next_run_before: str


class JobsMatched(TypedDict):
    """The result of a dry run."""

    matches: int
    more: bool
    sample: list[JobView]


class _JobsPauseBodyRequired(TypedDict):
    filter: JobsFilter


class JobsPauseBody(_JobsPauseBodyRequired, total=False):
    """Jobs to pause: scheduled ones if the filter names no status. Those that do not recur are refused, one by one."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""
    reason: str | None
    until: str | None


class _JobsResumeBodyRequired(TypedDict):
    filter: JobsFilter


class JobsResumeBody(_JobsResumeBodyRequired, total=False):
    """Jobs to resume: paused ones if the filter names no status."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""
    missed: Literal["run_all", "run_latest", "skip"]


class _KeyBodyRequired(TypedDict):
    name: str
    """The name for people. Keys of one name share nothing."""


class KeyBody(_KeyBodyRequired, total=False):
    """A key to make."""

    role: str | None
    """`viewer`, `operator`, `developer` or `admin`: short for permissions."""
    permissions: list[str] | None
    """The permissions of the key, such as `jobs:write`; `*` is everything."""
    scopes: list[str] | None
    """The earlier name of `permissions`."""
    namespaces: list[str] | None
    """The namespaces in which the key works; requests that name none are about the first. `*` is each one, and the
    installation itself. Left out: the namespace of the request."""
    namespace: str | None
    """Short for `namespaces` with this one."""
    labels: dict[str, str] | None
    """The permissions hold for jobs that have all of these labels, with their runs, dead letters and logs; for
    nothing else. Left out: for all jobs, and for what has no labels."""
    expires_at: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""


class KeyRotateBody(TypedDict, total=False):
    """Another secret for a key."""

    overlap_seconds: float
    """The present secret works for this time beside the new one; 0 ends it, and any earlier one, at once."""


class KeySetView(TypedDict):
    """The public keys of tokens (RFC 7517)."""

    keys: list[dict[str, Any]]


class KeyUseView(TypedDict):
    """A key of the installation, and what it wraps."""

    id: str
    known: bool
    """The server that answers has it."""
    newest: bool
    """It wraps what is set from now on."""
    secrets: int


class KeyView(TypedDict):
    """A key, without its secret."""

    key_id: str
    name: str
    """For people. Keys of one name share nothing."""
    namespace: str
    """The namespace of requests that name none."""
    namespaces: list[str]
    """All in which it works; `*`: each one, and the installation itself."""
    permissions: list[str]
    labels: dict[str, str]
    """The permissions hold for jobs that have all of these; empty: for all jobs."""
    scopes: list[str]
    """`permissions` under its earlier name."""
    origin: Literal["first", "local", "made", "setting"]
    """`made` on request, by the `setting` bootstrap_key, as the `first` one of the installation, or for the `local`
    command line of an `up`."""
    prefix: str | None
    """The beginning of the secret."""
    created_by: str | None
    owner_id: str | None
    """The person with whose permissions it works: it does at most what they may do now, and nothing once they are
    deactivated. None: it needs nobody's."""
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """To the minute or so."""
    revoked_at: str | None
    rotated_at: str | None
    """The time of its last rotation; None: it has its first secret."""
    earlier_secret_until: str | None
    """The secret before the present one works until then. None: it works no more, or there is none."""


class LetterDetailView(TypedDict):
    """A dead letter with all that is known of its run."""

    run_id: str
    """It is named by its run."""
    job_id: str
    job_name: str
    task_kind: str
    status: LetterStatus
    reason: str | None
    error_message: str | None
    attempt_number: int
    failures: int
    crashes: int
    due_time: str
    end_time: str | None
    log_url: str | None
    origin: str | None
    """The run that was repeated by it, or that started it."""
    redriven_as: str | None
    """The run that was made in its place."""
    outcome: Literal["failed", "succeeded"] | None
    """A person's decision on an unknown outcome."""
    note: str | None
    settled_time: str | None
    settled_by: str | None
    run: RunView
    payload: Any
    """The run's own payload, if it is not the job's."""
    attempts: list[AttemptView]
    chain: list[str]
    """The runs that were made of each other by retries and redrives, the first first, its own among them."""


class LetterSettledView(TypedDict):
    """A dead letter after a write, for a caller without `runs:read`."""

    run_id: str
    status: LetterStatus


class LetterView(TypedDict):
    """A dead letter."""

    run_id: str
    """It is named by its run."""
    job_id: str
    job_name: str
    task_kind: str
    status: LetterStatus
    reason: str | None
    error_message: str | None
    attempt_number: int
    failures: int
    crashes: int
    due_time: str
    end_time: str | None
    log_url: str | None
    origin: str | None
    """The run that was repeated by it, or that started it."""
    redriven_as: str | None
    """The run that was made in its place."""
    outcome: Literal["failed", "succeeded"] | None
    """A person's decision on an unknown outcome."""
    note: str | None
    settled_time: str | None
    settled_by: str | None


class _LettersDiscardBodyRequired(TypedDict):
    filter: LettersFilter


class LettersDiscardBody(_LettersDiscardBodyRequired, total=False):
    """Dead letters to discard: open ones if the filter names no status."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""
    note: str | None
    """A note for later readers."""


class LettersFilter(TypedDict, total=False):
    """The dead letters; everything given must match."""

    all: bool
    """Everything there is: in place of all other fields."""
    status: list[LetterStatus]
    """If not sent: open."""
    job_id: str
    task_kind: str
    reason: str
    error_id: str
    """Of the runs of this group of errors."""
    ended_after: str
    ended_before: str


class LettersMatched(TypedDict):
    """The result of a dry run."""

    matches: int
    more: bool
    sample: list[LetterView]


class _LettersRedriveBodyRequired(TypedDict):
    filter: LettersFilter


class LettersRedriveBody(_LettersRedriveBodyRequired, total=False):
    """Dead letters to redrive: open ones if the filter names no status. With a payload, all of them get it."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""
    note: str | None
    """A note for later readers."""
    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""


class Limits(TypedDict, total=False):
    """The `limits` object of a job body: what one attempt may use, with all that it starts."""

    output_bytes: int
    cpu_seconds: float | None
    """Processor time of the task with all that it starts; more is `cpu_limit`."""
    memory_bytes: int | None
    """Memory of the task with all that it starts; more is `memory_limit`."""
    processes: int | None
    """Processes and threads at once of the task; more is `process_limit`."""
    disk_bytes: int | None
    """Room that its work folder and its temporary files take at once; more is `disk_limit`."""
    files: int | None
    """Files and folders there at once; more is `file_limit`."""


class LimitsView(TypedDict):
    """The resources that one attempt may use, with all processes that it starts."""

    output_bytes: int
    cpu_seconds: float | None
    """Processor time of the task with all that it starts; more is `cpu_limit`."""
    memory_bytes: int | None
    """Memory of the task with all that it starts; more is `memory_limit`."""
    processes: int | None
    """Processes and threads at once of the task; more is `process_limit`."""
    disk_bytes: int | None
    """Room that its work folder and its temporary files take at once; more is `disk_limit`."""
    files: int | None
    """Files and folders there at once; more is `file_limit`."""


class LinkUseBody(TypedDict):
    """The secret of a link, and the password that the person chooses."""

    secret: str
    password: str


class LinkView(TypedDict):
    """The secret of a link, told this once."""

    link: str


class ListedSecretView(TypedDict):
    """A secret in a list."""

    name: str
    version: int
    created_at: str
    created_by: str
    changed_at: str
    """The time of its newest version."""
    changed_by: str
    sealed_under: str
    """The id of the installation's key that wraps its data key; `command`: a key behind a command."""
    readable: bool
    """False: the server that answers does not have this key. If no other server has it, the value is lost: set it
    again."""
    jobs: int
    """The jobs, recurring or on demand, that name it; 1,000 at most. `GET /secrets/{name}/uses` has them all."""


class LogHitView(TypedDict):
    """A line with the text."""

    run_id: str
    job_id: str
    attempt_number: int
    offset: int
    """Of the line, in bytes of the attempt's log."""
    line: str
    """Its first 500 bytes."""
    origin: Literal["task", "tickwise"]
    """The writer of the line."""


class LogLineView(TypedDict):
    """The data of an event `log`: a line of a run's output."""

    run_id: str
    attempt: int
    offset: int
    next_offset: int
    line: str
    """Without its end; of more than 64 kB: a part of it."""
    origin: Literal["task", "tickwise"]
    """`tickwise`: Tickwise itself wrote it, and no task can make it say so."""


class LogPartView(TypedDict):
    """A part of a log that one of both wrote."""

    origin: Literal["task", "tickwise"]
    """`tickwise`: such as the line that names the artefacts. A task can print such a line, but not with this origin."""
    offset: int
    text: str


class LogSearchView(TypedDict):
    """The lines that were found, and the extent of the search."""

    hits: list[LogHitView]
    runs_searched: int
    bytes_searched: int
    logs_cut: int
    """Logs that were searched in part: of each the first 16 MiB are, up to 20 hits."""
    next_before: str | None
    """The next answer goes on with `before` = this; none: all runs that match were searched."""


class LogView(TypedDict):
    """A part of a log, as JSON; bytes that are no UTF-8 are replaced."""

    run_id: str
    attempt_number: int
    offset: int
    next_offset: int
    complete: bool
    """No more will follow."""
    text: str
    waiting_bytes: int
    """Bytes of an attempt that is over which are not stored yet: they follow when the object store answers."""
    waiting_on: str | None
    """The executor on whose disk they are."""
    parts: list[LogPartView]
    """`text` by its origin, where a part of it is of Tickwise itself. Empty: all of it is the task's."""


class LoggedOutView(TypedDict):
    """The sessions have ended."""

    ended: bool


class LogoutTokenBody(TypedDict):
    """A logout that the provider tells, as a form."""

    logout_token: str


MadeChannelView = TypedDict(
    "MadeChannelView",
    {
        "channel_id": "str",
        "name": "str",
        "kind": "Literal['apprise', 'email', 'slack', 'webhook']",
        "url": "str | None",
        "to": "list[str] | None",
        "from": "str | None",
        "headers": "dict[str, str] | None",
        "allow_private": "bool",
        "installation": "bool",
        "created_at": "str",
        "created_by": "str",
        "version": "int",
        "delivered_at": "str | None",
        "failed_at": "str | None",
        "error": "str | None",
        "failures": "int",
        "resting_until": "str | None",
        "waiting": "int",
        "waiting_events": "int",
        "secret": "str | None",
    },
)


class MadeKeyView(TypedDict):
    """A new key, with its secret, which is told this once."""

    key_id: str
    name: str
    """For people. Keys of one name share nothing."""
    namespace: str
    """The namespace of requests that name none."""
    namespaces: list[str]
    """All in which it works; `*`: each one, and the installation itself."""
    permissions: list[str]
    labels: dict[str, str]
    """The permissions hold for jobs that have all of these; empty: for all jobs."""
    scopes: list[str]
    """`permissions` under its earlier name."""
    origin: Literal["first", "local", "made", "setting"]
    """`made` on request, by the `setting` bootstrap_key, as the `first` one of the installation, or for the `local`
    command line of an `up`."""
    prefix: str | None
    """The beginning of the secret."""
    created_by: str | None
    owner_id: str | None
    """The person with whose permissions it works: it does at most what they may do now, and nothing once they are
    deactivated. None: it needs nobody's."""
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    """To the minute or so."""
    revoked_at: str | None
    rotated_at: str | None
    """The time of its last rotation; None: it has its first secret."""
    earlier_secret_until: str | None
    """The secret before the present one works until then. None: it works no more, or there is none."""
    key: str


class MemberView(TypedDict):
    """A role in a namespace."""

    role: str
    namespace: str
    """`*`: each one, and the installation itself."""
    labels: dict[str, str]
    """The role holds for jobs that have all of these; empty: for all jobs."""


class MemoryView(TypedDict):
    """The memory of an executor that runs with `limits.memory_bytes` reserve."""

    total_bytes: int
    reserved_bytes: int
    """As of its last heartbeat."""


class MisfirePolicy(TypedDict, total=False):
    """The `misfire` object of a job body: what becomes of occurrences that could not run in time."""

    grace_seconds: float
    """A run that is late by at most this runs as usual."""
    mode: Literal["all", "latest", "skip"]
    """Of later runs, none, the latest, or all up to max_catchup run; the others are recorded as skipped."""
    max_catchup: int
    """With all: so many, the latest, one after the other."""


class MisfireView(TypedDict):
    """The handling of occurrences that could not run in time."""

    grace_seconds: float
    """A run that is late by at most this runs as usual."""
    mode: Literal["all", "latest", "skip"]
    """Of later runs, none, the latest, or all up to max_catchup run; the others are recorded as skipped."""
    max_catchup: int
    """With all: so many, the latest, one after the other."""


class _NamespaceBodyRequired(TypedDict):
    name: str
    """Small letters, digits and hyphens, as in a label of DNS."""


class NamespaceBody(_NamespaceBodyRequired, total=False):
    """A namespace to add."""

    display_name: str
    """The name for people."""


class NamespaceChangeBody(TypedDict, total=False):
    """The fields of a namespace to change."""

    display_name: str
    """The name for people."""
    state: Literal["active", "closing"]
    """`closing`: it takes nothing new, and what is there goes on; `active`: it is open again. Neither can be set
    once `DELETE` has begun to remove it."""
    expected_version: int


class NamespaceLeftView(TypedDict):
    """The rest of a namespace that is being removed, each number up to 10,000."""

    jobs: int
    unfinished_runs: int
    """Runs that have yet to stop."""
    ended_runs: int
    """Runs on record."""


class NamespaceView(TypedDict):
    """A namespace."""

    name: str
    display_name: str
    state: Literal["active", "closing", "removing"]
    """`closing`: it takes nothing new, and what is there goes on. `removing`: it is being removed."""
    created_at: str
    created_by: str | None
    """Null: somebody whom the caller does not see."""
    version: int
    left: NamespaceLeftView | None
    """While it is being removed, in the answer about it alone: what is left of it."""


class NoticeLineView(TypedDict):
    """One event in a notice."""

    at: str
    event: Literal[
        "anomaly",
        "dead_letter",
        "did_not_run",
        "executor_lost",
        "expiring",
        "failure",
        "first_failure",
        "fuse",
        "late",
        "long",
        "objective",
        "recovery",
        "retries",
        "success",
    ]
    severity: Literal["critical", "info", "warning"]
    subject: str
    subject_name: str
    run_id: str | None
    alert_id: str | None
    sentence: str
    labels: dict[str, str]


class NoticeView(TypedDict):
    """One message for one channel."""

    notice_id: str
    channel_id: str
    channel: str | None
    """The name of the channel; null: it was removed."""
    rule_id: str | None
    """Null: the job's own `notify`, or a test of a channel."""
    rule: str
    severity: Literal["critical", "info", "warning"]
    """The worst of its events."""
    state: Literal["dead", "delivered", "dropped", "waiting"]
    events: int
    first_at: str
    last_at: str
    lines: list[NoticeLineView]
    """The newest of its events, 20 at most; `events` counts all."""
    due: str
    """Not tried before."""
    tries: int
    error: str | None
    """The error of the last try."""
    ended_at: str | None
    test: bool
    escalation: bool


class _NotificationRuleBodyRequired(TypedDict):
    name: str
    """Unique in the namespace."""
    on: list[
        Literal[
            "failure",
            "first_failure",
            "recovery",
            "did_not_run",
            "late",
            "long",
            "retries",
            "dead_letter",
            "fuse",
            "executor_lost",
            "objective",
            "anomaly",
            "expiring",
            "success",
        ]
    ]
    """The events that it is about."""
    channels: list[str]
    """The channels that are told, by their names."""


class NotificationRuleBody(_NotificationRuleBodyRequired, total=False):
    """A notification rule to make, or to preview."""

    jobs: list[str]
    """These jobs, by id, key or name."""
    labels: dict[str, str]
    """Jobs that have all of these labels. Without jobs and labels: the whole namespace. A rule about success names
    jobs, and has no labels."""
    severity: Literal["critical", "info", "warning"]
    after: float | str | None
    """Of late and long: seconds, or a duration such as 10m. Not sent: what is usual of each."""
    in_a_row: int | None
    """With failure: only when this many runs in a row failed."""
    failures_of: FailuresOfBody | None
    attempts: int | None
    """Of retries: when so many attempts of a run failed; 3 if not sent."""
    group: float | str | None
    """After the first notice, later ones of this rule are gathered for so long: 5m if not sent."""
    repeat: float | str | None
    """An open alert that nobody acknowledged is told again after so long. Not sent: never."""
    quiet: QuietBody | None
    escalate: EscalateBody | None
    enabled: bool
    installation: bool
    """It belongs to the installation, not to the namespace. For administrators of the installation: rules about
    executors and certificates use such channels."""


class NotificationRuleChangeBody(TypedDict, total=False):
    """The fields of a rule to change; those that are not sent stay, null takes one away; it says nothing of a field
    that each rule has."""

    name: str
    on: (
        list[
            Literal[
                "failure",
                "first_failure",
                "recovery",
                "did_not_run",
                "late",
                "long",
                "retries",
                "dead_letter",
                "fuse",
                "executor_lost",
                "objective",
                "anomaly",
                "expiring",
                "success",
            ]
        ]
        | None
    )
    """The events that it is about."""
    channels: list[str] | None
    """The channels that are told, by their names."""
    jobs: list[str] | None
    """These jobs, by id, key or name."""
    labels: dict[str, str] | None
    """Jobs that have all of these labels. Without jobs and labels: the whole namespace. A rule about success names
    jobs, and has no labels."""
    severity: Literal["critical", "info", "warning"]
    after: float | str | None
    """Of late and long: seconds, or a duration such as 10m. Not sent: what is usual of each."""
    in_a_row: int | None
    """With failure: only when this many runs in a row failed."""
    failures_of: FailuresOfBody | None
    attempts: int | None
    """Of retries: when so many attempts of a run failed; 3 if not sent."""
    group: float | str | None
    """After the first notice, later ones of this rule are gathered for so long: 5m if not sent."""
    repeat: float | str | None
    """An open alert that nobody acknowledged is told again after so long. Not sent: never."""
    quiet: QuietBody | None
    escalate: EscalateBody | None
    enabled: bool


class NotificationRuleView(TypedDict):
    """A notification rule. Times are seconds."""

    rule_id: str
    name: str
    on: list[
        Literal[
            "anomaly",
            "dead_letter",
            "did_not_run",
            "executor_lost",
            "expiring",
            "failure",
            "first_failure",
            "fuse",
            "late",
            "long",
            "objective",
            "recovery",
            "retries",
            "success",
        ]
    ]
    channels: list[str]
    """The names of its channels; one that was removed has left the rule."""
    jobs: list[str]
    labels: dict[str, str]
    severity: Literal["critical", "info", "warning"]
    after: float | None
    in_a_row: int | None
    failures_of: FailuresOfView | None
    attempts: int | None
    group: float
    repeat: float | None
    quiet: QuietView | None
    escalate: EscalateView | None
    enabled: bool
    installation: bool
    created_at: str
    created_by: str
    version: int


class _ObjectiveBodyRequired(TypedDict):
    name: str
    """One line, which no other one has."""
    start_within_seconds: float
    """The runs begin within this time of their due time: ..."""


class ObjectiveBody(_ObjectiveBodyRequired, total=False):
    """An objective for the starts of all runs of the namespace, of one priority, of jobs with certain labels, or of
    both."""

    ratio: float
    """... this share of them."""
    priority: int | None
    """Of jobs with this priority; null: any."""
    labels: dict[str, str]
    """Of jobs that have all of these labels; empty: any."""


class ObjectiveView(TypedDict):
    """An objective, and how it stands."""

    job_id: str | None
    """The job that has it; null: it is one by priority or labels."""
    objective_id: str | None
    """The id of one by priority or labels; null: it is that of a job."""
    name: str
    """Its own, or that of the job."""
    priority: int | None
    """Of one by priority; null: any."""
    labels: dict[str, str]
    """The jobs of one by labels have all of them."""
    start_within_seconds: float
    ratio: float
    """The share of the runs that shall begin in time."""
    state: Literal["burning", "exhausted", "met", "unknown"]
    window_seconds: float
    good: int
    """Runs of the window that began in time."""
    late: int
    """Runs that began later, wait beyond their time, or were skipped because nothing could start them in time."""
    budget_left: float
    """1: nothing of it is used; 0: all of it; below 0: more."""
    burn: list[BurnView]
    """Of 6 hours, an hour, 30 and 5 minutes."""
    since: str | None
    """Earlier runs are not counted, for there are too many, or the objective was made then. Null: all of the window
    that are on record are."""


class OccurrenceView(TypedDict):
    """The result for one occurrence."""

    run_id: str
    nominal_time: str
    due_time: str | None
    """The time at which it runs; null: it does not."""
    status: RunState
    """SKIPPED or QUEUED; DISPATCHED: an executor was asked to give it up, and does unless it has begun."""


class OperationAccepted(TypedDict):
    """An operation that is stored, and is carried out from now on."""

    operation_id: str
    matched: int | None
    """The number of targets at the moment; null: there are more than are counted, or may be."""


class OperationView(TypedDict):
    """An operation, and how far it has come."""

    operation_id: str
    kind: str
    """The route that asked for it, such as `runs:cancel`."""
    status: Literal["cancelled", "done", "failed", "running"]
    matched: int | None
    """The number of targets at the time of the request; null: there were more than were counted, or may have been."""
    done: int
    refused: int
    problems: list[BulkProblem]
    """The first refusals."""
    request: Any
    """The filter and the other fields. Empty for a caller that neither asked for it nor may read what it is about."""
    created_by: str
    created_at: str
    updated_at: str
    ended_at: str | None


class OwnFactorsView(TypedDict):
    """The second factors of the caller."""

    factors: list[FactorView]
    recovery_codes_left: int
    required: bool
    """A role of the caller requires one."""


class OwnPasswordBody(TypedDict):
    """The present password of the caller."""

    password: str


class PartDetails(TypedDict):
    """The status of one part, with its reason."""

    status: Literal["degraded", "failing", "ok"]
    detail: str


class PasswordBody(TypedDict):
    """Another password for oneself."""

    current: str
    password: str


class PauseBody(TypedDict, total=False):
    """The reason and the end of a pause."""

    reason: str | None
    until: str | None
    """RFC 3339 with an offset, such as 2027-09-25T10:00:00Z."""


class PendingBatchView(TypedDict):
    """A batch of which each job is accepted, and not stored yet, or refused; in its order."""

    accepted: int
    refused: int
    status: Literal["pending"]
    results: list[ResultView]


class _PendingViewRequired(TypedDict):
    operation_id: str
    status: Literal["pending"]


class PendingView(_PendingViewRequired, total=False):
    """A request that is accepted, and not applied yet. Its end will be at `/operations/{operation_id}`."""

    job_id: str
    warnings: list[str]


_PeriodBodyRequired = TypedDict("_PeriodBodyRequired", {"from": "str", "to": "str"})


class _PeriodBodyOptional(TypedDict, total=False):
    name: str | None


class PeriodBody(_PeriodBodyRequired, _PeriodBodyOptional):
    """The members of PeriodBody."""


PreviewBody = TypedDict(
    "PreviewBody",
    {
        "schedule_type": "ScheduleType | None",
        "schedule_time": "str | None",
        "at": "str | None",
        "cron_expression": "str | None",
        "cron": "str | None",
        "interval_seconds": "float | None",
        "every": "str | None",
        "anchor": "str | None",
        "timezone": "str | None",
        "start_at": "str | None",
        "end_at": "str | None",
        "max_runs": "int | None",
        "dst": "ClockChanges | None",
        "jitter_seconds": "float | None",
        "window_seconds": "float | None",
        "misfire": "MisfirePolicy | None",
        "overlap": "Overlap | None",
        "calendars": "list[CalendarUse] | None",
        "fuse_per_minute": "int | None",
        "labels": "dict[str, str] | None",
        "from": "str | None",
        "count": "int",
        "viewer_timezone": "str | None",
    },
    total=False,
)


class PreviewView(TypedDict):
    """The preview of a schedule."""

    explanation: str
    timezone: str
    viewer_timezone: str
    warnings: list[str]
    fires: list[FireView]


class _ProblemRequired(TypedDict):
    type: str
    title: str
    status: int
    code: str
    detail: str


class Problem(_ProblemRequired, total=False):
    """RFC 9457, with our members."""

    pointer: str | None
    """RFC 6901, into the body that was sent."""
    position: int | None
    """The position in the text at `pointer` (a cron line), or in the body that could not be read, counted from 0."""
    parameter: str | None
    """The query parameter or header at fault."""
    service: str | None
    """The part of the API that serves the route, where it is not this server's."""
    request_id: str | None
    error: str | None
    """The code for clients of OAuth, where it is one of theirs (RFC 6749, section 5.2)."""
    results: list[ResultView] | None
    """Of an atomic batch: what is wrong with which job."""
    challenge: str | None
    """Of a right password that is not enough: the secret of the second step, for `grant_type=second_factor`."""
    factors: list[str] | None
    """The kinds of second factors that the person can show: `totp`, `passkey` (in the pages), `recovery_code`."""
    expires_in: int | None
    """The seconds for which the challenge works."""


class ProgressView(TypedDict):
    """The newest word of a task on how far it is."""

    share: float
    """From 0 to 1."""
    text: str
    time: str


class ProviderView(TypedDict):
    """A provider."""

    issuer: str
    button: str
    """The text of its button on the sign-in page."""
    login: str
    """The path, among the pages, that begins a sign-in in a browser."""


class _PythonTaskRequired(TypedDict):
    kind: Literal["python"]


class PythonTask(_PythonTaskRequired, total=False):
    """`{"kind": "python", "source" | "file": …}`: a script in a Python process of its own, with its surroundings,
    and the packages that `requirements`, `lock` or its header declare. Send exactly one of `source`, `file`."""

    source: str
    """The script itself, up to `source_limit_bytes`; upload a larger one as a stored task."""
    file: str
    """An uploaded script, by the SHA-256 of its content."""
    python: str | None
    """The interpreter that runs the script, Python 3.9 or newer: a whole path on the executor, or the name of a
    program on its PATH (`python3.12`). Default: the Python of the executor."""
    start: Literal["cold", "warm"] | None
    """`cold`: the script begins in a fresh interpreter. `warm`: it is forked from one that has begun, and waits for
    that if need be. Default: warm where scripts of its interpreter come often and nothing is against it."""
    directory: str | None
    """The current folder of the task, a whole path on the executor. Default: a folder of its own."""
    files: dict[str, str | dict[str, Any]] | None
    """Files that lie in the task's own folder when it begins, by name (`helpers/dates.py`): modules to import, data
    to read. A text is written as UTF-8; other content as `{"base64": …}`."""
    env: dict[str, str] | None
    """Environment variables. Names that begin with `TICKWISE_` are reserved. A value `secret:NAME` is that of a
    secret, `secret-file:NAME` the path of a file that holds it."""
    requirements: str
    """The text of a `requirements.txt`: the script runs in an environment with these packages."""
    lock: str
    """The text of a `uv.lock` or a `pylock.toml`, instead of `requirements`."""


class QueueDrainBody(TypedDict, total=False):
    """The reason of a drain, and the end of its hold."""

    reason: str | None
    until: str | None
    """Until this time; until it is resumed if not sent."""


QueueHoldBody = TypedDict(
    "QueueHoldBody", {"reason": "str | None", "from": "str | None", "until": "str | None"}, total=False
)


class QueueView(TypedDict):
    """A queue as it is now."""

    queue: str
    held: bool
    """It stands still now."""
    hold: HoldView | None
    """The hold that there is, or that will be."""
    queued: int
    """Runs that wait for an executor, or for their next attempt."""
    dispatched: int
    """Runs that an executor holds and has not begun."""
    running: int


_QuietBodyRequired = TypedDict("_QuietBodyRequired", {"from": "str", "to": "str"})


class _QuietBodyOptional(TypedDict, total=False):
    timezone: str
    days: list[str] | None


class QuietBody(_QuietBodyRequired, _QuietBodyOptional):
    """The members of QuietBody."""


QuietView = TypedDict("QuietView", {"from": "str", "to": "str", "timezone": "str", "days": "list[str]"})


class QuotasBody(TypedDict, total=False):
    """The quotas of a namespace; one that is left out or null is none."""

    jobs: int | None
    """Active jobs that last: see `docs/how-to/limits-and-quotas.md`."""
    runs_per_day: int | None
    """Runs that are asked for in a day of UTC."""
    bytes: int | None
    """Of the definitions of these jobs, and of stored tasks."""
    lanes: int | None
    """Combinations of queue, priority and labels."""
    calendars: int | None
    windows: int | None
    concurrent_runs: int | None
    """Runs at once; further ones wait."""
    requests_per_second: float | None
    """In place of the setting `namespace_requests_per_second_most`."""
    min_isolation: Literal["container", "process", "sandbox"] | None
    """sandbox: python and shell tasks must be in a sandbox or in a container; container: in a container. Other jobs
    are refused, and runs of those that are there wait until their job is changed."""
    expected_version: int


class QuotasView(TypedDict):
    """The quotas of a namespace; null: none."""

    jobs: int | None
    runs_per_day: int | None
    bytes: int | None
    lanes: int | None
    calendars: int | None
    windows: int | None
    concurrent_runs: int | None
    requests_per_second: float | None
    min_isolation: Literal["container", "process", "sandbox"] | None
    """The least isolation of python and shell tasks; null: none is demanded."""
    version: int
    """Of the namespace."""


class _RateRequired(TypedDict):
    limit: int


class Rate(_RateRequired, total=False):
    """The `rate` object of a job body: attempts with the same key begin evenly spaced, `limit` in `per_seconds`."""

    per_seconds: float
    key: str
    """As in `concurrency`."""


class RateView(TypedDict):
    """Attempts with the same key begin evenly spaced, `limit` in `per_seconds`."""

    limit: int
    per_seconds: float
    key: str
    """As in `concurrency`."""


class RecoveryCodesView(TypedDict):
    """Recovery codes, told this once."""

    recovery_codes: list[str]
    """Empty: those of before work on."""


class _RecurringBodyRequired(TypedDict):
    cron: str
    duration: str
    """Such as 90s, 45m, 1h30m, 2d; at most 31d."""


class RecurringBody(_RecurringBodyRequired, total=False):
    """From each fire of a cron line on, for a duration such as 2h."""

    name: str | None
    """The name for people."""


class RedriveBody(TypedDict, total=False):
    """A payload for the run that the dead letter becomes; its own if it is not sent."""

    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""
    overlap: Overlap
    """The treatment of this run while an earlier one of the job goes on. If it is not sent, it waits its turn
    (queue_all), or runs beside the others if fires of the job may (overlap: allow, or a job that does not recur).
    With skip and queue_one it may be skipped; with cancel_running earlier ones are stopped."""
    note: str | None
    """A note for later readers."""


class _RegisterBodyRequired(TypedDict):
    name: str
    password: str


class RegisterBody(_RegisterBodyRequired, total=False):
    """A person who registers."""

    email: str | None


class RemovedFederationView(TypedDict):
    """It takes no token any more."""

    federation_id: str
    removed: bool


class ResolvedBody(TypedDict, total=False):
    """The entries of a calendar after `holidays` and `ics` were resolved, which can make it long."""

    timezone: str
    dates: list[str | DaysBody]
    weekly: list[WeeklyBody]
    recurring: list[RecurringBody]
    periods: list[PeriodBody]


class ResourceView(TypedDict):
    """A counted resource of an executor."""

    total: int
    free: int
    """As of its last heartbeat."""


class RestrictedView(TypedDict):
    """Permissions for the jobs that have all of these labels."""

    permissions: list[str]
    labels: dict[str, str]


class _ResultViewRequired(TypedDict):
    status: int


class ResultView(_ResultViewRequired, total=False):
    """The result for one job of a batch."""

    job_id: str | None
    operation_id: str | None
    """Of a job that is accepted and not stored yet."""
    warnings: list[str]
    problem: Problem | None


class ResumeBody(TypedDict, total=False):
    """The treatment of missed occurrences after a pause. Occurrences of the pause that do not run are recorded as
    skipped."""

    missed: Literal["run_all", "run_latest", "skip"]
    limit: int | None
    """With run_all: only the latest so many of them run."""


class RetryBody(TypedDict, total=False):
    """The rule by which another attempt follows a failed one. It is replaced as a whole."""

    backoff: Literal["exponential", "fixed", "linear", "list"] | None
    """The growth of the delay: exponential, or list with delays_seconds."""
    base_seconds: float
    """The first delay; with linear also the amount that is added each time."""
    factor: float
    """Of exponential: each delay is so many times the one before."""
    cap_seconds: float
    """No delay is longer, but for those of a list."""
    jitter: float
    """Each delay is moved by up to this share of itself, 0 to 1."""
    delays_seconds: list[float] | None
    """Before the first retry, the second, …; then the last, again and again."""
    deadline_seconds: float | None
    """So long after the run was due no further attempt begins."""
    on: RetryOn
    """The failures that are tried again, and those that are not."""


class RetryOn(TypedDict, total=False):
    """The `on` object of `retry`: which failures are worth another attempt. Failures that are not named here are
    retried as usual."""

    exit_code: dict[str, After]
    """By exit code: {"75": "retry", "64-78": "fail"}."""
    error: dict[str, After]
    """By exception: {"ValueError": "fail"}, its bases included."""
    status: dict[str, After]
    """By HTTP status: {"404": "fail", "5xx": "retry"}."""
    reason: dict[str, After]
    """By reason: {"timeout": "fail"}."""


class RetryOnView(TypedDict):
    """The failures that are worth another attempt, and those that are not."""

    exit_code: dict[str, After]
    """By exit code: {"75": "retry", "64-78": "fail"}."""
    error: dict[str, After]
    """By exception: {"ValueError": "fail"}, its bases included."""
    status: dict[str, After]
    """By HTTP status: {"404": "fail", "5xx": "retry"}."""
    reason: dict[str, After]
    """By reason: {"timeout": "fail"}."""


class RetryView(TypedDict):
    """The rule by which another attempt follows a failed one."""

    backoff: Literal["exponential", "fixed", "linear", "list"]
    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: float
    delays_seconds: list[float]
    """With backoff `list`: before the first retry, the second, …; then the last."""
    deadline_seconds: float | None
    """So long after the run was due no further attempt begins."""
    on: RetryOnView


class RevokeBody(TypedDict):
    """The refresh token of the session to end."""

    token: str


class RevokedView(TypedDict):
    """The token works no more, if it ever did."""

    revoked: bool


class RewrapBody(TypedDict, total=False):
    """The next step of a rotation of the installation's key."""

    after: str | None
    """`next` of the step before; the first has none."""
    again: bool
    """Also what the newest key wraps already: for a key behind a command that has a newer version."""


class RewrapFailureView(TypedDict):
    """A secret whose data key could not be wrapped again."""

    namespace: str
    name: str
    detail: str


class RewrapView(TypedDict):
    """The outcome of one step."""

    rewrapped: int
    failed: list[RewrapFailureView]
    next: str | None
    """The `after` of the next step; null: all are done."""


class _RoleBodyRequired(TypedDict):
    role: str
    namespace: str
    """`*`: each one, and the installation."""


class RoleBody(_RoleBodyRequired, total=False):
    """A role in a namespace."""

    labels: dict[str, str] | None
    """The permissions hold for jobs that have all of these labels, with their runs, dead letters and logs; for
    nothing else. Left out: for all jobs, and for what has no labels."""


class _RolePermissionsBodyRequired(TypedDict):
    permissions: list[str]
    """Such as `jobs:read`; `*` is everything."""


class RolePermissionsBody(_RolePermissionsBodyRequired, total=False):
    """The permissions of a custom role."""

    labels: dict[str, str] | None
    """The permissions hold for jobs that have all of these labels, with their runs, dead letters and logs; for
    nothing else. Left out: for all jobs, and for what has no labels."""


class RoleView(TypedDict):
    """One role that spoke within the last seconds."""

    role: str
    name: str
    """The host and the process, as in logs."""
    version: str
    since: str | None
    """The time at which it was ready, by the clock of its machine."""
    health_url: str | None
    serves: list[str]
    """The parts that it serves, of an API or a recorder."""
    last_scan_at: str | None
    """Of a scheduler: when it last looked for what is due."""


class RulePreviewView(TypedDict):
    """The jobs of a rule, and the events of the last 24 hours that it would have told of."""

    jobs: int
    """10,000 at most."""
    sample: list[ConcernedJobView]
    runs: int
    """Runs of the last 24 hours that were looked at."""
    more: bool
    """There were more runs: these are the newest."""
    counts: dict[str, int]
    """The number of times that each event would have been counted."""
    told: list[ToldRunView]
    """The newest of them."""
    not_judged: list[
        Literal[
            "anomaly",
            "dead_letter",
            "did_not_run",
            "executor_lost",
            "expiring",
            "failure",
            "first_failure",
            "fuse",
            "late",
            "long",
            "objective",
            "recovery",
            "retries",
            "success",
        ]
    ]
    """Events of the rule that leave no record of a run: the preview says nothing of them."""


class RunCountView(TypedDict):
    """The number of runs that came on record with one final state in one hour."""

    hour: str
    """The beginning of the hour."""
    status: RunState
    runs: int


class RunDemanded(TypedDict):
    """A run that was asked for."""

    run_id: str


class RunDetailView(TypedDict):
    """A run with all that is known of it."""

    run_id: str
    status: RunState
    start_time: str | None
    end_time: str | None
    modified_time: str
    attempt_number: int
    executor_id: str | None
    error_message: str | None
    log_url: str | None
    job_id: str
    trigger: str
    nominal_time: str
    """The time that the schedule named, or at which it was asked for."""
    due_time: str
    queued_time: str
    dispatched_time: str | None
    ready_time: str | None
    reason: str | None
    result: Any
    failures: int
    crashes: int
    waiting: bool
    """It waits for an earlier run of its job (overlap), for a slot of its concurrency limit, or for the quota of
    runs at once of its namespace."""
    waits_for_slot: bool
    """It waits for a slot of its concurrency limit, or for that quota (the key is `quota`), …"""
    limit_key: str | None
    """… of this key; of one that runs: it has a slot of it."""
    paced: bool
    """It has a slot under its rate limit, at `ready_time`, and has not yet begun."""
    cancel: CancelView | None
    """The request to stop the run, if there was one."""
    occurrences: int
    """Of a SKIPPED one: how many occurrences it stands for."""
    until: str | None
    """With several: the nominal time of the last."""
    retry_of: str | None
    backfill_id: str | None
    started_by: str | None
    """The run of another job whose end started this one."""
    origin: str | None
    """One of `retry_of`, `backfill_id` and `started_by`: the one that is set."""
    redriven_as: str | None
    """Of a FAILED one: the run that was made in its place."""
    payload: Any
    """The payload that it received, or will receive; null: it is longer than 65,536 bytes, or its job is gone."""
    payload_bytes: int | None
    payload_from: Literal["job", "job_changed", "run"] | None
    attempts: list[AttemptView]
    warnings: list[str]
    """Of a waiting run: its needs that no executor meets."""
    anomalies: list[AnomalyView]
    """Of one that goes on or succeeded: the quantities that are unlike those of earlier runs of its job."""
    trace_id: str | None
    """The trace that it belongs to, as collectors show it; null: it belongs to none, or to one of its own that is
    not recorded."""
    progress: ProgressView | None
    """Of one that is RUNNING: how far it is, as its task said. Null: it said nothing."""


class RunEventView(TypedDict):
    """The data of an event `run`: a run came into a state."""

    run_id: str
    job_id: str
    namespace: str
    status: RunState
    attempt: int
    time: str
    change: str
    """The name of the change, the same in each stream: a client that gets it again can drop it."""


class RunNowBody(TypedDict, total=False):
    """A payload for this one run; the job's own if it is not sent."""

    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""
    overlap: Overlap
    """The treatment of this run while an earlier one of the job goes on. If it is not sent, it waits its turn
    (queue_all), or runs beside the others if fires of the job may (overlap: allow, or a job that does not recur).
    With skip and queue_one it may be skipped; with cancel_running earlier ones are stopped."""


class RunRetryBody(TypedDict, total=False):
    """A payload for the new run; that of the run being repeated if it is not sent."""

    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""
    overlap: Overlap
    """The treatment of this run while an earlier one of the job goes on. If it is not sent, it waits its turn
    (queue_all), or runs beside the others if fires of the job may (overlap: allow, or a job that does not recur).
    With skip and queue_one it may be skipped; with cancel_running earlier ones are stopped."""


class RunStateView(TypedDict):
    """The state of a run now; a run that an executor holds is only asked to stop."""

    run_id: str
    status: RunState


class RunView(TypedDict):
    """A run."""

    run_id: str
    status: RunState
    start_time: str | None
    end_time: str | None
    modified_time: str
    attempt_number: int
    executor_id: str | None
    error_message: str | None
    log_url: str | None
    job_id: str
    trigger: str
    nominal_time: str
    """The time that the schedule named, or at which it was asked for."""
    due_time: str
    queued_time: str
    dispatched_time: str | None
    ready_time: str | None
    reason: str | None
    result: Any
    failures: int
    crashes: int
    waiting: bool
    """It waits for an earlier run of its job (overlap), for a slot of its concurrency limit, or for the quota of
    runs at once of its namespace."""
    waits_for_slot: bool
    """It waits for a slot of its concurrency limit, or for that quota (the key is `quota`), …"""
    limit_key: str | None
    """… of this key; of one that runs: it has a slot of it."""
    paced: bool
    """It has a slot under its rate limit, at `ready_time`, and has not yet begun."""
    cancel: CancelView | None
    """The request to stop the run, if there was one."""
    occurrences: int
    """Of a SKIPPED one: how many occurrences it stands for."""
    until: str | None
    """With several: the nominal time of the last."""
    retry_of: str | None
    backfill_id: str | None
    started_by: str | None
    """The run of another job whose end started this one."""
    origin: str | None
    """One of `retry_of`, `backfill_id` and `started_by`: the one that is set."""


class _RunsCancelBodyRequired(TypedDict):
    filter: RunsFilter


class RunsCancelBody(_RunsCancelBodyRequired, total=False):
    """Runs to cancel: of those that have not ended."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""


class RunsFilter(TypedDict, total=False):
    """The runs; everything given must match."""

    all: bool
    """Everything there is: in place of all other fields."""
    run_ids: list[str]
    """Any of these runs."""
    job_id: str
    status: list[RunState]
    trigger: list[Literal["backfill", "missed", "retry", "run_now", "schedule", "sequence"]]
    origin: str
    """The run that was retried or that started it, or the backfill."""
    reason: str
    executor_id: str
    """The executor that has the run, or had it last."""
    job_name: str
    """A part of its job's name, in any case."""
    labels: dict[str, str]
    """Of its job."""
    queue: str
    """Of its job."""
    due_after: str
    due_before: str


class RunsMatched(TypedDict):
    """The result of a dry run."""

    matches: int
    more: bool
    """There are more than 10,000; or there may be more, because a count looks at a bounded number of runs."""
    sample: list[RunView]


class _RunsRetryBodyRequired(TypedDict):
    filter: RunsFilter


class RunsRetryBody(_RunsRetryBodyRequired, total=False):
    """Runs to retry: failed ones if the filter names no status. Those that failed settle their dead letters; one
    whose letter is settled already is not run again."""

    dry_run: bool
    """Answer the items that would be concerned; change nothing."""
    payload: Any
    """The parameters: any JSON value."""
    params: Any
    """The parameters: any JSON value."""


class _SavedViewBodyRequired(TypedDict):
    list: Literal["jobs", "runs"]
    """The list that it is about."""
    name: str
    query: str
    """The filters as the address of the page has them: `status=FAILED&label=team%3Ddata`."""


class SavedViewBody(_SavedViewBodyRequired, total=False):
    """A view to save."""

    shared: bool
    """For everybody of the namespace, and not for the caller alone."""


class SavedViewGone(TypedDict):
    """A saved view that was removed."""

    list: Literal["jobs", "runs"]
    """The list that it is about."""
    name: str
    shared: bool


class SavedViewView(TypedDict):
    """A saved view."""

    list: Literal["jobs", "runs"]
    """The list that it is about."""
    name: str
    query: str
    shared: bool
    saved_by: str
    """The name of the caller who saved it last."""


class ScriptText(TypedDict):
    """A Python script, as it lies in a file."""


class _SecretBodyRequired(TypedDict):
    value: str
    """1 byte to 1 MiB (1,048,576 bytes); text is stored as UTF-8. No answer ever has it."""


class SecretBody(_SecretBodyRequired, total=False):
    """The value of a secret."""

    encoding: Literal["base64", "text"]
    """`base64`: `value` is the base64 of bytes that are no text."""


class SecretDetailView(TypedDict):
    """A secret with the records of its versions, without a value."""

    name: str
    version: int
    created_at: str
    created_by: str
    changed_at: str
    """The time of its newest version."""
    changed_by: str
    sealed_under: str
    """The id of the installation's key that wraps its data key; `command`: a key behind a command."""
    readable: bool
    """False: the server that answers does not have this key. If no other server has it, the value is lost: set it
    again."""
    versions: list[SecretVersionView]
    """The newest first, ten at most. Only the newest one has a value."""


class SecretKeysView(TypedDict):
    """The keys of the installation."""

    keys: list[KeyUseView]
    """The newest first, then those that are known, then those that are not."""
    lost: list[SecretPlaceView]
    """Secrets whose key is not known, 100 at most."""


class SecretPlaceView(TypedDict):
    """A secret of a namespace."""

    namespace: str
    name: str


class SecretSetView(TypedDict):
    """A secret that was set, without its value."""

    name: str
    version: int
    created_at: str
    created_by: str
    changed_at: str
    """The time of its newest version."""
    changed_by: str
    sealed_under: str
    """The id of the installation's key that wraps its data key; `command`: a key behind a command."""
    readable: bool
    """False: the server that answers does not have this key. If no other server has it, the value is lost: set it
    again."""
    versions: list[SecretVersionView]
    """The newest first, ten at most. Only the newest one has a value."""
    warnings: list[str]
    """Such as: the value is not masked in the output of tasks, because it would mask too much."""


class SecretUsesView(TypedDict):
    """The jobs and stored tasks that name a secret, as far as the caller may see them."""

    jobs: list[UsingJobView]
    """By id, 1,000 at most. None of them are jobs that are cancelled, and one-time jobs that are over, or that were
    made less than a day before their time without a key or an id of the caller's."""
    tasks: list[UsingTaskView]
    """Stored tasks by id, 1,000 at most. Jobs of a stored task have a copy, and are in `jobs`."""
    hidden: int
    """The number of jobs and tasks that name it, too, and that the caller may not see."""
    more: bool
    """There are more, or may be: of one-time jobs, 2,000 are looked at."""


class SecretVersionView(TypedDict):
    """The record of one version."""

    version: int
    set_at: str
    set_by: str


class SessionLinkView(TypedDict):
    """A link that opens the pages, signed in, once."""

    link: str
    """The path of the address to open in a browser of this machine."""
    expires_in: int
    """Seconds."""


class _ShellTaskRequired(TypedDict):
    kind: Literal["shell"]


class ShellTask(_ShellTaskRequired, total=False):
    """`{"kind": "shell", "command" | "argv": …}`: a text for /bin/sh, or a program with its arguments, with its
    surroundings. Send exactly one of `command`, `argv`."""

    command: str
    """A script for `/bin/sh`; may have many lines."""
    argv: list[str] | None
    """A program and its arguments; no shell comes between."""
    directory: str | None
    """The current folder of the task, a whole path on the executor. Default: a folder of its own."""
    files: dict[str, str | dict[str, Any]] | None
    """Files that lie in the task's own folder when it begins, by name (`helpers/dates.py`): modules to import, data
    to read. A text is written as UTF-8; other content as `{"base64": …}`."""
    env: dict[str, str] | None
    """Environment variables. Names that begin with `TICKWISE_` are reserved. A value `secret:NAME` is that of a
    secret, `secret-file:NAME` the path of a file that holds it."""


class SkipNextBody(TypedDict, total=False):
    """The reason for which the next occurrence is skipped."""

    reason: str | None
    occurrence: str | None
    """The time by the schedule of the occurrence that is meant: refused if another one is the next by now. With it,
    sending the same twice is sending it once."""


class _SnoozeBodyRequired(TypedDict):
    until: str
    """After the occurrence's own time, and within 366 days of it."""


class SnoozeBody(_SnoozeBodyRequired, total=False):
    """The other time of the next occurrence."""

    occurrence: str | None
    """The time by the schedule of the occurrence that is meant: refused if another one is the next by now. With it,
    sending the same twice is sending it once."""


class SpreadView(TypedDict):
    """The spread of a quantity, in seconds; of memory in bytes."""

    count: int
    """The runs that have it, of those that were read."""
    p50: float
    p95: float
    p99: float
    mean: float
    max: float


class _StatusPageBodyRequired(TypedDict):
    slug: str
    """Its name in the address `/status/SLUG`; unique in the installation. Lower-case letters, digits and hyphens."""
    title: str
    """Public."""


class StatusPageBody(_StatusPageBodyRequired, total=False):
    """A status page to make. It is not public unless `enabled` is true."""

    intro: str
    """Public; plain text."""
    enabled: bool
    """It is public, and schedulers look at its jobs."""
    components: list[ComponentBody]
    show_uptime: bool
    """Show the share of the time in which not all jobs of a component failed."""
    show_punctuality: bool
    """Show the share of the time in which nothing of a component was late or failed."""
    history_days: int
    """The days that are shown; 0: none."""


class StatusPageChangeBody(TypedDict, total=False):
    """The fields of a status page to change; those that are not sent stay. A component keeps its history while it
    keeps its name."""

    slug: str
    """Its name in the address `/status/SLUG`; unique in the installation. Lower-case letters, digits and hyphens."""
    title: str
    """Public."""
    intro: str
    """Public; plain text."""
    enabled: bool
    """It is public, and schedulers look at its jobs."""
    components: list[ComponentBody]
    show_uptime: bool
    """Show the share of the time in which not all jobs of a component failed."""
    show_punctuality: bool
    """Show the share of the time in which nothing of a component was late or failed."""
    history_days: int
    """The days that are shown; 0: none."""


class StatusPageView(TypedDict):
    """A status page, as its administrator sees it."""

    page_id: str
    slug: str
    path: str
    """Its address on the pages: `/status/SLUG`."""
    title: str
    intro: str
    enabled: bool
    components: list[ComponentView]
    show_uptime: bool
    show_punctuality: bool
    history_days: int
    looked_at: str | None
    """Null: no scheduler has looked yet."""
    created_at: str
    created_by: str
    version: int


class StatusView(TypedDict):
    """A job's latest run."""

    job_id: str
    latest_run: RunView | None


class _StopBodyRequired(TypedDict):
    reason: str


_StopBodyOptional = TypedDict(
    "_StopBodyOptional",
    {
        "all": "bool",
        "labels": "dict[str, str]",
        "queue": "str",
        "job_id": "str",
        "from": "str | None",
        "until": "str | None",
        "meanwhile": "Literal['hold', 'skip']",
        "cancel_running": "bool",
    },
    total=False,
)


class StopBody(_StopBodyRequired, _StopBodyOptional):
    """The members of StopBody."""


class StopImpactView(TypedDict):
    """The work that a stop would hold back."""

    stop: StopView
    """The stop as it would be; its id is given when it is made."""
    jobs: int
    """Jobs with a fire in the stop; of a stop without an end, in its first day."""
    fires: int
    """The fires of these jobs in that time."""
    more: bool
    """There are more jobs than were looked at (1,000)."""
    waiting: int
    """Runs that wait now, 10,000 at most."""
    running: int
    """Runs that an executor holds or runs now, 10,000 at most."""
    sample: list[FireHitView]
    """The first jobs, by the time of their first fire in the stop. Empty without the permission `jobs:read`."""
    going: list[RunView]
    """The newest of the runs that are held or run. Empty without the permission `runs:read`."""


class StopMade(TypedDict):
    """A stop that is stored."""

    stop: StopView
    cancel_operation: str | None
    """The operation that cancels what runs, if that was asked for."""


StopView = TypedDict(
    "StopView",
    {
        "stop_id": "str",
        "scope": "str",
        "all": "bool",
        "labels": "dict[str, str]",
        "queue": "str | None",
        "job_id": "str | None",
        "reason": "str",
        "from": "str",
        "until": "str | None",
        "meanwhile": "Literal['hold', 'skip']",
        "in_force": "bool",
        "over": "bool",
        "by": "str",
        "asked_at": "str",
        "lifted_by": "str | None",
    },
)

StretchView = TypedDict("StretchView", {"from": "str", "to": "str | None", "what": "str"})


class TaskBody(TypedDict, total=False):
    """A task to store: a whole task, or the text of a Python script."""

    taskId: str
    """The id of a stored task."""
    name: str
    """The name for people. Beside `taskId` it may be left out: then it is the name of that task."""
    task: Task
    """The task to run: its kind and parameters."""
    script: str
    """The text of a Python script."""


class TaskView(TypedDict):
    """A stored task."""

    taskId: str
    version: int
    name: str
    task: StoredTask
    digest: str
    created_by: str
    created_at: str


class TimeLineEntry(TypedDict):
    """One occurrence, or several that are told of together."""

    nominal_time: str
    """The time that the schedule names; of several, the first."""
    due_time: str | None
    """The due time of its run; null: it does not run."""
    kind: Literal["future", "past", "pending"]
    outcome: str
    """Of what is on record: the run's status. Else what becomes of it as far as it is known: fire, skip or defer."""
    trigger: Literal["backfill", "missed", "retry", "run_now", "schedule", "sequence"]
    reason: str | None
    run_id: str | None
    """Of what is on record."""
    occurrences: int
    """For how many it stands."""
    until: str | None
    """With several: the nominal time of the last."""
    note: str | None


class _TokenBodyRequired(TypedDict):
    grant_type: Literal[
        "api_key",
        "password",
        "refresh_token",
        "second_factor",
        "urn:ietf:params:oauth:grant-type:device_code",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
    ]


class TokenBody(_TokenBodyRequired, total=False):
    """A request for an access token (its fields are those of RFC 6749)."""

    username: str
    """The name or the e-mail."""
    password: str
    challenge: str
    """Of the problem `second_factor_required`, which answers a right password."""
    code: str
    """Of an app, or a recovery code."""
    refresh_token: str
    api_key: str
    device_code: str
    """The secret of a terminal (RFC 8628)."""
    assertion: str
    """The token of another issuer (RFC 7523)."""
    subject_token: str
    """The token of another issuer in a token exchange (RFC 8693)."""
    subject_token_type: Literal["urn:ietf:params:oauth:token-type:id_token", "urn:ietf:params:oauth:token-type:jwt"]
    federation: str
    """The id or the name of the federation that takes the token; left out: the oldest that does."""
    client_id: str
    """Taken, because clients of OAuth send it, and not looked at."""
    scope: str
    """Permissions that the token is bounded by, with spaces between."""
    namespace: str
    """The only namespace in which the token works."""


class _TokenViewRequired(TypedDict):
    access_token: str
    token_type: str
    expires_in: int
    """Seconds."""


class TokenView(_TokenViewRequired, total=False):
    """Tokens (RFC 6749, section 5.1)."""

    refresh_token: str | None
    """Works once. Null: made from a key, which asks again."""
    user: UserView | None
    issued_token_type: str | None
    """The kind of token that a token exchange gave (RFC 8693)."""


class ToldRunView(TypedDict):
    """A run that the rule would have told of."""

    at: str
    event: Literal[
        "anomaly",
        "dead_letter",
        "did_not_run",
        "executor_lost",
        "expiring",
        "failure",
        "first_failure",
        "fuse",
        "late",
        "long",
        "objective",
        "recovery",
        "retries",
        "success",
    ]
    run_id: str
    job_id: str
    job_name: str | None


class UpdateView(TypedDict):
    """One text of an announcement."""

    at: str
    state: Literal["announced", "ended", "identified", "investigating", "monitoring", "resolved"]
    text: str


class UsageView(TypedDict):
    """The use of a namespace, beside its quotas."""

    namespace: str
    jobs: int
    runs_today: int | None
    """Since midnight UTC; null: nobody counts them, because there is no quota of runs, or none was asked for."""
    bytes: int
    lanes: int
    calendars: int
    windows: int
    concurrent_runs: int | None
    """Runs that go on under the quota of them; null: there is no such quota."""
    is_estimate: bool
    """True if `jobs` and `bytes` are grown from a sample, because the table of jobs is large."""
    quotas: QuotasView


class _UserBodyRequired(TypedDict):
    name: str


class UserBody(_UserBodyRequired, total=False):
    """A person to add."""

    email: str | None
    password: str | None
    """None: the answer has a link, with which the person chooses one."""
    roles: list[RoleBody]


class UserChangeBody(TypedDict, total=False):
    """The fields of a person to change."""

    name: str
    email: str | None
    roles: list[RoleBody]
    active: bool
    expected_version: int


class UserView(TypedDict):
    """A person."""

    user_id: str
    name: str
    email: str | None
    roles: list[MemberView]
    """Those in the namespaces that the caller administers."""
    has_password: bool
    needs_link: bool
    """The password was chosen, or could be, by an administrator who holds less than the person does by now: it opens
    nothing. Make a link."""
    active: bool
    created_at: str
    created_by: str | None
    """Null: somebody whom the caller does not see."""
    signed_in_at: str | None
    version: int


class UsingJobView(TypedDict):
    """A job that names a secret."""

    job_id: str
    name: str
    key: str | None


class UsingTaskView(TypedDict):
    """A stored task whose newest version names a secret."""

    taskId: str
    version: int


class WaysInView(TypedDict):
    """The ways to sign in as a person."""

    providers: list[ProviderView]
    passwords: str
    """The people that sign in with a password: `on` (everybody that has one), `admins` or `off`."""


class _WeeklyBodyRequired(TypedDict):
    days: list[str]


_WeeklyBodyOptional = TypedDict("_WeeklyBodyOptional", {"from": "str", "to": "str", "name": "str | None"}, total=False)


class WeeklyBody(_WeeklyBodyRequired, _WeeklyBodyOptional):
    """The members of WeeklyBody."""


class _WindowBodyRequired(TypedDict):
    when: CalendarBody


class WindowBody(_WindowBodyRequired, total=False):
    """A maintenance window: nothing that it concerns starts in it."""

    labels: dict[str, str]
    """All of these pairs must be among a job's labels; none: every job of the namespace is concerned."""
    action: Literal["defer", "skip"]
    reason: str
    """Its description for people."""


class WindowItem(TypedDict):
    """A maintenance window of a list."""

    name: str
    version: int
    created_by: str
    created_at: str
    updated_at: str
    warnings: list[str]
    """The entries that were not taken over from `ics` or `holidays`."""
    timezone: str
    entries: int
    ics: bool
    holidays: HolidaysBody | None
    labels: dict[str, str]
    action: Literal["defer", "skip"]
    reason: str


class WindowView(TypedDict):
    """A maintenance window."""

    name: str
    version: int
    created_by: str
    created_at: str
    updated_at: str
    warnings: list[str]
    """The entries that were not taken over from `ics` or `holidays`."""
    when: CalendarBody
    """As it was sent."""
    resolved: ResolvedBody | None
    labels: dict[str, str]
    action: Literal["defer", "skip"]
    reason: str


After = Literal["fail", "retry"]

LetterStatus = Literal["decided", "discarded", "expired", "held", "open", "redriven"]

Overlap = Literal["allow", "cancel_running", "queue_all", "queue_one", "skip"]

PluginTask = dict[str, Any]

RunState = Literal["CANCELLED", "DISPATCHED", "FAILED", "QUEUED", "RETRYING", "RUNNING", "SKIPPED", "SUCCESS"]

ScheduleType = Literal["CRON", "FUTURE", "IMMEDIATE", "INTERVAL", "ON_DEMAND"]

StoredTask = dict[str, Any]

Task = Union["ContainerTask", "FunctionTask", "HttpTask", "PythonTask", "ShellTask", "PluginTask"]
