"""Recurrence rules come to the days that the standard says, with dateutil as a second opinion, and within a budget."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any

import pytest
from dateutil.rrule import DAILY, MONTHLY, WEEKLY, YEARLY, rrule, weekday
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwise.adapters.calendars import recurrence
from tickwise.adapters.calendars.recurrence import Budget, Unreadable
from tickwise.ports.calendars import DaySpan

SPAN = DaySpan(date(2025, 1, 1), date(2036, 12, 31))
START = date(2026, 1, 5)  # a Monday
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQUENCIES = {"YEARLY": YEARLY, "MONTHLY": MONTHLY, "WEEKLY": WEEKLY, "DAILY": DAILY}


def days(parts: dict[str, Any], start: date = START, span: DaySpan = SPAN, steps: int = 1_000_000) -> list[date]:
    """The days of a rule; a part is a value or a list of values."""
    listed = {name: value if isinstance(value, list) else [value] for name, value in parts.items()}
    return list(recurrence.days(recurrence.read(listed, start), start, span, Budget(steps)))


def texts(found: list[date], most: int = 4) -> list[str]:
    """The first of them as `2026-12-25`."""
    return [each.isoformat() for each in islice(found, most)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"FREQ": "YEARLY"}, ["2026-01-05", "2027-01-05", "2028-01-05", "2029-01-05"]),
        ({"FREQ": "MONTHLY", "BYDAY": "-1FR", "COUNT": 3}, ["2026-01-30", "2026-02-27", "2026-03-27"]),
        ({"FREQ": "YEARLY", "BYMONTH": 11, "BYDAY": "4TH", "COUNT": 2}, ["2026-11-26", "2027-11-25"]),
        (
            {"FREQ": "WEEKLY", "INTERVAL": 2, "BYDAY": ["TU", "SU"], "COUNT": 4},
            ["2026-01-06", "2026-01-11", "2026-01-20", "2026-01-25"],
        ),
        (
            {"FREQ": "WEEKLY", "INTERVAL": 2, "BYDAY": ["TU", "SU"], "COUNT": 4, "WKST": "SU"},
            ["2026-01-06", "2026-01-18", "2026-01-20", "2026-02-01"],
        ),
        ({"FREQ": "DAILY", "UNTIL": date(2026, 1, 7)}, ["2026-01-05", "2026-01-06", "2026-01-07"]),
        (
            {"FREQ": "MONTHLY", "BYDAY": ["MO", "TU", "WE", "TH", "FR"], "BYSETPOS": -1, "COUNT": 2},
            ["2026-01-30", "2026-02-27"],
        ),
        ({"FREQ": "YEARLY", "BYMONTH": 2, "BYMONTHDAY": 29}, ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ({"FREQ": "YEARLY", "BYYEARDAY": [-1, 100], "COUNT": 2}, ["2026-04-10", "2026-12-31"]),
    ],
)
def test_a_rule_comes_to_the_days_that_it_says(parts: dict[str, Any], expected: list[str]) -> None:
    """Written down by hand, most of them after the examples of RFC 5545."""
    assert expected == texts(days(parts))


@st.composite
def rules(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rules of what is supported, in the forms that RFC 5545 allows."""
    frequency = draw(st.sampled_from(sorted(FREQUENCIES)))
    parts: dict[str, list[Any]] = {"FREQ": [frequency], "INTERVAL": [draw(st.integers(1, 5))]}
    if draw(st.booleans()):
        parts["BYMONTH"] = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True))
    signed = st.integers(-31, 31).filter(bool)
    if frequency != "WEEKLY" and draw(st.booleans()):
        parts["BYMONTHDAY"] = draw(st.lists(signed, min_size=1, max_size=5, unique=True))
    if frequency == "YEARLY" and draw(st.integers(0, 4)) == 0:
        numbers = st.integers(-366, 366).filter(bool)
        parts["BYYEARDAY"] = draw(st.lists(numbers, min_size=1, max_size=20, unique=True))
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4, unique=True))
        numbered = frequency in ("MONTHLY", "YEARLY") and draw(st.booleans())
        number = st.integers(-5, 5).filter(bool)
        parts["BYDAY"] = [f"{draw(number)}{name}" if numbered else name for name in names]
    if len(parts) > 2 and draw(st.booleans()):
        parts["BYSETPOS"] = draw(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=2, unique=True))
    if draw(st.booleans()):
        parts["WKST"] = [draw(st.sampled_from(WEEKDAYS))]
    if draw(st.booleans()):
        parts["COUNT"] = [draw(st.integers(1, 30))]
    elif draw(st.booleans()):
        parts["UNTIL"] = [START + timedelta(days=draw(st.integers(0, 2000)))]
    return parts


def test_positions_in_the_first_week_count_from_the_begin_of_that_week() -> None:
    """The first of Monday and Tuesday is a Monday, also where the rule starts on a Tuesday (RFC 5545, BYSETPOS)."""
    parts = {"FREQ": ["WEEKLY"], "INTERVAL": [1], "BYDAY": ["MO", "TU"], "BYSETPOS": [1], "COUNT": [2]}
    found = days(parts, date(2025, 12, 2), DaySpan(date(2025, 12, 1), date(2026, 12, 31)))
    assert found == [date(2025, 12, 8), date(2025, 12, 15)]


def second_opinion(parts: dict[str, list[Any]], start: date, span: DaySpan) -> list[date]:
    """The same by dateutil; an until makes sure that it comes to an end soon where it finds something at all."""
    spoken = {}
    for name in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYSETPOS"):
        if name in parts:
            spoken[name.lower()] = parts[name]
    if "BYDAY" in parts:
        spoken["byweekday"] = [
            weekday(WEEKDAYS.index(each[-2:]), int(each[:-2] or 0) or None) for each in parts["BYDAY"]
        ]
    until = min(parts.get("UNTIL", [span.last])[0], span.last)
    found = rrule(
        FREQUENCIES[parts["FREQ"][0]],
        dtstart=datetime.combine(start, time()),
        interval=parts["INTERVAL"][0],
        wkst=WEEKDAYS.index(parts.get("WKST", ["MO"])[0]),
        # dateutil takes one of the two; what is counted is cut at the span here.
        **({"count": parts["COUNT"][0]} if "COUNT" in parts else {"until": datetime.combine(until, time())}),
        **spoken,
    )
    kept = []
    for each in found:
        if each.date() > span.last:
            break
        if each.date() >= span.first:
            kept.append(each.date())
    return kept


@settings(max_examples=150)
@given(rules(), st.dates(date(2015, 1, 1), date(2028, 12, 31)))
def test_dateutil_comes_to_the_same_days(parts: dict[str, list[Any]], start: date) -> None:
    """For any rule of what is supported, whether it begins before the span or in it."""
    last = DaySpan(date(2026, 1, 1), date(2030, 12, 31))
    if parts["FREQ"] == ["WEEKLY"] and "BYSETPOS" in parts:
        # dateutil takes positions among the days of the first week from the start on; RFC 5545 among those of the week.
        start -= timedelta(days=(start.weekday() - WEEKDAYS.index(parts.get("WKST", ["MO"])[0])) % 7)
    # A rule that never comes would keep dateutil busy until the year 9999: for four seconds.
    ours = days(parts, start, DaySpan(start, date(2060, 1, 1)))
    if ours:
        assert second_opinion(parts, start, last) == days(parts, start, last)


def test_a_rule_that_never_comes_ends_with_the_span() -> None:
    """30 February is not looked for until the year 9999."""
    assert days({"FREQ": "DAILY", "BYMONTH": 2, "BYMONTHDAY": 30}, steps=10_000) == []
    assert days({"FREQ": "YEARLY", "BYMONTH": 2, "BYMONTHDAY": 30}, steps=100) == []


def test_an_old_event_is_not_carried_out_from_its_beginning() -> None:
    """Daily since 1700: only the span is looked at."""
    found = days({"FREQ": "DAILY", "INTERVAL": 3}, date(1700, 3, 1), steps=5_000)
    assert len(found) == 1461
    assert (found[0] - date(1700, 3, 1)).days % 3 == 0


def test_what_is_counted_is_counted_from_the_beginning_and_within_the_budget() -> None:
    """The tenth of ten is in the span; a billion days since 1700 are too much."""
    assert texts(days({"FREQ": "YEARLY", "COUNT": 11}, date(2016, 1, 1))) == ["2025-01-01", "2026-01-01"]
    with pytest.raises(Unreadable, match="too many times"):
        days({"FREQ": "DAILY", "COUNT": 1_000_000_000}, date(1700, 1, 1), steps=100_000)


def test_the_last_years_that_there_are_end_a_rule() -> None:
    """Instead of a date that cannot be."""
    far = DaySpan(date(9990, 1, 1), date(9999, 12, 31))
    for frequency in FREQUENCIES:
        found = days({"FREQ": frequency}, date(9990, 1, 1), far)
        assert found[-1].year == 9998


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        ({"FREQ": "SECONDLY"}, "write such a window as recurring"),
        ({"FREQ": "HOURLY", "COUNT": 3}, "write such a window as recurring"),
        ({"FREQ": "NEVER"}, "FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"),
        ({}, "FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"),
        ({"FREQ": ["DAILY", "WEEKLY"]}, "more than once"),
        ({"FREQ": "DAILY", "COUNT": 3, "UNTIL": date(2026, 1, 1)}, "COUNT or UNTIL, not both"),
        ({"FREQ": "DAILY", "INTERVAL": 0}, "INTERVAL must be from 1"),
        ({"FREQ": "DAILY", "COUNT": -1}, "COUNT must be from 1"),
        ({"FREQ": "DAILY", "UNTIL": "soon"}, "UNTIL must be a day or a time"),
        ({"FREQ": "YEARLY", "BYWEEKNO": 20}, "BYWEEKNO is not supported"),
        ({"FREQ": "MONTHLY", "RSCALE": "HEBREW"}, "RSCALE is not supported"),
        ({"FREQ": "DAILY", "BYHOUR": [9, 17]}, "an event for each time of day"),
        ({"FREQ": "WEEKLY", "BYDAY": "2MO"}, "needs FREQ=MONTHLY or YEARLY"),
        ({"FREQ": "MONTHLY", "BYDAY": "99MO"}, "no weekday"),
        ({"FREQ": "MONTHLY", "BYDAY": "X"}, "no weekday"),
        ({"FREQ": "MONTHLY", "BYDAY": "+-+-MO"}, "no weekday"),
        ({"FREQ": "MONTHLY", "BYYEARDAY": 3}, "BYYEARDAY needs FREQ=YEARLY"),
        ({"FREQ": "WEEKLY", "BYMONTHDAY": 3}, "does not go with FREQ=WEEKLY"),
        ({"FREQ": "YEARLY", "BYMONTH": 13}, "BYMONTH must be from 1 to 12"),
        ({"FREQ": "YEARLY", "BYMONTH": -1}, "BYMONTH must be from 1 to 12"),
        ({"FREQ": "YEARLY", "BYMONTHDAY": 0}, "BYMONTHDAY must be from 1 to 31"),
    ],
)
def test_what_is_not_supported_is_refused_with_advice(parts: dict[str, Any], advice: str) -> None:
    """By the name of the part, never left out in silence."""
    with pytest.raises(Unreadable, match=advice):
        days(parts)
