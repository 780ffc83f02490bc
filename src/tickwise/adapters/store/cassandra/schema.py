"""The keyspace and its tables: what `tickwise db upgrade` makes, and how a program knows that they fit.

Several machines may make them at once: each table has an id that follows from its name, so two nodes that make it at
the same moment make the same table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tickwise.adapters.store.cassandra.address import CassandraAddress
from tickwise.adapters.store.cassandra.holdings import ShardHolding, shard_holdings
from tickwise.adapters.store.cassandra.link import CassandraLink, opened_link, statement
from tickwise.adapters.store.cassandra.looks import COPIES, ClusterFinding, judge, look
from tickwise.adapters.store.cassandra.members import node_count
from tickwise.adapters.store.cassandra.readable.tables import make_readable
from tickwise.adapters.store.keeper.shards import ShardIdentity, shard_numbers
from tickwise.domain.errors import Misconfigured, StoreUnavailable
from tickwise.ports.clock import Clock

VERSION: Final = 4
KEY_BYTES: Final = 32
CHANGE_SECONDS: Final = 30.0
"""The longest that one change of the schema may take: three nodes take up to 3 s on a busy machine."""
TABLES: Final = (
    "meta", "shard", "log_entry", "checkpoint_part", "checkpoint_draft", "history_block", "history_draft", "keeper",
)  # fmt: skip
IDS: Final = uuid.UUID("5f1c0f0e-6f0b-4b6e-9d0a-6f2f1f3a7c11")
"""The namespace of the ids of tables; they need only be the same on every machine."""


@dataclass(frozen=True, slots=True)
class KeyspaceState:
    """The facts that a keyspace holds about itself."""

    version: int
    """0: there is none."""
    datacenter: str
    """The one whose keepers write; empty: there is no keyspace."""
    keeper_key: str = field(default="", repr=False)
    """The secret that lets a client in at a keeper. Who can read it can read everything else here, too."""
    shards: int = 1
    """Chosen when the keyspace was made."""
    installation: str = ""
    """The name of the installation, where there are several shards."""

    @property
    def fits(self) -> bool:
        """True if this program works on it."""
        return self.version == VERSION

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the shards."""
        return shard_numbers(self.shards)

    def identity(self, shard: int) -> ShardIdentity | None:
        """The place of a shard among several; None: there is one."""
        return ShardIdentity.of(shard, self.installation, self.shards)


async def upgrade(
    address: CassandraAddress,
    clock: Clock,
    tell: Callable[[int, int], None] = lambda _done, _of: None,
    *,
    shards: int | None = None,
    advise: Callable[[str], None] = lambda _: None,
) -> str:
    """Make the keyspace and its tables where they are missing; the version. `tell` hears how many steps of how many are
    done. `shards`: their number, of a keyspace that is new; one by default. `advise` hears what the operator should
    change. Raises `Misconfigured` for a cluster that
    would lose what it confirms, and for a keyspace that has another number of shards."""
    link = await opened_link(address, clock, answer_seconds=CHANGE_SECONDS)
    try:
        state = await read_state(link)
        if state.version > VERSION:
            raise Misconfigured(
                f"the keyspace has version {state.version}, and this program serves {VERSION}: install the newer "
                "Tickwise"
            )
        if state.version:
            _check_count(address, state, shards)
        await _check(link, state)
        names = {"keyspace": address.keyspace, "datacenter": state.datacenter or link.datacenter}
        if not link.has_table("meta"):
            nodes = await node_count(link, advise)
            copies = min(COPIES, nodes.joined)
            await link.run(statement("keyspace_make").format(**names, copies=copies))
            if nodes.missing:
                wanted = min(COPIES, nodes.joined + nodes.missing)
                advise(
                    f"each row has {copies} of the {wanted} copies that are possible: {nodes.missing} of the hosts "
                    "that the address names did not answer. Start them; `tickwise doctor` then says how to raise them"
                )
        for done, table in enumerate(TABLES, start=1):
            table_id = uuid.uuid5(IDS, f"{address.keyspace}.{table}")
            await link.run(statement(f"table_{table}").format(**names, id=table_id))
            tell(done, len(TABLES))
        if not state.fits:
            await link.use_keyspace()
            await link.ask("meta_make", "keeper_key", clock.random_bytes(KEY_BYTES).hex())
            await link.ask("meta_write", "datacenter", names["datacenter"])
            await link.ask("meta_make", "shards", str(1 if state.version else shards or 1))
            await link.ask("meta_make", "installation", str(uuid.UUID(bytes=clock.random_bytes(16), version=4)))
            # Another machine may have made it with another number at the same moment: the first one counts.
            _check_count(address, await read_state(link), shards)
        await make_readable(link)
        if not state.fits:
            await link.ask("meta_write", "version", str(VERSION))
        for each in judge(await look(link, names["datacenter"])):
            if each.name == "copies" and each.level == "error":
                advise(f"{each.detail}. {each.advice}")
    finally:
        await link.close()
    return str(VERSION)


def _check_count(address: CassandraAddress, state: KeyspaceState, shards: int | None) -> None:
    if shards not in (None, state.shards):
        raise Misconfigured(
            f"the keyspace {address.keyspace} has {state.shards} shard{'s'[: state.shards - 1]}, and --shards says "
            f"{shards}: the number is chosen when a keyspace is made, and stays. Leave --shards out, or name a new "
            "keyspace"
        )


async def _check(link: CassandraLink, state: KeyspaceState) -> None:
    """Refuse what would lose entries. Few copies are for the operator to weigh: `doctor` names them."""
    wrong = [
        each for each in judge(await look(link, state.datacenter)) if each.level == "error" and each.name != "copies"
    ]
    if wrong:
        raise Misconfigured("; ".join(f"{each.name}: {each.detail}. {each.advice}" for each in wrong))


async def read_state(link: CassandraLink) -> KeyspaceState:
    """Read the facts of the keyspace that the link uses."""
    if not link.has_table("meta"):
        return KeyspaceState(0, "")
    facts = {row[0]: row[1] for row in await link.ask("meta_read")}
    return KeyspaceState(
        int(facts.get("version", "0")),
        facts.get("datacenter", ""),
        facts.get("keeper_key", ""),
        int(facts.get("shards", "1")),
        facts.get("installation", ""),
    )


async def opened_keyspace(address: CassandraAddress, clock: Clock) -> tuple[CassandraLink, KeyspaceState]:
    """A link to a keyspace that this program works on, and its facts. Raises `StoreUnavailable` while it is not made,
    or not brought to this program's version, and `Misconfigured` for one of a later program."""
    link = await opened_link(address, clock)
    try:
        state = await read_state(link)
        if state.version > VERSION:
            raise Misconfigured(
                f"the keyspace {address.keyspace} has version {state.version}, and this program serves {VERSION}: "
                "install the newer Tickwise"
            )
        if not state.fits:
            raise StoreUnavailable(
                f"the keyspace {address.keyspace} has version {state.version or 'none'}, and this program needs "
                f"{VERSION}: tickwise db upgrade"
            )
    except BaseException:
        await link.close()
        raise
    return link, state


async def status(address: CassandraAddress, clock: Clock) -> KeyspaceState:
    """Read the facts of the keyspace of the address."""
    state, _ = await status_of_shards(address, clock, look=False)
    return state


async def status_of_shards(
    address: CassandraAddress, clock: Clock, *, look: bool = True
) -> tuple[KeyspaceState, Sequence[ShardHolding]]:
    """Return the state of the keyspace and, with `look`, the holdings of its shards. None are told of a keyspace that
    this program does not work on."""
    link = await opened_link(address, clock)
    try:
        state = await read_state(link)
        return state, await shard_holdings(link, state.numbers) if look and state.fits else ()
    finally:
        await link.close()


async def findings(address: CassandraAddress, clock: Clock) -> tuple[KeyspaceState, list[ClusterFinding]]:
    """The keyspace, and the findings of its cluster."""
    link = await opened_link(address, clock)
    try:
        state = await read_state(link)
        return state, judge(await look(link, state.datacenter))
    finally:
        await link.close()
