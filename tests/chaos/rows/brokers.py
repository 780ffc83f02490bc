"""R7: the broker is killed, stands still, loses, repeats and reorders, its topics are deleted, its disk is full.

Everywhere the same cast (2 schedulers, 2 executors, a recorder, an API), results through the broker, and a load that
the machine bears easily: what is judged is that nothing is lost or done twice, and by how much it comes later. A hint
that does not come costs `poll_seconds`; what the broker does to it must cost no more than two seconds beyond.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from tests.chaos import lossy
from tests.chaos.channels import Channels
from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, PATIENT, Player, Scene
from tests.chaos.server import fill, small_disk
from tests.services.kafka import Kafka
from tests.services.server import Server as ServiceServer
from tests.support.waiting import eventually

LOSSES: Final = 0.1
SHORT_OUTAGE_SECONDS: Final = 5.0
EVERY_SECONDS: Final = 0.25
AFTER_SECONDS: Final = 2.0
"""The load goes on for so long after a fault."""
LATE_SECONDS: Final = 2.0
"""Beyond `poll_seconds`."""
DISK_MEGABYTES: Final = 48
SESSION_SECONDS: Final = 6.0
"""Of a consumer, by the settings of `tests.services.kafka`."""
KIND: Final = ("runs.", "results")


# ------------------------------------------------------------------ the stage and the load


_numbers = count()


@dataclass(eq=False)
class Steady:
    """Jobs that come all the time, some at once."""

    scene: Scene
    each: int
    """Of them every `EVERY_SECONDS`."""
    made: int = 0

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Until the block is left; then its last jobs are acknowledged, too."""
        over = asyncio.Event()
        client = asyncio.create_task(self._submit(over))
        try:
            yield
        finally:
            over.set()
            await client

    async def _submit(self, over: asyncio.Event) -> None:
        while not over.is_set():
            begun = CLOCK.monotonic()
            bodies = [function(self.scene, "brief")] * self.each
            await self.scene.clients.submit_many(f"steady {next(_numbers)}", bodies)
            self.made += self.each
            await CLOCK.sleep(max(0.0, begun + EVERY_SECONDS - CLOCK.monotonic()))


async def stage(scene: Scene, kafka: Kafka | None = None, **settings: str) -> Channels:
    """A broker, and roles that use it for all that there is."""
    channels = Channels(await scene.beside(kafka or Kafka()))
    scene.tell(TICKWISE_BROKER_URL=channels.url, TICKWISE_RESULTS="broker", **settings)
    await scene.cast(schedulers=2, executors=2, recorders=1)
    return channels


async def lags(scene: Scene, since: float) -> list[float]:
    """How long each run waited for its task to begin, of those made since then (monotonic)."""
    async with scene.session() as connection:
        window = scene.witness.wall(since), scene.witness.wall(time.monotonic())
        made = dict(await connection.fetch(scene.sql["lags"], *window))
    begun = {line.run_id: scene.witness.wall(line.at) for line in reversed(scene.witness.begun())}
    return sorted(begun[run_id] - at for run_id, at in made.items() if run_id in begun)


def p99(values: list[float]) -> float:
    """The value that one in a hundred exceeds."""
    assert values, "jobs ran"
    return values[len(values) * 99 // 100]


async def under_load(scene: Scene, size: Size, name: str, harm: Callable[[], Awaitable[None]]) -> None:
    """The fault, with jobs coming in before, during and after it; then all of them end. How late they were is a figure,
    and judged where time is."""
    load = Steady(scene, max(1, round(size.jobs * EVERY_SECONDS)))
    begun = time.monotonic()
    async with load.going_on():
        scene.harmed(name, "the broker")
        await harm()
        scene.last_fault = time.monotonic()
        await CLOCK.sleep(AFTER_SECONDS)
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    found = await lags(scene, begun)
    scene.figures[f"lag_p99_seconds_{name.replace(' ', '_')}"] = round(p99(found), 3)
    scene.figures["jobs"] = scene.figures.get("jobs", 0) + load.made
    limit = scene.pace.poll + LATE_SECONDS
    if size.timed and p99(found) > limit:
        scene.complain(f"{name}: p99 of the wait for a start was {p99(found):.2f} s, and not within {limit:g} s")


async def _judge(scene: Scene, channels: Channels) -> None:
    """The broker was really used, and nobody took its absence for a defect."""
    for kind in KIND:
        sent = await channels.sent(kind)
        scene.figures[f"messages_{kind.strip('.')}"] = sent
        if not sent:
            scene.complain(f"nothing was ever sent to {kind}*, so this has shown nothing")
    if parked := await channels.parked():
        scene.complain(f"{len(parked)} messages were parked, the first for {parked[0].headers.get('error')!r}")
    check_roles(scene)


def check_roles(scene: Scene) -> None:
    """None of them ended, and none took the absence of the broker for a defect."""
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
        if player.role.events("loop_failed"):
            scene.complain(f"{player.role.log.name} took a broker's trouble for a defect")


# ------------------------------------------------------------------ what is done to it


async def losing(scene: Scene, size: Size) -> Knowledge:
    """R7: hints are lost, repeated and out of order all along; the broker is killed for seconds, then for minutes."""
    scene.program = lossy.program()
    scene.tell(**{lossy.VARIABLE: str(LOSSES)})
    channels = await stage(scene)
    await under_load(scene, size, "losses", partial(CLOCK.sleep, AFTER_SECONDS))
    outages = [SHORT_OUTAGE_SECONDS] * (size.rounds - 1) + [size.seconds]
    for seconds in outages:
        await under_load(scene, size, f"killed for {seconds:g} s", partial(killed, channels.kafka, seconds))
    scene.figures["broker_away_seconds"] = sum(outages)
    await _judge(scene, channels)
    return Knowledge()


async def killed(server: ServiceServer, seconds: float) -> None:
    """Kill a broker, and start it again after so long."""
    server.kill()
    await CLOCK.sleep(seconds)
    await server.start()


async def standing(scene: Scene, size: Size) -> Knowledge:
    """R7-PAUSED: the broker stands still: it neither answers nor hangs up, for longer than any session."""
    channels = await stage(scene)
    for number in range(size.rounds):
        await under_load(scene, size, f"paused {number}", partial(frozen, channels.kafka, size.seconds))
    await _judge(scene, channels)
    return Knowledge()


async def frozen(server: ServiceServer, seconds: float) -> None:
    """Let a broker stand still for so long."""
    server.freeze()
    try:
        await CLOCK.sleep(seconds)
    finally:
        server.thaw()


async def deleting(scene: Scene, size: Size) -> Knowledge:
    """R7-DELETED: somebody deletes the topics of hints and results, with all that is in them."""
    channels = await stage(scene)
    for number in range(size.rounds):
        await under_load(scene, size, f"topics deleted {number}", partial(_deleted, channels, size.seconds))
    await _judge(scene, channels)
    return Knowledge()


async def _deleted(channels: Channels, seconds: float) -> None:
    names = [name for name in await channels.names() if name.startswith(KIND)]
    assert names, "there are topics to delete"
    await channels.delete(names)
    await CLOCK.sleep(seconds)

    async def again() -> bool:
        return set(names) <= set(await channels.names())

    await eventually(again, within_seconds=90, what="the roles make the topics again")


async def filling(scene: Scene, size: Size) -> Knowledge:
    """R7-FULL: the broker's only disk is full. Kafka ends itself then; with space it is started again."""
    with _small_disk() as disk:
        channels = await stage(scene, Kafka(disks=[disk / "data"]))
        for number in range(size.rounds):
            harm = partial(_full, channels.kafka, size.seconds, disk / "ballast")
            await under_load(scene, size, f"disk full {number}", harm)
        await _judge(scene, channels)
        await _leave(scene, channels)
    return Knowledge()


@contextlib.contextmanager
def _small_disk() -> Iterator[Path]:
    try:
        with small_disk(DISK_MEGABYTES) as disk:
            yield disk
    except PermissionError as reason:
        raise NotImplementedError(f"a small disk needs root: {reason}") from reason


async def _leave(scene: Scene, channels: Channels) -> None:
    """In the order in which the disk is free at last."""
    await asyncio.to_thread(scene.fleet.stop)
    await channels.kafka.remove()


async def _full(kafka: Kafka, seconds: float, ballast: Path) -> None:
    fill(ballast)
    await eventually(lambda: not kafka.runs, within_seconds=100, what="the broker finds its disk full and ends")
    await CLOCK.sleep(seconds)
    ballast.unlink()
    await kafka.start()


async def leaderless(scene: Scene, size: Size) -> Knowledge:
    """R7-LEADERLESS: one of the broker's two disks fails, and half of the partitions have no leader any more.

    With one node this is how a partition loses its leader: there is no other replica. In a cluster the same is seen
    when all replicas of a partition are away.
    """
    with _small_disk() as disk:
        kafka = Kafka()
        kafka.disks.append(disk / "data")
        channels = await stage(scene, kafka)
        harm = partial(_without_leaders, scene, channels, size.seconds, disk / "ballast")
        await under_load(scene, size, "without leaders", harm)
        await _judge(scene, channels)
        await _leave(scene, channels)
    return Knowledge()


async def _without_leaders(scene: Scene, channels: Channels, seconds: float, ballast: Path) -> None:
    fill(ballast)

    async def lost() -> int:
        return (await channels.lead())[False]

    scene.figures["partitions_without_leader"] = await eventually(lost, within_seconds=100, what="leaders are missing")
    await CLOCK.sleep(seconds)
    ballast.unlink()
    channels.kafka.kill()
    await channels.kafka.start()


async def stalling(scene: Scene, size: Size) -> Knowledge:
    """R7-STALLED: consumers stand still for longer than their session with the broker, and shorter than their lease.

    Their partitions go to others; what they commit afterwards is refused by the broker; nothing runs twice for it.
    """
    channels = await stage(scene)
    second = scene.start("recorder")
    scene.players.append(second)
    await scene.ready(second)
    for number in range(size.rounds):
        for kind in ("executor", "recorder"):
            players = scene.of(kind)
            victim = players[number % len(players)]
            harm = partial(_stalled, victim, SESSION_SECONDS + size.seconds)
            await under_load(scene, size, f"{kind} stalled {number}", harm)
    await _judge(scene, channels)
    return Knowledge()


async def _stalled(victim: Player, seconds: float) -> None:
    victim.role.signal(signal.SIGSTOP)
    try:
        await CLOCK.sleep(seconds)
    finally:
        victim.role.signal(signal.SIGCONT)


BROKEN: Final = replace(PATIENT, poll=0.5)
"""No executor is to be given up for what happens to the broker."""

ROWS: Final = (
    Row(
        name="R7",
        fault="the broker loses, repeats and reorders a tenth of the hints each, and is killed for seconds and minutes",
        invariant="nothing is lost or runs twice; the wait for a start grows by two seconds at most (p99)",
        play=losing,
        short=Size(jobs=60, seconds=2, rounds=1),
        long=Size(jobs=150, seconds=300, rounds=3, timed=True),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-PAUSED",
        fault="the broker stands still: it neither answers nor hangs up",
        invariant="as R7",
        play=standing,
        short=Size(jobs=60, seconds=4, rounds=1),
        long=Size(jobs=150, seconds=30, rounds=3, timed=True),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-DELETED",
        fault="the topics of hints and results are deleted, with all that is in them",
        invariant="as R7; the topics are made again",
        play=deleting,
        short=Size(jobs=60, seconds=1, rounds=1),
        long=Size(jobs=150, seconds=10, rounds=3, timed=True),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-FULL",
        fault="the broker's disk is full, and it ends; then there is space and it starts again",
        invariant="as R7",
        play=filling,
        short=Size(jobs=60, seconds=2, rounds=1),
        long=Size(jobs=150, seconds=30, rounds=2, timed=True),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-LEADERLESS",
        fault="one of the broker's two disks fails: half of the partitions have no leader",
        invariant="as R7",
        play=leaderless,
        short=Size(jobs=60, seconds=3, rounds=1),
        long=Size(jobs=150, seconds=60, rounds=1, timed=True),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-STALLED",
        fault="an executor, then a recorder, stands still for longer than its session with the broker",
        invariant="its partitions go to others, and nothing runs twice",
        play=stalling,
        short=Size(jobs=60, seconds=2, rounds=1),
        long=Size(jobs=150, seconds=4, rounds=3),
        pace=BROKEN,
        own_recovery=True,
    ),
)
