"""Keys: what somebody can do who has one that is not meant for it, or no longer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.people import person, signed_in, signing_key
from tickwise.api.auth import KNOWN_SECONDS
from tickwise.control.bulk.authorized import AuthorizedPages
from tickwise.control.keys.forms import new_secret
from tickwise.control.keys.secrets import admit_setting, check_strength, secret_digest
from tickwise.domain.errors import Misconfigured
from tickwise.testing.clock import VirtualClock

NEW_SETTING = "e3b0c44298fc1c149afbf4c8996fb924"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def ask(here: World, key: str, method: str, path: str, **more: Any) -> httpx2.Response:
    return await here.client.request(method, f"{API}{path}", headers={"Authorization": f"Bearer {key}"}, **more)


async def made(here: World, *scopes: str, **body: Any) -> dict[str, Any]:
    """A key of the default namespace."""
    answer = await here.client.post(f"{API}/keys", json={"name": "ci", "scopes": scopes, **body})
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


@probe(5, stopped_by="the store finds no digest of a revoked key, and forgets none")
async def test_a_revoked_key_lets_nobody_in(here: World) -> None:
    """A key goes on being used after it was revoked, also by a process that knew it."""
    key = await made(here, "jobs:read")
    assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code
    await here.client.delete(f"{API}/keys/{key['key_id']}")
    assert await here.store.keys.find(secret_digest(key["key"].encode())) is None


@probe(5, stopped_by="a key gives no scope, namespace or time that it does not have")
@pytest.mark.parametrize(
    "wish",
    [
        {"scopes": ["*"]},
        {"scopes": ["jobs:write"]},
        {"scopes": ["keys:admin", "runs:read"]},
        {"namespace": "other"},
        {"expires_at": "2031-01-01T00:00:00Z"},
        {"expires_at": None},
    ],
    ids=str,
)
async def test_a_key_makes_none_that_is_stronger(here: World, wish: dict[str, Any]) -> None:
    """A key that may make keys makes one for what it may not do itself, for another namespace, or for longer."""
    short = await made(here, "keys:admin", "jobs:read", expires_at="2030-01-01T00:00:00Z")
    answer = await ask(here, short["key"], "POST", "/keys", json={"name": "x", "scopes": ["jobs:read"], **wish})
    assert 403 == answer.status_code


@probe(5, stopped_by="403: keys:admin is a scope of its own")
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_key_for_all_else_manages_no_keys(here: World, method: str) -> None:
    """A leaked key with every other scope lists, makes and revokes keys."""
    key = await made(here, "jobs:read", "jobs:write", "runs:read", "runs:write", "tasks:read", "tasks:write")
    path = f"/keys/{key['key_id']}" if method == "DELETE" else "/keys"
    assert 403 == (await ask(here, key["key"], method, path)).status_code


@probe(5, stopped_by="404, and a list of the own namespace alone")
async def test_keys_of_another_namespace_are_out_of_reach(here: World) -> None:
    """The administrator of another namespace reads and revokes a key by its id."""
    key = await made(here, "jobs:read")
    other = await here.key("the-key-of-another-namespace-of-32", "*", namespace="other")
    assert 404 == (await ask(here, other, "DELETE", f"/keys/{key['key_id']}")).status_code
    assert key["key_id"] not in (await ask(here, other, "GET", "/keys")).text


@probe(5, stopped_by="the answer is not kept, and lists show a beginning of 8 characters")
async def test_a_secret_is_told_once(here: World) -> None:
    """A secret is read again: from a list, by the same Idempotency-Key, or from what the store keeps."""
    headers, body = {"Idempotency-Key": "once"}, {"name": "ci", "scopes": ["jobs:read"]}
    first, again = [(await here.client.post(f"{API}/keys", json=body, headers=headers)).json() for _ in range(2)]
    assert first["key"] not in again["key"]
    assert first["key"] not in (await here.client.get(f"{API}/keys")).text
    assert first["key"] not in str(vars(here.store.state))


@probe(5, stopped_by="exit 6 before anything is served, with advice")
@pytest.mark.parametrize("weak", ["x" * 32, "ab" * 16, "changeme" * 4, "0123456789abcdef" * 2, "z" * 31])
def test_a_weak_bootstrap_key_is_no_key(weak: str) -> None:
    """The installation is started with a key that can be guessed."""
    with pytest.raises(Misconfigured, match="openssl rand"):
        check_strength(weak)


@probe(5, stopped_by="the new one revokes the old one, for ever")
async def test_a_replaced_bootstrap_key_stays_out(here: World) -> None:
    """The bootstrap key from before its replacement, also where a process with the old setting starts again."""
    await admit_setting(here.store.keys, here.clock, NEW_SETTING)
    await admit_setting(here.store.keys, here.clock, ADMIN_KEY)
    assert 401 == (await here.client.get(f"{API}/jobs")).status_code
    assert 200 == (await ask(here, NEW_SETTING, "GET", "/jobs")).status_code


@probe(5, stopped_by="the present secret alone rotates its key; a token and an earlier secret are 403")
async def test_a_leaked_earlier_secret_takes_no_key_over() -> None:
    """A secret leaks, is rotated with an overlap, and the thief rotates the key again to lock its owner out, also
    where the process remembers the secret as the present one."""
    clock = VirtualClock()
    async with world(clock=clock) as here:
        key = await made(here, "jobs:read", "keys:admin")
        assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code
        path = f"/keys/{key['key_id']}/rotate"
        new = (await ask(here, ADMIN_KEY, "POST", path)).json()["key"]
        for _ in range(2):
            assert 403 == (await ask(here, key["key"], "POST", path, json={"overlap_seconds": 0})).status_code
            await clock.advance(KNOWN_SECONDS + 0.1)
        assert 200 == (await ask(here, new, "GET", "/jobs")).status_code


@probe(5, stopped_by="what an earlier secret makes ends with its overlap")
async def test_a_leaked_earlier_secret_makes_nothing_that_lasts() -> None:
    """Within the overlap, a thief makes a key and a token of their own, to go on afterwards."""
    clock = VirtualClock()
    async with world(clock=clock) as here:
        await here.control.bearers.sign_with(signing_key())
        key = await made(here, "jobs:read", "keys:admin")
        body = {"overlap_seconds": 60}
        assert 200 == (await ask(here, ADMIN_KEY, "POST", f"/keys/{key['key_id']}/rotate", json=body)).status_code
        wish = {"name": "mine", "scopes": ["jobs:read"]}
        child = (await ask(here, key["key"], "POST", "/keys", json=wish)).json()["key"]
        assert 403 == (await ask(here, key["key"], "POST", "/keys", json={**wish, "expires_at": None})).status_code
        shown = {"grant_type": "api_key", "api_key": key["key"]}
        token = (await ask(here, "", "POST", "/auth/token", json=shown)).json()["access_token"]
        assert [200, 200] == [(await ask(here, each, "GET", "/jobs")).status_code for each in (child, token)]
        await clock.advance(60.5 + KNOWN_SECONDS)
        assert [401, 401] == [(await ask(here, each, "GET", "/jobs")).status_code for each in (child, token)]


@probe(5, stopped_by="rotation needs the permissions, the expiry and the owner of the key")
async def test_a_rotation_is_no_way_to_a_stronger_key(here: World) -> None:
    """An administrator of keys, and a person, rotate keys that may do more, work longer, or outlive them."""
    weak = await made(here, "keys:admin", "jobs:read", expires_at="2030-01-01T00:00:00Z")
    await person(here, "Ada", ("admin", "*"))
    await here.control.bearers.sign_with(signing_key())
    ada = (await signed_in(here, "Ada"))["access_token"]
    longer = await made(here, "jobs:read")
    stronger = await made(here, "jobs:write", expires_at="2029-01-01T00:00:00Z")
    for who, key in ((weak["key"], stronger), (weak["key"], longer), (ada, longer)):
        answer = await ask(here, who, "POST", f"/keys/{key['key_id']}/rotate", json={"overlap_seconds": 0})
        assert 403 == answer.status_code, answer.text
    assert 200 == (await ask(here, longer["key"], "GET", "/jobs")).status_code


@probe(5, stopped_by="the checksum is public: the answer depends on the text alone, and names nothing of a key")
async def test_a_checksum_tells_nothing_about_keys(here: World) -> None:
    """Texts are tried whose checksum fits, and texts whose checksum does not, to learn which keys there are."""
    key = (await made(here, "jobs:read"))["key"]
    guess = new_secret(here.clock)
    spoiled = [text[:-1] + ("0" if text[-1] != "0" else "1") for text in (key, guess)]
    answers = [(await ask(here, each, "GET", "/jobs")).json() for each in (guess, *spoiled)]
    assert answers[0]["detail"] != answers[1]["detail"] == answers[2]["detail"]
    assert {401} == {each["status"] for each in answers}


@probe(5, stopped_by="names of keys that look like the installation's own are refused")
@pytest.mark.parametrize("name", ["admin", "Admin", "\u0430dmin", "\uff41dmin", "adm\u0456n"])
async def test_no_key_looks_like_the_installations_own(here: World, name: str) -> None:
    """A key is named so that lists and logs show it as the administrator's."""
    answer = await ask(here, ADMIN_KEY, "POST", "/keys", json={"name": name, "scopes": ["jobs:read"]})
    assert (422, "/name") == (answer.status_code, answer.json()["pointer"])


@probe(9, stopped_by="who asked is looked up again with each page: `no_longer_allowed`")
async def test_a_revoked_key_carries_nothing_out(here: World) -> None:
    """A thief asks for an operation over all jobs, and the key is revoked before it is carried out."""
    for _ in range(3):
        job = {"name": "a", "task": {"kind": "shell", "command": "date"}, "every": "1h"}
        assert 201 == (await ask(here, ADMIN_KEY, "POST", "/jobs", json=job)).status_code
    key = await made(here, "jobs:read", "jobs:write")
    asked = await ask(here, key["key"], "POST", "/jobs:cancel", json={"filter": {"all": True}})
    assert 202 == asked.status_code
    await ask(here, ADMIN_KEY, "DELETE", f"/keys/{key['key_id']}")
    operation = await here.store.operations.take(30.0)
    assert operation is not None
    page = await AuthorizedPages(here.control.context).page(operation, 100)
    assert (0, True, True) == (page.done, page.failed, "no_longer_allowed" in page.problems)
