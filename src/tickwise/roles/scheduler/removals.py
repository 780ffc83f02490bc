"""Removals of namespaces, carried out page by page by any scheduler.

    removals.take ──► carry out a page ──► put_back, at once or in a moment ──► … ──► the namespace is gone
         ▲                            │
         └─── hold over ◄─────────────┘ we died

Invariant: a page that is carried out twice, or by two schedulers at once, is carried out once (`control.bulk.removal`
sees to that); so a removal goes on after any crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.ports.identity import RemovalStore

PAGE: Final = 200
"""Things in one page: a second's work at most."""
HOLD_SECONDS: Final = 30.0
"""The time for which one scheduler holds a removal. If it dies, another one goes on after this."""
LOOK_SECONDS: Final = 2.0
"""The interval of looks without a signal."""
FAILED_SECONDS: Final = 30.0
"""The time until a page that failed is tried again."""

logger = structlog.get_logger("tickwise.scheduler")

CarryOutRemoval = Callable[[str, int], Awaitable[float | None]]
"""Carries out the next page, of up to so many things, of the removal of this namespace. Answers in how many seconds the
next page is to be tried; None: the namespace is gone."""


class Removals:
    """One scheduler's part in it."""

    def __init__(self, removals: RemovalStore, carry_out: CarryOutRemoval) -> None:
        self._removals = removals
        self._carry_out = carry_out

    async def step(self) -> float:
        """Carry out one page of one removal; how long until the next look."""
        name = await self._removals.take(HOLD_SECONDS)
        if name is None:
            return LOOK_SECONDS
        try:
            wait_seconds = await self._carry_out(name, PAGE)
        except Unavailable:
            raise
        except Exception:
            logger.exception("namespace_removal_failed", namespace=name)
            wait_seconds = FAILED_SECONDS
        if wait_seconds is None:
            logger.info("namespace_removed", namespace=name)
            return 0.0
        await self._removals.put_back(name, wait_seconds)
        return min(wait_seconds, LOOK_SECONDS)
