"""Calendars as people write them: read with a pointer to whatever is wrong, and stored so that nothing is lost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from tickwise.documents.calendars import (
    CalendarBody,
    StoredCalendar,
    decode_calendar,
    encode_calendar,
    read_calendar,
    span_from,
    written,
)
from tickwise.domain.calendar.rules import Calendar, Dates, Period, Recurring, Weekly
from tickwise.domain.errors import Invalid
from tickwise.ports.calendars import ENTRIES_MAX, CalendarReader, DaySpan, Resolved

NOW = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
MORNING = datetime(2026, 12, 1, 6, 30, 0, 250_000, tzinfo=UTC).timestamp()


class Answers(CalendarReader):
    """A reader with its answers laid down, and what it was asked."""

    def __init__(self, *entries: Dates | Period, warnings: tuple[str, ...] = ()) -> None:
        self.answer = Resolved(entries, warnings)
        self.asked: list[tuple[Any, ...]] = []

    def ics(self, text: str, timezone: str, span: DaySpan) -> Resolved:
        self.asked.append((text, timezone, span))
        return self.answer

    def holidays(self, country: str, subdivision: str | None, span: DaySpan) -> Resolved:
        self.asked.append((country, subdivision, span))
        return self.answer


def read(said: Mapping[str, Any], reader: CalendarReader | None = None, pointer: str = "") -> StoredCalendar:
    """What a JSON object comes to."""
    body = msgspec.convert(dict(said), CalendarBody)
    return read_calendar(body, reader or Answers(), now=NOW, pointer=pointer)


SAID = {
    "timezone": "Europe/Berlin",
    "dates": ["2026-12-25", {"from": "2026-12-24", "to": "2027-01-01", "name": "Break"}, {"from": "2026-05-01"}],
    "weekly": [{"days": ["mon", "TUE"], "from": "09:00", "to": "17:30:15"}, {"days": ["sun"], "name": "rest"}],
    "recurring": [{"cron": "0 22 * * 6", "duration": "1h30m"}],
    "periods": [{"from": "2026-12-01T07:30:00.25+01:00", "to": "2026-12-02T00:00:00Z", "name": "move"}],
}
MEANT = Calendar(
    "Europe/Berlin",
    (
        Dates(date(2026, 12, 25), date(2026, 12, 25)),
        Dates(date(2026, 12, 24), date(2027, 1, 1), "Break"),
        Dates(date(2026, 5, 1), date(2026, 5, 1)),
        Weekly(frozenset({0, 1}), 32_400, 63_015),
        Weekly(frozenset({6}), 0, 86_400, "rest"),
        Recurring("0 22 * * 6", 5_400),
        Period(MORNING, datetime(2026, 12, 2, tzinfo=UTC).timestamp(), "move"),
    ),
)


def test_each_kind_of_entry_is_read() -> None:
    """In all forms that they may have."""
    assert StoredCalendar(MEANT, msgspec.convert(SAID, CalendarBody)) == read(SAID)


def test_what_is_stored_is_what_was_said_and_what_it_means() -> None:
    """Also with names of any script, and microseconds."""
    stored = read({**SAID, "dates": [{"from": "2026-12-25", "name": 'Ünïcode 🎄 \\ " \x01'}]})
    assert stored == decode_calendar(encode_calendar(stored))


def test_a_written_calendar_is_read_as_the_same() -> None:
    """In the words of a body, resolved."""
    body = msgspec.to_builtins(written(MEANT))
    assert {"days": ["sun"], "from": "00:00", "to": "24:00", "name": "rest"} == body["weekly"][1]
    assert {"cron": "0 22 * * 6", "duration": "1h30m"} == body["recurring"][0]
    assert MEANT == read(body).calendar


def test_files_and_holidays_are_asked_once_for_the_years_that_matter() -> None:
    """From last year to ten years on; what they say is stored, with their warnings."""
    holiday, meeting = Dates(date(2026, 1, 1), date(2026, 1, 1), "New Year"), Period(MORNING, MORNING + 60)
    reader = Answers(meeting, holiday, warnings=("cut",))
    said = {"timezone": "UTC", "holidays": {"country": "DE", "subdivision": "BY"}, "ics": "BEGIN:VCALENDAR"}
    stored = read(said, reader)
    span = DaySpan(date(2025, 1, 1), date(2036, 12, 31))
    assert span == span_from(NOW)
    assert [("DE", "BY", span), ("BEGIN:VCALENDAR", "UTC", span)] == reader.asked
    assert (holiday, holiday, meeting, meeting) == stored.calendar.entries
    assert ("cut", "cut") == stored.warnings
    assert stored == decode_calendar(encode_calendar(stored))
    assert said == msgspec.to_builtins(stored.said) | {"timezone": "UTC"}


def test_as_many_entries_as_files_may_have_can_be_stored() -> None:
    """More than people may write themselves."""
    many = [Period(MORNING + number, MORNING + number + 0.5, "x") for number in range(ENTRIES_MAX)]
    stored = read({"ics": "BEGIN:VCALENDAR"}, Answers(*many))
    assert stored == decode_calendar(encode_calendar(stored))


def test_a_file_in_which_nothing_is_left_is_kept_with_its_warning() -> None:
    """It may be last year's; nothing at all is refused."""
    assert read({"ics": "BEGIN:VCALENDAR"}, Answers(warnings=("no event",))).calendar.entries == ()
    with pytest.raises(Invalid, match="needs dates, weekly, recurring, periods, holidays or ics") as refused:
        read({}, pointer="/when")
    assert refused.value.pointer == "/when"


@pytest.mark.parametrize(
    ("said", "pointer", "advice"),
    [
        ({"timezone": "Europe/Berln"}, "/timezone", "did you mean Europe/Berlin"),
        ({"dates": ["2026-02-30"]}, "/dates/0", "2026-02-30 is no day"),
        ({"dates": ["2026-01-01", "25.12.2026"]}, "/dates/1", "write such as 2026-12-25"),
        ({"dates": ["0001-01-01"]}, "/dates/0", "from 1900 to 9000"),
        ({"dates": ["20261225"]}, "/dates/0", "write such as 2026-12-25"),
        ({"dates": ["٢٠٢٦-١٢-٢٥"]}, "/dates/0", "write such as 2026-12-25"),
        ({"dates": [{"from": "x"}]}, "/dates/0/from", "write such as 2026-12-25"),
        ({"dates": [{"from": "2026-12-25", "to": "x"}]}, "/dates/0/to", "write such as 2026-12-25"),
        ({"dates": [{"from": "2026-12-25", "to": "2026-12-24"}]}, "/dates/0/to", "before the first"),
        ({"weekly": [{"days": ["mon", "Montag"]}]}, "/weekly/0/days/1", "write one of mon, tue, wed"),
        ({"weekly": [{"days": ["mon"], "from": "9"}]}, "/weekly/0/from", "write such as 09:00"),
        ({"weekly": [{"days": ["mon"], "from": "24:00"}]}, "/weekly/0/from", "00:00 of the next day"),
        ({"weekly": [{"days": ["mon"], "to": "24:01"}]}, "/weekly/0/to", "at most 24:00"),
        ({"weekly": [{"days": ["mon"], "to": "12:60"}]}, "/weekly/0/to", "write such as 09:00"),
        ({"weekly": [{"days": ["mon"], "name": "a\0b"}]}, "/weekly/0/name", "cannot be stored"),
        ({"dates": ["2026-12-24", {"from": "2026-12-25", "name": "\0"}]}, "/dates/1/name", "cannot be stored"),
        ({"recurring": [{"cron": "61 * * * *", "duration": "2h"}]}, "/recurring/0/cron", "minute"),
        ({"recurring": [{"cron": "@reboot", "duration": "2h"}]}, "/recurring/0/cron", "@reboot"),
        ({"recurring": [{"cron": "0 0 * * *", "duration": "32d"}]}, "/recurring/0/duration", "at most 31d"),
        ({"recurring": [{"cron": "0 0 * * *", "duration": "0s"}]}, "/recurring/0/duration", "such as 90s"),
        ({"recurring": [{"cron": "0 0 * * *", "duration": ""}]}, "/recurring/0/duration", "such as 90s"),
        ({"recurring": [{"cron": "0 0 * * *", "duration": "2 h"}]}, "/recurring/0/duration", "such as 90s"),
        ({"periods": [{"from": "2026-12-25", "to": "2026-12-26T00:00:00Z"}]}, "/periods/0/from", "with its offset"),
        ({"periods": [{"from": "2026-12-25T00:00:00Z", "to": "2026-12-26T00:00:00"}]}, "/periods/0/to", "offset"),
        ({"periods": [{"from": "2026-12-25T00:00:00Z", "to": "2026-12-26T25:00:00Z"}]}, "/periods/0/to", "is no time"),
        ({"periods": [{"from": "2026-12-25T00:00:00Z", "to": "2026-12-25T00:00:00Z"}]}, "/periods/0/to", "a later to"),
    ],
)
def test_what_is_wrong_is_pointed_at(said: dict[str, Any], pointer: str, advice: str) -> None:
    """By itself, and as a part of a maintenance window; with what to write."""
    for outside in ("", "/when"):
        with pytest.raises(Invalid, match=advice) as refused:
            read(said, pointer=outside)
        assert outside + pointer == refused.value.pointer
