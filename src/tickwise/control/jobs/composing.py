"""From a job body to a stored job: every field checked, every default made, every warning said.

    JobBody ──┬─ timing ──► Timing (Plan, first due) ──┐
              ├─ task | taskId | name ──► CheckedTask ─┼──► Definition (one text) ──► NewJob
              └─ payload, retry, limits, lane ─────────┘

Pure, apart from what the `Scene` brings along: the time, the stored tasks and the calendars that were named, the
functions on offer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.planning import Timing, is_decided, plan_fields, timing, zone_data
from tickwise.control.jobs.policies import Keyed, check_kept, doubtful, policies, with_keys
from tickwise.control.jobs.successors import NOTHING, Graph, check_sequence, resolved
from tickwise.control.tasks import NO_FINDINGS, CheckedTask, Findings, TaskCheck, stored_as_checked
from tickwise.control.texts import clean_id, clean_text
from tickwise.domain.errors import Invalid
from tickwise.domain.job_fields import JOB_FIELDS
from tickwise.domain.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, Lane, Principal, run_id, time_id
from tickwise.ports.store import NewJob, StoredTask
from tickwise.roles.shared.definition import CalendarUse, Definition, encode_definition
from tickwise.roles.shared.served_queues import Serving, not_offered

_ANYWHERE: Final = Lane()

_LIMITED: Final = ("concurrency", "rate")
_TEXTS: Final = tuple(field.name for field in JOB_FIELDS if field.kind is str)

_encode = msgspec.json.Encoder().encode


class Scene(NamedTuple):
    """The facts that composing needs beside the body."""

    now: float
    tasks: Mapping[str, StoredTask]
    """The stored tasks that are named by `taskId`, as far as they exist."""
    offered: frozenset[str]
    calendars: frozenset[str] = frozenset()
    """The calendars that are named, as far as they exist."""
    successors: Graph = NOTHING
    """The jobs that are named as successors, and what follows from them."""
    scripts: Findings = NO_FINDINGS
    """The findings on the scripts in the bodies."""
    serving: Serving | None = None
    """None: it is not known which lanes are served."""


class Composed(NamedTuple):
    """A job, ready to be stored."""

    job: NewJob
    warnings: tuple[str, ...]


class ResolvedTask(NamedTuple):
    """The task that a body means."""

    task: CheckedTask
    name: str | None
    """The name of a stored task."""
    task_id: str | None = None
    version: int | None = None
    warning: str | None = None


def resolve_task(body: JobBody, scene: Scene, check: TaskCheck) -> ResolvedTask | None:
    """The task of `task` or `taskId`; None if the body names neither."""
    if body.task_id:
        if body.task is not UNSET:
            raise Invalid("task and taskId contradict each other; send one of them", pointer="/taskId")
        stored = scene.tasks.get(body.task_id)
        if stored is None:
            raise Invalid(
                f"no task {body.task_id!r} is stored; store it with POST /api/v1/tasks first",
                pointer="/taskId",
                code="task_unknown",
            )
        return ResolvedTask(stored_as_checked(stored), stored.name, stored.task_id, stored.version)
    if body.task is not UNSET:
        task = check.inline(bytes(body.task), scene.scripts)
        return ResolvedTask(task, None, warning=task.unchecked and f"{UNCHECKED}: {task.unchecked}")
    return None


UNCHECKED: Final = "the syntax of the script was not checked"
OWN_FUNCTION: Final = "no task was given, so the job runs the registered function of its own name, "


def own_function(name: str, check: TaskCheck) -> ResolvedTask:
    """The registered function of the job's own name: what a job without a task runs."""
    said = f"{OWN_FUNCTION}{name!r}"
    return ResolvedTask(check.function(name), None, warning=said)


def lane(body: JobBody, task: CheckedTask, offered: frozenset[str], before: Lane = _ANYWHERE) -> Lane:
    """Where its runs wait. The labels that hold a colon are ours: they say what an executor must be able to run."""
    if before is _ANYWHERE and body.requires is UNSET and body.queue is UNSET and body.priority is UNSET:
        return usual_lane(task.kind, task.function, offered=task.function in offered)
    own = before.requires if body.requires is UNSET else tuple(body.requires or ())
    labels = labels_of(own, task.kind, task.function, task.function in offered)
    queue = before.queue if body.queue is UNSET else body.queue or DEFAULT_QUEUE
    priority = before.priority if body.priority is UNSET else body.priority
    return Lane(queue, DEFAULT_PRIORITY if priority is None else priority, labels)


@lru_cache(maxsize=4096)
def usual_lane(kind: str, function: str | None, *, offered: bool) -> Lane:
    """Where runs of a job wait that says nothing of it. `offered`: an active executor has the function."""
    return Lane(DEFAULT_QUEUE, DEFAULT_PRIORITY, labels_of((), kind, function, offered))


@lru_cache(maxsize=4096)
def labels_of(own: tuple[str, ...], kind: str, function: str | None, offered: bool) -> tuple[str, ...]:
    """The labels that a task needs, and its job's own. `offered`: an active executor has the function."""
    labels = {label for label in own if ":" not in label}
    labels.add(f"task:{kind}")
    if function is not None:
        labels.add(f"function:{function}" if offered else "function:*")
    return tuple(sorted(labels))


def check_texts(body: JobBody) -> None:
    """Refuse the character that no store keeps."""
    if body.key:
        clean_id(body.key, "/key")
    if body.owner:
        clean_text(body.owner, "/owner")
    for name in _TEXTS:
        text = getattr(body, name)
        if text:
            clean_text(text, f"/{name}")
    if body.labels:
        for label, value in body.labels.items():
            pointer = "/labels/" + label.replace("~", "~0").replace("/", "~1")
            clean_text(label, "/labels")
            clean_text(value, pointer)


def check_calendars(uses: Sequence[CalendarUse], known: Collection[str]) -> None:
    """Refuse a calendar that is not there: the job would run as if nobody had named it."""
    for place, use in enumerate(uses):
        if use.name not in known:
            raise Invalid(
                f"there is no calendar {use.name!r}; create it first",
                pointer=f"/calendars/{place}/name",
                code="calendar_unknown",
            )


def compose(who: Principal, body: JobBody, scene: Scene, check: TaskCheck, random_bytes: bytes) -> Composed:
    """The job that the body means. Raises `Invalid`. `random_bytes` is 10 random bytes for its id."""
    job_id = body.job_id or time_id(int(scene.now * 1000), random_bytes)
    when = timing(body, job_id, scene.now)
    plan = when.plan
    if plan.calendars:
        check_calendars(plan.calendars, scene.calendars)
    check_texts(body)
    resolved = resolve_task(body, scene, check)
    name = body.name or (resolved.name if resolved else None)
    if not name:
        raise Invalid("a job needs a name", pointer="/name")
    clean_text(name, "/name")
    if resolved is None:
        resolved = own_function(name, check)
    task = resolved.task
    lasting = when.warnings
    if resolved.warning:
        lasting = (*lasting, resolved.warning)
    own_lane = lane(body, task, scene.offered)
    missing = not_offered(task.function, scene.offered)
    if missing is None and scene.serving is not None:
        missing = scene.serving.missing(own_lane, task.function)
    definition = _definition(body, when, resolved, lasting)
    if body.limits:
        check_kept(definition.limits, task.kind, check.limits(task.kind), sent=True)
    passing = doubtful(definition.retry, task, check.reasons(task.kind)) if body.retry else ()
    if missing:
        passing = (*passing, missing)
    if body.concurrency or body.rate:
        definition = with_keys(definition, Keyed(job_id, own_lane.queue, body.labels or {}), _LIMITED)
    if body.then or body.on_failure:
        definition = msgspec.structs.replace(definition, **successors(body, job_id, name, scene))
    recurs = when.recurs
    due = when.due
    run = None if recurs or is_decided(plan) else run_id(job_id, scene.now if due is None else due)
    return Composed(
        NewJob(
            job_id=job_id,
            namespace=who.namespace,
            name=name,
            schedule_type=plan.schedule_type.value,
            task_kind=task.kind,
            definition=encode_definition(definition),
            lane=own_lane,
            created_by=who.name,
            recurring=recurs,
            run_id=run,
            due=due,
            never=when.never,
            named=bool(body.job_id),
            key=body.key or None,
            digest=hashlib.sha256(_encode(body)).digest() if body.job_id else None,
            labels=body.labels or None,
            # Nobody else: the store then needs no look for what this job may clash with.
            owner=None if body.owner == who.name else body.owner or None,
            calendars=tuple(use.name for use in plan.calendars) if plan.calendars else (),
            zone_data=zone_data(plan) if recurs else None,
        ),
        (*lasting, *passing) if passing else lasting,
    )


def successors(body: JobBody, job_id: UUID, name: str, scene: Scene) -> dict[str, tuple[UUID, ...]]:
    """The fields `then` and `on_failure`, as far as they were sent, as ids. Raises `Invalid`."""
    found = {
        field: resolved(said, field, own=job_id, graph=scene.successors)
        for field, said in (("then", body.then), ("on_failure", body.on_failure))
        if said is not UNSET
    }
    if any(found.values()):
        check_sequence(job_id, name, fields=found, graph=scene.successors)
    return found


def _definition(body: JobBody, when: Timing, resolved: ResolvedTask, warnings: tuple[str, ...]) -> Definition:
    plan = when.plan
    if when.usual:
        # Each field by its name: for the hottest route, merging dicts would cost as much as all the rest of this.
        return Definition(
            schedule_type=plan.schedule_type,
            schedule_time=plan.schedule_time,
            task=resolved.task.text,
            task_id=resolved.task_id,
            task_version=resolved.version,
            warnings=warnings,
            **policies(body),
        )
    return Definition(
        **plan_fields(plan),
        task=resolved.task.text,
        task_id=resolved.task_id,
        task_version=resolved.version,
        warnings=warnings,
        **policies(body),
    )
