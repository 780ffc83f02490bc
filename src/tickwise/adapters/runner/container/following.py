"""Follows a container to its end, over outages of its engine.

    log ──► sink ──end of the log, or it has ended and its log is silent──► wait ──► the rest of the log ──► state
      └──engine away──► ask until it answers ──► the log again, without what was read before

Invariant: each byte of the output is written once, in the engine's order, however often the connection breaks. The
engine keeps the log of a container until that is removed, and gives it again from its begin.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, NamedTuple

from tickwise.adapters.runner.container.engine import ContainerState, Engine, EngineAway, EngineRefused
from tickwise.adapters.runner.slots import Attempt
from tickwise.ports.clock import Clock

FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 2.0
FIRST_END_LOOK_SECONDS: Final = 1.0
MAX_END_LOOK_SECONDS: Final = 30.0
"""The pauses between two looks whether a container whose log is followed has ended: they double."""
LOOK_SECONDS: Final = 1.0
"""Between two looks at the processor time of a container."""
ENDED: Final = ("exited", "dead", "stopped", "created", "configured", "initialized")


class ContainerEnd(NamedTuple):
    """The end of a container."""

    state: ContainerState | None
    """None: it is gone."""
    was_away: bool
    """The engine was away in the meantime."""


class Following:
    """Follows one container."""

    def __init__(self, engine: Engine, clock: Clock, container: str, attempt: Attempt, grace_seconds: float) -> None:
        self._engine = engine
        self._clock = clock
        self._container = container
        self._attempt = attempt
        self._grace_seconds = grace_seconds
        self._read = 0
        self.was_away = False

    async def end(self) -> ContainerEnd:
        """Return when it runs no more."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                await self._follow_while_it_lives()
                await self._engine.wait(self._container)
                # Docker's follower may miss what was written just before the end; the log itself has it.
                await self._follow(until_now=True)
                state = await self._engine.state(self._container)
                if state is None or state.status in ENDED:
                    return ContainerEnd(state, self.was_away)
                pause = FIRST_PAUSE_SECONDS
            except EngineAway:
                self.was_away = True
            except EngineRefused:
                # It is gone, or between two states, or the engine is on its way down.
                if await self._is_gone():
                    return ContainerEnd(None, self.was_away)
            await self._clock.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _follow_while_it_lives(self) -> None:
        """Follow the log to its end, or until the container has ended and nothing was read between two looks.

        Podman's follower never ends if the container ends between its look at the state and its subscription to the
        event of that end; and a network may forget a connection that was silent for long.
        """
        following = asyncio.get_running_loop().create_task(self._follow())
        pause, read = FIRST_END_LOOK_SECONDS, 0
        try:
            while not (await asyncio.wait({following}, timeout=pause))[0]:
                if read == self._read and await self._has_ended():
                    return
                read, pause = self._read, min(2 * pause, MAX_END_LOOK_SECONDS)
            following.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _has_ended(self) -> bool:
        """Check whether it does not run. An engine that does not answer this breaks its log, too, or answers later."""
        with contextlib.suppress(EngineAway, EngineRefused):
            state = await self._engine.state(self._container)
            return state is None or state.status in ENDED
        return False

    async def _is_gone(self) -> bool:
        try:
            return await self._engine.state(self._container) is None
        except (EngineAway, EngineRefused):
            self.was_away = True
            return False

    async def _follow(self, *, until_now: bool = False) -> None:
        """Write the output that was not read yet, until the log ends; past the limit of the output, none is read."""
        skip, trouble = self._read, self._attempt.trouble
        async for piece in self._engine.log(self._container, follow=not until_now):
            if trouble.done() and trouble.result() == "output_limit":
                return
            fresh = piece[skip:]
            skip = max(0, skip - len(piece))
            if fresh:
                self._read += len(fresh)
                self._attempt.write(fresh, grace_seconds=self._grace_seconds)
                await self._attempt.sink.room()

    async def watch_processor(self, most: float) -> None:
        """End the attempt when its container has used so many seconds of processor time."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                used = await self._engine.cpu_seconds(self._container)
            except EngineAway:
                continue
            if used is not None and used > most:
                self._attempt.end_early("cpu_limit", self._grace_seconds)
                return
