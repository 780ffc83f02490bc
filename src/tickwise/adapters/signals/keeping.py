"""The base of a link to a server that may be away: tasks that only their owner ends, and bounded waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tickwise.ports.clock import Clock

RETRY_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Between attempts to reach it again."""

Back = Callable[[], None]
"""A step calls it when the other side has answered."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """Keeps a step going."""

    clock: Clock
    where: str
    """The name of the other side, for the log."""
    away: tuple[type[Exception], ...]
    """The error that is raised while it is away."""

    async def keep(self, what: str, step: Callable[[Back], Awaitable[None]]) -> None:
        """Go on with `step` until cancelled: no error ends it. That the other side is away is said once, and once that
        it is back. `what` happens meanwhile, for the log. A step that returns is called again."""
        failures = 0

        def back() -> None:
            nonlocal failures
            if failures:
                log.info("%s is back", self.where)
            failures = 0

        task = asyncio.current_task()
        # Asked each time: what comes out of a driver that is interrupted may be another error than the interruption.
        while task is None or not task.cancelling():
            try:
                await step(back)
            except self.away as error:
                if failures == 0:
                    told = f"{type(error).__name__}: {error}"
                    log.warning("%s until %s can be reached again: %s", what, self.where, told)
            except Exception:
                log.exception("%s for a moment, because of an error of our own", what)
            else:
                continue
            pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
            failures += 1
            await self.clock.sleep(pause * (0.5 + self.clock.chance()))


async def wait_within(event: asyncio.Event, seconds: float) -> None:
    """Until it is set, or so long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
