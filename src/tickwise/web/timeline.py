"""A time line as values: one axis with what ran and what will run, for a template that draws it. Pure functions.

runs ─────────┐                      ┌─► bars       starts in each stretch of the axis, by what became of them
planned ──────┼──► Mark, by its time ┼─► load       runs at once, beside the slots that there are
tallies ──────┘                      ├─► lanes      a row for each job
                                     └─► crowds     moments at which many start
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.schedules.plans import PlannedStart
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.control.schedules.stored_rules import CoveredStretch
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import run_id
from tickwise.ports.store import RunRow, Tally

WIDTH: Final = 1_000.0
HEIGHT: Final = 100.0
LANES: Final = 16
LANE_COLUMNS: Final = 120
"""Marks of a lane that would lie on each other are one."""
CROWD_LEAST: Final = 5
"""The number of starts in one second that is marked; fewer if there are fewer slots, …"""
CROWD_FEWEST: Final = 3
"""… but not fewer than this."""
CROWDS: Final = 60
"""Moments that are marked."""
NARROWEST: Final = 1.5
BAR_GAP: Final = 0.14
"""The share of a bar's place that stays free."""
PLANNED: Final = "planned"
SKIP_AHEAD: Final = "will-skip"
GOES_ON: Final = "goes-on"
KINDS: Final = ("success", "failed", "cancelled", "skipped", GOES_ON, PLANNED, SKIP_AHEAD)
"""The kinds of marks, from the bottom of a bar to its top."""
_GRAVITY: Final = ("failed", GOES_ON, "cancelled", "success", PLANNED, "skipped", SKIP_AHEAD)
"""Of marks that lie on each other, the first is shown."""
DETAILED: Final = 350
"""Up to so many marks in all rows are drawn each by itself; of more, these alone: …"""
_ALONE: Final = frozenset({"failed", GOES_ON})
ALONE_MAX: Final = 40
"""… and at most so many in a row."""
_PLACES: Final = {"failed": (1, 18), GOES_ON: (1, 18), "skipped": (11, 6), SKIP_AHEAD: (11, 6), "cancelled": (11, 6)}
"""The top and height of a mark in a row of 20."""


class Scale(NamedTuple):
    """A length of the axis, in seconds."""

    name: str
    span: float
    bucket: float
    """Of a bar."""
    step: float
    """Of the load."""
    tick: float


SCALES: Final = {
    each.name: each
    for each in (
        Scale("hour", 3_600.0, 60.0, 30.0, 600.0),
        Scale("day", 86_400.0, 3_600.0, 600.0, 10_800.0),
        Scale("week", 7 * 86_400.0, 7_200.0, 3_600.0, 86_400.0),
    )
}


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis: from `start` to before `end`."""

    scale: Scale
    start: float

    @classmethod
    def around(cls, scale: Scale, middle: float) -> Axis:
        """The axis with this moment near its middle, from a whole tick on."""
        return cls(scale, max(0.0, math.floor((middle - scale.span / 2) / scale.tick) * scale.tick + scale.tick))

    @property
    def end(self) -> float:
        """The first moment after it."""
        return self.start + self.scale.span

    def x(self, instant: float) -> float:
        """A place from 0 to `WIDTH`; a moment beyond an end is at that end."""
        return round(min(max(WIDTH * (instant - self.start) / self.scale.span, 0.0), WIDTH), 2)

    def ticks(self) -> list[float]:
        """Moments at equal distances, both ends included."""
        count = round(self.scale.span / self.scale.tick)
        return [self.start + place * self.scale.tick for place in range(count + 1)]


class Mark(NamedTuple):
    """A run, or a start to come."""

    at: float
    """It began, or is due."""
    due: float
    end: float
    """Of one to come: by what such runs took. Equal to `at`: not known, or it does not run."""
    kind: str
    job_id: UUID
    run_id: UUID | None = None
    note: str | None = None


def marks_of(runs: Iterable[RunRow], planned: Iterable[PlannedStart], now: float) -> list[Mark]:
    """Runs and starts to come as marks. A start whose run is on record already is no start to come."""
    rows = list(runs)
    names = {run.run_id for run in rows}
    lengths = typical_seconds(rows)
    overall = median(lengths.values()) if lengths else 0.0
    marks = [_of_run(run, now) for run in rows]
    for start in planned:
        if run_id(start.job_id, start.nominal) in names:
            continue
        skips = start.fate is OccurrenceFate.SKIP
        length = 0.0 if skips else lengths.get(start.job_id, overall)
        kind = SKIP_AHEAD if skips else PLANNED
        marks.append(Mark(start.due, start.due, start.due + length, kind, start.job_id, None, start.note))
    return marks


def _of_run(run: RunRow, now: float) -> Mark:
    if run.state in FINAL:
        kind = run.state.value.lower()
        if run.state is RunState.SKIPPED and run.nominal_at > now:
            kind = SKIP_AHEAD
    else:
        kind = GOES_ON if run.started_at is not None or run.due_at <= now else PLANNED
    at = run.due_at if run.started_at is None else run.started_at
    end = at
    if run.started_at is not None:
        end = max(at, now if run.ended_at is None else run.ended_at)
    return Mark(at, run.due_at, end, kind, run.job_id, run.run_id, run.reason)


def typical_seconds(runs: Iterable[RunRow]) -> dict[UUID, float]:
    """The median time that the runs of each job take; nothing of jobs that have not run."""
    found: dict[UUID, list[float]] = defaultdict(list)
    for run in runs:
        if run.started_at is not None and run.ended_at is not None and run.state is not RunState.SKIPPED:
            found[run.job_id].append(max(0.0, run.ended_at - run.started_at))
    return {job_id: median(seconds) for job_id, seconds in found.items()}


class Part(NamedTuple):
    """A part of a bar."""

    kind: str
    y: float
    height: float


class TimeBar(NamedTuple):
    """The starts in a stretch of the axis."""

    begin: float
    end: float
    x: float
    width: float
    counts: Mapping[str, int]
    parts: Sequence[Part]
    counted: bool
    """Its past is from the counts of each hour, by the ends of runs: the runs themselves were not read."""


def bars(axis: Axis, marks: Iterable[Mark], tallies: Iterable[Tally], known_from: float) -> list[TimeBar]:
    """The bars of an axis, the highest as high as the chart. Before `known_from` they are made of `tallies`."""
    size = axis.scale.bucket
    number = round(axis.scale.span / size)
    counts: list[Counter[str]] = [Counter() for _ in range(number)]
    first_known = math.ceil((known_from - axis.start) / size)
    for mark in marks:
        place = math.floor((mark.at - axis.start) / size)
        if max(0, first_known) <= place < number:
            counts[place][mark.kind] += 1
    for tally in tallies:
        place = math.floor((tally.hour - axis.start) / size)
        if 0 <= place < min(first_known, number):
            counts[place][tally.state.value.lower()] += tally.runs
    most = max((sum(each.values()) for each in counts), default=0) or 1
    return [
        TimeBar(
            axis.start + place * size,
            axis.start + (place + 1) * size,
            round(WIDTH * (place + BAR_GAP / 2) / number, 2),
            round(WIDTH * (1 - BAR_GAP) / number, 2),
            {kind: found[kind] for kind in KINDS if found[kind]},
            _stacked(found, most),
            place < first_known,
        )
        for place, found in enumerate(counts)
    ]


def _stacked(counts: Mapping[str, int], most: int) -> list[Part]:
    parts, top = [], HEIGHT
    for kind in KINDS:
        if counts.get(kind):
            height = max(HEIGHT * counts[kind] / most, 1.0)
            top -= height
            parts.append(Part(kind, round(max(top, 0.0), 2), round(height, 2)))
    return parts


class Load(NamedTuple):
    """The runs at once along the axis."""

    past: str
    """The points of a polygon; empty: nothing went on."""
    ahead: str
    most: int
    most_at: float | None
    slots_y: float | None
    """The height of the line of slots; None: it is not known, or far above what is drawn."""
    steps: Sequence[int]
    """The most at once in each step."""


def load(axis: Axis, marks: Iterable[Mark], now: float, slots: int | None) -> Load:
    """The most runs at once in each step of the axis: a run that goes on from one moment to another counts in all the
    steps between. The top of the chart is the greater of load and slots, but for slots that dwarf the load."""
    number = round(axis.scale.span / axis.scale.step)
    highest = _highest(axis, marks, number)
    most = max(highest, default=0)
    shows_slots = slots is not None and 0 < slots <= max(4 * most, 4)
    top = max(most, slots if shows_slots and slots is not None else 0, 1) * 1.08
    turn = min(max(math.ceil((now - axis.start) / axis.scale.step), 0), number)
    return Load(
        past=_outline(axis, highest[:turn], 0, top),
        ahead=_outline(axis, highest[turn:], turn, top),
        most=most,
        most_at=axis.start + highest.index(most) * axis.scale.step if most else None,
        slots_y=round(HEIGHT * (1 - slots / top), 2) if shows_slots and slots is not None else None,
        steps=highest,
    )


def _highest(axis: Axis, marks: Iterable[Mark], number: int) -> list[int]:
    """The most at once in each step."""
    changes: list[tuple[float, int]] = []
    for mark in marks:
        if mark.end > mark.at and mark.end > axis.start and mark.at < axis.end:
            changes += [(max(mark.at, axis.start), 1), (min(mark.end, axis.end), -1)]
    # At one moment ends come first: a run that begins when another one ends is not beside it.
    changes.sort()
    highest, going_on, step = [0] * number, 0, 0
    for at, change in changes:
        # An end at the border of two steps is in the first of them.
        exact = (at - axis.start) / axis.scale.step
        place = min(math.floor(exact) if change > 0 else max(math.ceil(exact) - 1, 0), number - 1)
        while step < place:
            step += 1
            highest[step] = going_on
        going_on += change
        highest[step] = max(highest[step], going_on)
    return highest


def _outline(axis: Axis, steps: Sequence[int], first: int, top: float) -> str:
    """The points of a polygon over these steps; empty if it has no height."""
    if not any(steps):
        return ""
    width = WIDTH * axis.scale.step / axis.scale.span
    points = [(first * width, HEIGHT)]
    for place, height in enumerate(steps):
        y = HEIGHT * (1 - height / top)
        points += [((first + place) * width, y), ((first + place + 1) * width, y)]
    points.append(((first + len(steps)) * width, HEIGHT))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


class LaneMark(NamedTuple):
    """A mark of a lane: the place and height of its kind tell it apart where colours do not."""

    kind: str
    x: float
    y: int
    width: float
    height: int
    runs: int
    """Marks that lie on each other are one."""
    at: float
    run_id: UUID | None
    note: str | None


class JobLane(NamedTuple):
    """The row of a job."""

    job_id: UUID
    marks: Sequence[LaneMark]
    """Those that are drawn each by itself, with what it is and a way to its run."""
    paths: Mapping[str, str]
    """All others, by their kind: the data of one path each."""
    counts: Mapping[str, int]


def lanes(axis: Axis, marks: Iterable[Mark]) -> tuple[list[JobLane], int]:
    """The rows of the jobs with the most failures, then the most starts; and the number of jobs without a row."""
    by_job: dict[UUID, list[Mark]] = defaultdict(list)
    for mark in marks:
        if axis.start <= mark.at < axis.end or axis.start < mark.end <= axis.end:
            by_job[mark.job_id].append(mark)
    counted = {job_id: Counter(each.kind for each in found) for job_id, found in by_job.items()}
    order = sorted(counted, key=lambda job_id: (-counted[job_id]["failed"], -counted[job_id].total(), job_id))
    drawn = {job_id: _lane_marks(axis, by_job[job_id]) for job_id in order[:LANES]}
    is_detailed = sum(map(len, drawn.values())) <= DETAILED
    rows = []
    for job_id, found in drawn.items():
        alone = [mark for mark in found if is_detailed or mark.kind in _ALONE][:ALONE_MAX]
        apart = set(map(id, alone))
        rows.append(JobLane(job_id, alone, _paths(mark for mark in found if id(mark) not in apart), counted[job_id]))
    return rows, max(0, len(order) - LANES)


def _paths(marks: Iterable[LaneMark]) -> dict[str, str]:
    """The rectangles of each kind as the data of a path: a hundredth of the page that they would be one by one."""
    found: dict[str, list[str]] = defaultdict(list)
    for mark in marks:
        found[mark.kind].append(f"M{mark.x:g} {mark.y}h{mark.width:g}v{mark.height}h-{mark.width:g}z")
    return {kind: "".join(parts) for kind, parts in found.items()}


def _lane_marks(axis: Axis, marks: Iterable[Mark]) -> list[LaneMark]:
    columns: dict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        columns[math.floor(LANE_COLUMNS * axis.x(mark.at) / WIDTH)].append(mark)
    found = []
    for _, together in sorted(columns.items()):
        shown = min(together, key=lambda each: _GRAVITY.index(each.kind))
        begin = axis.x(min(each.at for each in together))
        width = max(axis.x(max(each.end for each in together)) - begin, NARROWEST)
        begin = min(begin, WIDTH - width)
        y, height = _PLACES.get(shown.kind, (5, 11))
        found.append(
            LaneMark(
                shown.kind,
                round(begin, 1),
                y,
                round(width, 1),
                height,
                len(together),
                shown.at,
                shown.run_id,
                shown.note,
            )
        )
    return found


class Crowd(NamedTuple):
    """Many starts at one moment."""

    at: float
    x: float
    starts: int
    jobs: Sequence[UUID]
    """Those with the most starts first."""
    ahead: bool


def crowds(axis: Axis, marks: Iterable[Mark], now: float, slots: int | None) -> tuple[list[Crowd], int, int]:
    """The seconds in which many are due: those to come first, for they can be changed, then the most; how many such
    seconds there are; and from how many starts on a second is one. What was skipped, or will be, does not start."""
    least = CROWD_LEAST if not slots else max(CROWD_FEWEST, min(CROWD_LEAST, slots + 1))
    seconds: dict[int, Counter[UUID]] = defaultdict(Counter)
    for mark in marks:
        if mark.kind not in ("skipped", SKIP_AHEAD) and axis.start <= mark.due < axis.end:
            seconds[math.floor(mark.due)][mark.job_id] += 1
    found = [
        Crowd(float(second), axis.x(second), jobs.total(), [job for job, _ in jobs.most_common(4)], second > now)
        for second, jobs in seconds.items()
        if jobs.total() >= least
    ]
    found.sort(key=lambda each: (not each.ahead, -each.starts, each.at))
    return found[:CROWDS], len(found), least


class Band(NamedTuple):
    """A stretch of an axis."""

    x: float
    width: float
    begin: float
    end: float | None
    what: str


def bands(axis: Axis, stretches: Iterable[CoveredStretch]) -> list[Band]:
    """Covered times on an axis."""
    found = []
    for each in stretches:
        begin = axis.x(each.begin)
        width = axis.x(axis.end if each.end is None else each.end) - begin
        if width > 0:
            found.append(Band(begin, max(round(width, 2), NARROWEST), each.begin, each.end, each.what))
    return found


def load_of(axis: Axis, found: Load, bar: TimeBar) -> int:
    """The most runs at once within a bar."""
    share = axis.scale.step
    first, last = (math.floor((at - axis.start) / share) for at in (bar.begin, bar.end))
    return max(found.steps[first : max(last, first + 1)], default=0)


def total(counts: Iterable[Mapping[str, int]], kinds: Sequence[str] = KINDS) -> int:
    """The number of marks of these kinds."""
    return [*accumulate((sum(each.get(kind, 0) for kind in kinds) for each in counts), initial=0)][-1]
