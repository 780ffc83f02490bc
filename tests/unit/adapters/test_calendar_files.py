"""iCalendar files and holidays become plain days and periods; a file made to do harm comes to an end."""

from __future__ import annotations

import gc
import sys
import time
from datetime import date, datetime
from zoneinfo import ZoneInfo

import icalendar
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tickwise.adapters.calendars import events, plain
from tickwise.adapters.calendars.files import CalendarFiles
from tickwise.domain.calendar.entries import Dates, Period
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.ports.calendars import ENTRIES_MAX, ICS_MAX, DaySpan, Resolved

SPAN = DaySpan(date(2025, 1, 1), date(2036, 12, 31))
READER = CalendarFiles()
BERLIN = "Europe/Berlin"


def file(*events: str, head: str = "") -> str:
    """A file of events, each given by its lines."""
    body = "".join(f"BEGIN:VEVENT\r\n{event.strip()}\r\nEND:VEVENT\r\n" for event in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{head}{body}END:VCALENDAR\r\n".replace("\r\n", "\n").replace(
        "\n", "\r\n"
    )


def ics(*events: str, zone: str = BERLIN, span: DaySpan = SPAN, head: str = "") -> Resolved:
    """What such a file comes to."""
    return READER.ics(file(*events, head=head), zone, span)


def refusal(text: str) -> str:
    """What a text that cannot be taken is answered."""
    with pytest.raises(Invalid) as refused:
        READER.ics(text, "UTC", SPAN)
    assert refused.value.pointer == "/ics"
    assert len(refused.value.detail) < 600
    return refused.value.detail


def days(text: str, to: str | None = None, name: str | None = None) -> Dates:
    """Whole days."""
    return Dates(date.fromisoformat(text), date.fromisoformat(to or text), name)


def period(begin: str, end: str, zone: str = BERLIN, name: str | None = None) -> Period:
    """From one time on a clock to another."""
    first, last = (datetime.fromisoformat(each).replace(tzinfo=ZoneInfo(zone)).timestamp() for each in (begin, end))
    return Period(first, last, name)


# ---------------------------------------------------------------------------------------------------------- events


def test_a_day_is_a_day_wherever_it_is_read() -> None:
    """The end of RFC 5545 is exclusive; a name may be folded, escaped, and on several lines."""
    found = ics(
        "DTSTART;VALUE=DATE:20261225\nSUMMARY:Christ\n mas\\, first day",
        "DTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227",
        "DTSTART;VALUE=DATE:20270101\nDURATION:P2D",
    )
    expected = (
        days("2026-12-24", "2026-12-26"),
        days("2026-12-25", name="Christmas, first day"),
        days("2027-01-01", "2027-01-02"),
    )
    assert Resolved(expected) == found


def test_a_time_is_on_the_clock_of_its_zone_else_of_the_calendar() -> None:
    """UTC, a zone by name, as Windows names it, with a vendor in front, and none at all."""
    found = ics(
        "DTSTART:20261101T100000Z\nDTEND:20261101T110000Z",
        "DTSTART;TZID=America/New_York:20261102T100000\nDURATION:PT30M",
        "DTSTART;TZID=W. Europe Standard Time:20261103T100000\nDURATION:PT30M",
        "DTSTART;TZID=/mozilla.org/20070129_1/America/Argentina/Salta:20261104T100000\nDURATION:PT30M",
        "DTSTART:20261105T100000\nDURATION:PT30M",
        'DTSTART;TZID="/example.com/UTC":20261106T100000\nDURATION:PT30M',
    )
    assert (
        period("2026-11-01 10:00", "2026-11-01 11:00", "UTC"),
        period("2026-11-02 10:00", "2026-11-02 10:30", "America/New_York"),
        period("2026-11-03 10:00", "2026-11-03 10:30", BERLIN),
        period("2026-11-04 10:00", "2026-11-04 10:30", "America/Argentina/Salta"),
        period("2026-11-05 10:00", "2026-11-05 10:30", BERLIN),
        period("2026-11-06 10:00", "2026-11-06 10:30", "UTC"),
    ) == found.entries


def test_a_recurring_event_keeps_its_wall_time_and_its_length() -> None:
    """10:00 in Berlin before and after the change of the clock; 24 hours are a day only if said as one."""
    found = ics("DTSTART;TZID=Europe/Berlin:20261018T100000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=2")
    assert (
        period("2026-10-18 10:00", "2026-10-18 11:00"),
        period("2026-10-25 10:00", "2026-10-25 11:00"),
    ) == found.entries
    found = ics("DTSTART;TZID=Europe/Berlin:20261024T120000\nDURATION:P1D")
    assert (period("2026-10-24 12:00", "2026-10-25 12:00"),) == found.entries
    found = ics(
        "DTSTART;TZID=Europe/Berlin:20261017T120000\nDTEND;TZID=Europe/Berlin:20261018T120000\nRRULE:FREQ=WEEKLY;COUNT=2"
    )
    assert (
        period("2026-10-17 12:00", "2026-10-18 12:00"),
        period("2026-10-24 12:00", "2026-10-25 11:00"),
    ) == found.entries


def test_single_times_are_added_removed_and_moved() -> None:
    """RDATE, EXDATE, and a second event with the same UID that stands for one time of the first."""
    found = ics(
        """UID:a
DTSTART;TZID=Europe/Berlin:20260105T090000
DTEND;TZID=Europe/Berlin:20260105T100000
RRULE:FREQ=DAILY;COUNT=5
EXDATE;TZID=Europe/Berlin:20260106T090000
EXDATE;VALUE=DATE:20260107
RDATE;TZID=Europe/Berlin:20260105T090000,20260110T200000
RDATE;VALUE=PERIOD:20260112T000000Z/PT2H,20260113T000000Z/20260113T030000Z""",
        """UID:a
RECURRENCE-ID;TZID=Europe/Berlin:20260108T090000
DTSTART;TZID=Europe/Berlin:20260108T150000
DTEND;TZID=Europe/Berlin:20260108T160000
SUMMARY:moved""",
        """UID:a
RECURRENCE-ID;TZID=Europe/Berlin:20260109T090000
STATUS:CANCELLED
DTSTART;TZID=Europe/Berlin:20260109T090000""",
    )
    assert (
        period("2026-01-05 09:00", "2026-01-05 10:00"),
        period("2026-01-08 15:00", "2026-01-08 16:00", name="moved"),
        period("2026-01-10 20:00", "2026-01-10 21:00"),
        period("2026-01-12 00:00", "2026-01-12 02:00", "UTC"),
        period("2026-01-13 00:00", "2026-01-13 03:00", "UTC"),
    ) == found.entries


def test_a_rule_ends_with_its_until_on_the_clock_of_the_event() -> None:
    """23:30Z on the 7th is 00:30 on the 8th in Berlin: before the event of that day, but after one at midnight."""
    until = "RRULE:FREQ=DAILY;UNTIL=20260107T233000Z"
    found = ics(f"DTSTART;TZID=Europe/Berlin:20260106T010000\nDURATION:PT1H\n{until}")
    assert len(found.entries) == 2
    found = ics(f"DTSTART;TZID=Europe/Berlin:20260106T000000\nDURATION:PT1H\n{until}")
    assert len(found.entries) == 3


def test_only_what_touches_the_span_is_taken() -> None:
    """An event that lasts into it does, one that ends as it begins does not."""
    span = DaySpan(date(2026, 6, 1), date(2026, 6, 30))
    found = ics(
        "DTSTART;VALUE=DATE:20260501\nDTEND;VALUE=DATE:20260602",
        "DTSTART;VALUE=DATE:20260501\nDTEND;VALUE=DATE:20260601",
        "DTSTART;VALUE=DATE:20260630\nDTEND;VALUE=DATE:20260705",
        "DTSTART;VALUE=DATE:20260701",
        "DTSTART;VALUE=DATE:20000102\nDURATION:P3D\nRRULE:FREQ=MONTHLY;BYMONTHDAY=30",
        span=span,
    )
    assert (
        days("2026-05-01", "2026-06-01"),
        days("2026-05-30", "2026-06-01"),
        days("2026-06-30", "2026-07-02"),
        days("2026-06-30", "2026-07-04"),
    ) == tuple(sorted(found.entries, key=lambda each: (each.first, each.last) if isinstance(each, Dates) else ()))


def test_what_is_left_out_is_told() -> None:
    """Events without length, other zones for whole days, and that nothing was left."""
    found = ics("DTSTART:20200105T090000Z", head="X-WR-TIMEZONE:Asia/Tokyo\r\n")
    assert found.entries == ()
    assert (
        "the file is made for Asia/Tokyo, its whole days are taken as those of Europe/Berlin",
        "1 events without a duration cover no time and were left out",
        "no event falls between 2025-01-01 and 2036-12-31",
    ) == found.warnings


def test_what_we_do_not_use_cannot_do_harm() -> None:
    """Alarms, tasks, properties that are broken, and a zone of rules for every second, which is not carried out."""
    zone = (
        "BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nTZOFFSETFROM:+0200\r\n"
        "TZOFFSETTO:+0500\r\nRRULE:FREQ=SECONDLY;COUNT=1000000000\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"
        "BEGIN:VTODO\r\nDTSTART:nonsense\r\nEND:VTODO\r\n"
    )
    event = """DTSTART;TZID=Europe/Berlin:20260105T090000
DTEND;TZID=Europe/Berlin:20260105T100000
PRIORITY:very
=== not a line of any property
BEGIN:VALARM
TRIGGER:-PT5M
DURATION:nonsense
END:VALARM"""
    assert (period("2026-01-05 09:00", "2026-01-05 10:00"),) == ics(event, head=zone).entries


# --------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "END:VCALENDAR is missing"),
        ("hello", "begins with BEGIN:VCALENDAR"),
        ("\x00\x01\x02", "begins with BEGIN:VCALENDAR"),
        ("\ud800", "half a surrogate pair"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "END:VEVENT is missing"),
        ("BEGIN:VCALENDAR\nEND:VEVENT\n", "line 2: END:VEVENT ends nothing that began"),
        ("BEGIN:VCALENDAR\nEND:VCALENDAR\n", "no event"),
        (file("SUMMARY:x"), "line 3: DTSTART is missing"),
        (file("DTSTART:yesterday"), "line 3: DTSTART: "),
        (file("DTSTART:20261301"), "line 3: DTSTART: "),
        (file("DTSTART:120000"), "no day and no time"),
        (file("DTSTART:00010101T000000Z"), "too far away"),
        (file("DTSTART:99991231T000000Z\nDURATION:P1D"), "too far away"),
        (file("DTSTART:20260101\nDTSTART:20260102"), "DTSTART is given more than once"),
        (file("DTSTART:20260102\nDTEND:20260101"), "ends before it begins"),
        (file("DTSTART;VALUE=DATE:20260102\nDTEND:20260103T000000Z"), "both be days, or both times"),
        (file("DTSTART:20260102T000000Z\nDURATION:-PT1H"), "ends before it begins"),
        (file("DTSTART:20260102T000000Z\nDURATION:P99999999999D"), "DURATION: "),
        (file("DTSTART:20260102T000000Z\nDURATION:P9999999D"), "lasts for more than 36600 days"),
        (file("DTSTART:20260102T000000Z\nRDATE;VALUE=PERIOD:20260101T000000Z/P9999999D"), "more than 36600 days"),
        (file("DTSTART:20260102T000000Z\nRDATE;VALUE=PERIOD:20260102T000000Z/20260101T000000Z"), "before it begins"),
        (file("DTSTART:20260102T000000Z\nDURATION:20260103T000000Z"), "DURATION must be such as PT1H"),
        (file("DTSTART;TZID=Moon/Base:20260101T000000"), "'Moon/Base' is not known; write TZID with an IANA name"),
        (file("DTSTART;TZID=/example.com/Moon/Base:20260101T000000"), "Moon/Base' is not known"),
        (file("DTSTART;TZID=localtime:20260101T000000"), "localtime' is"),
        (file("DTSTART;TZID=Etc/../../etc/passwd:20260101T000000"), "is not known"),
        (file("DTSTART:20260101\nRRULE:FREQ=SECONDLY;COUNT=1000000000"), "write such a window as recurring"),
        (file("DTSTART:20260101\nRRULE:FREQ=DAILY;COUNT=99999999999999999999"), "RRULE: "),
        (file("DTSTART:20260101\nRRULE:COUNT=3"), "FREQ=DAILY, WEEKLY, MONTHLY or YEARLY"),
        (file("DTSTART:20260101\nEXRULE:FREQ=DAILY"), "EXRULE is not supported"),
        (file("DTSTART:20260101\nRECURRENCE-ID;RANGE=THISANDFUTURE:20260101"), "RANGE is not supported"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused_with_its_line(text: str, advice: str) -> None:
    """And with what to write instead."""
    assert advice in refusal(text)


def test_a_file_is_taken_whole_or_not_at_all() -> None:
    """One event that cannot be read, after ten that can."""
    good = ["DTSTART;VALUE=DATE:20260101"] * 10
    assert "line 33: " in refusal(file(*good, "DTSTART:soon"))


# ------------------------------------------------------------------------------------------------------ made to do harm


def test_more_times_than_are_kept_are_cut_at_the_end_with_a_warning() -> None:
    """Three events a day for twelve years: the earliest are kept."""
    every_day = "DTSTART;VALUE=DATE:20000101\nRRULE:FREQ=DAILY"
    found = ics(every_day, every_day, every_day)
    assert ENTRIES_MAX == len(found.entries)
    last = found.entries[-1]
    assert isinstance(last, Dates)
    assert (f"cut after {ENTRIES_MAX} times: events that begin after {last.first} are not covered",) == found.warnings
    assert date(2025, 1, 1).toordinal() + ENTRIES_MAX // 3 == last.first.toordinal()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(file(*["DTSTART:16000101\nRRULE:FREQ=DAILY;COUNT=1000000000"] * 20), id="counted since 1600"),
        pytest.param(file(*["DTSTART:20260101\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"] * 400), id="never comes"),
        pytest.param(
            file(*["DTSTART:20260101\nRRULE:FREQ=YEARLY;BYYEARDAY=59;BYMONTH=3;BYDAY=-1MO"] * 600),
            id="looks at years",
        ),
        pytest.param(file(*["DTSTART:20260101T000000Z\nDURATION:PT1S"] * 20_001), id="too many lines"),
        pytest.param("BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\n" * 70_000, id="nested"),
        pytest.param("BEGIN:VCALENDAR\n" * 50_000 + "END:VCALENDAR\n" * 50_000, id="nested and closed"),
        pytest.param("BEGIN:VCALENDAR\n" + "X" * (ICS_MAX - 20), id="one long line"),
        pytest.param("B" * (ICS_MAX + 1), id="too long"),
        pytest.param(" \n" * 400_000, id="blanks"),
        pytest.param(file("SUMMARY:" + "\n a" * 300_000), id="folded"),
        pytest.param(file("DTSTART" + ";TZID=/a" * 100_000 + ":soon"), id="zones"),
        pytest.param(file("DTSTART" + ";A=b" * 100_000 + ":soon"), id="parameters"),
        pytest.param(file("DTSTART:20260101\nRRULE:FREQ=DAILY;BYDAY=" + "MO," * 200_000 + "XX"), id="weekdays"),
    ],
)
def test_a_hostile_file_is_refused_and_nothing_hangs(text: str) -> None:
    """Each of them is at most a megabyte and takes at most seconds."""
    assert refusal(text)


def test_a_hundred_thousand_exceptions_are_just_exceptions() -> None:
    """Of an event that has one time, which they remove."""
    found = ics("DTSTART:20260101T000000Z\nDURATION:PT1H\nEXDATE:" + "20260101T000000Z," * 50_000 + "20260101T000000Z")
    assert found.entries == ()


@given(
    st.text(max_size=200),
    st.lists(st.sampled_from(["DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "UID"]), max_size=4),
)
@example("FREQ=DAILY;BYDAY=;COUNT=", ["DTSTART", "RRULE"])
def test_any_text_is_read_or_refused(text: str, names: list[str]) -> None:
    """As a whole file, and as the value of what an event says."""
    for whole in (text, file("DTSTART:20260101", *(f"DTSTART:20260101\n{name}:{text}" for name in names))):
        try:
            READER.ics(whole, "UTC", SPAN)
        except Invalid as refused:
            refused.detail.encode()


VALUES = st.sampled_from(
    [
        "20260101", "20260101T000000", "20260101T000000Z", "20260230", "00010101", "99991231", "P1D", "PT1S", "-P1W",
        "FREQ=DAILY", "FREQ=YEARLY;BYDAY=53MO", "FREQ=MONTHLY;BYSETPOS=366", "FREQ=WEEKLY;UNTIL=99991231T235959Z",
        "FREQ=DAILY;UNTIL=00010101", "20260101T000000Z/PT1H", "20260101T000000Z/20250101T000000Z", ",", ";", ":", "\\",
    ]
)  # fmt: skip
PROPERTIES = st.sampled_from(
    [
        "DTSTART", "DTSTART;VALUE=DATE", "DTSTART;TZID=Europe/Berlin", "DTSTART;TZID=", "DTEND", "DURATION", "RRULE",
        "RDATE", "RDATE;VALUE=PERIOD", "EXDATE", "EXDATE;VALUE=DATE", "RECURRENCE-ID", "STATUS", "UID", "SUMMARY",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(PROPERTIES, VALUES), max_size=6), st.sampled_from(["UTC", "Pacific/Apia"]))
def test_any_event_is_read_or_refused(lines: list[tuple[str, str]], zone: str) -> None:
    """Lines that are each nearly right. What is read lies in order and in the span."""
    text = file("DTSTART:20260101T000000Z\nDURATION:PT1H", "\n".join(f"{name}:{value}" for name, value in lines))
    try:
        found = READER.ics(text, zone, SPAN)
    except Invalid:
        return
    assert len(found.entries) <= ENTRIES_MAX
    for each in found.entries:
        assert each.first <= each.last if isinstance(each, Dates) else each.begin < each.end


# --------------------------------------------------------------------------------------------------------- holidays


def test_the_holidays_of_a_part_are_those_of_the_country_and_its_own() -> None:
    """Epiphany is one in Bavaria, and not in all of Germany; the part may be written with its country."""
    whole = READER.holidays("DE", None, SPAN).entries
    part = READER.holidays("DE", "BY", SPAN).entries
    assert days("2026-12-25", name="Christmas Day") in whole
    assert days("2026-01-06", name="Epiphany") in part
    assert set(whole) < set(part)
    assert READER.holidays("de", "DE-BY", SPAN).entries == part
    assert sorted(part, key=lambda each: each.first if isinstance(each, Dates) else date.min) == list(part)
    assert {2025, 2036} <= {each.first.year for each in part if isinstance(each, Dates)}


@pytest.mark.parametrize(
    ("country", "part", "pointer", "advice"),
    [
        ("XX", None, "/holidays/country", "not known; write the days as dates"),
        ("Germany", None, "/holidays/country", "two letters of ISO 3166-1 such as DE"),
        ("", None, "/holidays/country", "two letters"),
        ("ÄÖ", None, "/holidays/country", "two letters"),
        ("DE", "BX", "/holidays/subdivision", "is no part of DE; write such as"),
        ("DE", "", "/holidays/subdivision", "is no part of DE"),
        ("VA", "X", "/holidays/subdivision", "leave the subdivision out"),
    ],
)
def test_an_unknown_country_or_part_is_refused_with_advice(
    country: str, part: str | None, pointer: str, advice: str
) -> None:
    """By the field at fault."""
    with pytest.raises(Invalid, match=advice) as refused:
        READER.holidays(country, part, SPAN)
    assert pointer == refused.value.pointer


def test_without_the_libraries_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of failing where nobody expects it."""
    for name in ("holidays", "icalendar", "tickwise.adapters.calendars.events"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delattr("tickwise.adapters.calendars.events", raising=False)
    monkeypatch.setitem(sys.modules, "holidays", None)
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(Misconfigured, match=r"pip install 'tickwise\[calendars\]'"):
        READER.holidays("DE", None, SPAN)
    with pytest.raises(Misconfigured, match=r"pip install 'tickwise\[calendars\]'"):
        READER.ics(file("DTSTART:20260101"), "UTC", SPAN)


# ---------------------------------------------------------------------------------------------------- plain events

_WRITTEN = st.sampled_from(
    [
        "DTSTART;VALUE=DATE:20261225", "DTSTART:20261025T023000", "DTSTART;TZID=Europe/Berlin:20260329T023000",
        "DTSTART;TZID=America/New_York:20261101T013000", "DTSTART;TZID=Asia/Kolkata:20260101T000000",
        "DTSTART:20261225T100000Z", "DTSTART:20261325T100000Z", "DTSTART;TZID=Europe/Nowhere:20261225T100000",
        "DTSTART;TZID=Etc/UTC:20261225T100000", "DTSTART;TZID=UTC:20261225T100000Z", "DTSTART:20261225",
        "dtstart:20261225T100000", "DTSTART;VALUE=DATE:15820101", "DTSTART:20261225T240000", "DTSTART:20261225T100060Z",
    ]
)  # fmt: skip
_ENDED = st.sampled_from(
    [
        "DTEND;VALUE=DATE:20261227", "DTEND:20261225T110000Z", "DTEND;TZID=Europe/Berlin:20261225T110000",
        "DTEND:20201225T110000Z", "DTEND:29991225T110000Z", "DURATION:PT30M", "DURATION:P1D", "DURATION:P1W",
        "DURATION:PT1H30M5S", "DURATION:P1DT2H", "DURATION:-PT5M", "DURATION:P", "DURATION:PT", "DURATION:PT24H",
        "DURATION:P0D", "DURATION:P99999D",
    ]
)  # fmt: skip
_OTHER = st.sampled_from(
    [
        "UID:a", "UID:", "SUMMARY:a\\, b", "SUMMARY:closed: all; day", "SUMMARY;LANGUAGE=de:zu", "SUMMARY:",
        "SUMMARY:  x ", "SUMMARY:\x07\u202e", 'SUMMARY:"quoted"', "SUMMARY:a:b", "SUMMARY:a\\nb\\N c\\; d",
        "SUMMARY:\\\\n", "SUMMARY:100%2C", "SUMMARY:\\,\\,", "STATUS:CANCELLED", "STATUS:cancelled", "STATUS:CONFIRMED",
        "RRULE:FREQ=DAILY;COUNT=3", "RRULE:FREQ=WEEKLY;BYDAY=MO,FR;UNTIL=20270101T000000Z", "RRULE:FREQ=HOURLY",
        "RRULE:nothing", "RRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", "EXDATE:20261226T100000Z", "RRULE:",
        "EXDATE:20261226T100000Z,20261227T100000Z", "EXDATE;VALUE=DATE:20261226", "EXDATE;VALUE=DATE:20261225,20261226",
        "EXDATE;TZID=Europe/Berlin:20261226T110000", "EXDATE;TZID=Europe/Nowhere:20261226T110000", "EXDATE:", "EXDATE",
        "EXDATE:20261226T100000Z,", "EXDATE:nothing", "EXDATE;X=1:20261226T100000Z", "EXDATE:15820101T000000Z",
        "SUMMARY;LANGUAGE=en-GB:a\\, b", "SUMMARY;LANGUAGE=:x", "SUMMARY;LANGUAGE=de;X=1:x", "UID;LANGUAGE=de:x",
    ]
)  # fmt: skip


@given(st.lists(st.one_of(_WRITTEN, _ENDED, _OTHER), max_size=6))
@example(["DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261225"])
def test_an_event_that_is_read_without_the_library_is_read_as_by_it(lines: list[str]) -> None:
    """Times, names, what is cut and what is refused, and with which words."""

    def read() -> Resolved | str:
        try:
            return ics("\n".join(lines))
        except Invalid as refused:
            return refused.detail

    with pytest.MonkeyPatch.context() as patched:
        quick = read()
        patched.setattr(plain, "read", lambda *_: None)
        assert read() == quick


def test_plain_events_need_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes ten times as long: thousands of them held up a thread for seconds."""

    def refused(*_: object) -> object:
        raise AssertionError("an event in plain writing went to the library")

    monkeypatch.setattr(icalendar.Event, "from_ical", refused)
    found = ics(
        "UID:1\nDTSTART;TZID=Europe/Berlin:20261101T100000\nDTEND;TZID=Europe/Berlin:20261101T110000\nSUMMARY:a",
        "UID:2\nDTSTART;VALUE=DATE:20261102\nSTATUS:CONFIRMED",
        "UID:3\nDTSTART:20261103T100000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=2",
        "UID:4\nDTSTART:20261103T100000Z\nDURATION:PT1H\nSUMMARY;LANGUAGE=de:zu\nRRULE:FREQ=DAILY;COUNT=3\n"
        "EXDATE:20261104T100000Z\nEXDATE:20261105T100000Z",
    )
    assert 5 == len(found.entries)


def test_events_that_need_the_library_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of thousands of them is refused with what they are; plain ones do not count."""
    monkeypatch.setattr(events, "LIBRARY_LINES_MAX", 4)
    plainly = "DTSTART:20261103T100000Z\nDURATION:PT1H"
    moved = "DTSTART:20261103T100000Z\nRDATE:20261104T100000Z"
    assert 10 == len(ics(*[plainly] * 10, moved, moved).entries)
    assert "have more than 4 lines" in refusal(file(moved, moved, moved))


def test_plain_events_cost_a_part_of_those_that_need_the_library() -> None:
    """Processor time of this thread, both in turn: an API process reads what a stranger sends."""
    text = file(*[f"UID:{number}\nDTSTART:20261103T100000Z\nDURATION:PT1H\nSUMMARY:a" for number in range(400)])

    def seconds() -> float:
        before = time.thread_time()
        READER.ics(text, "UTC", SPAN)
        return time.thread_time() - before

    quick, slow = [], []
    collects = gc.isenabled()
    # A collection takes as long as all that other tests have left is large, and falls on either of the two.
    gc.disable()
    try:
        for _ in range(15):
            quick.append(seconds())
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(plain, "read", lambda *_: None)
                slow.append(seconds())
    finally:
        if collects:
            gc.enable()
    assert min(slow) > 6.0 * min(quick)


def test_rules_that_yield_nothing_come_to_an_end() -> None:
    """A file of rules for a day that never comes is refused long before they are followed to the end."""
    rule = "DTSTART:15830101T000000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"
    before = time.thread_time()
    assert "come to too many times" in refusal(file(*[rule] * 1_000))
    assert time.thread_time() - before < 3.0
