"""The feed of changes: read by differences of snapshots, dropped by what was visible long enough ago.

    statement ──► feed (transaction, batch, runs …)  in the same transaction: there if and only if it commits
    reader at S1 ──► rows visible now (S2) and not in S1 ──► place S2

A row is handed over when its transaction is first visible, whenever that began. So nothing is awaited, and a long
transaction of somebody else holds nothing up.

Invariant: what a page leaves out is not in its place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import asyncpg

from tickwise.adapters.store.postgres.base import Part
from tickwise.adapters.store.postgres.statements import statement
from tickwise.domain.feed import FeedPlace
from tickwise.domain.lifecycle import CODES
from tickwise.ports.feed import FEED_SECONDS, WATCH_SECONDS, FeedPage, PackedIds, RunChanges

LINE: Final = "feed"
"""One connection reads, however many readers there are in the process."""
UNDER_WAY_SECONDS: Final = 2.0
"""The first watch waits so long for transactions that began before it."""
LOOK_SECONDS: Final = 0.005
MARK_SECONDS: Final = 30.0
"""Changes are dropped up to this much later than `FEED_SECONDS`."""

_STATES: Final = {code: state for state, code in CODES.items()}
_IDS_FIRST: Final = 24
"""An array in binary: five numbers, then the length of each value before it."""
_IDS_STRIDE: Final = 20
_ATTEMPTS_STRIDE: Final = 6


class _Attempts(Sequence[int]):
    """Small numbers as the store sent them. Few of them are looked at, and to read all takes 3 us a run."""

    __slots__ = ("_packed",)

    def __init__(self, packed: bytes) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return max(0, len(self._packed) - _IDS_FIRST + _ATTEMPTS_STRIDE - 2) // _ATTEMPTS_STRIDE

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        begin = _IDS_FIRST + index * _ATTEMPTS_STRIDE
        if begin < _IDS_FIRST or begin >= len(self._packed):
            raise IndexError(index)
        return int.from_bytes(self._packed[begin : begin + 2], "big", signed=True)


class Feed(Part):
    """`FeedStore` of the port."""

    async def watch(self) -> FeedPlace:
        """See the port."""
        async with self._links.line(LINE).use(writes=True) as connection:
            complete = await connection.fetchval(statement("feed_watch"), WATCH_SECONDS)
            if not complete:
                await self._begin(connection)
            await connection.execute(statement("feed_mark"), MARK_SECONDS)
            await connection.execute(statement("feed_trim"), FEED_SECONDS)
            visible, _, epoch, *_ = await connection.fetchrow(statement("feed_read"), "0", [], [], 0)
        return _place(visible, epoch)

    async def _begin(self, connection: asyncpg.Connection) -> None:
        """Changes are noted from now on: wait for the transactions that may not have seen that."""
        before = await connection.fetchval(statement("feed_present"))
        until = self._clock.monotonic() + UNDER_WAY_SECONDS
        while await connection.fetchval(statement("feed_under_way"), before):
            if self._clock.monotonic() > until:
                break
            await self._clock.sleep(LOOK_SECONDS)
        await connection.execute(statement("feed_begin"))

    async def since(self, place: FeedPlace, *, limit: int = 500, namespaces: Collection[str] | None = None) -> FeedPage:
        """See the port."""
        named = None if namespaces is None else list(namespaces)
        still = [str(number) for number in place.open]
        async with self._links.line(LINE).use(writes=False) as connection:
            rows = await connection.fetch(statement("feed_read"), str(place.next), still, named, limit + 1)
            visible, floor, epoch, *_ = rows[0]
            seen = _place(visible, epoch)
            least = None if floor is None else _place(floor, epoch)
            if least is None or place.next > seen.next or not place.covers(least):
                return FeedPage((), seen, seen, floor=least, lost=True)
            found = [row[3:] for row in rows if row[3] is not None]
            if len(found) <= limit:
                return FeedPage(_changes(found), seen, seen, floor=least)
            # The last transaction may be cut off. If it is the only one, the page is all of it.
            last = found[-1][0]
            whole = [row for row in found if row[0] != last]
            if not whole:
                whole = await connection.fetch(statement("feed_whole"), str(last), named)
            last = whole[-1][0]
        return FeedPage(_changes(whole), place.through(last, seen), seen, floor=least, more=True)

    async def labels(self, jobs: Collection[UUID]) -> Mapping[UUID, Mapping[str, str]]:
        """See the port."""
        if not jobs:
            return {}
        async with self._links.line(LINE).use(writes=False) as connection:
            rows = await connection.fetch(statement("feed_labels"), list(jobs))
        return {job_id: json.loads(labels) for job_id, labels in rows}


def _place(snapshot: str, epoch: int) -> FeedPlace:
    """The place of a snapshot, which is written as `first:next:open,open`."""
    _, upto, still = snapshot.split(":")
    return FeedPlace(epoch, int(upto), frozenset(map(int, still.split(","))) if still else frozenset())


def _changes(rows: Sequence[Sequence[Any]]) -> list[RunChanges]:
    found = []
    for transaction, batch, at, state, namespace, runs, jobs, attempt, attempts in sorted(rows, key=itemgetter(1)):
        ids = PackedIds(runs, first=_IDS_FIRST, stride=_IDS_STRIDE)
        found.append(
            RunChanges(
                transaction,
                batch,
                at,
                _STATES[state],
                namespace,
                ids,
                PackedIds(jobs, first=_IDS_FIRST, stride=_IDS_STRIDE),
                _Attempts(attempts) if attempt is None else [attempt] * len(ids),
            )
        )
    return found
