"""R21: the release before this one and this one at work on one database, forwards, back and forwards again.

schema  N-1 ─────────►│ N ──────────────────────────────────────────────────────────────►
roles   N-1 alone     │ N-1 alone   N joins, N-1 leaves   N leaves, N-1 is back   N again
load    ─────────────────────────────────────────────────────────────────────────────────►
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.older import OlderServer, older_server
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, mixed
from tests.chaos.scene import CLOCK, PATIENT, ROOT, Player, Scene
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import schema_status, upgrade
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.history.checker import Edge
from tickwise.domain.lifecycle import RunState

CAST: Final = {"api": 2, "scheduler": 2, "executor": 3}
SMALL_CAST: Final = {"api": 1, "scheduler": 1, "executor": 2}
LARGE_JOBS: Final = 1_000
"""From so many jobs on there is the whole cast, and it goes forwards a second time."""
SLOTS: Final = "8"
OLD, NEW = "old", "new"
AHEAD_SECONDS: Final = 1.0
RECURRING: Final = 3
OCCURRENCES: Final = 10
"""Of each recurring job, one a second."""
PROGRESS: Final = 40
"""Runs that end before the next step, so that each state of the upgrade is one that works."""
STEP_SECONDS: Final = 200.0


async def upgrading(scene: Scene, size: Size) -> Knowledge:
    """R21."""
    large = size.jobs >= LARGE_JOBS
    fleet = _Fleets(scene, CAST if large else SMALL_CAST)
    await fleet.join(OLD)
    over = asyncio.Event()
    edges: list[Edge] = []
    async with asyncio.TaskGroup() as both:
        load = both.create_task(_load(scene, size, edges, over))
        both.create_task(_upgrade(scene, fleet, over, again=large))
    recurring = load.result()
    await scene.all_fired(within_seconds=STEP_SECONDS)
    await fleet.tell_who_ended()
    for job_id in recurring:
        path = f"/jobs/{job_id}/runs?limit=100"
        runs = await eventually(partial(scene.clients.get, path), within_seconds=60, what="an API answers")
        ends = [run["status"] for run in runs]
        if ends != ["SUCCESS"] * OCCURRENCES:
            scene.complain(f"a job that recurs {OCCURRENCES} times has the runs {ends}")
    freed = int(await scene.ask("freed_most"))
    if freed:
        scene.complain(f"{freed} runs were taken from executors that could have ended them in peace")
    await scene.slots_are_free()
    return Knowledge(edges=edges)


async def _upgrade_schema(scene: Scene) -> str:
    """Gives up where somebody has a table for long, as roles on a busy machine may, and is repeated then."""
    until = CLOCK.monotonic() + STEP_SECONDS
    while True:
        try:
            return await upgrade(scene.server.url)
        except StoreUnavailable:
            if CLOCK.monotonic() > until:
                raise
            await CLOCK.sleep(0.5)


async def _upgrade(scene: Scene, fleet: _Fleets, over: asyncio.Event, *, again: bool) -> None:
    """Everything that an operator may do about a release, each step under load."""
    await fleet.progress()
    version = await _upgrade_schema(scene)
    found, _ = await schema_status(scene.server.url)
    if found is None or found.version != version:
        scene.complain(f"after the upgrade to {version} the schema is {found}")
    await fleet.progress()
    ways = [(NEW, OLD), (OLD, NEW)] + [(NEW, OLD)] * again
    for of, instead_of in ways:
        await fleet.replace(of, instead_of)
        await fleet.progress()
    over.set()


class _Fleets:
    """The roles of both releases."""

    def __init__(self, scene: Scene, cast: Mapping[str, int]) -> None:
        self._scene = scene
        self._cast = cast
        self._paths: Mapping[str, Mapping[str, str]] = {
            OLD: older_server(scene.server).path,
            NEW: {"PYTHONPATH": str(ROOT)},
        }
        self._active: dict[str, list[Player]] = {OLD: [], NEW: []}
        self._executors: dict[int, str] = {}
        """Number of each executor that ever was: of which release."""

    async def join(self, release: str) -> None:
        """A cast of this release begins to work."""
        started = [self._start(release, kind) for kind, count in self._cast.items() for _ in range(count)]
        await asyncio.gather(*(self._at_work(release, player) for player in started))

    def _start(self, release: str, kind: str) -> Player:
        slots = {"TICKWISE_SLOTS": SLOTS} if kind == "executor" else {}
        return self._scene.start(kind, **slots, **self._paths[release])

    async def _at_work(self, release: str, player: Player) -> None:
        await self._scene.ready(player)
        self._active[release].append(player)
        self._scene.players.append(player)
        if player.kind == "executor":
            number = (await player.role.event("executor_joined"))["executor"]
            self._executors[number] = release
        await self._tell_clients()

    async def replace(self, release: str, other: str) -> None:
        """One role after the other: the new one works before the old one is told to end. Half way both are given time
        to work side by side."""
        going = [*self._active[other]]
        self._scene.dice.shuffle(going)
        for place, player in enumerate(going):
            await self._at_work(release, self._start(release, player.kind))
            await self._leave(other, player)
            if place == len(going) // 2:
                await self.progress()

    async def _leave(self, release: str, player: Player) -> None:
        self._active[release].remove(player)
        # As behind a load balancer that is told first.
        await self._tell_clients()
        status = await self._scene.retire(player)
        self._scene.players.remove(player)
        if status != 0:
            self._scene.complain(f"{player.role.log.name} of the {release} release ended with {status} after SIGTERM")

    async def _tell_clients(self) -> None:
        apis = [player for players in self._active.values() for player in players if player.kind == "api"]
        self._scene.clients.urls = [str(await player.role.ready()) for player in apis]

    async def progress(self) -> None:
        """Wait until some more runs have ended."""
        await self._scene.ended(int(await self._scene.ask("ended")) + PROGRESS, within_seconds=STEP_SECONDS)

    async def tell_who_ended(self) -> None:
        """Both releases must have had their share, or the row has shown nothing."""
        async with self._scene.session() as connection:
            ended = dict(await connection.fetch(self._scene.sql["enders"]))
        for release in (OLD, NEW):
            count = sum(ends for number, ends in ended.items() if self._executors.get(number) == release)
            self._scene.figures[f"ended_by_the_{release}_release"] = count
            if count < PROGRESS:
                self._scene.complain(
                    f"executors of the {release} release ended {count} runs, and were to end {PROGRESS}"
                )


# ------------------------------------------------------------------ the load


async def _load(scene: Scene, size: Size, edges: list[Edge], over: asyncio.Event) -> list[UUID]:
    """Jobs by every way to a run, until the upgrade is over and for so many rounds at least; those that recur."""
    followed = await scene.clients.submit(
        "after", function(scene, "following") | {"schedule_type": "ON_DEMAND"}, once=False
    )
    recurring = await scene.clients.submit_many("recurring", [_recurring(scene)] * RECURRING, once=False)
    begun, each, number = CLOCK.monotonic(), size.jobs // size.rounds, 0
    while number < size.rounds or not over.is_set():
        await scene.clients.submit_many(f"round {number}", mixed(scene, each))
        soon = datetime.fromtimestamp(time.time() + AHEAD_SECONDS, UTC).isoformat()
        later = function(scene, "brief") | {"schedule_type": "FUTURE", "schedule_time": soon}
        await scene.clients.submit_many(f"later {number}", [later] * (each // 5))
        first = function(scene, "following") | {"then": str(followed)}
        made = await scene.clients.submit_many(f"first {number}", [first] * (each // 5))
        edges += [Edge(job, RunState.SUCCESS, followed) for job in made]
        number += 1
        await CLOCK.sleep(max(0.0, begun + number / size.rounds * size.seconds - CLOCK.monotonic()))
    return recurring


def _recurring(scene: Scene) -> dict[str, Any]:
    """Once a second; what the machine is too slow for is caught up with."""
    times = {"schedule_type": "INTERVAL", "interval_seconds": 1, "max_runs": OCCURRENCES, "overlap": "allow"}
    return function(scene, "brief") | times | {"misfire": {"mode": "all", "max_catchup": OCCURRENCES}}


ROWS: Final = (
    Row(
        name="R21",
        fault="the release before and this one side by side: roles go forwards, back and forwards again, under load",
        invariant="nothing is lost, nothing runs twice, whichever release made, fired, took or ended it",
        play=upgrading,
        short=Size(jobs=200, seconds=6, rounds=10),
        long=Size(jobs=10_000, seconds=60, rounds=120),
        pace=replace(PATIENT, settings={"TICKWISE_DRAIN_SECONDS": "120"}),
        server=OlderServer,
    ),
)
