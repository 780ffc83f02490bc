"""Timers, runs and attempts over several shards.

    take  ──► the batch of one shard, whose clock and rules it goes by; the next call begins with another shard
                └── slow: the next call waits for the same answer
    claim ──► shard by shard, while there is room (`turns`)
    start, finish ──► where the token was drawn: its low bits say so (`domain.fencing`); what is refused there may have
                      moved, and is offered to the others

Invariant: a token names one claim of one shard, so it never fits a run of another.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import structlog

from tickwise.adapters.store.sharded import combining as combine
from tickwise.adapters.store.sharded.definitions import Rules
from tickwise.adapters.store.sharded.fleet import SLOW_SECONDS, Fleet, together
from tickwise.adapters.store.sharded.membership import Memberships
from tickwise.adapters.store.sharded.routes import ByNamespace, RoutedPart, ToEach
from tickwise.adapters.store.sharded.turns import Turns
from tickwise.domain.errors import ShardUnavailable, StoreUnavailable, Unavailable
from tickwise.domain.fencing import SHARD_STEP, shard_bits
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Claimed, Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.observability.tasks import end_tasks, retrieve_error
from tickwise.ports.identity.quotas import QuotaStore
from tickwise.ports.store import (
    AttemptRow,
    Began,
    ClaimRequest,
    Fire,
    FireBatch,
    Fired,
    FireRequest,
    Ready,
    RunStore,
    Store,
    TimerStore,
)

T = TypeVar("T")

GIVEN_BACK: Final = CODES[RunState.QUEUED]
_RETURNS: Final = (GIVEN_BACK, CODES[RunState.SKIPPED])
SLOW_CLAIM_SECONDS: Final = 0.5
"""A claim goes on with the next shard when one has not answered for so long. What that one gives later goes back."""
PATIENT_CLAIM_SECONDS: Final = 4.0
"""The longest wait for a shard that was seen to give runs late: short beside an executor's lease."""

logger = structlog.get_logger("tickwise.store")


def batch_over() -> StoreUnavailable:
    """The error of a batch that was committed, released or never taken."""
    return StoreUnavailable("the batch of timers is over: nothing was fired; take the timers again")


class LateCall(NamedTuple):
    """A call to a slow shard that is under way."""

    asked: object
    """Its question: the answer is for those who ask the same."""
    call: asyncio.Task[Any]


class Batches:
    """The batches of timers that this process has taken, by the names that it gives them."""

    def __init__(self) -> None:
        self._names = count(1)
        self._taken: dict[int, tuple[int, int]] = {}

    def keep(self, number: int, batch_id: int) -> int:
        """Name a batch of a shard."""
        name = next(self._names)
        self._taken[name] = number, batch_id
        return name

    def of(self, name: int) -> tuple[int, int]:
        """The shard of a batch, and its name there. Raises `StoreUnavailable` if it is over."""
        found = self._taken.get(name)
        if found is None:
            raise batch_over()
        return found

    def pop(self, name: int) -> tuple[int, int] | None:
        """Forget a batch, which is over from now on."""
        return self._taken.pop(name, None)


class Timers(RoutedPart):
    """`TimerStore` of the port."""

    def __init__(self, fleet: Fleet, batches: Batches, rules: Rules) -> None:
        super().__init__(fleet, "timers", TimerStore, {}, ByNamespace())
        self._batches = batches
        self._rules = rules
        self._turns = Turns(fleet)
        self._late: defaultdict[int, list[LateCall]] = defaultdict(list)
        """Calls to shards that were slow, and whose answers nobody has heard yet."""

    async def close(self) -> None:
        """Give the slow calls a moment to end, then end them."""
        calls = [each.call for late in self._late.values() for each in late]
        if calls:
            await asyncio.wait(calls, timeout=SLOW_CLAIM_SECONDS)
            await end_tasks(calls)

    async def fire(self, horizon_seconds: float, limit: int, *, named: bool = False, traced: bool = False) -> Fired:
        """See the port. Each shard fires its share of `limit`; one that has less leaves its room to those after it."""
        timers, ready, definitions = 0, list[Ready](), dict[UUID, str]()
        for number in self._turns.order():
            room = limit - timers
            if room <= 0:
                break

            async def fire(store: Store, room: int = room) -> Fired:
                return await store.timers.fire(horizon_seconds, room, named=named, traced=traced)

            try:
                fired = await self._soon(number, (horizon_seconds, named, traced), fire)
            except StoreUnavailable:
                self._fleet.is_slow(number)
                if timers or number != self._last_there():
                    continue
                raise
            self._turns.had(number, fired.timers)
            timers += fired.timers
            ready += fired.ready
            definitions |= fired.definitions
        return Fired(timers, ready, definitions)

    async def take(self, request: FireRequest) -> FireBatch:
        """See the port. A batch has timers of one shard."""
        empty: FireBatch | None = None
        failed: StoreUnavailable | None = None
        for number in self._turns.order():
            try:
                batch = await self._soon(number, request, lambda store: store.timers.take(request))
            except StoreUnavailable as away:
                self._fleet.is_slow(number)
                failed = away
                continue
            self._turns.had(number, batch.timers)
            version = self._rules.version_with(number, batch.rules_version)
            batch = batch._replace(rules_version=version, batch_id=self._batches.keep(number, batch.batch_id))
            if batch.timers:
                return batch
            self._batches.pop(batch.batch_id)
            if empty is None or version > empty.rules_version:
                empty = batch
        if empty is None:
            raise failed if failed is not None else StoreUnavailable("no database can be reached")
        return empty

    async def _soon(self, number: int, asked: object, call: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """The answer of one shard within `SLOW_SECONDS`. A later one counts for the next call that asks the same, so a
        shard that is always slow fires, too. A batch that nobody asks for any more is over after `BATCH_SECONDS`."""
        late = self._late[number]
        waiting: asyncio.Task[T] | None = next((each.call for each in late if each.asked == asked), None)
        late[:] = [each for each in late if each.asked != asked and not each.call.done()]
        if waiting is None:
            waiting = asyncio.create_task(self._on(number, call))
        try:
            done, _ = await asyncio.wait({waiting}, timeout=SLOW_SECONDS)
        except asyncio.CancelledError:
            waiting.cancel()
            raise
        if done:
            return waiting.result()
        waiting.add_done_callback(retrieve_error)  # perhaps nobody asks the same again
        late.append(LateCall(asked, waiting))
        raise ShardUnavailable(f"shard {number} did not answer in {SLOW_SECONDS:.0f} s", shards={number})

    async def _on(self, number: int, call: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        return await self._fleet.on(number, call)

    async def commit(self, batch_id: int, fires: Sequence[Fire]) -> int:
        """See the port."""
        if (found := self._batches.pop(batch_id)) is None:
            if not fires:
                return 0
            raise batch_over()
        number, there = found
        return await self._fleet.on(number, lambda store: store.timers.commit(there, fires))

    async def release(self, batch_id: int) -> None:
        """See the port."""
        found = self._batches.pop(batch_id)
        if found is not None:
            number, there = found
            await self._fleet.on(number, lambda store: store.timers.release(there))

    async def count(self, counts: Mapping[str, int]) -> Mapping[str, int]:
        """See the port."""
        shares: dict[int, dict[str, int]] = {}
        for namespace, number in counts.items():
            shares.setdefault(self._fleet.places.of(namespace), {})[namespace] = number
        calls = {
            number: self._fleet.on(number, lambda store, share=share: store.timers.count(share))  # type: ignore[misc]  # mypy infers no type of a default
            for number, share in shares.items()
        }
        return {key: value for answer in (await together(calls)).values() for key, value in answer.items()}

    def _last_there(self) -> int:
        return self._fleet.numbers()[-1]


class Quotas(RoutedPart):
    """`QuotaStore` of the port."""

    def __init__(self, fleet: Fleet, batches: Batches) -> None:
        super().__init__(fleet, "quotas", QuotaStore, {}, ByNamespace())
        self._batches = batches

    async def take_runs(self, batch_id: int, wanted: Mapping[str, int]) -> Mapping[str, int | None]:
        """See the port. The namespaces of a batch are of its shard."""
        number, there = self._batches.of(batch_id)
        return await self._fleet.on(number, lambda store: store.quotas.take_runs(there, wanted))


def _claimable(ready: Ready) -> tuple[int, float]:
    return -ready.lane.priority, ready.ready


class Runs(RoutedPart):
    """`RunStore` of the port."""

    def __init__(self, fleet: Fleet) -> None:
        routes = {"waiting": ToEach(combine.merged(_claimable)), "unblock": ToEach(combine.total, patient=True)}
        super().__init__(fleet, "runs", RunStore, routes, ByNamespace())

    async def attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        """See the port. It names no namespace, so each shard is asked."""
        found = await self._fleet.each(lambda store: store.runs.attempts(run_id), lenient=True)
        return sorted(chain.from_iterable(found.values()), key=lambda row: row.attempt)


class Attempts:
    """`AttemptStore` of the port."""

    def __init__(self, fleet: Fleet, memberships: Memberships) -> None:
        self._fleet = fleet
        self._memberships = memberships
        self._turns = Turns(fleet)
        self._late: set[asyncio.Task[None]] = set()
        self._patience: dict[int, float] = {}
        """Of shards that gave runs too late: the seconds that their next claim is waited for. Without it a shard that
        is always slower than `SLOW_CLAIM_SECONDS` would give its runs and take them back for ever."""
        self._passed: set[int] = set()
        """Of those: passed over by the last claim, which had runs of others in hand. They come first in the next."""

    async def close(self) -> None:
        """Wait for claims that were slow to go back."""
        if self._late:
            await asyncio.wait(self._late, timeout=SLOW_CLAIM_SECONDS)

    async def claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        """See the port. Priorities count within a shard; shards take turns."""
        async with self._memberships.claiming(request.executor):
            if request.runs is None:
                return await self._claim(request)
            return await self._claim_named(request, request.runs)

    async def _claim_named(self, request: ClaimRequest, runs: Sequence[UUID]) -> Sequence[Claimed]:
        """A name says nothing of its shard: each looks for all of them, in an index."""
        rows: list[Claimed] = []
        left = [*dict.fromkeys(runs)]
        while left and len(rows) < request.limit:
            room = request.limit - len(rows)
            names, left = left[:room], left[room:]
            found = {row.run_id: row for row in await self._claim(replace(request, runs=names, limit=room))}
            rows += [found[name] for name in names if name in found]
        return rows

    async def _claim(self, request: ClaimRequest) -> Sequence[Claimed]:
        rows: list[Claimed] = []
        failed: StoreUnavailable | None = None
        asked = 0
        lost = self._memberships.lost(request.executor)
        order = sorted(self._turns.order(), key=lambda number: number not in self._passed)
        for number in [each for each in order if each not in lost]:
            room = request.limit - len(rows)
            if room <= 0:
                break
            if rows and number in self._patience:
                self._passed.add(number)
                continue
            self._passed.discard(number)
            try:
                part = await self._claim_at(number, replace(request, limit=room))
            except StoreUnavailable as away:
                self._fleet.is_slow(number)
                failed = away
                continue
            asked += 1
            self._turns.had(number, part)
            rows += part
        if failed is not None and not asked:
            raise failed
        return rows

    async def _claim_at(self, number: int, request: ClaimRequest) -> Sequence[Claimed]:
        """One shard's claim; one that is slow is left behind, and what it gives goes back. One that was seen to give
        runs late is waited for longer, with nothing in hand; if that was in vain, half as long the next time."""
        claim = asyncio.ensure_future(self._fleet.on(number, lambda store: store.attempts.claim(request)))
        patience = self._patience.pop(number, SLOW_CLAIM_SECONDS)
        try:
            done, _ = await asyncio.wait({claim}, timeout=SLOW_CLAIM_SECONDS)
            is_slow = not done
            if is_slow and patience > SLOW_CLAIM_SECONDS:
                done, _ = await asyncio.wait({claim}, timeout=patience - SLOW_CLAIM_SECONDS)
        except asyncio.CancelledError:
            claim.cancel()
            raise
        if done:
            rows = claim.result()
            if is_slow:
                self._patience[number] = patience
                if not rows:
                    self._fleet.is_slow(number)
            return rows
        if patience / 2 > SLOW_CLAIM_SECONDS:
            self._patience[number] = patience / 2
        back = asyncio.create_task(self._give_back(number, request.executor, claim, patience))
        self._late.add(back)
        back.add_done_callback(self._late.discard)
        raise ShardUnavailable(f"shard {number} did not answer a claim in {patience} s", shards={number})

    async def _give_back(
        self, number: int, executor: int, claim: asyncio.Future[Sequence[Claimed]], waited: float
    ) -> None:
        """Return what a claim gave that nobody waits for any more, and wait longer for the next one."""
        try:
            rows = await claim
            if not rows:
                return
            patience = min(2 * waited, PATIENT_CLAIM_SECONDS)
            self._patience[number] = max(patience, self._patience.get(number, patience))
            logger.warning("claim_came_late", shard=number, runs=len(rows), next_wait_seconds=patience)
            ends = [Outcome(row.run_id, row.token, GIVEN_BACK, 0.0, row.now) for row in rows]
            await self._fleet.on(number, lambda store: store.attempts.finish(executor, ends))
        except Unavailable as away:
            # The lease there frees them, or `release_unknown` does.
            logger.warning("claim_left", shard=number, detail=away.detail)

    async def start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        """See the port."""

        async def start(number: int, share: Sequence[Began]) -> Sequence[UUID]:
            return await self._fleet.on(number, lambda store: store.attempts.start(executor, share))

        return await self._by_token(starts, start)

    async def finish(self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun = NO_USAGE) -> Sequence[UUID]:
        """See the port."""

        async def finish(number: int, share: Sequence[Outcome]) -> Sequence[UUID]:
            used = {each.run_id: usage[each.run_id] for each in share if each.run_id in usage} if usage else NO_USAGE
            return await self._fleet.on(number, lambda store: store.attempts.finish(executor, share, used))

        return await self._by_token(outcomes, finish)

    async def _by_token(self, items: Sequence[Any], call: Any) -> Sequence[UUID]:
        """Each item to the shard that drew its token; what is refused there is offered to the others, since its
        namespace may have moved, or a token of the time before there were several shards may say nothing."""
        numbers = self._fleet.numbers()
        shares = _shares(items, numbers)
        refused = await together({number: call(number, share) for number, share in shares.items()})
        left = {number: set(ids) for number, ids in refused.items() if ids}
        if not left or len(numbers) == 1:
            return [run_id for ids in refused.values() for run_id in ids]
        for number in numbers:
            again = [
                item
                for asked, share in shares.items()
                if asked != number and left.get(asked)
                for item in share
                if item.run_id in left[asked]
            ]
            if not again:
                continue
            try:
                still = set(await call(number, again))
            except StoreUnavailable:
                continue  # what is there is freed with the lease, and runs again
            for ids in left.values():
                ids -= {item.run_id for item in again if item.run_id not in still and not _is_return(item)}
        remaining = set().union(*left.values()) if left else set()
        return [item.run_id for item in items if item.run_id in remaining]


def _is_return(item: Began | Outcome) -> bool:
    """Check whether a run is given back: a shard that does not know it takes that for a repeat."""
    return isinstance(item, Outcome) and item.state in _RETURNS


def _shares(items: Sequence[Any], numbers: Sequence[int]) -> dict[int, list[Any]]:
    """The items by the shards that drew their tokens; those of no shard that is known go to the first.

    Every outcome comes by here: a call for each of them cost an executor 0.8 us a run, this takes 0.04.
    """
    by_bits: defaultdict[int, list[Any]] = defaultdict(list)
    for item in items:
        by_bits[item.token % SHARD_STEP].append(item)
    drew = {shard_bits(number): number for number in reversed(numbers)}
    shares: dict[int, list[Any]] = {}
    for bits, share in by_bits.items():
        shares.setdefault(drew.get(bits, numbers[0]), []).extend(share)
    return shares
