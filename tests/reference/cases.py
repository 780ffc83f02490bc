"""Which zones, years, lines and rules the product is held to, and how it is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from tests.reference.slow_cron import Named
from tickwise.domain.cron.expression import Cron
from tickwise.domain.zones import Dst, GapRule, RepeatRule

# Five past years each, so that what governments will still decide changes nothing here.
ZONES: Final = {
    "Europe/Berlin": 2021,
    "America/New_York": 2021,
    "Australia/Lord_Howe": 2021,  # its changes are half an hour
    "Pacific/Apia": 2009,  # no 30 December 2011
    "America/Sao_Paulo": 2015,  # changed at midnight, then no more
    "Africa/Cairo": 2021,  # not changed, then at midnight again
    "Asia/Kolkata": 2021,  # never changed
}
YEARS: Final = 5

LINES: Final = (
    # Times at which clocks are changed, fixed.
    "30 2 * * *", "0 2 * * *", "0 3 * * *", "15,30,45 2 * * *", "0,30 1-3 * * *", "30 1 * * *", "59 1 * * *",
    "0 0 * * *", "30 0 * * *", "30 23 * * *", "45 23 * * 6", "10 0 * * SUN", "0 12 * * *", "15 2 * * *", "45 1 * * *",
    "0-59/7 2 * * *", "5 4 * * *", "0 9-17 * * MON-FRI", "0 22-2 * * *", "15,45 */6 * * *",
    # The same with a wildcard in minute or hour.
    "* * * * *", "*/5 * * * *", "*/7 0-3 * * *", "*/30 2 * * *", "*/20 1 * * *", "0 * * * *", "58 * * * *",
    "0 */2 * * *", "30 */3 * * *", "*/10 23,0 * * *", "* 2 * * *",
    # Days.
    "30 2 L * *", "0 0 30 12 *", "30 1 * * SUNL", "30 2 * * 0#2", "0 1 1-7 * 0", "0 2 */2 * SUN", "30 0 15 10,11 *",
    "0 0 29 2 *", "30 2 ? 3,10 7", "0 3 1,L 4-9 FRI#1", "15 1 * nov-feb FRI-MON",
)  # fmt: skip

RULES: Final = (
    Dst(),
    *(Dst(gap, overlap) for gap in GapRule for overlap in RepeatRule),
)


def years_of(zone_name: str) -> list[tuple[datetime, datetime]]:
    """The five years of a zone, from begin to before end, UTC."""
    first = ZONES[zone_name]
    return [
        (datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)) for year in range(first, first + YEARS)
    ]


def expected_of(named: Named, dst: Dst) -> list[int]:
    """The fires by the reference, as Unix seconds."""
    return [int(moment.timestamp()) for moment in named.fires(dst.gap, dst.overlap)]


def forwards(cron: Cron, begin: datetime, end: datetime, zone: ZoneInfo, dst: Dst) -> list[int]:
    """The product's fires from `begin` to before `end`, each found after the one before."""
    found, last = [], int(end.timestamp())
    instant = cron.next_second(int(begin.timestamp()) - 1, zone, dst)
    while instant is not None and instant < last:
        found.append(instant)
        instant = cron.next_second(instant, zone, dst)
    return found


def backwards(cron: Cron, begin: datetime, end: datetime, zone: ZoneInfo, dst: Dst) -> list[int]:
    """The same, each found before the one after; in ascending order, too."""
    found, first = [], int(begin.timestamp())
    instant = cron.previous_second(int(end.timestamp()) - 1, zone, dst)
    while instant is not None and instant >= first:
        found.append(instant)
        instant = cron.previous_second(instant - 1, zone, dst)
    return found[::-1]


def counted(cron: Cron, begin: datetime, end: datetime, zone: ZoneInfo, dst: Dst) -> int:
    """How many the product says that there are."""
    return cron.count(int(begin.timestamp()), int(end.timestamp()) - 1, zone, dst)
