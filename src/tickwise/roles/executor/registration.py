"""Joins the executor to the store, renews its lease with each heartbeat, and signs it off.

    join ──► number, lease ──► beat, every few seconds ──► leave
     ▲                          ├──► alive: cancel requests carried out, the store's epoch compared
     │                          └──► expired: all tasks killed, nothing reported
     └────────── all tasks dead ◄─────┘

With results through the broker, each number has a key of its own, whose public half the executor joins with.

Invariant: an expired executor reports nothing under its old number, and begins no run anew while an older attempt of
it is alive here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from tickwise.domain.errors import Conflict, InDoubt, StoreUnavailable, Unavailable
from tickwise.domain.model import executor_number
from tickwise.domain.rules.confinement import offered_labels
from tickwise.ports.clock import Clock
from tickwise.ports.signing import ExecutorKey
from tickwise.ports.store import Beat, ExecutorStore, NewExecutor
from tickwise.roles.executor.cancel_requests import CancelRequests
from tickwise.roles.executor.capacity import RunnerCapacity
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.ledger import CapacityLedger
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.executor.result_publisher import Publisher
from tickwise.roles.executor.run_log import RunLog
from tickwise.roles.executor.settings import ExecutorSettings
from tickwise.roles.executor.store_clock import StoreClock
from tickwise.roles.shared.service import wait_for

PUBLISHES_NOTHING: Final = b""
"""The key of an executor that writes outcomes to the store: every message in its name at the broker is forged."""
CLOCK_ROUNDS: Final = 3
"""Heartbeats of a join: the shortest of the round trips bounds the store's clock best."""
NUMBER_DRAWS: Final = 8
"""Numbers that a join tries: two executors of the same millisecond draw the same one in one of 4,096 cases."""
FIRST_JOIN_SECONDS: Final = 30.0
"""The time that a start keeps trying to join: longer than a failover of the store takes. A supervisor starts a process
that gave up again, and one that is asked to end meanwhile ends within this time."""
FIRST_JOIN_PAUSE_SECONDS: Final = 0.5
"""The pause before the next try."""
DYING_LOOK_SECONDS: Final = 1.0
"""The longest time between two looks at whether the last abandoned task is dead."""

logger = structlog.get_logger("tickwise.executor")


class ExecutorRegistration:
    """The membership of one executor in the store."""

    def __init__(
        self,
        *,
        executors: ExecutorStore,
        clock: Clock,
        time: StoreClock,
        lease: Lease,
        capacities: Sequence[RunnerCapacity],
        settings: ExecutorSettings,
        ledger: CapacityLedger,
        publisher: Publisher | None = None,
    ) -> None:
        self._ledger = ledger
        self._executors = executors
        self._clock = clock
        self._time = time
        self._lease = lease
        self._capacities = capacities
        self._settings = settings
        self._publisher = publisher

    async def join_first(self) -> None:
        """Join at the start of the process, and try again while the store is away or does not say what became of it.

        A number that was joined without an answer is never used: its lease ends by itself. Raises `Unavailable` after
        `FIRST_JOIN_SECONDS`."""
        began, told = self._clock.monotonic(), False
        while True:
            try:
                return await self.join()
            except (StoreUnavailable, InDoubt) as away:
                if self._clock.monotonic() - began >= FIRST_JOIN_SECONDS:
                    raise
                if not told:
                    logger.warning("executor_waits_to_join", detail=away.detail)
                    told = True
            await self._clock.sleep(FIRST_JOIN_PAUSE_SECONDS)

    async def join(self) -> None:
        """Draw a new number, and get a lease for it from the store."""
        settings = self._settings
        asked = self._lease.mark()
        publisher = self._publisher
        # Each number has its own key pair: neither is ever used again.
        key = None if publisher is None else publisher.new_key()
        number = await self._register(_public(publisher, key))
        if publisher is not None:
            publisher.joined(number, key)
        for _ in range(CLOCK_ROUNDS):
            sent = self._clock.monotonic()
            beat = await self._executors.beat(number, settings.lease_seconds)
            self._time.saw(beat.now, sent)
        self._lease.number = number
        self._lease.renewed(asked)
        logger.info(
            "executor_joined",
            executor=number,
            name=settings.name,
            queues=list(settings.queues),
            namespaces=list(settings.namespaces) or None,
        )

    async def _register(self, results_key: bytes | None) -> int:
        """Join under a fresh number; draw again if the store refuses it."""
        settings, clock = self._settings, self._clock
        for _ in range(NUMBER_DRAWS):
            drawn = NewExecutor(
                number=executor_number(int(clock.now() * 1000), clock.random_bytes(2)),
                name=settings.name,
                queues=settings.queues,
                labels=(*settings.labels, *self._offered(), *self._ledger.offered()),
                capacities=self._ledger.capacities(),
                functions=self._functions(),
                slots=settings.slots,
                lease_seconds=settings.lease_seconds,
                results_key=results_key,
                namespaces=settings.namespaces or None,
            )
            with contextlib.suppress(Conflict):
                return await self._executors.join(drawn)
        raise Unavailable(
            f"{NUMBER_DRAWS} numbers that this executor drew are taken; check that this machine's clock is right"
        )

    async def renew(self, differs: int) -> Beat:
        """Ask the store to renew the lease. `differs`: the number of runs on which executor and store disagree."""
        asked = self._lease.mark()
        beat = await self._executors.beat(
            self._lease.number,
            self._settings.lease_seconds,
            self._functions(),
            differs=differs,
            held=sum(capacity.held for capacity in self._capacities),
            capacities=self._ledger.capacities(),
        )
        self._time.saw(beat.now, asked.monotonic)
        if beat.alive:
            self._lease.renewed(asked)
        return beat

    async def leave(self) -> None:
        """End the lease: the store frees all that it still counts as held here."""
        await self._executors.leave(self._lease.number)

    def _offered(self) -> tuple[str, ...]:
        """The labels of what its runners can surround tasks with, as it starts. Claims go by what they can at that
        moment."""
        return offered_labels(label for capacity in self._capacities for label in capacity.runner.labels())

    def _functions(self) -> tuple[str, ...]:
        return tuple(name for capacity in self._capacities for name in capacity.runner.offers())


class BoundToNumber(Protocol):
    """A part whose content belongs to one number of the executor."""

    def forget(self) -> None:
        """Drop the content: the store expired the number."""
        ...


class Heartbeat:
    """The heartbeat of one executor."""

    def __init__(
        self,
        *,
        registration: ExecutorRegistration,
        lease: Lease,
        held_runs: HeldRuns,
        reconciliation: Reconciliation,
        cancels: CancelRequests,
        bound_to_number: Sequence[BoundToNumber],
        seconds: float,
        run_log: RunLog | None = None,
    ) -> None:
        """`seconds` pass between two heartbeats."""
        self._registration = registration
        self._lease = lease
        self._held_runs = held_runs
        self._reconciliation = reconciliation
        self._cancels = cancels
        self._bound_to_number = bound_to_number
        self._seconds = seconds
        self._run_log = run_log

    async def beat(self) -> float:
        """One heartbeat. Returns the seconds until the next."""
        beat = await self._registration.renew(self._reconciliation.differs)
        if not beat.alive:
            await self._rejoin()
            return 0.0
        if beat.lost and (stopped := self._held_runs.abandon_shards(beat.lost)):
            logger.error("shard_lease_over", executor=self._lease.number, stopped=stopped)
        self._reconciliation.heard(beat.epoch)
        self._cancels.carry_out(beat.cancels)
        if self._run_log is not None:
            self._run_log.flush()
        return self._seconds

    async def _rejoin(self) -> None:
        """Kill all tasks, report nothing of them, and join under a new number: others may run the same runs now."""
        logger.error("executor_expired", executor=self._lease.number, still_open=len(self._held_runs.live))
        self._lease.ended()
        self._held_runs.abandon_all()
        for part in self._bound_to_number:
            part.forget()
        while self._held_runs.dying:
            # A run must not begin here again before its old task is dead.
            self._held_runs.idle.clear()
            await wait_for(self._held_runs.idle, DYING_LOOK_SECONDS)
        await self._registration.join()


def _public(publisher: Publisher | None, key: ExecutorKey | None) -> bytes | None:
    """The key that an executor joins with."""
    if publisher is None:
        return PUBLISHES_NOTHING
    return None if key is None else key.public
