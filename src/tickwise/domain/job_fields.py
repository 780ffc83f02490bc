"""The fields of a job. A plain one is declared here once; bodies, answers and options are drawn from it.

    JobField ──┬─► request bodies: JobBody, JobChangeBody; PreviewBody if it is a policy of the schedule
               ├─► the answer: JobView
               ├─► the rules of create, PATCH and recheck: not sent, null, limits
               ├─► options of `tickwise run`, `jobs create` and `jobs edit`
               └─► JSON Schema, docs/reference/api.md, docs/reference/cli.md

A plain field is sent, stored and answered as the same value, and no other field decides whether the value is valid. A
field that is not plain is written out in `control/bodies.py` and `api/wire.py`; `WRITTEN_FIELDS` names it with the
reason (`ByHand`), its options, and whether previews take it. A test compares bodies, answers, options, reference pages
and JSON Schema with all names here, in both directions. docs/how-to/add-a-job-field.md shows the steps.

This module is light, because the command line loads it to know its options.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tickwise.domain.retry import OnUnknown

FUSE_PER_MINUTE: Final = 120
MAX_FUSE: Final = 60_000
OBJECTIVE_RATIO: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOption:
    """The option of a field on the command line."""

    name: str
    """Such as `--retries`."""
    help: str
    help_of_edit: str | None = None
    """The text for `jobs edit`; None: `help`."""
    metavar: str | None = None
    default: str | None = None
    """The default in words, for commands that create a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobField:
    """One field: its type, limits, place, meaning and option. `documents/definition.py` has its stored form."""

    name: str
    kind: type[bool | float | int | str | StrEnum]
    default: bool | float | str | None
    """The value of a job that does not send the field, and of one that sends `null`."""
    after: str
    """The field that it stands after, in bodies and answers."""
    is_schedule_policy: bool = False
    """It belongs to `Plan`, keeps its value under a new schedule, and previews take it."""
    description: str | None = None
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    max_length: int | None = None
    pattern: str | None = None
    """The form of a text, as a regular expression."""
    option: FieldOption | None = None

    @property
    def is_duration(self) -> bool:
        """True if the field's option takes 90s or 5m."""
        return self.kind is float and self.name.endswith("_seconds")


JOB_FIELDS: Final = (
    JobField(name="description", kind=str, default=None, after="key", max_length=10_000),
    JobField(
        name="timeout_seconds",
        kind=float,
        default=None,
        after="priority",
        above=0,
        at_most=366 * 86_400,
        option=FieldOption(
            name="--timeout",
            metavar="DURATION",
            help="Stop an attempt that takes longer: 90s, 1h.",
            help_of_edit="Stop an attempt that takes longer; 0 for never.",
            default="none",
        ),
    ),
    JobField(
        name="max_retries",
        kind=int,
        default=3,
        after="limits",
        at_least=0,
        at_most=1_000,
        option=FieldOption(name="--retries", metavar="N", help="Number of retries after a failure.", default="3"),
    ),
    JobField(
        name="on_unknown",
        kind=OnUnknown,
        default=OnUnknown.RERUN,
        after="retry",
        description="The treatment of a run whose executor was lost after it began, so that its outcome is unknown: "
        "rerun (the default), fail, or hold until a person decides.",
        option=FieldOption(
            name="--on-unknown",
            help="If its executor is lost after it began: run it again, fail it, or hold it for a person.",
            default="rerun",
        ),
    ),
    JobField(
        name="fuse_per_minute",
        kind=int,
        default=FUSE_PER_MINUTE,
        after="calendars",
        is_schedule_policy=True,
        description=f"More runs by schedule than this within a minute pause the job; {FUSE_PER_MINUTE} if not sent.",
        at_least=1,
        at_most=MAX_FUSE,
        option=FieldOption(
            name="--fuse", metavar="N", help="More runs than this in a minute pause the job.", default="120"
        ),
    ),
    JobField(
        name="start_deadline_seconds",
        kind=float,
        default=None,
        after="timeout_seconds",
        description="A run by schedule that no executor could start within this time after it was due is skipped "
        "(reason `expired`). Without it, such a run waits for an executor however long.",
        above=0,
        at_most=366 * 86_400,
        option=FieldOption(
            name="--start-deadline",
            metavar="DURATION",
            help="Skip a run by schedule that waited longer than this for an executor: 60s.",
            help_of_edit="Skip a run by schedule that waited longer than this for an executor; 0 for never.",
            default="none",
        ),
    ),
    JobField(
        name="objective_start_seconds",
        kind=float,
        default=None,
        after="start_deadline_seconds",
        description="The objective for its starts: `objective_ratio` of the runs of 30 days begin within this time of "
        "their due time. Of recurring jobs; see `GET /objectives`.",
        above=0,
        at_most=366 * 86_400,
        option=FieldOption(
            name="--objective",
            metavar="DURATION",
            help="Objective for starts: runs begin within this time of their due time, 30s.",
            help_of_edit="Objective for starts: runs begin within this time of their due time; 0 for none.",
            default="none",
        ),
    ),
    JobField(
        name="objective_ratio",
        kind=float,
        default=OBJECTIVE_RATIO,
        after="objective_start_seconds",
        description=f"The share of its runs that shall begin in time; {OBJECTIVE_RATIO} if not sent.",
        above=0,
        at_most=0.99999,
        option=FieldOption(
            name="--objective-ratio",
            metavar="SHARE",
            help="The share of its runs that shall begin in time.",
            default=str(OBJECTIVE_RATIO),
        ),
    ),
)
SCHEDULE_FIELDS: Final = tuple(field for field in JOB_FIELDS if field.is_schedule_policy)
OTHER_FIELDS: Final = tuple(field for field in JOB_FIELDS if not field.is_schedule_policy)


class ByHand(StrEnum):
    """The reason why a field is written out by hand."""

    SHORT_FORM = "another spelling of a field: it is sent, and neither stored nor answered under this name"
    COLUMN = "stores search, sort or claim by it, so it is a column and no part of the definition"
    TIMES = "the fields of a schedule are valid or not together, and its type may follow from them"
    SPREAD = "a job has one of the two, so each takes the other away"
    TASK = "the kind of task decides which values are valid, or the field decides where the task comes from"
    OBJECT = "its members stand once in the struct of the object, which body, answer and definition share"
    JOBS = "it names other jobs, which control looks up, and a sequence must end"
    LIST = "it names stored things, calendars or channels, which control looks up"
    LOADING = "its values are an enum in a module that takes the command line too long to load"
    EXECUTOR = "the labels that an executor must offer follow from it, and the kind of task decides whether it is valid"


@dataclass(frozen=True, slots=True)
class WrittenField:
    """A field that is written out by hand. It is in the body and in PATCH; in the answer, unless it is a short form."""

    name: str
    """As it is sent."""
    reason: ByHand
    options: tuple[str, ...] = ()
    """The options that send it."""
    is_previewed: bool = False
    """Previews take it."""


HTTP_OPTIONS: Final = (
    "--method", "--header", "--data", "--expect", "--query", "--form", "--signing-secret", "--oauth", "--cert",
    "--cert-key", "--ca", "--tls-min", "--connect-timeout", "--answer-timeout", "--answer-bytes",
)  # fmt: skip
"""The options of `tickwise run` that say how its `--http` is called."""
WRITTEN_FIELDS: Final = (
    WrittenField("name", ByHand.COLUMN, ("--name",)),
    WrittenField("job_id", ByHand.COLUMN),
    WrittenField("key", ByHand.COLUMN, ("--key",)),
    WrittenField("labels", ByHand.COLUMN, ("--label",), is_previewed=True),
    WrittenField("owner", ByHand.COLUMN),
    WrittenField("queue", ByHand.COLUMN, ("--queue",)),
    WrittenField("requires", ByHand.COLUMN, ("--requires",)),
    WrittenField("priority", ByHand.COLUMN, ("--priority",)),
    WrittenField("schedule_type", ByHand.TIMES, ("--now", "--on-demand"), is_previewed=True),
    WrittenField("schedule_time", ByHand.TIMES, ("--at", "--in"), is_previewed=True),
    WrittenField("cron_expression", ByHand.TIMES, ("--cron",), is_previewed=True),
    WrittenField("interval_seconds", ByHand.TIMES, ("--every",), is_previewed=True),
    WrittenField("anchor", ByHand.TIMES, is_previewed=True),
    WrittenField("timezone", ByHand.TIMES, ("--timezone",), is_previewed=True),
    WrittenField("start_at", ByHand.TIMES, ("--start-at",), is_previewed=True),
    WrittenField("end_at", ByHand.TIMES, ("--end-at",), is_previewed=True),
    WrittenField("max_runs", ByHand.TIMES, ("--max-runs",), is_previewed=True),
    WrittenField("dst", ByHand.OBJECT, ("--dst-gap", "--dst-overlap"), is_previewed=True),
    WrittenField("at", ByHand.SHORT_FORM, is_previewed=True),
    WrittenField("cron", ByHand.SHORT_FORM, is_previewed=True),
    WrittenField("every", ByHand.SHORT_FORM, is_previewed=True),
    WrittenField("params", ByHand.SHORT_FORM),
    WrittenField("jitter_seconds", ByHand.SPREAD, ("--jitter",), is_previewed=True),
    WrittenField("window_seconds", ByHand.SPREAD, ("--window",), is_previewed=True),
    WrittenField("misfire", ByHand.OBJECT, ("--misfire", "--grace", "--max-catchup"), is_previewed=True),
    WrittenField("overlap", ByHand.LOADING, ("--overlap",), is_previewed=True),
    WrittenField("calendars", ByHand.LIST, ("--calendar",), is_previewed=True),
    WrittenField(
        "task",
        ByHand.TASK,
        ("--shell", "--http", "--function", *HTTP_OPTIONS),
    ),
    WrittenField("taskId", ByHand.TASK),
    WrittenField("payload", ByHand.TASK, ("--payload", "--param")),
    WrittenField("isolation", ByHand.EXECUTOR, ("--isolation",)),
    WrittenField("allow_network", ByHand.EXECUTOR, ("--allow-network",)),
    WrittenField("run_as", ByHand.EXECUTOR, ("--run-as",)),
    WrittenField("resources", ByHand.EXECUTOR, ("--resource",)),
    WrittenField("identity_token", ByHand.OBJECT, ("--identity-token",)),
    WrittenField("container_image", ByHand.EXECUTOR, ("--image",)),
    WrittenField(
        "limits", ByHand.OBJECT, ("--cpu-limit", "--memory-limit", "--process-limit", "--disk-limit", "--file-limit")
    ),
    WrittenField("retry", ByHand.OBJECT),
    WrittenField("concurrency", ByHand.OBJECT, ("--concurrency",)),
    WrittenField("rate", ByHand.OBJECT, ("--rate",)),
    WrittenField("then", ByHand.JOBS, ("--then",)),
    WrittenField("on_failure", ByHand.JOBS, ("--on-failure",)),
    WrittenField("notify", ByHand.LIST, ("--notify",)),
)
SERVER_FIELDS: Final = (
    "namespace", "task_version", "planned_at", "status", "pause_reason", "pause_until", "paused_at", "paused_by",
    "next_run_at", "created_at", "updated_at", "created_by", "version", "warnings", "pending",
)  # fmt: skip
"""Fields of the answer that only the server sets."""
