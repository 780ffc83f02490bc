"""The plain fields of a job. Each one is declared here once; bodies, answers and options are drawn from it.

    JobField ──┬─► request bodies: JobBody, JobChangeBody; PreviewBody if it is a policy of the schedule
               ├─► the answer: JobView
               ├─► the rules of create, PATCH and recheck: not sent, null, limits
               ├─► options of `tickwise run`, `jobs create` and `jobs edit`
               └─► JSON Schema, docs/reference/api.md, docs/reference/cli.md

A plain field is sent, stored and answered as the same value, and no other field decides whether the value is valid. A
field with a rule across fields (the times of a schedule, a task, a lane, a limit by key) is written out in
`control/bodies.py` and has its rule in control. docs/how-to/add-a-job-field.md shows the steps.

This module is light, because the command line loads it to know its options.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tickwise.domain.retry import OnUnknown

FUSE_PER_MINUTE: Final = 120
MAX_FUSE: Final = 60_000


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
    """One field: its type, limits, place, meaning and option. `roles/shared/definition.py` has its stored form."""

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
    option: FieldOption | None = None

    @property
    def is_duration(self) -> bool:
        """Whether its option takes 90s or 5m."""
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
        option=FieldOption(name="--retries", metavar="N", help="How often to try again after a failure.", default="3"),
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
)
SCHEDULE_FIELDS: Final = tuple(field for field in JOB_FIELDS if field.is_schedule_policy)
OTHER_FIELDS: Final = tuple(field for field in JOB_FIELDS if not field.is_schedule_policy)
