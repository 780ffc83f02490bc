"""Notices: which were sent, which wait, and another try for one that could not be delivered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.context import ControlContext
from tickwise.control.notices.places import place_for, places_for
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import Notice
from tickwise.domain.permissions import Permission
from tickwise.ports.store.notices import NoticeQuery


class NoticeService:
    """Everything about notices."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.NOTICES_READ)
    async def page(self, who: Principal, query: NoticeQuery, *, installation: bool = False) -> Sequence[Notice]:
        """Notices, the newest first. The namespace of the query is that of the caller, or `*`. Raises `Forbidden`."""
        namespace = place_for(who, Permission.NOTICES_READ, installation=installation)
        return await self._context.store.notices.find(replace(query, namespace=namespace))

    @requires(Permission.NOTICES_READ)
    async def get(self, who: Principal, notice_id: UUID) -> Notice:
        """One. Raises `NotFound`."""
        return await self._find(who, notice_id, Permission.NOTICES_READ)

    @requires(Permission.NOTICES_READ)
    async def channel_names(self, who: Principal, notices: Sequence[Notice]) -> Mapping[UUID, str]:
        """The names of the channels of these notices; one that was removed is missing."""
        found: dict[UUID, str] = {}
        for namespace in {each.namespace for each in notices} & set(places_for(who, Permission.NOTICES_READ)):
            ids = list({each.channel_id for each in notices if each.namespace == namespace})
            channels = await self._context.store.channels.find(namespace, channel_ids=ids)
            found |= {each.channel_id: each.name for each in channels}
        return found

    @requires(Permission.NOTICES_OPERATE)
    async def again(self, who: Principal, notice_id: UUID) -> Notice:
        """Try one again that could not be delivered. Raises `NotFound`; `Conflict`, code `notice_not_dead`, for one
        that waits, was delivered or dropped, or whose channel is gone."""
        old = await self._find(who, notice_id, Permission.NOTICES_OPERATE)
        audit = entry(
            who, AuditAction.NOTICE_SENT_AGAIN, "notice", notice_id, namespace=old.namespace,
            detail={"channel": str(old.channel_id), "error": old.error},
        )  # fmt: skip
        found = await self._context.surely(
            lambda: self._context.store.notices.again(old.namespace, notice_id, audit=audit)
        )
        if found is None:
            raise Conflict(
                f"only a notice that could not be delivered, and whose channel is there, can be sent again; this one "
                f"is {old.state.value}",
                code="notice_not_dead",
            )
        return found

    async def _find(self, who: Principal, notice_id: UUID, permission: Permission) -> Notice:
        for namespace in places_for(who, permission):
            query = NoticeQuery(namespace=namespace, notice_id=notice_id, limit=1)
            for found in await self._context.store.notices.find(query):
                return found
        raise NotFound(f"there is no notice {notice_id} in the namespace {who.namespace}")
