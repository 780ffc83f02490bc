"""Cron lines, the pure functions on the scheduler's hot path: the next fire, and reading a line, beside two libraries.

No server and no roles: one core. Each value is the median over calls that are timed one by one, in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from statistics import median
from time import perf_counter_ns
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from bench.harness import Case, Check, Rig, Round
from tickwise.domain.cron import expression as cron

ZONE = ZoneInfo("America/New_York")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

# What people write (most lines of public crontabs are of the first four kinds), as all three read it.
LINES = (
    "*/5 * * * *", "30 2 * * *", "0 * * * *", "0 0 * * 0", "0 9-17 * * MON-FRI", "0 0 1,15 * *", "15 */6 * * *",
    "0 0 13 * 5", "0 0 L * *", "0 12 * * 5#2", "15,45 8-18/2 1-10 1,2,3 1-5",
)  # fmt: skip
FIRES_OF_EACH = 300
READINGS_OF_EACH = 100

Call = Callable[[], Any]


def timed(calls: Iterable[Call]) -> float:
    """The median microseconds of these calls."""
    taken = []
    for call in calls:
        begin = perf_counter_ns()
        call()
        taken.append((perf_counter_ns() - begin) / 1_000)
    return round(median(taken), 3)


_rounds = count(1)


def unread() -> list[str]:
    """The lines as texts that this process never read before: spaces before and after them make the difference."""
    before = " " * next(_rounds)
    return [before + line + " " * after for after in range(READINGS_OF_EACH) for line in LINES]


def walks(walk: Callable[[str], Call]) -> list[Call]:
    """Calls that go from fire to fire of each line, the lines in turn, so that none has the caches for itself."""
    return [walk(line) for line in LINES] * FIRES_OF_EACH


async def product(_: Rig) -> Round:
    """The next fire of a line that was read; beside it reading a line anew, and one that is remembered."""

    def walk(line: str) -> Call:
        parsed, instant = cron.parse(line), int(BEGIN.timestamp())

        def call() -> None:
            nonlocal instant
            instant = parsed.next_second(instant, ZONE) or 0

        return call

    parse_us = timed([partial(cron.parse, text) for text in unread()])
    return Round(
        timed(walks(walk)),
        {
            "parse_us": parse_us,
            "parse_remembered_us": timed([partial(cron.parse, line) for line in LINES * READINGS_OF_EACH]),
            **_croniter(),
            "cronsim_parse_us": timed([partial(CronSim, text, BEGIN) for text in unread()]),
        },
    )


def _croniter() -> dict[str, float]:
    begin = BEGIN.astimezone(ZONE)

    def walk(line: str) -> Call:
        found = croniter(line, begin)
        return lambda: found.get_next(datetime)

    return {
        "croniter_next_us": timed(walks(walk)),
        "croniter_parse_us": timed([partial(croniter, text, begin) for text in unread()]),
    }


async def cronsim(_: Rig) -> Round:
    """The limit: the quicker of the two libraries, from fire to fire in the same zone."""
    begin = BEGIN.astimezone(ZONE)

    def walk(line: str) -> Call:
        return iter(CronSim(line, begin)).__next__

    return Round(timed(walks(walk)))


CASE = Case(
    "CRON",
    "us a next fire",
    15.0,
    False,
    product,
    cronsim,
    "cronsim in the same zone",
    checks=(Check("us to read a line anew", "parse_us", 30.0),),
)
