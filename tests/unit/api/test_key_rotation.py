"""`POST /keys/{id}/rotate`: another secret for the same key, for those who may know it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import structlog

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import ask, person, signed_in, signing_key
from tickwise.api.auth import KNOWN_SECONDS
from tickwise.ports.signals import Topic
from tickwise.testing.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
        yield made


async def made(here: World, *permissions: str, by: str = ADMIN_KEY, **body: Any) -> dict[str, Any]:
    """A key that must be made."""
    answer = await ask(
        here, by, "POST", "/keys", json={"name": "ci", "permissions": permissions or ["jobs:read"], **body}
    )
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def rotate(here: World, by: str, key: dict[str, Any], overlap: float | None = None) -> httpx2.Response:
    body = {} if overlap is None else {"json": {"overlap_seconds": overlap}}
    return await ask(here, by, "POST", f"/keys/{key['key_id']}/rotate", **body)


async def status(here: World, secret: str) -> int:
    return (await ask(here, secret, "GET", "/jobs")).status_code


async def test_both_secrets_work_until_the_overlap_ends(here: World, clock: VirtualClock) -> None:
    """It is the same key, which says when its earlier secret ends: after a day, if nothing else is said."""
    key = await made(here)
    assert 200 == await status(here, key["key"])
    answer = await rotate(here, ADMIN_KEY, key)
    assert (200, "no-store") == (answer.status_code, answer.headers["cache-control"])
    new = answer.json()
    assert new["key"].startswith(new["prefix"])
    assert new["prefix"] != key["prefix"]
    changed = {"key", "prefix", "rotated_at", "earlier_secret_until", "last_used_at"}
    assert {name: key[name] for name in key if name not in changed} == {
        name: new[name] for name in key if name not in changed
    }
    assert Topic.KEYS in here.bell.rung
    assert [200, 200] == [await status(here, each["key"]) for each in (key, new)]
    [listed] = [each for each in (await ask(here, ADMIN_KEY, "GET", "/keys")).json() if each["name"] == "ci"]
    assert listed["earlier_secret_until"] == new["earlier_secret_until"]
    await clock.advance(86_400.0 - 1.0)
    assert [200, 200] == [await status(here, each["key"]) for each in (key, new)]
    await clock.advance(1.5)
    assert [401, 200] == [await status(here, each["key"]) for each in (key, new)]


async def test_without_an_overlap_a_leaked_secret_ends_at_once(here: World, clock: VirtualClock) -> None:
    """Also in a process that knows it and does not hear of it: within 4 seconds."""
    key = await made(here)
    assert 200 == await status(here, key["key"])
    new = (await rotate(here, ADMIN_KEY, key, 0)).json()
    assert new["earlier_secret_until"] is None
    await clock.advance(KNOWN_SECONDS + 0.1)
    assert [401, 200] == [await status(here, each["key"]) for each in (key, new)]


async def test_a_revocation_ends_both_secrets(here: World, clock: VirtualClock) -> None:
    """In every process within 4 seconds, where the signal is lost, too."""
    key = await made(here)
    new = (await rotate(here, ADMIN_KEY, key)).json()
    assert [200, 200] == [await status(here, each["key"]) for each in (key, new)]
    await here.store.keys.revoke("default", new_id(key))  # by another process, whose signal is lost
    await clock.advance(KNOWN_SECONDS + 0.1)
    assert [401, 401] == [await status(here, each["key"]) for each in (key, new)]
    [listed] = [each for each in (await ask(here, ADMIN_KEY, "GET", "/keys")).json() if each["name"] == "ci"]
    assert listed["earlier_secret_until"] is None


def new_id(key: dict[str, Any]) -> Any:
    from uuid import UUID

    return UUID(key["key_id"])


async def test_a_key_rotates_itself_without_a_permission(here: World) -> None:
    """A program renews its own secret, also one of several namespaces, and no other key."""
    key = await made(here, namespaces=["default", "team-a"])
    other = await made(here, name="other")
    answer = await rotate(here, key["key"], key, 0)
    assert 200 == answer.status_code, answer.text
    assert 200 == await status(here, answer.json()["key"])
    assert 403 == (await rotate(here, answer.json()["key"], other)).status_code


async def test_neither_an_earlier_secret_nor_a_token_rotates_its_key(here: World) -> None:
    """Each may have leaked or been lent: it must not lock out the holder of the key, nor in a process that remembers
    the earlier secret as the present one."""
    key = await made(here, "jobs:read", "keys:admin")
    body = {"grant_type": "api_key", "api_key": key["key"]}
    token = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]
    assert 403 == (await rotate(here, token, key, 0)).status_code
    assert 200 == (await rotate(here, key["key"], key)).status_code
    assert 200 == await status(here, key["key"])
    assert 403 == (await rotate(here, key["key"], key, 0)).status_code


async def test_what_an_earlier_secret_makes_ends_with_it(here: World, clock: VirtualClock) -> None:
    """A key expires with the overlap at the latest; a token works no longer than the secret that was shown."""
    key = await made(here, "jobs:read", "keys:admin")
    new = (await rotate(here, ADMIN_KEY, key, 60)).json()
    child = await made(here, by=key["key"])
    assert child["expires_at"] == new["earlier_secret_until"]
    tokens = []
    for shown in (key["key"], new["key"]):
        body = {"grant_type": "api_key", "api_key": shown}
        tokens.append((await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"])
    assert [200, 200] == [await status(here, token) for token in tokens]
    await clock.advance(60.5 + KNOWN_SECONDS)
    assert [401, 200, 401] == [await status(here, each) for each in (*tokens, child["key"])]
    assert 200 == (await rotate(here, ADMIN_KEY, key, 0)).status_code
    await clock.advance(KNOWN_SECONDS + 0.1)
    assert 401 == await status(here, tokens[1])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"permissions": ["jobs:read"]}, 200),
        ({"permissions": ["jobs:write"]}, 403),
        ({"permissions": ["*"]}, 403),
        ({"permissions": ["jobs:read"], "namespaces": ["*"]}, 403),
        ({"permissions": ["jobs:read"], "namespaces": ["default", "team-a"]}, 403),
    ],
    ids=str,
)
async def test_nobody_rotates_a_key_that_may_do_more(here: World, body: dict[str, Any], code: int) -> None:
    """Its secret would be theirs."""
    admin = await made(here, "jobs:read", "keys:admin", name="admin of keys")
    key = await made(here, **body)
    assert code == (await rotate(here, admin["key"], key, 0)).status_code
    assert (401 if code == 200 else 200) == (await ask(here, key["key"], "GET", "/auth/me")).status_code


async def test_nobody_gets_a_secret_that_works_for_longer_than_their_own(here: World) -> None:
    """A key that expires rotates none that is good for longer; a person none that does not depend on them."""
    short = await made(here, "jobs:read", "keys:admin", expires_at="2030-01-02T00:00:00Z")
    assert [403, 200] == [
        (await rotate(here, short["key"], await made(here, **end), 0)).status_code
        for end in ({"expires_at": None}, {"expires_at": "2030-01-01T00:00:00Z"})
    ]
    await person(here, "Ada", ("admin", "*"))
    await person(here, "Bob", ("admin", "*"))
    ada, bob = [(await signed_in(here, name))["access_token"] for name in ("Ada", "Bob")]
    hers, nobodys = await made(here, by=ada), await made(here)
    assert [200, 403, 403] == [
        (await rotate(here, who, key, 0)).status_code for who, key in ((ada, hers), (bob, hers), (ada, nobodys))
    ]
    assert 200 == (await rotate(here, ADMIN_KEY, hers, 0)).status_code


async def test_an_administrator_of_the_installation_rotates_keys_of_all_namespaces(here: World) -> None:
    """As they are seen and revoked; an administrator of one namespace rotates none of another."""
    key = await made(here, namespace="team-a")
    local = await made(here, "jobs:read", "keys:admin")
    assert [404, 200] == [(await rotate(here, who, key, 0)).status_code for who in (local["key"], ADMIN_KEY)]


async def test_an_overlap_that_goes_on_refuses_another(here: World, clock: VirtualClock) -> None:
    """409, unless it ends all earlier secrets; of two rotations at once one wins."""
    key = await made(here)
    ends = await asyncio.gather(*(rotate(here, ADMIN_KEY, key) for _ in range(2)))
    assert [200, 409] == sorted(end.status_code for end in ends)
    again = await rotate(here, ADMIN_KEY, key, 5)
    assert (409, "key_rotating") == (again.status_code, again.json()["code"])
    assert 200 == await status(here, key["key"])
    assert 200 == (await rotate(here, ADMIN_KEY, key, 0)).status_code
    await clock.advance(KNOWN_SECONDS + 0.1)
    assert 401 == await status(here, key["key"])


async def test_a_key_that_is_over_is_not_rotated(here: World, clock: VirtualClock) -> None:
    """Revoked and expired ones are 409, unknown ones and those of other namespaces 404."""
    gone, short = await made(here), await made(here, expires_at="2030-01-02T00:00:00Z")
    await ask(here, ADMIN_KEY, "DELETE", f"/keys/{gone['key_id']}")
    assert "key_over" == (await rotate(here, ADMIN_KEY, gone)).json()["code"]
    await clock.advance(1_000 * 365 * 86_400.0)
    assert "key_over" == (await rotate(here, ADMIN_KEY, short)).json()["code"]
    assert 404 == (await rotate(here, ADMIN_KEY, {"key_id": "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"})).status_code
    other = await here.key("a-key-of-another-namespace-of-32-characters", "*", namespace="other")
    assert 404 == (await rotate(here, other, await made(here))).status_code


async def test_the_bootstrap_key_is_rotated_by_its_setting(here: World) -> None:
    """The next start would bring the old secret back."""
    [key] = (await ask(here, ADMIN_KEY, "GET", "/keys")).json()
    answer = await rotate(here, ADMIN_KEY, key)
    assert (409, "key_not_rotated_here") == (answer.status_code, answer.json()["code"])
    assert "TICKWISE_BOOTSTRAP_KEY" in answer.json()["detail"]


@pytest.mark.parametrize("overlap", [-1, 30 * 86_400 + 1, "1h", None, True], ids=str)
async def test_an_overlap_that_cannot_be_is_refused(here: World, overlap: Any) -> None:
    """With its field."""
    key = await made(here)
    answer = await ask(here, ADMIN_KEY, "POST", f"/keys/{key['key_id']}/rotate", json={"overlap_seconds": overlap})
    assert (422, "/overlap_seconds") == (answer.status_code, answer.json()["pointer"])


async def test_a_rotation_is_logged_without_its_secret(here: World) -> None:
    """Who, which key, and for how long the earlier secret works."""
    key = await made(here)
    with structlog.testing.capture_logs() as lines:
        new = (await rotate(here, ADMIN_KEY, key, 60)).json()
    [line] = [each for each in lines if each["event"] == "key_rotated"]
    assert (key["key_id"], "admin", 60.0) == (line["key_id"], line["by"], line["overlap_seconds"])
    assert new["key"] not in str(lines)
