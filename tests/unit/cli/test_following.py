"""Who follows a run is not thrown out by a server that restarts meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.following import describe_end
from tickwise.cli.main import main

RUN = "01a1fd82-9f65-831f-89c1-01763cd8874b"
AWAY = Reply(503, {"detail": "the store is away"}, {"Retry-After": "60"})


def _run(status: str) -> Reply:
    body: dict[str, Any] = {"run_id": RUN, "status": status, "attempt_number": 1, "error_message": None}
    return Reply(200, body | {"start_time": "2026-11-21T10:00:00Z", "end_time": "2026-11-21T10:00:02Z"})


def test_a_server_that_goes_away_in_between_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing of the log is lost or shown twice; it goes on from where it was."""
    replies = [
        _run("RUNNING"), Reply(200, b"one\n"), Reply(200, b""), AWAY,
        _run("SUCCESS"), Reply(200, b"two\n"), Reply(200, b""),
    ]  # fmt: skip
    with serving(*replies) as server:
        assert 0 == main(["runs", "logs", "-f", RUN, "--url", server.url, "--api-key", "k"])
    told = capfd.readouterr()
    assert "one\ntwo\n" == told.out
    assert "the store is away" in told.err
    assert "SUCCESS after 2.0 s" in told.err
    offsets = [each.path.rpartition("=")[2] for each in server.received if "logs" in each.path]
    assert ["0", "4", "4", "8"] == offsets


@pytest.mark.parametrize(
    ("status", "says"), [("QUEUED", "waiting for an executor"), ("RETRYING", "waiting for its next attempt")]
)
def test_a_long_wait_is_told_once_with_what_is_waited_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: str, says: str
) -> None:
    """A run between two attempts has no executor on purpose."""
    monkeypatch.setattr("tickwise.cli.following._SAID_WAITING_AFTER_SECONDS", 0.0)
    nothing = Reply(200, b"")
    with serving(_run(status), nothing, _run(status), nothing, _run("SUCCESS"), nothing) as server:
        assert 0 == main(["runs", "logs", "-f", RUN, "--url", server.url, "--key", "k"])
    assert 1 == capfd.readouterr().err.count(f"Still {status}; {says} …")


def test_a_server_that_never_was_there_is_not_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    """The person hears it at once; exit code 3."""
    with serving(AWAY) as server:
        assert 3 == main(["--json", "runs", "retry", RUN, "--wait", "--url", server.url, "--api-key", "k"])
    assert "unreachable" == json.loads(capfd.readouterr().out)["error"]["code"]


def test_an_error_of_the_servers_own_names_the_request(capfd: pytest.CaptureFixture[str]) -> None:
    """So that an operator finds its log lines."""
    with serving(Reply(500, {"detail": "an unexpected error", "request_id": "r-17"})) as server:
        assert 3 == main(["runs", "show", RUN, "--url", server.url, "--api-key", "k"])
    assert "request r-17" in capfd.readouterr().err


def test_an_attempt_without_an_error_shows_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    """One that was lost with its executor is QUEUED and has no error: its row says `lease_lost`."""
    lost = {"attempt_number": 1, "status": "QUEUED", "executor_id": "4", "reason": "lease_lost", "error_message": None}
    body = {"run_id": RUN, "status": "RUNNING", "attempt_number": 2, "attempts": [lost]}
    with serving(Reply(200, body)) as server:
        assert 0 == main(["runs", "show", RUN, "--url", server.url, "--api-key", "k"])
    (row,) = [line for line in capfd.readouterr().out.splitlines() if "QUEUED" in line]
    assert ["1", "QUEUED", "4", "lease_lost"] == row.split()


def test_a_bug_of_ours_is_said_without_a_traceback(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 70; TICKWISE_DEBUG=1 shows where."""
    with serving(Reply(200, {"no": "status"})) as server:
        arguments = ["runs", "logs", "-f", RUN, "--url", server.url, "--api-key", "k"]
        assert 70 == main(arguments)
        assert "Traceback" not in capfd.readouterr().err
        monkeypatch.setenv("TICKWISE_DEBUG", "1")
        assert 70 == main(arguments)
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("with_log", "why"), [(True, "exit status 1: KeyError: 'b'"), (False, "exit status 1: a\nKeyError: 'b'")]
)
def test_an_output_that_was_shown_is_not_shown_again_as_the_error(with_log: bool, why: str) -> None:
    """Who has followed the run has just read it; the cause alone is repeated. Who has only waited sees all of it."""
    run = {"status": "FAILED", "attempt_number": 1, "error_message": "exit status 1: a\nKeyError: 'b'"}
    assert f"FAILED: {why}" == describe_end(run, with_log=with_log)
