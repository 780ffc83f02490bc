"""The active roles: each role notes in the shared state every few seconds that it is active, for people to see. No
decision uses it.

    role ──tell, every `TELL_SECONDS`──► shared state (until `TTL_SECONDS` later) ──look──► people

Executors are also in the store, which judges them by their leases; a note here says only that a process wrote it
lately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tickwise.domain.errors import Unavailable
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.shared_state import Note, SharedState
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
    """The time at which its process was ready, by its machine's clock."""
    health_url: str | None = None
    serves: list[str] = []
    last_scan_at: float | None = None
    """Of a scheduler: when it last looked for what is due, by the store's clock."""
    invariants_at: float | None = None
    """Of a scheduler: when its last pass over the invariants ended, by the store's clock; None: none has ended."""
    invariants_violated: int = 0
    """Violations that this pass could not repair."""
    invariants_unchecked: int = 0
    """Invariants that this pass could not look at."""
    clock_ahead_seconds: float | None = None
    """The lead of its machine's clock over the store's; None: not known."""
    output_waiting_bytes: int = 0
    """Of an executor: output on its disk that the object store does not have yet."""
    output_failure: str = ""
    """The reason why the object store did not take output the last time; empty: it did."""


async def active_roles(shared_state: SharedState) -> list[RoleFacts]:
    """Return the roles with a current note, by role and name. Raises `Unavailable` if the shared state cannot be
    read."""
    found = await shared_state.look(KIND)
    if found is None:
        raise Unavailable("the list of active roles cannot be read now", retry_after_seconds=TELL_SECONDS)
    roles = []
    for facts in found.values():
        try:
            roles.append(msgspec.convert(dict(facts), RoleFacts))
        except msgspec.ValidationError:
            continue  # written by another version in another form, or by another program
    return sorted(roles, key=lambda each: (each.role, each.name))


class MembershipWriter:
    """Writes that the roles of a process are active."""

    def __init__(
        self,
        shared_state: SharedState,
        clock: Clock,
        speak: Callable[[], Sequence[RoleFacts]],
        heard: Callable[[Sequence[RoleFacts]], None] | None = None,
    ) -> None:
        """`speak` returns the current facts; `heard` gets the active roles of all processes, if it is given."""
        self._shared_state = shared_state
        self._clock = clock
        self._speak = speak
        self._heard = heard
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to write. If the shared state is away, the notes are written later."""
        self._task = asyncio.create_task(Loop("membership", self._step, self._clock).run(), name="membership")

    async def stop(self) -> None:
        """Remove the notes of these roles."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])
        await self._shared_state.take_down(KIND, [_name(each) for each in self._speak()])

    async def _step(self) -> float:
        await self.publish()
        return TELL_SECONDS

    async def publish(self) -> None:
        """Write the notes once, then read those of the others."""
        notes = [Note(KIND, _name(each), msgspec.to_builtins(each)) for each in self._speak()]
        if await self._shared_state.put(notes, TTL_SECONDS) and self._heard is not None:
            try:
                self._heard(await active_roles(self._shared_state))
            except Unavailable:
                return


def _name(facts: RoleFacts) -> str:
    return f"{facts.role}@{facts.name}"
