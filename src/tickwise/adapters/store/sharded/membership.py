"""Executors on several shards: one number, and a lease on each.

    join ──► each shard; one that is away is joined later
    beat ──► each shard at the same time ──► renewed
                 └── away for half of the lease, or expired there ──► lost: its tasks end here, those of others go on
    a lost shard is back ──► it frees what it counted as held, and takes the number again

Invariants: a task runs only while the shard that gave it has renewed the lease. No claim of an executor is under way
while its held runs are compared with the store: tokens of two shards have no common order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from uuid import UUID

import structlog

from tickwise.adapters.store.sharded.fleet import Fleet
from tickwise.domain.errors import Conflict, InDoubt, ShardUnavailable, StoreUnavailable
from tickwise.domain.fencing import HeldDigest, shard_bits
from tickwise.domain.model import Claimed
from tickwise.domain.rules.capacities import Capacity
from tickwise.observability.tasks import end_tasks
from tickwise.ports.store import Beat, Epoch, ExecutorRow, Expired, NewExecutor, Store

T = TypeVar("T")

BEAT_SECONDS: Final = 1.0
"""A heartbeat waits for so long for a shard; what it answers later counts for the next one."""
LOST_SHARE: Final = 0.5
"""A shard that has not renewed for this share of the lease is lost: the rest is time enough to stop its tasks."""

logger = structlog.get_logger("tickwise.store")


@dataclass(slots=True)
class Membership:
    """One executor, as this process knows it."""

    said: NewExecutor | None = None
    """None: it joined in another process, and its lost shards are not joined from here."""
    renewed: dict[int, float] = field(default_factory=dict)
    """By shard: the monotonic time at which it was asked for the newest renewal that it gave."""
    lost: set[int] = field(default_factory=set)
    epochs: dict[int, int] = field(default_factory=dict)
    beating: dict[int, asyncio.Task[Beat]] = field(default_factory=dict)
    claims: int = 0
    free: asyncio.Condition = field(default_factory=asyncio.Condition)
    """Notified when no claim is under way."""
    comparing: int = 0


class Memberships:
    """The executors of this process, and the leases that they have."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._members: defaultdict[int, Membership] = defaultdict(Membership)

    def of(self, executor: int) -> Membership:
        """The membership of an executor, empty at first."""
        return self._members[executor]

    def forget(self, executor: int) -> None:
        """Remove an executor that has left."""
        self._members.pop(executor, None)

    def lost(self, executor: int) -> Collection[int]:
        """The shards from which it claims nothing, because it has no lease there."""
        return self._members[executor].lost if executor in self._members else ()

    @contextlib.asynccontextmanager
    async def claiming(self, executor: int) -> AsyncIterator[None]:
        """While one of its claims is under way."""
        member = self._members[executor]
        async with member.free:
            await member.free.wait_for(lambda: not member.comparing)
            member.claims += 1
        try:
            yield
        finally:
            member.claims -= 1
            if not member.claims and member.comparing:
                async with member.free:
                    member.free.notify_all()

    @contextlib.asynccontextmanager
    async def comparing(self, executor: int) -> AsyncIterator[None]:
        """While none of its claims is under way."""
        member = self._members[executor]
        member.comparing += 1
        try:
            async with member.free:
                await member.free.wait_for(lambda: not member.claims)
            yield
        finally:
            member.comparing -= 1
            async with member.free:
                member.free.notify_all()


class Executors:
    """`ExecutorStore` of the port."""

    def __init__(self, fleet: Fleet, memberships: Memberships) -> None:
        self._fleet = fleet
        self._memberships = memberships

    async def join(self, executor: NewExecutor) -> int:
        """See the port. Raises `StoreUnavailable` if no shard is there."""
        joined: list[int] = []
        away: list[int] = []
        asked = self._fleet.clock.monotonic()
        for number in self._fleet.numbers():
            try:
                await self._fleet.on(number, lambda store: store.executors.join(executor))
            except StoreUnavailable:
                away.append(number)
            except Conflict:
                for before in joined:
                    await self._fleet.on(before, lambda store: store.executors.leave(executor.number))
                raise
            else:
                joined.append(number)
        if not joined:
            raise ShardUnavailable("no database can be reached", shards=set(away))
        member = self._memberships.of(executor.number)
        member.said, member.lost = executor, set(away)
        member.renewed = dict.fromkeys(joined, asked)
        return executor.number

    async def beat(
        self,
        executor: int,
        lease_seconds: float,
        functions: Sequence[str] | None = None,
        *,
        differs: int | None = None,
        held: int | None = None,
        capacities: Mapping[str, Capacity] | None = None,
    ) -> Beat:
        """See the port. The time is that of the shard whose clock is behind: a run starts early on none."""
        member = self._memberships.of(executor)
        if member.said is not None and capacities is not None:
            member.said = replace(member.said, functions=functions or member.said.functions, capacities=capacities)

        async def renew(number: int) -> Beat:
            asked = self._fleet.clock.monotonic()
            beat = await self._fleet.on(
                number,
                lambda store: store.executors.beat(
                    executor, lease_seconds, functions, differs=differs, held=held, capacities=capacities
                ),
            )
            if beat.alive:
                member.renewed[number] = asked
            return beat

        answers, failed = await self._beats(executor, member, renew)
        now = self._fleet.clock.monotonic()
        over = {number for number, beat in answers.items() if not beat.alive}
        over |= {
            number for number in failed if now - member.renewed.get(number, float("-inf")) >= lease_seconds * LOST_SHARE
        }
        alive = {number: beat for number, beat in answers.items() if beat.alive}
        if not alive:
            if not answers:
                raise ShardUnavailable("no database can be reached", shards=set(failed))
            return min(answers.values(), key=lambda beat: beat.now)
        for number in over - member.lost:
            logger.error("shard_lost", executor=executor, shard=number, expired=number in answers)
        member.lost |= over
        return Beat(
            alive=True,
            now=min(beat.now for beat in alive.values()),
            cancels=[request for beat in alive.values() for request in beat.cancels],
            epoch=_epoch(member, {number: beat.epoch for number, beat in alive.items()}),
            lost=sorted(shard_bits(number) for number in member.lost),
        )

    async def _beats(
        self, executor: int, member: Membership, renew: Callable[[int], Coroutine[Any, Any, Beat]]
    ) -> tuple[dict[int, Beat], set[int]]:
        """The answers of the shards, and those that gave none in time. A lost shard is joined again first."""
        for number in self._fleet.numbers():
            if number not in member.beating:
                call = self._rejoin(executor, member, number) if number in member.lost else renew(number)
                member.beating[number] = asyncio.ensure_future(call)
        done, _ = await asyncio.wait(member.beating.values(), timeout=BEAT_SECONDS)
        answers: dict[int, Beat] = {}
        failed: set[int] = set()
        for number, task in [*member.beating.items()]:
            if task not in done:
                failed.add(number)
                continue
            del member.beating[number]
            try:
                answers[number] = task.result()
            except (StoreUnavailable, InDoubt):  # the next beat renews it
                failed.add(number)
        return answers, failed

    async def _rejoin(self, executor: int, member: Membership, number: int) -> Beat:
        """Take part in a shard again that was lost. What it counts as held here was stopped, and is free first."""
        said = member.said
        if said is None:
            raise ShardUnavailable(f"the executor joined shard {number} in another process", shards={number})

        async def again(store: Store) -> Beat:
            await store.executors.leave(executor)
            await store.executors.join(replace(said, returns=True))
            return await store.executors.beat(executor, said.lease_seconds)

        asked = self._fleet.clock.monotonic()
        beat = await self._fleet.on(number, again)
        if beat.alive:
            member.renewed[number] = asked
            member.lost.discard(number)
            logger.info("shard_joined_again", executor=executor, shard=number)
        return beat

    async def leave(self, executor: int) -> None:
        """See the port. A shard that is away frees what it counts as held when the lease there ends."""
        member = self._memberships.of(executor)
        await end_tasks(member.beating.values())
        await self._fleet.each(lambda store: store.executors.leave(executor), lenient=True, patient=True)
        self._memberships.forget(executor)

    async def release_unknown(self, executor: int, tokens: Sequence[int], asked: float) -> int:
        """See the port."""
        found = await self._fleet.each(
            lambda store: store.executors.release_unknown(executor, tokens, asked), lenient=True, patient=True
        )
        return sum(found.values())

    async def expire(self, crashes_max: int) -> Expired:
        """See the port."""
        found = (
            await self._fleet.each(lambda store: store.executors.expire(crashes_max), lenient=True, patient=True)
        ).values()
        return Expired(
            executors=sorted({number for each in found for number in each.executors}),
            freed=sum(each.freed for each in found),
            quarantined=[run_id for each in found for run_id in each.quarantined],
            unknown=[run_id for each in found for run_id in each.unknown],
            held=[run_id for each in found for run_id in each.held],
        )

    async def all(self, between: tuple[float, float] | None = None) -> Sequence[ExecutorRow]:
        """See the port: an executor is active while one shard has it so."""
        found = await self._fleet.each(lambda store: store.executors.all(between), lenient=True)
        rows: dict[int, list[ExecutorRow]] = {}
        for answer in found.values():
            for row in answer:
                rows.setdefault(row.executor, []).append(row)
        merged = [_one(each) for each in rows.values()]
        return sorted(merged, key=lambda row: (-row.registered_at, -row.executor))

    async def keys(self, executors: Sequence[int]) -> Mapping[int, bytes | None]:
        """See the port."""
        found = await self._fleet.each(lambda store: store.executors.keys(executors), lenient=True)
        return {number: key for answer in found.values() for number, key in answer.items()}


class Held:
    """`HeldRunStore` of the port."""

    def __init__(self, fleet: Fleet, memberships: Memberships) -> None:
        self._fleet = fleet
        self._memberships = memberships

    async def digest(self, executor: int, token: int) -> HeldDigest:
        """See the port. Digests of several shards add up."""
        async with self._memberships.comparing(executor):
            found = await self._each(executor, lambda store: store.held.digest(executor, token))
        return HeldDigest(sum(each.runs for each in found), sum(each.digest for each in found))

    async def tokens(self, executor: int, token: int) -> Mapping[UUID, int]:
        """See the port."""
        async with self._memberships.comparing(executor):
            found = await self._each(executor, lambda store: store.held.tokens(executor, token))
        return {run_id: drawn for answer in found for run_id, drawn in answer.items()}

    async def take_again(self, executor: int, runs: Sequence[UUID]) -> Sequence[Claimed]:
        """See the port."""
        found = await self._each(executor, lambda store: store.held.take_again(executor, runs))
        return [claimed for answer in found for claimed in answer]

    async def differed(self, runs: int) -> None:
        """See the port. Which shard lost them is not known here: the first has the count."""
        await self._fleet.on(1, lambda store: store.held.differed(runs))

    async def _each(self, executor: int, call: Callable[[Store], Awaitable[T]]) -> list[T]:
        """Of the shards in which it has a lease: of the others it holds nothing."""
        lost = self._memberships.lost(executor)
        numbers = [number for number in self._fleet.numbers() if number not in lost]
        return list((await self._fleet.each(call, lenient=False, numbers=numbers)).values())


class Epochs:
    """`EpochStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def begin(self) -> int:
        """See the port: one of each shard; the greatest."""
        return max((await self._fleet.each(lambda store: store.epochs.begin(), lenient=False)).values())

    async def all(self) -> Sequence[Epoch]:
        """See the port."""
        found = await self._fleet.each(lambda store: store.epochs.all(), lenient=True)
        rows = [epoch for answer in found.values() for epoch in answer]
        return sorted(rows, key=lambda epoch: (epoch.epoch, epoch.began_at), reverse=True)[:100]


def _epoch(member: Membership, found: Mapping[int, int]) -> int:
    """The greatest epoch; once another number, if that of another shard changed meanwhile."""
    before = {number: member.epochs.get(number, epoch) for number, epoch in found.items()}
    member.epochs.update(found)
    greatest = max(found.values())
    changed = any(before[number] != epoch for number, epoch in found.items())
    return -sum(found.values()) if changed and max(before.values()) == greatest else greatest


def _one(rows: Sequence[ExecutorRow]) -> ExecutorRow:
    """An executor, from what the shards have of it."""
    active = [row for row in rows if row.gone_at is None]
    shown = active or rows
    since = [row.differing_since for row in shown if row.differing_since is not None]
    return replace(
        shown[0],
        registered_at=min(row.registered_at for row in rows),
        lease_until=min(row.lease_until for row in shown),
        gone_at=None if active else max(row.gone_at or 0.0 for row in rows),
        held=max(row.held for row in shown),
        differs=max(row.differs for row in shown),
        differing_since=min(since, default=None),
    )
