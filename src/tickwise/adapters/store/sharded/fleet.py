"""The stores of all shards, and calls to one, to several, or to each of them.

    of a namespace ──► its shard; once more elsewhere if it has moved
    of none ──► each shard at the same time ──► combined
                   └── one that is away: the call fails, or goes without it and says so (`ports.missing`)

Invariant: a shard that is away or slow holds up no call that does not need it, but for one look of `SLOW_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

import structlog

from tickwise.adapters.store.sharded.placing import FIRST, KnownPlaces
from tickwise.domain.errors import Misconfigured, NamespaceMoved, ShardUnavailable, StoreUnavailable, Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.missing import note_missing
from tickwise.ports.store import Store

T = TypeVar("T")

SLOW_SECONDS: Final = 2.0
"""A shard that has not answered for so long is left out of a call that can go without it."""
AWAY_SECONDS: Final = 1.0
"""For so long such a call does not wait for it again."""

logger = structlog.get_logger("tickwise.store")


class Fleet:
    """The stores by the numbers of their shards."""

    def __init__(
        self,
        stores: Sequence[Store],
        places: KnownPlaces,
        clock: Clock,
        *,
        reads_only: bool = False,
        can_move: bool = True,
    ) -> None:
        """`stores`: the first one is that of the first shard; what the others are, their cluster ids tell. `can_move`:
        whether an operator can move a namespace to another shard."""
        self.can_move = can_move
        self.first = stores[0]
        self.places = places
        self.clock = clock
        self.stores: dict[int, Store] = {}
        self._reads_only = reads_only
        self._unopened = list(stores)
        self._opening: asyncio.Task[None] | None = None
        self._away_until: dict[int, float] = {}

    # ------------------------------------------------------------------ life

    async def open(self) -> None:
        """Open the first store, then all others. One that is away is opened later, beside the work. Raises
        `Misconfigured` for a database that is not of this installation, or is named twice."""
        await self.first.open()
        self._unopened.remove(self.first)
        shards = (await self.places.read()).shards
        if shards and FIRST in shards and shards[FIRST].cluster_id != self.first.upkeep.cluster_id:
            raise Misconfigured(
                "the first database of the list does not hold the map of the others: name the databases in the order "
                "in which they were added"
            )
        self.stores[FIRST] = self.first
        outcomes = await asyncio.gather(*map(self._open_one, [*self._unopened]), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Unavailable):
                raise outcome
        if not self._reads_only:
            await self._adopt_names()

    async def close(self) -> None:
        """Close all stores."""
        if self._opening is not None:
            await end_tasks([self._opening])
        await self.places.close()
        for store in {*self.stores.values(), *self._unopened}:
            await store.close()

    async def _open_one(self, store: Store) -> None:
        await store.open()
        cluster_id = store.upkeep.cluster_id
        number = next(
            (each.number for each in self.places.known.shards.values() if each.cluster_id == cluster_id), None
        )
        if number is None:
            await store.close()
            raise Misconfigured(
                f"the database with the cluster id {cluster_id} is no shard of this installation: take its address out "
                "of TICKWISE_DATABASE_URL, or, if it is new and empty, run `tickwise db upgrade`, which adds it"
            )
        if number in self.stores:
            await store.close()
            raise Misconfigured(
                f"two addresses of TICKWISE_DATABASE_URL lead to one database, shard {number}: name each once"
            )
        self._unopened.remove(store)
        self.stores[number] = store

    async def _adopt_names(self) -> None:
        """Namespaces that were in the first database before there were several have their place there."""
        after: str | None = None
        while rows := await self.first.namespaces.page(after=after, limit=500):
            for row in rows:
                if row.name not in self.places.known.places:
                    await self.places.put(row.name, FIRST)
            after = rows[-1].name

    def _open_rest(self) -> None:
        """Try again to open what was away, beside the work."""
        if self._unopened and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._open_later())

    async def _open_later(self) -> None:
        for store in [*self._unopened]:
            try:
                await self._open_one(store)
            except Unavailable:
                continue
            except Misconfigured as wrong:
                self._unopened.remove(store)
                logger.error("shard_not_ours", detail=wrong.detail)
        await self.clock.sleep(AWAY_SECONDS)

    # ------------------------------------------------------------------ one shard

    def numbers(self) -> list[int]:
        """All shards of the map, and those that are open."""
        return sorted({*self.stores, *self.places.known.shards})

    def at(self, number: int) -> Store:
        """The store of a shard. Raises `ShardUnavailable` if it is not open."""
        store = self.stores.get(number)
        if store is None:
            self._open_rest()
            raise ShardUnavailable(f"the database of shard {number} has not been reached yet", shards={number})
        return store

    async def on(self, number: int, call: Callable[[Store], Awaitable[T]]) -> T:
        """Make a call to one shard. An error of a store that is away names the shard."""
        try:
            found = await call(self.at(number))
        except NamespaceMoved:
            raise
        except StoreUnavailable as away:
            raise named(number, away) from away
        self._away_until.pop(number, None)
        return found

    async def of(self, namespace: str, call: Callable[[Store], Awaitable[T]]) -> T:
        """Make a call to the shard of a namespace."""
        number = self.places.of(namespace)
        try:
            return await self.on(number, call)
        except NamespaceMoved:
            await self.places.read()
            there = self.places.of(namespace)
            if there == number:
                raise
            return await self.on(there, call)

    # ------------------------------------------------------------------ any shard

    async def from_any(self, call: Callable[[Store], Awaitable[T]]) -> T:
        """Make a call to the first shard, and to all others at once while it is away or slow; the first answer counts.
        Raises `StoreUnavailable` of the first shard if none is there: no shard is waited for after another."""
        first, *others = self.numbers()
        calls = [asyncio.create_task(self.on(first, call))]
        try:
            if not self.is_away(first):
                await asyncio.wait(calls, timeout=SLOW_SECONDS)
            if not _has_answer(calls[0]):
                self.is_slow(first)
                calls += [asyncio.create_task(self.on(number, call)) for number in others]
            left = {*calls}
            while left and not any(map(_has_answer, calls)):
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            return next(filter(_has_answer, calls), calls[0]).result()
        finally:
            await end_tasks(calls)

    # ------------------------------------------------------------------ each shard

    async def each(
        self,
        call: Callable[[Store], Awaitable[T]],
        *,
        lenient: bool,
        patient: bool = False,
        numbers: Collection[int] | None = None,
    ) -> dict[int, T]:
        """Make a call to each shard, all at the same time. `lenient`: without those that are away, which is noted
        (`ports.missing`); raises `StoreUnavailable` if none is there. Else every call ends before the first error is
        raised. `patient`: it is work that may take long, and is not given up for that."""
        wanted = self.numbers() if numbers is None else sorted(numbers)
        if len(wanted) == 1:
            return {wanted[0]: await self.on(wanted[0], call)}
        calls = {
            number: self._bounded(number, call, patient=patient) if lenient else self.on(number, call)
            for number in wanted
        }
        answers = dict(zip(calls, await asyncio.gather(*calls.values(), return_exceptions=True), strict=True))
        found: dict[int, T] = {}
        failed: list[BaseException] = []
        missing: dict[int, StoreUnavailable] = {}
        for number, answer in answers.items():
            if not isinstance(answer, BaseException):
                found[number] = answer
            elif lenient and isinstance(answer, StoreUnavailable):
                missing[number] = answer
            else:
                failed.append(answer)
        if failed:
            raise _worst(failed)
        if missing and not found:
            raise _none_answers(missing)
        note_missing(missing)
        return found

    async def _bounded(self, number: int, call: Callable[[Store], Awaitable[T]], *, patient: bool) -> T:
        """A call that is given up when the shard is slow, and not made while it was so lately."""
        if self.is_away(number):
            raise ShardUnavailable(f"shard {number} did not answer a moment ago", shards={number})
        try:
            async with asyncio.timeout(None if patient else SLOW_SECONDS):
                return await self.on(number, call)
        except TimeoutError:
            self.is_slow(number)
            raise ShardUnavailable(f"shard {number} did not answer in {SLOW_SECONDS:.0f} s", shards={number}) from None
        except StoreUnavailable:
            self.is_slow(number)
            raise

    def is_away(self, number: int) -> bool:
        """Check whether this shard was away or slow a moment ago."""
        return self._away_until.get(number, float("-inf")) > self.clock.monotonic()

    def is_slow(self, number: int) -> None:
        """Note that a shard is away or slow."""
        self._away_until[number] = self.clock.monotonic() + AWAY_SECONDS


def _has_answer(call: asyncio.Future[Any]) -> bool:
    """True for a call that has ended, and not because its shard is away."""
    return call.done() and not (call.cancelled() or isinstance(call.exception(), StoreUnavailable))


async def together(calls: Mapping[int, Coroutine[Any, Any, T]]) -> dict[int, T]:
    """Make calls to several shards at the same time. Every one ends before the first error is raised."""
    if len(calls) == 1:
        ((number, call),) = calls.items()
        return {number: await call}
    answers = dict(zip(calls, await asyncio.gather(*calls.values(), return_exceptions=True), strict=True))
    failed = [answer for answer in answers.values() if isinstance(answer, BaseException)]
    if failed:
        raise _worst(failed)
    return {number: answer for number, answer in answers.items() if not isinstance(answer, BaseException)}


def named(number: int, away: StoreUnavailable) -> ShardUnavailable:
    """The error of a store that is away, with its shard."""
    if isinstance(away, ShardUnavailable):
        return away
    return ShardUnavailable(f"shard {number}: {away.detail}", shards={number})


def _worst(failed: Sequence[BaseException]) -> BaseException:
    """The error to raise of several: one that is no absence first; absences as one, with all their shards."""
    away = [each for each in failed if isinstance(each, ShardUnavailable)]
    other = [each for each in failed if not isinstance(each, ShardUnavailable)]
    if other:
        return other[0]
    return ShardUnavailable(
        "; ".join(each.detail for each in away), shards=set().union(*(each.shards for each in away))
    )


def _none_answers(missing: Mapping[int, StoreUnavailable]) -> ShardUnavailable:
    """The error of shards that are all away, by number. One cause stands for all: there may be 64 of them."""
    cause = next(iter(missing.values()))
    return ShardUnavailable(f"none of the shards {_listed(missing)} answers; {cause.detail}", shards=set(missing))


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
