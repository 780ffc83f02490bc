"""A cron line at a clock change: which passes count, when skipped times fire, and the notes about it.

        before   02:00 ─┐ the clock skips, or repeats
                        │
        after           └─ 03:00   a gap of an hour: 02:00 to 02:59 are never shown
                        └─ 01:00   an overlap: 01:00 to 01:59 are shown a second time

Two rules answer it. `GapRule` says when skipped times fire: all at once right after the change, never, or each at the
real moment at which an unchanged clock would have shown it. `RepeatRule` says at which of two passes a repeated time
fires. Where two times come to the same instant it is one fire.

Invariant: all functions here look at one stretch alone. That is enough, because no zone has changed its clock twice
within the reach of one change (`zones.CHANGE_REACH_SECONDS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tickwise.domain.cron.wall_times import WallTimes
from tickwise.domain.zones import DAY_SECONDS, GapRule, RepeatRule, Stretch


@dataclass(frozen=True, slots=True)
class GapSkip:
    """Times of a line that a change of the clock left out. Wall times are in seconds."""

    instant: int
    """The change, in Unix seconds. Another time of the line may fire right then."""
    count: int
    first_wall: int
    last_wall: int
    """The first and the last of them."""
    clock_from: int
    clock_to: int
    """The wall time that the clock would have shown at the change, and the one that it showed."""

    @property
    def nominal(self) -> float:
        """A time that names these and no fire: half a second before the change, for fires are at whole seconds."""
        return self.instant - 0.5

    def sentence(self) -> str:
        """The sentence for people, such as "02:30 does not exist on this day: the clock goes from 02:00 to 03:00;
        skipped"."""
        return f"{self.problem()}; skipped"

    def problem(self) -> str:
        """The problem without its consequence."""
        before, after, count = self.clock_from, self.clock_to, self.count
        dated = before // DAY_SECONDS != after // DAY_SECONDS
        times = _clock(self.first_wall, dated=dated)
        if count > 1:
            times = f"{count} times from {times} to {_clock(self.last_wall, dated=dated)}"
        verb = "does" if count == 1 else "do"
        day = "" if dated else " on this day"
        clock = f"the clock goes from {_clock(before, dated=dated)} to {_clock(after, dated=dated)}"
        return f"{times} {verb} not exist{day}: {clock}"


def passes(stretch: Stretch, rule: RepeatRule) -> tuple[int, int]:
    """The wall times, from the first to before the second, that fire while this stretch shows them."""
    begin, end = stretch.begin + stretch.offset, stretch.end + stretch.offset
    if rule is RepeatRule.FIRST and stretch.before > stretch.offset:
        begin = stretch.begin + stretch.before
    if rule is RepeatRule.SECOND and stretch.after < stretch.offset:
        end = stretch.end + stretch.after
    return begin, end


def moved_at_or_after(walls: WallTimes, stretch: Stretch, rule: GapRule, instant: int) -> int | None:
    """The first instant, from `instant` on, at which a time fires that was skipped at the begin of the stretch."""
    if rule is GapRule.SKIP or (rule is GapRule.RUN_AFTER and instant > stretch.begin):
        return None
    wall = walls.wall_at_or_after(max(instant, stretch.begin) + stretch.before)
    if wall is None or wall >= stretch.begin + stretch.offset:
        return None
    return stretch.begin if rule is GapRule.RUN_AFTER else wall - stretch.before


def moved_at_or_before(walls: WallTimes, stretch: Stretch, rule: GapRule, instant: int) -> int | None:
    """The last instant, up to `instant` (of the stretch), at which a time fires that was skipped at its begin."""
    if rule is GapRule.SKIP:
        return None
    last = stretch.begin + stretch.offset - 1
    wall = walls.wall_at_or_before(last if rule is GapRule.RUN_AFTER else min(instant + stretch.before, last))
    if wall is None or wall < stretch.begin + stretch.before:
        return None
    return stretch.begin if rule is GapRule.RUN_AFTER else wall - stretch.before


def count_moved(walls: WallTimes, stretch: Stretch, rule: GapRule, begin: int, end: int) -> int:
    """The number of instants from `begin` to before `end` (of the stretch) that fire for skipped times alone; those at
    which the line fires anyway are not counted."""
    if moved_at_or_after(walls, stretch, rule, begin) is None:
        return 0
    if rule is GapRule.RUN_AFTER:
        shown = stretch.begin + stretch.offset
        return int(walls.wall_at_or_after(shown) != shown)
    end = min(end, stretch.begin + stretch.offset - stretch.before)
    skipped = walls.bits(begin + stretch.before, end + stretch.before)
    return (skipped & ~walls.bits(begin + stretch.offset, end + stretch.offset)).bit_count()


def skipped_at(walls: WallTimes, stretch: Stretch, *, keeps_spacing: bool) -> GapSkip | None:
    """The times that are left out at the begin of a stretch if skipped times do not fire; None: none.

    `keeps_spacing`: the line is about real time, so nothing is left out if it fires again within as much time as the
    clock skipped: `*/5 * * * *` goes on every five minutes, but `0 */2 * * *` has no fire for its 02:00.
    """
    begin, end = stretch.begin + stretch.before, stretch.begin + stretch.offset
    count = walls.count_walls(begin, end)
    if not count or (keeps_spacing and walls.count_walls(end, end + end - begin)):
        return None
    first, last = walls.wall_at_or_after(begin), walls.wall_at_or_before(end - 1)
    if first is None or last is None:
        return None
    return GapSkip(stretch.begin, count, first, last, clock_from=begin, clock_to=end)


# ------------------------------------------------------------------------------------------------------- in words


def note(walls: WallTimes, stretch: Stretch, gap: GapRule, overlap: RepeatRule, instant: int) -> str | None:
    """The note about a fire at `instant` (of the stretch) that a clock change affects; None: no note."""
    if stretch.offset > stretch.before:
        text = _note_of_gap(walls, stretch, gap, instant)
        if text is not None:
            return text
    wall = instant + stretch.offset
    if stretch.offset < stretch.before and wall < stretch.begin + stretch.before:
        return _of_two("second", wall, stretch.begin, (stretch.before, stretch.offset), overlap)
    if stretch.after < stretch.offset and wall >= stretch.end + stretch.after:
        return _of_two("first", wall, stretch.end, (stretch.offset, stretch.after), overlap)
    return None


def _note_of_gap(walls: WallTimes, stretch: Stretch, rule: GapRule, instant: int) -> str | None:
    if moved_at_or_after(walls, stretch, rule, instant) != instant:
        return None
    shown = instant + stretch.offset
    itself = walls.wall_at_or_after(shown) == shown
    if rule is GapRule.SHIFT:
        wall, begin = instant + stretch.before, stretch.begin
        one = GapSkip(begin, 1, wall, wall, clock_from=begin + stretch.before, clock_to=begin + stretch.offset)
        end = "it becomes one with this run" if itself else f"runs at {_clock(shown)} instead"
        return f"{one.problem()}; {end}"
    skipped = skipped_at(walls, stretch, keeps_spacing=False)
    if skipped is None:
        return None
    if skipped.count == 1:
        end = "it becomes one with this run" if itself else "runs right after"
    else:
        end = "they become one with this run" if itself else "they become this run"
    return f"{skipped.problem()}; {end}"


_PASSES_THAT_RUN: Final = {
    RepeatRule.FIRST: "only the first runs",
    RepeatRule.SECOND: "only the second runs",
    RepeatRule.BOTH: "both run",
}


def _of_two(which: str, wall: int, change: int, offsets: tuple[int, int], rule: RepeatRule) -> str:
    """A sentence such as "first of two 01:30: the clock goes from 02:00 back to 01:00; only the first runs"."""
    before, after = change + offsets[0], change + offsets[1]
    dated = before // DAY_SECONDS != after // DAY_SECONDS
    clock = f"the clock goes from {_clock(before, dated=dated)} back to {_clock(after, dated=dated)}"
    return f"{which} of two {_clock(wall)}: {clock}; {_PASSES_THAT_RUN[rule]}"


_EPOCH_WALL: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # a wall time has no zone


def _clock(wall: int, *, dated: bool = False) -> str:
    shown = _EPOCH_WALL + timedelta(seconds=wall)
    time = f"{shown:%H:%M:%S}" if shown.second else f"{shown:%H:%M}"
    return f"{shown:%Y-%m-%d} {time}" if dated else time
