"""Channels, rules, alerts and notices from a terminal."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.loopback import Reply, serving
from tickwise.cli.main import main
from tickwise.domain.notices.rules import NoticeEvent

ID = "018f0000-0000-8000-8000-000000000007"
AT = "2026-11-21T08:00:00Z"
CHANNEL: dict[str, Any] = {
    "channel_id": ID, "name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/***", "to": None,
    "from": None, "headers": None, "allow_private": False, "installation": False, "created_at": AT,
    "created_by": "ada", "version": 1, "delivered_at": AT, "failed_at": None, "error": None,
    "failures": 0, "resting_until": None, "waiting": 0, "waiting_events": 0,
}  # fmt: skip
NOTICE: dict[str, Any] = {
    "notice_id": ID, "channel_id": ID, "channel": "on-call", "rule_id": None, "rule": "", "severity": "info",
    "state": "delivered", "events": 1, "first_at": AT, "last_at": AT, "due": AT, "tries": 1, "error": None,
    "ended_at": AT, "test": True, "escalation": False,
    "lines": [{"at": AT, "sentence": "a test \x1b[31mred", "subject_name": "Test"}],
}  # fmt: skip
RULE: dict[str, Any] = {
    "rule_id": ID, "name": "broken", "on": ["failure"], "channels": ["on-call"], "jobs": [], "labels": {"team": "a"},
    "severity": "warning", "after": None, "in_a_row": 2, "failures_of": None, "attempts": None, "group": 300.0,
    "repeat": None, "quiet": None, "escalate": None, "enabled": True, "installation": False, "created_at": AT,
    "created_by": "ada", "version": 1,
}  # fmt: skip
ALERT: dict[str, Any] = {
    "alert_id": ID, "rule_id": ID, "event": "failure", "subject": ID, "subject_name": "nightly", "severity": "warning",
    "state": "open", "events": 3, "first_at": AT, "last_at": AT, "sentence": "a run failed", "run_id": ID,
    "acknowledged_by": None, "acknowledged_at": None, "snoozed_until": None, "note": None, "closed_at": None,
    "installation": False,
}  # fmt: skip


def run(url: str, *words: str) -> int:
    """The exit code."""
    return int(main([*words, "--url", url, "--api-key", "k"]))


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["on-call", "https://a.example/x"], {"kind": "webhook", "url": "https://a.example/x"}),
        (["s", "https://hooks.slack.com/services/x"], {"kind": "slack", "url": "https://hooks.slack.com/services/x"}),
        (["n", "ntfy://topic"], {"kind": "apprise", "url": "ntfy://topic"}),
        (
            ["m", "smtp://mail.example", "--to", "ada@example.com", "--from", "t@example.com"],
            {"kind": "email", "url": "smtp://mail.example", "to": ["ada@example.com"], "from": "t@example.com"},
        ),
        (["m", "--to", "ada@example.com"], {"kind": "email", "to": ["ada@example.com"]}),
        (
            ["w", "https://a.example", "--header", "X-A=b=c", "--allow-private", "--installation"],
            {
                "kind": "webhook", "url": "https://a.example", "headers": {"X-A": "b=c"}, "allow_private": True,
                "installation": True,
            },
        ),
    ],
)  # fmt: skip
def test_the_kind_of_a_channel_follows_from_its_address(
    words: list[str], body: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The secret is the only line on stdout."""
    with serving(Reply(201, {**CHANNEL, "secret": "whsec_x"})) as server:
        assert 0 == run(server.url, "channels", "add", *words)
    assert {"name": words[0], **body} == server.received[0].body
    assert "whsec_x\n" == capsys.readouterr().out


def test_a_failed_test_of_a_channel_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With the error; it waits for the outcome."""
    for notice, code, says in (
        (NOTICE, 0, "It was delivered."),
        ({**NOTICE, "state": "dead", "error": "410 Gone"}, 1, "It was not delivered: 410 Gone."),
        ({**NOTICE, "state": "waiting", "error": "timed out"}, 1, "It is tried again."),
        ({**NOTICE, "state": "waiting"}, 0, "It waits."),
    ):
        with serving(Reply(200, [CHANNEL]), Reply(202, notice)) as server:
            assert code == run(server.url, "channels", "test", "on-call")
        assert f"/api/v1/channels/{ID}/test?wait=20" == server.received[1].path
        assert says in capsys.readouterr().out


def test_a_channel_that_is_not_there_is_named_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code is that of what is not found."""
    with serving(Reply(200, [CHANNEL])) as server:
        assert 5 == run(server.url, "channels", "show", "pager")
    assert "there are: on-call" in capsys.readouterr().err


def test_a_rule_is_sent_as_it_was_said() -> None:
    """Each option is its field."""
    with serving(Reply(201, RULE)) as server:
        assert 0 == run(
            server.url, "notify", "add", "broken", "--on", "failure", "--on", "late", "--channel", "on-call",
            "--label", "team=a", "--after", "10m", "--in-a-row", "2", "--failures-of", "3/5", "--group", "1m",
            "--repeat", "4h", "--quiet", "22:00-07:00@Europe/Berlin", "--escalate", "30m:boss,chef", "--severity",
            "info",
        )  # fmt: skip
    assert {
        "name": "broken", "on": ["failure", "late"], "channels": ["on-call"], "labels": {"team": "a"}, "after": "10m",
        "in_a_row": 2, "failures_of": {"failures": 3, "runs": 5}, "group": "1m", "repeat": "4h",
        "quiet": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
        "escalate": {"after": "30m", "channels": ["boss", "chef"]}, "severity": "info",
    } == server.received[0].body  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["--in-a-row", "two"],
        ["--failures-of", "3"],
        ["--quiet", "22:00"],
        ["--escalate", "30m"],
    ],
)
def test_an_option_that_cannot_be_read_is_a_mistake_of_the_caller(words: list[str]) -> None:
    """Nothing is sent."""
    with serving() as server:
        assert 2 == run(server.url, "notify", "add", "a", "--on", "failure", "--channel", "on-call", *words)
    assert [] == server.received


def test_none_takes_a_field_of_a_rule_away() -> None:
    """And the rule is found by its name."""
    with serving(Reply(200, [RULE]), Reply(200, RULE)) as server:
        assert 0 == run(server.url, "notify", "edit", "broken", "--repeat", "none", "--job", "none", "--disabled")
    changed = server.received[1]
    assert ("PATCH", f"/api/v1/notification-rules/{ID}") == (changed.method, changed.path)
    assert {"repeat": None, "jobs": [], "enabled": False} == changed.body


def test_a_dry_run_shows_what_a_rule_would_have_told(capsys: pytest.CaptureFixture[str]) -> None:
    """And stores nothing."""
    found = {
        "jobs": 2, "sample": [{"job_id": ID, "name": "nightly"}], "runs": 40, "more": False, "counts": {"failure": 3},
        "told": [], "not_judged": ["fuse"],
    }  # fmt: skip
    with serving(Reply(200, found)) as server:
        assert 0 == run(
            server.url, "notify", "add", "a", "--on", "failure", "--on", "fuse", "--channel", "on-call", "--dry-run"
        )
    assert "/api/v1/notification-rules:preview" == server.received[0].path
    told = capsys.readouterr().out
    assert "2 jobs: nightly" in told
    assert "3 failure" in told
    assert "nothing of: fuse" in told


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (["ack", ID, "--note", "on it"], "acknowledge", {"note": "on it"}),
        (["snooze", ID, "--for", "2h"], "snooze", {"for": "2h"}),
        (["snooze", ID, "--until", "2099-01-01 00:00", "--utc"], "snooze", {"until": "2099-01-01T00:00:00+00:00"}),
        (["close", ID], "close", {}),
        (["reopen", ID], "reopen", {}),
    ],
)
def test_a_decision_about_an_alert_is_sent(words: list[str], path: str, body: dict[str, Any]) -> None:
    """To its own address."""
    with serving(Reply(200, ALERT)) as server:
        assert 0 == run(server.url, "alerts", *words)
    assert (f"/api/v1/alerts/{ID}/{path}", body) == (server.received[0].path, server.received[0].body)


def test_a_channel_that_rests_is_shown_so_and_tried_now(capsys: pytest.CaptureFixture[str]) -> None:
    """By its name."""
    rests = {**CHANNEL, "failed_at": "2026-11-21T09:00:00Z", "error": "503", "resting_until": AT, "waiting": 2}
    with serving(Reply(200, [rests]), Reply(200, [rests]), Reply(200, rests)) as server:
        assert 0 == run(server.url, "channels", "list", "-o", "wide")
        assert 0 == run(server.url, "channels", "try-now", "on-call")
    told = capsys.readouterr().out
    assert "rests until" in told
    assert "2 notices wait" in told
    assert f"/api/v1/channels/{ID}/try-now" == server.received[2].path


def test_alerts_and_notices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """By what was asked for; hostile text does nothing to the terminal."""
    with serving(Reply(200, [ALERT])) as server:
        assert 0 == run(server.url, "alerts", "list", "--state", "open")
    assert ["open"] == parse_qs(urlsplit(server.received[0].path).query)["state"]
    assert "nightly" in capsys.readouterr().out
    with serving(Reply(200, NOTICE)) as server:
        assert 0 == run(server.url, "notices", "show", ID)
    told = capsys.readouterr().out
    assert ("a test" in told, "\x1b" in told) == (True, False)
    with serving(Reply(202, NOTICE)) as server:
        assert 0 == run(server.url, "notices", "send-again", ID)
    assert f"/api/v1/notices/{ID}/send-again" == server.received[0].path


def test_the_help_names_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    """An event that is not named is one that nobody finds."""
    assert 0 == main(["notify", "add", "--help"])
    said = set(capsys.readouterr().out.replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert set() == {each.value for each in NoticeEvent} - said
