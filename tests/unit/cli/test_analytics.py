"""Analytics from a terminal."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main

SPREAD = {"count": 3, "p50": 1.0, "p95": 90.0, "p99": 95.0, "mean": 20.0, "max": 100.0}
FIGURES: dict[str, Any] = {
    "runs": 4, "by_status": {"SUCCESS": 3, "FAILED": 1, "CANCELLED": 0, "SKIPPED": 0}, "success_ratio": 0.75,
    "retries": 2, "seconds": 120.0, "duration": SPREAD, "lateness": None, "cpu_seconds": 300.0, "cpu": SPREAD,
    "memory": {**SPREAD, "p95": 48_000_000.0},
}  # fmt: skip
FOUND: dict[str, Any] = {
    "group_by": "job", "from": "2026-11-21T08:00:00Z", "until": "2026-11-22T08:00:00Z", "coverage": "sampled",
    "rows_read": 4, "share": 0.01, "since": "2026-11-21T08:00:00Z", "groups_found": 9, "total": FIGURES,
    "groups": [
        {"kind": "group", "key": "x", "name": "night\x1b[31mly", **FIGURES},
        {"kind": "rest", "key": None, "name": None, **FIGURES},
    ],
}  # fmt: skip


def run(url: str, *arguments: str) -> int:
    """The exit code."""
    return int(main(["analytics", *arguments, "--url", url, "--api-key", "k"]))


def test_groups_are_rows_and_an_estimate_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """All that was said is asked for; hostile text does nothing to the terminal."""
    with serving(Reply(200, FOUND)) as server:
        assert 0 == run(
            server.url, "--group-by", "label:team", "--since", "2026-11-21 08:00", "--utc", "--status", "failed",
            "--top", "5", "--label", "a=b", "--sort", "failed",
        )  # fmt: skip
    [asked] = server.received
    query = parse_qs(urlsplit(asked.path).query)
    assert (["label:team"], ["FAILED"], ["5"], ["a=b"]) == (
        query["group_by"],
        query["status"],
        query["top"],
        query["label"],
    )
    assert query["from"][0].startswith("2026-11-21T08:00:00")
    told = capsys.readouterr()
    assert ("CPU" in told.out, "5 min" in told.out, "48 MB" in told.out) == (True, True, True)
    assert ("75.00%" in told.out, "(all others)" in told.out, "total" in told.out, "\x1b" in told.out) == (
        True,
        True,
        True,
        False,
    )
    assert "Estimated from 4 runs" in told.err


def test_a_table_for_spreadsheets_is_printed_as_it_comes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Byte for byte."""
    with serving(Reply(200, b"kind,key\r\ntotal,\r\n")) as server:
        assert 0 == run(server.url, "--csv")
    [asked] = server.received
    assert ["csv"] == parse_qs(urlsplit(asked.path).query)["format"]
    assert capfdbinary.readouterr().out == b"kind,key\r\ntotal,\r\n"


def test_nothing_is_told_of_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """But that."""
    with serving(Reply(200, {**FOUND, "groups": [], "coverage": "exact"})) as server:
        assert 0 == run(server.url)
    assert "No run has ended in this time." in capsys.readouterr().err
