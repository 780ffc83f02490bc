"""The order in which shards are asked by calls that take what is there: claims, timers, operations.

    A busy · B idle · C busy      A C | B      C A | B      … after `IDLE_SECONDS` B begins once

Each call begins behind the shard that gave something last, so none is passed over. One that had nothing at its last
turn comes after all others, and is asked only if there is room left: an idle shard costs a busy one nothing, but for
one question in `IDLE_SECONDS`.
"""

from __future__ import annotations

from typing import Final

from tickwise.adapters.store.sharded.fleet import Fleet

IDLE_SECONDS: Final = 0.05


class Turns:
    """The turns of one kind of call."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._last = 0
        self._idle_until: dict[int, float] = {}

    def order(self) -> list[int]:
        """The shards that are there, in the order in which they are to be asked now."""
        numbers = [number for number in self._fleet.numbers() if not self._fleet.is_away(number)]
        if not numbers:
            return self._fleet.numbers()
        turned = [*(each for each in numbers if each > self._last), *(each for each in numbers if each <= self._last)]
        now = self._fleet.clock.monotonic()
        return sorted(turned, key=lambda number: self._idle_until.get(number, now) > now)

    def had(self, number: int, found: object) -> None:
        """Note whether a shard had something."""
        if found:
            self._last = number
            self._idle_until.pop(number, None)
        else:
            self._idle_until[number] = self._fleet.clock.monotonic() + IDLE_SECONDS
