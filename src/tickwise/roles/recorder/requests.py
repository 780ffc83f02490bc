"""Brings the requests that an API answered with 202 from the broker to the store.

    batch ──► verified, decoded ──► the applier ──► counted; marks are written to the store
                 └── not one of ours ──► dead-letter topic

Invariant: a delivery is done only when it is applied, or in the dead-letter topic. The applier
(`control.buffered.application`), which the composition root hands in, defines the meaning of a request.

A mark is a message without content. Each recorder sends one to every partition each second; when it comes back, all
requests that were sent before it are applied, and the recorder writes the mark's time to the store. By that time a
reader can tell a pending request from an absent one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tickwise.ports.broker import REQUESTS, Broker, Delivery, Message
from tickwise.ports.clock import Clock
from tickwise.ports.store import MarkedChannel, Store
from tickwise.roles.recorder.role import Recorder
from tickwise.roles.shared.messages import Request, UnreadableMessage, decode
from tickwise.roles.shared.service import Loop, Telemetry
from tickwise.roles.shared.signatures import RequestCheck

NAME_MAX: Final = 200
"""Characters of a namespace, and of the name of a key."""
MAX_REQUESTS: Final = 500
"""Requests that are applied at once: as many creates as one statement stores well."""
MARK_SECONDS: Final = 1.0
MARKED_SECONDS_LEAST: Final = 0.5
"""The least time between two marks, unless there is nothing else to do."""


class Applied(Telemetry, Protocol):
    """The reports of the request recorder to the metrics."""

    def applied(self, *, done: int, failed: int) -> None:
        """Count requests that were applied, and requests that failed."""
        ...


class BatchOutcome(Protocol):
    """The result of a batch of requests."""

    @property
    def done(self) -> int:
        """Requests that were applied."""
        ...

    @property
    def failed(self) -> int:
        """Requests that were refused, and are on record as such."""
        ...


class Applier(Protocol):
    """Carries requests out."""

    async def apply(self, requests: Sequence[Request]) -> BatchOutcome:
        """Apply these, in their order. Applying one again changes nothing. Raises `Unavailable`: later; any other
        error: one of them cannot be applied."""
        ...


class RequestsRecorder(Recorder):
    """The role."""

    def __init__(
        self,
        *,
        applier: Applier,
        store: Store,
        broker: Broker,
        clock: Clock,
        telemetry: Applied,
        check: RequestCheck | None = None,
    ) -> None:
        """`check` verifies the maker of a message; None: no check, for tests."""
        super().__init__(broker=broker, clock=clock, telemetry=telemetry, channel=REQUESTS, most=MAX_REQUESTS)
        self._check = check
        self._applier = applier
        self._store = store
        self._broker = broker
        self._told = telemetry
        self._marks: dict[int, float] = {}
        self._marked_at = float("-inf")

    async def start(self) -> None:
        """Join the other recorders, and begin."""
        await super().start()
        self.spawn(Loop("mark requests", self._mark, self._clock))

    async def _mark(self) -> float:
        """Send a mark to each partition, behind all that was sent before."""
        places = range(self._broker.partitions(REQUESTS))
        self._broker.send_nowait(REQUESTS, [Message(b"", partition=place) for place in places])
        return MARK_SECONDS

    async def apply(self, batch: Sequence[Delivery]) -> None:
        """Apply the requests of a batch, and write its marks."""
        requests = await self._readable(batch)
        applied = await self._applier.apply(requests)
        self._told.applied(done=applied.done, failed=applied.failed)
        await self._put_marks(batch, busy=bool(requests))

    async def _readable(self, batch: Sequence[Delivery]) -> list[Request]:
        """The requests of a batch that pass the check; the others go to the dead-letter topic. A mark is no request."""
        requests: list[Request] = []
        wrongs: list[tuple[Delivery, Exception]] = []
        unsigned = 0
        for delivery in batch:
            if not delivery.value:
                continue
            try:
                is_signed = self._check is not None and self._check.verify(delivery)
                request = decode(Request, delivery.value)
                _check_asker(request)
                if self._check is not None and is_signed:
                    self._check.check_age(delivery, request)
            except UnreadableMessage as wrong:
                wrongs.append((delivery, wrong))
            else:
                requests.append(request)
                unsigned += not is_signed
        await self._write_dead_letters(wrongs)
        if unsigned and self._check is not None:
            self._telemetry.unsigned(self._channel.name, unsigned)
        return requests

    async def _put_marks(self, batch: Sequence[Delivery], *, busy: bool) -> None:
        for delivery in batch:
            if not delivery.value:
                self._marks[delivery.partition] = max(self._marks.get(delivery.partition, 0.0), delivery.sent_at)
        now = self._clock.monotonic()
        if not self._marks or (busy and now < self._marked_at + MARKED_SECONDS_LEAST):
            return
        await self._store.marks.put(MarkedChannel.REQUESTS, self._marks)
        self._marks, self._marked_at = {}, now


def _check_asker(request: Request) -> None:
    """Refuse names that no key has. Raises `UnreadableMessage`."""
    for what, name in (("namespace", request.namespace), ("principal", request.principal)):
        if not 1 <= len(name) <= NAME_MAX or "\0" in name:
            raise UnreadableMessage(f"the name of its {what} has 1 to {NAME_MAX} characters, and no U+0000")
