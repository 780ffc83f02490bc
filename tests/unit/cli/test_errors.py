"""Errors from a terminal: listed, shown, decided about, and run again."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.loopback import Reply, serving
from tests.unit.cli.test_bulk import ACCEPTED, progress
from tickwise.cli.main import main

ERROR = "018f0000-0000-8000-8000-000000000007"
RUN = "018f0000-0000-8000-8000-000000000001"
GROUP: dict[str, Any] = {
    "error_id": ERROR, "status": "open", "reason": "error", "kind": "ValueError", "message": "order <n> \x1b[31mred",
    "task_kind": "function", "task": "pay", "failures": 12, "jobs": 3, "first_seen": "2026-11-21T08:00:00Z",
    "last_seen": "2026-11-21T09:00:00Z", "run_id": RUN, "attempt_number": 2, "error_message": "ValueError: order 7",
    "decision": None, "decided_at": None, "decided_by": None, "note": None, "ignored_until": None,
    "ignored_until_failures": None,
}  # fmt: skip
DETAIL = {**GROUP, "top_jobs": [{"job_id": RUN, "failures": 9, "last_seen": "2026-11-21T09:00:00Z"}], "hours": []}


def run(url: str, *arguments: str) -> int:
    """The exit code."""
    return int(main(["errors", *arguments, "--url", url, "--api-key", "k"]))


def test_a_list_names_causes_and_asks_for_what_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Hostile text does nothing to the terminal."""
    with serving(Reply(200, [GROUP])) as server:
        assert 0 == run(
            server.url, "list", "--status", "open", "--status", "ignored", "--text", "order", "--kind", "function",
            "--since", "2026-11-21 08:00", "--utc",
        )  # fmt: skip
    [asked] = server.received
    query = parse_qs(urlsplit(asked.path).query)
    assert (["open", "ignored"], ["order"], ["function"]) == (query["status"], query["text"], query["task_kind"])
    assert query["seen_after"][0].startswith("2026-11-21T08:00:00")
    told = capsys.readouterr().out
    assert "ValueError: order <n>" in told
    assert ("(pay)" in told, "12" in told, "\x1b" in told) == (True, True, False)


def test_nothing_is_told_of_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    """But that."""
    with serving(Reply(200, [])) as server:
        assert 0 == run(server.url, "list")
    assert "No errors." in capsys.readouterr().err


def test_a_group_is_shown_with_its_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not decided is left out."""
    with serving(Reply(200, DETAIL)) as server:
        assert 0 == run(server.url, "show", ERROR)
    told = capsys.readouterr().out
    assert ("ValueError: order 7" in told, RUN in told, "ignored until" in told) == (True, True, False)


@pytest.mark.parametrize(
    ("arguments", "path", "body"),
    [
        (["resolve", ERROR, "--note", "disk added"], "resolve", {"note": "disk added"}),
        (["ignore", ERROR, "--failures", "3"], "ignore", {"failures": 3}),
        (
            ["ignore", ERROR, "--until", "2099-01-01 00:00", "--utc"],
            "ignore",
            {"until": "2099-01-01T00:00:00+00:00"},
        ),
        (["reopen", ERROR], "reopen", None),
    ],
)
def test_a_decision_is_sent_and_its_effect_is_told(
    arguments: list[str], path: str, body: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the status that the server answers."""
    answered = {**GROUP, "status": "ignored", "ignored_until_failures": 15}
    with serving(Reply(200, answered)) as server:
        assert 0 == run(server.url, *arguments)
    [asked] = server.received
    assert (f"/api/v1/errors/{ERROR}/{path}", body) == (asked.path, asked.body)
    assert "is ignored up to 15 failures." in capsys.readouterr().out


def test_nothing_is_ignored_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before anything is sent."""
    with serving(Reply(200, GROUP)) as server:
        assert 2 == run(server.url, "ignore", ERROR)
    assert [] == server.received
    assert "--until or --failures" in capsys.readouterr().err


def test_the_dead_letters_of_a_group_are_run_again_as_an_operation() -> None:
    """By the filter of dead letters."""
    with serving(ACCEPTED, progress(2, "done")) as server:
        assert 0 == run(server.url, "redrive", ERROR, "--yes", "--note", "again")
    asked = [each for each in server.received if each.path.endswith("dead-letters:redrive")]
    assert {"filter": {"error_id": ERROR}, "note": "again"} == {
        name: value for name, value in asked[-1].body.items() if name != "dry_run"
    }
