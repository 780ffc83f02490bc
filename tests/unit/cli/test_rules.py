"""The options of schedules and calendars come to what the API takes, and each refusal can name its option."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from tickwise.cli import rules, times
from tickwise.cli.failures import FieldSource
from tickwise.cli.rules import RuleOptions
from tickwise.cli.session import Session
from tickwise.cli.times import TimeOptions
from tickwise.domain.calendar.entries import WEEKDAYS
from tickwise.domain.calendar.rules import CalendarMode, Otherwise
from tickwise.domain.decision import Overlap
from tickwise.domain.schedule import MisfireMode
from tickwise.domain.zones import GapRule, RepeatRule


def fields(said: RuleOptions, **more: Any) -> dict[str, Any]:
    return rules.fields(Session(environ={}), said, **more)


# ------------------------------------------------------------------------------------------ schedules


def test_the_words_are_the_domains() -> None:
    """They are written out in the command line, which does not load the domain."""
    assert rules.GAPS == tuple(GapRule)
    assert rules.REPEATS == tuple(RepeatRule)
    assert rules.MISFIRES == tuple(MisfireMode)
    assert rules.OVERLAPS == tuple(Overlap)
    assert rules.MODES == tuple(CalendarMode)
    assert rules.OTHERWISE == tuple(Otherwise)
    assert times.WEEKDAYS == tuple(WEEKDAYS)


def test_every_option_has_its_field() -> None:
    """Durations in seconds, times with the offset of the job's zone."""
    said = RuleOptions(
        start_at="2027-01-01 00:00", end_at="2027-07-01 00:00", max_runs=3, jitter="1m30s", dst_gap="skip",
        dst_overlap="both", misfire="all", grace="5m", max_catchup=7, overlap="queue_one",
        calendars=("holidays", "hours:include", "shop:exclude:defer"),
    )  # fmt: skip
    assert {
        "start_at": "2027-01-01T00:00:00+01:00", "end_at": "2027-07-01T00:00:00+02:00", "max_runs": 3,
        "jitter_seconds": 90.0, "dst": {"gap": "skip", "overlap": "both"},
        "misfire": {"mode": "all", "grace_seconds": 300.0, "max_catchup": 7}, "overlap": "queue_one",
        "calendars": [
            {"name": "holidays"}, {"name": "hours", "mode": "include"},
            {"name": "shop", "mode": "exclude", "otherwise": "defer"},
        ],
    } == fields(said, timezone="Europe/Berlin")  # fmt: skip


def test_what_is_not_said_is_not_sent() -> None:
    """The server's defaults hold, and an edit leaves the rest as it is."""
    assert {} == fields(RuleOptions())


def test_a_part_of_an_object_leaves_the_rest_as_the_job_has_it() -> None:
    """The API takes the object as a whole."""
    before = {
        "misfire": {"mode": "all", "grace_seconds": 60.0, "max_catchup": 3},
        "dst": {"gap": "skip", "overlap": None},
    }
    assert {"misfire": {"mode": "all", "grace_seconds": 5.0, "max_catchup": 3}} == fields(
        RuleOptions(grace="5s"), before=before
    )
    assert {"dst": {"gap": "skip", "overlap": "both"}} == fields(RuleOptions(dst_overlap="both"), before=before)


def test_none_takes_away_what_a_job_has() -> None:
    """Of an edit; a new job has nothing to be taken away."""
    said = RuleOptions(start_at="none", end_at="none", calendars=("none",))
    assert {"start_at": None, "end_at": None, "calendars": []} == fields(said, before={})
    with pytest.raises(click.UsageError, match="--start-at: 'none' is no time"):
        fields(said)


@pytest.mark.parametrize("text", ["", ":include", "a:often", "a:include:later", "a:include:skip:x", "a:"])
def test_a_calendar_that_cannot_be_read_is_answered_with_the_form(text: str) -> None:
    """With examples."""
    with pytest.raises(click.UsageError, match=r"NAME\[:include\|exclude\[:skip\|defer\]\], such as holidays"):
        fields(RuleOptions(calendars=(text,)))


def test_a_refusal_of_a_field_names_its_option() -> None:
    """The pointer of the answer leads to what was written."""
    session = Session(environ={})
    rules.fields(session, RuleOptions(grace="5m", calendars=("a", "b:include"), end_at="2027-01-01T00:00:00Z"))
    assert FieldSource("--grace", "5m") == session.blame["/misfire/grace_seconds"]
    assert FieldSource("--calendar", "b:include") == session.blame["/calendars/1"]
    assert FieldSource("--end-at", "2027-01-01T00:00:00Z") == session.blame["/end_at"]


# ------------------------------------------------------------------------------------------ calendars


def calendar(said: TimeOptions, below: str = "") -> tuple[Any, Session]:
    session = Session(environ={})
    return times.body(session, None, said, below=below), session


def test_every_kind_of_time_has_its_field(tmp_path: Path) -> None:
    """Days and hours are sent as they were written; the server reads them."""
    (tmp_path / "a.ics").write_text("BEGIN:VCALENDAR", encoding="utf-8")
    said = TimeOptions(
        dates=("2027-12-24..2027-12-26, 2027-12-31", "2028-01-01"), weekly=("mon-fri 09:00-17:00", "SAT,sun"),
        cron="0 2 * * 0", duration="1h 30m", begin="2027-03-01 18:00", end="2027-03-02T06:00:00Z", holidays="DE-BY",
        ics=str(tmp_path / "a.ics"), timezone="Europe/Berlin",
    )  # fmt: skip
    assert {
        "dates": [{"from": "2027-12-24", "to": "2027-12-26"}, "2027-12-31", "2028-01-01"],
        "weekly": [
            {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:00"}, {"days": ["sat", "sun"]},
        ],
        "recurring": [{"cron": "0 2 * * 0", "duration": "1h30m"}],
        "periods": [{"from": "2027-03-01T18:00:00+01:00", "to": "2027-03-02T06:00:00+00:00"}],
        "holidays": {"country": "DE", "subdivision": "BY"},
        "ics": "BEGIN:VCALENDAR",
        "timezone": "Europe/Berlin",
    } == calendar(said)[0]  # fmt: skip


def test_days_may_go_over_the_end_of_the_week() -> None:
    """Each once, in order."""
    assert [{"days": ["fri", "sat", "sun", "mon"], "from": "22:00", "to": "06:00"}] == calendar(
        TimeOptions(weekly=("fri-mon,sat 22:00-06:00",))
    )[0]["weekly"]


@pytest.mark.parametrize(
    "text", ["", "workdays", "mon 9-17", "mon 09:00", "mon- 09:00-10:00", "mon-fri-sun", "mon 09:00-17:00 x"]
)
def test_hours_that_cannot_be_read_are_answered_with_the_form(text: str) -> None:
    """With examples."""
    with pytest.raises(click.UsageError, match="write days and hours, such as 'mon-fri 09:00-17:00'"):
        calendar(TimeOptions(weekly=(text,)))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (TimeOptions(cron="0 2 * * 0"), "--cron and --duration go together"),
        (TimeOptions(duration="2h"), "--cron and --duration go together"),
        (TimeOptions(begin="2027-01-01"), "--from and --to go together"),
        (TimeOptions(begin="soon", end="2027-01-01"), "--from: 'soon' is no time"),
        (TimeOptions(begin="2027-01-01", end="2027-01-02", timezone="Moon/Base"), "no time zone"),
        (TimeOptions(ics="/nonexistent.ics"), "--ics: /nonexistent.ics cannot be read"),
    ],
)
def test_what_lacks_its_other_half_is_a_usage_error(said: TimeOptions, message: str) -> None:
    """Before anything is sent."""
    with pytest.raises(click.UsageError, match=message):
        calendar(said)


def test_a_refusal_of_a_time_names_its_option() -> None:
    """Also where the calendar is a part of a window."""
    _, session = calendar(TimeOptions(dates=("2027-12-24,2027-13-01",), cron="0 0 * * 9", duration="1h"), below="/when")
    assert FieldSource("--dates", "2027-13-01") == session.blame["/when/dates/1"]
    assert FieldSource("--cron", "0 0 * * 9") == session.blame["/when/recurring/0/cron"]


def test_a_file_holds_the_whole_calendar(tmp_path: Path) -> None:
    """Options beside it would be half of one."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"dates": ["2027-01-01"]}), encoding="utf-8")
    session = Session(environ={})
    assert {"dates": ["2027-01-01"]} == times.body(session, str(path), TimeOptions())
    with pytest.raises(click.UsageError, match="leave the options"):
        times.body(session, str(path), TimeOptions(timezone="UTC"))
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(click.UsageError, match="must hold a JSON object"):
        times.body(session, str(path), TimeOptions())


def test_nothing_said_is_no_calendar() -> None:
    """An empty one would close nothing, or everything."""
    assert None is calendar(TimeOptions())[0]
