"""Outcomes on their way to the store through the broker, kept until the store has them.

    outcomes ──► Results, numbered ──► broker ──► recorder ──► store, and the number up to which it applied them
        │                                                            │
        └── kept here ◄──── asked now and then ──────────────────────┘
              └── nothing was applied for `PATIENCE_SECONDS`: told directly; twice is once

Invariant: an outcome is kept until the store says that it was applied, got it directly, or expired its executor.
So a broker that loses it costs time: a number counts as applied only if all before it are, or are settled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from tickwise.domain.errors import TickwiseError
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, UsageByRun
from tickwise.domain.trace_context import NO_TRACES, TracesByRun
from tickwise.ports.broker import RESULTS, Broker, Message
from tickwise.ports.clock import Clock
from tickwise.ports.signing import ExecutorKey
from tickwise.ports.store import MarkedChannel, MarkStore
from tickwise.roles.shared.messages import Results, encode
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import IDLE_SECONDS
from tickwise.roles.shared.signatures import ResultsSigning, signed

ASK_SECONDS: Final = 0.1
"""The interval at which the store is asked what was applied."""
PATIENCE_SECONDS: Final = 10.0
"""The time without an applied result after which recorders count as away."""
SEND_SECONDS: Final = 3.0
"""The longest time that a broker may take to confirm; then the store is told."""
AWAY_SECONDS: Final = 5.0
"""The pause after a broker did not confirm."""
MAX_KEPT: Final = 20_000
"""Outcomes that are kept, …"""
KEPT_BYTES: Final = 32 << 20
"""… and what their texts may take; beyond that the store is told directly: recorders are slower than what ends."""
MESSAGE_BYTES: Final = 256 << 10
"""A message is closed when the texts in it come to this."""
OUTCOME_BYTES: Final = 512 << 10
"""An outcome with longer texts does not go through the broker, whose messages are bounded."""

logger = structlog.get_logger("tickwise.executor")


class Kept(NamedTuple):
    """The outcomes of one message."""

    number: int
    outcomes: Sequence[Outcome]
    size: int
    usage: UsageByRun = NO_USAGE
    traces: TracesByRun = NO_TRACES


class Publisher:
    """Publishes the outcomes of one executor."""

    def __init__(
        self,
        broker: Broker,
        *,
        marks: MarkStore,
        clock: Clock,
        writer: OutcomeWriter,
        signing: ResultsSigning | None = None,
    ) -> None:
        """`signing`: with what is signed; None: nothing is, for tests."""
        self.kept_more = asyncio.Event()
        """Set when something is kept."""
        self.count = 0
        """Outcomes that are kept."""
        self._broker = broker
        self._marks = marks
        self._clock = clock
        self._writer = writer
        self._signing = signing
        self._key: ExecutorKey | None = None
        self._key_of = 0
        """The executor that registered the key."""
        self._kept: deque[Kept] = deque()
        self._size = 0
        self._executor = 0
        """The executor that the message numbers belong to."""
        self._number = 0
        self._expiries = 0
        """Counted by `forget`. Messages that were under way at an expiry count no more."""
        self._avoided_until = float("-inf")
        self._moved_at = 0.0

    def new_key(self) -> ExecutorKey | None:
        """A key pair for an executor that is about to join; None: it will sign nothing."""
        return None if self._signing is None else self._signing.keys.new()

    def joined(self, executor: int, key: ExecutorKey | None) -> None:
        """Use this executor number from now on, and the key whose public half is registered under it."""
        self._key_of, self._key = executor, key

    def takes(self, outcomes: Sequence[Outcome]) -> bool:
        """Check whether these outcomes are to go through the broker now."""
        return (
            self._clock.monotonic() >= self._avoided_until
            and self._broker.state().reachable
            and self.count + len(outcomes) <= MAX_KEPT
            and self._size <= KEPT_BYTES
            and all(size_of(outcome) <= OUTCOME_BYTES for outcome in outcomes)
        )

    async def publish(
        self,
        executor: int,
        outcomes: Sequence[Outcome],
        usage: UsageByRun = NO_USAGE,
        traces: TracesByRun = NO_TRACES,
    ) -> bool:
        """Publish the outcomes; True if the broker has them durably. If False, the broker may have them all the same:
        report them to the store, and a recorder's report of them later changes nothing."""
        if executor != self._executor:
            # Messages are numbered anew for each executor number. Outcomes of the expired number are stale.
            self.forget()
            self._executor, self._number = executor, 0
        batches, expiries = [*_batches(outcomes)], self._expiries
        first = self._number + 1
        key, since = b"%d" % executor, self._kept[0].number if self._kept else first
        try:
            messages = [
                self._signed(executor, Message(encode(Results.of(executor, number, batch, since, usage, traces)), key))
                for number, (batch, _) in enumerate(batches, first)
            ]
        except (ValueError, TypeError) as wrong:
            # A text that is none, such as half a pair of surrogates: the store knows what to put in its place.
            return _unpublished(outcomes, str(wrong))
        # Numbers are never used again: of one that was not confirmed nobody knows whose outcomes it stands for.
        self._number += len(batches)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._broker.send(RESULTS, messages)
        except (TickwiseError, TimeoutError) as failure:
            self._avoided_until = self._clock.monotonic() + AWAY_SECONDS
            return _unpublished(outcomes, str(failure) or "no answer in time")
        if expiries != self._expiries:
            return True
        if not self._kept:
            self._moved_at = self._clock.monotonic()
        self._kept += [Kept(number, batch, size, usage, traces) for number, (batch, size) in enumerate(batches, first)]
        self._size += sum(size for _, size in batches)
        self.count += len(outcomes)
        self.kept_more.set()
        return True

    def _signed(self, executor: int, message: Message) -> Message:
        """With the key of this executor. Raises `ValueError` if the executor has another number by now."""
        if self._signing is None:
            return message
        if self._key is None or self._key_of != executor:
            raise ValueError("the key of this executor is gone")
        return signed(message, self._key, broker=self._broker, channel=RESULTS, cluster=self._signing.cluster)

    def tokens(self) -> Iterator[int]:
        """Of all that is kept."""
        for kept in self._kept:
            for outcome in kept.outcomes:
                yield outcome.token

    def pairs(self) -> Iterator[tuple[UUID, int]]:
        """Runs and tokens of all that is kept."""
        for kept in self._kept:
            for outcome in kept.outcomes:
                yield outcome.run_id, outcome.token

    def forget(self) -> None:
        """Drop all outcomes: the store expired the executor."""
        self._kept.clear()
        self.count = self._size = 0
        self._expiries += 1

    async def ask(self, executor: int) -> float:
        """Look up the applied messages; the time to the next look."""
        if not self._kept:
            return IDLE_SECONDS
        expiries, marks = self._expiries, await self._marks.get(MarkedChannel.RESULTS, [executor])
        marked = marks.get(executor, 0)
        if expiries != self._expiries:
            return 0.0
        now = self._clock.monotonic()
        while self._kept and self._kept[0].number <= marked:
            self._moved_at = now
            self._drop_first()
        if self._kept and now - self._moved_at >= PATIENCE_SECONDS:
            logger.warning("results_unapplied", count=self.count, seconds=round(now - self._moved_at, 1))
            await self.write_all(executor)
        return ASK_SECONDS if self._kept else IDLE_SECONDS

    async def write_all(self, executor: int) -> None:
        """Tell the store directly of all that is kept. A recorder that takes them from the broker later counts them."""
        while self._kept:
            kept = self._kept[0]
            traces = {each.run_id: kept.traces[each.run_id] for each in kept.outcomes if each.run_id in kept.traces}
            await self._writer.write(executor, kept.outcomes, kept.usage, traces)
            if self._kept and self._kept[0] is kept:
                self._drop_first()

    def _drop_first(self) -> None:
        kept = self._kept.popleft()
        self.count -= len(kept.outcomes)
        self._size -= kept.size


def _unpublished(outcomes: Sequence[Outcome], detail: str) -> bool:
    logger.warning("results_unpublished", count=len(outcomes), detail=detail)
    return False


def size_of(outcome: Outcome) -> int:
    """Bytes of its texts, about."""
    return len(outcome.result or "") + len(outcome.error or "")


def _batches(outcomes: Sequence[Outcome]) -> Iterator[tuple[Sequence[Outcome], int]]:
    """Parts that fit into a message each, with the size of their texts."""
    batch: list[Outcome] = []
    size = 0
    for outcome in outcomes:
        if batch and size + size_of(outcome) > MESSAGE_BYTES:
            yield batch, size
            batch, size = [], 0
        batch.append(outcome)
        size += size_of(outcome)
    if batch:
        yield batch, size
