"""What a person writes becomes a task, a schedule and a payload, or a message that says what to write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from tickwise.cli import work
from tickwise.cli.session import Session


@pytest.fixture
def session() -> Session:
    return Session(environ={})


def _file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "task"),
    [
        ("a.py", "print(1)", {"kind": "python", "source": "print(1)"}),
        ("tool", "#!/usr/bin/env python3\n1", {"kind": "python", "source": "#!/usr/bin/env python3\n1"}),
        ("tool", "#!/usr/bin/env -S python3 -u\n1", {"kind": "python", "source": "#!/usr/bin/env -S python3 -u\n1"}),
        ("a.sh", "date", {"kind": "shell", "command": "date"}),
        ("tool", "#!/bin/sh\ndate", {"kind": "shell", "command": "#!/bin/sh\ndate"}),
        ("a.bash", "date", {"kind": "shell", "argv": ["bash", "-c", "date", "a.bash"]}),
        ("a.sh", "#!/bin/sh -e\ndate", {"kind": "shell", "argv": ["sh", "-e", "-c", "#!/bin/sh -e\ndate", "a.sh"]}),
        ("a.sh", "#! /bin/sh -e\ndate", {"kind": "shell", "argv": ["sh", "-e", "-c", "#! /bin/sh -e\ndate", "a.sh"]}),
        (
            "tool",
            "#!/usr/bin/env -S bash -eu\ndate",
            {"kind": "shell", "argv": ["bash", "-eu", "-c", "#!/usr/bin/env -S bash -eu\ndate", "tool"]},
        ),
        (
            "a.sh",
            "#!/bin/bash -e\ndate",
            {"kind": "shell", "argv": ["bash", "-e", "-c", "#!/bin/bash -e\ndate", "a.sh"]},
        ),
    ],
)
def test_a_script_is_known_by_its_suffix_or_its_first_line(
    tmp_path: Path, name: str, text: str, task: dict[str, Any]
) -> None:
    """Python and shells; a shell other than sh is called by its name, so that its own syntax works."""
    assert task == work.script_task(work.read_script(_file(tmp_path, name, text)))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("thing", "hello", "is no known script"),
        ("tool", "#!/usr/bin/perl\nprint 1", "--shell"),
        ("a.sh", "#!/usr/bin/perl\nprint 1", "names /usr/bin/perl, which is no shell"),
        ("job.json", "{}", "tickwise jobs create"),
        ("empty.py", "  \n", "is empty"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused_with_what_to_do(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Each message names the way on."""
    with pytest.raises(click.UsageError, match=said):
        work.read_script(_file(tmp_path, name, text))


def test_a_missing_file_a_folder_and_a_binary_are_refused(tmp_path: Path) -> None:
    """Never with a traceback."""
    (tmp_path / "program").write_bytes(b"\x7fELF\x80\xff")
    for path, said in ((tmp_path / "gone.py", "no file"), (tmp_path, "folder"), (tmp_path / "program", "no text")):
        with pytest.raises(click.UsageError, match=said):
            work.read_script(path)


@pytest.mark.parametrize(
    ("params", "payload"),
    [
        ((), None),
        (("a=1", "b=true", "c=[1, 2]", "d=text", "e="), {"a": 1, "b": True, "c": [1, 2], "d": "text", "e": ""}),
        (("url=http://x/?a=b",), {"url": "http://x/?a=b"}),
        (("n=NaN", "i=-Infinity", "o=007"), {"n": "NaN", "i": "-Infinity", "o": "007"}),
    ],
)
def test_parameters_are_json_where_they_read_as_json(session: Session, params: tuple[str, ...], payload: Any) -> None:
    """Else they are text; what is no JSON although Python reads it, too."""
    assert payload == work.payload(session, params, None)


def test_a_payload_comes_from_text_or_file(session: Session, tmp_path: Path) -> None:
    """Whole, and as any JSON value."""
    path = _file(tmp_path, "payload.json", "[1, 2]")
    assert {"a": 1} == work.payload(session, (), '{"a": 1}')
    assert [1, 2] == work.payload(session, (), f"@{path}")


@pytest.mark.parametrize(
    ("params", "whole", "said"),
    [
        (("a",), None, "NAME=VALUE"),
        (("=1",), None, "NAME=VALUE"),
        (("a=1", "a=2"), None, "twice"),
        (("a=1",), "{}", "exclude"),
        ((), "{a}", "not JSON"),
        ((), "NaN", "not JSON"),
        ((), "@gone.json", "cannot be read"),
    ],
)
def test_a_bad_payload_is_refused(session: Session, params: tuple[str, ...], whole: str | None, said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(click.UsageError, match=said):
        work.payload(session, params, whole)


def test_a_parameter_that_names_a_file_here_is_remarked_on(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job runs elsewhere, so the whole path is shown; the value itself is sent as it was given."""
    monkeypatch.chdir(tmp_path)
    _file(tmp_path, "app.db", "x")
    assert {"db": "app.db"} == work.payload(session, ("db=app.db",), None)
    assert f"--param db={tmp_path / 'app.db'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("when", "body"),
    [
        (work.When(now=True), {"schedule_type": "IMMEDIATE"}),
        (work.When(cron="*/5 * * * *"), {"schedule_type": "CRON", "cron_expression": "*/5 * * * *"}),
        (work.When(every="1h30m"), {"schedule_type": "INTERVAL", "interval_seconds": 5400}),
        (
            work.When(at="2027-07-01 10:00", timezone="Europe/Berlin"),
            {"schedule_type": "FUTURE", "schedule_time": "2027-07-01T10:00:00+02:00", "timezone": "Europe/Berlin"},
        ),
        (work.When(timezone="Asia/Tokyo"), {"timezone": "Asia/Tokyo"}),
        (work.When(), {}),
    ],
)
def test_a_schedule_becomes_the_fields_of_a_job(session: Session, when: work.When, body: dict[str, Any]) -> None:
    """Each option its own type."""
    assert body == work.schedule(session, when)


def test_in_a_while_counts_from_now(session: Session) -> None:
    """As an absolute time with its offset: how long the request travels changes nothing."""
    before = datetime.now(UTC).timestamp()
    at = datetime.fromisoformat(work.schedule(session, work.When(in_="5m"))["schedule_time"]).timestamp()
    assert before + 300 <= at <= datetime.now(UTC).timestamp() + 300


def test_two_schedules_are_refused(session: Session) -> None:
    """Both are named."""
    with pytest.raises(click.UsageError, match="--at and --cron exclude each other"):
        work.schedule(session, work.When(at="10:00", cron="* * * * *"))
