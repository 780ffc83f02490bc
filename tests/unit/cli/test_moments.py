"""Times are read as people write them, and shown as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwise.cli import moments

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()  # 13:00 in Berlin


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2 days", 172_800), ("1h 30 min", 5400), ("250ms", 0.25),
        ("45", 45), ("1.5h", 5400), ("1w", 604_800), ("2 HOURS", 7200),
    ],
)  # fmt: skip
def test_a_duration_is_read(text: str, seconds: float) -> None:
    """Numbers with units, joined or apart, or bare seconds."""
    assert seconds == moments.duration_seconds(text)


@pytest.mark.parametrize("text", ["", "soon", "5x", "m5", "5m x", "-5m", "-3", "nan", "inf", "1e30", "5mm"])
def test_what_is_no_duration_is_refused_with_what_to_write(text: str) -> None:
    """The message shows a form that works."""
    with pytest.raises(moments.UnreadableTime, match="90s, 5m, 1h30m"):
        moments.duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2027-01-31T10:00:00+01:00", "2027-01-31T09:00:00+00:00"),
        ("2027-01-31T10:00:00Z", "2027-01-31T10:00:00+00:00"),
        ("2027-01-31 10:00", "2027-01-31T09:00:00+00:00"),
        ("2027-07-31 10:00", "2027-07-31T08:00:00+00:00"),
        ("14:30", "2026-11-21T13:30:00+00:00"),
        ("12:30", "2026-11-22T11:30:00+00:00"),
        ("tomorrow", "2026-11-21T23:00:00+00:00"),
        ("today 12:30", "2026-11-21T11:30:00+00:00"),
        ("tomorrow 10:00", "2026-11-22T09:00:00+00:00"),
        ("yesterday at 10:00", "2026-11-20T09:00:00+00:00"),
        ("Tomorrow at 9:05", "2026-11-22T08:05:00+00:00"),
        ("5m", "2026-11-21T12:05:00+00:00"),
        ("now", "2026-11-21T12:00:00+00:00"),
        ("in 5 minutes", "2026-11-21T12:05:00+00:00"),
        ("8 hours ago", "2026-11-21T04:00:00+00:00"),
        ("an hour ago", "2026-11-21T11:00:00+00:00"),
        ("3am", "2026-11-22T02:00:00+00:00"),
        ("3:30 pm", "2026-11-21T14:30:00+00:00"),
        ("noon", "2026-11-22T11:00:00+00:00"),
        ("12am", "2026-11-21T23:00:00+00:00"),
        ("friday", "2026-11-26T23:00:00+00:00"),
        ("Monday 10:00", "2026-11-23T09:00:00+00:00"),
        ("saturday at 12:30", "2026-11-28T11:30:00+00:00"),
        ("this saturday 12:30", "2026-11-21T11:30:00+00:00"),
        ("last friday 3am", "2026-11-20T02:00:00+00:00"),
        ("last saturday", "2026-11-13T23:00:00+00:00"),
        ("next saturday noon", "2026-11-28T11:00:00+00:00"),
        ("2027-01-31 3am", "2027-01-31T02:00:00+00:00"),
    ],
)
def test_a_moment_is_read_on_the_given_clock(text: str, expected: str) -> None:
    """A wall clock counts in the zone, a bare time of day is its next occurrence, a duration counts from now."""
    assert expected == moments.moment(text, BERLIN, NOON).astimezone(UTC).isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", NOON - 90),
        ("1h30m", NOON - 5400),
        ("yesterday", NOON - 13 * 3600 - 86_400),
        ("tomorrow 13:00", NOON + 86_400),
        ("12:45", NOON - 900),
        ("13:15", NOON + 900 - 86_400),
        ("friday", NOON - 13 * 3600 - 86_400),
        ("saturday 12:45", NOON - 900),
        ("saturday 13:15", NOON + 900 - 7 * 86_400),
        ("8 hours ago", NOON - 8 * 3600),
        ("in 5 minutes", NOON + 300),
    ],
)
def test_a_length_of_time_may_be_meant_to_lie_in_the_past(text: str, expected: float) -> None:
    """A time of day is its last occurrence then. All else is read as ever."""
    assert expected == moments.moment(text, BERLIN, NOON, ago=True).timestamp()


def test_a_length_of_time_that_leads_to_before_all_calendars_is_refused() -> None:
    """Three thousand years ago."""
    with pytest.raises(moments.UnreadableTime):
        moments.moment("1100000d", BERLIN, NOON, ago=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whenever",
        "25:00",
        "12:61",
        "2027-02-30 10:00",
        "someday 10:00",
        "30",
        "2027",
        "1.5",
        "-3",
        "13pm",
        "0am",
        "last",
        "last week",
        "next 10:00",
        "friday soon",
        "in 5",
        "5 ago",
        "a ago",
        "yesterday friday",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """The message says so and never guesses."""
    with pytest.raises(moments.UnreadableTime):
        moments.moment(text, BERLIN, NOON)


@pytest.mark.parametrize(
    ("text", "expected", "told"),
    [
        ("2027-03-28 02:30", "2027-03-28T01:30:00+00:00", ["There is no 02:30 on 2027-03-28"]),
        ("2026-10-25 2:30", "2026-10-25T00:30:00+00:00", ["02:30 on 2026-10-25 comes twice"]),
        ("2027-03-28 03:30", "2027-03-28T01:30:00+00:00", []),
    ],
)
def test_a_time_that_a_change_of_the_clock_leaves_out_or_repeats_is_said(
    text: str, expected: str, told: list[str]
) -> None:
    """With the instant that is taken: the first of two, and as long after the change as after the hour before."""
    heard: list[str] = []
    assert expected == moments.moment(text, BERLIN, NOON, tell=heard.append).astimezone(UTC).isoformat()
    assert told == [line[: len(expected)] for line, expected in zip(heard, told, strict=True)]


def test_a_change_of_the_clock_is_said_of_the_day_that_is_meant_alone() -> None:
    """Today's 02:30 is past, so tomorrow's is meant, which comes once."""
    heard: list[str] = []
    at = datetime(2026, 10, 25, 12, 0, tzinfo=UTC).timestamp()
    assert (
        "2026-10-26T01:30:00+00:00" == moments.moment("2:30", BERLIN, at, tell=heard.append).astimezone(UTC).isoformat()
    )
    assert [] == heard


def test_a_bare_number_may_be_refused_as_a_length() -> None:
    """Where a person may mean minutes; the message has each of them."""
    with pytest.raises(moments.UnreadableTime, match="5s for seconds, 5m for minutes"):
        moments.duration_seconds("5", needs_unit=True)
    assert 300 == moments.duration_seconds("5m", needs_unit=True)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("10:00", True), ("friday 3am", True), ("2027-01-31 10:00", True), ("5m", False), ("2 hours ago", False),
     ("2027-01-31T10:00:00Z", False)],
)  # fmt: skip
def test_what_a_zone_decides_is_known(text: str, is_one: bool) -> None:
    """A length of time and a time with an offset are the same on each clock."""
    assert is_one == moments.is_wall_time(text)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.42, "420ms"), (1.26, "1.3s"), (16, "16s"), (125, "2m5s"), (2880, "48m"), (12_000, "3h20m"), (277_200, "3d5h"),
     (1e6, "11d")],
)  # fmt: skip
def test_a_cell_has_short_lengths_and_ages(seconds: float, expected: str) -> None:
    """Without blanks, the second unit only beside a small first one."""
    assert expected == moments.span(seconds)
    assert f"{expected} ago" == moments.age(NOON - max(seconds, 1.0), NOON) or seconds < 1


def test_an_unknown_zone_is_refused() -> None:
    """Also a folder of zones, which is no zone."""
    for name in ("Europe/Nowhere", "America", "../etc/passwd", ""):
        with pytest.raises(moments.UnreadableTime, match="IANA name"):
            moments.zone_named(name)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [(0, "now"), (300, "in 5 min"), (-7200, "2 h ago"), (30, "in 30 s"), (3 * 86_400, "in 3 d"), (-1.5, "1.5 s ago")],
)
def test_a_time_is_shown_by_its_distance(distance: float, expected: str) -> None:
    """In the largest unit that fits."""
    assert expected == moments.relative(NOON + distance, NOON)


def test_a_time_is_shown_in_the_viewers_zone() -> None:
    """With the zone's own abbreviation, summer and winter."""
    assert "2026-11-21 13:00:00 CET" == moments.absolute(NOON, BERLIN)
    assert "2026-11-21 12:00:00 UTC" == moments.absolute(NOON, UTC)


@pytest.mark.parametrize(("seconds", "expected"), [(0.0421, "42 ms"), (1.26, "1.3 s"), (59, "59 s"), (150, "2 min")])
def test_a_length_is_short(seconds: float, expected: str) -> None:
    """One number, one unit."""
    assert expected == moments.length(seconds)
