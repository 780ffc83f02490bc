"""Objectives for starts from a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

FOUND: dict[str, Any] = {
    "job_id": "018f0000-0000-8000-8000-000000000007", "objective_id": None, "priority": None, "labels": {},
    "name": "bills \x1b[31mred", "start_within_seconds": 30.0,
    "ratio": 0.995, "state": "burning", "window_seconds": 2592000.0, "good": 90, "late": 10, "budget_left": -1.0,
    "burn": [{"window_seconds": 3600.0, "rate": 20.0}, {"window_seconds": 300.0, "rate": 15.0}], "since": None,
}  # fmt: skip


def test_objectives_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """With the fastest burn rate; hostile text does nothing to the terminal."""
    with serving(Reply(200, [FOUND])) as server:
        assert 0 == int(main(["objectives", "list", "--url", server.url, "--api-key", "k"]))
    told = capsys.readouterr().out
    assert "99.500% in 30 s" in told
    assert ("burning" in told, "none" in told, "20.0" in told, "\x1b" in told) == (True, True, True, False)


def test_nothing_is_told_of_no_objectives(capsys: pytest.CaptureFixture[str]) -> None:
    """But that."""
    with serving(Reply(200, [])) as server:
        assert 0 == int(main(["objectives", "list", "--url", server.url, "--api-key", "k"]))
    assert "There is no objective." in capsys.readouterr().err


GROUP: dict[str, Any] = {
    **FOUND, "job_id": None, "objective_id": "018f0000-0000-8000-8000-000000000009", "name": "urgent", "priority": 9,
    "labels": {"team": "data"},
}  # fmt: skip


def test_an_objective_by_priority_and_labels_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    """With what was said, and nothing else."""
    with serving(Reply(201, GROUP)) as server:
        said = ["--within", "5s", "--ratio", "0.995", "--priority", "9", "--label", "team=data"]
        assert 0 == int(main(["objectives", "create", "urgent", *said, "--url", server.url, "--api-key", "k"]))
    [asked] = server.received
    assert {
        "name": "urgent", "start_within_seconds": 5.0, "ratio": 0.995, "priority": 9, "labels": {"team": "data"},
    } == asked.body  # fmt: skip
    assert "Objective urgent is made." in capsys.readouterr().out


def test_an_objective_is_removed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Not that of a job, which goes with its job; an unknown name says which there are."""
    with serving(Reply(200, [FOUND, GROUP]), Reply(200, GROUP), Reply(200, [FOUND, GROUP])) as server:
        assert 0 == int(main(["objectives", "remove", "urgent", "--url", server.url, "--api-key", "k"]))
        assert 0 != int(main(["objectives", "remove", "other", "--url", server.url, "--api-key", "k"]))
    assert ["GET", "DELETE", "GET"] == [each.method for each in server.received]
    assert server.received[1].path.endswith(GROUP["objective_id"])
    assert "there are: urgent" in capsys.readouterr().err
