"""An API that buffers requests, a broker in memory, a recorder that is driven by hand, and a store that can be away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.app import RUNS_KEPT_SECONDS, Bell, World, world
from tests.support.kinds import builtin_kinds
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signing import SharedSecrets
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.control.buffered.application import RequestApplier
from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.context import ControlContext
from tickwise.control.tasks import TaskCheck
from tickwise.domain.errors import StoreUnavailable
from tickwise.observability.metrics import Metrics
from tickwise.ports.broker import REQUESTS, Broker, Consumer, Delivery
from tickwise.ports.clock import Clock
from tickwise.ports.shared_state import SharedState
from tickwise.ports.store.wrapping import Call, WrappedStore
from tickwise.roles.recorder.requests import RequestsRecorder
from tickwise.roles.shared.signatures import RequestCheck, Unsigned

CLUSTER = "a-cluster"


class Severed(WrappedStore):
    """A store whose link can be cut."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.store = store
        self.away = False
        self.failing: set[str] = set()
        """Methods that it does not reach."""

    def around(self, name: str, _call: Call) -> Call:
        """Cut as the test says when it is called."""

        part, _, method = name.rpartition(".")

        async def through(*values: Any, **named: Any) -> Any:
            # Looked up anew: a test may put something else in its place.
            call = getattr(getattr(self.part, part) if part else self.part, method)
            if self.away or name in self.failing:
                raise StoreUnavailable("the link is cut")
            return await call(*values, **named)

        return through


@dataclass(slots=True)
class Buffered:
    """Everything that such a test may touch."""

    world: World
    link: Severed
    exchange: Exchange
    broker: MemoryBroker
    applier: RequestApplier
    """The recorder's."""
    recorder: RequestsRecorder
    consumer: Consumer
    clock: VirtualClock
    metrics: Metrics

    @property
    def ingest(self) -> BufferedIngest:
        """The part of the API that takes requests in."""
        ingest = self.world.control.requests._ingest
        assert ingest is not None
        return ingest

    async def batch(self) -> list[Delivery]:
        """The messages that wait for the recorder."""
        return list(await self.consumer.take(10_000, 0))

    async def apply(self) -> None:
        """Let the recorder apply all that waits."""
        while batch := await self.batch():
            await self.recorder.apply(batch)
            await self.consumer.done(batch)

    async def mark(self) -> None:
        """Let a mark flow through every partition."""
        await self.recorder._mark()
        await self.apply()


def new_applier(store: Any, clock: Clock, metrics: Metrics) -> RequestApplier:
    """An applier of requests to the store, as wiring makes it for a recorder."""
    context = ControlContext(
        sandboxes=False,
        store=store,
        blobs=open_blobs("memory://"),
        signals=Bell(),
        clock=clock,
        runs_kept_seconds=RUNS_KEPT_SECONDS,
    )
    return RequestApplier(context, TaskCheck({kind.name: kind for kind in builtin_kinds()}), counters=metrics)


def new_recorder(
    store: Any,
    broker: Broker,
    clock: Clock,
    metrics: Metrics,
    *,
    applier: RequestApplier | None = None,
    check: RequestCheck | None = None,
) -> RequestsRecorder:
    """One that applies requests by this applier, or one of its own."""
    applier = applier or new_applier(store, clock, metrics)
    return RequestsRecorder(applier=applier, store=store, broker=broker, clock=clock, telemetry=metrics, check=check)


@asynccontextmanager
async def buffered(
    *,
    start: float = 1_800_000_000.0,
    shared_state: SharedState | None = None,
    partitions: int = 3,
    api_keys: Sequence[str] = (),
    recorder_keys: Sequence[str] = (),
    unsigned: Unsigned = Unsigned.OLDER,
    cluster: str | None = None,
    **options: Any,
) -> AsyncIterator[Buffered]:
    """An API in front of a broker, and what applies its requests; each with the secrets that it is given.
    `cluster`: the recorder's store has another name than the API's."""
    clock = VirtualClock(start)
    link = Severed(MemoryStore(clock))
    exchange = Exchange(partitions=partitions)
    broker = MemoryBroker(exchange, clock)
    await broker.open(CLUSTER)
    metrics = Metrics()
    consumer = broker.consumer([REQUESTS], "the test")
    signer = SharedSecrets(api_keys) if api_keys else None
    async with AsyncExitStack() as stack:
        stack.push_async_callback(broker.close)
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        here = await stack.enter_async_context(
            world(clock=clock, store=link, broker=broker, signer=signer, shared_state=shared_state, **options)
        )
        check = RequestCheck(
            SharedSecrets(recorder_keys) if recorder_keys else None,
            cluster=cluster or link.store.upkeep.cluster_id,
            unsigned=unsigned,
            kept_seconds=RUNS_KEPT_SECONDS,
        )
        applier = new_applier(link, clock, metrics)
        recorder = new_recorder(link, broker, clock, metrics, applier=applier, check=check)
        try:
            yield Buffered(here, link, exchange, broker, applier, recorder, consumer, clock, metrics)
        finally:
            link.away = False
