"""The shards that an answer is without, as their databases were away: noted within one task of asyncio.

watch() ──► calls that go without a shard note it ──► what `watch` returned has their numbers
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final

_MISSING: Final[ContextVar[set[int] | None]] = ContextVar("missing_shards", default=None)


def watch_missing() -> set[int]:
    """Collect the shards that calls of this task, and of tasks that it begins, go without. The set fills as they go."""
    found: set[int] = set()
    _MISSING.set(found)
    return found


def note_missing(shards: Iterable[int]) -> None:
    """Note that an answer is without what is in these shards."""
    found = _MISSING.get()
    if found is not None:
        found.update(shards)
