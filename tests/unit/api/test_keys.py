"""`/keys`: a key gives what its maker has, is shown once, and can be taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio
import structlog

from tests.support.app import ADMIN_KEY, API, World, world
from tickwise.control.keys.credentials import KeyUses
from tickwise.control.keys.secrets import admit_setting, key_of, secret_digest
from tickwise.domain.errors import Misconfigured
from tickwise.domain.model import Principal
from tickwise.ports.audit import AuditQuery
from tickwise.ports.identity import KeyOrigin
from tickwise.ports.signals import Topic
from tickwise.testing.clock import VirtualClock

LATER = "2999-01-01T00:00:00Z"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def ask(here: World, key: str, method: str, path: str, **more: Any) -> httpx2.Response:
    return await here.client.request(method, f"{API}{path}", headers={"Authorization": f"Bearer {key}"}, **more)


async def made(here: World, by: str = ADMIN_KEY, **body: Any) -> dict[str, Any]:
    """A key that must be made."""
    answer = await ask(here, by, "POST", "/keys", json={"name": "ci", "scopes": ["jobs:read"], **body})
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_key_is_made_used_listed_and_revoked(here: World) -> None:
    """Its whole life; the secret is in the first answer alone."""
    key = await made(here)
    assert key["key"].startswith(key["prefix"])
    assert ("ci", "default", ["jobs:read"], "made", "admin") == tuple(
        key[field] for field in ("name", "namespace", "scopes", "origin", "created_by")
    )
    assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code
    listed = (await here.client.get(f"{API}/keys")).json()
    assert {key["key_id"]: "ci"} == {each["key_id"]: each["name"] for each in listed if each["origin"] == "made"}
    assert key["key"] not in str(listed)
    gone = await here.client.delete(f"{API}/keys/{key['key_id']}")
    assert (200, True) == (gone.status_code, gone.json()["revoked_at"] is not None)
    assert Topic.KEYS in here.bell.rung
    assert (await here.client.delete(f"{API}/keys/{key['key_id']}")).json() == gone.json()


@pytest.mark.parametrize("scope", ["jobs:write", "keys:admin", "*"])
async def test_a_key_gives_no_scope_that_it_does_not_have(here: World, scope: str) -> None:
    """A key that may make keys makes none that may do more."""
    key = (await made(here, scopes=["keys:admin", "jobs:read"]))["key"]
    answer = await ask(here, key, "POST", "/keys", json={"name": "x", "scopes": ["jobs:read", scope]})
    if scope == "keys:admin":
        assert 201 == answer.status_code
        return
    assert (403, "/scopes/1") == (answer.status_code, answer.json()["pointer"])


async def test_a_key_makes_keys_of_its_own_namespace(here: World) -> None:
    """Naming another one is refused, naming its own is not."""
    other = await here.key("a-key-of-another-namespace-of-32-characters", "*", namespace="other")
    for key, namespace, status in ((ADMIN_KEY, "nowhere", 404), (other, "default", 403), (other, "other", 201)):
        body = {"name": "x", "scopes": ["jobs:read"], "namespace": namespace}
        answer = await ask(here, key, "POST", "/keys", json=body)
        assert status == answer.status_code, (key, namespace)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"scopes": ["jobs:read"]}, 200),
        ({"scopes": ["jobs:read", "keys:admin"]}, 200),
        ({"scopes": ["jobs:write"]}, 403),
        ({"scopes": ["*"]}, 403),
        ({"scopes": ["jobs:read"], "namespaces": ["*"]}, 403),
    ],
    ids=str,
)
async def test_a_key_revokes_none_that_is_stronger(here: World, body: dict[str, Any], status: int) -> None:
    """Nor one that works in all namespaces. The caller's own key it may revoke in any case."""
    assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
    admin = (await made(here, scopes=["keys:admin", "jobs:read"]))["key"]
    other = await made(here, **body)
    assert status == (await ask(here, admin, "DELETE", f"/keys/{other['key_id']}")).status_code
    after = 200 if status == 403 and "jobs:write" not in body["scopes"] else 403 if status == 403 else 401
    assert after == (await ask(here, other["key"], "GET", "/jobs")).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", f"/keys/{other['key_id']}")).status_code


async def test_an_administrator_of_a_namespace_takes_the_rights_of_a_foreign_key_there(here: World) -> None:
    """A key of two namespaces is listed in both. In the second one neither its home nor its owner is told; revoked
    there, it works in the first one alone. Both namespaces have entries of it."""
    for name in ("team-a", "team-b"):
        assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
    key = await made(here, name="guest", scopes=["jobs:read"], namespaces=["team-a", "team-b"])
    admin = (await made(here, scopes=["keys:admin", "jobs:read", "audit:read"], namespaces=["team-b"]))["key"]
    [shown] = [each for each in (await ask(here, admin, "GET", "/keys")).json() if each["name"] == "guest"]
    assert ("team-b", ["team-b"], ["jobs:read"]) == (shown["namespace"], shown["namespaces"], shown["permissions"])
    assert (None, None, None) == (shown["created_by"], shown["owner_id"], shown["prefix"])
    here.bell.about.clear()
    gone = await ask(here, admin, "DELETE", f"/keys/{key['key_id']}")
    assert (200, ["team-b"]) == (gone.status_code, gone.json()["namespaces"]), gone.text
    assert gone.json()["revoked_at"] is not None
    assert [UUID(key["key_id"])] == here.bell.about
    await here.clock.sleep(0.0)
    found = await here.store.keys.find(secret_digest(key["key"].encode()))
    assert found is not None
    assert {"team-a"} == set(found.caller.namespaces)
    assert "guest" not in [each["name"] for each in (await ask(here, admin, "GET", "/keys")).json()]
    assert 404 == (await ask(here, admin, "DELETE", f"/keys/{key['key_id']}")).status_code
    entries = (await ask(here, admin, "GET", f"/audit?target={key['key_id']}")).json()
    assert ["key.revoked", "key.made"] == [each["action"] for each in entries if each["action"] != "key.used_first"]
    assert "team-a" not in str(entries)
    of_home = await here.store.audit.find(AuditQuery(namespace="team-a", target=key["key_id"], limit=10))
    assert ["key.revoked", "key.made"] == [each.action for each in of_home if each.action != "key.used_first"]


async def test_the_home_of_a_key_takes_its_own_rights_alone(here: World) -> None:
    """The key goes on in its other namespace; one that is stronger there than the administrator stays as it is."""
    assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
    admin = (await made(here, scopes=["keys:admin", "jobs:read"]))["key"]
    strong = await made(here, scopes=["jobs:write"], namespaces=["team-a", "default"])
    assert 403 == (await ask(here, admin, "DELETE", f"/keys/{strong['key_id']}")).status_code
    weak = await made(here, scopes=["jobs:read"], namespaces=["default", "team-a"])
    assert 200 == (await ask(here, admin, "DELETE", f"/keys/{weak['key_id']}")).status_code
    found = await here.store.keys.find(secret_digest(weak["key"].encode()))
    assert found is not None
    assert ("team-a", {"team-a"}) == (found.caller.home, set(found.caller.namespaces))


async def test_no_key_of_a_namespace_revokes_those_of_the_installation(here: World) -> None:
    """The bootstrap key is that of its operator."""
    admin = (await made(here, scopes=["keys:admin"]))["key"]
    [bootstrap] = [each for each in (await ask(here, admin, "GET", "/keys")).json() if each["origin"] != "made"]
    assert 403 == (await ask(here, admin, "DELETE", f"/keys/{bootstrap['key_id']}")).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "GET", "/keys")).status_code


async def test_a_key_that_leaked_revokes_itself(here: World) -> None:
    """Also one that works in several namespaces."""
    assert 201 == (await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
    key = await made(here, scopes=["keys:admin"], namespaces=["default", "team-a"])
    gone = await ask(here, key["key"], "DELETE", f"/keys/{key['key_id']}")
    assert (200, True) == (gone.status_code, gone.json()["revoked_at"] is not None)


async def test_a_key_makes_none_that_is_good_for_longer(here: World) -> None:
    """What a key that expires makes expires with it, or before."""
    end = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    short = await made(here, scopes=["keys:admin", "jobs:read"], expires_at=end)
    child = await made(here, by=short["key"])
    assert child["expires_at"] == short["expires_at"]
    for wanted in (LATER, None):
        body = {"name": "x", "scopes": ["jobs:read"], "expires_at": wanted}
        answer = await ask(here, short["key"], "POST", "/keys", json=body)
        assert 403 == answer.status_code, wanted


async def test_a_key_that_expires_is_refused_afterwards() -> None:
    """By the store's clock."""
    clock = VirtualClock()
    async with world(clock=clock) as here:
        end = datetime.fromtimestamp(clock.now() + 60.0, UTC).isoformat()
        key = (await made(here, expires_at=end))["key"]
        assert 200 == (await ask(here, key, "GET", "/jobs")).status_code
        await clock.advance(60.0)
        assert 401 == (await ask(here, key, "GET", "/jobs")).status_code


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scopes": ["jobs:fly"]}, "/scopes/0"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "3122-01-01T00:00:00Z"}, "/expires_at"),
        ({"name": "admin"}, "/name"),
        ({"name": "a\x00b"}, "/name"),
        ({"scopes": []}, "/scopes"),
        ({"role": "admin"}, "/role"),
    ],
)
async def test_a_key_that_cannot_be_is_refused_with_its_field(here: World, body: dict[str, Any], pointer: str) -> None:
    """And nothing is made."""
    answer = await here.client.post(f"{API}/keys", json={"name": "ci", "scopes": ["jobs:read"], **body})
    assert (422, pointer) == (answer.status_code, answer.json()["pointer"])
    assert 1 == await here.store.keys.count()


async def test_only_keys_admin_sees_and_changes_keys(here: World) -> None:
    """Not even its own: a key that leaks must not tell what others there are."""
    key = await made(here, scopes=["jobs:read", "jobs:write"])
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("DELETE", f"/keys/{key['key_id']}")):
        assert 403 == (await ask(here, key["key"], method, path)).status_code, method


async def test_a_key_of_another_namespace_is_not_there(here: World) -> None:
    """It can be neither seen nor revoked."""
    key = await made(here)
    other = await here.key("a-key-of-another-namespace-of-32-characters", "*", namespace="other")
    assert 404 == (await ask(here, other, "DELETE", f"/keys/{key['key_id']}")).status_code
    assert key["key_id"] not in (await ask(here, other, "GET", "/keys")).text
    assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code


async def test_a_secret_is_not_kept_for_a_repeat(here: World) -> None:
    """An Idempotency-Key has no effect where the answer holds a secret: nothing of it is in the store."""
    headers = {"Idempotency-Key": "once"}
    body = {"name": "ci", "scopes": ["jobs:read"]}
    first, second = [await here.client.post(f"{API}/keys", json=body, headers=headers) for _ in range(2)]
    assert (201, 201) == (first.status_code, second.status_code)
    assert first.json()["key"] != second.json()["key"]
    assert "no-store" == first.headers["cache-control"]
    assert not here.store.state.receipts


async def test_what_becomes_of_keys_is_logged_without_their_secrets(here: World) -> None:
    """Who made and revoked which."""
    with structlog.testing.capture_logs() as logs:
        key = await made(here)
        await here.client.delete(f"{API}/keys/{key['key_id']}")
    told = {line["event"]: line for line in logs}
    assert {"key_made", "key_revoked"} <= told.keys()
    assert all(told[event]["key_id"] == key["key_id"] for event in ("key_made", "key_revoked"))
    assert "admin" == told["key_revoked"]["by"]
    assert key["key"] not in str(logs)


async def test_keys_are_listed_page_by_page(here: World) -> None:
    """Each once, following `Link`."""
    ids = {(await made(here))["key_id"] for _ in range(3)}
    found, path = [], f"{API}/keys?limit=2"
    while path:
        answer = await here.client.get(path)
        found += [each["key_id"] for each in answer.json() if each["origin"] == "made"]
        path = answer.links.get("next", {}).get("url", "")
    assert ids == set(found)
    assert len(ids) == len(found)


async def test_when_a_key_was_used_is_written_once_a_minute() -> None:
    """Off the way of requests, for all keys together; what waits is written at the end."""
    clock = VirtualClock()
    async with world(clock=clock) as here:
        key = await made(here)
        for _ in range(20):
            assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code
            await clock.advance(1.0)
        assert {None} == {row.last_used_at for row in await here.store.keys.page("default", before=None, limit=9)}
        await clock.advance(60.0)
        used = {
            str(row.key_id): row.last_used_at for row in await here.store.keys.page("default", before=None, limit=9)
        }
        assert used[key["key_id"]] is not None


async def test_uses_that_wait_are_written_at_the_end(here: World) -> None:
    """An orderly stop loses none."""
    clock = VirtualClock()
    uses = KeyUses(here.store.keys, clock)
    [row] = await here.store.keys.page("default", before=None, limit=1)
    uses.note(await here.store.keys.find(secret_digest(ADMIN_KEY.encode())))
    await uses.stop()
    [after] = await here.store.keys.page("default", before=None, limit=1)
    assert (row.key_id, None, True) == (after.key_id, row.last_used_at, after.last_used_at is not None)


# ------------------------------------------------------------------------------------------ the setting's key


async def test_a_replaced_bootstrap_key_ends_the_old_one(here: World) -> None:
    """And a process that still has the old setting does not bring it back."""
    new = "0f8b6c1e5d2a4937b1c08e6f5a3d9274"
    with structlog.testing.capture_logs() as logs:
        await admit_setting(here.store.keys, here.clock, new)
        await admit_setting(here.store.keys, here.clock, ADMIN_KEY)
    assert ["bootstrap_key_replaced", "bootstrap_key_revoked"] == [line["event"] for line in logs]
    assert await here.store.keys.find(secret_digest(ADMIN_KEY.encode())) is None
    assert await here.store.keys.find(secret_digest(new.encode())) is not None
    assert 401 == (await here.client.get(f"{API}/jobs")).status_code


@pytest.mark.parametrize(
    "weak",
    [
        "x" * 31,
        "x" * 32,
        "ab" * 20,
        "changeme" * 4,
        "changeme1changeme2changeme3changeme4",
        "abcdefghijklmnopqrstuvwxyz0123456789",
        "0123456789012345678901234567890123456789",
        "1111111122222222333333334444444455555555",
    ],
)
async def test_a_bootstrap_key_that_can_be_guessed_is_refused_with_advice(here: World, weak: str) -> None:
    """The message says how to make a good one, and does not repeat the bad one."""
    with pytest.raises(Misconfigured, match="openssl rand -hex 32") as refused:
        await admit_setting(here.store.keys, here.clock, weak)
    assert weak not in refused.value.detail


@pytest.mark.parametrize(
    "strong",
    [
        "9f86d081884c7d659a2feaa0c55ad015",
        "31415926535897932384626433832795028841",
        "correct horse battery staple and seven more",
        "bW9uZGF5LXR1ZXNkYXktd2VkbmVzZGF5LXQ=",
    ],
)
async def test_a_bootstrap_key_that_cannot_be_guessed_is_taken(here: World, strong: str) -> None:
    """In any form of 32 characters or more."""
    await admit_setting(here.store.keys, here.clock, strong)
    assert await here.store.keys.find(secret_digest(strong.encode())) is not None


def test_nothing_is_shown_of_a_secret_that_a_person_chose() -> None:
    """Its beginning may say too much of it."""
    principal = Principal("admin", "default", frozenset({"*"}))
    shown = [key_of(VirtualClock(), "tw_" + "a" * 43, principal, origin).prefix for origin in KeyOrigin]
    assert ["tw_aaaaaaaa", None, "tw_aaaaaaaa", "tw_aaaaaaaa"] == shown


async def test_an_administrator_of_the_installation_lists_and_revokes_keys_of_each_namespace(here: World) -> None:
    """Also without naming the namespace of the key; an administrator of one namespace sees the keys of that one."""
    await here.client.post(f"{API}/namespaces", json={"name": "team-a"})
    key = await made(here, namespaces=["team-a"])
    theirs = await here.key("a-key-of-another-namespace-of-32-characters", "*", namespace="team-b")

    async def ids(by: str, query: str = "") -> set[str]:
        return {each["key_id"] for each in (await ask(here, by, "GET", f"/keys{query}")).json()}

    assert key["key_id"] in await ids(ADMIN_KEY)
    assert {key["key_id"]} == await ids(ADMIN_KEY, "?namespace=team-a")
    assert key["key_id"] not in await ids(theirs)
    assert 403 == (await ask(here, theirs, "GET", "/keys?namespace=team-a")).status_code
    assert 404 == (await ask(here, theirs, "DELETE", f"/keys/{key['key_id']}")).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", f"/keys/{key['key_id']}")).status_code
    assert 401 == (await ask(here, key["key"], "GET", "/jobs")).status_code
