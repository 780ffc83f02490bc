"""The findings of `tickwise doctor` about the databases of one installation, when there are several, or should be."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from tickwise.adapters.clock import SystemClock
from tickwise.domain.errors import TickwiseError
from tickwise.ports.clock import Clock
from tickwise.ports.shards import Shard, ShardState
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.storage.databases import check_alone

CLOCK_SECONDS: Final = 0.5
"""Clocks of two databases that differ by more are worth a word: lists are in no true order, and an executor goes
by the clock that is behind."""
CLOCK_READS: Final = 5
HOW_TO: Final = "docs/how-to/many-databases.md"


class Opened(NamedTuple):
    """The databases of a list of addresses, by the number of the address, from 1."""

    stores: Mapping[int, Any]
    failures: Mapping[int, str]
    """Of those that could not be opened, the reason."""


@asynccontextmanager
async def opened(addresses: Sequence[str]) -> AsyncIterator[Opened]:
    """Open the stores of these addresses, as far as they can be opened, and close them afterwards."""
    from tickwise.adapters.store.postgres import PostgresStore

    async with AsyncExitStack() as stack:
        stores: dict[int, Any] = {}
        failures: dict[int, str] = {}
        for at, address in enumerate(addresses, 1):
            store = PostgresStore(address, clock=SystemClock())
            try:
                await store.open()
            except TickwiseError as failure:
                failures[at] = failure.detail
            else:
                stack.push_async_callback(store.close)
                stores[at] = store
        yield Opened(stores, failures)


async def of_each(
    databases: Opened, look: Callable[[Any], AsyncIterator[DoctorFinding]]
) -> AsyncIterator[DoctorFinding]:
    """The findings of a look at each database; where there are several addresses, with the number of the address."""
    is_alone = len(databases.stores) + len(databases.failures) == 1
    for at, store in databases.stores.items():
        try:
            async for finding in look(store):
                yield finding if is_alone else finding._replace(detail=f"database {at}: {finding.detail}")
        except TickwiseError as failure:
            yield DoctorFinding("database" if is_alone else f"database {at}", "error", failure.detail)


async def address_findings(databases: Opened) -> AsyncIterator[DoctorFinding]:
    """Look at the place of each database in the installation. The first one is there."""
    stores, failures = databases
    for at, detail in failures.items():
        yield DoctorFinding(
            f"database {at}", "error", detail,
            "its namespaces wait, those of the others go on; check that it runs, and `tickwise db upgrade`",
        )  # fmt: skip
    named = len(stores) + len(failures)
    if named == 1:
        for finding in await _alone(stores[1]):
            yield finding
        return
    shards = (await stores[1].shard_map.read()).shards
    for finding in [
        *_places(stores, shards),
        *_missing(stores, shards, named),
        *await clocks_apart(stores, SystemClock()),
    ]:
        yield finding


async def _alone(store: Any) -> list[DoctorFinding]:
    try:
        await check_alone(store)
    except TickwiseError as wrong:
        return [DoctorFinding("databases", "error", wrong.detail, HOW_TO)]
    return []


def _places(opened: Mapping[int, Any], shards: Mapping[int, Shard]) -> list[DoctorFinding]:
    """The number of each database, and what is wrong with its place."""
    numbers = {shard.cluster_id: shard for shard in shards.values()}
    seen: dict[str, int] = {}
    findings = []
    for at, store in opened.items():
        cluster_id, name = store.upkeep.cluster_id, f"database {at}"
        shard = numbers.get(cluster_id)
        if cluster_id in seen:
            text = f"the addresses {seen[cluster_id]} and {at} lead to one database, or to copies of one"
            findings.append(DoctorFinding(name, "error", text, "name each database once in TICKWISE_DATABASE_URL"))
        elif shard is None:
            text = "it is no database of this installation"
            cure = "take its address out; if it is new and empty, `tickwise db upgrade` adds it"
            findings.append(DoctorFinding(name, "error", text, cure))
        elif at == 1 and shard.number != 1:
            text = f"the first address is that of shard {shard.number}"
            findings.append(DoctorFinding(name, "error", text, "name the database with users and keys first"))
        else:
            text = f"shard {shard.number}, {'takes' if shard.state is ShardState.OPEN else 'takes no'} new namespaces"
            findings.append(DoctorFinding(name, "ok", text))
        seen.setdefault(cluster_id, at)
    return findings


def _missing(opened: Mapping[int, Any], shards: Mapping[int, Shard], named: int) -> list[DoctorFinding]:
    """Databases that the map knows, and that no address leads to."""
    there = {store.upkeep.cluster_id for store in opened.values()}
    missing = sorted(shard.number for shard in shards.values() if shard.cluster_id not in there)
    if not missing or named > len(opened):
        return []  # an address that did not answer may be the one
    text = f"no address leads to shard {', '.join(map(str, missing))}: the namespaces there wait"
    return [DoctorFinding("databases", "error", text, "name every database in TICKWISE_DATABASE_URL")]


class ClockReading(NamedTuple):
    """The clock of a database, as it was read over the network: ahead of the one here by at least `least`, and by
    `most` at the most. The answer's way is what lies between them."""

    least: float
    most: float

    @property
    def ahead(self) -> float:
        """The likeliest value."""
        return (self.least + self.most) / 2


async def _read_clock(store: Any, clock: Clock) -> ClockReading:
    """The best of some readings: one that took long, on a busy machine, says little."""
    best = ClockReading(-math.inf, math.inf)
    for _ in range(CLOCK_READS):
        sent = clock.now()
        now = await store.now()
        reading = ClockReading(now - clock.now(), now - sent)
        best = min(best, reading, key=lambda each: each.most - each.least)
        if best.most - best.least <= CLOCK_SECONDS / 5:
            break
    return best


async def clocks_apart(opened: Mapping[int, Any], clock: Clock) -> list[DoctorFinding]:
    """The difference between the clocks of the databases, as one machine reads them in turn: as much of it as the
    readings show for sure."""
    readings = {at: await _read_clock(store, clock) for at, store in opened.items()}
    first = max(readings, key=lambda at: readings[at].least)
    behind = min(readings, key=lambda at: readings[at].most)
    if readings[first].least - readings[behind].most <= CLOCK_SECONDS:
        widest = max(each.most for each in readings.values()) - min(each.least for each in readings.values())
        if widest <= CLOCK_SECONDS:
            return [DoctorFinding("database clocks", "ok", f"within {CLOCK_SECONDS} s of one another")]
        text = f"no difference is seen; answers are slow, so one of up to {widest:.1f} s would not be"
        return [DoctorFinding("database clocks", "ok", text)]
    apart = readings[first].ahead - readings[behind].ahead
    text = f"database {first} is {apart:.1f} s ahead of database {behind}"
    return [DoctorFinding("database clocks", "warning", text, "run an NTP client on each of their machines")]
