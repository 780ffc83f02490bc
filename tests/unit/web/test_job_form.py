"""The form of a job as text: what was written is read as the same, and each fault is at its field."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.app import API
from tests.support.pages import pages
from tickwise.control.bodies import JobBody
from tickwise.documents.definition import decode_definition
from tickwise.domain.zones import zone_named
from tickwise.web.editing import fields as job_fields
from tickwise.web.editing import form as job_form
from tickwise.web.editing.changes import compared, difference, digest, rivals, words
from tickwise.web.editing.form import Body
from tickwise.web.editing.values import duration_text, moment_text

SHELL = {"kind": "shell", "command": "date"}
PLAIN = {"name": "a", "kind": "shell", "task.command": "date", "schedule_type": "ON_DEMAND"}
JOBS: dict[str, dict[str, Any]] = {
    "cron": {"cron": "30 2 * * 1-5", "timezone": "Europe/Berlin", "start_at": "2027-01-01T00:00:00Z", "max_runs": 9,
             "dst": {"gap": "skip"}, "calendars": [], "jitter_seconds": 2.5},
    "interval": {"every": "1h30m", "anchor": "2026-11-26T07:23:14.123456Z",
                 "misfire": {"mode": "all", "max_catchup": 3}},
    "once, in the second hour of two": {"at": "2027-10-31T01:30:00Z", "timezone": "Europe/Berlin"},
    "asked for": {"schedule_type": "ON_DEMAND", "payload": {"deep": [1, 2.5, None, "ä"]}},
    "policies": {
        "every": "1d", "max_retries": 7,
        "retry": {"backoff": "list", "delays_seconds": [1, 60.5], "on": {"exit_code": {"75": "retry"}}},
        "concurrency": {"limit": 2, "key": "label:team"}, "labels": {"team": "a", "x": "y=z"},
        "rate": {"limit": 5, "per_seconds": 60}, "limits": {"cpu_seconds": 1.5, "memory_bytes": 1 << 30},
        "queue": "reports", "priority": 9, "requires": ["zone=eu"], "overlap": "allow", "on_unknown": "hold",
        "timeout_seconds": 0.25, "start_deadline_seconds": 90, "key": "k", "owner": "ada",
        "description": "two\nlines",
    },
    "arguments": {"every": "1d", "task": {"kind": "shell", "argv": ["/bin/echo", "a b", ""]}},
    "arguments with lines": {"every": "1d", "task": {"kind": "shell", "argv": ["/bin/echo", "a\nb"]}},
    "script": {"every": "1d", "task": {"kind": "python", "source": "if True:\n    print('ä')\n"}},
    "script with its surroundings": {"every": "1d", "task": {
        "kind": "python", "source": "import helpers", "python": "/srv/venv/bin/python", "directory": "/srv",
        "files": {"helpers.py": "a = 1\n", "x": {"base64": "AA=="}}, "env": {"REGION": "eu", "X": " a=b "}}},
    "command with variables of several lines": {"every": "1d", "task": {
        "kind": "shell", "command": "env", "env": {"A": "a\nb"}}},
    "request": {"every": "1d", "task": {"kind": "http", "method": "post", "url": "https://example.com/?token=x",
                "headers": {"Authorization": "Bearer y", "Accept": "*/*"}, "body": {"a": 1}, "expect": ["2xx", 404]}},
    "request with values, a form and limits": {"every": "1d", "task": {
        "kind": "http", "method": "POST", "url": "https://example.com/{{ payload.id }}", "query": {"a": "{{ run.id }}"},
        "form": {"b": "c=d"}, "first_byte_seconds": 10.0}},
    "request with parameters that are no texts": {"every": "1d", "task": {
        "kind": "http", "url": "https://example.com/", "query": {"a": 1, "b": ["c"]}}},
    "request with braces that mean nothing": {"every": "1d", "task": {
        "kind": "http", "method": "POST", "url": "https://example.com/", "body": "{{ a }}", "templates": False}},
    "request with a text that looks like JSON": {"every": "1d", "task": {
        "kind": "http", "method": "POST", "url": "https://example.com", "body": '{"a": 1}'}},
}  # fmt: skip


async def _body_of(sent: dict[str, Any]) -> Body:
    """The body of a stored job."""
    async with pages() as rig:
        answer = await rig.here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **sent})
        assert 201 == answer.status_code, answer.text
        row = await rig.here.store.jobs.get("default", UUID(answer.json()["job_id"]))
        assert row is not None
        return job_form.body_of_job(row, decode_definition(row.definition))


@pytest.mark.parametrize("name", JOBS)
async def test_a_job_that_is_opened_and_sent_again_is_not_changed(name: str) -> None:
    """Each part, to the microsecond; and nothing is left out because the form cannot write it."""
    body = await _body_of(JOBS[name])
    typed = job_form.read(job_form.texts_of(body))
    assert ({}, body) == (typed.faults, typed.body)
    assert frozenset() == job_form.kept(body)
    assert {} == job_form.changes(body, typed.body)


@pytest.mark.parametrize("name", JOBS)
async def test_a_copy_of_a_job_is_the_same_job(name: str) -> None:
    """What a create sends says all of it, but for secrets."""
    body = await _body_of(JOBS[name])
    sent = msgspec.json.decode(job_form.as_created(body, "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"))
    msgspec.json.decode(msgspec.json.encode(sent), type=JobBody)
    if name == "request":
        assert ("https://example.com/?token=***", "***") == (
            sent["task"]["url"],
            sent["task"]["headers"]["Authorization"],
        )
        return
    again = await _body_of({key: value for key, value in sent.items() if key != "job_id"})
    same = {part for part in job_form.PARTS if again[part] == body[part]}
    assert set(job_form.PARTS) == same


@pytest.mark.parametrize(
    ("typed", "at"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"kind": "magic"}, "kind"),
        ({"task.command": "\n"}, "task.command"),
        ({"kind": "json", "task": "[1]"}, "task"),
        ({"kind": "http", "task.url": "https://x", "task.headers": "no colon"}, "task.headers"),
        ({"kind": "http", "task.url": "https://x", "task.query": "no sign"}, "task.query"),
        ({"kind": "http", "task.url": "https://x", "task.proof": "{"}, "task.proof"),
        ({"kind": "http", "task.url": "https://x", "task.proof": '{"url": "https://y"}'}, "task.proof"),
        ({"schedule_type": ""}, "schedule_type"),
        ({"schedule_type": "CRON"}, "cron_expression"),
        ({"schedule_type": "INTERVAL", "interval_seconds": "often"}, "interval_seconds"),
        ({"schedule_type": "FUTURE", "schedule_time": "tomorrow"}, "schedule_time"),
        ({"schedule_type": "CRON", "cron_expression": "* * * * *", "timezone": "Mars/Olympus"}, "timezone"),
        ({"labels": "team"}, "labels"),
        ({"payload": "{"}, "payload"),
        ({"max_retries": "few"}, "max_retries"),
        ({"max_retries": "٣"}, "max_retries"),
        ({"retry.factor": "nan"}, "retry.factor"),
        ({"retry.on": '{"exit_code": {"1": "perhaps"}}'}, "retry.on"),
        ({"concurrency.key": "job"}, "concurrency.limit"),
        ({"overlap": "perhaps"}, "overlap"),
        ({"calendars": "holidays | perhaps"}, "calendars"),
        ({"timeout_seconds": "1 fortnight"}, "timeout_seconds"),
    ],
)
def test_a_text_that_says_nothing_is_a_fault_at_its_field(typed: dict[str, str], at: str) -> None:
    """And all of them are told at once."""
    found = job_form.read({**PLAIN, **typed})
    assert [at] == list(found.faults)
    assert all(found.texts[name] == value for name, value in typed.items())
    both = job_form.read({**PLAIN, **typed, "priority": "high"})
    assert {at, "priority"} == set(both.faults)


@pytest.mark.parametrize(
    ("pointer", "name"),
    [
        ("/name", "name"), ("/cron", "cron_expression"), ("/every", "interval_seconds"), ("/at", "schedule_time"),
        ("/task/command", "task.command"), ("/task/argv/3", "task.argv"), ("/task/headers/X-Key", "task.headers"),
        ("/task/kind", "kind"), ("/taskId", "taskId"), ("/labels/env~1a", "labels"), ("/calendars/0/name", "calendars"),
        ("/retry/on/reason/x", "retry.on"), ("/retry", "retry.backoff"), ("/concurrency/key", "concurrency.key"),
        ("/limits/memory_bytes", "limits.memory_bytes"), ("/job_id", ""), ("/", ""), (None, ""), ("/then/0", "then"),
    ],
)  # fmt: skip
def test_a_pointer_of_control_leads_to_an_input(pointer: str | None, name: str) -> None:
    """Or to none, and is told above the form."""
    assert name == job_form.input_of(pointer, PLAIN)
    assert name in {"", "kind", *job_fields.FIELDS}


def test_lines_that_a_browser_ends_in_its_way_are_lines() -> None:
    """A carriage return in a script of a shell is a fault of its own."""
    found = job_form.read({**PLAIN, "task.command": "echo a\r\necho b\r\n"})
    assert "echo a\necho b\n" == found.body["task"]["task"]["command"]


def test_fields_of_another_schedule_are_not_sent_and_not_lost() -> None:
    """Who looks at another type of schedule and comes back finds what was typed."""
    typed = {
        **PLAIN,
        "schedule_type": "INTERVAL",
        "interval_seconds": "5m",
        "cron_expression": "0 3 * * *",
        "dst.gap": "skip",
    }
    found = job_form.read(typed)
    sent = msgspec.json.decode(job_form.as_created(found.body, "x"))
    assert (300.0, False, False) == (sent["interval_seconds"], "cron_expression" in sent, "dst" in sent)
    assert "0 3 * * *" == found.texts["cron_expression"]


def test_a_new_schedule_is_sent_as_a_whole() -> None:
    """Else its zone and its end would be lost; and a zone alone is sent alone."""
    old = job_form.read({**PLAIN, "schedule_type": "CRON", "cron_expression": "0 3 * * *", "timezone": "Europe/Berlin",
                         "end_at": "2030-01-01T00:00"}).body  # fmt: skip
    new = {**old, "when": {"schedule_type": "CRON", "cron_expression": "0 4 * * *"}}
    sent = msgspec.json.decode(job_form.as_changed(new, job_form.changes(old, new)))
    assert {"schedule_type": "CRON", "cron_expression": "0 4 * * *", "timezone": "Europe/Berlin",
            "end_at": "2029-12-31T23:00:00+00:00"} == sent  # fmt: skip
    moved = {**old, "timezone": "UTC"}
    assert {"timezone": "UTC"} == msgspec.json.decode(job_form.as_changed(moved, job_form.changes(old, moved)))


@given(st.floats(min_value=0.001, max_value=1e8).map(lambda value: round(value, 6)))
def test_a_duration_is_read_as_it_was_written(seconds: float) -> None:
    """To the last bit."""
    assert seconds == job_form.read({**PLAIN, "timeout_seconds": duration_text(seconds)}).body["timeout_seconds"]


def test_a_time_that_a_clock_shows_twice_keeps_its_offset() -> None:
    """The first of them is written without one."""
    zone = zone_named("Europe/Berlin")
    assert "2027-10-31T02:30:00" == moment_text("2027-10-31T00:30:00+00:00", zone)
    assert "2027-10-31T02:30:00+01:00" == moment_text("2027-10-31T01:30:00+00:00", zone)


def test_what_the_form_cannot_write_is_left_alone() -> None:
    """A calendar whose name holds the sign that parts words."""
    body = job_form.read(PLAIN).body
    body["calendars"] = [{"name": "a | b"}]
    assert {"calendars"} == job_form.kept(body)
    assert {} == job_form.changes(body, job_form.read(job_form.texts_of(body)).body)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("description", "exe.\u202egnp"),
        ("description", "a\r\nb"),
        ("name", "two\nlines"),
        ("owner", "bell\x07"),
        ("task", {"task": {"kind": "shell", "command": "echo \x1b[31mred"}}),
        ("task", {"task": {"kind": "shell", "command": "echo a\r\necho b"}}),
        ("labels", {"a": "line\u2028"}),
    ],
)
def test_what_a_page_cannot_bring_back_is_left_alone(part: str, value: Any) -> None:
    """Marks that are spelled out, and the ends of lines that browsers write in their way."""
    body = {**job_form.read(PLAIN).body, part: value}
    assert part in job_form.kept(body)
    typed = job_form.read({**job_form.texts_of(body), "description": "x", "name": "y"})
    assert part not in job_form.changes(body, typed.body)


def test_of_two_people_each_part_is_told_by_whose_hand_it_changed() -> None:
    """One decides only where both changed the same part to something else."""
    base = job_form.read(PLAIN).body
    theirs = {**base, "name": "theirs", "owner": "bo", "queue": "fast"}
    yours = {"name": "yours", "queue": "fast", "priority": 1}
    found = {rival.part: rival for rival in rivals(base, theirs, yours)}
    assert {"name": True, "owner": False, "queue": False} == {part: each.decide for part, each in found.items()}
    assert ("a", "theirs", "yours") == found["name"][2:5]
    assert [("name", "theirs", "yours"), ("priority", "5", "1")] == [
        (each.part, each.before, each.after) for each in compared(theirs, {**theirs, **yours})
    ]
    assert digest(yours, 1) != digest(yours, 2)


def test_long_texts_are_compared_line_by_line() -> None:
    """With what is around them, up to a page."""
    old = "\n".join(f"line {number}" for number in range(100))
    found = difference(old, old.replace("line 50", "line fifty"))
    assert [("-", "line 50"), ("+", "line fifty")] == [line for line in found if line.sign in "+-"]
    assert len(found) < 10
    assert len(difference("", "\n".join(map(str, range(5_000))))) <= 61


@pytest.mark.parametrize("name", JOBS)
async def test_each_part_has_words(name: str) -> None:
    """For the list of changes."""
    body = await _body_of(JOBS[name])
    for part in job_form.PARTS:
        assert part in job_fields.WORDS
        assert bool(words(part, body)) == (body[part] not in (None, [], {})), part
