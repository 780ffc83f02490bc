"""What the product promises around changes of the clock: exactly what the slow reference says, by every rule.

`make reference` compares five years of each zone; here it is the four days around each of their changes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from tests.reference import cases, table
from tests.reference.slow_cron import SlowCron, watch
from tickwise.domain.cron.expression import parse

# Lines with more fires than this in a window are walked by their own rule only, and counted by the other ones.
DENSE = 500


def changes() -> list[tuple[str, datetime]]:
    """Every day (UTC) of the zones' years within which the clock is changed; for a zone without one, some day."""
    found = []
    for zone_name in cases.ZONES:
        zone, (first, *_, last) = ZoneInfo(zone_name), cases.years_of(zone_name)
        days = [first[0] + timedelta(days=number) for number in range((last[1] - first[0]).days)]
        found += [
            (zone_name, day)
            for day, following in pairwise(days)
            if day.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset()
        ] or [(zone_name, datetime(first[0].year, 6, 1, tzinfo=UTC))]
    return found


@pytest.mark.parametrize(
    ("zone_name", "day"), [pytest.param(zone, day, id=f"{zone} {day:%Y-%m-%d}") for zone, day in changes()]
)
def test_the_days_around_a_change_are_as_the_slow_reference_says(zone_name: str, day: datetime) -> None:
    """Forwards, backwards and counted, for every line and every rule."""
    zone, begin, end = ZoneInfo(zone_name), day - timedelta(days=2), day + timedelta(days=2)
    film = watch(zone, begin, end)
    for line in cases.LINES:
        cron, named = parse(line), SlowCron(line).named(film)
        for dst in cases.RULES:
            expected = cases.expected_of(named, dst)
            assert expected == sorted(set(expected))
            case = f"{line} in {zone_name} with {dst}"
            assert cases.counted(cron, begin, end, zone, dst) == len(expected), case
            if len(expected) <= DENSE or dst == cases.RULES[0]:
                assert cases.forwards(cron, begin, end, zone, dst) == expected, case
                assert cases.backwards(cron, begin, end, zone, dst) == expected, case
            else:
                middle = day + timedelta(hours=7)
                expected_before = sum(instant < middle.timestamp() for instant in expected)
                assert cases.counted(cron, begin, middle, zone, dst) == expected_before, case


def test_the_table_holds_every_zone_and_line() -> None:
    """`make reference WRITE=1` was run after the last change of the cases."""
    assert [(row.zone, row.line) for row in table.read()] == [
        (zone, line) for zone in cases.ZONES for line in cases.LINES
    ]


def test_every_kind_of_change_is_among_the_cases() -> None:
    """Gaps and overlaps, of half an hour, an hour and a day, at midnight and at night."""
    seen = set()
    for zone_name, day in changes():
        zone = ZoneInfo(zone_name)
        before, after = (instant.astimezone(zone).utcoffset() for instant in (day, day + timedelta(days=1)))
        assert before is not None
        assert after is not None
        seen.add((after - before) / timedelta(hours=1))
    assert seen == {-1.0, -0.5, 0.0, 0.5, 1.0, 24.0}
