"""`run --key` is the key of a job; the key of the caller is `--api-key`."""

from __future__ import annotations

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.adapters.clock import SystemClock
from tickwise.cli.arguments import API_KEY
from tickwise.cli.failures import Exit
from tickwise.cli.main import main
from tickwise.control.keys.forms import SecretKind, new_secret

JOB = {"job_id": "01a1fd82-9f65-831f-89c1-0176feedbeef", "name": "a", "schedule_type": "CRON", "status": "SCHEDULED"}


def test_run_keeps_the_job_of_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    """It is sent to the address of that job, with the caller's own key."""
    with serving(Reply(200, {**JOB, "next_run_at": None})) as server:
        words = ("run", "--shell", "true", "--cron", "@daily", "--key", "nightly", "--url", server.url)
        assert Exit.OK == main([*words, "--api-key", "mine"]), capsys.readouterr().err
        asked = server.received[0]
    assert ("PUT", "/api/v1/jobs/by-key/nightly", "Bearer mine") == (
        asked.method, asked.path, asked.headers["Authorization"],
    )  # fmt: skip


@pytest.mark.parametrize("kind", SecretKind)
def test_the_secrets_of_a_server_have_the_form_that_is_refused(kind: SecretKind) -> None:
    """Also those of releases before."""
    assert API_KEY.fullmatch(new_secret(SystemClock(), kind))
    assert API_KEY.fullmatch("tw_" + "a-_" * 14 + "a")


def test_an_api_key_is_no_key_of_a_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be stored and shown; nothing is sent, and it is not repeated."""
    monkeypatch.setenv("TICKWISE_API_KEY", "chosen-by-hand")
    with serving(Reply(200, JOB)) as server:
        for secret in (new_secret(SystemClock()), "chosen-by-hand"):
            words = ("run", "--shell", "true", "--cron", "@daily", "--key", secret, "--url", server.url)
            assert Exit.USAGE == main(words)
            told = capsys.readouterr().err
            assert (True, False) == ("--api-key" in told, secret in told)
    assert [] == server.received


def test_the_old_name_of_the_callers_key_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """On every command that has no `--key` of its own; help shows the new one alone."""
    with serving(Reply(200, {"items": [], "next_cursor": None})) as server:
        main(["jobs", "list", "--key", "k", "--url", server.url])
        assert "Bearer k" == server.received[0].headers["Authorization"]
    capsys.readouterr()
    main(["jobs", "list", "--help"])
    assert "  --key" not in capsys.readouterr().out
