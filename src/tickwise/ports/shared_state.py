"""The notes that processes share and pages show: which roles are active, which requests were accepted. Any note may
vanish at any time, so nothing is decided by one.

    tell(notes, ttl_seconds) ──► kept until its time is over, told again before that ──► look(kind)

Invariant: a reader gets the last note of its author, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

MAX_FACTS_BYTES: Final = 4_000
"""Of one note, as JSON; a larger one is refused."""
MAX_NAME_LENGTH: Final = 200
"""Characters of a kind, and of a name."""
MAX_LOOK: Final = 1_000
"""Notes that one look gives when it names none; which ones is not said when there are more."""
MAX_TTL_SECONDS: Final = 86_400.0

Facts = Mapping[str, Any]
"""The content of a note: JSON values under short names."""


class Note(NamedTuple):
    """One note. A later note of the same kind and name replaces it."""

    kind: str
    name: str
    facts: Facts


class SharedState(Protocol):
    """The store of notes. Writers and readers go on without it: no method raises because the shared state is away."""

    async def start(self) -> None:
        """Begin; never raises because the other side is away."""
        ...

    async def stop(self) -> None:
        """Free everything. Notes stay until their time is over."""
        ...

    async def put(self, notes: Sequence[Note], ttl_seconds: float) -> bool:
        """Write notes that last `ttl_seconds` (more than 0, at most `MAX_TTL_SECONDS`); whether they are written.
        Raises `ValueError` for one that breaks a limit above."""
        ...

    async def take_down(self, kind: str, names: Sequence[str]) -> None:
        """Remove notes before their time is over."""
        ...

    async def look(self, kind: str, names: Sequence[str] | None = None) -> Mapping[str, Facts] | None:
        """Read notes, by name: those of `names` that are there, or all of the kind, up to `MAX_LOOK`. None: the shared
        state cannot be read now, which does not mean that nothing is there."""
        ...
