"""`/audit`: entries of the audit log, searched and exported."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import (
    Call,
    Endpoint,
    Reply,
    answer,
    cursor_text,
    foreign_cursor,
    given,
    given_instant,
    page_links,
)
from tickwise.api.resources.runs import Cursor, Limit, Time
from tickwise.api.wire import API, Instant, encode, time_of
from tickwise.control.audit.service import AuditService, place_of, usual_namespace
from tickwise.domain.audit import AuditAction, CallerKind
from tickwise.ports.audit import AuditPlace, AuditQuery, AuditRow

NDJSON: Final = "application/x-ndjson"

Text = Annotated[str, Meta(min_length=1, max_length=200)]


class AuditFilter(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The entries to answer; everything given must match."""

    since: Annotated[Time, Meta(description="From this time on.")] | UnsetType = UNSET
    until: Annotated[Time, Meta(description="Before this time.")] | UnsetType = UNSET
    actor: Annotated[Text, Meta(description="The name of the caller.")] | UnsetType = UNSET
    action: AuditAction | UnsetType = UNSET
    target: Annotated[Text, Meta(description="The id or the name of the thing.")] | UnsetType = UNSET
    namespace: (
        Annotated[
            Text,
            Meta(
                description="Left out: the namespace of the request, or all for an administrator of the installation. "
                "`*`: the entries of the installation itself."
            ),
        ]
        | UnsetType
    ) = UNSET


class AuditListQuery(AuditFilter, forbid_unknown_fields=True, kw_only=True):
    """The page of the list."""

    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class AuditCallerView(msgspec.Struct, kw_only=True):
    """The caller of an entry, and the place from which the request came."""

    kind: CallerKind
    id: UUID | None
    name: str
    address: str
    request_id: str


class AuditEntryView(msgspec.Struct, kw_only=True):
    """An entry of the audit log."""

    entry: int
    """Its number; numbers grow with time, with gaps."""
    at: Instant
    namespace: str
    """`*`: of the installation itself."""
    action: str
    caller: AuditCallerView
    target_kind: str
    target: str | None
    """The id or the name of the thing."""
    targets: list[UUID]
    """The ids of the things of an entry about several."""
    before: msgspec.Raw | None
    """The changed fields as they were, with secrets masked."""
    after: msgspec.Raw | None
    """The changed fields as they are."""
    detail: msgspec.Raw | None
    """Further facts."""


def entry_view(row: AuditRow) -> AuditEntryView:
    """An entry as it is answered."""
    source = row.source
    return AuditEntryView(
        entry=row.entry,
        at=time_of(row.at),
        namespace=row.namespace,
        action=row.action,
        caller=AuditCallerView(
            kind=source.kind,
            id=source.caller_id,
            name=source.name,
            address=source.address,
            request_id=source.request_id,
        ),
        target_kind=row.target_kind,
        target=row.target,
        targets=list(row.targets),
        before=_raw(row.before),
        after=_raw(row.after),
        detail=_raw(row.detail),
    )


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


def _query(call: Call, said: AuditFilter) -> AuditQuery:
    is_named = b"tickwise-namespace" in call.headers
    usual = usual_namespace(call.principal, is_named=is_named)
    return AuditQuery(
        namespace=usual if said.namespace is UNSET else said.namespace,
        since=given_instant(said.since),
        until=given_instant(said.until),
        actor=given(said.actor),
        action=given(said.action),
        target=given(said.target),
    )


async def audit_list(call: Call) -> Reply:
    """A page of entries, the newest first."""
    said: AuditListQuery = call.query
    query = replace(_query(call, said), beyond=_place(said.cursor), limit=said.limit + 1)
    rows = await call.control.audit.search(call.principal, query)
    goes_on = rows.place_after(said.limit)
    last = None if goes_on is None else f"{goes_on.at!r} {goes_on.entry}"
    return answer(200, [entry_view(row) for row in rows[: said.limit]], headers=page_links(call, last))


def _place(cursor: str | UnsetType) -> AuditPlace | None:
    """The place in a cursor."""
    if cursor is UNSET:
        return None
    at, _, entry = cursor_text(cursor).partition(" ")
    place = place_of(at, entry)
    if place is None:
        raise foreign_cursor()
    return place


async def audit_export(call: Call) -> Reply:
    """All entries that match, as lines of JSON."""
    export = await call.control.audit.export(call.principal, _query(call, call.query))
    headers = [(b"cache-control", b"no-store"), (b"tickwise-until", encode(time_of(export.until)).strip(b'"'))]
    return Reply(200, b"", headers, NDJSON.encode(), stream=_lines(export.pages))


async def _lines(pages: AsyncIterator[Sequence[AuditRow]]) -> AsyncGenerator[bytes]:
    async for page in pages:
        yield b"".join(encode(entry_view(row)) + b"\n" for row in page)


AUDIT: Final = (
    Endpoint(
        method="GET", path=f"{API}/audit", control=AuditService.search, name="listAudit", tag="audit",
        summary="The entries of the audit log, the newest first.",
        description="Administrators of the installation see those of all namespaces, others those of theirs. A search "
        "by caller, action or thing looks at 10,000 entries a call: a page may have few entries, or none, and a `Link` "
        "to where the search goes on.",
        handler=audit_list, answers=(list[AuditEntryView],), query=AuditListQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/audit/export", control=AuditService.export, name="exportAudit", tag="audit",
        summary="All entries that match, the oldest first, as lines of JSON.",
        description="Each line is an entry as in the list. The export itself is an entry, too. It ends before the time "
        "`Tickwise-Until`: give that as `since` of the next export, and together they have each entry once.",
        handler=audit_export, answers=(AuditEntryView,), query=AuditFilter, answer_media=(NDJSON,),
        answer_headers=("Cache-Control", "Tickwise-Until"),
    ),
)  # fmt: skip
