"""Links of notices that act: one action on one thing, for three days, by a key of this installation."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.unit.domain.test_notice_messages import line, notice
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.notices.action_links import (
    LINK_SECONDS,
    SKEW_SECONDS,
    TYPE,
    ActionLink,
    ActionLinkReader,
    ActionLinkSigner,
    LinkAction,
    action_links,
)
from tickwise.control.people.tokens import AccessTokens, SigningKey, key_id_of, raw
from tickwise.domain.errors import Unauthenticated
from tickwise.domain.notices.rules import NoticeEvent
from tickwise.ports.identity.sessions import PublicKey
from tickwise.testing.clock import VirtualClock

LINK = ActionLink(LinkAction.ACKNOWLEDGE, "shop", UUID(int=77), UUID(int=1))
URL = "https://tickwise.example.com"


class Links:
    """A key that is published, a signer with it, and a reader."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.private = Ed25519PrivateKey.generate()
        self.key_id = key_id_of(self.private.public_key())
        self.signer = ActionLinkSigner(self.key_id, self.private, "here", self.clock)
        self.reader = ActionLinkReader(self.store.sessions, lambda: "here", self.clock)

    async def publish(self) -> None:
        """As an API with this key does."""
        public = raw(self.private.public_key())
        await self.store.sessions.publish(
            PublicKey(key_id=self.key_id, public=public, created_at=self.clock.now(), retired_at=None)
        )

    def forged(self, key: Any = None, *, algorithm: str = "EdDSA", headers: Any = None, **claims: Any) -> str:
        """A token that somebody else makes, or this one with other claims."""
        token = self.signer.make(LINK)
        real = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        heads = {"kid": self.key_id, "typ": TYPE, **(headers or {})}
        return jwt.encode({**real, **claims}, key or self.private, algorithm=algorithm, headers=heads)


@pytest.fixture
async def links() -> Links:
    """The key is published."""
    made = Links()
    await made.publish()
    return made


async def test_a_link_says_what_it_does_to_what(links: Links) -> None:
    """For three days."""
    token = links.signer.make(LINK)
    read = await links.reader.read(token)
    assert read == replace_expiry(links.clock.now() + LINK_SECONDS)
    await links.clock.advance(LINK_SECONDS + SKEW_SECONDS - 1.0)
    assert await links.reader.read(token) == read
    await links.clock.advance(2.0)
    with pytest.raises(Unauthenticated, match="expired"):
        await links.reader.read(token)


def replace_expiry(instant: float) -> ActionLink:
    """The link with its end."""
    return LINK._replace(expires_at=float(int(instant)))


async def test_a_link_that_this_installation_did_not_make_does_not_work(links: Links) -> None:
    """Another key, another installation, another purpose, another algorithm, a changed byte, an unknown action."""
    other = Ed25519PrivateKey.generate()
    access = AccessTokens(lambda: "here", links.clock)
    access.use({}, SigningKey(links.key_id, links.private))
    session = access.make(UUID(int=1), UUID(int=2), 1, kind="user", scope=None, namespace=None)
    token = links.signer.make(LINK)
    public = links.private.public_key()
    for forged in (
        links.forged(other),
        links.forged(other, headers={"kid": key_id_of(other.public_key())}),
        links.forged(iss="there"),
        links.forged(aud="tickwise"),
        links.forged(act="delete"),
        links.forged(sub="all"),
        links.forged(raw(public).hex(), algorithm="HS256"),
        links.forged(headers={"typ": "JWT"}),
        links.forged(headers={"crit": ["b64"], "b64": True}),
        session,
        token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1],
        token + "x" * 3_000,
        "",
        "a.b.c",
    ):
        with pytest.raises(Unauthenticated, match="this link does not work"):
            await links.reader.read(forged)
    assert (await links.reader.read(token)).subject == LINK.subject


async def test_a_token_of_a_link_is_no_access_token(links: Links) -> None:
    """It is signed with the same key."""
    access = AccessTokens(lambda: "here", links.clock)
    access.use({links.key_id: links.private.public_key()}, None)
    with pytest.raises(Unauthenticated):
        access.read(links.signer.make(LINK))


def test_a_notice_about_one_thing_has_links_that_act() -> None:
    """To acknowledge its alert, to rerun a run that failed. A storm has none, nor a recovery, nor a test."""
    made: list[ActionLink] = []

    def sign(link: ActionLink) -> str:
        made.append(link)
        return f"t{len(made)}"

    failed = notice(line(3), line(4))
    assert action_links(failed, URL, sign) == {"Acknowledge": f"{URL}/act/t1", "Rerun": f"{URL}/act/t2"}
    assert made == [
        ActionLink(LinkAction.ACKNOWLEDGE, "shop", UUID(int=77), failed.notice_id),
        ActionLink(LinkAction.RERUN, "shop", UUID(int=4), failed.notice_id),
    ]
    assert list(action_links(notice(line(event=NoticeEvent.LATE)), URL, sign)) == ["Acknowledge"]
    for none in (
        notice(line(), line(1, subject="j1", alert_id=UUID(int=78))),
        notice(line(event=NoticeEvent.RECOVERY)),
        replace(failed, is_test=True),
        notice(events=3, lines=()),
    ):
        assert action_links(none, URL, sign) == {}
