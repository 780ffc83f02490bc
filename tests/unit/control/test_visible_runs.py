"""A list of runs without planned skips is merged from several searches, and pages through all of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from tickwise.control.visible_runs import visible_runs
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger, time_id
from tickwise.ports.store import Page, RunQuery, RunRow, page_within
from tickwise.ports.store.searches import Searches

NOW = 1_800_000_000.0
QUERY = RunQuery(namespace="default")


def run(ahead_seconds: float, state: RunState, size: int) -> RunRow:
    """A run of this nominal time, with so large a result."""
    nominal = NOW + ahead_seconds
    none: dict[str, Any] = dict.fromkeys(
        ("dispatched_at", "started_at", "ended_at", "ready_at", "executor", "reason", "error", "origin", "definition")
    )
    return RunRow(
        run_id=time_id(int(nominal * 1000), bytes(10)),
        job_id=UUID(int=1),
        namespace="default",
        state=state,
        trigger=int(Trigger.SCHEDULE),
        due_at=nominal,
        queued_at=nominal,
        attempt=1,
        failures=0,
        crashes=0,
        result="x" * size,
        nominal_at=nominal,
        **none,
    )


class Rows:
    """The searches of a store that holds these runs."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.run_id, reverse=True)
        self.most = 0
        """The bytes of the largest page that was given."""

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        found = [
            row
            for row in self.rows
            if (query.before is None or row.run_id < query.before) and (not query.states or row.state in query.states)
        ]
        page = page_within(found[: query.limit], query.bytes_most)
        self.most = max(self.most, sum(row.text_bytes for row in page))
        return page


async def listed(rows: Rows, query: RunQuery) -> list[list[RunRow]]:
    """All pages."""
    found: list[list[RunRow]] = []
    while True:
        page = await visible_runs(cast(Searches, rows), query, NOW)
        assert len(page) <= query.limit
        if page:
            found.append(list(page))
        if not page.is_full(query.limit):
            return found
        query = replace(query, before=page[-1].run_id)


RUNS = st.dictionaries(
    st.integers(-12, 12),
    st.tuples(st.sampled_from([RunState.SKIPPED, RunState.QUEUED, RunState.SUCCESS]), st.integers(0, 9)),
    max_size=20,
)


@given(runs=RUNS, limit=st.integers(1, 6), most=st.integers(0, 20) | st.none())
@example(runs={2: (RunState.SKIPPED, 9), 1: (RunState.QUEUED, 9), -1: (RunState.SUCCESS, 9)}, limit=5, most=9)
@example(
    # The search of the past is cut before its skip, and the other one goes on behind it.
    runs={1: (RunState.SKIPPED, 0), -1: (RunState.SUCCESS, 5), -2: (RunState.SKIPPED, 9), -3: (RunState.SUCCESS, 0)},
    limit=5,
    most=10,
)
async def test_each_run_comes_once_and_no_planned_skip(
    runs: dict[int, tuple[RunState, int]], limit: int, most: int | None
) -> None:
    """Whatever is planned, however large the runs are, and wherever the searches are cut: in order, within bounds."""
    rows = Rows([run(ahead, state, size) for ahead, (state, size) in runs.items()])
    found = await listed(rows, replace(QUERY, limit=limit, bytes_most=most))
    expected = [row for row in rows.rows if row.state is not RunState.SKIPPED or row.nominal_at <= NOW]
    assert expected == [row for page in found for row in page]
    if most is not None:
        assert all(len(page) == 1 or sum(row.text_bytes for row in page) <= most for page in found)
        assert rows.most <= max(most, 9)


@given(runs=RUNS, limit=st.integers(1, 6))
async def test_without_a_bound_only_the_last_page_is_short(runs: dict[int, tuple[RunState, int]], limit: int) -> None:
    """A limit means what it says."""
    rows = Rows([run(ahead, state, size) for ahead, (state, size) in runs.items()])
    found = await listed(rows, replace(QUERY, limit=limit))
    assert all(len(page) == limit for page in found[:-1])
