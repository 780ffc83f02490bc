"""Expires executors whose lease is over, and frees runs that wait for an ended run.

    lease over ──► executor expired ──► its runs go on elsewhere, end as poison, or end with an unknown outcome
    waits for an ended run ──► freed, if its wake-up was lost

Invariant: after an outage of the store, or of the link to it, executors first get one lease period to be heard.
"""

from __future__ import annotations

from typing import Final

import structlog

from tickwise.domain.retry import CRASHES_MAX, EXECUTOR_LOST, UNKNOWN_OUTCOME
from tickwise.ports.clock import Clock
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.store import Store
from tickwise.roles.scheduler.outage_record import Presence
from tickwise.roles.shared.service import Telemetry

UNBLOCK_SHARE: Final = 20.0
"""A look at all that waits is followed by a pause of so many times its length: 5 % of one core."""
MAX_UNBLOCK_SECONDS: Final = 10.0
"""But by no longer one: so long may a run wait whose wake-up was lost."""

logger = structlog.get_logger("tickwise.scheduler")


class LeaseExpiry:
    """Expires leases for one scheduler."""

    def __init__(
        self,
        *,
        store: Store,
        signals: Signals,
        clock: Clock,
        telemetry: Telemetry,
        presence: Presence,
        lease_seconds: float,
        pause_seconds: float,
    ) -> None:
        """`pause_seconds` pass between two steps."""
        self._store = store
        self._signals = signals
        self._clock = clock
        self._telemetry = telemetry
        self._presence = presence
        self._lease_seconds = lease_seconds
        self._pause_seconds = pause_seconds
        self._healed_at: float | None = None
        self._grace_until = 0.0
        self._unblock_at = float("-inf")

    async def step(self) -> float:
        """Expire executors whose lease is over. After an outage of the store, or of our link to it, executors first get
        one lease period to be heard."""
        clock = self._clock
        before = clock.monotonic()
        # A store that was away when we began was away for others too.
        last = self._healed_at = before if self._healed_at is None else self._healed_at
        await self._presence.ask()
        at = clock.monotonic()
        if at - last > max(self._lease_seconds / 2, 3 * self._pause_seconds):
            self._grace_until = at + self._lease_seconds
        self._healed_at = at
        trouble: Exception | None = None
        try:
            # Right after the look at the clock: a store that stands still during anything that lies in between would
            # find the leases of all of them over when it goes on.
            if at >= self._grace_until:
                await self._expire()
        except Exception as failure:  # noqa: BLE001  # a failed expiry must not delay waiting runs
            trouble = failure
        await self._unblock()
        if trouble is not None:
            raise trouble
        return self._pause_seconds

    async def _unblock(self) -> None:
        """Look whether something waits for what is over: a wake-up may have been lost. That is rare, and a look at very
        many takes its time; the longer it takes, the less often it is made."""
        begun = self._clock.monotonic()
        if begun < self._unblock_at:
            return
        if await self._store.runs.unblock():
            self._signals.send(Topic.RUNS)
        ended = self._clock.monotonic()
        self._unblock_at = ended + min(UNBLOCK_SHARE * (ended - begun), MAX_UNBLOCK_SECONDS)

    async def _expire(self) -> None:
        expired = await self._store.executors.expire(CRASHES_MAX)
        if not (expired.executors or expired.freed or expired.quarantined or expired.unknown):
            return
        logger.warning(
            "leases_expired",
            executors=list(expired.executors),
            freed=expired.freed,
            quarantined=[str(run) for run in expired.quarantined],
            unknown=[str(run) for run in expired.unknown],
        )
        self._telemetry.healed(
            executors=len(expired.executors),
            freed=expired.freed,
            quarantined=len(expired.quarantined),
            unknown=len(expired.unknown),
        )
        reasons = {
            "poison": len(expired.quarantined),
            EXECUTOR_LOST: len(expired.unknown) - len(expired.held),
            UNKNOWN_OUTCOME: len(expired.held),
        }
        self._telemetry.failed({reason: count for reason, count in reasons.items() if count})
        self._signals.send(Topic.RUNS)
        self._signals.send(Topic.COMPLETIONS)
