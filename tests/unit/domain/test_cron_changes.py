"""What a job's own rule for clock changes promises: which times fire, which do not, and what people are told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reference import cases
from tests.reference.slow_cron import SlowCron, at, watch
from tests.support.crons import fire_after, fire_at_or_before
from tickwise.domain.cron.expression import parse
from tickwise.domain.zones import DEBIAN, Dst, GapRule, RepeatRule

pytestmark = pytest.mark.thorough

NEW_YORK = "America/New_York"
LORD_HOWE = "Australia/Lord_Howe"
APIA = "Pacific/Apia"
SPRING = (NEW_YORK, "2026-03-08 00:00", "2026-03-09 00:00")
AUTUMN = (NEW_YORK, "2026-11-01 00:00", "2026-11-02 00:00")


def fires(line: str, window: tuple[str, str, str], dst: Dst) -> list[str]:
    """The fires of a line in a window given in UTC, as local times with their offset."""
    zone = ZoneInfo(window[0])
    found = cases.forwards(parse(line), at(window[1]), at(window[2]), zone, dst)
    return [datetime.fromtimestamp(instant, zone).strftime("%d %H:%M %z").removesuffix("00") for instant in found]


# ------------------------------------------------------------------------------------------------- each rule


@pytest.mark.parametrize(
    ("line", "rule", "expected"),
    [
        # 8 March 2026: from 02:00 to 03:00.
        ("30 2 * * *", None, ["08 03:00 -04"]),
        ("30 2 * * *", GapRule.RUN_AFTER, ["08 03:00 -04"]),
        ("30 2 * * *", GapRule.SKIP, []),
        ("30 2 * * *", GapRule.SHIFT, ["08 03:30 -04"]),
        ("0,30 2 * * *", None, ["08 03:00 -04"]),
        ("0,30 2 * * *", GapRule.SHIFT, ["08 03:00 -04", "08 03:30 -04"]),
        ("30 2,3 * * *", None, ["08 03:00 -04", "08 03:30 -04"]),
        ("30 2,3 * * *", GapRule.SHIFT, ["08 03:30 -04"]),
        ("0 2,3 * * *", GapRule.RUN_AFTER, ["08 03:00 -04"]),
        ("0 2,3 * * *", GapRule.SKIP, ["08 03:00 -04"]),
        ("*/30 2 * * *", None, []),
        ("*/30 2 * * *", GapRule.RUN_AFTER, ["08 03:00 -04"]),
        ("*/30 2 * * *", GapRule.SKIP, []),
        ("*/30 2 * * *", GapRule.SHIFT, ["08 03:00 -04", "08 03:30 -04"]),
    ],
)
def test_skipped_times_follow_the_rule_for_gaps(line: str, rule: GapRule | None, expected: list[str]) -> None:
    """None is Debian's rule; a given one holds for any line; two times at one instant are one fire."""
    assert fires(line, SPRING, Dst(gap=rule)) == expected


@pytest.mark.parametrize(
    ("line", "rule", "expected"),
    [
        # 1 November 2026: from 02:00 back to 01:00.
        ("30 1 * * *", None, ["01 01:30 -04"]),
        ("30 1 * * *", RepeatRule.FIRST, ["01 01:30 -04"]),
        ("30 1 * * *", RepeatRule.SECOND, ["01 01:30 -05"]),
        ("30 1 * * *", RepeatRule.BOTH, ["01 01:30 -04", "01 01:30 -05"]),
        ("0 1,2 * * *", RepeatRule.SECOND, ["01 01:00 -05", "01 02:00 -05"]),
        ("*/30 1 * * *", None, ["01 01:00 -04", "01 01:30 -04", "01 01:00 -05", "01 01:30 -05"]),
        ("*/30 1 * * *", RepeatRule.FIRST, ["01 01:00 -04", "01 01:30 -04"]),
        ("*/30 1 * * *", RepeatRule.SECOND, ["01 01:00 -05", "01 01:30 -05"]),
        ("30 3 * * *", RepeatRule.SECOND, ["01 03:30 -05"]),
    ],
)
def test_repeated_times_follow_the_rule_for_overlaps(line: str, rule: RepeatRule | None, expected: list[str]) -> None:
    """None is Debian's rule; a given one holds for any line."""
    assert fires(line, AUTUMN, Dst(overlap=rule)) == expected


@pytest.mark.parametrize(
    ("line", "window", "dst", "expected"),
    [
        # Lord Howe: half an hour, from 02:00 to 02:30 and back to 01:30.
        ("15 2 * * *", (LORD_HOWE, "2026-10-03 12:00", "2026-10-04 12:00"), Dst(GapRule.SHIFT), ["04 02:45 +11"]),
        ("45 1 * * *", (LORD_HOWE, "2026-04-04 12:00", "2026-04-05 12:00"), Dst(overlap=RepeatRule.SECOND),
         ["05 01:45 +1030"]),
        # Samoa: no 30 December 2011.
        ("0 12 * * *", (APIA, "2011-12-29 12:00", "2011-12-30 20:00"), Dst(GapRule.SKIP),
         ["29 12:00 -10"]),
        ("0 12 30 12 *", (APIA, "2011-12-01 00:00", "2012-02-01 00:00"), Dst(GapRule.SHIFT), ["31 12:00 +14"]),
        ("0 12 30 12 *", (APIA, "2011-12-01 00:00", "2012-02-01 00:00"), Dst(GapRule.SKIP), []),
        # São Paulo and Beirut: at midnight.
        ("0 0 * * *", ("America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 12:00"), DEBIAN, ["04 01:00 -02"]),
        ("30 0 * * *", ("America/Sao_Paulo", "2018-11-03 12:00", "2018-11-04 12:00"), Dst(GapRule.SHIFT),
         ["04 01:30 -02"]),
        ("30 23 * * *", ("America/Sao_Paulo", "2018-02-17 12:00", "2018-02-18 12:00"), Dst(overlap=RepeatRule.BOTH),
         ["17 23:30 -02", "17 23:30 -03"]),
        ("15 0 * * *", ("Asia/Beirut", "2026-03-28 12:00", "2026-03-29 12:00"), Dst(GapRule.SHIFT), ["29 01:15 +03"]),
        # Berlin, in words that people use: the backup of 02:30 in the night of the change.
        ("30 2 * * *", ("Europe/Berlin", "2026-10-24 12:00", "2026-10-25 12:00"), Dst(overlap=RepeatRule.SECOND),
         ["25 02:30 +01"]),
    ],
)  # fmt: skip
def test_odd_changes_follow_the_same_rules(
    line: str, window: tuple[str, str, str], dst: Dst, expected: list[str]
) -> None:
    """Half an hour, a whole day, midnight."""
    assert fires(line, window, dst) == expected


def test_an_hour_that_fires_second_is_silent_at_its_first_pass() -> None:
    """Asked from inside either pass, forwards and backwards."""
    zone, cron, dst = ZoneInfo(NEW_YORK), parse("0,20,40 1 * * *"), Dst(overlap=RepeatRule.SECOND)
    assert fire_after(cron, at("2026-11-01 05:10"), zone, dst) == at("2026-11-01 06:00")
    assert fire_after(cron, at("2026-11-01 06:00"), zone, dst) == at("2026-11-01 06:20")
    assert fire_at_or_before(cron, at("2026-11-01 06:10"), zone, dst) == at("2026-11-01 06:00")
    assert fire_at_or_before(cron, at("2026-11-01 05:59"), zone, dst) == at("2026-10-31 05:40")


# --------------------------------------------------------------------------------------- as the reference says

CHANGES = [
    (NEW_YORK, "2026-03-08 07:00"),
    (NEW_YORK, "2026-11-01 06:00"),
    (LORD_HOWE, "2026-04-04 15:00"),
    (LORD_HOWE, "2026-10-03 15:30"),
    (APIA, "2011-12-30 10:00"),
    ("Europe/London", "2026-03-29 01:00"),
    ("Europe/London", "2026-10-25 01:00"),
    ("America/Scoresbysund", "2024-03-31 01:00"),
    ("America/Sao_Paulo", "2018-11-04 03:00"),
    ("America/Sao_Paulo", "2018-02-18 02:00"),
    ("Asia/Beirut", "2026-03-28 22:00"),
    ("Africa/Cairo", "2014-07-31 22:00"),
    ("Africa/Casablanca", "2026-02-15 02:00"),
    ("Antarctica/Troll", "2026-03-29 01:00"),
    ("Asia/Pyongyang", "2018-05-04 15:00"),
    ("America/Caracas", "2016-05-01 07:00"),
    ("Asia/Manila", "1844-12-31 15:56"),
    ("Africa/Freetown", "1939-09-05 00:30"),
    ("Europe/Berlin", "1945-05-24 00:00"),
]
DSTS = st.builds(Dst, st.sampled_from([None, *GapRule]), st.sampled_from([None, *RepeatRule]))


def _items(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.integers(1, high - low + 1)
    stepped = st.tuples(st.one_of(st.just("*"), ranges), steps).map(lambda pair: f"{pair[0]}/{pair[1]}")
    items = st.lists(st.one_of(number.map(str), ranges, stepped), min_size=1, max_size=3)
    return st.one_of(st.just("*"), number.map(str), items.map(",".join))


LINES = st.tuples(
    _items(0, 59),
    _items(0, 23),
    st.sampled_from(["*", "*", "L", "1,15", "*/2", "28-5"]),
    st.just("*"),
    st.sampled_from(["*", "*", "SUN", "SUN#1", "SUNL", "FRI-MON"]),
).map(" ".join)


@settings(max_examples=150)
@given(line=LINES, change=st.sampled_from(CHANGES), dst=DSTS)
@example(line="*/10 0 * * *", change=(LORD_HOWE, "2026-04-04 15:00"), dst=DEBIAN)
@example(line="0 0-4 * * 7-2", change=(NEW_YORK, "2026-11-01 06:00"), dst=DEBIAN)
@example(line="0 12 30 12 *", change=(APIA, "2011-12-30 10:00"), dst=Dst(GapRule.SHIFT, RepeatRule.SECOND))
def test_every_minute_near_a_change_is_as_the_slow_reference_says_by_any_rule(
    line: str, change: tuple[str, str], dst: Dst
) -> None:
    """Forwards, backwards and counted: all equal to looking at each real minute for itself."""
    zone, middle = ZoneInfo(change[0]), at(change[1])
    begin, end = middle - timedelta(hours=27), middle + timedelta(hours=27)
    expected = cases.expected_of(SlowCron(line).named(watch(zone, begin, end)), dst)
    cron = parse(line)
    assert cases.forwards(cron, begin, end, zone, dst) == expected
    assert cases.backwards(cron, begin, end, zone, dst) == expected
    assert cases.counted(cron, begin, end, zone, dst) == len(expected)


@settings(max_examples=15)
@given(line=st.tuples(_items(0, 59), LINES).map(" ".join), change=st.sampled_from(CHANGES[:4]), dst=DSTS)
def test_every_second_near_a_change_is_as_the_slow_reference_says_by_any_rule(
    line: str, change: tuple[str, str], dst: Dst
) -> None:
    """The same for lines of six fields, second by second."""
    zone, middle = ZoneInfo(change[0]), at(change[1])
    begin, end = middle - timedelta(minutes=65), middle + timedelta(minutes=65)
    expected = cases.expected_of(SlowCron(line).named(watch(zone, begin, end, step=timedelta(seconds=1))), dst)
    cron = parse(line)
    assert cases.forwards(cron, begin, end, zone, dst) == expected
    assert cases.counted(cron, begin, end, zone, dst) == len(expected)


@settings(max_examples=150)
@given(
    line=LINES,
    zone_name=st.sampled_from([NEW_YORK, LORD_HOWE, APIA, "Africa/Cairo", "Africa/Casablanca", "Asia/Gaza", "UTC"]),
    begin=st.integers(0, 4_000_000_000),
    span=st.integers(1, 40 * 86_400),
    dst=DSTS,
)
def test_next_previous_and_count_agree_anywhere(line: str, zone_name: str, begin: int, span: int, dst: Dst) -> None:
    """Strictly ascending, the same on the way back, and as many as are counted, over any span and cut anywhere."""
    cron, zone = parse(line), ZoneInfo(zone_name)
    first, last = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(begin + span, UTC)
    found = cases.forwards(cron, first, last, zone, dst)
    assert found == sorted(set(found))
    assert all(begin <= instant < begin + span for instant in found)
    assert cases.backwards(cron, first, last, zone, dst) == found
    assert cron.count(begin, begin + span - 1, zone, dst) == len(found)
    middle = begin + span // 3
    assert cron.count(begin, middle, zone, dst) + cron.count(middle + 1, begin + span - 1, zone, dst) == len(found)


def test_counting_ten_years_does_not_walk_them() -> None:
    """A fire of every second, 315 million of them: counted by stretches and months, also where skipped times shift."""
    zone, cron = ZoneInfo(NEW_YORK), parse("* * * * * *")
    begin, end = at("2021-01-01 05:00"), at("2031-01-01 05:00")
    seconds = int((end - begin).total_seconds())
    for dst, silent in (
        (DEBIAN, 0),
        (Dst(GapRule.SHIFT, RepeatRule.SECOND), 10 * 3_600),
        (Dst(GapRule.RUN_AFTER, RepeatRule.FIRST), 10 * 3_600),
    ):
        assert cases.counted(cron, begin, end, zone, dst) == seconds - silent


@pytest.mark.parametrize("zone_name", [NEW_YORK, LORD_HOWE, "Europe/London", "Asia/Gaza", "Africa/Casablanca", "UTC"])
def test_a_daily_line_fires_once_a_day_for_over_a_century(zone_name: str) -> None:
    """Whatever the clock does, over every edge of our book-keeping: as many fires as days, none told twice."""
    zone = ZoneInfo(zone_name)
    begin, end = datetime(1970, 1, 2, 12, tzinfo=zone), datetime(2099, 12, 31, 12, tzinfo=zone)
    days = (end.date() - begin.date()).days
    for line in ("30 2 * * *", "0 2 * * *", "30 0 * * *", "15 3 * * *"):
        for dst in (DEBIAN, Dst(GapRule.SHIFT, RepeatRule.SECOND)):
            assert cases.counted(parse(line), begin, end, zone, dst) == days, (line, dst)
        skips_told = parse(line).gap_skips(int(begin.timestamp()), int(end.timestamp()), zone, Dst(GapRule.SKIP))
        fired = cases.counted(parse(line), begin, end, zone, Dst(GapRule.SKIP))
        assert fired + sum(skip.count for skip in skips_told) == days, line
        assert len({skip.instant for skip in skips_told}) == len(skips_told)


# ------------------------------------------------------------------------------------------------------ in words


@pytest.mark.parametrize(
    ("line", "zone_name", "instant", "dst", "note"),
    [
        ("30 2 * * *", NEW_YORK, "2026-03-08 07:00", DEBIAN,
         "02:30 does not exist on this day: the clock goes from 02:00 to 03:00; runs right after"),
        ("15,45 2 * * *", NEW_YORK, "2026-03-08 07:00", DEBIAN,
         "2 times from 02:15 to 02:45 do not exist on this day: the clock goes from 02:00 to 03:00; "
         "they become this run"),
        ("0 2,3 * * *", NEW_YORK, "2026-03-08 07:00", DEBIAN,
         "02:00 does not exist on this day: the clock goes from 02:00 to 03:00; it becomes one with this run"),
        ("30 2 * * *", NEW_YORK, "2026-03-08 07:30", Dst(GapRule.SHIFT),
         "02:30 does not exist on this day: the clock goes from 02:00 to 03:00; runs at 03:30 instead"),
        ("30 2,3 * * *", NEW_YORK, "2026-03-08 07:30", Dst(GapRule.SHIFT),
         "02:30 does not exist on this day: the clock goes from 02:00 to 03:00; it becomes one with this run"),
        ("30 2,3 * * *", NEW_YORK, "2026-03-08 07:30", DEBIAN, None),
        ("0 3 * * *", NEW_YORK, "2026-03-08 07:00", DEBIAN, None),
        ("20 30 2 * * *", NEW_YORK, "2026-03-08 07:00", DEBIAN,
         "02:30:20 does not exist on this day: the clock goes from 02:00 to 03:00; runs right after"),
        ("0 12 * * *", APIA, "2011-12-30 10:00", DEBIAN,
         "2011-12-30 12:00 does not exist: the clock goes from 2011-12-30 00:00 to 2011-12-31 00:00; runs right after"),
        ("30 1 * * *", NEW_YORK, "2026-11-01 05:30", DEBIAN,
         "first of two 01:30: the clock goes from 02:00 back to 01:00; only the first runs"),
        ("30 1 * * *", NEW_YORK, "2026-11-01 06:30", Dst(overlap=RepeatRule.SECOND),
         "second of two 01:30: the clock goes from 02:00 back to 01:00; only the second runs"),
        ("*/30 1 * * *", NEW_YORK, "2026-11-01 06:30", DEBIAN,
         "second of two 01:30: the clock goes from 02:00 back to 01:00; both run"),
        ("30 2 * * *", NEW_YORK, "2026-11-01 07:30", DEBIAN, None),
        ("30 23 * * *", "America/Sao_Paulo", "2018-02-18 01:30", DEBIAN,
         "first of two 23:30: the clock goes from 2018-02-18 00:00 back to 2018-02-17 23:00; only the first runs"),
        ("30 2 * * *", "UTC", "2026-03-08 02:30", DEBIAN, None),
    ],
)  # fmt: skip
def test_a_fire_at_a_change_says_what_happens_and_why(
    line: str, zone_name: str, instant: str, dst: Dst, note: str | None
) -> None:
    """And an ordinary fire says nothing."""
    cron, zone, moment = parse(line), ZoneInfo(zone_name), at(instant)
    assert fire_at_or_before(cron, moment, zone, dst) == moment
    assert cron.note_at(int(moment.timestamp()), zone, dst) == note


def skips(line: str, window: tuple[str, str, str], dst: Dst) -> Iterator[tuple[str, int, str]]:
    """When, how many, and in words."""
    first, last = int(at(window[1]).timestamp()), int(at(window[2]).timestamp())
    for skip in parse(line).gap_skips(first, last, ZoneInfo(window[0]), dst):
        yield f"{datetime.fromtimestamp(skip.instant, UTC):%Y-%m-%d %H:%M}", skip.count, skip.sentence()


def test_times_that_are_skipped_are_told_with_their_number_and_range() -> None:
    """So that the ledger has a record for each occurrence."""
    window = (NEW_YORK, "2025-01-01 00:00", "2027-01-01 00:00")
    sentence = "2 times from 02:15 to 02:45 do not exist on this day: the clock goes from 02:00 to 03:00; skipped"
    assert list(skips("15,45 2 * * *", window, Dst(GapRule.SKIP))) == [
        ("2025-03-09 07:00", 2, sentence),
        ("2026-03-08 07:00", 2, sentence),
    ]


def test_both_ends_of_the_span_count() -> None:
    """A change right at either end belongs to it, one a second outside does not."""
    skip = Dst(GapRule.SKIP)
    assert len(list(skips("30 2 * * *", (NEW_YORK, "2026-03-08 07:00", "2026-03-08 07:00"), skip))) == 1
    assert not list(skips("30 2 * * *", (NEW_YORK, "2026-03-08 07:00:01", "2026-12-01 00:00"), skip))
    assert not list(skips("30 2 * * *", (NEW_YORK, "2025-12-01 00:00", "2026-03-08 06:59:59"), skip))


def test_what_was_skipped_never_has_the_name_of_a_fire() -> None:
    """The line fires right at the change, too: the record of what was skipped must not take its place."""
    zone, cron, dst = ZoneInfo(NEW_YORK), parse("0,30 2,3 * * *"), Dst(GapRule.SKIP)
    change = int(at("2026-03-08 07:00").timestamp())
    (skip,) = cron.gap_skips(change - 86_400, change + 86_400, zone, dst)
    assert cron.next_second(change - 1, zone, dst) == skip.instant
    assert skip.nominal == change - 0.5


@pytest.mark.parametrize("dst", [DEBIAN, Dst(GapRule.RUN_AFTER), Dst(GapRule.SHIFT)])
def test_times_that_run_after_all_are_not_told_as_skipped(dst: Dst) -> None:
    """They have a run."""
    assert not list(skips("30 2 * * *", SPRING, dst))


@pytest.mark.parametrize(
    ("line", "count"),
    [("*/5 * * * *", 0), ("50 * * * *", 0), ("0 */2 * * *", 1), ("*/30 2 * * *", 2), ("30 1 * * *", 0)],
)
def test_a_line_that_keeps_its_spacing_has_lost_nothing(line: str, count: int) -> None:
    """By Debian's rule it is about real time: only what did not come again within the hour is told as skipped."""
    assert sum(skipped for _, skipped, _ in skips(line, SPRING, DEBIAN)) == count


def test_asked_for_skips_are_all_told() -> None:
    """Whoever writes `skip` gets a record of everything that is."""
    assert [count for _, count, _ in skips("*/5 * * * *", SPRING, Dst(GapRule.SKIP))] == [12]
