"""A bell that everybody hears sooner or later, or never, or twice, and in any order.

Invariant: nothing here makes anything right. A world in which every ring is lost ends as all others do, later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from tickwise.ports.signals import Topic
from tickwise.testing.world.loop import NETWORK, WorldLoop
from tickwise.testing.world.process import SimulatedProcess

Concerns = Callable[[UUID], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """The delivery of signals from now on."""

    lost: float = 0.0
    """The share of rings that a listener does not hear, …"""
    repeated: float = 0.0
    """… and of those that it hears twice."""
    late_seconds: float = 0.002
    """Up to so late, each by its own time: rings overtake each other."""


class Bell:
    """All listeners of a world."""

    def __init__(self, loop: WorldLoop, dice: Random, *, seen: Callable[[str], None]) -> None:
        """`seen` is told `lost` and `repeated`, once for each."""
        self.sound = Sound()
        self._loop = loop
        self._dice = dice
        self._seen = seen
        self._listeners: list[tuple[SimulatedProcess, Topic, Concerns | None, asyncio.Event]] = []

    def of(self, process: SimulatedProcess) -> ProcessSignals:
        """The signals of one process."""
        return ProcessSignals(self, process)

    def ring(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """Let everyone who listens and is concerned hear of it, as well as it can be heard."""
        self._listeners = [each for each in self._listeners if each[0].alive]
        for _, heard, concerns, event in self._listeners:
            if heard is topic and (not about or concerns is None or any(map(concerns, about))):
                self._carry(event)

    def _carry(self, event: asyncio.Event) -> None:
        sound, dice = self.sound, self._dice
        if dice.random() < sound.lost:
            self._seen("lost signal")
            return
        self._loop.call_later(dice.random() * sound.late_seconds, event.set, context=NETWORK)
        if dice.random() < sound.repeated:
            self._seen("duplicate signal")
            self._loop.call_later(dice.random() * sound.late_seconds, event.set, context=NETWORK)


class ProcessSignals:
    """The port `Signals` of one process."""

    def __init__(self, bell: Bell, process: SimulatedProcess) -> None:
        self._bell = bell
        self._process = process

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """Hear nothing more."""
        self._bell._listeners = [each for each in self._bell._listeners if each[0] is not self._process]

    def send(self, topic: Topic, about: Sequence[UUID] = ()) -> None:
        """Ring."""
        self._bell.ring(topic, about)

    def listen(self, topic: Topic, concerns: Concerns | None = None) -> asyncio.Event:
        """A new event, set at each ring that gets here and concerns it."""
        event = asyncio.Event()
        self._bell._listeners.append((self._process, topic, concerns, event))
        return event
