"""Keys and passwords on their way to another machine."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.support.local_up import Ran, call_command, environment
from tests.unit.cli.loopback import Loopback, Reply, serving
from tickwise.sdk.client import ClearTextWarning, Client, ServerTrust, travels_in_clear

REFUSED = 4


def elsewhere(server: Loopback) -> str:
    """Loopback under an address that is not known as such."""
    return server.url.replace("127.0.0.1", "127.1")


def run(tmp_path: Path, *words: str, stdin: str = "") -> Ran:
    return call_command(words, environment(XDG_CONFIG_HOME=str(tmp_path), TICKWISE_DATA_DIR=str(tmp_path)), stdin=stdin)


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("http://127.0.0.1:8470", False),
        ("http://127.8.9.1", False),
        ("http://[::1]:8470", False),
        ("http://localhost:8470", False),
        ("http://a.localhost", False),
        ("http://0.0.0.0:8470", False),
        ("https://tickwise.example.org", False),
        ("http://tickwise.example.org", True),
        ("http://10.0.0.1:8470", True),
        ("http://[fd00::1]:8470", True),
        ("http://localhost.example.org", True),
        ("http://127.0.0.1.example.org", True),
    ],
)
def test_what_travels_in_clear(url: str, clear: bool) -> None:
    """Plain HTTP beyond this machine."""
    assert clear == travels_in_clear(url)


def test_the_library_warns_before_it_sends_a_key_in_clear() -> None:
    """Once, when the client is made; not without a key, over TLS, or if told that the way is private."""
    with pytest.warns(ClearTextWarning, match=r"your key travels to tickwise\.example\.org unencrypted"):
        Client("http://tickwise.example.org", "a-key").close()
    with warnings.catch_warnings(action="error"):
        Client("http://tickwise.example.org", None).close()
        Client("https://tickwise.example.org", "a-key").close()
        Client("http://127.0.0.1:8470", "a-key").close()
        Client("http://tickwise.example.org", "a-key", trust=ServerTrust(insecure=True)).close()


def test_the_command_line_warns_before_it_sends_a_key_in_clear(tmp_path: Path) -> None:
    """On stderr, so that what reads stdout is not disturbed; `--insecure` says nothing."""
    with serving(Reply(200, [])) as server:
        words = ("jobs", "list", "--json", "--url", elsewhere(server), "--api-key", "a-key")
        ran = run(tmp_path, *words)
        assert (0, "[]") == (ran.code, ran.out.strip()), ran.err
        assert "Your key travels to http://127.1" in ran.err
        assert "" == run(tmp_path, *words, "--insecure").err
        assert "" == run(tmp_path, "jobs", "list", "--json", "--url", server.url, "--api-key", "a-key").err
        assert 3 == len(server.received)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("login", "ada", "--password-stdin"), id="login"),
        pytest.param(("users", "accept", "tl_secret", "--password-stdin"), id="an invitation"),
        pytest.param(("users", "add", "ada", "--password-stdin"), id="for another person"),
        pytest.param(("users", "password", "--password-stdin"), id="another password"),
    ],
)
def test_a_password_is_not_sent_in_clear(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It is not even read; the message says what to do. `--insecure` sends it."""
    with serving(Reply(401, {"detail": "no"})) as server:
        ran = run(tmp_path, *words, "--url", elsewhere(server), "--api-key", "a-key", stdin="a password\nanother one\n")
        assert REFUSED == ran.code
        assert "a password is not sent to http://127.1" in ran.err
        assert "--insecure" in ran.err
        assert [] == server.received
        options = ("--url", elsewhere(server), "--api-key", "a-key", "--insecure")
        run(tmp_path, *words, *options, stdin="a password\nanother one\n")
        assert "a password" in str(server.received[0].body)
