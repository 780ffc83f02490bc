"""Charts as values: positions that a template draws as SVG. Pure functions, no markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunRow, Tally

HOUR: Final = 3_600.0
DRAWN: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
"""From the bottom of a bar to its top."""
WIDTH: Final = 1_000.0


class Slice(NamedTuple):
    """A part of a bar."""

    state: RunState
    y: float
    height: float


class Bar(NamedTuple):
    """One hour."""

    hour: float
    counts: Mapping[RunState, int]
    slices: Sequence[Slice]


def hours(tallies: Sequence[Tally], until: float, count: int = 24, height: float = 100.0) -> list[Bar]:
    """Bars of the last hours, the oldest first; the highest reaches `height`."""
    last = until // HOUR * HOUR
    by_hour: dict[float, dict[RunState, int]] = {last - HOUR * back: {} for back in reversed(range(count))}
    for tally in tallies:
        if tally.hour in by_hour:
            by_hour[tally.hour][tally.state] = by_hour[tally.hour].get(tally.state, 0) + tally.runs
    most = max((sum(counts.values()) for counts in by_hour.values()), default=0) or 1
    bars = []
    for hour, counts in by_hour.items():
        slices, top = [], height
        for state in DRAWN:
            size = height * counts.get(state, 0) / most
            if size:
                size = max(size, 1.0)
                top -= size
                slices.append(Slice(state, round(top, 2), round(size, 2)))
        bars.append(Bar(hour, counts, slices))
    return bars


class Dot(NamedTuple):
    """One run on a chart."""

    run: RunRow
    value: float
    x: float
    y: float
    height: float


def columns(runs: Sequence[RunRow], values: Sequence[float | None], height: float = 100.0) -> list[Dot]:
    """A column for each run that has a value, the oldest on the left; the highest reaches `height`. Widths are of a
    chart of `len(runs)` units."""
    pairs = list(zip(reversed(runs), reversed(values), strict=True))
    most = max((value for _, value in pairs if value is not None), default=0.0) or 1.0
    return [
        Dot(run, value, float(place), round(height - size, 2), round(size, 2))
        for place, (run, value) in enumerate(pairs)
        if value is not None
        for size in [max(height * value / most, 1.5)]
    ]


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that this share of them does not exceed; None of none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else None
