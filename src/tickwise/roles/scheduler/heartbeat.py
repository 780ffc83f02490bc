"""Tells an address elsewhere that the installation is well: the watch over the scheduler that does not run on it.

    store answers, timers in time, last pass over the invariants clean ── yes ──► ping ──► receiver: all is well
                                        │                                         └── not heard for long: it alarms
                                        └── no ──► nothing, or a ping to the address of failures

Schedulers share one heartbeat: who pinged leaves a note, and the others stay silent while it lasts. Without the notes
each of them pings, which says the same. A scheduler that finds trouble stays silent, too, while the note of another
one says that all is well: cut off from the store by itself, it is no trouble of the installation.

Invariants: a ping takes `PING_SECONDS` at most and holds up no other loop; the addresses, which hold tokens, stand
in no log line; an outage of the receiver is told of once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.heartbeat import Pinger, PingLost
from tickwise.ports.shared_state import Note, SharedState
from tickwise.ports.store import UpkeepStore
from tickwise.roles.shared.health import LOOK_SECONDS, InvariantPass, trouble
from tickwise.roles.shared.service import Telemetry

PING_SECONDS: Final = 10.0
NOTE_KIND: Final = "heartbeat"
NOTE_NAME: Final = "last"
NOTE_SHARE: Final = 1.1
"""Of the interval: the scheduler that pings renews its note before it ends, so it goes on pinging."""
AGAIN_SHARE: Final = 0.25
"""Of the interval: the pause of a scheduler that stayed silent, or whose ping was lost."""

logger = structlog.get_logger("tickwise.scheduler")


class HeartbeatSettings(NamedTuple):
    """The settings of the heartbeat."""

    name: str
    """Of this scheduler."""
    seconds: float
    """Between two pings."""
    ping_seconds: float = PING_SECONDS
    """The longest that one may take."""
    look_seconds: float = LOOK_SECONDS
    """The longest that the store may take to answer."""


class OutboundHeartbeat:
    """The heartbeat by one scheduler."""

    def __init__(
        self,
        upkeep: UpkeepStore,
        shared_state: SharedState,
        clock: Clock,
        pinger: Pinger,
        *,
        last_pass: Callable[[], InvariantPass | None],
        telemetry: Telemetry,
        settings: HeartbeatSettings,
    ) -> None:
        """`last_pass` returns the last pass of this scheduler over the invariants."""
        self._upkeep = upkeep
        self._shared_state = shared_state
        self._clock = clock
        self._pinger = pinger
        self._last_pass = last_pass
        self._telemetry = telemetry
        self._settings = settings
        self._lost = 0
        """Pings in a row that did not come through."""
        self._trouble: str | None = None
        """The finding of the last look."""

    async def step(self) -> float:
        """Look, and ping if it is our turn; the time until the next look."""
        found = await self._look()
        self._log_trouble(found)
        if await self._is_told_by_another():
            return self._settings.seconds * AGAIN_SHARE
        if found is None:
            came = await self._send(self._pinger.well(), "well")
        else:
            came = await self._send(self._pinger.unwell(found), "unwell")
        if not came:
            return self._settings.seconds * AGAIN_SHARE
        if found is None:
            note = Note(NOTE_KIND, NOTE_NAME, {"by": self._settings.name})
            await self._shared_state.put([note], self._settings.seconds * NOTE_SHARE)
        return self._settings.seconds

    async def _look(self) -> str | None:
        """The present trouble, as a sentence; None: there is none."""
        try:
            async with asyncio.timeout(self._settings.look_seconds):
                stats = await self._upkeep.stats()
        except (TimeoutError, Unavailable):
            return "The store does not answer this scheduler."
        return trouble(stats, self._last_pass())

    async def _is_told_by_another(self) -> bool:
        """Check whether another scheduler said within the interval that all is well."""
        found = await self._shared_state.look(NOTE_KIND, [NOTE_NAME])
        note = (found or {}).get(NOTE_NAME)
        return note is not None and note.get("by") != self._settings.name

    async def _send(self, ping: Awaitable[None], result: str) -> bool:
        """Wait for a ping, for a bounded time; whether it came through."""
        try:
            async with asyncio.timeout(self._settings.ping_seconds):
                await ping
        except TimeoutError:
            return self._is_lost(f"no answer within {self._settings.ping_seconds:g} s")
        except PingLost as lost:
            return self._is_lost(str(lost))
        if self._lost:
            logger.info("heartbeat_came_through", receiver=self._pinger.receiver, lost=self._lost)
            self._lost = 0
        self._telemetry.pinged(result)
        return True

    def _is_lost(self, detail: str) -> bool:
        self._lost += 1
        self._telemetry.pinged("lost")
        if self._lost == 1:
            logger.warning("heartbeat_lost", receiver=self._pinger.receiver, detail=detail)
        return False

    def _log_trouble(self, found: str | None) -> None:
        """Log when trouble begins and when it ends; not each sentence, which may hold a number that grows."""
        if found is not None and self._trouble is None:
            logger.error("heartbeat_withheld", detail=found)
        elif found is None and self._trouble is not None:
            logger.info("heartbeat_resumed")
        self._trouble = found
