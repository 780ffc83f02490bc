"""The audit log: entries in the transaction of a change, seals in transactions of their own.

    write_audit(connection, entry) ──► audit + audit_unsealed ──seal──► audit_seals, the mark goes

Invariant: a mark in `audit_unsealed` is written with its entry and deleted with the seal that names it, so what is
visible and not sealed is what has a mark, in any order of commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.records.paging import bounded, own_columns, page_of
from tickwise.adapters.store.postgres.records.searches import searched, searched_page
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.audit import (
    ENTRIES_OF_SEAL,
    FIRST_HASH,
    AuditEntry,
    AuditSeal,
    CallerKind,
    Source,
    entry_digest,
    seal_hash,
)
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.audit import (
    AuditCheckpoint,
    AuditContent,
    AuditHead,
    AuditPage,
    AuditPlace,
    AuditQuery,
    AuditRow,
    AuditSpan,
)
from tickwise.ports.paging import Page

DAY_SECONDS: Final = 86_400
WRITERS_SECONDS_MAX: Final = 10.0
"""The longest wait for transactions whose begin the database does not show. Those of Tickwise take milliseconds."""
LOOK_SECONDS: Final = 0.1
ARRIVAL_SECONDS: Final = 0.5
"""The longest time between the arrival of a statement, which is the time of its entries, and its first lock, by which
it is seen to write. A server needs microseconds; a busy one is given more."""
ENTRIES_OF_SLICE: Final = 200_000
"""Compared with their seals in one statement: a third of a second."""
LOOKED_ENTRIES: Final = 10_000
"""Entries that one call of a search looks at if it may pause: 30 ms."""
_SOURCE: Final = frozenset({"caller_kind", "caller_id", "caller", "address", "request_id"})


class Audit(Part):
    """`AuditStore` of the port."""

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        """See the port."""
        if entries:
            async with self._links.pooled(writes=True) as connection:
                await write_audit(connection, *entries)

    async def find(self, query: AuditQuery) -> AuditPage:
        """See the port."""
        at, entry = (None, None) if query.beyond is None else query.beyond
        asked: list[Any] = [
            query.namespace,
            query.since,
            query.until,
            query.actor,
            query.action,
            query.target,
            at,
            entry,
            query.limit,
            _as_id(query.target),
        ]
        name = "audit_read" if query.ascending else "audit_find"
        async with self._links.pooled(writes=False) as connection:
            end = await self._look_ends(connection, query)
            asked += (None, None) if end is None else end
            found = page_of(await searched_page(connection, name, asked, query.bytes_most, self._clock), _row)
        return AuditPage(found, cut=found.cut, goes_on=None if found.is_full(query.limit) else end)

    async def _look_ends(self, connection: asyncpg.Connection, query: AuditQuery) -> AuditPlace | None:
        """The last entry that a search which may pause looks at; None: it looks at all. What no index has is looked for
        among them."""
        if not query.may_pause or query.actor is query.action is query.target is None:
            return None
        at, entry = (None, None) if query.beyond is None else query.beyond
        asked = [query.namespace, query.since, query.until, at, entry, LOOKED_ENTRIES - 1]
        name = "audit_read_end" if query.ascending else "audit_find_end"
        rows = await searched(connection, name, asked, self._clock)
        return AuditPlace(rows[0]["seconds"], rows[0]["entry"]) if rows else None

    async def settled(self) -> float:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            settled: float = await connection.fetchval(statement("now"))
            # What arrived before this instant is seen by its locks after it, or is over.
            await self._clock.sleep(ARRIVAL_SECONDS)
            writers = await connection.fetch(statement("audit_writers"))
            unknown = {row["name"] for row in writers if row["begun"] is None}
            deadline = self._clock.monotonic() + WRITERS_SECONDS_MAX
            while unknown:
                if self._clock.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"a transaction of another role has been writing for more than {WRITERS_SECONDS_MAX:g} s, so "
                        "the end of the audit log is not known: repeat the request later"
                    )
                await self._clock.sleep(LOOK_SECONDS)
                unknown &= {row["name"] for row in await connection.fetch(statement("audit_writers"))}
        begins: list[float] = [row["begun"] for row in writers if row["begun"] is not None]
        return min(settled, *begins) if begins else settled

    async def seal(self, limit: int) -> int:
        """See the port."""
        async with self._links.pooled(writes=True) as connection:
            pending = [row["namespace"] for row in await connection.fetch(statement("audit_pending"))]
            sealed = 0
            for namespace in pending:
                async with connection.transaction():
                    sealed += await _seal(connection, namespace, limit)
        return sealed

    async def heads(self, after: str | None, limit: int) -> Sequence[AuditHead]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("audit_heads"), after, limit)
        return [AuditHead(row["namespace"], row["seq"], row["hash"], row["sealed_at"]) for row in rows]

    async def seals(self, namespace: str, after: int, limit: int) -> Sequence[AuditSeal]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("audit_seals"), namespace, after, limit)
        return [AuditSeal(*row) for row in rows]

    async def contents(self, span: AuditSpan) -> Page[AuditContent]:
        """See the port."""
        at, entry = (None, None) if span.after is None else span.after
        async with self._links.pooled(writes=False) as connection:
            asked = [span.namespace, span.since, span.until, at, entry, span.limit, span.bytes_most]
            rows = await connection.fetch(bounded("audit_contents"), *asked)
        return page_of(rows, lambda row: AuditContent(row["entry"], row["seconds"], row["content"]))

    async def unsealed(self, older_seconds: float, limit: int) -> Sequence[AuditRow]:
        """See the port."""
        found: list[AuditRow] = []
        after = float("-inf")
        # Slice by slice: a statement over the whole log would outlast its deadline.
        while len(found) < limit:
            async with self._links.pooled(writes=False) as connection:
                end = await connection.fetchval(statement("audit_slice_end"), after, older_seconds, ENTRIES_OF_SLICE)
                if end is None:
                    break
                rows = await connection.fetch(statement("audit_never_sealed"), after, end, limit - len(found))
            found += [_row(row) for row in rows]
            after = end
        return found

    async def checkpoints(self) -> Sequence[AuditCheckpoint]:
        """See the port."""
        async with self._links.pooled(writes=False) as connection:
            rows = await connection.fetch(statement("audit_checkpoints"))
        return [AuditCheckpoint(**dict(row)) for row in rows]


async def write_audit(connection: asyncpg.Connection, *entries: AuditEntry | None) -> None:
    """Write entries within the caller's transaction; None is none."""
    written = [entry for entry in entries if entry is not None]
    if written:
        await connection.execute(statement("audit_add"), *audit_columns(written))


def is_effective(status: str) -> bool:
    """Check whether a command has written a row, by the status that the server answers."""
    return not status.endswith(" 0")


def audit_columns(entries: Sequence[AuditEntry]) -> Iterator[Sequence[Any]]:
    """One array for each parameter of `audit_add`."""
    sources = [entry.source for entry in entries]
    yield [entry.namespace for entry in entries]
    yield [entry.action.value for entry in entries]
    yield [source.kind.value for source in sources]
    yield [source.caller_id for source in sources]
    yield [source.name for source in sources]
    yield [source.address for source in sources]
    yield [source.request_id for source in sources]
    yield [entry.target_kind for entry in entries]
    yield [entry.target for entry in entries]
    yield [_array(entry.targets) for entry in entries]
    yield [entry.before for entry in entries]
    yield [entry.after for entry in entries]
    yield [entry.detail for entry in entries]


def _array(ids: Sequence[UUID]) -> str | None:
    """An array as its text, because there are no arrays of arrays of several lengths."""
    return "{" + ",".join([f"{each.int:032x}" for each in ids]) + "}" if ids else None


async def _seal(connection: asyncpg.Connection, namespace: str, limit: int) -> int:
    """Seal entries of one namespace in the caller's transaction; how many."""
    if not await connection.fetchval(statement("audit_lock"), namespace):
        return 0
    # Read with the lock in hand: nobody else adds to the chain until this transaction ends.
    head = await connection.fetchrow(statement("audit_head"), namespace)
    seq, previous = (0, FIRST_HASH) if head is None else (head["seq"], head["hash"])
    rows = await connection.fetch(statement("audit_unsealed_contents"), namespace, limit)
    for chosen in _portions(rows):
        seq += 1
        entries = [row["entry"] for row in chosen]
        digests = b"".join(entry_digest(row["content"] or b"") for row in chosen)
        hashed = seal_hash(previous, namespace, seq, entries, digests)
        times = [row["at"] for row in chosen]
        await connection.execute(
            statement("audit_seal_add"), namespace, seq, min(times), max(times), entries, digests, previous, hashed
        )
        previous = hashed
    return len(rows)


def _portions(rows: Sequence[asyncpg.Record]) -> Iterator[Sequence[asyncpg.Record]]:
    """The entries of each seal: of one day, at most `ENTRIES_OF_SEAL`."""
    for _, group in groupby(rows, lambda row: int(row["at"] // DAY_SECONDS)):
        day = list(group)
        for first in range(0, len(day), ENTRIES_OF_SEAL):
            yield day[first : first + ENTRIES_OF_SEAL]


def _as_id(text: str | None) -> UUID | None:
    """The id that this is in its usual spelling."""
    try:
        found = None if text is None else UUID(text)
    except ValueError:
        return None
    return found if str(found) == text else None


def _row(row: Mapping[str, Any]) -> AuditRow:
    fields = {name: value for name, value in own_columns(row).items() if name not in _SOURCE}
    fields["at"] = fields.pop("seconds")
    source = Source(CallerKind(row["caller_kind"]), row["caller_id"], row["caller"], row["address"], row["request_id"])
    return AuditRow(**{**fields, "source": source, "targets": fields["targets"] or ()})
