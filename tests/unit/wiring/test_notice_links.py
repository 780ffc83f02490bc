"""Links of notices where the processes that send, that show pages and that sign people in are apart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.pages import Markup, Rig, pages
from tests.support.receivers import receiver
from tests.unit.web.test_alerts import alert_of, state_of
from tickwise.adapters.clock import SystemClock
from tickwise.config import Settings
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.notices.channels import channel_fields
from tickwise.domain.notices.rules import AlertState, NoticeChannelKind
from tickwise.testing.contracts.store.notices.deliveries import channel, line, notice
from tickwise.testing.factories import Factory
from tickwise.wiring.outgoing.notices import make_notice_delivery

PUBLIC_URL = "https://tickwise.example"


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages(clock=SystemClock()) as made:
        yield made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a scheduler with the key of the installation; nobody else has it."""
    file = tmp_path / "token.pem"
    private = Ed25519PrivateKey.generate()
    file.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    return Settings(token_key_file=file, public_url=PUBLIC_URL, data_dir=tmp_path)


async def links_sent(rig: Rig, settings: Settings) -> dict[str, str]:
    """The links of a notice about an alert, as a receiver gets them."""
    store, clock = rig.here.store, rig.here.clock
    make, alert = Factory(await store.now(), seed=str(uuid4())), await alert_of(rig)
    async with receiver() as at:
        fields, secrets = channel_fields(NoticeChannelKind.WEBHOOK, {"url": f"{at.url}/x"}, random=bytes(32))
        to = await store.channels.add(channel(make, f"c{uuid4()}", settings=fields, allow_private=True), secrets)
        await store.notices.add(notice(make, to, rule_id=make.identifier(), lines=(line(make, alert_id=alert),)))
        delivery = make_notice_delivery(settings, store, clock, None)
        await delivery.step()
        await delivery.finish()
        await delivery.close()
        body = json.loads(at.got[0].body)
    assert AlertState.OPEN is await state_of(rig, alert)
    return {each["label"]: each["url"] for each in body["data"]["links"]}


async def test_a_link_works_where_no_process_signs_people_in(rig: Rig, settings: Settings) -> None:
    """The scheduler that signs it has published the key before: no process that serves `auth` has."""
    assert [] == await rig.here.store.sessions.public_keys()
    links = await links_sent(rig, settings)
    path = links["Acknowledge"].removeprefix(PUBLIC_URL)
    page = await rig.browser().get(path)
    assert 200 == page.status_code
    assert "Acknowledge this?" in Markup(page.text).words
    assert 1 == len(await rig.here.store.sessions.public_keys())


async def test_nothing_is_sent_before_the_key_is_published(
    rig: Rig, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store does not take it, notices wait; the key is published once for all of them."""
    store = rig.here.store
    calls: list[str] = []
    publish = store.sessions.publish

    async def counted(key: object) -> object:
        calls.append("published")
        if len(calls) == 1:
            raise StoreUnavailable("away")
        return await publish(key)  # type: ignore[arg-type]  # it is handed on as it came

    monkeypatch.setattr(store.sessions, "publish", counted)
    delivery = make_notice_delivery(settings, store, rig.here.clock, None)
    with pytest.raises(StoreUnavailable):
        await delivery.step()
    for _ in range(3):
        await delivery.step()
    await delivery.close()
    assert ["published"] * 2 == calls


async def test_a_key_that_was_retired_signs_no_links(rig: Rig, settings: Settings) -> None:
    """They would not work for long: the notice has the page of the alert, and no link that acts."""
    assert {"Acknowledge"} <= (await links_sent(rig, settings)).keys()
    [key] = await rig.here.store.sessions.public_keys()
    await rig.here.store.sessions.retire(key.key_id)
    assert not {"Acknowledge", "Rerun"} & (await links_sent(rig, settings)).keys()
