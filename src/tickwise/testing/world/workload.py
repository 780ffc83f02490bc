"""The workload of a world: from what is asked, the seed draws what is asked next, until the rough time is over."""

from __future__ import annotations

from typing import Final

from tickwise.testing.world.clients import Request, pause
from tickwise.testing.world.loop import NETWORK
from tickwise.testing.world.requests import SimulatedRequests

CLOSING_SECONDS: Final = 10.0
"""The time after the last request from which no schedule fires any more."""


class Clients(SimulatedRequests):
    """All clients of a world."""

    async def ask(self) -> None:
        """Ask, until the rough time is over."""
        swarm, dice, loop = self._swarm, self._dice, self._loop
        self._ends_at = swarm.start + swarm.rough_seconds + CLOSING_SECONDS
        menu = self._menu()
        if swarm.wants("burst"):
            loop.call_later(dice.random() * swarm.rough_seconds, self._go, self._burst, context=NETWORK)
        while loop.time() < swarm.rough_seconds:
            self._go(dice.choice(menu))
            await pause(loop, dice.expovariate(1.0 / swarm.ask_gap_seconds))

    def _menu(self) -> list[Request]:
        swarm = self._swarm
        menu: list[Request] = []
        for feature in ("once", "future", "cron", "interval"):
            if swarm.wants(feature):
                menu += [self._submit_of(feature)] * 3
        for feature, do in (
            ("run now", self._run_now),
            ("cancel run", self._cancel_run),
            ("cancel run", self._cancel_run),
            ("cancel job", self._cancel_job),
            ("retry", self._retry),
            ("pause", self._pause),
            ("edit", self._edit),
            ("sequence", self._sequence),
            ("redrive", self._redrive),
            ("unknown", self._settle),
            ("hold", self._hold),
            ("bulk", self._bulk),
            ("maintenance", self._maintain),
        ):
            if swarm.wants(feature):
                menu.append(do)
        return menu
