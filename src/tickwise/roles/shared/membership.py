"""The active roles: each role notes on the board every few seconds that it is active, for people to see. No decision
uses it.

    role ──tell, every `TELL_SECONDS`──► board (until `TTL_SECONDS` later) ──look──► people

Executors are also in the store, which judges their lives by leases; a note here says only that somebody spoke lately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tickwise.domain.errors import Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.board import Board, Note
from tickwise.ports.clock import Clock
from tickwise.roles.shared.service import Loop

KIND: Final = "role"
TELL_SECONDS: Final = 3.0
TTL_SECONDS: Final = 10.0
"""A role that missed three times is not there."""


class RoleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a role about itself. Times are Unix seconds."""

    role: str
    name: str
    """HOST:PID, as in the logs and among the executors."""
    version: str
    since: float
    """When its process was ready, by its machine's clock."""
    health_url: str | None = None
    serves: list[str] = []
    last_scan_at: float | None = None
    """Of a scheduler: when it last looked for what is due, by the store's clock."""
    clock_ahead_seconds: float | None = None
    """How far the clock of its machine is ahead of the store's; None: not known."""


async def roll_of(board: Board) -> list[RoleFacts]:
    """Those who spoke lately, by role and name. Raises `Unavailable` if the board cannot be read."""
    found = await board.look(KIND)
    if found is None:
        raise Unavailable("what roles say of themselves cannot be read now", retry_after_seconds=TELL_SECONDS)
    roll = []
    for facts in found.values():
        try:
            roll.append(msgspec.convert(dict(facts), RoleFacts))
        except msgspec.ValidationError:
            continue  # of a version that says it in another way, or by somebody else
    return sorted(roll, key=lambda each: (each.role, each.name))


class RollCall:
    """Says that the roles of a process are alive."""

    def __init__(
        self,
        board: Board,
        clock: Clock,
        speak: Callable[[], Sequence[RoleFacts]],
        heard: Callable[[Sequence[RoleFacts]], None] | None = None,
    ) -> None:
        """`speak` gives what there is to say now; `heard` is told who else is alive, if anybody wants to know."""
        self._board = board
        self._clock = clock
        self._speak = speak
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to speak. A board that is away is told later."""
        self._task = asyncio.create_task(Loop("roll", self._step, self._clock).run(), name="roll call")

    async def stop(self) -> None:
        """Say that they are gone."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        await self._board.take_down(KIND, [_name(each) for each in self._speak()])

    async def _step(self) -> float:
        await self.tell()
        return TELL_SECONDS

    async def tell(self) -> None:
        """Speak once, and listen."""
        notes = [Note(KIND, _name(each), msgspec.to_builtins(each)) for each in self._speak()]
        if await self._board.tell(notes, TTL_SECONDS) and self._heard is not None:
            try:
                self._heard(await roll_of(self._board))
            except Unavailable:
                return


def _name(facts: RoleFacts) -> str:
    return f"{facts.role}@{facts.name}"
