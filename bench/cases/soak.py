"""S1: half of what is possible, for half an hour: does anything grow, or slow down.

The rate is half of what the same stream reached at full speed a moment before. Every few seconds: rows that wait for a
vacuum, and the memory of each process. From each series the change that is sure: the slope of least squares, by the
bound of its 95 % confidence interval that is nearer to flat, over the time measured, as a share of the mean.
FULL=1 takes half an hour; SECONDS=n takes n seconds, which shows that it works and little else.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from bench.figures import slope, sure_drift
from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.stream import Stream, flowing
from bench.usage import family, own_megabytes, resident_megabytes, server_pid

CALIBRATION_SECONDS = 15.0
SETTLING_SHARE = 0.1
"""Of the time: caches fill, pools are made. Before the window that is judged."""
MAX_SAMPLES = 360
SAMPLES_OF_RATE = 60
SECONDS_LEAST = 10.0

Point = tuple[float, float]


def _seconds(rig: Rig) -> float:
    """How long. Raises Failed for what is no number, or too short for a slope."""
    said = os.environ.get("SECONDS") or ("1800" if rig.full else "60")
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not SECONDS_LEAST <= seconds < float("inf"):
        raise Failed(f"SECONDS is {said!r}, and must be a number of seconds, at least {SECONDS_LEAST:.0f}")
    return seconds


async def full_speed(rig: Rig) -> Round:
    """T2 for a short while: what the soak takes half of."""
    async with flowing(rig) as stream:
        before, begin = await stream.ended()
        await rig.clock.sleep(CALIBRATION_SECONDS)
        after, end = await stream.ended()
        await stream.finish()
    return Round((after - before) / (end - begin))


async def soak(rig: Rig) -> Round:
    """The value is what ended durably a second."""
    seconds = _seconds(rig)
    offered = (await full_speed(rig)).value / 2
    async with flowing(rig, rate=offered, warm_seconds=max(5.0, seconds * SETTLING_SHARE)) as stream:
        used = await stream.usage()
        before, begin = await stream.ended()
        series = await _watch(stream, seconds)
        after, end = await stream.ended()
        spent = await stream.usage()
        await stream.finish()
        window = max(1.0, seconds / SAMPLES_OF_RATE)
        rates = await stream.rates(begin, begin + seconds, window)
    series["jobs/s"] = [(number * window, rate) for number, rate in enumerate(rates)]
    drifts = {name: sure_drift(points) for name, points in series.items()}
    memory = [drift for name, drift in drifts.items() if name.endswith("MB")]
    return Round(
        (after - before) / (end - begin),
        {
            "seconds": seconds,
            "offered": round(offered),
            "share_of_offered": round((after - before) / (end - begin) / offered, 4),
            "rate_drift": round(drifts["jobs/s"], 4),
            "dead_rows_drift": round(drifts["dead rows"], 4),
            "memory_drift_most": round(max(memory), 4),
            "series": {name: _told(points) for name, points in series.items()},
            **spent.cost(used, after - before),
        },
    )


async def _watch(stream: Stream, seconds: float) -> dict[str, list[Point]]:
    """(seconds, figure) of everything that might grow."""
    server = await server_pid(stream.connection)
    watched = _processes(stream.processes)
    series: dict[str, list[Point]] = {"dead rows": [], **{f"{name} MB": [] for name in watched}}
    if server is not None:
        series["database, without what its processes share, MB"] = []
    clock = stream.rig.clock
    begun = clock.monotonic()
    while (at := clock.monotonic() - begun) < seconds:
        series["dead rows"].append((at, float(await stream.connection.fetchval(SQL["dead"]))))
        for name, pid in watched.items():
            series[f"{name} MB"].append((at, resident_megabytes(pid)))
        if server is not None:
            series["database, without what its processes share, MB"].append((at, own_megabytes(server)))
        await clock.sleep(max(1.0, seconds / MAX_SAMPLES))
    return series


def _processes(roles: Mapping[str, int]) -> dict[str, int]:
    """Every process of the product: the roles, and what they started."""
    found = dict(roles)
    for role, pid in roles.items():
        children: Sequence[psutil.Process] = family(pid)[1:]
        found |= {f"{role} child {number + 1}": child.pid for number, child in enumerate(children)}
    return found


def _told(points: Sequence[Point]) -> dict[str, Any]:
    """A series in few words. The slope is per hour."""
    found = slope(points)
    return {
        "mean": round(statistics.fmean(y for _, y in points), 2),
        "first": round(points[0][1], 2),
        "last": round(points[-1][1], 2),
        "most": round(max(y for _, y in points), 2),
        "slope_per_hour": round(found.value * 3600, 3),
        "slope_95_percent": [round(found.low * 3600, 3), round(found.high * 3600, 3)],
    }


CASE = Case(
    "S1",
    "jobs/s",
    12_500,
    True,
    soak,
    full_speed,
    "T2 for 15 s",
    checks=(
        Check("ended, of what was offered", "share_of_offered", 0.99, higher=True),
        Check("sure change of the rate, of its mean", "rate_drift", -0.05, higher=True),
        Check("sure growth of dead rows, of their mean", "dead_rows_drift", 0.05),
        Check("sure growth of the memory of the process that grew most, of its mean", "memory_drift_most", 0.05),
    ),
    rounds=1,
)
