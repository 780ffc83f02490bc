"""Operations over many things, carried out page by page by any scheduler.

operations.take ──► carry out a page ──► operations.step ──► taken again, by any scheduler, until no page is left ▲ │
└── somebody else has moved it meanwhile: what we did was done once └── hold over ◄─────┘ we died

Invariant: a page is on record only with the fence of the one before, and carrying one out twice is carrying it out once
(`control.bulk` sees to that); so an operation goes on after any crash, and counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.store import OperationRow, OperationStep, OperationStore
from tickwise.roles.shared.group_commit import surely
from tickwise.roles.shared.service import Telemetry

PAGE: Final = 200
"""Things in one step: a second's work at most, so that a request to cancel is soon felt."""
HOLD_SECONDS: Final = 30.0
"""The time for which one scheduler holds an operation. If it dies, another one goes on after this."""
LOOK_SECONDS: Final = 2.0
"""The interval of looks without a signal."""

logger = structlog.get_logger("tickwise.scheduler")


class PageResult(Protocol):
    """The result of one page."""

    @property
    def cursor(self) -> str | None:
        """The cursor of the next page; None: this was the last."""
        ...

    @property
    def done(self) -> int:
        """In this page."""
        ...

    @property
    def refused(self) -> int:
        """In this page."""
        ...

    @property
    def problems(self) -> str:
        """JSON text, in place of those that the operation had."""
        ...

    @property
    def failed(self) -> bool:
        """True if the operation cannot go on."""
        ...


CarryOut = Callable[[OperationRow, int], Awaitable[PageResult]]
"""Carries out the next page of so many things. A repeated page has no second effect."""


class Operations:
    """One scheduler's part in it."""

    def __init__(self, operations: OperationStore, carry_out: CarryOut, *, clock: Clock, telemetry: Telemetry) -> None:
        self._operations = operations
        self._carry_out = carry_out
        self._clock = clock
        self._telemetry = telemetry

    async def step(self) -> float:
        """Carry out one page of one operation; how long until the next look."""
        operation = await self._operations.take(HOLD_SECONDS)
        if operation is None:
            return LOOK_SECONDS
        try:
            page = await self._carry_out(operation, PAGE)
        except Unavailable:
            raise
        except Exception:
            # It is taken again when the hold is over; until then others have their turn.
            logger.exception("operation_failed", operation_id=str(operation.operation_id), kind=operation.kind)
            return 0.0
        step = OperationStep(
            operation_id=operation.operation_id,
            expected_step=operation.step,
            cursor=page.cursor,
            done=page.done,
            refused=page.refused,
            problems=page.problems,
            failed=page.failed,
        )
        if await surely(lambda: self._operations.step(step), self._clock):
            self._telemetry.operated(done=page.done, refused=page.refused)
            if page.failed:
                logger.warning(
                    "operation_stopped", operation_id=str(operation.operation_id), kind=operation.kind,
                    problems=page.problems,
                )  # fmt: skip
        else:
            logger.info("operation_overtaken", operation_id=str(operation.operation_id), step=operation.step)
        return 0.0
