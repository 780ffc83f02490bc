"""The audit log for its callers: entries found again, chains sealed and read."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.store.memory.audit import content_of
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain.audit import AuditEntry, AuditSeal
from tickwise.ports.audit import AuditCheckpoint, AuditContent, AuditHead, AuditPage, AuditQuery, AuditRow, AuditSpan
from tickwise.ports.paging import Page, page_within


class Audit(Duty):
    """`AuditStore` of the port."""

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        self._state.audit.write(*entries)

    async def find(self, query: AuditQuery) -> AuditPage:
        found = [row for row in self._state.audit.rows.values() if _matches(row, query)]
        found.sort(key=lambda row: (row.at, row.entry), reverse=not query.ascending)
        page = page_within(found[: query.limit], query.bytes_most)
        return AuditPage(page, cut=page.cut)

    async def settled(self) -> float:
        return self._state.now()

    async def seal(self, limit: int) -> int:
        return self._state.audit.seal(limit)

    async def heads(self, after: str | None, limit: int) -> Sequence[AuditHead]:
        newest = [seal for _, seal in sorted(self._state.audit.last_seals.items())]
        heads = [AuditHead(seal.namespace, seal.seq, seal.hash, seal.sealed_at) for seal in newest]
        return [head for head in heads if after is None or head.namespace > after][:limit]

    async def seals(self, namespace: str, after: int, limit: int) -> Sequence[AuditSeal]:
        seals = self._state.audit.seals.values()
        return [seal for seal in seals if seal.namespace == namespace and seal.seq > after][:limit]

    async def contents(self, span: AuditSpan) -> Page[AuditContent]:
        rows = [
            row
            for row in self._state.audit.rows.values()
            if row.namespace == span.namespace
            and span.since <= row.at <= span.until
            and (span.after is None or (row.at, row.entry) > span.after)
        ]
        rows.sort(key=lambda row: (row.at, row.entry))
        page = page_within(rows[: span.limit], span.bytes_most)
        return Page([AuditContent(row.entry, row.at, content_of(row)) for row in page], cut=page.cut)

    async def unsealed(self, older_seconds: float, limit: int) -> Sequence[AuditRow]:
        sealed = {(seal.namespace, entry) for seal in self._state.audit.seals.values() for entry in seal.entries}
        before = self._state.now() - older_seconds
        rows = self._state.audit.rows.values()
        return [row for row in rows if row.at < before and (row.namespace, row.entry) not in sealed][:limit]

    async def checkpoints(self) -> Sequence[AuditCheckpoint]:
        return [checkpoint for _, checkpoint in sorted(self._state.audit.checkpoints.items())]


def _matches(row: AuditRow, query: AuditQuery) -> bool:
    place, beyond = (row.at, row.entry), query.beyond
    return (
        (query.namespace is None or row.namespace == query.namespace)
        and (query.since is None or row.at >= query.since)
        and (query.until is None or row.at < query.until)
        and (query.actor is None or row.source.name == query.actor)
        and (query.action is None or row.action == query.action)
        and (query.target is None or query.target == row.target or query.target in map(str, row.targets))
        and (beyond is None or (place > beyond if query.ascending else place < beyond))
    )
