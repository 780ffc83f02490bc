"""The readable tables: made, and made anew when one is lost.

    meta 'readable' = generation ──► the id of each table follows from it ──► two machines make the same tables

All tables are one generation. Where one is missing, all are dropped and made under the next number: keepers see another
generation and write every row anew. One table alone could not be made whole: rows that went meanwhile would stay in the
others.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import Final

from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.link import CassandraLink, opened_link, statement
from tickwise.domain.errors import InDoubt, StoreUnavailable
from tickwise.ports.clock import Clock

TABLE_NAMES: Final = ("jobs", "runs", "attempts", "run_hours", "due", "audit", "audit_hours", "projection")
IDS: Final = uuid.UUID("0b7f43cb-6f1d-4d39-a4c2-0d3a5f2f6a58")
"""The namespace of the ids of tables; they need only be the same on every machine."""
COMPACTION: Final = "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 16, 'max_threshold': 64}"
"""Of the tables with a row for each job, run and attempt. With 4, the default, rows that never change again are written
anew twice as often: 20 to 25 us of a node's processor a run. A read of an hour meets at most some 16 files more."""
CHANGE_SECONDS: Final = 30.0
STILL_SECONDS: Final = 4.0
"""Another machine that is making the tables makes or drops one in this time."""
LOOK_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 90.0


async def make_readable(link: CassandraLink) -> int:
    """Make the tables where they are missing; their generation. The link uses the keyspace, which has `meta`. Raises
    `StoreUnavailable` if other machines are still at it after a while."""
    clock = link.clock
    end, seen, since = clock.monotonic() + PATIENCE_SECONDS, None, clock.monotonic()
    while clock.monotonic() < end:
        generation = await read_generation(link)
        if generation is None:
            with contextlib.suppress(InDoubt):  # the next look says
                await link.ask("generation_make")
            await _create(link, 1)
            continue
        there = await _there(link)
        if not _missing(link, there, generation):
            return generation
        # Another machine may be at it: then something changes all the time.
        now = generation, frozenset(there)
        if now != seen:
            seen, since = now, clock.monotonic()
        elif clock.monotonic() - since >= STILL_SECONDS:
            await _make_anew(link, generation)
            continue
        await clock.sleep(LOOK_SECONDS)
    raise StoreUnavailable("the readable tables are made by other machines for too long; try again")


async def rebuild_readable(address: CassandraAddress, clock: Clock) -> int:
    """Drop the tables and make them anew, empty; their generation. The keepers of all shards notice within seconds, and
    write every row again from checkpoint and log. Raises `StoreUnavailable`, `Misconfigured`."""
    link = await opened_link(address, clock, answer_seconds=CHANGE_SECONDS)
    try:
        generation = await read_generation(link)
        if generation is not None:
            await _make_anew(link, generation)
        return await make_readable(link)
    finally:
        await link.close()


async def read_generation(link: CassandraLink) -> int | None:
    """The generation of the tables; None: they were never made."""
    rows = await link.ask("generation_read")
    return int(rows[0][0]) if rows else None


async def _there(link: CassandraLink) -> set[tuple[str, uuid.UUID]]:
    """The tables of the keyspace and their ids."""
    return {(name, table_id) for name, table_id in await link.ask("generation_tables", link.address.keyspace)}


def _missing(link: CassandraLink, there: set[tuple[str, uuid.UUID]], generation: int) -> list[str]:
    """The tables of this generation that are not there."""
    return [name for name in TABLE_NAMES if (name, _id(link, name, generation)) not in there]


async def _make_anew(link: CassandraLink, generation: int) -> None:
    """Drop what is there, and make the tables of the next generation, unless another machine does."""
    try:
        answer = await link.ask("generation_raise", str(generation + 1), str(generation))
    except InDoubt:
        return
    if answer[0][0]:
        for name in TABLE_NAMES:
            await link.run(statement("readable_drop").format(keyspace=link.address.keyspace, table=name))
        await _create(link, generation + 1)


async def _create(link: CassandraLink, generation: int) -> None:
    for name in TABLE_NAMES:
        names = {"keyspace": link.address.keyspace, "id": _id(link, name, generation), "compaction": COMPACTION}
        await link.run(statement(f"readable_{name}").format(**names))


def _id(link: CassandraLink, name: str, generation: int) -> uuid.UUID:
    return uuid.uuid5(IDS, f"{link.address.keyspace}.{name}.{generation}")
