"""Searches for runs without the occurrences that will be skipped.

A planned skip (`POST /jobs/{job_id}/skip`) is on record before its time, under the id of its nominal time, so it would
stand before every run that has happened. It is shown only to a search that names states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import name_from
from tickwise.ports.store import RunQuery, RunRow
from tickwise.ports.store.searches import Searches

_NOT_SKIPPED: Final = tuple(state for state in RunState if state is not RunState.SKIPPED)


async def visible_runs(searches: Searches, query: RunQuery, now: float) -> Sequence[RunRow]:
    """The runs that the query finds, newest first, without skips of occurrences after `now`."""
    rows = await searches.runs(query)
    if query.states or not any(_is_planned_skip(row, now) for row in rows):
        return rows
    # Two queries however many skips are planned: the runs of the past, and of those to come the ones that are no skips.
    past = name_from(now + 0.001)
    by_now = replace(query, before=past if query.before is None else min(query.before, past))
    coming = replace(query, states=_NOT_SKIPPED)
    found: dict[UUID, RunRow] = {}
    for part in (by_now, coming):
        found |= {row.run_id: row for row in await searches.runs(part)}
    return sorted(found.values(), key=lambda row: row.run_id, reverse=True)[: query.limit]


def _is_planned_skip(row: RunRow, now: float) -> bool:
    return row.state is RunState.SKIPPED and row.nominal_at > now
