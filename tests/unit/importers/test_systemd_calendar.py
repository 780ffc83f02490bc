"""systemd's calendar events: what they name, against what systemd itself answered, and minute by minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.crons import fire_after
from tickwise.domain.cron import expression as cron
from tickwise.importers.systemd_calendar import CalendarLine, as_cron, read_calendar
from tickwise.importers.translation import Untranslatable

BEGIN = datetime(2027, 1, 15, tzinfo=UTC)

ANSWERS = {
    # What `systemd-analyze calendar --base-time='2027-01-15 00:00:00'` of systemd 252 answered, in UTC.
    "minutely": ["2027-01-15 00:01:00", "2027-01-15 00:02:00", "2027-01-15 00:03:00"],
    "hourly": ["2027-01-15 01:00:00", "2027-01-15 02:00:00", "2027-01-15 03:00:00"],
    "daily": ["2027-01-16 00:00:00", "2027-01-17 00:00:00", "2027-01-18 00:00:00"],
    "DAILY UTC": ["2027-01-16 00:00:00", "2027-01-17 00:00:00"],
    "weekly": ["2027-01-18 00:00:00", "2027-01-25 00:00:00", "2027-02-01 00:00:00"],
    "monthly": ["2027-02-01 00:00:00", "2027-03-01 00:00:00", "2027-04-01 00:00:00"],
    "quarterly": ["2027-04-01 00:00:00", "2027-07-01 00:00:00", "2027-10-01 00:00:00"],
    "semiannually": ["2027-07-01 00:00:00", "2028-01-01 00:00:00"],
    "yearly": ["2028-01-01 00:00:00", "2029-01-01 00:00:00"],
    "anually": ["2028-01-01 00:00:00", "2029-01-01 00:00:00"],
    "Mon..Fri 10:00": ["2027-01-15 10:00:00", "2027-01-18 10:00:00", "2027-01-19 10:00:00"],
    "Mon-Fri 10:00": ["2027-01-15 10:00:00", "2027-01-18 10:00:00", "2027-01-19 10:00:00"],
    "mon  10:00": ["2027-01-18 10:00:00"],
    "Mon, 10:00": ["2027-01-18 10:00:00"],
    "monday,Tuesday 10:00": ["2027-01-18 10:00:00"],
    "Mon": ["2027-01-18 00:00:00", "2027-01-25 00:00:00"],
    "*:0/15": ["2027-01-15 00:15:00", "2027-01-15 00:30:00", "2027-01-15 00:45:00"],
    "*:50/7": ["2027-01-15 00:50:00", "2027-01-15 00:57:00", "2027-01-15 01:50:00"],
    "8/4:00": ["2027-01-15 08:00:00", "2027-01-15 12:00:00", "2027-01-15 16:00:00", "2027-01-15 20:00:00"],
    "0..5/2:00": ["2027-01-15 02:00:00", "2027-01-15 04:00:00", "2027-01-16 00:00:00"],
    "*:*:0/30": ["2027-01-15 00:00:30", "2027-01-15 00:01:00", "2027-01-15 00:01:30"],
    "1:2:3..4/2": ["2027-01-15 01:02:03", "2027-01-16 01:02:03"],
    "10:00:1.000": ["2027-01-15 10:00:01"],
    "*-*~01": ["2027-01-31 00:00:00", "2027-02-28 00:00:00", "2027-03-31 00:00:00"],
    "06~01": ["2027-06-30 00:00:00", "2028-06-30 00:00:00", "2029-06-30 00:00:00"],
    "Mon *-*~07/1": ["2027-01-25 00:00:00", "2027-02-22 00:00:00", "2027-03-29 00:00:00"],
    "Mon *-05~07/1": ["2027-05-31 00:00:00", "2028-05-29 00:00:00", "2029-05-28 00:00:00"],
    "*-*-1..7 00:00": ["2027-02-01 00:00:00", "2027-02-02 00:00:00", "2027-02-03 00:00:00"],
    "*-*-1/3": ["2027-01-16 00:00:00", "2027-01-19 00:00:00", "2027-01-22 00:00:00"],
    "*-*-5..31/10": ["2027-01-25 00:00:00", "2027-02-05 00:00:00", "2027-02-15 00:00:00"],
    "*-*-31": ["2027-01-31 00:00:00", "2027-03-31 00:00:00", "2027-05-31 00:00:00"],
    "*-* 10:00": ["2027-01-15 10:00:00", "2027-01-16 10:00:00"],
    "06-01": ["2027-06-01 00:00:00", "2028-06-01 00:00:00"],
    "2027-06-01": ["2027-06-01 00:00:00"],
    "2027..2028-*-* 1:00": ["2027-01-15 01:00:00", "2027-01-16 01:00:00"],
    "@1800000000": ["2027-01-15 08:00:00"],
    "Fri *-*-8..14 3:00": ["2027-02-12 03:00:00", "2027-03-12 03:00:00", "2027-04-09 03:00:00"],
}


def answered(line: CalendarLine, count: int, zone: str = "UTC") -> list[datetime]:
    """The next times of a line after `BEGIN`, within its years."""
    fires = cron.parse(line.cron_expression)
    at = BEGIN
    found: list[datetime] = []
    if line.first_year is not None:
        at = max(at, datetime(line.first_year, 1, 1, tzinfo=UTC) - timedelta(seconds=1))
    while len(found) < count:
        following = fire_after(fires, at, ZoneInfo(zone))
        if following is None or (line.last_year is not None and following.year > line.last_year):
            break
        found.append(following)
        at = following
    return found


@pytest.mark.parametrize("event", ANSWERS)
def test_an_event_names_the_times_that_systemd_names(event: str) -> None:
    """The first ones after a Friday in January."""
    expected = ANSWERS[event]
    found = answered(as_cron(read_calendar(event)), len(expected))
    assert expected == [f"{at:%Y-%m-%d %H:%M:%S}" for at in found]


ENUMERATED: dict[str, Callable[[datetime], bool]] = {
    "Mon,Wed..Fri *-1,2-* 1,2:30": lambda at: (
        at.isoweekday() in (1, 3, 4, 5) and at.month in (1, 2) and at.hour in (1, 2) and at.minute == 30
    ),
    "Sat,Sun *-*-1/2 22..23:0/20": lambda at: (
        at.isoweekday() in (6, 7) and at.day % 2 == 1 and at.hour >= 22 and at.minute % 20 == 0
    ),
    "*-2-* *:59": lambda at: at.month == 2 and at.minute == 59,
    "Tue *-*-22..28 6:15": lambda at: at.isoweekday() == 2 and 22 <= at.day <= 28 and (at.hour, at.minute) == (6, 15),
    "*-04~28/9 0:0": lambda at: at.month == 4 and at.day in (3, 12, 21, 30) and (at.hour, at.minute) == (0, 0),
    "*-*~1 12:00": lambda at: (at + timedelta(days=1)).day == 1 and (at.hour, at.minute) == (12, 0),
}


@pytest.mark.parametrize("event", ENUMERATED)
def test_an_event_names_every_minute_that_it_should_and_no_other(event: str) -> None:
    """Minute by minute for a hundred days."""
    line = as_cron(read_calendar(event))
    minutes = [BEGIN + timedelta(minutes=number) for number in range(1, 100 * 1_440)]
    expected = [at for at in minutes if ENUMERATED[event](at)]
    assert expected == [at for at in answered(line, len(expected) + 1) if at <= minutes[-1]]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ("*-*-* 02:00:00", "0 2 * * *"),
        ("Mon *-*-1..7 4:05", "5 4 * * 1#1"),
        ("Mon,Fri *-*-15..28 4:05", "5 4 * * 1#3,5#3,1#4,5#4"),
        ("Mon *-*-1/2 4:05", "5 4 */2 * 1"),
        ("Sat,Sun *-*-13 4:05", "5 4 13 * */6"),
        ("*-*~1 4:05", "5 4 L * *"),
        ("Fri,Sun *-*~7/1 4:05", "5 4 * * 0L,5L"),
        ("*-6,9~2 4:05", "5 4 29 6,9 *"),
        ("*:*:0/10", "*/10 * * * * *"),
        ("*:5..59/10:30", "30 5-55/10 * * * *"),
    ],
)
def test_an_event_becomes_a_line_that_people_can_read(event: str, line: str) -> None:
    """Shortest forms; seconds only where they say something; days that must suit both as nth weekdays or steps."""
    assert line == as_cron(read_calendar(event)).cron_expression


@pytest.mark.parametrize(
    ("event", "first", "last"),
    [
        ("2027-1-1", 2027, 2027),
        ("27..29-*-*", 2027, 2029),
        ("2030/1-*-*", 2030, None),
        ("70-1-1", 1970, 1970),
        ("*-1-1", None, None),
    ],
)
def test_years_become_bounds(event: str, first: int | None, last: int | None) -> None:
    """Two digits are of this century up to 69, as in systemd."""
    line = as_cron(read_calendar(event))
    assert (first, last) == (line.first_year, line.last_year)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ("", "1 to 500 characters"),
        ("*-*-* *", "is no part of a calendar event"),
        ("Sat..Mon 10:00", "the week begins on Monday"),
        ("*/2:00", "the hour is written"),
        ("monday,Tuesday 10", "a date is written"),
        ("10", "a date is written"),
        ("22..2:00", "a range ascends"),
        ("*-*-* 25:00", "lies between 0 and 23"),
        ("24:00", "lies between 0 and 23"),
        ("23:59:60", "lies between 0 and 59"),
        ("*:5/", "the minute is written"),
        ("*,1:00", "the hour is written"),
        ("10:00 UTC+1", "is no time zone"),
        ("10:00 Z", "is no time zone"),
        ("Mon.. 10:00", "a weekday is written"),
        ("Tues 10:00", "a weekday is written"),
        ("Mon Tue 10:00", "a date is written"),
        ("*-*-0", "lies between 1 and 31"),
        ("*-13-1", "lies between 1 and 12"),
        ("*-*-25/10", "the step must lead to a further value"),
        ("*-2~3/5", "the step must lead to a further value"),
        ("*-*~31", "lies between 1 and 28"),
        ("1969-1-1", "lies between 1970 and 2199"),
        ("0:0:0/0", "the step must lead to a further value"),
        ("10:00:00.5", "fractions of a second"),
        ("*:*:00/0.5", "fractions of a second"),
        ("*-*-01T10:00", "the hour is written"),
        ("*-2-30", "it never fires"),
        ("Fri *-*-13", "suit both its date and its weekday"),
        ("2027/2-1-1", "years with gaps"),
        ("*-*~3", "only as the last day"),
        ("2-*~9", "only as the last day"),
    ],
)
def test_what_cannot_be_said_is_refused(event: str, reason: str) -> None:
    """With what to write instead: what systemd refuses too, and what no cron line says."""
    with pytest.raises(Untranslatable) as refusal:
        as_cron(read_calendar(event))
    assert reason in str(refusal.value)


_EVENTS = st.lists(
    st.sampled_from(
        [
            "Mon",
            "Fri..Sun",
            "*",
            "-",
            "~",
            ":",
            "..",
            ",",
            "/",
            "0",
            "1",
            "7",
            "15",
            "59",
            " ",
            "2027",
            "daily",
            "UTC",
            ".",
            "@",
        ]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=300)
@given(event=st.one_of(_EVENTS, st.text(max_size=40)))
def test_every_text_is_read_or_refused(event: str) -> None:
    """Whatever it says, a line that comes out is one that the product reads."""
    try:
        line = as_cron(read_calendar(event))
    except Untranslatable:
        return
    assert cron.parse(line.cron_expression).ever_fires()
