"""The shared state in the database: an unlogged table, which costs no write-ahead log and is empty after a crash."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tickwise.adapters.signals.noting import check_name, read, written
from tickwise.adapters.signals.postgres.link import AWAY, PostgresLink, statement
from tickwise.ports.shared_state import MAX_LOOK, Facts, Note

AGAIN_SECONDS: Final = 1.0
"""The pause after a database did not answer: no caller waits for it twice in a row."""
TRIM_SECONDS: Final = 60.0

_TELL: Final = statement("board_tell")
_LOOK: Final = statement("board_look")
_DROP: Final = statement("board_drop")
_TRIM: Final = statement("board_trim")

log = logging.getLogger(__name__)


class PostgresSharedState:
    """`ports.shared_state.SharedState` over one database."""

    def __init__(self, link: PostgresLink) -> None:
        self._link = link
        self._monotonic = link.clock.monotonic
        self._away_until = -math.inf
        self._said = False
        self._trim_at = -math.inf

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """The link is closed by who made it."""

    async def put(self, notes: Sequence[Note], ttl_seconds: float) -> bool:
        """See the port."""
        if not (told := written(notes, ttl_seconds)):
            return True
        kinds, names, facts = zip(*told, strict=True)
        if await self._ask(_TELL, kinds, names, facts, ttl_seconds) is None:
            return False
        if self._monotonic() >= self._trim_at:
            self._trim_at = self._monotonic() + TRIM_SECONDS
            await self._ask(_TRIM)
        return True

    async def take_down(self, kind: str, names: Sequence[str]) -> None:
        """See the port."""
        await self._ask(_DROP, kind, [*names])

    async def look(self, kind: str, names: Sequence[str] | None = None) -> Mapping[str, Facts] | None:
        """See the port."""
        for name in (kind, *(names or ())):
            check_name(name)
        most = MAX_LOOK if names is None else len(names)
        rows = await self._ask(_LOOK, kind, None if names is None else [*names], most)
        if rows is None:
            return None
        return {row["name"]: facts for row in rows if (facts := read(row["facts"])) is not None}

    async def _ask(self, sql: str, *arguments: object) -> list[Any] | None:
        """The rows; None where there is no answer, which is said once."""
        if self._monotonic() < self._away_until:
            return None
        try:
            rows = await self._link.ask(sql, *arguments)
        except AWAY as error:
            if not self._said:
                log.warning("the notes of processes cannot be stored: %s: %s", type(error).__name__, error)
            self._said, self._away_until = True, self._monotonic() + AGAIN_SECONDS
            return None
        self._said = False
        return rows
