"""The shared state in Redis: one key for each note, which expires by itself, and one set of names for each kind.

    tell ──► SET board:KIND:NAME facts PX ttl;  ZADD board:KIND names by when they were told, the newest of them
    look ──► the names that are asked for, or those of the set ──► MGET; names whose note is gone leave the set

The set is only there so that all of a kind can be looked at: a name too many in it is nothing, one too few is a note
that is seen again when it is told again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tickwise.adapters.signals.noting import check_name, read, written
from tickwise.adapters.signals.redis.link import AWAY, Command, RedisLink
from tickwise.ports.shared_state import MAX_LOOK, Facts, Note

MAX_LISTED: Final = 2 * MAX_LOOK
"""Names that the set of a kind keeps."""


class RedisSharedState:
    """`ports.shared_state.SharedState` over one Redis."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """The link is closed by who made it."""

    async def put(self, notes: Sequence[Note], ttl_seconds: float) -> bool:
        """See the port."""
        if not (told := written(notes, ttl_seconds)):
            return True
        milliseconds, now = max(1, math.ceil(ttl_seconds * 1000)), round(self._link.clock.now() * 1000)
        commands: list[Command] = []
        listed: dict[str, list[str | int]] = {}
        for kind, name, facts in told:
            commands.append(("SET", self._link.key("board", kind, name), facts, "PX", milliseconds))
            listed.setdefault(kind, []).extend((now, name))
        for kind, names in listed.items():
            key = self._link.key("listed", kind)
            commands.append(("ZADD", key, *names))
            commands.append(("ZREMRANGEBYRANK", key, 0, -MAX_LISTED - 1))
            commands.append(("PEXPIRE", key, 2 * milliseconds, "GT"))
            commands.append(("PEXPIRE", key, 2 * milliseconds, "NX"))
        try:
            answers = await self._link.run(commands)
        except AWAY:
            return False
        return not any(isinstance(answer, Exception) for answer in answers)

    async def take_down(self, kind: str, names: Sequence[str]) -> None:
        """See the port."""
        if not names:
            return
        keys = [self._link.key("board", kind, name) for name in names]
        try:
            await self._link.run([("UNLINK", *keys), ("ZREM", self._link.key("listed", kind), *names)])
        except AWAY:
            return

    async def look(self, kind: str, names: Sequence[str] | None = None) -> Mapping[str, Facts] | None:
        """See the port."""
        for name in (kind, *(names or ())):
            check_name(name)
        try:
            wanted = [*names] if names is not None else await self._listed(kind)
            if not wanted:
                return {}
            found: Any = await self._link.ask("MGET", *(self._link.key("board", kind, name) for name in wanted))
            if names is None and (gone := [name for name, facts in zip(wanted, found, strict=True) if facts is None]):
                await self._link.run([("ZREM", self._link.key("listed", kind), *gone)])
        except AWAY:
            return None
        texts = dict(zip(wanted, found, strict=True))
        return {name: facts for name, text in texts.items() if text is not None and (facts := read(text)) is not None}

    async def _listed(self, kind: str) -> list[str]:
        names: Any = await self._link.ask("ZREVRANGE", self._link.key("listed", kind), 0, MAX_LOOK - 1)
        return [name.decode(errors="replace") for name in names]
