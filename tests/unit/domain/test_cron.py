"""What a cron line promises: the moments it fires at, on any clock, and what it says of a line that cannot be read."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.slow_cron import at
from tests.support.crons import fire_after, fire_at_or_before
from tickwise.domain.cron.expression import parse
from tickwise.domain.cron.fields import MAX_LENGTH
from tickwise.domain.errors import CronInvalid
from tickwise.domain.zones import Stretch, stretch_at

APIA = "Pacific/Apia"
NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fires(line: str, zone_name: str, begin: str, end: str) -> list[str]:
    """The fires of a line in a window given in UTC, as local times with their offset."""
    cron, zone, last = parse(line), ZoneInfo(zone_name), at(end)
    found = []
    instant = fire_after(cron, at(begin) - timedelta(seconds=1), zone)
    while instant is not None and instant < last:
        found.append(instant.astimezone(zone).strftime("%d %H:%M %z").removesuffix("00"))
        instant = fire_after(cron, instant, zone)
    return found


# ---------------------------------------------------------------------------------------------- clock changes


@pytest.mark.parametrize(
    ("line", "zone", "begin", "end", "expected"),
    [
        # New York springs forward on 8 March 2026 at 07:00 UTC, and falls back on 1 November at 06:00 UTC.
        ("30 2 * * *", NEW_YORK, "2026-03-07 12:00", "2026-03-09 12:00", ["08 03:00 -04", "09 02:30 -04"]),
        ("15,30,45 2 * * *", NEW_YORK, "2026-03-08 00:00", "2026-03-09 00:00", ["08 03:00 -04"]),
        ("0 2,3 * * *", NEW_YORK, "2026-03-08 00:00", "2026-03-09 00:00", ["08 03:00 -04"]),
        ("0 * * * *", NEW_YORK, "2026-03-08 06:00", "2026-03-08 08:00", ["08 01:00 -05", "08 03:00 -04"]),
        ("*/30 2 * * *", NEW_YORK, "2026-03-08 00:00", "2026-03-09 00:00", []),
        ("30 1 * * *", NEW_YORK, "2026-11-01 00:00", "2026-11-02 00:00", ["01 01:30 -04"]),
        ("30 1 * * *", NEW_YORK, "2026-11-01 06:10", "2026-11-03 00:00", ["02 01:30 -05"]),
        ("0 * * * *", NEW_YORK, "2026-11-01 05:00", "2026-11-01 07:00", ["01 01:00 -04", "01 01:00 -05"]),
        ("0 0 8 3 *", NEW_YORK, "2026-01-01 00:00", "2027-01-01 00:00", ["08 00:00 -05"]),
        # Lord Howe moves by half an hour: forward on 3 October 2026 at 15:30 UTC, back on 4 April at 15:00 UTC.
        ("45 1 * * *", LORD_HOWE, "2026-04-04 12:00", "2026-04-05 12:00", ["05 01:45 +11"]),
        ("58 * * * *", LORD_HOWE, "2026-04-04 14:00", "2026-04-04 16:00", ["05 01:58 +11", "05 01:58 +1030"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03 12:00", "2026-10-04 12:00", ["04 02:30 +11"]),
        ("0 */2 * * *", LORD_HOWE, "2026-04-04 14:00", "2026-04-04 18:00", ["05 02:00 +1030", "05 04:00 +1030"]),
        # Samoa had no 30 December 2011; at 10:00 UTC its clocks went from 29 December to 31 December.
        ("0 12 * * *", APIA, "2011-12-29 10:00", "2011-12-30 22:00", ["29 12:00 -10", "31 00:00 +14"]),
        ("0 12 30 12 *", APIA, "2011-12-01 00:00", "2012-02-01 00:00", ["31 00:00 +14"]),
        ("0 */12 * * *", APIA, "2011-12-29 22:00", "2011-12-30 22:00", ["29 12:00 -10", "31 00:00 +14"]),
        ("30 1 * * *", "Europe/London", "2026-03-28 12:00", "2026-03-30 12:00", ["29 02:00 +01", "30 01:30 +01"]),
        ("30 1 * * *", "Europe/London", "2026-10-24 12:00", "2026-10-26 12:00", ["25 01:30 +01", "26 01:30 +00"]),
        ("30 2 * * *", "UTC", "2026-03-08 00:00", "2026-03-10 00:00", ["08 02:30 +00", "09 02:30 +00"]),
        ("0 9 * * MON", "Asia/Kolkata", "2026-03-08 00:00", "2026-03-10 00:00", ["09 09:00 +0530"]),
    ],
)  # fmt: skip
def test_a_clock_change_follows_debians_rule(line: str, zone: str, begin: str, end: str, expected: list[str]) -> None:
    """Fixed times fire once: right after a gap, at the first pass of an overlap. Wildcards keep real time."""
    assert fires(line, zone, begin, end) == expected


def test_seconds_follow_the_same_rule() -> None:
    """A line of six fields is judged second by second: fixed seconds of a skipped minute become one fire."""
    cron, zone = parse("*/20 30 2 * * *"), ZoneInfo(NEW_YORK)
    first = fire_after(cron, at("2026-03-08 00:00"), zone)
    assert first == at("2026-03-08 07:00")
    second = fire_after(cron, at("2026-03-08 07:00"), zone)
    assert second == at("2026-03-09 06:30")


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{pair[0]}-{pair[1]}")
    stepped = st.tuples(st.one_of(st.just("*"), ranges), st.integers(1, high - low + 1)).map(lambda p: f"{p[0]}/{p[1]}")
    item = st.one_of(number.map(str), ranges, stepped)
    return st.one_of(st.just("*"), number.map(str), st.lists(item, min_size=1, max_size=3).map(",".join))


def lines() -> st.SearchStrategy[str]:
    """Any line of five fields whose days are likely to come."""
    days = st.one_of(st.just("*"), st.just("*"), _field(1, 28))
    weekdays = st.one_of(st.just("*"), st.just("*"), _field(0, 7).filter(lambda text: "/8" not in text))
    return st.tuples(_field(0, 59), _field(0, 23), days, st.just("*"), weekdays).map(" ".join)


# ------------------------------------------------------------------------------------------------- any instant

ZONES = st.sampled_from(["UTC", NEW_YORK, LORD_HOWE, APIA, "Asia/Kolkata", "Africa/Casablanca", "Asia/Gaza"])
INSTANTS = st.integers(5 * 365 * 86_400 * 1000, 130 * 365 * 86_400 * 1000).map(
    lambda ms: EPOCH + timedelta(milliseconds=ms)
)


@settings(max_examples=200, deadline=None)
@given(line=lines(), instant=INSTANTS, zone_name=ZONES)
def test_the_next_fire_is_later_and_nothing_lies_between(line: str, instant: datetime, zone_name: str) -> None:
    """Strictly after what was asked; the way back from it finds nothing newer than what was asked; counting agrees."""
    cron, zone = parse(line), ZoneInfo(zone_name)
    following = fire_after(cron, instant, zone)
    assert following is not None
    assert following > instant
    assert fire_at_or_before(cron, following, zone) == following
    before = fire_at_or_before(cron, following - timedelta(microseconds=1), zone)
    assert before is None or before <= instant
    second = (following - EPOCH) // timedelta(seconds=1)
    assert cron.count((instant - EPOCH) // timedelta(seconds=1) + 1, second, zone) == 1


@settings(max_examples=100, deadline=None)
@given(line=lines(), first=INSTANTS, later=st.timedeltas(timedelta(0), timedelta(days=900)), zone_name=ZONES)
def test_a_later_question_never_gets_an_earlier_answer(
    line: str, first: datetime, later: timedelta, zone_name: str
) -> None:
    """The next fire never moves back when time goes on."""
    cron, zone = parse(line), ZoneInfo(zone_name)
    one, other = fire_after(cron, first, zone), fire_after(cron, first + later, zone)
    assert one is not None
    assert other is not None
    assert one <= other


def test_29_february_is_found_over_a_century_without_it() -> None:
    """2100 is no leap year: from 2096 on the next one is 2104; back from 2104 it is 2096."""
    cron = parse("0 0 29 2 *")
    for zone in (ZoneInfo("UTC"), ZoneInfo("Europe/London")):
        assert fire_after(cron, at("2096-03-01 00:00"), zone) == at("2104-02-29 00:00")
        assert fire_at_or_before(cron, at("2104-02-28 00:00"), zone) == at("2096-02-29 00:00")


def test_a_search_that_leaps_over_a_year_still_sees_a_repeated_hour() -> None:
    """The line names one hour a year. Inside its repetition the nearest fire is minutes away, not a year."""
    zone = ZoneInfo(NEW_YORK)
    assert fire_after(parse("* 1 1 11 *"), at("2026-11-01 05:59"), zone) == at("2026-11-01 06:00")
    assert fire_at_or_before(parse("30 1 1 11 *"), at("2026-11-01 06:10"), zone) == at("2026-11-01 05:30")
    assert fire_at_or_before(parse("59 * 1 1 11 *"), at("2026-11-01 06:00:30"), zone) == at("2026-11-01 05:59:59")


def test_a_search_leaps_over_years_without_a_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight years have sixteen clock changes; finding a day beyond them looks at few."""
    asked: list[int] = []

    def counted(zone: ZoneInfo, instant: int) -> Stretch:
        asked.append(instant)
        return stretch_at(zone, instant)

    monkeypatch.setattr("tickwise.domain.cron.expression.stretch_at", counted)
    assert fire_after(parse("0 0 29 2 *"), at("2096-03-01 00:00"), ZoneInfo(NEW_YORK)) == at("2104-02-29 05:00")
    assert fire_at_or_before(parse("0 0 29 2 *"), at("2104-02-28 00:00"), ZoneInfo(NEW_YORK)) is not None
    assert len(asked) <= 8


def test_the_search_ends_at_the_end_of_the_calendar() -> None:
    """There is no year 10000, and none before year 1: the answer is none, not an error."""
    cron = parse("0 0 29 2 *")
    for zone in (ZoneInfo("UTC"), ZoneInfo(NEW_YORK)):
        assert fire_after(cron, at("9999-06-01 00:00"), zone) is None
        assert fire_at_or_before(cron, at("0001-02-01 00:00"), zone) is None


# ----------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@ANNUALLY ", "0 0 1 1 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * fri-MON", "0 0 * * 0,1,5,6"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * 0-7", "0 0 * * 0-6"),
        ("0 22-2 * * *", "0 0,1,2,22,23 * * *"),
        ("0 22-4/2 * * *", "0 0,2,4,22 * * *"),
        ("0 0 1 nov-feb *", "0 0 1 1,2,11,12 *"),
        ("0/20 * * * *", "0,20,40 * * * *"),
        ("5/20 * * * *", "5,25,45 * * * *"),
        ("00 05 * * *", "0 5 * * *"),
        ("\t0  5\t* * * ", "0 5 * * *"),
        ("0 5 ? * MON", "0 5 * * 1"),
        ("*/60 * * * *", "0 * * * *"),
        ("0 30 4 * * *", "30 4 * * *"),
        ("0 0 * * 1L", "0 0 * * MONL"),
    ],
)
def test_different_ways_to_write_the_same_line_are_read_the_same(line: str, same: str) -> None:
    """Names, wrapped ranges, steps, zero padding, macros and Sunday as 7."""
    one, other = parse(line), parse(same)
    for part in ("seconds", "minutes", "hours", "days", "months", "weekdays", "last_weekdays"):
        assert getattr(one, part) == getattr(other, part), part


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 0 13 * 5", ["02 00:00 +", "09 00:00 +", "13 00:00 +", "16 00:00 +", "23 00:00 +", "30 00:00 +"]),
        ("0 0 */2 * 1", ["05 00:00 +", "19 00:00 +"]),
        ("0 0 13 * ?", ["13 00:00 +"]),
        ("0 0 L * *", ["31 00:00 +"]),
        ("0 0 * * 5L", ["30 00:00 +"]),
        ("0 0 * * FRI#2", ["09 00:00 +"]),
        ("0 0 * * 4#5,1#1", ["05 00:00 +", "29 00:00 +"]),
    ],
)
def test_days_of_october_2026(line: str, expected: list[str]) -> None:
    """Both days given: either is enough, unless one begins with `*`; last and n-th weekdays; the last day."""
    assert [f.removesuffix("00") for f in fires(line, "UTC", "2026-10-01 00:00", "2026-11-01 00:00")] == expected


@pytest.mark.parametrize(
    ("line", "position", "parts"),
    [
        ("", 0, ["empty", "minute hour"]),
        ("* * *", 5, ["3 of five"]),
        ("60 * * * *", 0, ["minute", "'60'", "0-59"]),
        ("* 24 * * *", 2, ["hour", "'24'", "write 0", "0-23"]),
        ("0 0 0 * *", 4, ["day of month", "'0'", "1-31"]),
        ("0 0 * 13 *", 6, ["month", "'13'", "JAN-DEC"]),
        ("0 0 * * 8", 8, ["day of week", "'8'", "Sunday"]),
        ("0  0 * * MOM", 9, ["day of week", "'MOM'", "MON?"]),
        ("0 0 * * monday", 8, ["did you mean MON?"]),
        ("0 0 * Sept *", 6, ["did you mean SEP?"]),
        ("*/0 * * * *", 0, ["step of 0"]),
        ("*/70 * * * *", 0, ["step of 70", "60 values", "interval_seconds"]),
        ("* */25 * * *", 2, ["hour", "step of 25", "24 values"]),
        ("0 0 30 2 *", 4, ["never fires"]),
        ("0 0 31 4,6,9,11 *", 4, ["never fires"]),
        ("H(30) * * * *", 0, ["'H(30)'", "write H, H/15, H(0-29) or H(0-29)/10"]),
        ("* H-5 * * *", 2, ["hour", "'H-5'", "write H"]),
        ("H(0-60) * * * *", 0, ["'60'", "0-59"]),
        ("H/61 * * * *", 0, ["step of 61"]),
        ("H/0 * * * *", 0, ["step of 0"]),
        ("0 0 15W * *", 4, ["'15W'", "not supported", "write"]),
        ("0 0 LW * *", 4, ["'LW'", "not supported", "write L"]),
        ("0 0 L-3 * *", 4, ["'L-3'", "not supported", "write L"]),
        ("R * * * *", 0, ["random", "write H"]),
        ("0~30 * * * *", 0, ["random", "write H"]),
        ("0 0 * * L", 8, ["5L"]),
        ("0 0 * * L5", 8, ["5L"]),
        ("0 0 * * 5#6", 8, ["#1 to #5"]),
        ("5#2 * * * *", 0, ["day-of-week"]),
        ("? * * * *", 0, ["write *"]),
        ("0 0 1,? * *", 4, ["alone"]),
        ("@every 5m", 0, ["no times of the day", "interval_seconds"]),
        ("0 0 * * 5#L", 8, ["'5#L'", "write 5#2"]),
        ("0 5 * * * 2027", 10, ["'2027'", "year", "end_at"]),
        ("CRON_TZ=Europe/Berlin 0 5 * * *", 0, ["`timezone`: Europe/Berlin"]),
        ("TZ=UTC 0 5 * * *", 0, ["`timezone`: UTC"]),
        (" @reboot", 1, ["@reboot", "@daily"]),
        ("@dayly", 0, ["did you mean @daily?"]),
        ("@daily backup", 7, ["stands alone"]),
        ("1,,2 * * * *", 0, ["empty item"]),
        ("-5 * * * *", 0, ["'-5'"]),
        ("*-5 * * * *", 0, ["'*-5'"]),
        ("0 5 * * 1 root", 10, ["day of week", "'root'", "a user or a command"]),
        ("0 5 * * 1 /bin/true", 10, ["'/bin/true'", "a user or a command"]),
        ("0 0 0 1 1 * 2027", 12, ["7 fields", "Years"]),
        ("CRON_TZ=UTC 0 5 * * *", 0, ["timezone"]),
    ],
)
def test_a_line_that_cannot_be_read_says_where_and_what_to_write(line: str, position: int, parts: list[str]) -> None:
    """The field, its place in the line, what was found, and what is allowed or meant."""
    with pytest.raises(CronInvalid) as caught:
        parse(line)
    assert caught.value.position == position
    assert caught.value.pointer == "/cron_expression"
    for part in parts:
        assert part in caught.value.detail
    assert caught.value.hint
    assert caught.value.detail.endswith("; " + caught.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "9" * 1_000_000,
        "* " * 500_000,
        "1," * 200 + "1 * * * *",
        "9" * 240 + " * * * *",
        "*/" + "9" * 240 + " * * * *",
        "0 0 * * 5#" + "9" * 200,
        "٣ * * * *",
        "\uff11 * * * *",
        "² * * * *",
        "* * * *\u00a0* *",
        "* * * * *\0",
        "\0",
        "* * * * *\n",
        "* * * * \x85",
        "%s %n * * *",
        "0 0 * * " + "a" * 200,
        "-1--1 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "/ * * * *",
        "1- * * * *",
    ],
)
def test_hostile_text_is_refused_at_once(text: str) -> None:
    """Whatever comes, the answer is a short `CronInvalid`, and quick: milliseconds, with room for a slow machine."""
    begin = time.thread_time()
    with pytest.raises(CronInvalid) as caught:
        parse(text)
    assert time.thread_time() - begin < 2.0
    assert len(caught.value.detail) < 300
    assert caught.value.detail.isprintable()


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.text("0123456789*/-,#?LWHR@ \t", max_size=30)))
def test_any_text_is_read_or_refused_cleanly(text: str) -> None:
    """No text brings up anything but a line or a `CronInvalid`."""
    try:
        cron = parse(text)
    except CronInvalid as refused:
        assert 0 <= refused.position <= MAX_LENGTH  # noqa: PT017  # both outcomes are fine, each has its own check
    else:
        assert fire_after(cron, at("2026-01-01 00:00"), ZoneInfo("UTC")) is not None
        assert cron.explain()


# --------------------------------------------------------------------------------------- warnings and English


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("0 0 13 * 5", "either"),
        ("0 0 */2 * 1", "both"),
        ("*/7 * * * *", "does not divide"),
        ("0 */5 * * *", "after 20 comes 0"),
        ("*/60 * * * *", "write 0"),
        ("0-5/10 * * * *", "leaves only 0"),
        ("H * * * *", "only an example"),
        ("H/60 * * * *", "write H"),
        ("H/7 * * * *", "does not divide"),
        ("0/5 * * * *", "0-59/5"),
        ("0 0 29 2 *", "less than once a year"),
        ("0 0 * 2 5#5", "less than once a year"),
    ],
)
def test_what_is_probably_not_meant_gets_a_warning(line: str, part: str) -> None:
    """Legal, and worth a second look."""
    assert any(part in warning for warning in parse(line).warnings())


@pytest.mark.parametrize(
    "line",
    ["* * * * *", "*/5 * * * *", "0 0 * * 1-5", "0 0 1 1 *", "0 0 31 12 *", "0 0 L 2 *", "0 0 ? * 5L", "0 0 1 * ?"],
)
def test_an_ordinary_line_gets_no_warning(line: str) -> None:
    """Warnings stay rare, so that they are read."""
    assert parse(line).warnings() == ()


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/5 9-17 * * 1-5", "every 5 minutes from 09:00 to 17:59, Monday to Friday"),
        ("30 2 * * *", "at 02:30"),
        ("0 * * * *", "at minute 0 of every hour"),
        ("5,35 * * * *", "at minutes 5 and 35 of every hour"),
        ("15 */6 * * *", "at 00:15, 06:15, 12:15 and 18:15"),
        ("0 0 1,15 * *", "at 00:00, on day 1 and 15 of the month"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 12 * * 5L", "at 12:00, on the last Friday of the month"),
        ("0 12 * * 5#2", "at 12:00, on the second Friday of the month"),
        ("0 0 13 * 5", "at 00:00, on day 13 of the month and also on Friday"),
        ("0 0 * nov-feb FRI-MON", "at 00:00, Friday to Monday, in November to February"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("5 0 3 * * *", "at 03:00:05"),
    ],
)
def test_a_line_is_told_in_plain_english(line: str, english: str) -> None:
    """What a person would say."""
    assert parse(line).explain() == english


# -------------------------------------------------------------------------------------------------- the corpus


CROWD = Path(__file__).with_name("crontab_lines.txt")
"""Times that stand in public crontabs, the most frequent first."""


def test_every_line_of_public_crontabs_is_read_or_refused_cleanly() -> None:
    """Lines that people really wrote: all but a start at boot are read, explained and fire."""
    refused = {}
    for line in CROWD.read_text(encoding="utf-8").splitlines():
        try:
            cron = parse(line)
        except CronInvalid as error:
            refused[line] = error.detail
            continue
        assert cron.explain()
        assert fire_after(cron, at("2026-03-08 00:00"), ZoneInfo(NEW_YORK)) is not None, line
    assert list(refused) == ["@reboot"], json.dumps(refused, indent=2)
