"""The outcomes that the store does not have yet.

    outcomes ─(gathered, unless other runs may wait for one)─┬─► outcome writer ──► store: accepted, or refused as stale
                                                             └─► as the settings say: broker (`result_publisher.py`)

Invariant: an outcome leaves the outbox only when the store accepted or refused it, or expired the executor. An outcome
that the broker has is still in the outbox. The last outcomes that the store took are remembered, so that
`reconciliation.py` can report them again to a store that was set back.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from tickwise.domain.errors import ShardUnavailable
from tickwise.domain.fencing import shard_bits
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, ResourceUsage, UsageByRun
from tickwise.domain.retry import BEGUN_UNTOLD
from tickwise.domain.trace_context import NO_TRACES, TraceContext, TracesByRun
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.outcomes import in_whole_characters
from tickwise.roles.executor.result_publisher import Publisher
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import IDLE_SECONDS, Telemetry, wait_for

PRESSED_SECONDS: Final = 0.25
"""The longer wait of an outcome while a burst starts: due runs are late already, ended ones are only unrecorded."""

MAX_REMEMBERED: Final = 20_000
"""Outcomes that are remembered: of a quiet executor those of hours, of the busiest those of a second, …"""
REMEMBERED_LENGTH: Final = 4_000
"""… without those whose result is longer, …"""
REMEMBERED_BYTES: Final = 32 << 20
"""… and so many bytes of them, of which 2 MB are in use as a rule."""

# As bytes: objects that are kept for a second, and freed then, cost an executor a quarter of its time.
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Outcome]).decode


class Outbox:
    """The outbox of one executor."""

    def __init__(
        self,
        *,
        lease: Lease,
        capacities: Sequence[RunnerCapacity],
        telemetry: Telemetry,
        batch: int,
        flush_seconds: float,
        emptied: asyncio.Event,
        writer: OutcomeWriter,
        publisher: Publisher | None = None,
    ) -> None:
        """`emptied` is set whenever the store took the last outcome."""
        self.more = asyncio.Event()
        """Set when an outcome waits."""
        self._lease = lease
        self._capacities = capacities
        self._telemetry = telemetry
        self._batch = batch
        self._flush_seconds = flush_seconds
        self._emptied = emptied
        self._writer = writer
        self._publisher = publisher
        self._urgent = asyncio.Event()
        """Set while one of the outcomes is not to be gathered with others."""
        self._outcomes: collections.deque[tuple[Outcome, RunnerCapacity]] = collections.deque()
        self._under_way: list[tuple[Outcome, RunnerCapacity]] = []
        self._usage: dict[tuple[UUID, int], ResourceUsage] = {}
        """By run and token, of the outcomes above that have one. Beside them: most have none, and cost nothing more."""
        self._traces: dict[int, tuple[Outcome, TraceContext]] = {}
        """The outcomes above whose attempts are recorded, by their identity as objects: a few of a batch are recorded,
        and a look by run and token took ten times as long for all the others."""
        self._lateness: list[float] = []
        self._remembered: collections.deque[tuple[int, bytes]] = collections.deque()
        """Batches: how many outcomes, and these."""
        self._remembered_count = self._remembered_bytes = 0
        self._away: frozenset[int] = frozenset()
        """The databases, by the bits of their tokens, whose outcomes wait until all others are sent."""
        self._expiries = 0
        """Counted by `forget`: the lease keeps the number of an expired executor until the executor has the next."""

    def __len__(self) -> int:
        """The number of outcomes that the store is not known to have."""
        published = 0 if self._publisher is None else self._publisher.count
        return len(self._outcomes) + len(self._under_way) + published

    def add(
        self,
        outcome: Outcome,
        capacity: RunnerCapacity,
        *,
        urgent: bool = False,
        usage: ResourceUsage | None = None,
    ) -> None:
        """One more outcome. An urgent one goes to the store at once, with all that were gathered so far."""
        capacity.unrecorded += 1
        if usage is not None:
            self._usage[outcome.run_id, outcome.token] = usage
        self._outcomes.append((outcome, capacity))
        if urgent:
            self._urgent.set()
        if not self.more.is_set():
            self.more.set()

    def trace(self, outcome: Outcome, attempt: TraceContext | None) -> None:
        """Note the span of an attempt; None: it is not recorded. The outcome, this very object, is added next."""
        if attempt is not None:
            self._traces[id(outcome)] = (outcome, attempt)

    def add_many(
        self, outcomes: Sequence[tuple[Outcome, RunnerCapacity]], late_seconds: Sequence[float], *, urgent: bool
    ) -> None:
        """Many more, and how much after they were due the first attempts among them began."""
        if urgent:
            self._urgent.set()
        for _, capacity in outcomes:
            capacity.unrecorded += 1
        self._outcomes.extend(outcomes)
        self._lateness += late_seconds
        if outcomes:
            self.more.set()

    def late(self, seconds: float) -> None:
        """A first attempt began so much after it was due."""
        self._lateness.append(seconds)

    def add_unheld(self, outcome: Outcome) -> None:
        """Add the outcome of a run that is not held here, and so has no runner. The first runner accounts for it."""
        self.add(outcome, self._capacities[0])

    def tokens(self) -> Iterator[int]:
        """Of all outcomes that wait."""
        for outcome, _ in (*self._under_way, *self._outcomes):
            yield outcome.token
        if self._publisher is not None:
            yield from self._publisher.tokens()

    def pairs(self) -> Iterator[tuple[UUID, int]]:
        """Runs and tokens of all outcomes that wait."""
        for outcome, _ in (*self._under_way, *self._outcomes):
            yield outcome.run_id, outcome.token
        if self._publisher is not None:
            yield from self._publisher.pairs()

    def remembered(self, pairs: Sequence[tuple[UUID, int]]) -> Mapping[tuple[UUID, int], Outcome]:
        """The outcomes reported for these runs under these tokens, as far as they are remembered."""
        wanted: Container[tuple[UUID, int]] = frozenset(pairs)
        return {
            pair: outcome
            for _, batch in self._remembered
            for outcome in _decode(batch)
            if (pair := (outcome.run_id, outcome.token)) in wanted
        }

    def _remember(self, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> None:
        kept = [each for each, _ in batch if each.result is None or len(each.result) <= REMEMBERED_LENGTH]
        if not kept:
            return
        try:
            text = _encode(kept)
        except UnicodeEncodeError:  # half a pair of surrogates, which the store replaces, too
            text = _encode([in_whole_characters(outcome) for outcome in kept])
        self._remembered.append((len(kept), text))
        self._remembered_count += len(kept)
        self._remembered_bytes += len(text)
        while len(self._remembered) > 1 and (
            self._remembered_count > MAX_REMEMBERED or self._remembered_bytes > REMEMBERED_BYTES
        ):
            count, oldest = self._remembered.popleft()
            self._remembered_count -= count
            self._remembered_bytes -= len(oldest)

    def forget(self) -> None:
        """Drop all outcomes, also those under way: the store expired the executor."""
        self._expiries += 1
        self._remembered.clear()
        self._remembered_count = self._remembered_bytes = 0
        waiting = [*self._outcomes]
        self._outcomes.clear()
        self._usage.clear()
        self._traces.clear()
        for _, capacity in waiting:
            capacity.recorded(1)
        if self._publisher is not None:
            self._publisher.forget()

    # ------------------------------------------------------------------ steps of the executor's loops

    async def send(self) -> float:
        """Send one batch. It is dropped if the store expires the executor meanwhile.

        While a burst waits to start, outcomes wait longer, unless one is urgent: starts come before ends.
        """
        if not self._outcomes:
            return IDLE_SECONDS
        if any(capacity.pressed() for capacity in self._capacities):
            await wait_for(self._urgent, PRESSED_SECONDS)
        elif len(self._outcomes) < self._batch:
            await wait_for(self._urgent, self._flush_seconds)
        self._urgent.clear()
        batch = self._under_way = self._next_batch()
        outcomes = self._outcomes
        expiries = self._expiries
        recorded = self._recorded(batch)
        traces = {outcome.run_id: attempt for outcome, attempt in recorded} if recorded else NO_TRACES
        try:
            await self._pass_on(self._lease.number, [outcome for outcome, _ in batch], self._usage_of(batch), traces)
        except BaseException as failure:
            # At any failure the store has neither accepted nor refused these.
            if expiries == self._expiries:
                outcomes.extendleft(reversed(batch))
                if isinstance(failure, ShardUnavailable) and self._leave_out(failure, batch):
                    return 0.0
            else:
                for _, capacity in batch:
                    capacity.recorded(1)
            raise
        finally:
            self._under_way = []
        if self._usage:
            for outcome, _ in batch:
                self._usage.pop((outcome.run_id, outcome.token), None)
        for outcome, _ in recorded:
            self._traces.pop(id(outcome), None)
        self._passed_on(batch)
        if expiries == self._expiries:
            self._remember(batch)
        return 0.0 if outcomes else IDLE_SECONDS

    def _next_batch(self) -> list[tuple[Outcome, RunnerCapacity]]:
        """The outcomes that are sent next: while the databases of some are away, those of the others."""
        outcomes = self._outcomes
        if self._away:
            there = [each for each in outcomes if shard_bits(each[0].token) not in self._away][: self._batch]
            if there:
                taken = {id(outcome) for outcome, _ in there}
                self._outcomes = collections.deque(each for each in outcomes if id(each[0]) not in taken)
                return there
            self._away = frozenset()
        return [outcomes.popleft() for _ in range(min(self._batch, len(outcomes)))]

    def _leave_out(self, away: ShardUnavailable, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> bool:
        """Leave those out of the next batch whose databases are away; False if there are no others in this one."""
        bits = frozenset(map(shard_bits, away.shards))
        if all(shard_bits(outcome.token) in bits for outcome, _ in batch):
            return False
        self._away = bits
        return True

    def _usage_of(self, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> UsageByRun:
        if not self._usage:
            return NO_USAGE
        found = [(each.run_id, self._usage.get((each.run_id, each.token))) for each, _ in batch]
        return {run_id: usage for run_id, usage in found if usage is not None}

    def _recorded(self, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> Sequence[tuple[Outcome, TraceContext]]:
        """Those of a batch, which is no longer in the queue, whose attempts are recorded, with their spans."""
        traces = self._traces
        if not traces or not self._outcomes:
            # As a rule a batch takes all that waits: then all that are recorded are in it, and no other is looked at.
            return [*traces.values()]
        return [traces[id(outcome)] for outcome, _ in batch if id(outcome) in traces]

    async def _pass_on(
        self, executor: int, outcomes: Sequence[Outcome], usage: UsageByRun, traces: TracesByRun
    ) -> None:
        """To the store, or to the broker: what is in doubt (a lease that was over) goes the short way."""
        publisher = self._publisher
        if publisher is not None and publisher.takes(outcomes):
            direct = any(outcome.reason in BEGUN_UNTOLD for outcome in outcomes)
            if not direct and await publisher.publish(executor, outcomes, usage, traces):
                return
        self._writer.count(outcomes, await self._writer.write(executor, outcomes, usage, traces))

    def _passed_on(self, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> None:
        counts = collections.Counter(capacity for _, capacity in batch)
        for capacity, count in counts.items():
            capacity.recorded(count)
        lateness, self._lateness = self._lateness, []
        self._telemetry.started(lateness)
        if not self._outcomes:
            self._emptied.set()

    async def ask_published(self) -> float:
        """Drop the published outcomes that the store has by now. Returns the seconds until the next look."""
        if self._publisher is None:
            return IDLE_SECONDS
        pause = await self._publisher.ask(self._lease.number)
        if not self._publisher.count:
            self._emptied.set()
        return pause

    async def empty(self) -> None:
        """Send all outcomes, and write those directly that wait for a recorder."""
        while self:
            await self.send()
            if self._publisher is not None:
                await self._publisher.write_all(self._lease.number)
