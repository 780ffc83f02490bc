"""`tickwise login --sso`: what is shown, how it waits, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli import moments
from tickwise.cli.commands.access.sign_in import login
from tickwise.cli.failures import CommandFailure
from tickwise.cli.session import Session
from tickwise.cli.sign_ins import SignIns

BEGUN = {
    "device_code": "twd_x", "user_code": "BCDF-GHJK", "verification_uri": "http://127.0.0.1/device",
    "verification_uri_complete": "http://127.0.0.1/device?user_code=BCDF-GHJK", "expires_in": 600, "interval": 5,
}  # fmt: skip
TOKENS = {
    "access_token": "a", "refresh_token": "r", "expires_in": 600, "token_type": "Bearer",
    "user": {"name": "Ada", "roles": [{"role": "viewer", "namespace": "default"}]},
}  # fmt: skip


def waiting(code: str) -> Reply:
    """An answer to a poll."""
    return Reply(400, {"code": code, "error": code, "detail": code, "status": 400})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between polls, which take no time."""
    found: list[float] = []
    monkeypatch.setattr(moments, "pause", found.append)
    return found


def signed_in(home: Path, *replies: Reply) -> tuple[Any, SignIns, list[Any]]:
    """The end of the command at a server with these answers, the sign-ins, and the requests."""
    environ = {"XDG_CONFIG_HOME": str(home), "HOME": str(home), "TICKWISE_DATA_DIR": str(home)}
    with serving(Reply(200, BEGUN), *replies) as server:
        session = Session(url=server.url, environ=environ)
        done = CliRunner().invoke(login, ["--sso", "--url", server.url], obj=session)
    return done, SignIns(environ), server.received


def test_a_terminal_waits_until_the_person_has_approved(tmp_path: Path, pauses: list[float]) -> None:
    """It shows address and code, keeps to the interval, waits longer when it is told to, and keeps the tokens."""
    done, sign_ins, received = signed_in(
        tmp_path, waiting("authorization_pending"), waiting("slow_down"), Reply(200, TOKENS)
    )
    assert 0 == done.exit_code, done.output
    assert "BCDF-GHJK" in done.output
    assert "http://127.0.0.1/device" in done.output
    assert [5.0, 5.0, 10.0] == pauses
    assert ["/api/v1/auth/device"] + ["/api/v1/auth/token"] * 3 == [each.path for each in received]
    assert {"urn:ietf:params:oauth:grant-type:device_code"} == {each.body["grant_type"] for each in received[1:]}
    kept = sign_ins.last()
    assert kept is not None
    assert ("Ada", "r") == (kept.name, kept.refresh_token)


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize(("code", "said"), [("access_denied", "was denied"), ("expired_token", "approved the sign-in")])
def test_a_terminal_that_gets_nothing_says_why(tmp_path: Path, code: str, said: str) -> None:
    """And keeps nothing."""
    done, sign_ins, _ = signed_in(tmp_path, waiting("authorization_pending"), waiting(code))
    assert isinstance(done.exception, CommandFailure)
    assert said in done.exception.detail
    assert sign_ins.last() is None


def test_ctrl_c_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed while it waits."""

    def pressed(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moments, "pause", pressed)
    done, sign_ins, received = signed_in(tmp_path, Reply(200, TOKENS))
    assert 0 != done.exit_code
    assert 1 == len(received)
    assert sign_ins.last() is None


def test_a_server_that_restarts_meanwhile_is_asked_again(tmp_path: Path, pauses: list[float]) -> None:
    """With longer pauses; the code works on."""
    done, sign_ins, _ = signed_in(tmp_path, Reply(broken=True), Reply(200, TOKENS))
    assert 0 == done.exit_code, done.output
    assert sign_ins.last() is not None
    assert pauses


def test_a_name_and_a_browser_contradict_each_other() -> None:
    """Who a person is, is said in the browser."""
    done = CliRunner().invoke(login, ["Ada", "--sso"], obj=Session(url="http://127.0.0.1:1", environ={}))
    assert 2 == done.exit_code
