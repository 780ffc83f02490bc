"""Charts as values: positions that a template draws as SVG. Pure functions, no markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import AttemptRow, RunRow, Tally

HOUR: Final = 3_600.0
DRAWN: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
"""From the bottom of a bar to its top."""
WIDTH: Final = 1_000.0
BAR_LEAST: Final = 2.0


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


class Span(NamedTuple):
    """A bar of a waterfall, in thousandths of its width."""

    name: str
    kind: str
    """`wait`, `held`, `run`."""
    begin: float
    end: float
    x: float
    width: float
    attempt: int | None
    state: RunState | None


def waterfall(run: RunRow, attempts: Sequence[AttemptRow], now: float) -> list[Span]:
    """The stages of a run on one axis: what it waited for, and each attempt from its dispatch to its end."""
    stages: list[tuple[str, str, float, float, int | None, RunState | None]] = []
    ready = max(run.due_at, run.queued_at)
    at = ready
    for attempt in attempts:
        taken = attempt.dispatched_at or attempt.started_at
        if taken is None:
            continue
        first = attempt.started_at or attempt.ended_at or now
        begin = max(at, min(taken, first))
        if begin > at:
            name = "waited for an executor" if attempt.attempt == 1 else "waited for its next attempt"
            stages.append((name, "wait", at, begin, None, None))
        if first > begin:
            stages.append(("held by its executor", "held", begin, first, attempt.attempt, None))
        at = first
        if attempt.started_at is not None:
            end = attempt.ended_at or now
            stages.append(
                (f"attempt {attempt.attempt}", "run", attempt.started_at, end, attempt.attempt, attempt.state)
            )
            at = end
    if run.ended_at is None and not any(attempt.ended_at is None for attempt in attempts) and now > at:
        stages.append(("waits", "wait", at, now, None, None))
    if not stages:
        return []
    begin, end = min(each[2] for each in stages), max(each[3] for each in stages)
    whole = max(end - begin, 1e-6)
    return [
        Span(name, kind, first, last, *_placed(first - begin, last - first, whole), attempt, state)
        for name, kind, first, last, attempt, state in stages
    ]


def _placed(offset: float, length: float, whole: float) -> tuple[float, float]:
    width = max(WIDTH * length / whole, BAR_LEAST)
    return round(min(WIDTH * offset / whole, WIDTH - width), 2), round(width, 2)


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
