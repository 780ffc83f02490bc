"""Two libraries as second opinions on cron lines: where they see it differently, the case is listed with who is right.

Neither is our judge; the slow reference is. A disagreement that is not listed, or a listed one that is none, fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from tests.reference.slow_cron import at
from tests.support.crons import fire_after
from tickwise.domain.cron.expression import parse

pytestmark = pytest.mark.thorough

NEW_YORK = "America/New_York"
LONDON = "Europe/London"
KOLKATA = "Asia/Kolkata"
LORD_HOWE = "Australia/Lord_Howe"
ZONES = ("UTC", NEW_YORK, LONDON, KOLKATA, LORD_HOWE)

# The weeks around all clock changes of these zones in 2026.
WINDOWS = (
    (at("2026-03-06 00:00"), at("2026-04-08 00:00")),
    (at("2026-10-01 00:00"), at("2026-11-03 00:00")),
)

LINES = (
    "30 2 * * *", "15,30,45 2 * * *", "0 * * * *", "30 1 * * *", "*/30 * * * *", "45 1 * * *", "0 0 13 * 5",
    "0 0 */2 * 1", "0 0 L * *", "0 0 1,L * *", "0 0 * * 5L", "0 0 * * 5#2", "0 0 * * 4#5,1#1", "10 0 1-7 * 0",
    "*/10 0 * * *", "0 */2 * * *", "58 * * * *", "0 3 * 3,4,10,11 *", "*/7 9-17 * * MON-FRI", "0 0 29 2 *",
    "0 0 * * 7", "30 2 L 3 SUN#2",
)  # fmt: skip
# cronsim has no ranges that go around, no `?` and no macros.
LINES_OF_CRONITER = (
    "0 22-2 * * *",
    "0 0 * * FRI-MON",
    "15 1 1 nov-feb *",
    "0 0 ? * MON",
    "@daily",
    "@weekly",
    "@monthly",
)

# cronsim 2.8, each case judged by hand. All are half-hour overlaps, where it loses fires that really come.
CRONSIM_IS_WRONG = {
    (LORD_HOWE, "*/10 0 * * *"),
    (LORD_HOWE, "0 */2 * * *"),
    (LORD_HOWE, "58 * * * *"),
}

_TWICE = "croniter fires a fixed time at both passes of an overlap, Debian's cron at the first"
_EITHER = "croniter takes either day, Vixie's cron wants both where one begins with *"
_AFTER = "croniter runs a wildcard's skipped time after the gap, Debian's cron does not"
CRONITER_DIFFERS = {
    (NEW_YORK, "30 1 * * *"): _TWICE,
    (NEW_YORK, "45 1 * * *"): _TWICE,
    (NEW_YORK, "0 22-2 * * *"): _TWICE,
    (NEW_YORK, "15 1 1 nov-feb *"): _TWICE,
    (NEW_YORK, "0 */2 * * *"): _AFTER,
    (LONDON, "30 1 * * *"): _TWICE,
    (LONDON, "45 1 * * *"): _TWICE,
    (LONDON, "0 22-2 * * *"): _TWICE,
    (LORD_HOWE, "30 1 * * *"): _TWICE,
    (LORD_HOWE, "45 1 * * *"): _TWICE,
    (LORD_HOWE, "0 */2 * * *"): _AFTER,
    **dict.fromkeys([(zone, "0 0 */2 * 1") for zone in ZONES], _EITHER),
    **dict.fromkeys([(zone, "30 2 L 3 SUN#2") for zone in ZONES], "croniter finds nothing for L beside #"),
}


def ours(line: str, zone: ZoneInfo) -> list[datetime]:
    """Our fires in the windows, UTC."""
    cron, found = parse(line), []
    for begin, end in WINDOWS:
        instant = fire_after(cron, begin, zone)
        while instant is not None and instant < end:
            found.append(instant)
            instant = fire_after(cron, instant, zone)
    return found


def theirs(zone: ZoneInfo, library: Callable[[datetime], Iterator[datetime]]) -> list[datetime]:
    """The fires in the windows of a library that goes on from a local time, UTC."""
    found = []
    for begin, end in WINDOWS:
        for moment in library(begin.astimezone(zone)):
            if moment.astimezone(UTC) >= end:
                break
            found.append(moment.astimezone(UTC))
    return found


@pytest.mark.parametrize("zone_name", ZONES)
@pytest.mark.parametrize("line", LINES)
def test_cronsim_agrees_but_for_its_known_faults(line: str, zone_name: str) -> None:
    """An independent library finds the same fires near clock changes; where not, it is listed and really differs."""
    zone = ZoneInfo(zone_name)
    same = ours(line, zone) == theirs(zone, lambda begin: iter(CronSim(line, begin)))
    assert same is ((zone_name, line) not in CRONSIM_IS_WRONG)


def _croniter(line: str, begin: datetime) -> Iterator[datetime]:
    walk = croniter(line.replace("5L", "L5"), begin)  # the last Friday is L5 there
    while True:
        yield walk.get_next(datetime)


@pytest.mark.parametrize("zone_name", ZONES)
@pytest.mark.parametrize("line", LINES + LINES_OF_CRONITER)
def test_croniter_agrees_but_where_its_rules_differ(line: str, zone_name: str) -> None:
    """Another one, whose rules differ from Debian's in three points."""
    zone = ZoneInfo(zone_name)
    try:
        found = theirs(zone, lambda begin: _croniter(line, begin))
    except ValueError:  # it gives up
        found = []
    assert (ours(line, zone) == found) is ((zone_name, line) not in CRONITER_DIFFERS)
