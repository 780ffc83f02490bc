"""What a timer comes to after years in which nobody looked: the pure function that a scheduler calls for each of them.

No server and no roles: one core. The value is the median of the slower schedule, in milliseconds, caches of zones
included; what a process pays once for each zone, and mode by mode, stands beside it.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

from bench.harness import Case, Failed, Rig, Round
from tickwise.domain import zones
from tickwise.domain.decision import TimerState, decide
from tickwise.domain.schedule import Misfire, MisfireMode, Schedule, ScheduleType, first_fire

NOW = 1_795_000_000.0
YEAR = 365.25 * 86_400
AHEAD_SECONDS = 3.0
CALLS = 200
COLD_CALLS = 20

CRON = "a second's cron line in New York"
INTERVAL = "a second's interval"


def schedule(kind: str, mode: MisfireMode) -> Schedule:
    """One that fires each second."""
    misfire = Misfire(mode=mode)
    if kind == INTERVAL:
        return Schedule(ScheduleType.INTERVAL, interval_seconds=1.0, anchor=0.0, misfire=misfire, seed=b"bench")
    return Schedule(
        ScheduleType.CRON,
        cron_expression="* * * * * *",
        timezone="America/New_York",
        misfire=misfire,
        seed=b"bench",
    )


def measured(kind: str, mode: MisfireMode, away_seconds: float, *, cold: bool = False) -> float:
    """Median milliseconds of a decision after so long a downtime."""
    taken = []
    for _ in range(COLD_CALLS if cold else CALLS):
        if cold:
            zones.forget()
        looked = schedule(kind, mode)
        due = first_fire(looked, NOW - away_seconds) or 0.0
        begin = perf_counter_ns()
        decision = decide(looked, TimerState(due), now=NOW, until=NOW + AHEAD_SECONDS)
        taken.append((perf_counter_ns() - begin) / 1e6)
        if decision.next is None or decision.next.due <= NOW + AHEAD_SECONDS:
            raise Failed(f"the next time of {kind} is {decision.next}, and must be after the horizon")
    return round(median(taken), 3)


async def product(_: Rig) -> Round:
    """Ten years, by each misfire rule; the slowest is the value."""
    more = {f"{name} ({mode})": measured(name, mode, 10 * YEAR) for name in (CRON, INTERVAL) for mode in MisfireMode}
    return Round(
        max(more.values()), {**more, "with zones read anew": measured(CRON, MisfireMode.ALL, 10 * YEAR, cold=True)}
    )


async def an_hour(_: Rig) -> Round:
    """The limit: the same after an hour."""
    return Round(max(measured(name, mode, 3600.0) for name in (CRON, INTERVAL) for mode in MisfireMode))


CASE = Case("DOWN", "ms a decision", 10.0, False, product, an_hour, "the same after an hour, not ten years")
