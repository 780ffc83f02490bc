"""A scene on Cassandra: two keepers in the cast, and the log as its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tests.chaos.keepers.cluster import KeeperCluster
from tests.chaos.keepers.log_witness import LogWitness
from tests.chaos.scene import Pace, Player, Scene, Seen
from tests.chaos.server import Backing
from tests.support.waiting import eventually
from tickwise.domain.errors import Unavailable

KEEPERS: Final = 2


class KeeperScene(Scene):
    """What rows ask of a database is asked of the log."""

    def __init__(self, backing: Backing, folder: Path, *, pace: Pace, seed: int) -> None:
        assert isinstance(backing, KeeperCluster)
        super().__init__(backing, folder, pace=pace, seed=seed)
        self.cluster = backing
        self.log = LogWitness(backing.roles_url, self.witness.wall(0.0))
        self.tell(TICKWISE_SIGNALS_URL=backing.redis.url)

    async def cast(
        self, *, schedulers: int = 2, executors: int = 3, apis: int = 1, recorders: int = 0, slots: int = 8
    ) -> None:
        """Keepers first, then all others."""
        await self.log.start()
        keepers = [self.start("keeper") for _ in range(KEEPERS)]
        await asyncio.gather(*(self.ready(each) for each in keepers))
        await super().cast(schedulers=schedulers, executors=executors, apis=apis, recorders=recorders, slots=slots)
        self.players += keepers

    @property
    def owner(self) -> Player:
        """The keeper that opened the log last, of those that live."""
        keepers = [each for each in self.of("keeper") if each.role.events("log_opened")]
        return max(keepers, key=lambda each: str(each.role.events("log_opened")[-1]["timestamp"]))

    async def another_owns(self, before: Player) -> None:
        """Wait until another keeper has opened the log."""
        await eventually(lambda: self.owner is not before, within_seconds=60, what="another keeper owns the shard")

    async def ask(self, name: str, *arguments: Any) -> Any:
        """One value, by the name of its statement, from the log as it is now."""

        async def look() -> tuple[Any] | None:
            try:
                await self.log.refresh()
            except Unavailable:
                return None
            return (self._answer(name, *arguments),)

        return (await eventually(look, within_seconds=60, what=f"the log is read for {name}"))[0]

    def _answer(self, name: str, *arguments: Any) -> Any:
        log = self.log
        answers: dict[str, Callable[..., Any]] = {
            "active": log.active,
            "unfired": log.unfired,
            "ended": lambda: len(log.ended),
            "held": log.held,
            "is_gone": log.is_gone,
        }
        return answers[name](*arguments)

    async def seen(self) -> Seen:
        await self.ask("active")
        return self.log.seen()

    async def machine(self) -> dict[str, Any]:
        return {"cassandra_nodes": len(self.cluster.nodes), "copies": min(3, len(self.cluster.nodes))}

    async def tables_show_what_the_log_says(self) -> None:
        """Every run of the readable table has the state of the log, and none is missing or too many."""
        found: dict[UUID, str] = {}
        expected = {run_id: ended.row.state.value for run_id, ended in self.log.ended.items()}

        async def equal() -> bool:
            nonlocal found
            await self.ask("active")
            expected.update({run_id: ended.row.state.value for run_id, ended in self.log.ended.items()})
            found = dict(await self.log.rows("SELECT run_id, state FROM runs"))
            return found == expected

        try:
            await eventually(equal, within_seconds=60, what="the table `runs` is what the log says")
        except AssertionError:
            missing, other = expected.keys() - found.keys(), found.keys() - expected.keys()
            wrong = sum(found[each] != expected[each] for each in found.keys() & expected.keys())
            counts = f"lacks {len(missing)}, has {len(other)} others, and {wrong} wrong ones"
            self.complain(f"of {len(expected)} runs the readable table {counts}")

    async def close(self) -> None:
        try:
            # A keeper that ends writes a checkpoint, and drops what nobody needs to read any more.
            await self.log.rest()
        finally:
            try:
                await super().close()
            finally:
                await self.log.close()
