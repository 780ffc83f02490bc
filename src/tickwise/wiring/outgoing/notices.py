"""The delivery of notices, made from the settings: senders, words, links that act."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial

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
from tickwise.ports.store import Store
from tickwise.roles.scheduler.notice_delivery import NoticeDelivery, Tried
from tickwise.wiring.private_files import signing_key


def make_notice_delivery(settings: Settings, store: Store, clock: Clock, tried: Tried | None = None) -> NoticeDelivery:
    """The delivery of a scheduler. Raises `Misconfigured`."""
    delivery = HttpDelivery()
    return NoticeDelivery(
        store.notices,
        store.channels,
        {
            NoticeChannelKind.WEBHOOK: WebhookSender(delivery),
            NoticeChannelKind.SLACK: SlackSender(delivery),
            NoticeChannelKind.EMAIL: EmailSender(_mail(settings)),
            NoticeChannelKind.APPRISE: AppriseSender(),
        },
        words=_words(settings, store, clock),
        now=store.now,
        clock=clock,
        name=f"{socket.gethostname()}:{os.getpid()}:{clock.random_bytes(4).hex()}",
        tried=tried,
    )


def _mail(settings: Settings) -> InstallationMail:
    if settings.smtp_url is not None:
        try:
            MailServer.of(settings.smtp_url)
        except ValueError as wrong:
            raise Misconfigured(f"{SETTINGS['smtp_url'].variable} cannot be read: {wrong}") from None
    return InstallationMail(settings.smtp_url, settings.smtp_from)


def _words(settings: Settings, store: Store, clock: Clock) -> Callable[[Notice], NoticeText]:
    """The words of notices, with links if the address of the pages is known, and links that act if there is a key."""
    if settings.public_url is None:
        return notice_text
    public_url = settings.public_url.rstrip("/")
    key = signing_key(settings)
    if key is None:
        return partial(notice_text, public_url=public_url)
    from tickwise.control.notices.action_links import ActionLinkSigner, action_links

    def words(notice: Notice) -> NoticeText:
        signer = ActionLinkSigner(key.key_id, key.private, store.upkeep.cluster_id, clock)
        return notice_text(notice, public_url=public_url, actions=action_links(notice, public_url, signer.make))

    return words
