"""The secrets of channels are stored sealed, opened for their senders alone, and follow a rotation of the key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.documents.channel_secrets import opened_secrets, sealed_secrets, sealed_under
from tickwise.domain.errors import NotOpened

FIRST, NEXT = (LocalKey(bytes(range(begin, begin + 32))) for begin in (0, 50))
URL = "https://hooks.example.com/services/T0/B0/a-token-that-nobody-reads"
CHANNEL = {"name": "ops", "kind": "slack", "url": URL}


def sealer(*keys: LocalKey) -> EnvelopeSealing:
    """A sealer by these keys, the newest first."""
    return EnvelopeSealing(keys, SystemClock())


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene(sealer=sealer(FIRST)) as made:
        yield made


async def kept(here: Scene, channel_id: str) -> Mapping[str, str]:
    """The secrets as the store has them."""
    [found] = await here.store.channels.secrets([UUID(channel_id)])
    return found.secrets


async def test_the_store_has_nothing_that_can_be_read(here: Scene) -> None:
    """Neither the address nor the secret that signs; a sender gets both."""
    slack = await here.ask("POST", "/channels", 201, CHANNEL)
    hook = await here.ask("POST", "/channels", 201, {"name": "hook", "kind": "webhook", "url": URL})
    for made in (slack, hook):
        stored = await kept(here, made["channel_id"])
        assert ["sealed"] == list(stored)
        assert "a-token" not in json.dumps(dict(stored))
        opened = await opened_secrets(stored, UUID(made["channel_id"]), sealer(FIRST))
        assert URL == opened["url"]
    assert hook["secret"] == opened["signing_secret"]


async def test_a_change_keeps_what_it_does_not_name(here: Scene) -> None:
    """The secrets are opened, changed and sealed again; a rotated secret is the one that signs."""
    made = await here.ask("POST", "/channels", 201, {"name": "hook", "kind": "webhook", "url": URL})
    place = f"/channels/{made['channel_id']}"
    before = await kept(here, made["channel_id"])
    await here.ask("PATCH", place, 200, {"headers": {"X-Team": "ops"}})
    await here.ask("PATCH", place, 200, {"url": f"{URL}/more"})
    opened = await opened_secrets(await kept(here, made["channel_id"]), UUID(made["channel_id"]), sealer(FIRST))
    assert (f"{URL}/more", made["secret"]) == (opened["url"], opened["signing_secret"])
    assert before != await kept(here, made["channel_id"])


async def test_sealed_secrets_open_for_their_channel_alone(here: Scene) -> None:
    """A row that was copied to another channel tells its sender nothing."""
    one = await here.ask("POST", "/channels", 201, CHANNEL)
    other = await here.ask("POST", "/channels", 201, {**CHANNEL, "name": "other"})
    with pytest.raises(NotOpened):
        await opened_secrets(await kept(here, one["channel_id"]), UUID(other["channel_id"]), sealer(FIRST))


async def test_without_a_key_they_are_kept_as_they_are() -> None:
    """As before there was sealing; what is sealed needs its key."""
    secrets, channel_id = {"url": URL}, UUID(int=7)
    for none in (None, sealer()):
        assert secrets == await sealed_secrets(secrets, channel_id, none)
        assert secrets == await opened_secrets(secrets, channel_id, none)
    sealed = await sealed_secrets(secrets, channel_id, sealer(FIRST))
    for wrong in (None, sealer(), sealer(NEXT)):
        with pytest.raises(NotOpened):
            await opened_secrets(sealed, channel_id, wrong)


async def test_a_rotation_seals_them_anew_and_those_that_were_plain() -> None:
    """`secrets:rewrap` counts them; twice is once; one that does not open is named, and the others are done."""
    keys = sealer(NEXT, FIRST)
    async with scene(sealer=keys) as here:
        made = [await here.ask("POST", "/channels", 201, {**CHANNEL, "name": f"c{number}"}) for number in range(3)]
        ids = [each["channel_id"] for each in made]
        older: list[Mapping[str, str]] = [
            {"url": URL},
            await sealed_secrets({"url": URL}, UUID(ids[1]), sealer(FIRST)),
            await sealed_secrets({"url": URL}, UUID(ids[2]), sealer(LocalKey(bytes(32)))),
        ]
        for channel_id, secrets in zip(ids, older, strict=True):
            assert await here.store.channels.reseal(UUID(channel_id), await kept(here, channel_id), secrets)
        step = await here.ask("POST", "/secrets:rewrap", 200, {})
        assert (2, None) == (step["rewrapped"], step["next"])
        assert ["channel c2"] == [each["name"] for each in step["failed"]]
        assert [keys.newest] * 2 == [sealed_under(await kept(here, each)) for each in ids[:2]]
        opened: list[Any] = [await opened_secrets(await kept(here, each), UUID(each), keys) for each in ids[:2]]
        assert [{"url": URL}] * 2 == opened
        assert 0 == (await here.ask("POST", "/secrets:rewrap", 200, {}))["rewrapped"]


async def test_a_channel_whose_key_is_lost_is_set_anew(here: Scene) -> None:
    """The answer says what is wrong and what to do; removing it works."""
    made = await here.ask("POST", "/channels", 201, CHANNEL)
    lost = await sealed_secrets({"url": URL}, UUID(made["channel_id"]), sealer(NEXT))
    assert await here.store.channels.reseal(UUID(made["channel_id"]), await kept(here, made["channel_id"]), lost)
    answer = await here.world.client.patch(f"{API}/channels/{made['channel_id']}", json={"url": f"{URL}/new"})
    assert (409, "channel_closed") == (answer.status_code, answer.json()["code"])
    assert "make it again" in answer.json()["detail"]
    await here.ask("DELETE", f"/channels/{made['channel_id']}", 200)
