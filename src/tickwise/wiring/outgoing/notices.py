"""The delivery of notices, made from the settings: senders, words, links that act."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from tickwise.adapters.outgoing.lookups import Lookups
from tickwise.adapters.senders.apprise_channel import AppriseSender
from tickwise.adapters.senders.http_delivery import HttpDelivery
from tickwise.adapters.senders.mail import EmailSender, InstallationMail, MailServer
from tickwise.adapters.senders.slack import SlackSender
from tickwise.adapters.senders.webhook import WebhookSender
from tickwise.config import SETTINGS, Settings
from tickwise.domain.errors import Misconfigured
from tickwise.domain.notices.messages import NoticeText, notice_text
from tickwise.domain.notices.rules import Notice, NoticeChannelKind
from tickwise.ports.clock import Clock
from tickwise.ports.identity.sessions import PublicKey
from tickwise.ports.sealing import EnvelopeSealer
from tickwise.ports.store import Store
from tickwise.roles.scheduler.notice_delivery import NoticeDelivery, Tried
from tickwise.wiring.private_files import signing_key

if TYPE_CHECKING:
    from tickwise.control.people.tokens import SigningKey

logger = structlog.get_logger("tickwise.wiring")


def make_notice_delivery(
    settings: Settings, store: Store, clock: Clock, sealer: EnvelopeSealer | None, tried: Tried | None = None
) -> NoticeDelivery:
    """The delivery of a scheduler. Raises `Misconfigured`."""
    lookups, words = Lookups(), _words(settings, store, clock)
    delivery = HttpDelivery(lookups=lookups)
    return NoticeDelivery(
        store.notices,
        store.channels,
        {
            NoticeChannelKind.WEBHOOK: WebhookSender(delivery),
            NoticeChannelKind.SLACK: SlackSender(delivery),
            NoticeChannelKind.EMAIL: EmailSender(_mail(settings), lookups),
            NoticeChannelKind.APPRISE: AppriseSender(),
        },
        words=words,
        now=store.now,
        clock=clock,
        name=f"{socket.gethostname()}:{os.getpid()}:{clock.random_bytes(4).hex()}",
        tried=tried,
        prepare=words.publish if isinstance(words, ActingWords) else None,
        sealer=sealer,
    )


def _mail(settings: Settings) -> InstallationMail:
    if settings.smtp_url is not None:
        try:
            MailServer.of(settings.smtp_url)
        except ValueError as wrong:
            raise Misconfigured(f"{SETTINGS['smtp_url'].variable} cannot be read: {wrong}") from None
    return InstallationMail(settings.smtp_url, settings.smtp_from)


class ActingWords:
    """The words of notices with links that act, once the key that signs them is known to all processes.

    The scheduler publishes the public half itself: where processes are apart, none that serves `auth` need have started
    before, or be there at all. Invariant: no link is signed with a key that the store does not have, or has retired.
    """

    def __init__(self, key: SigningKey, public_url: str, store: Store, clock: Clock) -> None:
        self._key = key
        self._public_url = public_url
        self._store = store
        self._clock = clock
        self._is_known = False

    async def publish(self) -> None:
        """Publish the public half. Raises `StoreUnavailable`."""
        public = self._key.private.public_key().public_bytes_raw()
        own = PublicKey(key_id=self._key.key_id, public=public, created_at=self._clock.now(), retired_at=None)
        published = await self._store.sessions.publish(own)
        self._is_known = any(each.key_id == own.key_id and each.retired_at is None for each in published)
        if not self._is_known:
            logger.warning("action_links_off", key_id=own.key_id)

    def __call__(self, notice: Notice) -> NoticeText:
        """The words of one notice."""
        if not self._is_known:
            return notice_text(notice, public_url=self._public_url)
        from tickwise.control.notices.action_links import ActionLinkSigner, action_links

        signer = ActionLinkSigner(self._key.key_id, self._key.private, self._store.upkeep.cluster_id, self._clock)
        return notice_text(
            notice, public_url=self._public_url, actions=action_links(notice, self._public_url, signer.make)
        )


def _words(settings: Settings, store: Store, clock: Clock) -> Callable[[Notice], NoticeText]:
    """The words of notices, with links if the address of the pages is known, and links that act if there is a key."""
    if settings.public_url is None:
        return notice_text
    public_url, key = settings.public_url.rstrip("/"), signing_key(settings)
    if key is None:
        return partial(notice_text, public_url=public_url)
    return ActingWords(key, public_url, store, clock)
