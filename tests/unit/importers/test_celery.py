"""Celery's beat schedules: what an entry becomes, that no module is ever run, and that none breaks the reading."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.crons import fire_after
from tests.unit.importers.acceptance import accepted, check_report
from tickwise.domain.cron import expression as cron
from tickwise.importers.celery import read_celery
from tickwise.importers.report import ImportEntry, ImportVerdict

HEAD = "from celery.schedules import crontab, schedule, solar\nfrom datetime import timedelta\n"


def entries_of(text: str, source: str = "beat.py", **more: Any) -> list[ImportEntry]:
    report = read_celery(text, source=source, **more)
    check_report(report)
    return list(report.entries)


def module(schedule: str, more: str = "") -> str:
    """A module with one entry, whose schedule this is; `more` is added to the entry."""
    return f'{HEAD}app.conf.beat_schedule = {{"a": {{"task": "shop.a", "schedule": {schedule}, {more}}}}}\n'


def job_of(schedule: str, more: str = "", settings_of_app: str = "") -> dict[str, Any]:
    (entry,) = entries_of(module(schedule, more) + settings_of_app)
    assert entry.job is not None, entry.reason
    accepted(entry.job)
    return dict(entry.job)


# -------------------------------------------------------------------------------------------------------- one entry


def test_an_entry_becomes_a_job_that_means_the_same() -> None:
    """In the zone of the settings, with Celery's rule for changes of the clock; nothing changed."""
    (entry,) = entries_of(module("crontab(minute=30, hour=2)") + 'app.conf.timezone = "Europe/Berlin"\n')
    assert (ImportVerdict.SAME, 3) == (entry.verdict, entry.line)
    assert "a: {'task': 'shop.a', 'schedule': crontab(minute=30, hour=2)}" == entry.text
    assert {
        "name": "a",
        "key": "celery:a",
        "schedule_type": "CRON",
        "cron_expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "dst": {"gap": "shift", "overlap": "first"},
        "misfire": {"grace_seconds": 60, "mode": "latest"},
        "overlap": "allow",
        "max_retries": 0,
        "task": {"kind": "function", "name": "shop.a"},
    } == entry.job
    accepted(entry.job)


@pytest.mark.parametrize(
    ("schedule", "line"),
    [
        ("crontab()", "* * * * *"),
        ("crontab(0, 3)", "0 3 * * *"),
        ("crontab(minute='*/15')", "*/15 * * * *"),
        ("crontab(minute=0, hour='*/3,8-17')", "0 0,3,6,8-18,21 * * *"),
        ("crontab(minute=[0, 30], hour={6, 7}, day_of_week=(1, 2))", "*/30 6-7 * * 1-2"),
        ("crontab(minute=0, hour=0, day_of_week='mon-fri')", "0 0 * * 1-5"),
        ("crontab(minute=0, hour=0, day_of_week='sunday')", "0 0 * * 0"),
        ("crontab(minute=0, hour='22-2')", "0 0-2,22-23 * * *"),
        ("crontab(minute=0, hour=0, month_of_year='jan,december')", "0 0 * 1,12 *"),
        ("crontab(minute=0, hour=0, day_of_week='mon', day_of_month='1-7')", "0 0 * * 1#1"),
        ("crontab(minute=0, hour=0, day_of_week='mon', day_of_month='*/2')", "0 0 */2 * 1"),
        ("crontab(minute=0, hour=0, day_of_week='*', day_of_month='1-31/10')", "0 0 1-31/10 * *"),
        ("crontab.from_string('5 4 1 2 *')", "5 4 1 2 *"),
        ("celery.schedules.crontab(hour=-(-3), minute=60 - 30)", "30 3 * * *"),
    ],
)
def test_a_crontab_becomes_a_line(schedule: str, line: str) -> None:
    """Numbers, lists, names, steps, ranges that wrap; a day must suit both day fields."""
    assert line == job_of(schedule)["cron_expression"]


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("30", 30),
        ("2.5", 2.5),
        ("5 * 60", 300),
        ("timedelta(minutes=5)", 300),
        ("timedelta(1, 30)", 86_430),
        ("timedelta(hours=1) / 2", 1_800),
        ("schedule(run_every=timedelta(seconds=90))", 90),
        ("schedule(45.0)", 45),
    ],
)
def test_spans_of_time_become_intervals(schedule: str, seconds: float) -> None:
    """Numbers are seconds."""
    assert ("INTERVAL", seconds) == (job_of(schedule)["schedule_type"], job_of(schedule)["interval_seconds"])


@pytest.mark.parametrize(
    ("settings_of_app", "zone"),
    [
        ("", "UTC"),
        ("app.conf.timezone = 'Asia/Tokyo'", "Asia/Tokyo"),
        ("CELERY_TIMEZONE = 'Asia/Tokyo'", "Asia/Tokyo"),
        ("TIME_ZONE = 'Asia/Tokyo'\nCELERY_TIMEZONE = TIME_ZONE", "Asia/Tokyo"),
        ("app.conf.update(timezone='Asia/Tokyo', enable_utc=False)", "Asia/Tokyo"),
        ("app.conf.update({'timezone': 'Asia/Tokyo'})", "Asia/Tokyo"),
        ("app.conf['timezone'] = 'Asia/Tokyo'", "Asia/Tokyo"),
        ("app.conf.enable_utc = True", "UTC"),
    ],
)
def test_the_zone_of_the_settings_is_that_of_the_job(settings_of_app: str, zone: str) -> None:
    """Wherever it is written; UTC if it is not."""
    assert zone == job_of("crontab(0, 3)", settings_of_app=settings_of_app)["timezone"]


@pytest.mark.parametrize("settings_of_app", ["app.conf.enable_utc = False", "app.conf.timezone = zone_of_machine()"])
def test_a_zone_that_is_not_written_out_is_said_or_given(settings_of_app: str) -> None:
    """UTC is taken, unless the import is told the zone."""
    (said,) = entries_of(module("crontab(0, 3)") + settings_of_app)
    (given_zone,) = entries_of(module("crontab(0, 3)") + settings_of_app, timezone="Asia/Tokyo")
    assert said.job is not None
    assert given_zone.job is not None
    assert ("UTC", ImportVerdict.CHANGED) == (said.job["timezone"], said.verdict)
    assert "the times are read as UTC" in said.changes[0]
    assert ("Asia/Tokyo", ImportVerdict.SAME) == (given_zone.job["timezone"], given_zone.verdict)


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ("'args': (1, 'b')", {"payload": {"args": [1, "b"], "kwargs": {}}}),
        ("'kwargs': {'day': None}", {"payload": {"day": None}}),
        ("'args': [1], 'kwargs': dict(a=[2.5])", {"payload": {"args": [1], "kwargs": {"a": [2.5]}}}),
        ("'options': {'priority': 9}", {"priority": 9}),
        ("'options': {'soft_time_limit': 60}", {"timeout_seconds": 60}),
        ("'options': {'expires': 60}", {}),
        ("'options': {'queue': 'a b'}", {}),
        ("'options': {'exchange': 'a', 'routing_key': 'b'}", {}),
        ("'relative': False, 'comment': 'x'", {}),
    ],
)
def test_what_changes_its_meaning_is_said(more: str, fields: dict[str, Any]) -> None:
    """Arguments become the payload; options that have no counterpart are left out."""
    (entry,) = entries_of(module("crontab(0, 3)", more))
    assert entry.job is not None, entry.reason
    plain = job_of("crontab(0, 3)")
    assert ImportVerdict.CHANGED is entry.verdict
    assert {**plain, **fields} == entry.job


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ("'args': (), 'kwargs': {}", {}),
        ("'options': {'queue': 'slow'}", {"queue": "slow"}),
        ("'options': {'time_limit': 60}", {"timeout_seconds": 60}),
    ],
)
def test_what_means_the_same_is_the_same(more: str, fields: dict[str, Any]) -> None:
    """Queue and time limit have their counterparts."""
    (entry,) = entries_of(module("crontab(0, 3)", more))
    assert (ImportVerdict.SAME, {**job_of("crontab(0, 3)"), **fields}) == (entry.verdict, entry.job)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("solar('sunset', 1, 2)", "line 3: a schedule by the sun"),
        ("get_schedule()", "line 3: 'get_schedule()' is known only when the program runs"),
        ("crontab(**fields)", "write each argument by itself"),
        ("crontab(nowfun=now)", "crontab's nowfun has no counterpart"),
        ("crontab(hour=24)", "hour: '24' does not lie between 0 and 23"),
        ("crontab(day_of_week=7)", "Sunday is 0"),
        ("crontab(hour='5/2')", "hour: '5/2' cannot be read"),
        ("crontab(hour='*/0')", "a step of 0"),
        ("crontab(hour='noon')", "is no number and no name"),
        ("crontab(hour=2.5)", "hour is no number, text or list of numbers"),
        ("crontab(hour=[])", "hour is no number, text or list of numbers"),
        ("crontab(hour=0x" + "f" * 5_000 + ")", "does not lie between 0 and 23"),
        ("crontab(day_of_week=5, day_of_month=13)", "suit both its date and its weekday"),
        ("crontab(0, 0, day_of_month=30, month_of_year=2)", "it never fires"),
        ("crontab.from_string('0 3')", "has not five fields"),
        ("0.5", "1 second to 10 years"),
        ("1e999", "no number"),
        ("1 / 0", "not divided by 0"),
        ("None", "the schedule cannot be read"),
        ("3, 'task': ''", "the entry names no task"),
        ("3, 'task': task.name", "'task.name' is known only when the program runs"),
        ("3, 'enabled': False", "is not enabled"),
        ("3, 'args': [b'x']", "neither number, text, list nor mapping"),
        ("3, 'args': [1e999]", "no finite number"),
        ("3, 'args': [2 ** 64]", "is known only when the program runs"),
        ("3, 'args': [99999999999999999999]", "more than 64 bits"),
        ("3, 'args': 'x'", "args is a list"),
        ("3, 'task': 'a\\0b'", "U+0000"),
        ("3, 'task': '\\ud800'", "lone surrogate"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(schedule: str, reason: str) -> None:
    """What a program would work out is not guessed; the reason says what to write."""
    (entry,) = entries_of(module(schedule))
    assert (ImportVerdict.REFUSED, None) == (entry.verdict, entry.job)
    assert reason in (entry.reason or "")


# ------------------------------------------------------------------------------------------------------------ files


def test_a_schedule_is_found_wherever_it_is_written() -> None:
    """Assigned, added to, updated, under the names of all versions, once even if two names mean it."""
    text = f"""{HEAD}
import celery.schedules as times
from celery.schedules import crontab as every
NIGHT = 3
SCHEDULE: dict = {{"one": {{"task": "a", "schedule": every(0, NIGHT)}}}}
CELERYBEAT_SCHEDULE = SCHEDULE
app.conf.beat_schedule = SCHEDULE
app.conf.beat_schedule["two"] = {{"task": "a", "schedule": times.crontab(0, 4)}}
app.conf.beat_schedule.update({{"three": {{"task": "a", "schedule": 5}}}})
app.conf.update(beat_schedule={{"four": {{"task": "a", "schedule": 5}}}})
app.conf["beat_schedule"] = {{"five": {{"task": "a", "schedule": 5}}}}
settings["CELERY_BEAT_SCHEDULE"]["six"] = {{"task": "a", "schedule": 5}}
class Config:
    beat_schedule = {{"seven": {{"task": "a", "schedule": 5}}, **others, name(): {{}}}}

@app.on_after_configure.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, a.s("x"), name="eight")
"""
    found = entries_of(text)
    assert ["one", "two", "three", "four", "five", "six", "seven"] == [
        entry.job["name"] for entry in found if entry.job
    ]
    assert [7, 10, 11, 12, 13, 14, 16, 16, 16, 20] == [entry.line for entry in found]
    assert "'others' is known only when the program runs" in (found[7].reason or "")
    assert "'name()' is known only when the program runs" in (found[8].reason or "")
    assert "add_periodic_task names its task by an object" in (found[9].reason or "")


def test_a_module_is_never_run(tmp_path: Path) -> None:
    """Not even where it would change what the schedule says."""
    trace = tmp_path / "trace"
    text = f"open({str(trace)!r}, 'w')\nraise SystemExit(1)\n{module('crontab(0, 3)')}"
    (entry,) = entries_of(text)
    assert (ImportVerdict.SAME, False) == (entry.verdict, trace.exists())


def test_json_means_the_same_as_a_module() -> None:
    """Seconds, fields, lines, intervals with their period; each with its line, a name that stands twice refused."""
    text = """{
  "seconds": {"task": "a", "schedule": 30},
  "fields": {"task": "a", "schedule": {"minute": "0", "hour": "*/2"}},
  "typed": {"task": "a", "schedule": {"__type__": "crontab", "minute": 5}},
  "line": {"task": "a", "schedule": "0 3 * * *", "kwargs": {"b": 1}},
  "every": {"task": "a", "schedule": {"every": 5, "period": "minutes"}},
  "span": {"task": "a", "schedule": {"hours": 1, "minutes": 30}}, "seconds": {"task": "a", "schedule": 31},
  "broken": 4, "none": {"task": "a", "schedule": {"period": "days"}}
}"""
    found = entries_of(text, "beat.json")
    assert [30, "0 */2 * * *", "5 * * * *", "0 3 * * *", 300, 5_400] == [
        entry.job.get("interval_seconds", entry.job.get("cron_expression")) for entry in found if entry.job
    ]
    assert [2, 3, 4, 5, 6, 7, 7, 8, 8] == [entry.line for entry in found]
    assert [ImportVerdict.REFUSED] * 3 == [entry.verdict for entry in found[6:]]


def test_json_settings_bring_their_zone() -> None:
    """The schedule may stand among the other settings."""
    text = json.dumps(
        {"timezone": "Asia/Tokyo", "beat_schedule": {"a": {"task": "b", "schedule": {"hour": 3, "minute": 0}}}},
        indent=1,
    )
    (entry,) = entries_of(text, "settings.json")
    assert entry.job is not None
    assert (4, "Asia/Tokyo", "0 3 * * *") == (entry.line, entry.job["timezone"], entry.job["cron_expression"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no beat schedule in it"),
        ("x = 1", "there is no beat schedule in it"),
        ("beat_schedule = load()", "line 1: 'load()' is known only when the program runs"),
        ("a = 1\ndef (", "line 2 is no Python"),
        ("print 'a'", "line 1 is no Python"),
        ("a\0b", "is no Python"),
        ("{", "cannot be read as JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ("[1]", "it is no JSON object"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"a":' * 100_000, "cannot be read as JSON"),
        ("x = " + "-" * 100_000 + "1", "Python"),
        ("x = " + "(" * 1_000, "Python"),
        ("x = 1\n" * 400_000, "keep its schedule alone"),
    ],
    ids=lambda value: value[:20] if len(value) < 100 else f"{value[:6]}…{len(value)}",
)
def test_files_without_a_schedule_are_refused(text: str, reason: str) -> None:
    """Broken, bottomless, or about something else."""
    (entry,) = entries_of(text)
    assert entry.verdict is ImportVerdict.REFUSED
    assert reason in (entry.reason or "")


def test_names_inside_names_are_worked_out_within_bounds() -> None:
    """Twenty doublings of a list are a million values: that many are not asked for."""
    names = "a0 = [1, 1]\n" + "".join(f"a{n} = [a{n - 1}, a{n - 1}]\n" for n in range(1, 25))
    (entry,) = entries_of(names + module("3", "'args': a24"))
    assert "too large" in (entry.reason or "")


_PIECES = st.lists(
    st.sampled_from(
        [
            "beat_schedule", " = ", "{", "}", "[", "]", "(", ")", '"a"', ": ", ", ", '"task"', '"schedule"', "crontab",
            "minute=", "'*/5'", "timedelta", "schedule", "1", "0", "-", "*", "/", "\n", ".update", "app.conf.", "**",
            "None", "'\\ud800'", "'\\0'", "1e999", '"args"', '"options"', "lambda: 0", "\\", "\t", "#",
        ]
    ),
    max_size=30,
)  # fmt: skip


@settings(max_examples=200)
@given(pieces=_PIECES, noise=st.text(max_size=30))
@example(pieces=["beat_schedule", " = ", "{", '"a"', ": ", "1", "}"], noise="")
def test_no_module_breaks_the_reading(pieces: list[str], noise: str) -> None:
    """Whatever is put together from what schedules are made of."""
    for text in ("".join(pieces) + noise, module("".join(pieces)), module("3", "".join(pieces)), module(repr(noise))):
        check_report(read_celery(text, source="beat.py"))


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=200)
@given(value=_JSON, field=st.sampled_from(["task", "schedule", "args", "kwargs", "options", "enabled", "relative"]))
def test_no_json_value_breaks_the_reading(value: object, field: str) -> None:
    """In the place of each field, and as the whole."""
    entry = {"task": "a", "schedule": 5, field: value}
    for text in (
        json.dumps({"a": entry}),
        json.dumps({"timezone": value, "beat_schedule": {"a": entry}}),
        json.dumps(value),
    ):
        check_report(read_celery(text, source="beat.json"))


@given(noise=st.binary(max_size=100))
def test_no_bytes_break_the_reading(noise: bytes) -> None:
    """Whatever encoding they were meant to be in."""
    check_report(read_celery(noise, source="beat.py"))


# -------------------------------------------------------------------------------------- the fields, by another reader


def _fields(low: int, high: int) -> st.SearchStrategy[Any]:
    numbers = st.integers(low, high)
    return st.one_of(
        st.just("*"),
        numbers,
        st.lists(numbers, min_size=1, max_size=4),
        st.integers(2, 9).map(lambda step: f"*/{step}"),
        st.tuples(numbers, numbers).map(lambda pair: f"{min(pair)}-{max(pair)}"),
    )


def _named(field: Any, low: int, high: int) -> set[int]:
    """The numbers that a field names, by Celery's manual."""
    if isinstance(field, int):
        return {field}
    if isinstance(field, list):
        return set(field)
    if field == "*":
        return set(range(low, high + 1))
    if field.startswith("*/"):
        return set(range(low, high + 1, int(field[2:])))
    first, last = field.split("-")
    return set(range(int(first), int(last) + 1))


@given(hour=_fields(0, 23), day=_fields(1, 31), month=_fields(1, 12), weekday=_fields(0, 6))
@example(hour=3, day="1-7", month="*", weekday=1)
def test_a_line_names_the_hours_that_celery_takes(hour: Any, day: Any, month: Any, weekday: Any) -> None:
    """Hour by hour for two months: every field must hold. What no line can say is refused, never something else."""
    spec = f"crontab(minute=7, hour={hour!r}, day_of_month={day!r}, month_of_year={month!r}, day_of_week={weekday!r})"
    (entry,) = entries_of(module(spec))
    if entry.job is None:
        assert "*" not in (day, weekday) or "it never fires" in (entry.reason or "")
        return
    begin = datetime(2028, 1, 20, tzinfo=UTC)
    named = (_named(hour, 0, 23), _named(day, 1, 31), _named(month, 1, 12), _named(weekday, 0, 6))
    moments = [begin + timedelta(hours=number, minutes=7) for number in range(60 * 24)]
    expected = [
        at
        for at in moments
        if at.hour in named[0] and at.day in named[1] and at.month in named[2] and at.isoweekday() % 7 in named[3]
    ]
    line, at = cron.parse(entry.job["cron_expression"]), begin
    found: list[datetime] = []
    while (following := fire_after(line, at, ZoneInfo("UTC"))) is not None and following <= moments[-1]:
        found.append(following)
        at = following
    assert expected == found
