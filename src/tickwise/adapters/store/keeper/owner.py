"""`ShardOwner`: one shard in a keeper's process.

    wanted ──► wait for the shard ──► own it, build its state ──► serve it ──► lost, handed over, or the end
       ▲            └── not wanted any more                                          │
       └──────── give it back ◄──────── serve on until the next owner has read the log ◄┘

A second process that waits takes over by itself: at once if the first gave the shard back or is gone, and after the
lease if it is frozen. One that gives it back by intent serves until a process that waits has read the log, within
`HEIR_SECONDS`: so nobody waits for that reading. Which processes wait is for others to say (`balancer`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

import structlog

from tickwise.adapters.store.keeper.log import EffectLog
from tickwise.adapters.store.keeper.projection import Projection
from tickwise.adapters.store.keeper.shards import ShardIdentity
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.wire.pinning import Endpoint
from tickwise.adapters.store.keeper.wire.server import KeeperServer
from tickwise.adapters.store.keeper.wire.standby import StandbyLink
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.domain.errors import Unavailable
from tickwise.observability.keepers import ShardMetrics
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.store import Store

AGAIN_SECONDS: Final = 1.0
"""Between two tries to own a shard while its log cannot be reached."""
GATHER_SECONDS: Final = 0.02
"""A commit takes a node of Cassandra 2 to 4 ms of its processor, for 2 kB as for 90 kB. Under load this pause makes
them few."""

HEIR_SECONDS: Final = 10.0
"""The longest wait for a keeper that reads the log, while the shard is still served: 100,000 live runs take some 6 s on
a busy machine. An orchestrator gives a process 20 s and more to end."""
HEIR_LOOK_SECONDS: Final = 0.02
HEIR_LAG: Final = 100
"""Entries that the next owner may still have to read: under load 2 s of commits, in idle times none."""

logger = structlog.get_logger("tickwise.keeper")


class ShardOwner:
    """Run it as a task; it ends when `stop` is set, or with `Misconfigured`."""

    def __init__(
        self,
        shard: int,
        make_log: Callable[[], Awaitable[tuple[EffectLog, Clock]]],
        clock: Clock,
        server: KeeperServer,
        endpoint: Endpoint,
        *,
        near_seconds: float,
        projection: Projection | None = None,
        metrics: ShardMetrics,
        standby: StandbyLink,
        identity: ShardIdentity | None = None,
        make_ended: Callable[[], EndedRuns] = EndedRuns,
    ) -> None:
        """`make_log`: the log of the shard, not owned yet, and the clock that its store goes by; it may raise
        `StoreUnavailable`. `clock` is this machine's. `standby` tells the owner how far this
        process has read. `identity`: its place among several shards."""
        self.shard = shard
        self.state = "it waits for the shard"
        """Its work just now, for people."""
        self.store: KeeperStore | None = None
        """While it owns the shard."""
        self._make_log, self._clock, self._server, self._endpoint = make_log, clock, server, endpoint
        self._near_seconds, self._projection, self._identity = near_seconds, projection, identity
        self.others_live = False
        """True: another keeper lives, so there is somebody to wait for the shard."""
        self._metrics, self._make_ended, self._standby = metrics, make_ended, standby
        self._wanted, self._unwanted, self._handing_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def want(self, *, wanted: bool) -> None:
        """Say whether it is to wait for the shard. One that owns it goes on."""
        (self._wanted if wanted else self._unwanted).set()
        (self._unwanted if wanted else self._wanted).clear()

    @property
    def hands_over(self) -> bool:
        """True from `hand_over` until the shard is owned here again."""
        return self._handing_over.is_set()

    def hand_over(self) -> bool:
        """Give the shard back to the keeper that waits for it, once that has read the log. False: it does not own it,
        or does so already."""
        if self.store is None or self.hands_over:
            return False
        self.want(wanted=False)
        self._handing_over.set()
        return True

    def observe(self) -> None:
        """Bring the metrics of the shard up to now."""
        store = self.store
        self._metrics.observe(store.figures() if store is not None and store.answers else None)

    async def check(self) -> None:
        """Raise `Unavailable` if it owns the shard and cannot answer for it. One that waits for the shard is well."""
        if self.store is not None:
            await self.store.now()

    async def run(self, stop: asyncio.Event) -> None:
        """Own the shard while it is wanted here and nobody else does, until `stop`."""
        while True:
            await _first(self._wanted.wait(), stop.wait())
            if stop.is_set():
                return
            try:
                log, clock = await self._make_log()
            except Unavailable as failure:
                await self._again(failure, stop)
                continue
            lost = asyncio.Event()
            store = KeeperStore(
                log, clock, near_seconds=self._near_seconds, endpoint=str(self._endpoint),
                gather_seconds=GATHER_SECONDS, projection=self._projection, watch=self._metrics,
                identity=self._identity, make_ended=self._make_ended, read_ahead=self._note_read(),
                turns=self._server.turns,
                lost=lambda _why, lost=lost: lost.set(),  # type: ignore[misc]  # bound now
            )  # fmt: skip
            try:
                if await self._opened(store, stop):
                    self._handing_over.clear()
                    self.store, self.state = store, f"it owns shard {self.shard}"
                    self._server.serve(self.shard, cast("Store", store))
                    await _first(lost.wait(), stop.wait(), self._handing_over.wait())
                    await _first(lost.wait(), self._heir_is_ready(store))
            finally:
                self.store, self.state = None, "it waits for the shard"
                await self._server.withdraw(self.shard)
                await _given_back(store)

    async def _heir_is_ready(self, store: KeeperStore) -> None:
        """Return once a keeper that waits for the shard has read its log, or if there is none to be waited for."""
        clock, is_ready = self._clock, False
        begun = clock.monotonic()
        while self.others_live and not is_ready and clock.monotonic() - begun < HEIR_SECONDS:
            await clock.sleep(HEIR_LOOK_SECONDS)
            read = self._server.standby(self.shard)
            is_ready = read is not None and store.position - read <= HEIR_LAG
        waited = round(clock.monotonic() - begun, 3)
        logger.info("shard_goes", shard=self.shard, position=store.position, heir_is_ready=is_ready, waited=waited)

    def _note_read(self) -> Callable[[int], None]:
        """Tells the owner of the shard, and once the log, that this process has read ahead."""
        begun, is_first = self._clock.monotonic(), True
        self._standby.begin()

        def note(position: int) -> None:
            nonlocal is_first
            if is_first:
                seconds = round(self._clock.monotonic() - begun, 3)
                logger.info("shard_read_ahead", shard=self.shard, position=position, seconds=seconds)
            is_first = False
            self._standby.caught_up(position)

        return note

    async def _opened(self, store: KeeperStore, stop: asyncio.Event) -> bool:
        """Wait until the shard is ours. False: it could not be opened, or is not wanted any more, or the end came
        before."""
        opening, stopping = asyncio.create_task(store.open()), asyncio.create_task(stop.wait())
        unwanted, telling = asyncio.create_task(self._unwanted.wait()), asyncio.create_task(self._standby.run())
        try:
            await asyncio.wait({opening, stopping, unwanted}, return_when=asyncio.FIRST_COMPLETED)
            if not opening.done():
                return False
            opening.result()
        except Unavailable as failure:
            await self._again(failure, stop)
            return False
        finally:
            await end_tasks([opening, stopping, unwanted, telling])
        return True

    async def _again(self, failure: Unavailable, stop: asyncio.Event) -> None:
        self.state = f"it waits for the log of shard {self.shard}: {failure.detail}"
        logger.warning("shard_not_opened", shard=self.shard, detail=failure.detail)
        await _first(self._clock.sleep(AGAIN_SECONDS), stop.wait())


async def _given_back(store: KeeperStore) -> None:
    try:
        await store.close()
    except Unavailable as failure:
        # The next owner waits for the lease.
        logger.warning("shard_not_given_back", detail=failure.detail)
    finally:
        store.forget()


async def _first(*given: Coroutine[Any, Any, object]) -> None:
    """Return when one of them is done or has failed; the others are cancelled."""
    tasks = [asyncio.create_task(each) for each in given]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(tasks)
