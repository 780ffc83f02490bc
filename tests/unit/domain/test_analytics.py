"""Many runs by groups: the rows add up, and quantiles are those of SQL."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.analytics import (
    GroupBy,
    GroupKind,
    GroupSort,
    MeasuredRun,
    RunGroup,
    analysed,
    percentile,
    spread_of,
)

RUNS = st.lists(
    st.builds(
        MeasuredRun,
        key=st.none() | st.sampled_from("abcdef"),
        state=st.sampled_from([RunState.SUCCESS, RunState.FAILED, RunState.SKIPPED]),
        due_at=st.floats(0, 1e6),
        retries=st.integers(0, 3),
        seconds=st.none() | st.floats(0, 1e6),
        lateness=st.none() | st.floats(0, 1e6),
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([7.0], 0.99, 7.0), ([1.0, 2.0], 0.5, 1.5), ([1.0, 2.0, 4.0, 8.0], 0.95, 7.4), ([0.0, 1.0], 0.0, 0.0)],
)
def test_a_quantile_lies_between_two_neighbours_by_its_distance(
    values: list[float], share: float, expected: float
) -> None:
    """As `percentile_cont` of SQL has it, so that both stores say the same."""
    assert percentile(values, share) == pytest.approx(expected)


def test_a_quantity_that_no_run_has_has_no_spread() -> None:
    """None of them began."""
    assert spread_of([None, None]) is None


@given(runs=RUNS, top=st.integers(1, 4), sort=st.sampled_from(GroupSort))
def test_rows_add_up_to_the_total(runs: list[MeasuredRun], top: int, sort: GroupSort) -> None:
    """In each count, with at most one row without a key and one remainder, which stand last."""
    found = analysed(runs, group_by=GroupBy.JOB, sort=sort, top=top)

    def sums(rows: list[RunGroup]) -> tuple[int, int, float, int]:
        ends = sum(sum(row.states.values()) for row in rows)
        return sum(row.runs for row in rows), sum(row.retries for row in rows), sum(row.seconds for row in rows), ends

    rows = list(found.groups)
    assert sums(rows) == pytest.approx(sums([found.total]))
    kinds = [row.kind for row in rows]
    groups = kinds.count(GroupKind.GROUP)
    assert groups == min(top, len({run.key for run in runs} - {None}))
    assert kinds[groups:] in ([], [GroupKind.NONE], [GroupKind.REST], [GroupKind.NONE, GroupKind.REST])
    assert math.isclose(found.total.runs, len(runs))


def test_hours_stand_in_their_order_and_none_is_left_out() -> None:
    """As numbers, not as texts."""
    runs = [
        MeasuredRun(key=str(hour), state=RunState.SUCCESS, due_at=hour, retries=0, seconds=None, lateness=None)
        for hour in (36_000, 3_600, 7_200)
    ]
    found = analysed(runs, group_by=GroupBy.HOUR, sort=GroupSort.RUNS, top=1)
    assert [row.key for row in found.groups] == ["3600", "7200", "36000"]
