"""Changes of a job: stored so that no two of them at once close a circle of sequences.

    the steps (`then`, `on_failure`) ──► stored ──► walked once more ──┬── open ────► the rest of the change
                                                                       └── closed ──► taken back, refused

Invariant: of all the changes that close a circle together, the last one to be stored walks it afterwards and sees all
of it, so at least that one is taken back. (All may be; the circle never stays.) Those of one process are made one after
the other, so that only what came second is refused there. A job that is created needs no second walk: no other job can
name it before it is stored, and a job that names it afterwards walks on from it.

A circle that could not be walked, because the store went away in between, ends as every chain at `MAX_CHAIN` runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.control.audit.entries import job_changed
from tickwise.control.context import ControlContext
from tickwise.control.jobs.named_secrets import own_names
from tickwise.control.jobs.planning import plan_of
from tickwise.control.jobs.successors import check_sequence, look
from tickwise.documents.definition import decode_definition, encode_definition
from tickwise.domain.errors import Refused, VersionConflict
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.domain.selectors import Selector
from tickwise.ports.store import JobChange, JobRow

RACES_MAX: Final = 5


class Steps(NamedTuple):
    """The successors of a job."""

    then: Sequence[UUID]
    on_failure: Sequence[UUID]


class SequenceLinks:
    """Stores changes of jobs, and takes those back that close a circle of sequences."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def change(self, who: Principal, row: JobRow, change: JobChange) -> JobRow:
        """Store a change of the job as it is in `row`. Raises `Invalid` if its steps close a circle by now, naming the
        jobs that the caller may see alone, and what the store refuses; then nothing of it stays."""
        old, new = _steps(row.definition), _steps(change.definition)
        if new == old or not any(new):
            return await self._store(who, row, change)
        linked = await self._store(who, row, with_steps(row, new))
        try:
            await self._check_no_circle(linked, new, who.within)
            rest = replace(change, expected_version=linked.version)
            steps_alone = with_steps(linked, new)
            # Without a new plan nothing is held back.
            if rest == replace(steps_alone, postponed_after_seconds=rest.postponed_after_seconds):
                return linked
            return await self._store(who, linked, rest)
        except Refused:
            await self._take_back(who, linked, old, new)
            raise

    async def _store(self, who: Principal, row: JobRow, change: JobChange) -> JobRow:
        audit = job_changed(who, row, change)
        return await self._context.surely(lambda: self._context.store.jobs.change(change, audit=audit))

    async def _check_no_circle(self, row: JobRow, steps: Steps, within: Selector | None) -> None:
        """Walk the stored sequence after the job. Raises `Invalid` if it leads back to the job, or is too long."""
        named = [str(job_id) for ids in steps for job_id in ids]
        graph = (await look(self._context.store.jobs, row.namespace, named)).told_to(within)
        check_sequence(row.job_id, row.name, fields=steps._asdict(), graph=graph)

    async def _take_back(self, who: Principal, row: JobRow, old: Steps, new: Steps) -> None:
        """Restore the old steps, unless another change has replaced the new ones meanwhile."""
        for _ in range(RACES_MAX):
            try:
                await self._store(who, row, with_steps(row, old))
            except VersionConflict:
                found = await self._context.store.jobs.get(row.namespace, row.job_id)
                if found is None or found.status is JobStatus.CANCELLED or _steps(found.definition) != new:
                    return
                row = found
            else:
                return


def _steps(definition: str) -> Steps:
    found = decode_definition(definition)
    return Steps(found.then, found.on_failure)


def with_steps(row: JobRow, steps: Steps) -> JobChange:
    """The change that leaves all else as it is."""
    definition = msgspec.structs.replace(decode_definition(row.definition), **steps._asdict())
    return JobChange(
        namespace=row.namespace,
        job_id=row.job_id,
        expected_version=row.version,
        name=row.name,
        key=row.key,
        schedule_type=row.schedule_type,
        task_kind=row.task_kind,
        definition=encode_definition(definition),
        lane=row.lane,
        labels=row.labels,
        owner=row.owner,
        replan=None,
        calendars=tuple(use.name for use in plan_of(definition).calendars),
        secrets=sorted(own_names(bytes(definition.task))),
    )
