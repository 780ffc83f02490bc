"""The hints of an executor: runs that it could claim by their names.

    broker ──► take ──► which runner? ──► its buffer, by priority ──► claimed by name ──► done
                 │             │             └── full: a quick runner's stops taking; a hint for a slot is dropped
                 │             └── nobody's here: done, others of the group's kind hear of it too
                 └── unreadable: parked

A quick runner works its topic off within moments, so while it is full the broker keeps the rest. A run that needs a
slot may wait here for hours while another executor could start it at once: its hint is dropped, and an executor with a
slot finds the run in the store.

Invariants: what waits here is bounded; nothing depends on it: a hint that is lost, stale, repeated or dropped costs
latency, because executors also look themselves, and schedulers say again what stays.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from tickwise.domain.model import Lane
from tickwise.ports.broker import Broker, Channel, ChannelKind, Delivery
from tickwise.ports.clock import Clock
from tickwise.roles.executor.capacity import AHEAD_SLOTS_SECONDS, RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.dead_letter_writer import DeadLetterWriter
from tickwise.roles.shared.messages import ID_BYTES, Hints, UnreadableMessage, decode
from tickwise.roles.shared.service import IDLE_SECONDS

MAX_TAKE: Final = 200
"""Messages taken at once: of a hundred runs each they are twenty thousand, which is as far as a buffer may overflow."""
TAKE_SECONDS: Final = 1.0
DONE_SECONDS: Final = 0.1
"""The time for which finished hints are gathered before the broker is told."""
SHELF_CLAIMS: Final = 2
"""The claims of a quick runner that fit into its buffer: one under way, and the next."""
SHELF_SLOTS: Final = 4
"""The runs for each slot that fit into the buffer of a runner with slots: many names are stale when they are
claimed."""
REACHABLE_SECONDS: Final = 0.1
"""The time for which an answer to whether the broker is there is good: it takes a lock and a look at every
partition."""
MAX_EARLY: Final = 1_000
"""Messages that are kept because their runs cannot be claimed yet; what comes besides is found by looking."""
FAIR_EVERY: Final = 10
"""One in so many claims begins with the oldest hint, of any priority."""


class Pack(msgspec.Struct, eq=False):
    """The rest of one message."""

    runs: bytes
    """Ids, 16 bytes each."""
    came: int
    """Counted up: which came first."""
    delivery: Delivery | None
    """To be said done when nothing is left; None: it was."""


class HintedRuns(NamedTuple):
    """Runs to claim by name, and where their names came from."""

    runs: Sequence[UUID]
    packs: Sequence[tuple[int, Pack]]
    """With the priority of each."""


class HintBuffer:
    """Hints for one runner."""

    def __init__(self, capacity: RunnerCapacity, *, settings: ExecutorSettings) -> None:
        self.capacity = capacity
        self.ahead_seconds = ahead_of(capacity, settings)
        self.limit = SHELF_CLAIMS * settings.claim_batch if capacity.quick else SHELF_SLOTS * settings.slots
        """Of each priority, for what is urgent must not wait for room."""
        self.size = 0
        """Runs that wait."""
        self._sizes: dict[int, int] = {}
        self._packs: dict[int, deque[Pack]] = {}
        self._takes = 0

    def is_full(self, priority: int | None = None) -> bool:
        """Check whether the hints of this priority fill their share; without a priority, whether any priority's do."""
        if priority is None:
            return any(size >= self.limit for size in self._sizes.values())
        return self._sizes.get(priority, 0) >= self.limit

    def put(self, priority: int, pack: Pack, *, first: bool = False) -> None:
        """One more; `first`: it was taken, and comes back."""
        packs = self._packs.setdefault(priority, deque())
        if first:
            packs.appendleft(pack)
        else:
            packs.append(pack)
        self._count(priority, len(pack.runs) // ID_BYTES)

    def take(self, most: int) -> HintedRuns:
        """Up to so many, the most urgent first."""
        self._takes += 1
        runs: list[UUID] = []
        packs: list[tuple[int, Pack]] = []
        order = sorted((priority for priority, waiting in self._packs.items() if waiting), reverse=True)
        if self._takes % FAIR_EVERY == 0:
            order.sort(key=lambda priority: self._packs[priority][0].came)
        for priority in order:
            waiting = self._packs[priority]
            while waiting and len(runs) < most:
                pack = waiting.popleft()
                text, end = pack.runs, (most - len(runs)) * ID_BYTES
                runs += [UUID(bytes=text[at : at + ID_BYTES]) for at in range(0, min(len(text), end), ID_BYTES)]
                taken = Pack(text[:end], pack.came, pack.delivery)
                if len(text) > end:
                    # The rest of the pack waits on, and the message is done with the rest.
                    waiting.appendleft(Pack(text[end:], pack.came, pack.delivery))
                    taken.delivery = None
                self._count(priority, -(len(taken.runs) // ID_BYTES))
                packs.append((priority, taken))
        return HintedRuns(runs, packs)

    def _count(self, priority: int, more: int) -> None:
        self.size += more
        self._sizes[priority] = self._sizes.get(priority, 0) + more


class Hinting:
    """The hints that one executor heard."""

    def __init__(
        self,
        broker: Broker,
        *,
        clock: Clock,
        time: StoreClock,
        dead_letters: DeadLetterWriter,
        settings: ExecutorSettings,
        capacities: Sequence[RunnerCapacity],
        held_runs: HeldRuns,
        wake: asyncio.Event,
    ) -> None:
        """`wake` brings the next claim forward."""
        channels = [Channel(ChannelKind.RUNS, lane) for lane in reversed(range(broker.lanes))]
        self.room_more = asyncio.Event()
        """Set when there may be room again."""
        self.done_more = asyncio.Event()
        """Set when the broker is to be told of something."""
        self._channels = channels
        self._consumer = broker.consumer(channels, group_of(settings))
        self._clock = clock
        self._time = time
        self._dead_letters = dead_letters
        self._held_runs = held_runs
        self._wake = wake
        self._poll_seconds = settings.poll_seconds
        self._queues = frozenset(settings.queues)
        self._labels = frozenset(settings.labels)
        self._namespaces = frozenset(settings.namespaces)
        self._buffers = {capacity: HintBuffer(capacity, settings=settings) for capacity in capacities}
        self._by_kind = {
            f"task:{kind}": buffer for capacity, buffer in self._buffers.items() for kind in capacity.kinds
        }
        self._early: list[tuple[float, int, HintBuffer, int, Pack]] = []
        self._numbers = itertools.count()
        self._runs_per_message = 1.0
        self._done: list[Delivery] = []
        self._untreated: Sequence[Delivery] = ()
        self._stopped = False
        self._looked_at = float("-inf")
        self._reachable = False

    async def start(self) -> None:
        """Begin to hear."""
        self._dead_letters.expects(self._channels)
        await self._consumer.start()

    async def stop(self) -> None:
        """Stop listening. Runs that were not claimed go to others."""
        if self._stopped:
            return
        await self._say_done()
        self._stopped = True
        await self._consumer.stop()

    def reachable(self) -> bool:
        """Check whether hints are likely to come soon, as of the last moments: every claim asks."""
        now = self._clock.monotonic()
        if now - self._looked_at >= REACHABLE_SECONDS:
            self._looked_at, self._reachable = now, self._consumer.state().reachable
        return self._reachable

    def size(self) -> int:
        """Runs that wait, …"""
        return sum(buffer.size for buffer in self._buffers.values()) + len(self._early)

    def limit(self) -> int:
        """… and about how many there may be of one priority."""
        return sum(buffer.limit for buffer in self._buffers.values()) + MAX_EARLY

    # ------------------------------------------------------------------ steps of the executor's loops

    async def heard(self) -> float:
        """A signal told of new runs. It wakes the claims only while hints do not come."""
        if not self.reachable():
            self._wake.set()
        return IDLE_SECONDS

    async def gather(self) -> float:
        """Take hints, up to as many as can wait. Returns the seconds until the next try."""
        if self._held_runs.closed:
            return IDLE_SECONDS
        had_room = await self.listen()
        if self.size():
            self._wake.set()
        return 0.0 if had_room else self._poll_seconds

    async def confirm(self) -> float:
        """Tell the broker which messages are done."""
        await self._clock.sleep(DONE_SECONDS)
        await self._say_done()
        return IDLE_SECONDS

    # ------------------------------------------------------------------ taking

    async def listen(self, wait_seconds: float = TAKE_SECONDS) -> bool:
        """Take the hints that are there, or come within this time, into the buffers; whether there was room.

        Raises `BrokerUnavailable` while something unreadable cannot be parked; the next call goes on from there.
        """
        if not self._untreated:
            room = self._room()
            if room <= 0:
                return False
            most = max(1, min(MAX_TAKE, int(room / self._runs_per_message)))
            self._untreated = await self._consumer.take(most, wait_seconds)
        deliveries, total = self._untreated, 0
        for number, delivery in enumerate(deliveries):
            try:
                hints = decode(Hints, delivery.value)
            except UnreadableMessage as wrong:
                self._untreated = deliveries[number:]
                await self._dead_letters.write(delivery, str(wrong))
                self._is_done(delivery)
                continue
            total += len(hints.runs) // ID_BYTES
            self._place(hints, delivery)
        self._untreated = ()
        if deliveries:
            self._runs_per_message = max(1.0, total / len(deliveries))
        return True

    def _room(self) -> int:
        """The number of further runs that may be taken now: as many as the fullest buffer of a quick runner has room
        for."""
        quick = [buffer for buffer in self._buffers.values() if buffer.capacity.quick]
        if any(buffer.is_full() for buffer in quick):
            return 0
        return min((max(1, buffer.limit - buffer.size) for buffer in quick), default=MAX_TAKE)

    def _place(self, hints: Hints, delivery: Delivery) -> None:
        """Put a hint into the buffer of its runner; it is done if there is no such runner, or no room."""
        lane = hints.lane
        buffer = self._buffer_of(lane)
        runs = self._taken(hints)
        if buffer is None or not runs or (not buffer.capacity.quick and buffer.is_full(lane.priority)):
            self._is_done(delivery)
            return
        number = next(self._numbers)
        ripe_at = hints.ready - buffer.ahead_seconds
        if ripe_at <= self._time.now():
            if not buffer.capacity.quick:
                # It may wait for hours, and nothing that comes after it may: offsets are committed up to the first
                # that is not done. If we end meanwhile, its run is found in the store.
                self._is_done(delivery)
            buffer.put(lane.priority, Pack(runs, number, delivery if buffer.capacity.quick else None))
            return
        self._is_done(delivery)
        if len(self._early) < MAX_EARLY:
            heapq.heappush(self._early, (ripe_at, number, buffer, lane.priority, Pack(runs, number, None)))

    def _taken(self, hints: Hints) -> bytes:
        """The ids of those runs whose namespaces this executor takes; all if the sender does not say. The store refuses
        the others in any case."""
        bound, named = self._namespaces, hints.namespaces
        if not bound or not named:
            return hints.runs
        if len(named) == 1:
            return hints.runs if named[0] in bound else b""
        mine = (number for number, namespace in enumerate(named) if namespace in bound)
        return b"".join(hints.runs[number * ID_BYTES : (number + 1) * ID_BYTES] for number in mine)

    def _buffer_of(self, lane: Lane) -> HintBuffer | None:
        """The buffer for runs of this lane; None: no runner of this process serves it."""
        if lane.queue not in self._queues:
            return None
        for needed in lane.requires:
            buffer = self._by_kind.get(needed)
            if buffer is not None:
                offered = buffer.capacity.runner.labels()
                reserved = self._held_runs.ledger.labels()
                served = all(label in self._labels or label in offered or label in reserved for label in lane.requires)
                return buffer if served else None
        return None

    # ------------------------------------------------------------------ claiming

    def waiting(self, capacity: RunnerCapacity) -> int:
        """Runs that could be claimed for this runner."""
        return self._buffers[capacity].size

    def ripen(self) -> float | None:
        """Put the hints that can be claimed by now into the buffers; how long until the next can."""
        early = self._early
        if not early:
            return None
        now = self._time.now()
        while early and early[0][0] <= now:
            _, _, buffer, priority, pack = heapq.heappop(early)
            if not buffer.is_full(priority):
                buffer.put(priority, pack)
        return early[0][0] - now if early else None

    def take(self, capacity: RunnerCapacity, most: int) -> HintedRuns:
        """Names to claim for this runner."""
        return self._buffers[capacity].take(most)

    def untake(self, capacity: RunnerCapacity, named: HintedRuns) -> None:
        """The claim failed: these wait again, before all others."""
        for priority, pack in reversed(named.packs):
            self._buffers[capacity].put(priority, pack, first=True)

    def claimed(self, named: HintedRuns) -> None:
        """The store has answered: this executor holds all of them that it could claim."""
        for _, pack in named.packs:
            if pack.delivery is not None:
                self._is_done(pack.delivery)
        self.room_more.set()

    def _is_done(self, delivery: Delivery) -> None:
        self._done.append(delivery)
        if not self.done_more.is_set():
            self.done_more.set()

    async def _say_done(self) -> None:
        if self._done and not self._stopped:
            done, self._done = self._done, []
            await self._consumer.done(done)


def group_of(settings: ExecutorSettings) -> str:
    """Of executors that offer the same. Not by the functions that they know: those change while they run."""
    offered = msgspec.json.encode([sorted(settings.queues), sorted(settings.labels)])
    return f"executors.{blake2b(offered, digest_size=6).hexdigest()}"


def ahead_of(capacity: RunnerCapacity, settings: ExecutorSettings) -> float:
    """The lead with which runs of this runner are claimed by name: a run that needs a slot keeps it free until then."""
    return settings.ahead_seconds if capacity.quick else min(settings.ahead_seconds, AHEAD_SLOTS_SECONDS)
