"""From a job body to a stored job: every field checked, every default made, every warning said.

    JobBody ──┬─ planning ───► Timing (Plan, first due, the only run) ──┐
              ├─ resolving ──► name, ResolvedTask ──────────────────────┤
              ├─ lanes ──────► Lane ────────────────────────────────────┼──► Definition (one text) ──► NewJob
              ├─ policies ───► fields: retry, limits, keys, payload ────┤
              └─ successors ─► ids ─────────────────────────────────────┘

Pure, apart from the facts in the `Scene`. Each part is asked once, in the order of the refusals, and hands over a
value.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.jobs.confining import check_run_as, confine
from tickwise.control.jobs.identity import JobFacts, with_identity
from tickwise.control.jobs.lanes import lane
from tickwise.control.jobs.named_secrets import own_names, warnings_of
from tickwise.control.jobs.planning import LASTING, Timing, plan_fields, timing
from tickwise.control.jobs.policies import policies_for
from tickwise.control.jobs.resolving import ResolvedTask, checked_channels, resolve
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.successors import successors
from tickwise.control.tasks import TaskCheck
from tickwise.documents.definition import Definition, encode_definition, trace_fields
from tickwise.domain.audit import Source
from tickwise.domain.model import DEFAULT_QUEUE, Principal, time_id
from tickwise.ports.store import NewJob

_encode = msgspec.json.Encoder().encode


class Composed(NamedTuple):
    """A job, ready to be stored."""

    job: NewJob
    warnings: tuple[str, ...]


def compose(who: Principal, body: JobBody, scene: Scene, check: TaskCheck, random_bytes: bytes) -> Composed:
    """The job that the body means. Raises `Invalid`. `random_bytes` is 10 random bytes for its id."""
    job_id = body.job_id or time_id(int(scene.now * 1000), random_bytes)
    when = timing(body, job_id, scene.now)
    plan = when.plan
    name, resolved = resolve(body, plan.calendars, scene, check)
    task = resolved.task
    queue = DEFAULT_QUEUE if body.queue is UNSET else body.queue or DEFAULT_QUEUE
    serving = scene.serving if scene.sandboxes else None
    confined = confine(body, task.kind, serving, queue, who.namespace, scene.floor)
    check_run_as(confined, who.namespace, check.run_as_users)
    own_lane = lane(body, task, scene.serving.functions, confined=confined.labels)
    missing = scene.serving.missing(own_lane, task.function, who.namespace, confined.demand)
    fields, passing = policies_for(body, task, check, job_id, own_lane.queue)
    if confined.fields:
        fields |= confined.fields
    if body.notify:
        fields["notify"] = checked_channels(body.notify, scene.channels)
    if body.then or body.on_failure:
        fields |= successors(body, job_id, name, scene.successors)
    if who.origin.trace is not None and plan.schedule_type not in LASTING:
        fields |= trace_fields(who.origin.trace)
    lasting = (*when.warnings, resolved.warning) if resolved.warning else when.warnings
    if missing:
        passing = (*passing, missing)
    if confined.warnings:
        passing = (*passing, *confined.warnings)
    if scene.missing_secrets:
        passing = (*passing, *warnings_of(bytes(task.text), scene.missing_secrets))
    definition = _definition(when, resolved, lasting, fields)
    if body.identity_token:
        facts = JobFacts(who.namespace, job_id, body.key or None, task.kind)
        definition = with_identity(definition, facts, check.issuer)
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
            recurring=when.recurs,
            run_id=when.run_id,
            due=when.due,
            never=when.never,
            named=bool(body.job_id),
            key=body.key or None,
            digest=hashlib.sha256(_encode(body)).digest() if body.job_id else None,
            labels=body.labels or None,
            # None for the creator: the store then needs no search for clashes.
            owner=None if body.owner == who.name else body.owner or None,
            calendars=tuple(use.name for use in plan.calendars) if plan.calendars else (),
            zone_data=when.zone_data,
            source=Source.of(who),
            secrets=sorted(own_names(bytes(task.text))),
        ),
        (*lasting, *passing) if passing else lasting,
    )


def _definition(when: Timing, resolved: ResolvedTask, warnings: tuple[str, ...], fields: dict[str, Any]) -> Definition:
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
            **fields,
        )
    return Definition(
        **plan_fields(plan),
        task=resolved.task.text,
        task_id=resolved.task_id,
        task_version=resolved.version,
        warnings=warnings,
        **fields,
    )
