"""R3: roles that die at every point at which what they did is known to the store, to them, to both, or to neither."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Final

from tests.chaos.dying import VARIABLE
from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, shell
from tests.chaos.scene import CLOCK, Player, Scene
from tests.support.waiting import eventually

DYING: Final = (sys.executable, "-m", "tests.chaos.dying")
LASTING_SECONDS: Final = 0.5
WORKING: Final = (
    "executors.join:before", "executors.join:after", "executors.beat:before", "executors.beat:after",
    "attempts.claim:before", "attempts.claim:after", "attempts.start:before", "attempts.start:after",
    "attempts.finish:before", "attempts.finish:after",
)  # fmt: skip
LEAVING: Final = ("executors.leave:before", "executors.leave:after")
"""When it is told to stop, and its task outlasts the drain."""
GUARDED: Final = ("attempts.start:before", "attempts.start:after", "attempts.finish:after")
"""Again with a run that was lost once: its start is recorded before its task begins."""
HEALING: Final = ("executors.expire:before", "sql/runs_free:before", "executors.expire:after")
FIRING: Final = (
    "timers.fire:before", "timers.fire:after", "timers.take:after", "timers.commit:before", "timers.commit:after",
)  # fmt: skip
ANSWERING: Final = ("jobs.add:before", "jobs.add:after")
DEATH_SECONDS: Final = 80.0
BEYOND_HORIZON_SECONDS: Final = 3.5
"""What is due sooner becomes a run when it is submitted."""


async def dying(scene: Scene, size: Size) -> Knowledge:
    """R3."""
    for number in range(size.rounds):
        await _round(scene, f"round {number}")
    scene.figures["points"] = size.rounds * sum(map(len, (WORKING, LEAVING, GUARDED, HEALING, FIRING, ANSWERING)))
    return Knowledge(must_hit=True)


async def _round(scene: Scene, name: str) -> None:
    """Every point once. A point that is not reached fails the row, for then nobody has died there."""
    api = scene.start("api")
    healthy = str(await scene.ready(api))
    scene.clients.urls = [healthy]
    await _executors_die(scene, name)
    for point in HEALING:
        await _dead([start_at(scene, "scheduler", point)])
    again = [start_at(scene, "executor", point, TICKWISE_QUEUES=f"g{place}") for place, point in enumerate(GUARDED)]
    async with asyncio.TaskGroup() as together:
        together.create_task(_schedulers_die(scene, name))
        together.create_task(_apis_die(scene, name, healthy))
    scene.clients.urls = [healthy]
    scheduler = scene.start("scheduler")
    await scene.ready(scheduler)
    await _dead(again)
    executor = scene.start("executor", TICKWISE_QUEUES=",".join([*_queues(), "default"]))
    players = (api, scheduler, executor)
    await scene.ready(executor)
    await scene.calm()
    for player in players:
        player.role.signal(signal.SIGTERM)
        await player.role.ended(60)


def _queues() -> dict[str, str]:
    """One for each executor that dies, and its point: working, leaving, or losing what is then guarded."""
    points = {"w": WORKING, "l": LEAVING, "g": GUARDED}
    return {f"{kind}{place}": point for kind, named in points.items() for place, point in enumerate(named)}


async def _executors_die(scene: Scene, name: str) -> None:
    """Each with one run of its own. Where its start must be recorded while it runs, it waits until they are dead."""
    gate = scene.folder / f"{name} dead"
    waiting = shell(scene, f'until [ -e "{gate}" ]; do sleep 0.05; done')
    for queue, point in _queues().items():
        waits = point in LEAVING or (queue.startswith("w") and point.startswith("attempts.start:"))
        body = waiting if waits else function(scene, "lasting", seconds=LASTING_SECONDS)
        await scene.clients.submit(f"{name} {queue}", {**body, "queue": queue})
    victims = [start_at(scene, "executor", point, TICKWISE_QUEUES=f"w{place}") for place, point in enumerate(WORKING)]
    victims += [
        start_at(scene, "executor", "attempts.claim:after", TICKWISE_QUEUES=f"g{place}")
        for place, _ in enumerate(GUARDED)
    ]
    leaving = [
        start_at(scene, "executor", point, TICKWISE_QUEUES=f"l{place}", TICKWISE_DRAIN_SECONDS="0")
        for place, point in enumerate(LEAVING)
    ]
    async with asyncio.TaskGroup() as together:  # one after the other, the last one's run could end unseen
        for player in leaving:
            together.create_task(_told_to_stop(scene, player))
    await _dead([*victims, *leaving])
    gate.touch()


async def _told_to_stop(scene: Scene, player: Player) -> None:
    """While its run goes on."""
    await player.role.ready()
    await eventually(partial(_begun, scene, player), within_seconds=DEATH_SECONDS, what="it runs its run")
    player.role.signal(signal.SIGTERM)


async def _begun(scene: Scene, player: Player) -> bool:
    return bool(await scene.ask("begun", player.name))


async def _schedulers_die(scene: Scene, name: str) -> None:
    """While one-time jobs and schedules keep coming due, until all have died."""
    victims = [start_at(scene, "scheduler", point) for point in FIRING]
    until = CLOCK.monotonic() + DEATH_SECONDS
    for number in count():
        if all(player.role.process.poll() is not None for player in victims) or CLOCK.monotonic() > until:
            break
        soon = (datetime.now(UTC) + timedelta(seconds=BEYOND_HORIZON_SECONDS)).isoformat()
        once = function(scene, "brief") | {"schedule_type": "FUTURE", "schedule_time": soon}
        await scene.clients.submit(f"{name} once {number}", once)
        every = function(scene, "brief") | {"schedule_type": "INTERVAL", "interval_seconds": 1, "max_runs": 1}
        await scene.clients.submit(f"{name} every {number}", every, once=False)
        await CLOCK.sleep(0.3)
    await _dead(victims)


async def _apis_die(scene: Scene, name: str, healthy: str) -> None:
    """Under a request of a client, who asks again elsewhere."""
    victims = [start_at(scene, "api", point, "--port", "0") for point in ANSWERING]
    for place, victim in enumerate(victims):
        scene.clients.urls = [str(await victim.role.ready()), healthy]
        for number in range(2):
            await scene.clients.submit(f"{name} answered {place} {number}", function(scene, "brief"))
    await _dead(victims)


def start_at(scene: Scene, kind: str, point: str, *words: str, **settings: str) -> Player:
    """A role that something happens to at that point."""
    player = Player(kind, scene.fleet.start(kind, *words, program=DYING, **{VARIABLE: point}, **settings))
    scene.harmed(point, player)
    return player


async def _dead(players: Sequence[Player]) -> None:
    """Wait until all have died, of what they were to die of."""
    for player in players:
        status = await player.role.ended(DEATH_SECONDS)
        if status != -signal.SIGKILL:
            raise AssertionError(f"{player.role.log.name} ended with {status}, and was to die")


ROWS: Final = (
    Row(
        name="R3",
        fault="kill -9 at each named point: before and after each thing that a role tells the store",
        invariant="no job lost, each ended once; every point was reached",
        play=dying,
        short=Size(rounds=1),
        long=Size(rounds=4),
    ),
)
