"""Every command that takes a time says where a change of the clock leaves it out or repeats it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

GAP, TWICE = "2027-03-28 02:30", "2027-10-31 02:30"
ANSWER = {
    "covers": [], "from": "2027-03-28T00:00:00Z", "to": "2027-11-01T00:00:00Z", "more": False, "warnings": [],
    "version": 1, "job_id": "01a1fd82-9f65-831f-89c1-0176feedbeef", "name": "a", "status": "SCHEDULED",
    "schedule_type": "CRON", "next_run_at": None,
}  # fmt: skip
SERVED = {
    "calendars put": ("calendars", "put", "a", "--from", GAP, "--to", TWICE, "--timezone", "Europe/Berlin"),
    "windows put": ("windows", "put", "a", "--from", GAP, "--to", TWICE, "--timezone", "Europe/Berlin"),
    "calendars covers": ("calendars", "covers", "a", "--from", GAP, "--to", TWICE),
    "windows covers": ("windows", "covers", "a", "--from", GAP, "--to", TWICE),
    "run": ("run", "--shell", "true", "--cron", "@daily", "--start-at", GAP, "--end-at", TWICE),
    "audit list": ("audit", "list", "--since", GAP, "--until", TWICE),
}


@pytest.fixture(autouse=True)
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This machine's clock."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _check(told: str) -> None:
    assert "There is no 02:30 on 2027-03-28: the clock is put forward then. It is taken as 03:30 CEST." in told
    assert "02:30 on 2027-10-31 comes twice" in told


@pytest.mark.parametrize("name", SERVED)
def test_a_time_that_a_server_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The instant that is taken is said, too."""
    with serving(Reply(200, [] if name == "audit list" else ANSWER)) as server:
        assert 0 == main([*SERVED[name], "--url", server.url, "--api-key", "k"])
    _check(capsys.readouterr().err)


def test_a_time_of_a_simulation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the zone that is named for it, outages too."""
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"name": "a", "cron": "@daily", "task": {"kind": "shell", "command": "true"}}))
    words = ["simulate", "--file", str(file), "--timezone", "Europe/Berlin", "--from", GAP, "--to", "2027-11-01"]
    assert 0 == main([*words, "--outage", f"{TWICE}..2027-10-31 05:00"])
    _check(capsys.readouterr().err)


def test_a_time_of_the_doctor_and_of_a_preview(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the command is refused for another reason."""
    assert 2 == main(["doctor", "history", "--from", TWICE, "--to", GAP])
    _check(capsys.readouterr().err)
    for at in (GAP, TWICE):
        assert 0 == main(["schedule", "preview", "@daily", "--timezone", "Europe/Berlin", "--from", at, "--count", "1"])
    _check(capsys.readouterr().err)
