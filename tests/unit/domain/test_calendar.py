"""What a calendar promises: it covers what people would say that it covers, also where the clock changes; and a
deferred fire lands on the first moment that all rules allow."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tickwise.domain.calendar.rules import (
    ALLOWED,
    SEARCH_LOOKS,
    Allowed,
    Calendar,
    CalendarMode,
    CalendarRule,
    Closed,
    ClosedReason,
    Dates,
    Entry,
    Otherwise,
    Period,
    Recurring,
    ScheduleRules,
    Weekly,
    Window,
    covers,
    end_of_cover,
    next_cover,
)
from tickwise.domain.cron.expression import Cron
from tickwise.domain.errors import CronInvalid, Invalid

BERLIN, NEW_YORK, APIA, LORD_HOWE = "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"
HOUR, DAY = 3_600.0, 86_400.0
MONDAY, SATURDAY, SUNDAY = 0, 5, 6


def at(text: str, zone: str = BERLIN, fold: int = 0) -> float:
    """The instant at which a clock shows a time such as `2026-12-25 10:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def day(text: str, to: str | None = None, name: str | None = None) -> Dates:
    """Whole days."""
    return Dates(date.fromisoformat(text), date.fromisoformat(to or text), name)


def hours(days: str, begin: float, end: float) -> Weekly:
    """Weekly hours; `days` are numbers such as `0134`."""
    return Weekly(frozenset(int(each) for each in days), int(begin * HOUR), int(end * HOUR))


def cover_of(calendar: Calendar, instant: float) -> tuple[float, float] | None:
    """Begin and end of what covers an instant."""
    found = covers(calendar, instant)
    return None if found is None else (found.begin, found.end)


def closed(rules: ScheduleRules, nominal: float) -> Closed:
    """The verdict, where it must be no."""
    verdict = rules.verdict(nominal)
    assert isinstance(verdict, Closed)
    return verdict


# ---------------------------------------------------------------------------------------------------- whole days


@pytest.mark.parametrize(
    ("zone", "text", "length"),
    [
        (BERLIN, "2026-12-25", 24),
        (BERLIN, "2026-03-28", 24),  # the days around a change have nothing to do with it
        (BERLIN, "2026-03-29", 23),
        (BERLIN, "2026-03-30", 24),
        (BERLIN, "2026-10-24", 24),
        (BERLIN, "2026-10-25", 25),
        (LORD_HOWE, "2026-04-05", 24.5),
        (LORD_HOWE, "2026-10-04", 23.5),
        ("America/Sao_Paulo", "2018-11-04", 23),  # midnight itself is skipped
        ("America/Havana", "2026-11-01", 25),  # midnight comes twice
    ],
)
def test_a_day_is_as_long_as_the_clock_makes_it(zone: str, text: str, length: float) -> None:
    """From its first moment to its last: 23 and 25 hours where the clock changes."""
    calendar = Calendar(zone, (day(text),))
    begin, end = cover_of(calendar, at(f"{text} 12:00", zone)) or (0.0, 0.0)
    assert length * HOUR == end - begin
    assert covers(calendar, begin - 1) is None
    assert covers(calendar, end) is None


def test_a_day_that_the_clock_skips_covers_nothing() -> None:
    """Samoa had no 30 December 2011; the days around it are what they were."""
    skipped = Calendar(APIA, (day("2011-12-30"),))
    assert next_cover(skipped, at("2011-12-01 00:00", APIA)) is None
    around = Calendar(APIA, (day("2011-12-29", "2011-12-31"),))
    begin, end = cover_of(around, at("2011-12-29 12:00", APIA)) or (0.0, 0.0)
    assert 2 * DAY == end - begin


# ---------------------------------------------------------------------------------------------------- weekly hours


def test_weekly_hours_are_those_of_the_wall_clock_all_year() -> None:
    """09:00 to 17:00 begins at 08:00 UTC in winter and at 07:00 UTC in summer, and not on other days."""
    office = Calendar(BERLIN, (hours("01234", 9, 17),))
    for text in ("2026-01-15", "2026-07-15"):
        assert (at(f"{text} 09:00"), at(f"{text} 17:00")) == cover_of(office, at(f"{text} 09:00"))
        assert covers(office, at(f"{text} 17:00")) is None
        assert covers(office, at(f"{text} 08:59:59")) is None
    assert covers(office, at("2026-01-17 12:00")) is None


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    """Saturday 22:00 to 04:00 covers Sunday's early hours, and not Saturday's."""
    night = Calendar(BERLIN, (hours(str(SATURDAY), 22, 4),))
    assert (at("2026-11-21 22:00"), at("2026-11-22 04:00")) == cover_of(night, at("2026-11-22 03:59"))
    assert covers(night, at("2026-11-21 03:00")) is None


@pytest.mark.parametrize("end", [0, 24])
def test_midnight_as_an_end_is_the_end_of_the_day(end: int) -> None:
    """00:00 and 24:00 say the same."""
    evening = Calendar(BERLIN, (hours("0", 22, end),))
    assert (at("2026-11-23 22:00"), at("2026-11-24 00:00")) == cover_of(evening, at("2026-11-23 23:00"))


def test_the_same_begin_and_end_is_a_whole_day() -> None:
    """06:00 to 06:00 lasts until the next morning."""
    shift = Calendar(BERLIN, (hours("0", 6, 6),))
    assert (at("2026-11-23 06:00"), at("2026-11-24 06:00")) == cover_of(shift, at("2026-11-24 05:00"))


def test_hours_that_the_clock_skips_in_part_hold_the_rest() -> None:
    """Of 02:30 to 04:00 there is 03:00 to 04:00 on the day on which 02:00 becomes 03:00."""
    window = Calendar(BERLIN, (hours(str(SUNDAY), 2.5, 4),))
    assert (at("2026-03-29 03:00"), at("2026-03-29 04:00")) == cover_of(window, at("2026-03-29 03:10"))


def test_hours_that_the_clock_skips_whole_come_a_week_later() -> None:
    """02:15 to 02:45 is not there on that Sunday."""
    window = Calendar(BERLIN, (hours(str(SUNDAY), 2.25, 2.75),))
    found = next_cover(window, at("2026-03-28 12:00"))
    assert found is not None
    assert (at("2026-04-05 02:15"), at("2026-04-05 02:45")) == (found.begin, found.end)


def test_hours_that_are_repeated_hold_both_passes() -> None:
    """02:00 to 03:00 lasts two hours on the day on which 03:00 becomes 02:00."""
    window = Calendar(BERLIN, (hours(str(SUNDAY), 2, 3),))
    begin, end = cover_of(window, at("2026-10-25 02:30", fold=1)) or (0.0, 0.0)
    assert (at("2026-10-25 02:00"), at("2026-10-25 03:00")) == (begin, end)
    assert 2 * HOUR == end - begin


# ------------------------------------------------------------------------------------ cron windows, periods, unions


def test_a_cron_window_lasts_for_its_duration_of_real_time() -> None:
    """Two hours from Saturday 22:00; three from 01:00 end at 05:00 where the clock skips an hour."""
    saturdays = Calendar(BERLIN, (Recurring("0 22 * * 6", 2 * 3_600),))
    assert (at("2026-11-21 22:00"), at("2026-11-22 00:00")) == cover_of(saturdays, at("2026-11-21 23:59"))
    assert covers(saturdays, at("2026-11-22 00:00")) is None
    nights = Calendar(BERLIN, (Recurring("0 1 * * *", 3 * 3_600),))
    assert (at("2026-03-29 01:00"), at("2026-03-29 05:00")) == cover_of(nights, at("2026-03-29 04:30"))


def test_of_overlapping_entries_the_one_that_lasts_longest_is_named() -> None:
    """Short ones inside a long one do not hide it."""
    long = Period(at("2026-12-01 00:00"), at("2026-12-31 00:00"), "freeze")
    calendar = Calendar(BERLIN, (day("2026-12-02"), long, day("2026-12-10"), hours("0123456", 8, 9)))
    for text in ("2026-12-02 12:00", "2026-12-10 08:30", "2026-12-30 08:30"):
        found = covers(calendar, at(text))
        assert found is not None
        assert long == found.entry
    office = hours("01234", 9, 17)
    found = covers(
        Calendar(BERLIN, (Period(at("2026-12-01 10:00"), at("2026-12-01 10:30")), office)), at("2026-12-01 10:15")
    )
    assert found is not None
    assert office == found.entry


def test_the_end_of_a_cover_is_the_end_of_all_that_follow_on_each_other() -> None:
    """A holiday on Friday, the weekend and a period into Monday are one time."""
    calendar = Calendar(
        BERLIN,
        (
            day("2026-12-25"),
            hours(f"{SATURDAY}{SUNDAY}", 0, 24),
            Period(at("2026-12-28 00:00"), at("2026-12-28 06:30")),
            hours(str(MONDAY), 5, 7),
        ),
    )
    assert at("2026-12-28 07:00") == end_of_cover(calendar, at("2026-12-25 10:00"))
    assert at("2026-12-24 10:00") == end_of_cover(calendar, at("2026-12-24 10:00"))


def test_the_next_cover_is_the_present_one_or_the_first_to_come() -> None:
    """And none if it begins only at or after the time up to which it is looked for."""
    calendar = Calendar(BERLIN, (day("2026-12-25"), day("2026-12-31")))
    for text in ("2026-12-24 10:00", "2026-12-25 10:00"):
        found = next_cover(calendar, at(text))
        assert found is not None
        assert at("2026-12-25 00:00") == found.begin
    assert next_cover(calendar, at("2026-12-24 10:00"), until=at("2026-12-25 00:00")) is None
    assert next_cover(calendar, at("2027-01-01 00:00")) is None


def test_an_empty_calendar_covers_nothing() -> None:
    """So a job that includes it never runs, and says so instead of searching for long."""
    empty = Calendar()
    assert covers(empty, 0.0) is None
    verdict = closed(ScheduleRules((CalendarRule("none", empty, CalendarMode.INCLUDE, Otherwise.DEFER),)), 0.0)
    assert (None, math.inf) == (verdict.opens, verdict.until)


@pytest.mark.parametrize("instant", [-1e15, 1e15, -62_135_596_800.0, 253_402_300_799.0, math.inf, -math.inf])
def test_beyond_the_years_that_have_dates_nothing_is_covered(instant: float) -> None:
    """And nothing fails."""
    calendar = Calendar(BERLIN, (hours("0123456", 0, 24), Recurring("* * * * *", 60), day("9000-01-01")))
    assert covers(calendar, instant) is None
    assert next_cover(calendar, instant) is None
    assert ALLOWED == ScheduleRules((CalendarRule("all", calendar),)).verdict(instant)


def test_an_unknown_zone_or_cron_line_is_refused() -> None:
    """At the first question, with advice."""
    with pytest.raises(Invalid, match="did you mean Europe/Berlin"):
        covers(Calendar("Europe/Berln"), 0.0)
    with pytest.raises(CronInvalid):
        covers(Calendar("UTC", (Recurring("61 * * * *", 60),)), 0.0)


# ------------------------------------------------------------------------------------------------------- verdicts

HOLIDAYS = Calendar(BERLIN, (day("2026-12-25", name="Christmas Day"), day("2026-12-26", name="Boxing Day")))
OFFICE = Calendar(BERLIN, (hours("01234", 9, 17),))


def test_without_rules_everything_is_allowed() -> None:
    """And outside of what is excluded, or inside of what is included, too."""
    assert Allowed() == ScheduleRules().verdict(at("2026-12-25 10:00"))
    assert ALLOWED == ScheduleRules((CalendarRule("holidays", HOLIDAYS),)).verdict(at("2026-12-27 00:00"))
    assert ALLOWED == ScheduleRules((CalendarRule("office", OFFICE, CalendarMode.INCLUDE),)).verdict(
        at("2026-12-23 09:00")
    )


def test_an_excluded_day_says_which_one_it_is() -> None:
    """With the name of the calendar, the day and its name, and when it opens."""
    verdict = closed(ScheduleRules((CalendarRule("de-holidays", HOLIDAYS),)), at("2026-12-25 10:00"))
    assert (
        Closed(
            reason=ClosedReason.CALENDAR,
            name="de-holidays",
            otherwise=Otherwise.SKIP,
            until=at("2026-12-26 00:00"),
            opens=at("2026-12-27 00:00"),
            sentence="excluded by the calendar de-holidays: 2026-12-25 Christmas Day",
        )
        == verdict
    )


def test_included_hours_that_are_no_holiday_are_where_a_deferred_fire_goes() -> None:
    """Inside of what is included and outside of what is excluded: after Christmas on Friday comes Monday morning."""
    rules = ScheduleRules(
        (
            CalendarRule("holidays", HOLIDAYS, CalendarMode.EXCLUDE, Otherwise.DEFER),
            CalendarRule("office", OFFICE, CalendarMode.INCLUDE, Otherwise.DEFER),
        )
    )
    verdict = closed(rules, at("2026-12-24 18:00"))
    assert ("office", Otherwise.DEFER) == (verdict.name, verdict.otherwise)
    assert at("2026-12-28 09:00") == verdict.opens
    assert verdict.sentence == "outside the calendar office"


def test_several_included_calendars_must_all_allow() -> None:
    """The first of the month and office hours: both."""
    firsts = Calendar(BERLIN, (Recurring("0 0 1 * *", 86_400),))
    rules = ScheduleRules(
        (CalendarRule("firsts", firsts, CalendarMode.INCLUDE), CalendarRule("office", OFFICE, CalendarMode.INCLUDE))
    )
    assert ALLOWED == rules.verdict(at("2026-12-01 10:00"))
    assert at("2026-12-01 09:00") == closed(rules, at("2026-11-20 10:00")).opens
    assert at("2027-01-01 09:00") == closed(rules, at("2026-12-01 17:00")).opens


def test_a_maintenance_window_is_named_before_a_calendar() -> None:
    """With what people said it is for."""
    window = Window("db-upgrade", Calendar(BERLIN, (day("2026-12-25"),)), reason="PostgreSQL 19")
    verdict = closed(ScheduleRules((CalendarRule("holidays", HOLIDAYS),), (window,)), at("2026-12-25 10:00"))
    assert (ClosedReason.MAINTENANCE, "db-upgrade") == (verdict.reason, verdict.name)
    assert verdict.sentence == "in the maintenance window db-upgrade: PostgreSQL 19 (2026-12-25)"


@pytest.mark.parametrize(
    ("calendar", "window", "expected"),
    [
        (Otherwise.DEFER, Otherwise.DEFER, Otherwise.DEFER),
        (Otherwise.DEFER, Otherwise.SKIP, Otherwise.SKIP),
        (Otherwise.SKIP, Otherwise.DEFER, Otherwise.SKIP),
    ],
)
def test_it_is_deferred_only_if_all_that_close_say_so(
    calendar: Otherwise, window: Otherwise, expected: Otherwise
) -> None:
    """One skip is enough; a rule that does not close has no say."""
    rules = ScheduleRules(
        (
            CalendarRule("holidays", HOLIDAYS, CalendarMode.EXCLUDE, calendar),
            CalendarRule("office", OFFICE, CalendarMode.EXCLUDE, Otherwise.SKIP),
        ),
        (Window("work", Calendar(BERLIN, (day("2026-12-26"),)), action=window),),
    )
    assert expected == closed(rules, at("2026-12-26 10:00")).otherwise


def test_a_window_concerns_jobs_that_have_all_of_its_labels() -> None:
    """Without labels, every job."""
    window = Window("w", HOLIDAYS, {"team": "data", "tier": "1"})
    assert window.concerns({"team": "data", "tier": "1", "more": "x"})
    assert not window.concerns({"team": "data"})
    assert not window.concerns({"team": "data", "tier": "2"})
    assert Window("w", HOLIDAYS).concerns({})


def test_many_windows_are_searched_no_longer_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes a thousand of them, one beginning as the other ends, holds up nobody else's schedules."""
    looks = 0
    real = Window.closed_until

    def closed_until(window: Window, instant: float) -> float | None:
        nonlocal looks
        looks += 1
        return real(window, instant)

    monkeypatch.setattr(Window, "closed_until", closed_until)
    morning, evening = (Calendar("UTC", (Recurring(cron, 43_200, None),)) for cron in ("0 0 * * *", "0 12 * * *"))
    windows = tuple(Window(f"window {number}", (morning, evening)[number % 2]) for number in range(1_000))
    assert ScheduleRules(windows=windows).opens(at("2026-12-25 10:00")) is None
    assert looks <= SEARCH_LOOKS + 2 * len(windows)


def test_what_never_opens_is_not_searched_for_without_end() -> None:
    """Always closed in several ways; also where closed times follow on each other every second."""
    for entry in (
        hours("0123456", 0, 24),
        Recurring("* * * * * *", 1),
        Recurring("0 0 * * *", 31 * 86_400),
        Period(at("2000-01-01 00:00"), at("2100-01-01 00:00")),
    ):
        rules = ScheduleRules(
            (CalendarRule("always", Calendar(BERLIN, (entry,)), CalendarMode.EXCLUDE, Otherwise.DEFER),)
        )
        assert closed(rules, at("2026-12-25 10:00")).opens is None


def test_every_occurrence_of_a_closed_time_gets_the_answer_of_the_first() -> None:
    """The search is remembered; at its edges it is made anew, whatever the order in which is asked."""
    rules = ScheduleRules((CalendarRule("holidays", HOLIDAYS),))
    for text in ("2026-12-25 10:00", "2026-12-26 23:59", "2026-12-25 00:00", "2026-12-25 10:00"):
        assert at("2026-12-27 00:00") == closed(rules, at(text)).opens
    assert ALLOWED == rules.verdict(at("2026-12-24 23:59"))
    assert at("2026-12-24 23:59") == rules.opens(at("2026-12-24 23:59"))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (Weekly(frozenset({0, 1, 2, 4}), 32_400, 61_230, "desk"), "mon-wed, fri 09:00 to 17:00:30 desk"),
        (Recurring("0 22 * * *", 90_061), "1d1h1m1s from 2026-11-20 22:00 on, by '0 22 * * *'"),
        (Period(at("2026-11-20 10:00"), at("2026-11-21 12:30"), "move"), "2026-11-20 10:00 to 2026-11-21 12:30 move"),
        (Period(at("2026-11-20 10:00"), at("2026-11-20 23:30")), "2026-11-20 10:00 to 23:30"),
        (day("2026-11-20", "2026-11-22", "trip"), "2026-11-20 to 2026-11-22 trip"),
    ],
)
def test_an_entry_is_told_in_words(entry: Entry, text: str) -> None:
    """In the words and on the clock of the calendar."""
    rules = ScheduleRules((CalendarRule("c", Calendar(BERLIN, (entry,))),))
    nominal = at("2026-11-21 10:00") if isinstance(entry, Recurring) else at("2026-11-20 10:00")
    assert f"excluded by the calendar c: {text}" == closed(rules, nominal).sentence


# ------------------------------------------------------------------------------------------------------- properties

ZONES = st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "UTC", "America/Havana", "Africa/Casablanca"])
# The two weeks around a change in most of them, and a quiet one.
FIRST_DAYS = st.sampled_from(
    [date(2026, 3, 1), date(2026, 3, 22), date(2026, 10, 18), date(2026, 10, 28), date(2026, 6, 1)]
)
QUARTERS = st.integers(0, 95).map(lambda quarter: quarter * 900)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Any kind, on quarters of an hour, near the dates that the properties look at."""
    kind = draw(st.sampled_from(["dates", "weekly", "weekly", "recurring", "period"]))
    first = draw(FIRST_DAYS) + timedelta(days=draw(st.integers(0, 9)))
    if kind == "dates":
        return Dates(first, first + timedelta(days=draw(st.integers(0, 2))))
    if kind == "weekly":
        days = draw(st.frozensets(st.integers(0, 6), min_size=1))
        return Weekly(days, draw(QUARTERS), draw(QUARTERS))
    if kind == "recurring":
        line = draw(st.sampled_from(["15 2 * * *", "0 */6 * * *", "30 1 * * 0", "*/30 1-3 * * *", "0 0 1 * *"]))
        return Recurring(line, draw(st.integers(1, 40)) * 900)
    begin = at(f"{first} 00:00", "UTC") + draw(QUARTERS)
    return Period(begin, begin + draw(st.integers(1, 200)) * 900)


calendars = st.builds(Calendar, ZONES, st.lists(entries(), max_size=4).map(tuple))
instants = st.builds(lambda day, quarter: at(f"{day} 00:00", "UTC") + quarter * 900, FIRST_DAYS, st.integers(0, 960))


def slowly_covered(calendar: Calendar, instant: float) -> bool:
    """Days and weekly hours by looking at what the clock shows, quarter by quarter, for two days around.

    A cover that is longer than that begins and ends outside of what is looked at."""
    zone = ZoneInfo(calendar.timezone)
    quarters = [instant + 900 * number for number in range(-200, 201)]
    walls = [datetime.fromtimestamp(each, zone).replace(tzinfo=None) for each in quarters]
    today = walls[200].date()
    for entry in calendar.entries:
        windows = []
        for offset in range(-3, 3):
            day = today + timedelta(days=offset)
            midnight = datetime.combine(day, datetime.min.time())
            if isinstance(entry, Weekly) and day.weekday() in entry.days:
                length = (entry.to_second - entry.from_second) % 86_400 or 86_400
                begin = midnight + timedelta(seconds=entry.from_second)
                windows.append((begin, begin + timedelta(seconds=length)))
            if isinstance(entry, Dates) and entry.first <= day <= entry.last:
                windows.append((midnight, midnight + timedelta(days=1)))
        for begin, end in windows:
            shown = [index for index, wall in enumerate(walls) if wall >= begin]
            before = [index for index, wall in enumerate(walls) if wall < end]
            if shown and before and shown[0] <= 200 <= before[-1]:
                return True
    return False


@settings(max_examples=100)
@given(calendars, instants)
def test_what_is_covered_is_what_the_clock_shows(calendar: Calendar, instant: float) -> None:
    """Days and weekly hours, against a slow and obvious answer, around changes of the clock."""
    plain = Calendar(calendar.timezone, tuple(each for each in calendar.entries if isinstance(each, Dates | Weekly)))
    assume(plain.entries)
    assert slowly_covered(plain, instant) == (covers(plain, instant) is not None)


@settings(max_examples=100)
@given(calendars, instants)
def test_the_next_begin_misses_nothing(calendar: Calendar, instant: float) -> None:
    """From an instant that is not covered up to the next cover, no quarter of an hour is."""
    assume(covers(calendar, instant) is None)
    found = next_cover(calendar, instant)
    until = instant + 3 * DAY if found is None else min(found.begin, instant + 3 * DAY)
    while instant < until:
        assert covers(calendar, instant) is None
        instant += 900
    if found is not None:
        assert covers(calendar, found.begin) is not None


rules = st.builds(
    ScheduleRules,
    st.lists(
        st.builds(CalendarRule, st.just("c"), calendars, st.sampled_from(CalendarMode), st.sampled_from(Otherwise)),
        max_size=2,
    ).map(tuple),
    st.lists(st.builds(Window, st.just("w"), calendars, action=st.sampled_from(Otherwise)), max_size=2).map(tuple),
)


@settings(max_examples=100)
@given(rules, instants)
def test_where_it_opens_it_is_allowed_and_nowhere_before(rules: ScheduleRules, nominal: float) -> None:
    """The verdict at `opens` is yes; up to there it is no at every quarter of an hour."""
    verdict = rules.verdict(nominal)
    if isinstance(verdict, Allowed):
        assert nominal == rules.opens(nominal)
        return
    assert verdict.until > nominal
    if verdict.opens is not None:
        assert ALLOWED == rules.verdict(verdict.opens)
    fresh = ScheduleRules(rules.calendars, rules.windows)
    until = nominal + 3 * DAY if verdict.opens is None else min(verdict.opens, nominal + 3 * DAY)
    while nominal < until:
        assert isinstance(fresh.verdict(nominal), Closed)
        nominal += 900


LINES = tuple(f"{minute} * * * *" for minute in range(60)) + tuple(f"{minute} 3 29 2 */7" for minute in range(40))
CHAIN = Calendar("Europe/Berlin", tuple(Recurring(line, 61, None) for line in LINES))
"""4 kB: a hundred lines, of which one covers each minute, to the end of all searches."""


def test_a_calendar_of_many_lines_costs_a_bounded_number_of_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judged by how often a line is asked for a fire: what is closed for years is not searched for line by line."""
    asked = 0
    real = Cron.previous_second

    def previous_second(line: Cron, at_or_before: int, zone: ZoneInfo) -> int | None:
        nonlocal asked
        asked += 1
        return real(line, at_or_before, zone)

    monkeypatch.setattr(Cron, "previous_second", previous_second)
    rules = ScheduleRules((CalendarRule("chain", CHAIN),))
    start = at("2026-12-25 10:00")
    assert rules.opens(start) is None
    assert rules.is_too_much(start)
    assert rules.take_spent() <= 2 * (SEARCH_LOOKS + rules.looks)
    assert asked <= 2 * (SEARCH_LOOKS // rules.looks + 1) * len(LINES)
    asked = 0
    for occurrence in range(1_000):
        assert rules.verdict(start + 60.0 * occurrence) is not ALLOWED
    assert asked <= 50 * len(LINES), "a line that fires once in years is not asked each time"


def test_a_calendar_that_is_simple_is_never_too_much() -> None:
    """Wherever it leads: nights for years, or hours that follow on each other."""
    for calendar in (HOLIDAYS, Calendar("UTC", (Recurring("0 * * * *", 3_600, None),))):
        assert not ScheduleRules((CalendarRule("x", calendar),)).is_too_much(at("2026-12-25 10:00"))
