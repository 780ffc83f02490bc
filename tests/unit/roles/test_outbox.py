"""What an executor has not told the store yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

from tests.unit.roles.rig import Silent, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.errors import InDoubt
from tickwise.ports.store import Began
from tickwise.roles.outbox import Outbox

RUN = UUID(int=1)


class Refusing:
    """A store whose first answer is lost, and that then refuses every start of an older token than `token`."""

    def __init__(self, token: int) -> None:
        self.token = token
        self.asked: list[list[int]] = []

    async def attempts_start(self, executor: int, starts: Sequence[Began]) -> Sequence[UUID]:
        self.asked.append([began.token for began in starts])
        if len(self.asked) == 1:
            raise InDoubt("the answer is lost")
        return [began.run_id for began in starts if began.token != self.token]


async def test_the_start_of_an_older_attempt_does_not_cost_the_living_one_its_right() -> None:
    """A run that was given back and claimed again by the same executor, while the start of its first attempt was still
    to be recorded: the store refuses by run, so that the old start must not be sent with the new one."""
    clock, store = VirtualClock(), Refusing(token=2)
    outbox = Outbox(
        runs=cast(Any, store),
        clock=clock,
        telemetry=Silent(),
        batch=100,
        flush_seconds=0.0,
        emptied=asyncio.Event(),
        followed=lambda: None,
    )
    outbox.start(Began(RUN, 1, clock.now()))
    refused: list[Sequence[Began]] = []

    async def send() -> None:
        refused.append(await outbox.send_starts(7, lambda began: began.token == 2))

    async def fails() -> None:
        try:
            await outbox.send_starts(7, lambda began: began.token == 1)
        except InDoubt:
            outbox.start(Began(RUN, 2, clock.now()))

    await drive(clock, fails())
    await drive(clock, send())
    assert [[1], [2]] == store.asked
    assert [[]] == refused
