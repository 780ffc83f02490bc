"""Jobs that a body names by id, key or name, for things that are about some jobs of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_text
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import JobStatus
from tickwise.domain.model import Principal
from tickwise.ports.store import JobQuery

NAMESAKES_MAX: Final = 5
"""Jobs of one name that are listed when a body names it."""


async def jobs_named(context: ControlContext, who: Principal, names: Sequence[str], pointer: str) -> tuple[UUID, ...]:
    """The ids of these jobs of the caller's namespace, each once. `pointer` leads to the list in the body. Raises
    `Invalid` for a name that no job has, or several have."""
    found = [await _job(context, who, name, f"{pointer}/{place}") for place, name in enumerate(names)]
    return tuple(dict.fromkeys(found))


async def _job(context: ControlContext, who: Principal, name: str, pointer: str) -> UUID:
    clean_text(name, pointer)
    try:
        row = await context.store.jobs.get(who.namespace, UUID(name))
    except ValueError:
        row = None
    row = row or await context.store.jobs.get(who.namespace, name)
    if row is not None:
        return row.job_id
    rows = await context.store.searches.jobs(JobQuery(namespace=who.namespace, name=name, limit=50))
    namesakes = [row for row in rows if row.name == name]
    # A job that is cancelled takes no name away from one that is not.
    namesakes = [row for row in namesakes if row.status is not JobStatus.CANCELLED] or namesakes
    if len(namesakes) == 1:
        return namesakes[0].job_id
    if namesakes:
        ids = ", ".join(str(row.job_id) for row in namesakes[:NAMESAKES_MAX])
        raise Invalid(f"{len(namesakes)} jobs have the name {name!r}; name one by its id: {ids}", pointer=pointer)
    raise Invalid(f"there is no job with the id, key or name {name[:100]!r}", pointer=pointer, code="job_unknown")
