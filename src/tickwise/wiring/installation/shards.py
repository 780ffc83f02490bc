"""The databases of one installation, for an operator: which they are, what is where, and moves between them.

Each address is one that the settings name. The first database keeps the map; which of the others is which shard is seen
by the identity that it holds, not by its address.

What changes the map is in the audit log of the installation, with the account of the system that called the command.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import is_cassandra
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.adapters.store.postgres.shards.halves import DepartureRow
from tickwise.adapters.store.postgres.shards.mover import (
    MoveEnd,
    MovePause,
    MoveProgress,
    MoveStep,
    NamespaceMover,
    Tell,
)
from tickwise.adapters.store.postgres.shards.sessions import sole_mover
from tickwise.domain.audit import PROGRAM, AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.callers import INSTALLATION
from tickwise.domain.errors import Conflict, Misconfigured, NotFound
from tickwise.ports.audit import AuditStore
from tickwise.ports.shards import NamespacePlace, Placement, Shard, ShardState
from tickwise.wiring.findings import DoctorFinding
from tickwise.wiring.storage.file_store import is_in_process

FIRST = 1


@dataclass(frozen=True, slots=True)
class NamedDatabases:
    """The databases that the settings name, open."""

    stores: Sequence[PostgresStore]
    urls: Sequence[str]

    @property
    def first(self) -> PostgresStore:
        """The database that keeps the map."""
        return self.stores[0]

    def of_cluster(self, cluster_id: str) -> int | None:
        """The place of a database in the settings; None: no address leads to it."""
        for place, store in enumerate(self.stores):
            if store.upkeep.cluster_id == cluster_id:
                return place
        return None

    def store_of(self, shard: Shard) -> PostgresStore:
        """The database of a shard. Raises `Misconfigured` if no address leads to it."""
        return self.stores[self._place(shard)]

    def end(self, shard: Shard) -> MoveEnd:
        """One side of a move."""
        return MoveEnd(number=shard.number, cluster_id=shard.cluster_id, dsn=self.urls[self._place(shard)])

    def address(self, shard: Shard) -> str:
        """The host and the name of the database, without role and password; empty: no address leads to it."""
        place = self.of_cluster(shard.cluster_id)
        if place is None:
            return ""
        parts = urlsplit(self.urls[place])
        return f"{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _place(self, shard: Shard) -> int:
        place = self.of_cluster(shard.cluster_id)
        if place is None:
            raise Misconfigured(
                f"no address leads to shard {shard.number} (database {shard.cluster_id}): name it in "
                "TICKWISE_DATABASE_URL"
            )
        return place


@asynccontextmanager
async def open_databases(urls: Sequence[str]) -> AsyncIterator[NamedDatabases]:
    """Open the databases at these addresses. Raises `Misconfigured` if two lead to the same one."""
    if not urls:
        raise Misconfigured("no database is named: set TICKWISE_DATABASE_URL")
    if any(is_in_process(url) for url in urls):
        raise Misconfigured("a file store has no shards: it is one process (docs/how-to/file-store.md)")
    async with AsyncExitStack() as stack:
        stores: list[PostgresStore] = []
        for url in urls:
            store = PostgresStore(url, clock=SystemClock())
            await store.open()
            stack.push_async_callback(store.close)
            if store.upkeep.cluster_id in {each.upkeep.cluster_id for each in stores}:
                raise Misconfigured("two addresses lead to the same database: name each one once")
            stores.append(store)
        yield NamedDatabases(stores, urls)


def _keyspace(urls: Sequence[str]) -> str | None:
    """The address, if it is that of a keyspace of Cassandra, which has its shards in itself."""
    return urls[0] if urls and is_cassandra(urls[0]) else None


def _refuse_keyspace(urls: Sequence[str], what: str) -> None:
    if _keyspace(urls) is not None:
        from tickwise.wiring.cassandra.shards import refuse_keyspace_change

        refuse_keyspace_change(what)


async def add_shards(urls: Sequence[str]) -> list[Shard]:
    """Add each database that the map does not have; those that were added. The first call begins the map, with all
    namespaces of the first database in it."""
    _refuse_keyspace(urls, "add")
    async with open_databases(urls) as databases:
        known = await databases.first.shard_map.read()
        had = {shard.cluster_id for shard in known.shards.values()}
        first = databases.first.upkeep.cluster_id
        added = []
        for store in databases.stores:
            cluster = store.upkeep.cluster_id
            if cluster in had:
                continue
            # Its own note first: a database of another installation is refused before the map knows it.
            await store.shard_membership.join(first, FIRST if store is databases.first else FIRST + 1)
            shard = await databases.first.shard_map.add(cluster)
            await _note(databases.first.audit, AuditAction.SHARD_ADDED, "shard", shard.number, cluster_id=cluster)
            added.append(shard)
        if not had:
            for name in await databases.first.move_traces.names():
                await databases.first.shard_map.place(name, FIRST)
        return added


async def set_shard_state(urls: Sequence[str], number: int, state: ShardState) -> None:
    """Open or drain a shard. Raises `NotFound`."""

    async def note(audit: AuditStore) -> None:
        await _note(audit, AuditAction.SHARD_CHANGED, "shard", number, state=str(state))

    if (keyspace := _keyspace(urls)) is not None:
        from tickwise.wiring.cassandra.shards import set_keyspace_shard_state

        await set_keyspace_shard_state(keyspace, number, state, note)
        return
    async with open_databases(urls[:1]) as databases:
        await databases.first.shard_map.set_state(number, state)
        await note(databases.first.audit)


async def remove_shard(urls: Sequence[str], number: int) -> None:
    """Forget an empty shard. Raises `Conflict` while it holds a namespace, and for the first one."""
    _refuse_keyspace(urls, "remove")
    if number == FIRST:
        raise Conflict("shard 1 holds people, keys and the map: it cannot be removed")
    async with open_databases(urls) as databases:
        known = await databases.first.shard_map.read()
        shard = _shard(known, number)
        await databases.first.shard_map.remove(number)
        await _note(databases.first.audit, AuditAction.SHARD_REMOVED, "shard", number, cluster_id=shard.cluster_id)
        if databases.of_cluster(shard.cluster_id) is not None:
            await databases.store_of(shard).shard_membership.leave()


async def list_shards(urls: Sequence[str]) -> list[dict[str, Any]]:
    """The shards, with the number of namespaces in each."""
    if (keyspace := _keyspace(urls)) is not None:
        from tickwise.wiring.cassandra.shards import list_keyspace_shards

        return await list_keyspace_shards(keyspace)
    async with open_databases(urls) as databases:
        known = await databases.first.shard_map.read()
        return [
            {
                "shard": shard.number,
                "state": str(shard.state),
                "cluster_id": shard.cluster_id,
                "address": databases.address(shard),
                "namespaces": sum(place.shard == shard.number for place in known.places.values()),
                "arriving": sum(place.moving_to == shard.number for place in known.places.values()),
            }
            for shard in known.shards.values()
        ]


async def move_namespace(urls: Sequence[str], namespace: str, goal: int, tell: Tell) -> MovePause | None:
    """Move a namespace, or go on with its move; None: it was there already, and is complete there. A goal at which it
    is ends what an earlier move left: before the namespace had left, that move is undone."""
    _refuse_keyspace(urls, "move")
    async with open_databases(urls) as databases, sole_mover(urls[0]):
        known = await databases.first.shard_map.read()
        place = known.places.get(namespace)
        if place is None:
            raise NotFound(f"the namespace {namespace!r} has no place in the map of shards")
        shard = _shard(known, goal)
        if place.shard == goal:
            return await _settle(databases, known, namespace, place, tell)
        if shard.state is ShardState.DRAINING:
            raise Conflict(f"shard {goal} is draining and takes no namespace: `tickwise shards drain {goal} --undo`")
        return await _moved(databases, known, namespace, place.shard, goal, tell)


async def move_in_steps(
    urls: Sequence[str], namespace: str, goal: int, tell: Callable[[int, int], None]
) -> MovePause | None:
    """As `move_namespace`; `tell` hears how many steps of how many are done."""
    steps = list(MoveStep)

    async def hear(told: MoveProgress) -> None:
        tell(steps.index(told.step) + 1, len(steps))

    return await move_namespace(urls, namespace, goal, hear)


async def _settle(
    databases: NamedDatabases, known: Placement, namespace: str, place: NamespacePlace, tell: Tell
) -> MovePause | None:
    """End or undo what an earlier move of a namespace left that is at its goal."""
    if place.moving_to is not None:
        await _mover(databases, known, namespace, place.shard, place.moving_to, tell).undo()
        undone = AuditAction.NAMESPACE_MOVE_UNDONE
        await _note(databases.first.audit, undone, "namespace", namespace, source=place.shard, goal=place.moving_to)
        return None
    here = known.shards[place.shard].cluster_id
    for number, shard in known.shards.items():
        if number == place.shard or databases.of_cluster(shard.cluster_id) is None:
            continue
        rows = await databases.store_of(shard).move_traces.departures()
        if any(row.namespace == namespace and row.is_half_done and row.goal == here for row in rows):
            return await _moved(databases, known, namespace, number, place.shard, tell)
    return None


async def _moved(
    databases: NamedDatabases, known: Placement, namespace: str, source: int, goal: int, tell: Tell
) -> MovePause | None:
    mover = _mover(databases, known, namespace, source, goal, tell)
    # Noted before it begins: a move that is killed has its entry, too.
    await _note(
        databases.first.audit, AuditAction.NAMESPACE_MOVE_BEGUN, "namespace", namespace, source=source, goal=goal
    )
    pause = await mover.run()
    seconds = None if pause is None or pause.seconds is None else round(pause.seconds, 3)
    await _note(
        databases.first.audit,
        AuditAction.NAMESPACE_MOVED,
        "namespace",
        namespace,
        source=source,
        goal=goal,
        pause_seconds=seconds,
    )
    return pause


async def _note(audit: AuditStore, action: AuditAction, kind: str, target: str | int, **facts: object) -> None:
    """Write an entry into the audit log of the installation, which the first shard has."""
    by = Source(CallerKind.PROGRAM, None, PROGRAM)
    detail = json.dumps({"account": _account(), **facts})
    await audit.add([AuditEntry(INSTALLATION, action, by, kind, target=str(target), detail=detail)])


def _account() -> str:
    """The account of the system that calls the command; its number where it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _mover(
    databases: NamedDatabases, known: Placement, namespace: str, source: int, goal: int, tell: Tell
) -> NamespaceMover:
    return NamespaceMover(
        namespace,
        source=databases.end(_shard(known, source)),
        goal=databases.end(_shard(known, goal)),
        shard_map=databases.first.shard_map,
        clock=SystemClock(),
        tell=tell,
    )


def _shard(known: Placement, number: int) -> Shard:
    found = known.shards.get(number)
    if found is None:
        raise NotFound(f"there is no shard {number}: `tickwise shards list` shows those that are there")
    return found


async def move_status(urls: Sequence[str]) -> list[dict[str, Any]]:
    """The moves that are half done, with how far each is."""
    if _keyspace(urls) is not None:
        return []  # none is ever begun there
    async with open_databases(urls) as databases:
        known = await databases.first.shard_map.read()
        numbers = {shard.cluster_id: number for number, shard in known.shards.items()}
        return [
            {
                "namespace": row.namespace,
                "from": numbers.get(store.upkeep.cluster_id),
                "to": numbers.get(row.goal),
                "state": row.state,
                "changes": row.changes,
                "begun": row.begun,
            }
            for store in databases.stores
            for row in await store.move_traces.departures()
            if row.is_half_done
        ]


async def shard_findings(databases: NamedDatabases) -> list[DoctorFinding]:
    """Half-done moves, and shards that were set back to before or after a move. Nothing where there is one database."""
    known = await databases.first.shard_map.read()
    if len(known.shards) < 2:
        return []
    numbers = {shard.cluster_id: number for number, shard in known.shards.items()}
    open_ones = {
        numbers[store.upkeep.cluster_id]: store for store in databases.stores if store.upkeep.cluster_id in numbers
    }
    found = [
        finding
        for number, store in open_ones.items()
        for finding in await _of_shard(databases, store, number, known, numbers)
    ]
    if unseen := sorted(known.shards.keys() - open_ones.keys()):
        text = f"shard {', '.join(map(str, unseen))} was not looked at: a move that is half done there is not seen"
        found.append(DoctorFinding("shards", "warning", text, "run it again when every database is named, and there"))
    return found or [DoctorFinding("shards", "ok", f"{len(known.shards)}, and no move is half done")]


async def _of_shard(
    databases: NamedDatabases, store: PostgresStore, number: int, known: Placement, numbers: Mapping[str, int]
) -> list[DoctorFinding]:
    found = []
    for row in await store.move_traces.departures():
        if row.is_half_done:
            found.append(_half_done(row, number, numbers.get(row.goal)))
        elif await _is_lost(databases, row, known, numbers):
            goal = numbers[row.goal]
            found.append(
                DoctorFinding(
                    "shards", "error",
                    f"the namespace {row.namespace} went from shard {number} to shard {goal}, which knows nothing of "
                    f"it: shard {goal} was restored from a dump of before",
                    f"restore shard {goal} from a newer dump: what the namespace has is there alone",
                )
            )  # fmt: skip
    elsewhere = [name for name, place in known.places.items() if place.shard != number]
    found += [
        DoctorFinding(
            "shards", "error",
            f"shard {number} has jobs of the namespace {name}, whose place is shard {known.places[name].shard}: it was "
            "restored from a dump of before the move, and may run them twice",
            f"stop all schedulers, then restore shard {number} from a dump of after the move "
            "(docs/how-to/move-a-namespace.md)",
        )
        for name in await store.move_traces.foreign(elsewhere)
    ]  # fmt: skip
    return found


async def _is_lost(databases: NamedDatabases, row: DepartureRow, known: Placement, numbers: Mapping[str, int]) -> bool:
    """Check whether the database to which a namespace went, and in which it has its place, does not know of it."""
    goal, place = numbers.get(row.goal), known.places.get(row.namespace)
    if goal is None or place is None or place.shard != goal or databases.of_cluster(row.goal) is None:
        return False
    rows = await databases.store_of(known.shards[goal]).move_traces.arrivals()
    return row.namespace not in {each.namespace for each in rows}


def _half_done(row: DepartureRow, source: int, goal: int | None) -> DoctorFinding:
    back = f", or undo it: `tickwise shards move {row.namespace} --to {source}`" if row.state != "left" else ""
    return DoctorFinding(
        "shards",
        "error" if row.state == "left" else "warning",
        f"the move of the namespace {row.namespace} from shard {source} to shard {goal} is half done ({row.state})",
        f"go on with it: `tickwise shards move {row.namespace} --to {goal}`{back}",
    )
