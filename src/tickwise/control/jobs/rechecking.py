"""A job that an API composed is checked by the recorder as if it had been composed here.

    NewJob ──► its definition is read ──► each field by the check that the API has for it ── Invalid: a failed operation
                                    └──► what follows from the definition is computed anew: due, run, lane, keys

Invariant: no message becomes a row that this program would have refused as a body. Derived values are never taken from
the message, so a difference between two programs (another zone data base) refuses no job.

Not asked again is whether the function of a task is on offer, and whether a script compiles.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tickwise.control.bodies import TEXT_MAX, JobBody
from tickwise.control.jobs.confining import check_confinement
from tickwise.control.jobs.identity import JobFacts, with_identity
from tickwise.control.jobs.lanes import labels_of, usual_lane
from tickwise.control.jobs.planning import RECURRING, retimed
from tickwise.control.jobs.policies import Keyed, check_policies, with_keys
from tickwise.control.jobs.resolving import check_calendars, check_texts, checked_channels
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.successors import successors
from tickwise.control.tasks import CheckedTask, TaskCheck, stored_as_checked
from tickwise.control.texts import clean_text
from tickwise.documents.definition import Definition, decode_definition, encode_definition, trace_fields
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import JOB_FIELDS
from tickwise.domain.model import Lane, run_id
from tickwise.domain.rules.confinement import ISOLATED_KINDS, Confinement, Isolation, needed_labels
from tickwise.domain.schedule import ScheduleType
from tickwise.domain.zones import LAST_INSTANT
from tickwise.ports.store import NewJob

MAX_WARNINGS: Final = 50
MAX_WARNING_CHARACTERS: Final = 2_000
DIGEST_BYTES: Final = 32
_BOUNDED: Final = (
    "isolation", "allow_network", "run_as", "resources", "container_image", "cron_expression", "interval_seconds",
    "timezone", "max_runs", "jitter_seconds", "window_seconds",
    *(field.name for field in JOB_FIELDS),
)  # fmt: skip
_DEFAULTS_FROM: Final = NewJob._fields.index("never")
_DEFAULTS_TO: Final = NewJob._fields.index("source")
"""The caller of the request is of no concern here, and always known."""
_DEFAULTS: Final = tuple(NewJob._field_defaults[name] for name in NewJob._fields[_DEFAULTS_FROM:_DEFAULTS_TO])
_USUAL: Final = Definition(schedule_type=ScheduleType.FUTURE, task=msgspec.Raw(b"{}"))


class NamedReferences(NamedTuple):
    """The names that the store must be asked for, to check a job."""

    task: tuple[str, int | None] | None
    calendars: tuple[str, ...]
    successors: tuple[str, ...]
    channels: tuple[str, ...]


def read(job: NewJob) -> Definition:
    """Its definition. Raises `Invalid`."""
    try:
        return decode_definition(job.definition)
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        text, pointer = _placed(wrong)
        raise Invalid(f"the definition cannot be read by this version: {text}", pointer=pointer) from None


def named(definition: Definition) -> NamedReferences | None:
    """The stored objects that it names; None: none."""
    task = (definition.task_id, definition.task_version) if definition.task_id else None
    if task is None and not (definition.calendars or definition.then or definition.on_failure or definition.notify):
        return None
    following = tuple(str(each) for each in (*definition.then, *definition.on_failure))
    return NamedReferences(task, tuple(use.name for use in definition.calendars), following, definition.notify)


def is_usual(job: NewJob, definition: Definition, accepted: float, check: TaskCheck) -> bool:
    """Check for the usual job of a busy day, and for its validity: one time to come, or at once, a task, and no other
    field off its default. All other requests, and refused ones, take the full check."""
    at, kind = definition.schedule_time, definition.schedule_type
    if at is None:
        in_time = kind is ScheduleType.IMMEDIATE
    else:
        in_time = kind is ScheduleType.FUTURE and accepted <= at <= LAST_INSTANT
    if (
        not in_time
        or job[_DEFAULTS_FROM:_DEFAULTS_TO] != _DEFAULTS
        or not 0 < len(job.name) <= TEXT_MAX
        or "\0" in job.name
    ):
        return False
    task = check.inline(bytes(definition.task))
    offered = job.lane.requires[:1] != ("function:*",)
    isolated = _isolated(definition.isolation, task.kind)
    return (
        definition
        == Definition(
            schedule_type=kind,
            schedule_time=at,
            task=task.text,
            isolation=definition.isolation,
            traceparent=definition.traceparent,
            tracestate=definition.tracestate,
        )
        and _is_trace(definition)
        and (job.schedule_type, job.task_kind, job.due) == (kind.value, task.kind, at)
        and job.lane == usual_lane(task.kind, task.function, offered=offered, confined=isolated)
        and not job.recurring
        and job.run_id == run_id(job.job_id, accepted if at is None else at)
    )


def _isolated(isolation: Isolation, kind: str) -> tuple[str, ...]:
    """The labels of a job that says nothing of its confinement; an isolation that its kind cannot have, or that needs
    an image, gets a label that no usual lane has."""
    if isolation is Isolation.PROCESS or (isolation is Isolation.SANDBOX and kind in ISOLATED_KINDS):
        return needed_labels(Confinement(isolation))
    return ("",)


def _is_trace(definition: Definition) -> bool:
    """Check whether its trace is none, or one as this program writes it: it goes into the environment of tasks."""
    if definition.traceparent is None:
        return definition.tracestate is None
    trace = definition.trace
    return trace is not None and trace_fields(trace) == {
        "traceparent": definition.traceparent,
        "tracestate": definition.tracestate,
    }


def rechecked(job: NewJob, definition: Definition, scene: Scene, check: TaskCheck) -> NewJob:
    """The job that this program makes of that definition. Raises `Invalid`. `scene` is as of when the job was accepted,
    with what the definition names, as far as it is there."""
    body = _bounded(job, definition)
    check_texts(body)
    clean_text(job.name, "/name")
    task = _task(definition, scene, check)
    lane = _lane(job, task, check_confinement(definition, task.kind))
    check_policies(definition, task, check)
    _check_rest(job, definition, scene)
    timing = retimed(definition, job.job_id, scene.now)
    made = with_keys(definition, Keyed(job.job_id, lane.queue, job.labels or {}), ())
    made = with_identity(made, JobFacts(job.namespace, job.job_id, job.key, task.kind), check.issuer)
    if task.text != definition.task:
        made = msgspec.structs.replace(made, task=task.text)
    return job._replace(
        schedule_type=definition.schedule_type.value,
        task_kind=task.kind,
        definition=job.definition if made == definition else encode_definition(made),
        lane=lane,
        recurring=timing.recurs,
        run_id=timing.run_id,
        due=timing.due,
        never=timing.never,
        named=job.digest is not None,
        owner=None if job.owner == job.created_by else job.owner,
        calendars=tuple(use.name for use in definition.calendars),
        zone_data=timing.zone_data,
    )


def _bounded(job: NewJob, definition: Definition) -> JobBody:
    """The fields that a body bounds by itself, read as of a body. Raises `Invalid`."""
    lane = job.lane
    said: dict[str, Any] = {"name": job.name, "queue": lane.queue, "priority": lane.priority}
    own = [label for label in lane.requires if ":" not in label]
    given = {"key": job.key, "owner": job.owner, "labels": job.labels, "requires": own or None}
    said |= {name: value for name, value in given.items() if value is not None}
    for name in _BOUNDED:
        value = getattr(definition, name)
        if value != getattr(_USUAL, name):
            said[name] = value
    if definition.calendars:
        said["calendars"] = msgspec.to_builtins(definition.calendars)
    if definition.notify:
        said["notify"] = list(definition.notify)
    try:
        return msgspec.convert(said, JobBody)
    except msgspec.ValidationError as wrong:
        text, pointer = _placed(wrong)
        raise Invalid(text, pointer=pointer) from None


def _placed(wrong: Exception) -> tuple[str, str]:
    """The text of a failure to decode, and the pointer to its field; empty: it is about the whole."""
    text, _, place = str(wrong).partition(" - at `$")
    return text, place.rstrip("`").replace(".", "/")


def _task(definition: Definition, scene: Scene, check: TaskCheck) -> CheckedTask:
    """The task, found good, in its long form. Raises `Invalid`."""
    if definition.task_id:
        stored = scene.tasks.get(definition.task_id)
        if stored is None or stored.version != definition.task_version:
            raise Invalid(f"no task {definition.task_id!r} is stored in this version", pointer="/taskId")
        return stored_as_checked(stored)
    return check.inline(bytes(definition.task))


def _lane(job: NewJob, task: CheckedTask, confined: tuple[str, ...]) -> Lane:
    """The lane of its runs; Tickwise's own labels follow from the task. Raises `Invalid`."""
    requires = job.lane.requires
    if all(requires != labels_of(requires, task.kind, task.function, offered, confined) for offered in (True, False)):
        raise Invalid("a label with a colon is not one that its task needs", pointer="/requires")
    return job.lane


def _check_rest(job: NewJob, definition: Definition, scene: Scene) -> None:
    """Check the parts of a definition that control writes, and the names in it. Raises `Invalid`."""
    if definition.calendars:
        check_calendars(definition.calendars, scene.calendars)
    if definition.notify:
        checked_channels(definition.notify, scene.channels)
    if definition.then or definition.on_failure:
        said = JobBody(then=[*map(str, definition.then)], on_failure=[*map(str, definition.on_failure)])
        successors(said, job.job_id, job.name, scene.successors)
    if job.digest is not None and len(job.digest) != DIGEST_BYTES:
        raise Invalid("the digest of a body has 32 bytes", pointer="")
    warnings = definition.warnings
    if len(warnings) > MAX_WARNINGS or any(len(text) > MAX_WARNING_CHARACTERS for text in warnings):
        raise Invalid("these are no warnings of ours", pointer="/warnings")
    if not _is_trace(definition):
        raise Invalid("this is no trace in the form of W3C Trace Context", pointer="/traceparent")
    planned_at = round(scene.now, 6) if definition.schedule_type in RECURRING else None
    if definition.planned_at != planned_at:
        raise Invalid("a schedule counts from when it was accepted", pointer="/planned_at")
