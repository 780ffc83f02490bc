"""`tickwise schedule`: what an expression means and when it fires, in a shape that scripts can rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.local_up import Ran, call_command, environment

HEAVY = ("starlette", "aiohttp", "httpx2", "asyncpg", "asyncio", "msgspec", "rich", "psutil", "holidays", "icalendar",
         "yaml", "tickwise.config", "tickwise.wiring")  # fmt: skip


def schedule(*arguments: str) -> Ran:
    """`tickwise schedule ARGUMENTS`, with no server to be found."""
    return call_command(("schedule", *arguments), environment(TICKWISE_URL="http://127.0.0.1:1"))


def fires(*arguments: str) -> list[dict[str, Any]]:
    """The fires of a preview that works."""
    ran = schedule("preview", *arguments, "--json")
    assert 0 == ran.code, ran.err
    found: list[dict[str, Any]] = ran.json["fires"]
    return found


# ------------------------------------------------------------------------------------------ the shape


def test_a_preview_is_one_object_of_a_known_shape() -> None:
    """Scripts may rely on each of its members."""
    ran = schedule("preview", "30 9 * * 1-5", "--timezone", "Europe/Berlin", "--from", "2027-01-01T00:00:00Z",
                   "--count", "2", "--json")  # fmt: skip
    assert (0, "") == (ran.code, ran.err)
    text = ran.json["text"]
    assert {
        "expression": "30 9 * * 1-5",
        "timezone": "Europe/Berlin",
        "text": text,
        "warnings": [],
        "fires": [
            {"nominal": "2027-01-01T09:30:00+01:00", "utc": "2027-01-01T08:30:00Z"},
            {"nominal": "2027-01-04T09:30:00+01:00", "utc": "2027-01-04T08:30:00Z"},
        ],
    } == ran.json
    assert "09:30" in text
    assert "Monday" in text


def test_an_explanation_is_the_same_object_without_fires() -> None:
    """With the English text."""
    ran = schedule("explain", "0 9 * * 1#1", "--json")
    assert (0, ["expression", "timezone", "text", "warnings"]) == (ran.code, list(ran.json))
    assert ran.json["text"] + "\n" == schedule("explain", "0 9 * * 1#1").out


def test_warnings_are_in_the_object_and_beside_the_text() -> None:
    """Of a line that is legal and probably not meant: a step that does not divide its field."""
    (warning,) = schedule("preview", "*/7 * * * *", "--json").json["warnings"]
    shown = schedule("preview", "*/7 * * * *")
    assert f"warning: {warning}" in shown.err
    assert warning not in shown.out


# ------------------------------------------------------------------------------------------ times


def test_fires_come_strictly_after_the_given_time() -> None:
    """A fire at that very time is not among them; one a second later is."""
    line = ("0 3 * * *", "--count", "1")
    assert "2027-01-02T03:00:00Z" == fires(*line, "--from", "2027-01-01T03:00:00Z")[0]["utc"]
    assert "2027-01-01T03:00:00Z" == fires(*line, "--from", "2027-01-01T02:59:59.999Z")[0]["utc"]


def test_without_a_time_fires_come_after_now() -> None:
    """As many as are wanted, in order."""
    began = datetime.fromisoformat(fires("* * * * * *", "--count", "1")[0]["utc"])
    found = [datetime.fromisoformat(fire["utc"]) for fire in fires("* * * * * *", "--count", "3")]
    assert began <= found[0]
    assert sorted(set(found)) == found
    assert 10 == len(fires("* * * * *"))


def test_a_time_without_an_offset_is_on_the_schedules_own_clock() -> None:
    """Not on that of the machine."""
    found = fires("0 * * * *", "--timezone", "Asia/Tokyo", "--from", "2027-01-01 00:00", "--count", "1")
    assert {"nominal": "2027-01-01T01:00:00+09:00", "utc": "2026-12-31T16:00:00Z"} == found[0]


def test_a_fire_on_a_day_on_which_the_clock_is_changed_says_what_happens() -> None:
    """02:30 is skipped by the clock: the run comes right after, and its note says why."""
    line = ("30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2027-03-27T12:00:00Z", "--count", "2")
    changed, ordinary = fires(*line)
    assert ("2027-03-28T03:00:00+02:00", "2027-03-28T01:00:00Z") == (changed["nominal"], changed["utc"])
    assert "02:30 does not exist" in changed["note"]
    assert "note" not in ordinary


@pytest.mark.parametrize(
    ("line", "nominal", "said"),
    [
        (("30 2 * * *", "--dst-gap", "skip"), "2027-03-28T02:30:00", "02:30 does not exist on this day"),
        (("0 */2 * * *",), "2027-03-28T02:00:00", "02:00 does not exist on this day"),
    ],
)
def test_a_time_that_the_clock_skips_and_that_does_not_run_is_told(
    line: tuple[str, ...], nominal: str, said: str
) -> None:
    """Beside the fires, whose shape stays; as a warning; and in the table, between the fires before and after."""
    given = ("preview", *line, "--timezone", "Europe/Berlin", "--from", "2027-03-26T20:00:00Z", "--count", "20")
    told = schedule(*given, "--json").json
    (skipped,) = told["skipped"]
    assert (nominal, "2027-03-28T01:00:00Z", 1) == (skipped["nominal"], skipped["utc"], skipped["count"])
    assert said in skipped["note"]
    assert [f"2027-03-28T01:00:00Z: {skipped['note']}"] == told["warnings"]
    assert {"nominal", "utc"} == set(told["fires"][0])
    shown = schedule(*given).out.splitlines()
    (place,) = [number for number, row in enumerate(shown) if skipped["note"] in row]
    assert f"({nominal})" in shown[place]
    before, after = (shown[place + step].split()[1] for step in (-1, 1))
    assert before < "2027-03-28T01:00:00Z" <= after


def test_without_times_that_are_left_out_there_is_no_such_member() -> None:
    """Nor a warning: the clock is changed, but no time of the line is lost."""
    told = schedule("preview", "30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2027-03-26", "--json").json
    assert ([], False) == (told["warnings"], "skipped" in told)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["2027-10-31T02:30:00+02:00"]),
        (("--dst-overlap", "second"), ["2027-10-31T02:30:00+01:00"]),
        (("--dst-overlap", "both"), ["2027-10-31T02:30:00+02:00", "2027-10-31T02:30:00+01:00"]),
    ],
)
def test_the_rule_for_repeated_times_is_the_callers(options: tuple[str, ...], expected: list[str]) -> None:
    """On the night on which 02:30 comes twice."""
    line = ("30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2027-10-30T12:00:00Z", "--count", "3")
    assert expected == [fire["nominal"] for fire in fires(*line, *options) if "10-31" in fire["nominal"]]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("skip", "2027-03-29T02:30:00+02:00"), ("shift", "2027-03-28T03:30:00+02:00")],
)
def test_the_rule_for_skipped_times_is_the_callers(rule: str, expected: str) -> None:
    """On the night on which there is no 02:30."""
    line = ("30 2 * * *", "--timezone", "Europe/Berlin", "--from", "2027-03-27T12:00:00Z", "--count", "1")
    assert expected == fires(*line, "--dst-gap", rule)[0]["nominal"]


def test_an_interval_counts_from_the_given_time_and_says_so() -> None:
    """A job would count from its creation."""
    ran = schedule("preview", "@every 90s", "--from", "2027-01-01T00:00:00Z", "--count", "2", "--json")
    assert ["2027-01-01T00:01:30Z", "2027-01-01T00:03:00Z"] == [fire["utc"] for fire in ran.json["fires"]]
    assert "counts from" in ran.json["warnings"][0]


def test_a_rule_for_the_clock_that_an_interval_takes_no_notice_of_is_warned_of() -> None:
    """Nobody relies on what has no effect."""
    assert "--dst-gap" in schedule("preview", "@every 90s", "--dst-gap", "skip", "--json").json["warnings"][1]


def test_a_schedule_that_ends_with_the_calendar_shows_fewer_fires() -> None:
    """No year follows on 9999; it is no error."""
    found = fires("0 0 29 2 *", "--from", "9990-01-01T00:00:00Z", "--count", "50")
    assert ["9992-02-29T00:00:00Z", "9996-02-29T00:00:00Z"] == [fire["utc"] for fire in found]
    assert "does not fire any more" in schedule("preview", "0 0 1 1 *", "--from", "9999-06-01").err


# ------------------------------------------------------------------------------------------ refusals


def test_a_bad_expression_is_an_object_with_its_place_and_what_to_write() -> None:
    """Exit code 2; `position` is an offset in the expression as it was given."""
    ran = schedule("preview", "  0 25 * * *", "--json")
    assert (2, ["code", "message", "position", "hint"]) == (ran.code, list(ran.json["error"]))
    error = ran.json["error"]
    assert ("cron_invalid", 4) == (error["code"], error["position"])
    assert error["message"].endswith(error["hint"])
    assert "0-23" in error["hint"]


def test_a_bad_expression_is_marked_for_people() -> None:
    """Under the field; on stderr."""
    ran = schedule("explain", "0 25 * * *")
    assert (2, "") == (ran.code, ran.out)
    assert "  EXPR '0 25 * * *'\n          ^^\n" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("0 0 * * *", "--timezone", "Moon/Base"), "timezone_unknown", "--timezone Moon/Base"),
        (("0 0 * * *", "--from", "soon"), "invalid", "--from soon"),
        (("@every 90x",), "cron_invalid", "EXPR '@every 90x'"),
        (("0 0 30 2 *",), "cron_invalid", "EXPR '0 0 30 2 *'"),
    ],
)
def test_whatever_is_wrong_has_the_same_shape(arguments: tuple[str, ...], code: str, said: str) -> None:
    """The zone and the time, too; for people the option that said it is named."""
    ran = schedule("preview", *arguments, "--json")
    assert (2, code) == (ran.code, ran.json["error"]["code"])
    assert {"code", "message", "position", "hint"} == set(ran.json["error"])
    assert said in schedule("preview", *arguments).err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--count", "0"), "--count"),
        (("--dst-gap", "often"), "'run_after', 'skip', 'shift'"),
        (("--form", "2027-01-01"), "--from"),
        ((), "Missing argument"),
    ],
)
def test_options_that_are_none_are_answered_with_what_there_is(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2, and no traceback."""
    expression = ("0 0 * * *",) if arguments else ()
    ran = schedule("preview", *expression, *arguments)
    assert (2, "") == (ran.code, ran.out)
    assert said in ran.err


@given(st.text(max_size=80))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    """Whatever stands in the expression, the answer is an object and the exit code 0 or 2."""
    ran = schedule("preview", "--count", "2", "--json", "--", text)
    assert ran.code in (0, 2)
    assert ("error" in json.loads(ran.out)) == (ran.code == 2)


@pytest.mark.parametrize("hostile", ["\x1b[31m0 0 * * 9", "0 0 * * 9\x07", "0 0 * * \u202e9", "9" * 5_000 + " * * * *"])
def test_control_characters_of_an_expression_never_reach_the_terminal(hostile: str) -> None:
    """They are shown, not obeyed."""
    ran = schedule("preview", hostile)
    assert 2 == ran.code
    assert not set("\x1b\x07\u202e") & set(ran.out + ran.err)


def test_half_a_character_is_a_usage_error() -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates."""
    ran = schedule("preview", "\udcff * * * *")
    assert 2 == ran.code
    assert "Traceback" not in ran.err


# ------------------------------------------------------------------------------------------ what it needs


@pytest.mark.parametrize(
    "arguments",
    [
        ("schedule", "preview", "*/5 * * * *"),
        ("import", "crontab", "tests/unit/cli/data/crontab", "--dry-run", "--json"),
    ],
)
def test_what_needs_no_server_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    """So that it answers in a fraction of a second, on any machine."""
    code = (
        f"import sys\nfrom tickwise.cli.main import main\nassert main({list(arguments)!r}) == 0\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert "" == done.stderr.strip()
