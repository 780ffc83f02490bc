"""Applies messages of the broker to the store, in batches: the frame of every recorder, and the recorder of results.

    take ──► apply ──► done
      ▲        ├── Unavailable: the same batch again, without a limit of tries; nothing is confirmed
      │        └── any other error: one by one; a message that fails alone becomes a dead letter, the others go on
      └── from the last message that was confirmed, by the next member that has the partition

Invariants: a message is confirmed only after it is applied or written as a dead letter. Applying is idempotent, because
the messages of a recorder that died, or stood still for too long, are applied again by another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.domain.model import Outcome
from tickwise.domain.observing.usage import NO_USAGE, ResourceUsage
from tickwise.domain.trace_context import NO_TRACES, TraceContext, TracesByRun
from tickwise.observability.buffers import Buffer
from tickwise.observability.tracing import Tracer
from tickwise.ports.broker import RESULTS, Broker, Channel, Delivery
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals
from tickwise.ports.store import MarkedChannel, Store
from tickwise.roles.shared.dead_letter_writer import DeadLetterWriter, Rejected
from tickwise.roles.shared.messages import Results, UnreadableMessage, decode
from tickwise.roles.shared.outcome_writer import OutcomeWriter
from tickwise.roles.shared.service import Loop, Service, Telemetry
from tickwise.roles.shared.signatures import RefusalReason, ResultCheck, Unverified

TAKE_SECONDS: Final = 1.0
"""The wait for the first message."""
MAX_RESULTS: Final = 200
"""Messages with results that are applied at once: each holds the outcomes of one executor in a few milliseconds."""
VERIFIED_AT_ONCE: Final = 50
"""Messages that are verified in one turn of the loop: some 5 ms."""
MAX_OUTCOMES: Final = 2_000
"""Outcomes in one transaction, as many as an executor writes at once."""
MAX_REMEMBERED: Final = 10_000
"""The executors whose last applied message number is remembered; for any other executor the store is asked."""
EXECUTORS_AT_ONCE: Final = 4
"""The executors whose results are applied at the same time: a transaction each, which waits for the disk."""

logger = structlog.get_logger("tickwise.recorder")


class Recorder(Service):
    """The frame of a recorder. A subclass applies a batch."""

    name = "recorder"

    def __init__(self, *, broker: Broker, clock: Clock, telemetry: Telemetry, channel: Channel, most: int) -> None:
        """`most` messages are applied at once."""
        super().__init__()
        self._clock = clock
        self._channel = channel
        self._most = most
        self._telemetry = telemetry
        self._dead_letters = DeadLetterWriter(
            broker, role=f"recorder of {channel.name}", clock=clock, telemetry=telemetry
        )
        self._consumer = broker.consumer([channel], f"recorders.{channel.name}")
        self._batch: Sequence[Delivery] = ()
        self._rejected: list[Delivery] = []
        """Dead letters of the present take that are not confirmed yet."""

    async def apply(self, batch: Sequence[Delivery]) -> None:
        """Apply a batch to the store, in order as far as the order matters. The same batch may be applied again.

        Raises `Unavailable`: try again later. `UnreadableMessage`, or any other error: one message cannot be applied.
        """
        raise NotImplementedError

    async def start(self) -> None:
        """Join the other recorders of this channel, and begin."""
        self._telemetry.expects(self._channel.name, [*RefusalReason])
        await self._consumer.start()
        self.spawn(Loop(f"record {self._channel.name}", self.step, self._clock))

    async def stop(self) -> None:
        """End. Messages under way come again to the next consumer."""
        await super().stop()
        await self._consumer.stop()

    async def step(self, wait_seconds: float = TAKE_SECONDS) -> float:
        """Apply the rest of the last take, or the messages that are there or come within this time."""
        if not self._batch and not self._rejected:
            self._batch = await self._consumer.take(self._most, wait_seconds)
        if self._batch:
            await self._apply_all(self._batch)
        if done := [*self._rejected, *self._batch]:
            self._batch, self._rejected = (), []
            await self._consumer.done(done)
        return 0.0

    async def _apply_all(self, batch: Sequence[Delivery]) -> None:
        try:
            await self.apply(batch)
        except Unavailable:
            raise
        except Exception as wrong:
            if len(batch) == 1:
                await self._write_dead_letter(batch[0], wrong)
                return
            if not isinstance(wrong, UnreadableMessage):
                logger.exception("batch_inapplicable", channel=self._channel.name, messages=len(batch))
            for delivery in batch:
                await self._apply_all([delivery])

    async def _write_dead_letter(self, delivery: Delivery, wrong: Exception) -> None:
        await self._write_dead_letters([(delivery, wrong)])

    async def _write_dead_letters(self, wrongs: Sequence[tuple[Delivery, Exception]]) -> None:
        """Write dead letters in one send: a client that can write to the channel can fill it with bad messages."""
        if not wrongs:
            return
        await self._dead_letters.write_many([Rejected(delivery, _said(wrong)) for delivery, wrong in wrongs])
        for _, wrong in wrongs:
            if isinstance(wrong, Unverified):
                self._telemetry.unverified(self._channel.name, wrong.reason)
        # Not written twice: the rest of the batch may be tried again for long.
        parked = [delivery for delivery, _ in wrongs]
        self._rejected += parked
        gone = {id(delivery) for delivery in parked}
        self._batch = [each for each in self._batch if id(each) not in gone]

    def buffers(self) -> Mapping[str, Buffer]:
        """The waiting messages, and their limit."""
        return {f"recorder_{self._channel.name}": Buffer(len(self._batch), self._most)}


def _said(wrong: Exception) -> str:
    return str(wrong) if isinstance(wrong, UnreadableMessage) else f"{type(wrong).__name__}: {wrong}"


class ResultsRecorder(Recorder):
    """Applies the outcomes of attempts, and confirms them to their executors."""

    def __init__(
        self,
        *,
        store: Store,
        broker: Broker,
        signals: Signals,
        clock: Clock,
        telemetry: Telemetry,
        check: ResultCheck | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`check` verifies the maker of a message; None: no check, for tests. `tracer` records the writes of attempts
        that are recorded."""
        super().__init__(broker=broker, clock=clock, telemetry=telemetry, channel=RESULTS, most=MAX_RESULTS)
        self._marked = store.marks
        self._check = check
        self._is_traced = tracer is not None
        self._applied: dict[int, int] = {}
        """The number of the last message before which all are applied or settled, by executor; the latest executors."""
        self._writer = OutcomeWriter(store.attempts, telemetry, signals, tracer)

    async def apply(self, batch: Sequence[Delivery]) -> None:
        """Apply the outcomes of a batch: those of one executor in order, those of several side by side."""
        messages = (
            [decode(Results, delivery.value) for delivery in batch]
            if self._check is None
            else (await self._verified(self._check, batch))
        )
        outcomes: dict[int, list[Outcome]] = {}
        usage: dict[int, dict[UUID, ResourceUsage]] = {}
        traces: dict[int, dict[UUID, TraceContext]] = {}
        for message in messages:
            outcomes.setdefault(message.executor, []).extend(message.outcomes)
            if message.usage:
                usage.setdefault(message.executor, {}).update(message.usage_by_run())
            if message.traces and self._is_traced:
                traces.setdefault(message.executor, {}).update(message.traces_by_run())
        await self._finish(outcomes, usage, traces)
        await self._marked.put(MarkedChannel.RESULTS, await self._marks(messages))

    async def _verified(self, check: ResultCheck, batch: Sequence[Delivery]) -> Sequence[Results]:
        """The messages that pass the check; the others go to the dead-letter topic."""
        await check.learn(batch)
        messages: list[Results] = []
        unsigned = 0
        wrongs: list[tuple[Delivery, Exception]] = []
        for place, delivery in enumerate(batch, 1):
            if place % VERIFIED_AT_ONCE == 0:
                await self._clock.sleep(0)
            try:
                maker = check.verify(delivery)
                message = decode(Results, delivery.value)
                if message.executor != maker.executor:
                    raise Unverified(
                        RefusalReason.FORGED, f"executor {maker.executor} speaks of results of {message.executor}"
                    )
            except UnreadableMessage as wrong:
                wrongs.append((delivery, wrong))
            else:
                messages.append(message)
                unsigned += not maker.signed
        await self._write_dead_letters(wrongs)
        if unsigned:
            self._telemetry.unsigned(self._channel.name, unsigned)
        return messages

    async def _marks(self, messages: Sequence[Results]) -> Mapping[int, int]:
        """The numbers to confirm to executors. A missing number may still come: later ones are
        applied, and confirmed only when the executor no longer waits for the missing one."""
        marks: dict[int, int] = {}
        for message in messages:
            executor = message.executor
            known = marks.get(executor, self._applied.pop(executor, None))
            if known is None or message.number > max(known, message.since - 1) + 1:
                # The remembered number may be old: another recorder may have had this executor's partition meanwhile.
                marked = await self._marked.get(MarkedChannel.RESULTS, [executor])
                known = max(known or 0, int(marked.get(executor, 0)))
            known = max(known, message.since - 1)
            marks[executor] = message.number if message.number == known + 1 else known
        self._applied |= marks
        while len(self._applied) > MAX_REMEMBERED:
            del self._applied[next(iter(self._applied))]
        return marks

    async def _finish(
        self,
        outcomes: Mapping[int, Sequence[Outcome]],
        usage: Mapping[int, Mapping[UUID, ResourceUsage]],
        traces: Mapping[int, TracesByRun],
    ) -> None:
        turns = asyncio.Semaphore(EXECUTORS_AT_ONCE)

        async def write(executor: int, ended: Sequence[Outcome]) -> None:
            for begin in range(0, len(ended), MAX_OUTCOMES):
                part = ended[begin : begin + MAX_OUTCOMES]
                known = traces.get(executor, NO_TRACES)
                recorded = {each.run_id: known[each.run_id] for each in part if each.run_id in known} if known else {}
                async with turns:
                    refused: Sequence[UUID] = await self._writer.write(
                        executor, part, usage.get(executor, NO_USAGE), recorded
                    )
                self._writer.count(part, refused)

        told = await asyncio.gather(
            *(write(executor, ended) for executor, ended in outcomes.items()), return_exceptions=True
        )
        for failure in told:
            if isinstance(failure, BaseException):
                raise failure
