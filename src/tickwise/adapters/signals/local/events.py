"""The channel of events inside one process."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.signals.watching import Watch, Watchers


class LocalEvents:
    """`ports.events.Events` where nobody else could hear it."""

    def __init__(self) -> None:
        self._watchers = Watchers()

    async def start(self) -> None:
        """There is nothing to begin."""

    async def stop(self) -> None:
        """See the port."""
        self._watchers.end()

    def publish(self, channel: str, value: bytes) -> None:
        """See the port."""
        self._watchers.publish(channel, value)

    def subscribe(self, channels: Sequence[str]) -> Watch:
        """See the port."""
        return Watch(self._watchers, channels)
