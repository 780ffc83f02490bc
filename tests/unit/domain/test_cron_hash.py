"""What `H` and `@every` promise: values that a job keeps for ever, and intervals as Go writes them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.cron.expression import Cron, every_seconds, parse
from tickwise.domain.cron.fields import MAX_LENGTH
from tickwise.domain.errors import CronInvalid

SEED = bytes.fromhex("0198c7a05b3e7d1f8a4b6c9d0e1f2a3b")
MASKS = ("seconds", "minutes", "hours", "days", "months", "weekdays")


def masks(cron: Cron) -> dict[str, int]:
    """All that makes the times of a line."""
    return {name: getattr(cron, name) for name in MASKS}


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("H * * * *", "16 * * * *"),
        ("H/15 * * * *", "1,16,31,46 * * * *"),
        ("H(0-29) * * * *", "16 * * * *"),
        ("H(0-29)/10 * * * *", "6,16,26 * * * *"),
        ("H,30 2 * * *", "16,30 2 * * *"),
        ("H H(9-17) * * *", "16 16 * * *"),
        ("0 H/4 * * MON-FRI", "0 3,7,11,15,19,23 * * 1-5"),
        ("0 0 H * *", "0 0 26 * *"),
        ("0 0 H/7 * *", "0 0 5,12,19,26 * *"),
        ("0 0 1 H/3 *", "0 0 1 3,6,9,12 *"),
        ("0 0 * * H", "0 0 * * 3"),
        ("H/20 H H * * *", "13,33,53 16 7 * * *"),
    ],
)
def test_the_values_of_a_seed_never_change(line: str, same: str) -> None:
    """Pinned: another version that picked other values would move the times of every such job."""
    assert masks(parse(line, SEED)) == masks(parse(same))


@given(seed=st.binary(min_size=1, max_size=16))
def test_each_field_takes_one_of_its_own_values(seed: bytes) -> None:
    """One value each, inside the field; days stay clear of those that only some months have."""
    cron = parse("H H H H H H", seed)
    assert [getattr(cron, name).bit_count() for name in MASKS] == [1] * 6
    limits = {"seconds": (0, 59), "minutes": (0, 59), "hours": (0, 23), "days": (1, 28), "months": (1, 12),
              "weekdays": (0, 6)}  # fmt: skip
    for name, (low, high) in limits.items():
        assert low <= getattr(cron, name).bit_length() - 1 <= high, name


@given(seed=st.binary(min_size=1, max_size=16), step=st.integers(1, 60))
def test_a_step_keeps_its_spacing_from_a_picked_begin(seed: bytes, step: int) -> None:
    """`H/15` is `*/15` moved by less than a step."""
    minutes = parse(f"H/{step} * * * *", seed).minutes
    values = [value for value in range(60) if minutes >> value & 1]
    assert values == list(range(values[0], 60, step))
    assert values[0] < step


@given(seed=st.binary(min_size=1, max_size=16))
def test_a_range_is_kept(seed: bytes) -> None:
    """Of a range, one value or every step; ranges may go around, and names count."""
    cron = parse("H(0-29) H(22-2) H(5-9)/2 H(nov-feb) H(FRI-MON)", seed)
    assert cron.minutes < 1 << 30
    assert cron.hours & sum(1 << hour for hour in (22, 23, 0, 1, 2)) == cron.hours
    assert cron.days in (1 << 5 | 1 << 7 | 1 << 9, 1 << 6 | 1 << 8)
    assert cron.months & sum(1 << month for month in (11, 12, 1, 2)) == cron.months
    assert cron.weekdays & 0b1100011 == cron.weekdays
    ten = parse("H(0-29)/10 * * * *", seed).minutes
    first = (ten & -ten).bit_length() - 1
    assert ten == sum(1 << minute for minute in (first, first + 10, first + 20))
    assert first < 10


def test_jobs_are_spread_evenly() -> None:
    """Of 6,000 jobs no minute gets more than twice its share, and fields do not move together."""
    crons = [parse("H H * * *", number.to_bytes(16)) for number in range(6_000)]
    minutes = Counter(cron.minutes for cron in crons)
    assert len(minutes) == 60
    assert max(minutes.values()) < 200
    assert len({(cron.minutes, cron.hours) for cron in crons}) > 1_200


def test_all_jobs_share_a_line_without_h() -> None:
    """The seed is no part of such a line, so it is read once. Day names and macros hold no `H`."""
    for line in ("0 5 * * *", "0 5 * * THU", "@hourly", "@monthly", "0 5 * mar 4#1"):
        assert parse(line, SEED) is parse(line)
        assert parse(line, SEED).hashed == ()
    assert parse("H 5 * * *", SEED) != parse("H 5 * * *", b"other")
    assert parse("h 5 * * *", SEED).minutes == parse("H 5 * * *", SEED).minutes


def test_without_a_seed_the_values_are_an_example() -> None:
    """A preview for no job shows times, and says what they are."""
    warning = "H is spread by the job's id; without a job its times here are only an example"
    assert warning in parse("H H * * *").warnings()
    assert warning in parse("H H * * *", b"").warnings()
    assert parse("H H * * *", SEED).warnings() == ()


@pytest.mark.parametrize(
    ("line", "english"),
    [
        ("H 2 * * *", "at 02:16 (minute picked by H)"),
        ("H/15 * * * *", "at minutes 1, 16, 31 and 46 of every hour (minute picked by H)"),
        ("H H * * H", "at 07:16, on Wednesday (minute, hour and day of week picked by H)"),
        ("0 0 H 1 *", "at 00:00, on day 26 of the month, in January (day of month picked by H)"),
        ("H 0 0 * * *", "at 00:00:53 (second picked by H)"),
        ("H/20 0 0 * * *", "at seconds 13, 33 and 53 of every minute in the minute 00:00 (second picked by H)"),
    ],
)
def test_picked_values_are_told_as_picked(line: str, english: str) -> None:
    """The real times, and which fields were picked."""
    assert parse(line, SEED).explain() == english


# ------------------------------------------------------------------------------------------------------ @every


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 90s", 90.0),
        ("@every 1h30m", 5_400.0),
        ("  @EVERY\t5m ", 300.0),
        ("@every 1.5h", 5_400.0),
        ("@every 1h1m1s", 3_661.0),
        ("@every 1500ms", 1.5),
        ("@every 1s250us", 1.00025),
        ("@every .5m", 30.0),
        ("@every 1s1ns", 1.0),
        ("@every 87840h", 316_224_000.0),
    ],
)
def test_every_is_read_as_go_writes_durations(text: str, seconds: float) -> None:
    """Numbers with units, added up."""
    assert every_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "   ", "*/5 * * * *", "@daily", "@everyday", "every 5m", "0 5 * * *", "\0", "@"])
def test_what_is_no_every_is_none(text: str) -> None:
    """Other lines are `parse`'s business."""
    assert every_seconds(text) is None


@pytest.mark.parametrize(
    ("text", "position", "parts"),
    [
        ("@every", 0, ["lacks its duration", "@every 1h30m"]),
        ("@every 5", 7, ["'5' has no unit", "90s"]),
        ("@every 1d", 8, ["'d' is no unit", "24h"]),
        ("@every 1h30", 9, ["'30' has no unit"]),
        ("@every 1h 30m", 10, ["'30m' is one word too many", "@every 1h30m"]),
        ("@every -5m", 7, ["'-5m' is no duration"]),
        ("@every 1h-5m", 9, ["'-5m' is no duration"]),
        (" @every five", 8, ["'five' is no duration", "90s"]),
        ("@every 5M", 8, ["'M' is no unit"]),
        ("@every 0s", 7, ["1 second", "1s"]),
        ("@every 999ms", 7, ["1 second"]),
        ("@every 87841h", 7, ["10 years", "87840h"]),
        ("@every " + "9" * 200 + "h", 7, ["10 years"]),
        ("@every nan", 7, ["is no duration"]),
        ("@every 1e5s", 8, ["'e' is no unit"]),
        ("@every 5m\0", 9, ["does not belong"]),
        ("@every ٣m", 7, ["does not belong"]),
        ("@every 5m" + " " * MAX_LENGTH, MAX_LENGTH, ["characters"]),
    ],
)
def test_an_every_that_cannot_be_read_says_where_and_what_to_write(text: str, position: int, parts: list[str]) -> None:
    """The place in the text, what was found, and what is meant. `parse` says the same."""
    for read in (every_seconds, parse):
        with pytest.raises(CronInvalid) as caught:
            read(text)
        assert caught.value.position == position
        for part in parts:
            assert part in caught.value.detail
        assert len(caught.value.detail) < 300
        assert caught.value.detail.isprintable()


@given(st.text("@every 0123456789.hmsun-", max_size=30))
def test_any_every_is_read_or_refused_cleanly(text: str) -> None:
    """No text brings up anything but seconds, none, or a `CronInvalid`."""
    try:
        seconds = every_seconds("@every " + text)
    except CronInvalid:
        return
    assert seconds is not None
    assert 1 <= seconds <= 316_224_000
