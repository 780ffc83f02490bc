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
from tickwise.ports.store import Page, RunQuery, RunRow, page_within
from tickwise.ports.store.searches import Searches

_NOT_SKIPPED: Final = tuple(state for state in RunState if state is not RunState.SKIPPED)


async def visible_runs(searches: Searches, query: RunQuery, now: float) -> Page[RunRow]:
    """The runs that the query finds, newest first, without skips of occurrences after `now`."""
    rows = await searches.runs(query)
    if query.states or not any(_is_planned_skip(row, now) for row in rows):
        return rows
    # Two queries however many skips are planned: the runs of the past, and of those to come the ones that are no skips.
    past = name_from(now + 0.001)
    by_now = replace(query, before=past if query.before is None else min(query.before, past))
    coming = replace(query, states=_NOT_SKIPPED)
    return _merged([await searches.runs(part) for part in (by_now, coming)], query)


def _merged(parts: Sequence[Page[RunRow]], query: RunQuery) -> Page[RunRow]:
    """One page of two searches. It ends where the first of them was cut or paused, for what follows there is not
    known."""
    pauses = [part.paused_at for part in parts if part.paused_at is not None]
    # Rows that were found by an index of names are all there; what is not is told again from its begin.
    paused_at = max(pauses, default=None)
    ends = [part[-1].run_id for part in parts if part.cut]
    if paused_at is not None and (query.is_rest or not paused_at.is_rest):
        ends.append(paused_at.before)
    known_to = max(ends, default=None)
    found: dict[UUID, RunRow] = {row.run_id: row for part in parts for row in part}
    ordered = sorted(found.values(), key=lambda row: row.run_id, reverse=True)
    known = [row for row in ordered if known_to is None or row.run_id >= known_to]
    page = page_within(known[: query.limit], query.bytes_most)
    is_short = len(page) < query.limit
    if paused_at is not None and is_short and not page.cut and known_to in (None, paused_at.before):
        return Page(page, paused_at=paused_at)
    return Page(page, cut=page.cut or (known_to is not None and is_short))


def _is_planned_skip(row: RunRow, now: float) -> bool:
    return row.state is RunState.SKIPPED and row.nominal_at > now
