"""Explains runs: looks up the facts around a run, at a bounded cost, and has them judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

import msgspec

from tickwise.control.context import ControlContext
from tickwise.control.explain.conditions import run_conditions
from tickwise.control.explain.explanations import (
    ON_TIME_SECONDS,
    Explanation,
    RunFacts,
)
from tickwise.control.explain.lateness import past_waits
from tickwise.control.explain.reasons import judged
from tickwise.control.explain.run_context import RunContext
from tickwise.control.explain.standing import Standing
from tickwise.documents.definition import Definition, decode_definition
from tickwise.domain import schedule as schedules
from tickwise.domain.hosts import host_of
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger, joined, name_from
from tickwise.domain.retry import CIRCUIT_OPEN, SECRETS_AWAY
from tickwise.domain.secrets.places import references_in
from tickwise.domain.selectors import Selector, matches
from tickwise.domain.stops import Stop
from tickwise.domain.zones import zone_named
from tickwise.ports.store import NO_TEXT, QUEUE_HELD, ExecutorRow, Incident, JobRow, RunQuery, RunRow, StopQuery

RUNS_LOOKED_AT: Final = 50
MAX_FAVOURED_JOBS: Final = 10
OF_JOBS: Final = frozenset({CIRCUIT_OPEN, SECRETS_AWAY, QUEUE_HELD})
"""The kinds of incidents that concern some jobs alone."""
UNFINISHED: Final = (RunState.QUEUED, RunState.DISPATCHED, RunState.RUNNING, RunState.RETRYING)
NOT_SKIPPED: Final = tuple(state for state in RunState if state is not RunState.SKIPPED)
BY_SCHEDULE: Final = (Trigger.SCHEDULE, Trigger.MISSED, Trigger.BACKFILL)
TAKEN: Final = (RunState.DISPATCHED, RunState.RUNNING, RunState.SUCCESS, RunState.FAILED)


class RunExplanations:
    """Explains a run by its facts. It checks no permission."""

    def __init__(self, context: ControlContext, within: Selector | None) -> None:
        """`within`: the jobs that an explanation may name beside that of the run."""
        self._context = context
        self._within = within
        self._around = RunContext(context, within)

    async def explained(self, run: RunRow, standing: Standing | None) -> Explanation:
        """A run, judged by all that can be known of it."""
        now = await self._context.store.now()
        attempts = await self._context.store.runs.attempts(run.run_id)
        facts = RunFacts(now=now, run=run, zone=zone_named("UTC"), attempts=attempts)
        flow = await self._around.facts(run, None if standing is None else (standing.row, standing.plan))
        until = now if facts.began is None and run.ended_at is None else facts.began or run.ended_at or now
        last = until if len(attempts) < 2 else run.ended_at or now
        noticed = await self._context.store.incidents.between(min(run.nominal_at, run.due_at), max(last, run.due_at))
        incidents = [each for each in noticed if each.kind not in OF_JOBS]
        if standing is None:
            return judged(replace(facts, incidents=incidents, **flow))
        waits = run.state in UNFINISHED and facts.began is None
        late = waits or until - run.due_at > ON_TIME_SECONDS
        whole = RunFacts(
            now=now,
            run=run,
            zone=standing.zone,
            attempts=attempts,
            job=standing.row,
            plan=standing.plan if run.definition is None else decode_definition(run.definition),
            schedule=standing.schedule,
            rules=standing.rules,
            function=_function(standing.row, standing.plan),
            incidents=incidents,
            circuits=_circuits([each for each in noticed if each.begin <= max(until, run.due_at)], standing),
            secrets_away=_secrets_away(noticed, standing),
            stops=await self._stops(standing) if late or len(attempts) > 1 else (),
            holds=_holds(noticed, standing),
            executors=await self._context.store.executors.all(between=(run.due_at, until)) if late else (),
            active=await self._active(now) if run.state in (RunState.QUEUED, RunState.RETRYING) else (),
            earlier=await self._others(run, until) if late or run.state is RunState.SKIPPED else (),
            favoured=await self._favoured(run, standing, until) if late else (),
            **flow,
        )
        found = replace(judged(whole), conditions=run_conditions(whole), waits=past_waits(whole))
        if run.trigger in BY_SCHEDULE:
            found.data["schedule"] = schedules.explain(standing.schedule)
        if whole.asked_by is not None:
            found.data["asked_by"] = whole.asked_by
        return found

    async def _stops(self, standing: Standing) -> list[Stop]:
        """The stops that concern the job, also those that are over."""
        row = standing.row
        rows = await self._context.store.stops.find(StopQuery(namespace=row.namespace))
        return [stop for stop in rows if stop.concerns(row.job_id, row.labels, row.lane.queue)]

    async def _active(self, now: float) -> list[ExecutorRow]:
        rows = await self._context.store.executors.all()
        return [row for row in rows if row.gone_at is None and row.lease_until > now]

    async def _others(self, run: RunRow, until: float) -> list[RunRow]:
        """Runs of the job that this one may have had to do with."""
        rows = await self._context.store.searches.runs(
            RunQuery(
                namespace=run.namespace,
                job_id=run.job_id,
                states=NOT_SKIPPED,
                before=name_from(until + 1.0),
                limit=RUNS_LOOKED_AT,
                texts=NO_TEXT,
            )
        )
        return [row for row in rows if row.run_id != run.run_id]

    async def _favoured(self, run: RunRow, standing: Standing, until: float) -> list[tuple[RunRow, JobRow]]:
        """Runs of a higher priority that were taken from the same queue while this one waited."""
        rows = await self._context.store.searches.runs(
            RunQuery(
                namespace=run.namespace,
                states=TAKEN,
                before=name_from(until + 1.0),
                limit=2 * RUNS_LOOKED_AT,
                texts=NO_TEXT,
            )
        )
        found: list[tuple[RunRow, JobRow]] = []
        jobs: dict[UUID, JobRow | None] = {run.job_id: None}
        for row in rows:
            if row.dispatched_at is None or not run.due_at <= row.dispatched_at <= until:
                continue
            if row.job_id not in jobs:
                if len(jobs) > MAX_FAVOURED_JOBS:
                    continue
                jobs[row.job_id] = await self._context.store.jobs.get(run.namespace, row.job_id)
            job, own = jobs[row.job_id], standing.row.lane
            if job is None or not matches(job.labels, self._within):
                continue
            if job.lane.queue == own.queue and job.lane.priority > own.priority:
                found.append((row, job))
        return found


def _function(row: JobRow, plan: Definition) -> str | None:
    name = msgspec.json.decode(plan.task).get("name") if row.task_kind == "function" else None
    return name if isinstance(name, str) else None


def _holds(noticed: Sequence[Incident], standing: Standing) -> list[Incident]:
    """The times in which the queue of the job was on hold; `who` is the queue."""
    row = standing.row
    target = joined(row.namespace, row.lane.queue)
    return [
        replace(each, who=row.lane.queue) for each in noticed if each.kind == QUEUE_HELD and each.who == target
    ]  # fmt: skip


def _secrets_away(noticed: Sequence[Incident], standing: Standing) -> list[Incident]:
    """The times in which the provider of a secret that the job names did not answer; `who` is the reference."""
    references = references_in(msgspec.json.decode(standing.plan.task))
    targets = {joined(standing.row.namespace, text): text for text in references}
    return [
        replace(each, who=targets[each.who])
        for each in noticed
        if each.kind == SECRETS_AWAY and each.who in targets
    ]  # fmt: skip


def _circuits(noticed: Sequence[Incident], standing: Standing) -> list[Incident]:
    """The times in which the namespace's circuit of the host was open that an http task calls; `who` is the host."""
    if standing.row.task_kind != "http":
        return []
    url = msgspec.json.decode(standing.plan.task).get("url")
    host = host_of(url) if isinstance(url, str) else None
    if host is None:
        return []
    target = joined(standing.row.namespace, host)
    return [replace(each, who=host) for each in noticed if each.kind == CIRCUIT_OPEN and each.who == target]
