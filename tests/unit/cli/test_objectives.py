"""Objectives for starts from a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

FOUND: dict[str, Any] = {
    "job_id": "018f0000-0000-8000-8000-000000000007", "name": "bills \x1b[31mred", "start_within_seconds": 30.0,
    "ratio": 0.995, "state": "burning", "window_seconds": 2592000.0, "good": 90, "late": 10, "budget_left": -1.0,
    "burn": [{"window_seconds": 3600.0, "rate": 20.0}, {"window_seconds": 300.0, "rate": 15.0}], "since": None,
}  # fmt: skip


def test_objectives_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """With the fastest burn rate; hostile text does nothing to the terminal."""
    with serving(Reply(200, [FOUND])) as server:
        assert 0 == int(main(["objectives", "--url", server.url, "--key", "k"]))
    told = capsys.readouterr().out
    assert "99.500% in 30 s" in told
    assert ("burning" in told, "none" in told, "20.0" in told, "\x1b" in told) == (True, True, True, False)


def test_nothing_is_told_of_no_objectives(capsys: pytest.CaptureFixture[str]) -> None:
    """But that."""
    with serving(Reply(200, [])) as server:
        assert 0 == int(main(["objectives", "--url", server.url, "--key", "k"]))
    assert "No job has an objective." in capsys.readouterr().err
