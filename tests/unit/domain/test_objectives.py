"""Objectives for starts: budgets, burn rates, and when a budget burns too fast."""

from __future__ import annotations

import pytest

from tickwise.domain.observing.objectives import (
    HOUR,
    MINUTE,
    WINDOW_SECONDS,
    ObjectiveState,
    StartCount,
    StartObjective,
    standing_of,
)

OBJECTIVE = StartObjective(within_seconds=30.0, ratio=0.99)
NONE = StartCount(0, 0)


def counts(**found: StartCount) -> dict[float, StartCount]:
    """By window; nothing was due in the others."""
    windows = {"month": WINDOW_SECONDS, "six": 6 * HOUR, "one": HOUR, "half": 30 * MINUTE, "five": 5 * MINUTE}
    return {seconds: found.get(name, NONE) for name, seconds in windows.items()}


@pytest.mark.parametrize(
    ("count", "left", "state"),
    [
        (StartCount(0, 0), 1.0, ObjectiveState.UNKNOWN),
        (StartCount(1000, 0), 1.0, ObjectiveState.MET),
        (StartCount(995, 5), 0.5, ObjectiveState.MET),
        (StartCount(990, 10), 0.0, ObjectiveState.EXHAUSTED),
        (StartCount(980, 20), -1.0, ObjectiveState.EXHAUSTED),
    ],
)
def test_a_budget_is_used_by_late_runs(count: StartCount, left: float, state: ObjectiveState) -> None:
    """One percent of the runs may be late; twice as many use it up twice."""
    standing = standing_of(OBJECTIVE, counts(month=count))
    assert standing.budget_left == pytest.approx(left)
    assert standing.state is state


@pytest.mark.parametrize(
    ("found", "burns"),
    [
        # 15 % late is 15 times the allowed share.
        (counts(one=StartCount(85, 15), five=StartCount(85, 15)), True),
        (counts(one=StartCount(86, 14), five=StartCount(0, 5)), False),
        (counts(one=StartCount(85, 15), five=StartCount(10, 0)), False),
        (counts(six=StartCount(94, 6), half=StartCount(94, 6)), True),
        (counts(six=StartCount(95, 5), half=StartCount(0, 5)), False),
        (counts(six=StartCount(94, 6), half=StartCount(10, 0)), False),
        (counts(six=StartCount(0, 1), one=StartCount(0, 1), half=StartCount(0, 1), five=StartCount(0, 1)), False),
        (counts(six=StartCount(0, 2), one=StartCount(0, 2), half=StartCount(0, 2), five=StartCount(0, 1)), True),
    ],
)
def test_a_budget_burns_too_fast_where_both_windows_say_so(found: dict[float, StartCount], burns: bool) -> None:
    """The long one that it matters, the short one that it goes on; one late run of a rare job is no burn."""
    assert (standing_of(OBJECTIVE, found).state is ObjectiveState.BURNING) is burns


def test_burn_rates_are_told_by_window() -> None:
    """1 uses up the budget in just the window of the budget."""
    burn = standing_of(OBJECTIVE, counts(six=StartCount(99, 1), one=StartCount(9, 1))).burn
    assert burn == pytest.approx({6 * HOUR: 1.0, HOUR: 10.0, 30 * MINUTE: 0.0, 5 * MINUTE: 0.0})
