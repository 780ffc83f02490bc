"""Channels: an address that notices are sent to, its secrets, its test, its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tests.support.waiting import eventually
from tickwise.api.wire import time_of
from tickwise.documents.channel_secrets import opened_secrets
from tickwise.domain.notices.rules import NoticeState
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store.notices import NoticeQuery, SettledNotice
from tickwise.testing.contracts.store.notices.deliveries import notice
from tickwise.testing.factories import Factory

HOOK = {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/T0/very-secret"}
MAIL = {"name": "mail", "kind": "email", "to": ["ada@example.com"], "from": "tickwise@example.com",
        "url": "smtp://ada:pass-word@mail.example.com:2525"}  # fmt: skip
NOTHING = "019a2b3c-4d5e-8f60-9123-456789abcdef"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def made(here: Scene, **said: Any) -> Any:
    """A channel as it was answered when it was made."""
    return await here.ask("POST", "/channels", 201, {**HOOK, **said})


async def key_of(here: Scene, *permissions: str, **more: Any) -> str:
    """The secret of a key of the namespace."""
    body = {"name": "k", "permissions": list(permissions), **more}
    return str((await here.ask("POST", "/keys", 201, body))["key"])


async def opened(here: Scene) -> Mapping[str, str]:
    """The secrets of the only channel, as its sender gets them."""
    channel = (await here.store.channels.find("default"))[0]
    [kept] = await here.store.channels.secrets([channel.channel_id])
    return await opened_secrets(kept.secrets, channel.channel_id, here.world.control.context.sealer)


async def test_the_secret_of_a_webhook_is_told_once(here: Scene) -> None:
    """In the answer to its making, in the form of Standard Webhooks; never again, and its address not at all."""
    first = await made(here)
    secret = first.pop("secret")
    assert secret.startswith("whsec_")
    assert 44 == len(secret.removeprefix("whsec_"))
    assert "https://hooks.example.com/***" == first["url"]
    assert first == await here.ask("GET", f"/channels/{first['channel_id']}")
    assert [first] == await here.ask("GET", "/channels")
    assert HOOK["url"] == (await opened(here))["url"]
    second = await here.ask("POST", f"/channels/{first['channel_id']}/rotate-secret")
    assert second["secret"].startswith("whsec_")
    assert secret != second["secret"]


async def test_an_answer_with_a_secret_is_not_kept_for_a_repeat(here: Scene) -> None:
    """An Idempotency-Key has no effect: a repeat is a second channel, and its name is taken."""
    headers = {"Idempotency-Key": "once"}
    client = here.world.client
    assert 201 == (await client.post("/api/v1/channels", json=HOOK, headers=headers)).status_code
    again = await client.post("/api/v1/channels", json=HOOK, headers=headers)
    assert (409, "channel_name_taken") == (again.status_code, again.json()["code"])


async def test_a_channel_of_another_kind_has_no_secret_of_ours(here: Scene) -> None:
    """Its own are masked."""
    mail = await here.ask("POST", "/channels", 201, MAIL)
    assert (None, ["ada@example.com"], "tickwise@example.com") == (mail["secret"], mail["to"], mail["from"])
    assert "smtp://mail.example.com:2525/***" == mail["url"]
    refused = await here.ask("POST", f"/channels/{mail['channel_id']}/rotate-secret", 409)
    assert "no_secret" == refused["code"]
    slack = await made(here, name="slack", kind="slack", url="https://hooks.slack.com/services/T0/B0/x")
    assert (None, "https://hooks.slack.com/***") == (slack["secret"], slack["url"])
    other = await made(here, name="ntfy", kind="apprise", url="ntfy://token@host/topic")
    assert "ntfy://***" == other["url"]


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"url": "ftp://example.com/x"}, "/url"),
        ({"url": "hooks.example.com"}, "/url"),
        ({"url": "https://example.com/a\r\nX: y"}, "/url"),
        ({"url": "http://127.0.0.1/hook"}, "/url"),
        ({"url": "http://localhost:8080/hook"}, "/url"),
        ({"url": "http://2130706433/hook"}, "/url"),
        ({"url": "http://0x7f.1/hook"}, "/url"),
        ({"url": "http://0177.0.0.1/hook"}, "/url"),
        ({"url": "http://127.0.0.1./hook"}, "/url"),
        ({"url": "http://127.0.0.%31/hook"}, "/url"),
        ({**MAIL, "url": "smtp://2130706433:25"}, "/url"),
        ({"url": "http://[::1]/hook"}, "/url"),
        ({"url": "http://10.1.2.3/hook"}, "/url"),
        ({"url": "http://169.254.169.254/latest"}, "/url"),
        ({"to": ["ada@example.com"]}, "/to"),
        ({"headers": {"X-A": "a\r\nX-B: c"}}, "/headers/X-A"),
        ({"headers": {"Webhook-Id": "1"}}, "/headers/Webhook-Id"),
        ({"name": "a\r\nBcc: eve@example.com"}, "/name"),
        ({"name": "  "}, "/name"),
        ({"kind": "pigeon"}, "/kind"),
        ({**MAIL, "to": ["ada"]}, "/to/0"),
        ({**MAIL, "to": ["ada@example.com\nBcc: eve@example.com"]}, "/to/0"),
        ({**MAIL, "url": "https://mail.example.com"}, "/url"),
        ({"kind": "apprise", "url": "syslog://x"}, "/url"),
    ],
)
async def test_a_channel_that_is_none_is_refused_with_its_field(here: Scene, said: Any, pointer: str) -> None:
    """And nothing is stored."""
    found = await here.ask("POST", "/channels", 422, {**HOOK, **said})
    assert pointer == found["pointer"], found
    assert [] == await here.ask("GET", "/channels")


async def test_private_addresses_are_for_administrators_of_the_installation(here: Scene) -> None:
    """Nobody else sets `allow_private`, and nobody else turns such a channel elsewhere."""
    body = {**HOOK, "url": "http://10.1.2.3/hook", "allow_private": True}
    ours = await key_of(here, "channels:admin", "notices:read")
    refused = await here.ask("POST", "/channels", 403, body, key=ours)
    assert "/allow_private" == refused["pointer"]
    channel = (await here.ask("POST", "/channels", 201, body))["channel_id"]
    await here.ask("PATCH", f"/channels/{channel}", 403, {"url": "http://10.9.9.9/"}, key=ours)
    kept = await here.ask("PATCH", f"/channels/{channel}", 200, {"headers": {"X-A": "b"}}, key=ours)
    assert ({"X-A": "***"}, True) == (kept["headers"], kept["allow_private"])
    await here.ask("PATCH", f"/channels/{channel}", 422, {"allow_private": False}, key=ours)


async def test_a_change_keeps_what_is_not_sent(here: Scene) -> None:
    """The secrets too; a masked address means the one that is stored."""
    channel = await made(here, headers={"X-Token": "t0p"})
    path = f"/channels/{channel['channel_id']}"
    changed = await here.ask("PATCH", path, 200, {"url": channel["url"]})
    assert ("on-call", channel["url"], {"X-Token": "***"}) == (changed["name"], changed["url"], changed["headers"])
    stored = await opened(here)
    assert (HOOK["url"], channel["secret"]) == (stored["url"], stored["signing_secret"])
    assert "t0p" in stored.values()
    moved = await here.ask("PATCH", path, 200, {"url": "https://hooks.example.com/new"})
    assert 3 == moved["version"]
    stored = await opened(here)
    assert ("https://hooks.example.com/new", channel["secret"]) == (
        stored["url"],
        stored["signing_secret"],
    )


async def test_a_removed_channel_is_gone(here: Scene) -> None:
    """It is answered as it was."""
    channel = await made(here)
    path = f"/channels/{channel['channel_id']}"
    assert "on-call" == (await here.ask("DELETE", path))["name"]
    await here.ask("GET", path, 404)
    await here.ask("DELETE", path, 404)
    assert [] == await here.ask("GET", "/channels")


async def test_a_test_is_a_notice_of_its_own(here: Scene) -> None:
    """It waits for a sender; its record says what became of it."""
    channel = await made(here)
    sent = await here.ask("POST", f"/channels/{channel['channel_id']}/test", 202)
    assert ("waiting", True, 1, 0) == (sent["state"], sent["test"], sent["events"], sent["tries"])
    assert "test of the channel on-call, sent by admin" in sent["lines"][0]["sentence"]
    due = await here.store.notices.due("sender", 10)
    assert [sent["notice_id"]] == [str(each.notice_id) for each in due.notices]
    await here.store.notices.settle("sender", [SettledNotice(due.notices[0].notice_id, NoticeState.DELIVERED)])
    found = await here.ask("GET", f"/notices/{sent['notice_id']}")
    assert ("delivered", "on-call") == (found["state"], found["channel"])
    assert [found] == await here.ask("GET", "/notices?state=delivered")
    assert [] == await here.ask("GET", "/notices?state=dead")
    assert (await here.ask("GET", "/channels"))[0]["delivered_at"] is not None


@pytest.mark.parametrize(
    ("settled", "state", "error"),
    [(NoticeState.DELIVERED, "delivered", None), (NoticeState.WAITING, "waiting", "500: oops")],
)
async def test_a_test_is_awaited_until_its_try_has_ended(
    here: Scene, settled: NoticeState, state: str, error: str | None
) -> None:
    """That it has begun says nothing yet. A second test after one that failed waits for the outcome of its own."""
    channel = await made(here)
    path = f"/channels/{channel['channel_id']}/test"
    for _ in range(2):
        asked = asyncio.create_task(here.ask("POST", f"{path}?wait=20", 202))
        await eventually(lambda: here.store.state.notices)
        await here.clock.advance(1.0)
        [notice] = (await here.store.notices.due("sender", 10)).notices
        await here.clock.advance(5.0)
        assert not asked.done()
        outcome = SettledNotice(notice.notice_id, settled, error, again_seconds=60.0)
        await here.store.notices.settle("sender", [outcome])
        await here.clock.advance(1.0)
        sent = await asked
        assert (sent["state"], sent["error"], sent["tries"]) == (state, error, 1)
    asked = asyncio.create_task(here.ask("POST", f"{path}?wait=20", 202))
    await here.clock.advance(1.0)
    await here.clock.advance(30.0)
    assert (await asked)["state"] == "waiting"


async def test_a_dead_notice_is_sent_again(here: Scene) -> None:
    """One that was delivered is not."""
    channel = await made(here)
    sent = await here.ask("POST", f"/channels/{channel['channel_id']}/test", 202)
    path = f"/notices/{sent['notice_id']}"
    refused = await here.ask("POST", f"{path}/send-again", 409)
    assert "notice_not_dead" == refused["code"]
    [notice] = (await here.store.notices.due("sender", 10)).notices
    await here.store.notices.settle("sender", [SettledNotice(notice.notice_id, NoticeState.DEAD, error="410 Gone")])
    dead = await here.ask("GET", path)
    assert ("dead", "410 Gone") == (dead["state"], dead["error"])
    again = await here.ask("POST", f"{path}/send-again", 202)
    assert "waiting" == again["state"]
    assert [notice.notice_id] == [each.notice_id for each in (await here.store.notices.due("sender", 10)).notices]


async def test_a_channel_says_how_long_it_rests_and_is_tried_when_somebody_asks(here: Scene) -> None:
    """After a failed try, with what waits for it and why."""
    channel = await made(here)
    path = f"/channels/{channel['channel_id']}"
    well = {"failures": 0, "resting_until": None, "waiting": 0, "waiting_events": 0}
    assert well == {name: channel[name] for name in well}
    [stored] = await here.store.channels.find("default")
    for number in range(2):
        waits = notice(Factory(here.clock.now(), seed=f"waits {number}"), stored, rule_id=UUID(int=number), events=5)
        await here.store.notices.add(waits)
    [held] = (await here.store.notices.due("sender", 9)).notices
    away = SettledNotice(held.notice_id, NoticeState.WAITING, "it answered 503", 90.0, rest_seconds=60.0)
    await here.store.notices.settle("sender", [away])
    rests = await here.ask("GET", path)
    assert [rests] == await here.ask("GET", "/channels")
    assert time_of(here.clock.now() + 60.0) == datetime.fromisoformat(rests["resting_until"])
    assert ("it answered 503", 1, 2, 10) == (
        rests["error"], rests["failures"], rests["waiting"], rests["waiting_events"],
    )  # fmt: skip
    await here.clock.advance(30.0)
    woken = await here.ask("POST", f"{path}/try-now")
    assert rests | {"resting_until": None} == woken
    assert 1 == len((await here.store.notices.due("sender", 9)).notices)
    await here.ask("POST", f"/channels/{NOTHING}/try-now", 404)


async def test_permissions_of_channels_and_notices(here: Scene) -> None:
    """`channels:admin` writes, `notices:write` tests, `notices:operate` sends and tries again, `notices:read` looks."""
    channel = await made(here)
    path = f"/channels/{channel['channel_id']}"
    reader, writer = await key_of(here, "notices:read"), await key_of(here, "notices:write")
    operator = await key_of(here, "notices:operate")
    assert 1 == len(await here.ask("GET", "/channels", key=reader))
    await here.ask("POST", "/channels", 403, {**HOOK, "name": "x"}, key=writer)
    await here.ask("DELETE", path, 403, key=writer)
    await here.ask("PATCH", path, 403, {"headers": {}}, key=writer)
    await here.ask("POST", f"{path}/rotate-secret", 403, key=writer)
    await here.ask("POST", f"{path}/test", 403, key=reader)
    sent = await here.ask("POST", f"{path}/test", 202, key=writer)
    await here.ask("GET", "/channels", 403, key=operator)
    await here.ask("POST", f"{path}/try-now", 403, key=reader)
    await here.ask("POST", f"{path}/try-now", key=operator)
    await here.ask("POST", f"/notices/{sent['notice_id']}/send-again", 403, key=reader)
    await here.ask("POST", f"/notices/{sent['notice_id']}/send-again", 409, key=operator)


async def test_channels_of_the_installation_are_for_its_administrators(here: Scene) -> None:
    """For everybody else they are not there."""
    channel = await made(here, installation=True)
    assert [] == await here.ask("GET", "/channels")
    assert ["on-call"] == [each["name"] for each in await here.ask("GET", "/channels?installation=true")]
    path = f"/channels/{channel['channel_id']}"
    assert (await here.ask("GET", path))["installation"]
    ours = await key_of(here, "*")
    await here.ask("GET", path, 404, key=ours)
    await here.ask("GET", "/channels?installation=true", 403, key=ours)
    await here.ask("POST", "/channels", 403, {**HOOK, "installation": True}, key=ours)


async def test_no_secret_of_a_channel_is_in_the_audit_log(here: Scene) -> None:
    """Each write has its entry."""
    channel = await made(here, headers={"X-Token": "t0p-secret"})
    path = f"/channels/{channel['channel_id']}"
    await here.ask("PATCH", path, 200, {"url": "https://hooks.example.com/other-secret"})
    second = await here.ask("POST", f"{path}/rotate-secret")
    await here.ask("POST", f"{path}/test", 202)
    await here.ask("DELETE", path)
    rows = await here.store.audit.find(AuditQuery(namespace="default", limit=50))
    actions = [row.action for row in rows if row.action.startswith("channel.")]
    wanted = ("removed", "tested", "secret_rotated", "changed", "added")
    assert [f"channel.{each}" for each in wanted] == actions
    told = repr(rows)
    for secret in ("very-secret", "other-secret", "t0p-secret", channel["secret"], second["secret"]):
        assert secret not in told


async def test_a_test_of_nothing_is_not_found(here: Scene) -> None:
    """Nor is any other word about it."""
    for method, tail, body in (
        ("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("POST", "/test", None),
        ("POST", "/rotate-secret", None),
    ):  # fmt: skip
        await here.ask(method, f"/channels/{NOTHING}{tail}", 404, body)
    await here.ask("GET", f"/notices/{NOTHING}", 404)
    await here.ask("POST", f"/notices/{NOTHING}/send-again", 404)
    assert [] == await here.store.notices.find(NoticeQuery(namespace="default"))


async def test_a_job_names_channels_that_are_there(here: Scene) -> None:
    """As `notify`; what is answered can be sent back, and null takes it away."""
    await made(here)
    job = await here.create(cron="0 * * * *", notify=["on-call", "on-call"])
    assert ["on-call"] == (await here.ask("GET", f"/jobs/{job}"))["notify"]
    refused = await here.ask("PATCH", f"/jobs/{job}", 422, {"notify": ["on-cal"]})
    assert ("/notify/0", "channel_unknown") == (refused["pointer"], refused["code"])
    assert "there are on-call" in refused["detail"]
    await here.ask("PATCH", f"/jobs/{job}", 200, {"name": "b"})
    assert ["on-call"] == (await here.ask("GET", f"/jobs/{job}"))["notify"]
    await here.ask("PATCH", f"/jobs/{job}", 200, {"notify": None})
    assert [] == (await here.ask("GET", f"/jobs/{job}"))["notify"]


async def test_a_job_warns_of_a_channel_that_was_removed(here: Scene) -> None:
    """Nobody is told through it until there is one of its name again."""
    task = {"kind": "shell", "command": "true"}
    channel = await made(here)
    job = {"name": "nightly", "every": "1h", "task": task, "notify": ["on-call"]}
    path = f"/jobs/{(await here.ask('POST', '/jobs', 201, job))['job_id']}"
    assert [] == [each for each in (await here.ask("GET", path))["warnings"] if "notify" in each]
    await here.ask("DELETE", f"/channels/{channel['channel_id']}", 200)
    [warning] = [each for each in (await here.ask("GET", path))["warnings"] if "notify" in each]
    assert "the channel 'on-call' of notify is not there" in warning
    await made(here)
    assert [] == [each for each in (await here.ask("GET", path))["warnings"] if "notify" in each]


@pytest.mark.parametrize("name", ["two\nlines", "red\x1b[31m", "line\u2028", "bell\x07"])
async def test_a_name_of_a_job_is_one_line(here: Scene, name: str) -> None:
    """In a creation, in a change, and of a task."""
    task = {"kind": "shell", "command": "true"}
    for path, body in (("/jobs", {"every": "1h", "task": task}), ("/tasks", {"taskId": "t", "kind": "shell"})):
        refused = await here.ask("POST", path, 422, {**body, "name": name})
        assert ("/name" == refused["pointer"]) or path == "/tasks", refused
    job = await here.ask("POST", "/jobs", 201, {"name": "a\u202eb", "every": "1h", "task": task})
    refused = await here.ask("PATCH", f"/jobs/{job['job_id']}", 422, {"name": name})
    assert "/name" == refused["pointer"]
