"""Channels: make, change, test, try now, remove.

    ChannelBody ──► settings, secrets ──► store; the signing secret of a webhook is answered this once
    test ──► a notice of its own ──► delivered as any other; its outcome is on record under its id

Invariant: a secret of a channel is answered when it is made, and never again; it is stored sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import UNSET, UnsetType

from tickwise.control.access import holds_everywhere, requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.notices.channel_bodies import (
    ChannelBody,
    ChannelChangeBody,
    check_public,
    kept_fields,
    removed_fields,
    sent_fields,
)
from tickwise.control.notices.places import place_for, places_for
from tickwise.control.notices.sending import send_tests, settled
from tickwise.control.texts import clean_line
from tickwise.documents.channel_secrets import opened_secrets, sealed_secrets
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict, Forbidden, Invalid, NotFound, NotOpened
from tickwise.domain.model import Principal, time_id
from tickwise.domain.notices.channels import SECRET_BYTES, SIGNING_SECRET, channel_fields, signing_secret
from tickwise.domain.notices.rules import INSTALLATION, Notice, NoticeChannel, NoticeChannelKind
from tickwise.domain.permissions import Permission
from tickwise.ports.store.notices import ChannelBacklog


class MadeChannel(NamedTuple):
    """A channel, with what is told of it once."""

    channel: NoticeChannel
    secret: str | None
    """Signs its webhooks; None: it is no webhook."""


class ChannelStanding(NamedTuple):
    """A channel, with its rest and its backlog."""

    channel: NoticeChannel
    resting_until: float | None
    """Until then no notice of it is sent but tests. None: it does not rest."""
    backlog: ChannelBacklog


LOOKS: Final = (Permission.NOTICES_READ, Permission.NOTICES_OPERATE, Permission.CHANNELS_ADMIN)
"""With each of these a caller is shown channels."""
NOTHING_WAITS: Final = ChannelBacklog(0, 0)


class ChannelService:
    """Everything about channels. They are for all jobs of a namespace: a permission for jobs with certain labels is not
    enough."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.CHANNELS_ADMIN)
    async def add(self, who: Principal, body: ChannelBody) -> MadeChannel:
        """Make a channel. Raises `Invalid`; `Forbidden` for a private address or for the installation; `Conflict`, code
        `name_taken` or `channels_exhausted`."""
        namespace = place_for(who, Permission.CHANNELS_ADMIN, installation=body.installation)
        _check_private(who, body.allow_private)
        name = clean_line(body.name, "/name")
        random = self._context.clock.random_bytes(SECRET_BYTES)
        settings, secrets = channel_fields(body.kind, sent_fields(body), random=random)
        if not body.allow_private:
            check_public(body.kind, secrets)
        now = await self._context.time.now()
        channel = NoticeChannel(
            channel_id=time_id(int(now * 1000), self._context.clock.random_bytes(10)),
            namespace=namespace,
            name=name,
            kind=body.kind,
            settings=settings,
            allow_private=body.allow_private,
            created_at=now,
            created_by=who.name,
        )
        if namespace == who.namespace:
            await self._context.namespaces.check_open(namespace)
        audit = entry(
            who, AuditAction.CHANNEL_ADDED, "channel", channel.channel_id, namespace=namespace,
            after=audit_fields(channel),
        )  # fmt: skip
        kept = await sealed_secrets(secrets, channel.channel_id, self._context.sealer)
        stored = await self._context.surely(lambda: self._context.store.channels.add(channel, kept, audit=audit))
        return MadeChannel(stored, secrets.get(SIGNING_SECRET))

    @requires(Permission.NOTICES_READ)
    async def all(self, who: Principal, *, installation: bool = False) -> Sequence[NoticeChannel]:
        """The channels in the order of their names. Raises `Forbidden` for those of the installation."""
        return await self._context.store.channels.find(
            place_for(who, Permission.NOTICES_READ, installation=installation)
        )

    @requires(Permission.NOTICES_READ)
    async def get(self, who: Principal, channel_id: UUID) -> NoticeChannel:
        """One. Raises `NotFound`."""
        return await self._find(who, channel_id, Permission.NOTICES_READ)

    @requires(Permission.CHANNELS_ADMIN)
    async def change(self, who: Principal, channel_id: UUID, body: ChannelChangeBody) -> NoticeChannel:
        """Change fields of it. Raises `NotFound`, `Invalid`, `Forbidden`; `Conflict`, code
        `version_changed`."""
        old = await self._find(who, channel_id, Permission.CHANNELS_ADMIN)
        allow = old.allow_private if isinstance(body.allow_private, UnsetType) else body.allow_private
        # A private address of an administrator's choice is kept, and not replaced by another one.
        _check_private(who, allow and (not old.allow_private or body.url is not UNSET))
        secrets = await self._secrets(old)
        said, removed = sent_fields(body), removed_fields(body)
        fields = {name: value for name, value in (kept_fields(old) | said).items() if name not in removed}
        settings, changed_secrets = channel_fields(old.kind, fields, before=secrets)
        if not allow and (said or old.allow_private):
            check_public(old.kind, changed_secrets)
        new = replace(old, settings=settings, allow_private=allow)
        kept = None
        if dict(changed_secrets) != secrets:
            kept = await sealed_secrets(changed_secrets, channel_id, self._context.sealer)
        audit = entry(
            who, AuditAction.CHANNEL_CHANGED, "channel", channel_id, namespace=old.namespace,
            before=audit_fields(old), after=audit_fields(new), detail={"address_changed": kept is not None},
        )  # fmt: skip
        changed = await self._context.surely(lambda: self._context.store.channels.change(new, kept, audit=audit))
        return _there(changed, who, channel_id)

    @requires(Permission.CHANNELS_ADMIN)
    async def rotate_secret(self, who: Principal, channel_id: UUID) -> MadeChannel:
        """Give a webhook another signing secret; the present one no longer signs. Raises `NotFound`; `Conflict` for a
        channel of another kind, and with the code `version_changed`."""
        old = await self._find(who, channel_id, Permission.CHANNELS_ADMIN)
        if old.kind is not NoticeChannelKind.WEBHOOK:
            raise Conflict("only webhooks are signed; a channel of this kind has no secret of ours", code="no_secret")
        secret = signing_secret(self._context.clock.random_bytes(SECRET_BYTES))
        secrets = await sealed_secrets(
            {**await self._secrets(old), SIGNING_SECRET: secret}, channel_id, self._context.sealer
        )
        audit = entry(
            who, AuditAction.CHANNEL_SECRET_ROTATED, "channel", channel_id, namespace=old.namespace,
            detail={"name": old.name},
        )  # fmt: skip
        changed = await self._context.surely(lambda: self._context.store.channels.change(old, secrets, audit=audit))
        return MadeChannel(_there(changed, who, channel_id), secret)

    @requires(Permission.CHANNELS_ADMIN)
    async def remove(self, who: Principal, channel_id: UUID) -> NoticeChannel:
        """Remove it, and answer it as it was: it leaves its rules, and its waiting notices are dropped, on record.
        Raises `NotFound`."""
        old = await self._find(who, channel_id, Permission.CHANNELS_ADMIN)
        audit = entry(
            who, AuditAction.CHANNEL_REMOVED, "channel", channel_id, namespace=old.namespace,
            before=audit_fields(old),
        )  # fmt: skip
        removed = await self._context.surely(
            lambda: self._context.store.channels.remove(old.namespace, channel_id, audit=audit)
        )
        if not removed:
            raise _no_channel(who, channel_id)
        return old

    @requires(Permission.CHANNELS_ADMIN, Permission.NOTICES_WRITE)
    async def test(self, who: Principal, channel_id: UUID, *, wait_seconds: float = 0.0) -> Notice:
        """Send a test notice; the notice as it is after up to `wait_seconds`. Raises `NotFound`."""
        channel = await self._look(who, channel_id, Permission.NOTICES_WRITE, Permission.CHANNELS_ADMIN)
        audit = entry(
            who, AuditAction.CHANNEL_TESTED, "channel", channel_id, namespace=channel.namespace,
            detail={"name": channel.name},
        )  # fmt: skip
        sent = await send_tests(self._context, who, [channel], audit=audit)
        [notice] = await settled(self._context, sent, wait_seconds)
        return notice

    @requires(Permission.NOTICES_OPERATE, Permission.CHANNELS_ADMIN)
    async def try_now(self, who: Principal, channel_id: UUID) -> NoticeChannel:
        """Let a channel that rests be tried at once, with what waits for it. Raises `NotFound`."""
        old = await self._look(who, channel_id, Permission.NOTICES_OPERATE, Permission.CHANNELS_ADMIN)
        audit = entry(
            who, AuditAction.CHANNEL_TRIED_NOW, "channel", channel_id, namespace=old.namespace,
            detail={"name": old.name, "failures": old.failures, "error": old.error},
        )  # fmt: skip
        woken = await self._context.surely(
            lambda: self._context.store.channels.wake(old.namespace, channel_id, audit=audit)
        )
        return _there(woken, who, channel_id)

    @requires(*LOOKS)
    async def standings(self, who: Principal, channels: Sequence[NoticeChannel]) -> Sequence[ChannelStanding]:
        """Channels that the caller was shown, each with its rest and with what waits for it."""
        now = await self._context.time.now()
        places = {who.namespace, *(INSTALLATION for each in LOOKS if holds_everywhere(who, each))}
        shown = [each.channel_id for each in channels if each.namespace in places]
        backlog = await self._context.store.channels.backlog(shown)
        return [
            ChannelStanding(
                each,
                each.again_at if each.again_at is not None and each.again_at > now else None,
                backlog.get(each.channel_id, NOTHING_WAITS),
            )
            for each in channels
        ]

    # ------------------------------------------------------------------------------------------ parts

    async def _find(self, who: Principal, channel_id: UUID, permission: Permission) -> NoticeChannel:
        return await self._look(who, channel_id, permission)

    async def _look(self, who: Principal, channel_id: UUID, *permissions: Permission) -> NoticeChannel:
        for namespace in dict.fromkeys(place for each in permissions for place in places_for(who, each)):
            for found in await self._context.store.channels.find(namespace, channel_ids=[channel_id]):
                return found
        raise _no_channel(who, channel_id)

    async def _secrets(self, channel: NoticeChannel) -> dict[str, str]:
        for found in await self._context.store.channels.secrets([channel.channel_id]):
            try:
                return dict(await opened_secrets(found.secrets, channel.channel_id, self._context.sealer))
            except NotOpened as lost:
                raise Conflict(
                    f"the address and the secret of the channel {channel.name!r} do not open: {lost.detail}; or remove "
                    "the channel and make it again",
                    code="channel_closed",
                ) from lost
        return {}


def audit_fields(channel: NoticeChannel) -> dict[str, object]:
    """The fields of a channel for the audit log."""
    return {
        "name": channel.name,
        "kind": channel.kind.value,
        "address": channel.settings.get("url"),
        "to": channel.settings.get("to"),
        "from": channel.settings.get("from"),
        "header_names": sorted(headers) if isinstance(headers := channel.settings.get("headers"), Mapping) else None,
        "allow_private": channel.allow_private,
    }


def _check_private(who: Principal, asked: bool) -> None:
    if asked and not holds_everywhere(who, Permission.CHANNELS_ADMIN):
        raise Forbidden(
            "allow_private needs the permission channels:admin in the whole installation: ask an administrator of it, "
            "or leave it out",
            pointer="/allow_private",
        )


def _there(changed: NoticeChannel | None, who: Principal, channel_id: UUID) -> NoticeChannel:
    if changed is None:
        raise _no_channel(who, channel_id)
    return changed


def _no_channel(who: Principal, channel_id: UUID) -> NotFound:
    return NotFound(f"there is no channel {channel_id} in the namespace {who.namespace}")


def named_channels(channels: Sequence[NoticeChannel], names: Sequence[str], pointer: str) -> tuple[UUID, ...]:
    """The ids of these names, each once. Raises `Invalid`, which lists all that are unknown."""
    known = {channel.name: channel.channel_id for channel in channels}
    unknown = [name[:100] for name in dict.fromkeys(names) if name not in known]
    if unknown:
        listed = ", ".join(repr(name) for name in unknown)
        there = ", ".join(sorted(known)[:20])
        advice = f"there are: {there}" if there else "there are none yet: make one with `tickwise channels add`"
        word = "no channel" if len(unknown) == 1 else "no channels"
        raise Invalid(f"there is {word} {listed}; {advice}", pointer=pointer, code="channel_unknown")
    return tuple(dict.fromkeys(known[name] for name in names))
