"""Intervals of time: which windows are met by which points, and how many spans lie over one instant.

A window is met by one point within it, and a point meets one window. Windows and points form a convex bipartite graph,
so giving each point, in order of time, the open window that closes first meets as many windows as any choice can
(Glover, 1967). No solver, no search: O(n log n).

Invariant: `matched` never meets fewer windows than the best assignment does; a test compares it with a search of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class Matching(NamedTuple):
    """The pairs of windows and points, by their positions in the input."""

    missed: list[int]
    """Windows that no point met."""
    extra: list[int]
    """Points that met no window."""
    pairs: list[tuple[int, int]]
    """(window, point)."""


def matched(windows: Sequence[tuple[float, float]], points: Sequence[float]) -> Matching:
    """Meet as many windows (earliest, latest; both ends belong to it) as possible, each with a point of its own."""
    opening = sorted(range(len(windows)), key=lambda number: windows[number])
    missed: list[int] = []
    extra: list[int] = []
    pairs: list[tuple[int, int]] = []
    open_now: list[tuple[float, int]] = []
    opened = 0
    for point in sorted(range(len(points)), key=points.__getitem__):
        at = points[point]
        while opened < len(opening) and windows[opening[opened]][0] <= at:
            window = opening[opened]
            heapq.heappush(open_now, (windows[window][1], window))
            opened += 1
        while open_now and open_now[0][0] < at:
            missed.append(heapq.heappop(open_now)[1])
        if open_now:
            pairs.append((heapq.heappop(open_now)[1], point))
        else:
            extra.append(point)
    missed += [window for _, window in open_now]
    missed += opening[opened:]
    return Matching(missed, extra, pairs)


def most_at_once(spans: Sequence[tuple[float, float]]) -> tuple[int, float]:
    """The greatest number of spans [begin, end) over one instant, and the first such instant; (0, 0.0): there is none.

    A span that ends when another begins is not over that instant; one without a length is over none.
    """
    edges: list[tuple[float, int]] = []
    for begin, end in spans:
        if end > begin:
            edges += ((begin, 1), (end, -1))
    # At one instant the ends come first.
    edges.sort()
    most, when, now = 0, 0.0, 0
    for at, step in edges:
        now += step
        if now > most:
            most, when = now, at
    return most, when
