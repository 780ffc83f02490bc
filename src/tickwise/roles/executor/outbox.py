"""What an executor has not told the store yet: starts worth recording, and outcomes.

    began ──► starts ───(gathered 50 ms)──► attempts_start  ──► refused: kill it
    ended ──► outcomes ─(gathered, ─────┬─► attempts_finish ──► refused: forget it
              unless runs may wait for it)
                                        └─► or, as the settings say, the broker (`result_publisher.py`)

Invariant: an outcome leaves the box only when the store has accepted or refused it, or when its executor was buried.
What the broker has is still in the box. The last outcomes that were taken are remembered: a store that is set back
(`reconciliation.py`) hears of them again.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from tickwise.domain.model import Outcome
from tickwise.domain.retry import BEGUN_UNTOLD
from tickwise.ports.clock import Clock
from tickwise.ports.store import Began, Runs
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.outcomes import in_whole_characters
from tickwise.roles.executor.result_publisher import Publisher
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import Telemetry, wait_for

STARTS_SECONDS: Final = 0.05
"""How long starts are gathered before they are recorded."""
PRESSED_SECONDS: Final = 0.25
"""How long an outcome waits more while a burst starts: what is due is late already, what ended is only unrecorded."""

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
    """One executor's."""

    def __init__(
        self,
        *,
        runs: Runs,
        clock: Clock,
        telemetry: Telemetry,
        batch: int,
        flush_seconds: float,
        emptied: asyncio.Event,
        teller: OutcomeWriter,
        publisher: Publisher | None = None,
    ) -> None:
        """`emptied` is set whenever the last outcome was taken by the store."""
        self.outcomes_more = asyncio.Event()
        self.starts_more = asyncio.Event()
        self._runs = runs
        self._clock = clock
        self._telemetry = telemetry
        self._batch = batch
        self._flush_seconds = flush_seconds
        self._emptied = emptied
        self._teller = teller
        self._publisher = publisher
        self._urgent = asyncio.Event()
        """Set while one of the outcomes is not to be gathered with others."""
        self._outcomes: collections.deque[tuple[Outcome, RunnerCapacity]] = collections.deque()
        self._under_way: list[tuple[Outcome, RunnerCapacity]] = []
        self._starts: list[Began] = []
        self._lateness: list[float] = []
        self._remembered: collections.deque[tuple[int, bytes]] = collections.deque()
        """Batches: how many outcomes, and these."""
        self._remembered_count = self._remembered_bytes = 0

    def __len__(self) -> int:
        """How many outcomes the store is not known to have."""
        published = 0 if self._publisher is None else self._publisher.count
        return len(self._outcomes) + len(self._under_way) + published

    def add(self, outcome: Outcome, intake: RunnerCapacity, *, urgent: bool = False) -> None:
        """One more outcome. An urgent one goes to the store at once, with all that were gathered so far."""
        intake.unrecorded += 1
        self._outcomes.append((outcome, intake))
        if urgent:
            self._urgent.set()
        if not self.outcomes_more.is_set():
            self.outcomes_more.set()

    def add_many(
        self, outcomes: Sequence[tuple[Outcome, RunnerCapacity]], late_seconds: Sequence[float], *, urgent: bool
    ) -> None:
        """Many more, and how much after they were due the first attempts among them began."""
        if urgent:
            self._urgent.set()
        for _, intake in outcomes:
            intake.unrecorded += 1
        self._outcomes.extend(outcomes)
        self._lateness += late_seconds
        if outcomes:
            self.outcomes_more.set()

    def late(self, seconds: float) -> None:
        """A first attempt began so much after it was due."""
        self._lateness.append(seconds)

    def start(self, began: Began) -> None:
        """A start worth recording."""
        self._starts.append(began)
        self.starts_more.set()

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
        """What was told of these runs under these tokens, as far as that is remembered."""
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
        """The executor was buried: nothing of this counts any more."""
        self._starts.clear()
        self._remembered.clear()
        self._remembered_count = self._remembered_bytes = 0
        waiting = [*self._outcomes]
        self._outcomes.clear()
        for _, intake in waiting:
            intake.recorded(1)
        if self._publisher is not None:
            self._publisher.forget()

    # ------------------------------------------------------------------ steps of the executor's loops

    async def send_outcomes(self, number: Callable[[], int], *, pressed: bool = False) -> float:
        """Tell one batch. `number` is the executor's, asked before and after: a buried one's outcomes are dropped.

        `pressed`: a burst waits to start, and starts come before ends, but for urgent ones.
        """
        if not self._outcomes:
            return 3600.0
        if pressed:
            await wait_for(self._urgent, PRESSED_SECONDS)
        elif len(self._outcomes) < self._batch:
            await wait_for(self._urgent, self._flush_seconds)
        self._urgent.clear()
        outcomes = self._outcomes
        batch = self._under_way = [outcomes.popleft() for _ in range(min(self._batch, len(outcomes)))]
        sender = number()
        try:
            await self._pass_on(sender, [outcome for outcome, _ in batch])
        except BaseException:
            # Whatever it was, the store's word on these is still out.
            if sender == number():
                outcomes.extendleft(reversed(batch))
            else:
                for _, intake in batch:
                    intake.recorded(1)
            raise
        finally:
            self._under_way = []
        self._passed_on(batch)
        return 0.0 if outcomes else 3600.0

    async def _pass_on(self, executor: int, outcomes: Sequence[Outcome]) -> None:
        """To the store, or to the broker: what is in doubt (a lease that was over) goes the short way."""
        publisher = self._publisher
        if publisher is not None and publisher.takes(outcomes):
            direct = any(outcome.reason in BEGUN_UNTOLD for outcome in outcomes)
            if not direct and await publisher.publish(executor, outcomes):
                return
        self._teller.told(outcomes, await self._teller.tell(executor, outcomes))

    def _passed_on(self, batch: Sequence[tuple[Outcome, RunnerCapacity]]) -> None:
        counts = collections.Counter(intake for _, intake in batch)
        for intake, count in counts.items():
            intake.recorded(count)
        lateness, self._lateness = self._lateness, []
        self._telemetry.started(lateness)
        if not self._outcomes:
            self._emptied.set()
        self._remember(batch)

    async def ask_published(self, number: Callable[[], int]) -> float:
        """Look what was applied of what the broker has; how long until the next look."""
        if self._publisher is None:
            return 3600.0
        pause = await self._publisher.ask(number())
        if not self._publisher.count:
            self._emptied.set()
        return pause

    async def tell_published(self, executor: int) -> None:
        """Wait for no recorder: tell the store directly of what the broker has."""
        if self._publisher is not None:
            await self._publisher.tell_all(executor)

    async def send_starts(self, executor: int, lives: Callable[[Began], bool]) -> Sequence[Began]:
        """Record what began and still lives; the refused. The store refuses by run: an old attempt's start, which it
        would refuse, must not go with the one of the attempt that lives."""
        await self._clock.sleep(STARTS_SECONDS)
        batch, self._starts = self._starts, []
        batch = [began for began in batch if lives(began)]
        if not batch:
            return []
        try:
            refused = set(await self._runs.attempts_start(executor, batch))
        except BaseException:
            self._starts = batch + self._starts
            raise
        return [began for began in batch if began.run_id in refused]
