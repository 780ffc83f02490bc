"""A job's definition as JSON text: written by control, kept opaque by stores, read by scheduler and executor.

One text serves as the job's stored definition and as the body of each of its runs, so a submit encodes it
once and nothing on the hot path joins or re-encodes it. Fields at their default are left out.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from tickwise.domain.accounts.identity_tokens import TokenAlgorithm, TokenSubject, TokenWish
from tickwise.domain.calendar.rules import CalendarMode, Otherwise
from tickwise.domain.decision import Overlap
from tickwise.domain.job_fields import FUSE_PER_MINUTE, OBJECTIVE_RATIO
from tickwise.domain.retry import After, Backoff, OnUnknown, RetryPolicy, RetryRules
from tickwise.domain.rules.confinement import Isolation, Network
from tickwise.domain.schedule import Misfire, MisfireMode, Schedule, ScheduleType
from tickwise.domain.trace_context import TraceContext, read_trace
from tickwise.domain.zones import Dst, GapRule, RepeatRule
from tickwise.ports.runner import TaskLimits

OUTPUT_LIMIT_BYTES = 10 * 1024 * 1024
"""Output kept of one attempt if the job says nothing: enough for any log that a person reads."""


class RetryOn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `on` object of `retry`: which failures are worth another attempt. Failures that are not named here are
    retried as usual."""

    exit_code: Annotated[dict[str, After], Meta(description='By exit code: {"75": "retry", "64-78": "fail"}.')] = {}
    error: Annotated[
        dict[str, After], Meta(description='By exception: {"ValueError": "fail"}, its bases included.')
    ] = {}
    status: Annotated[dict[str, After], Meta(description='By HTTP status: {"404": "fail", "5xx": "retry"}.')] = {}
    reason: Annotated[dict[str, After], Meta(description='By reason: {"timeout": "fail"}.')] = {}

    def rules(self) -> RetryRules:
        """The rules in the domain's form."""
        return RetryRules(exit_code=self.exit_code, error=self.error, status=self.status, reason=self.reason)


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `retry` object of a job body; `max_retries` stands beside it."""

    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.2
    delays_seconds: Annotated[
        tuple[float, ...],
        Meta(description="With backoff `list`: before the first retry, the second, …; then the last."),
    ] = ()
    deadline_seconds: Annotated[
        float | None, Meta(description="So long after the run was due no further attempt begins.")
    ] = None
    on: RetryOn = RetryOn()

    def policy(self, max_retries: int) -> RetryPolicy:
        """The policy in the domain's form."""
        return RetryPolicy(
            max_retries=max_retries,
            backoff=self.backoff,
            base_seconds=self.base_seconds,
            factor=self.factor,
            cap_seconds=self.cap_seconds,
            jitter=self.jitter,
            delays_seconds=self.delays_seconds,
            deadline_seconds=self.deadline_seconds,
            on=self.on.rules(),
        )


class Concurrency(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `concurrency` object of a job body: no more than `limit` runs with the same key go on at once."""

    limit: Annotated[int, Meta(ge=1)]
    key: Annotated[
        str,
        Meta(description="`job`, `queue`, `namespace`, `label:NAME` (its value in this job) or `key:TEXT`."),
    ] = "job"


class Rate(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `rate` object of a job body: attempts with the same key begin evenly spaced, `limit` in `per_seconds`."""

    limit: Annotated[int, Meta(ge=1)]
    per_seconds: Annotated[float, Meta(gt=0)] = 1.0
    key: Annotated[str, Meta(description="As in `concurrency`.")] = "job"


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `limits` object of a job body: what one attempt may use, with all that it starts."""

    output_bytes: int = OUTPUT_LIMIT_BYTES
    cpu_seconds: Annotated[
        float | None, Meta(description="Processor time of the task with all that it starts; more is `cpu_limit`.")
    ] = None
    memory_bytes: Annotated[
        int | None, Meta(description="Memory of the task with all that it starts; more is `memory_limit`.")
    ] = None
    processes: Annotated[
        int | None, Meta(description="Processes and threads at once of the task; more is `process_limit`.")
    ] = None
    disk_bytes: Annotated[
        int | None,
        Meta(description="Room that its work folder and its temporary files take at once; more is `disk_limit`."),
    ] = None
    files: Annotated[int | None, Meta(description="Files and folders there at once; more is `file_limit`.")] = None

    def of_task(self) -> TaskLimits:
        """As runners know them."""
        return TaskLimits(
            self.output_bytes, self.cpu_seconds, self.memory_bytes, self.processes, self.disk_bytes, self.files
        )


class IdentityToken(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `identity_token` object of a job body: each attempt gets a signed token that says which run it is."""

    audience: Annotated[
        str | tuple[str, ...],
        Meta(description="The one that is to trust it, as it asks: sts.amazonaws.com; or a list of up to 10."),
    ]
    algorithm: Annotated[
        TokenAlgorithm, Meta(description="RS256, which all clouds take, or EdDSA, which is shorter and quicker.")
    ] = TokenAlgorithm.RS256
    subject: Annotated[
        TokenSubject,
        Meta(description="run: `ns:NAME:job:KEY:run:ID`; job: `ns:NAME:job:KEY`, for those that match it as a whole."),
    ] = TokenSubject.RUN

    def wish(self, job_key: str | None) -> TokenWish:
        """The wish in the domain's form."""
        audience = (self.audience,) if isinstance(self.audience, str) else self.audience
        return TokenWish(audience, self.algorithm, self.subject, job_key)


class ClockChanges(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `dst` object of a job body, for CRON. What is left out goes as Debian's cron does: a line whose minute or
    hour begins with * keeps real time (skip, both), every other one runs once for each time (run_after, first)."""

    gap: Annotated[GapRule, Meta(description="For times that the clock skips.")] | None = None
    overlap: Annotated[RepeatRule, Meta(description="For times that the clock shows twice.")] | None = None


class MisfirePolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The `misfire` object of a job body: what becomes of occurrences that could not run in time."""

    grace_seconds: Annotated[float, Meta(description="A run that is late by at most this runs as usual.")] = 60.0
    mode: Annotated[
        MisfireMode,
        Meta(
            description="Of later runs, none, the latest, or all up to max_catchup run; the others are "
            "recorded as skipped."
        ),
    ] = MisfireMode.LATEST
    max_catchup: Annotated[int, Meta(description="With all: so many, the latest, one after the other.")] = 10


class CalendarUse(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of the `calendars` of a job body. The job runs only inside all that it includes, and never inside one that it
    excludes."""

    name: str
    mode: CalendarMode = CalendarMode.EXCLUDE
    otherwise: Annotated[
        Otherwise, Meta(description="A run in a closed time is skipped, or runs as soon as all calendars allow it.")
    ] = Otherwise.SKIP


class Plan(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The part that the scheduler reads: when, and what then."""

    schedule_type: ScheduleType
    schedule_time: float | None = None
    cron_expression: str | None = None
    interval_seconds: float | None = None
    anchor: float | None = None
    timezone: str = "UTC"
    start_at: float | None = None
    end_at: float | None = None
    max_runs: int | None = None
    jitter_seconds: float = 0.0
    window_seconds: float = 0.0
    dst: ClockChanges = ClockChanges()
    misfire: MisfirePolicy = MisfirePolicy()
    fuse_per_minute: int = FUSE_PER_MINUTE
    overlap: Overlap = Overlap.SKIP
    calendars: tuple[CalendarUse, ...] = ()
    planned_at: float | None = None
    """Since when this schedule counts: when the job was created, or its schedule was last changed."""

    def overlap_of_asked(self) -> Overlap:
        """The default policy for a requested run while an earlier one of the job goes on: where fires may not
        overlap, it waits its turn. None is dropped."""
        recurs = self.schedule_type in (ScheduleType.CRON, ScheduleType.INTERVAL)
        return Overlap.QUEUE_ALL if recurs and self.overlap is not Overlap.ALLOW else Overlap.ALLOW

    def schedule(self, job_id: UUID) -> Schedule:
        """The schedule in the domain's form."""
        return Schedule(
            type=self.schedule_type,
            at=self.schedule_time,
            cron_expression=self.cron_expression,
            interval_seconds=self.interval_seconds,
            anchor=self.anchor,
            timezone=self.timezone,
            start_at=self.start_at,
            end_at=self.end_at,
            max_runs=self.max_runs,
            jitter_seconds=self.jitter_seconds,
            window_seconds=self.window_seconds,
            dst=Dst(self.dst.gap, self.dst.overlap),
            misfire=Misfire(self.misfire.grace_seconds, self.misfire.mode, self.misfire.max_catchup),
            fuse_per_minute=self.fuse_per_minute,
            seed=job_id.bytes,
            planned_at=self.planned_at,
        )


class Work(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part that the executor reads: what, and what then."""

    task: dict[str, Any]
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    timeout_seconds: float | None = None
    start_deadline_seconds: float | None = None
    max_retries: int = 3
    retry: Retry = Retry()
    limits: Limits = Limits()
    on_unknown: OnUnknown = OnUnknown.RERUN
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    limit_key: str | None = None
    """The key of `concurrency` as stores know it: its kind and value, such as `label:customer=acme`."""
    rate_key: str | None = None
    overlap: Overlap = Overlap.SKIP
    isolation: Isolation = Isolation.PROCESS
    allow_network: Network = False
    run_as: str | None = None
    resources: dict[str, int] = {}
    identity_token: IdentityToken | None = None
    job_key: str | None = None
    """Of a job with an identity token: its key, which the token names."""
    container_image: str | None = None
    then: tuple[UUID, ...] = ()
    on_failure: tuple[UUID, ...] = ()
    traceparent: str | None = None
    """The trace that its runs belong to, in the form of W3C Trace Context (docs/decisions/0065)."""
    tracestate: str | None = None

    @property
    def trace(self) -> TraceContext | None:
        """The trace that its runs belong to; None: each run is in a trace of its own."""
        return None if self.traceparent is None else read_trace(self.traceparent, self.tracestate)

    def retry_policy(self) -> RetryPolicy:
        """The retry policy in the domain's form."""
        return self.retry.policy(self.max_retries)


class Definition(Plan, frozen=True, omit_defaults=True, kw_only=True):
    """The whole: what `GET /jobs/{id}` answers, less the columns that the store keeps by themselves."""

    task: msgspec.Raw
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    timeout_seconds: float | None = None
    start_deadline_seconds: float | None = None
    objective_start_seconds: float | None = None
    objective_ratio: float = OBJECTIVE_RATIO
    max_retries: int = 3
    retry: Retry = Retry()
    limits: Limits = Limits()
    on_unknown: OnUnknown = OnUnknown.RERUN
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    limit_key: str | None = None
    rate_key: str | None = None
    then: tuple[UUID, ...] = ()
    on_failure: tuple[UUID, ...] = ()
    description: str | None = None
    isolation: Isolation = Isolation.PROCESS
    allow_network: Network = False
    run_as: str | None = None
    resources: dict[str, int] = {}
    identity_token: IdentityToken | None = None
    job_key: str | None = None
    container_image: str | None = None
    task_id: str | None = None
    task_version: int | None = None
    warnings: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    """The names of channels that are told of this job."""
    traceparent: str | None = None
    """The trace of the request that made it; never of a job that recurs, whose runs are in traces of their own."""
    tracestate: str | None = None

    @property
    def trace(self) -> TraceContext | None:
        """The trace that its runs belong to."""
        return None if self.traceparent is None else read_trace(self.traceparent, self.tracestate)


class JudgedDefinition(msgspec.Struct, frozen=True):
    """The part that the warnings about a job follow from: a list reads it of each of its jobs."""

    task: msgspec.Raw
    warnings: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()
    resources: dict[str, int] = {}
    limits: Limits = Limits()


_encoder = msgspec.json.Encoder()
_definitions = msgspec.json.Decoder(Definition)
_plans = msgspec.json.Decoder(Plan)
_works = msgspec.json.Decoder(Work)
_judged = msgspec.json.Decoder(JudgedDefinition)

decode_definition = _definitions.decode
decode_plan = _plans.decode
decode_work = _works.decode
decode_judged = _judged.decode


def encode_definition(definition: Definition) -> str:
    """The text to store."""
    return _encoder.encode(definition).decode()


def work_of(definition: Definition) -> tuple[Any, Any]:
    """The task and the payload, as values: how their JSON is written does not matter."""
    return msgspec.json.decode(definition.task), msgspec.json.decode(definition.payload)


def with_payload(definition: str, payload: msgspec.Raw) -> str:
    """The definition of a run that has its own payload."""
    return encode_definition(msgspec.structs.replace(decode_definition(definition), payload=payload))


TRACED_CHARACTERS_MAX = 64 << 10
"""A run gets no definition of its own for the sake of its trace alone if that is longer: each would be a copy."""


def trace_fields(trace: TraceContext | None) -> dict[str, str | None]:
    """The fields of a definition whose runs belong to this trace; None: to none."""
    if trace is None:
        return {"traceparent": None, "tracestate": None}
    return {"traceparent": trace.traceparent, "tracestate": trace.tracestate or None}


def definition_of_run(definition: str, *, payload: msgspec.Raw | None, trace: TraceContext | None) -> str | None:
    """The own definition of a run of the job with `definition`; None: it needs none, and goes by that of its job.

    A run without a trace is not in that of the request which once made its job.
    """
    is_traced = '"traceparent":' in definition
    if payload is None and not is_traced and (trace is None or len(definition) > TRACED_CHARACTERS_MAX):
        return None
    found = decode_definition(definition)
    if payload is None and found.trace == trace:
        return None
    made = msgspec.structs.replace(found, payload=found.payload if payload is None else payload, **trace_fields(trace))
    return encode_definition(made)
