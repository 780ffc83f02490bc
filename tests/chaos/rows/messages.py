"""What is in the broker: messages that nobody can read, requests while the store is away, what others sent there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final
from uuid import UUID

import msgspec

from tests.chaos.channels import LANES, Channels, Origin
from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.brokers import BROKEN, Steady, stage, under_load
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, Scene
from tests.chaos.server import Server
from tests.integration.processes.fleet import api_client
from tests.support.waiting import eventually
from tickwise.cli.failures import Exit
from tickwise.domain.history.checker import Fault

POISON: Final[dict[str, bytes]] = {
    "no message at all": b"\x00\xff\xc1 what is this?",
    "of a later version": msgspec.msgpack.encode({"v": 99, "queue": "default"}),
    "nested too deeply": b"\x91" * 50_000,
    "a list": msgspec.msgpack.encode([1, 2, 3]),
    "wrong types": msgspec.msgpack.encode({"v": 1, "queue": 7, "runs": None, "executor": "x", "kind": "explode"}),
    "cut off": msgspec.msgpack.encode({"v": 1, "queue": "default", "runs": b"1234567890123456"})[:-5],
}
TOLD: Final = {"channel", "partition", "offset", "error"}
"""Headers of what is parked."""
MAX_AGAIN: Final = 10
"""A reader may lose its partitions before the broker hears what it parked. One that never says so parks without end."""
CHANNELS: Final = ("requests", "results", *(f"runs.p{lane}" for lane in range(LANES)))
CLUSTER_KINDS: Final = ("scheduler", "executor", "recorder", "api")


async def poisoning(scene: Scene, size: Size) -> Knowledge:
    """R7-POISON: in each topic messages that cannot be read, under load. Each is parked with its bytes, whichever role
    finds it; again only if another had to go on before the broker knew that it was parked."""
    channels, wanted = await stage(scene), dict[Origin, bytes]()
    await under_load(scene, size, "poison", partial(_put, channels, size.rounds, wanted))
    parked = await channels.parked()
    if poor := [each.headers for each in parked if not TOLD <= each.headers.keys()]:
        scene.complain(f"{len(poor)} parked messages do not say where they come from, the first: {poor[0]}")
    found = [each for each in parked if TOLD <= each.headers.keys()]
    if altered := [each for each in found if wanted.get(each.origin, each.value) != each.value]:
        scene.complain(f"parked with other bytes: {_told((each.origin, each.value) for each in altered)}")
    origins = Counter(each.origin for each in found)
    missing = [(origin, value) for origin, value in wanted.items() if origin not in origins]
    others = [(each.origin, each.value) for each in found if each.origin not in wanted]
    if missing or others:
        scene.complain(f"missing among the parked: {_told(missing)}; too many: {_told(others)}")
    if often := {origin: count for origin, count in origins.items() if count > MAX_AGAIN}:
        scene.complain(f"parked again and again: {often}")
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
    scene.figures["parked"] = len(origins)
    scene.figures["parked_again"] = len(found) - len(origins)
    return Knowledge()


def _told(messages: Iterable[tuple[Origin, bytes]]) -> list[str]:
    names = {value: name for name, value in POISON.items()}
    return [f"{':'.join(map(str, origin))} {names.get(value, value[:40])}" for origin, value in messages]


async def _put(channels: Channels, times: int, wanted: dict[Origin, bytes]) -> None:
    for channel in CHANNELS:
        wanted |= await channels.put(channel, [*POISON.values()] * times)

    async def all_parked() -> bool:
        # What does not say where it was is complained of afterwards.
        parked = await channels.parked()
        return len({each.origin if TOLD <= each.headers.keys() else id(each) for each in parked}) >= len(wanted)

    await eventually(all_parked, within_seconds=100, what=f"{len(wanted)} messages are parked")


async def buffering(scene: Scene, size: Size) -> Knowledge:
    """R7-BUFFERED: PostgreSQL is away, and jobs are accepted all the time; all of them are there once, afterwards."""
    channels = await stage(scene, TICKWISE_INGEST="buffered")
    load = Steady(scene, max(1, round(size.jobs / 4)))
    for number in range(size.rounds):
        async with load.going_on():
            await CLOCK.sleep(1.0)
        doomed = await _far(scene, f"doomed {number}")
        await scene.ended(load.made, of="steady")
        before = load.made
        scene.faults.append(Fault("store away", scene.witness.wall(time.monotonic()), "the database", 0))
        await scene.server.stop_immediately()
        async with load.going_on():
            await CLOCK.sleep(size.seconds / 2)
            await _cancel(scene, doomed)
            await CLOCK.sleep(size.seconds / 2)
        scene.figures["accepted_while_away"] = load.made - before
        await scene.server.start()
        scene.last_fault = time.monotonic()
        await scene.ended(load.made, within_seconds=300, of="steady")
        scene.figures["caught_up_seconds"] = round(time.monotonic() - scene.last_fault, 2)
        await eventually(partial(_is_gone, scene, doomed), within_seconds=60, what="what was cancelled is gone")
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    if parked := await channels.parked():
        scene.complain(f"{len(parked)} messages were parked, the first for {parked[0].headers.get('error')!r}")
    return Knowledge()


async def _far(scene: Scene, key: str) -> UUID:
    """A job that is not due in this row."""
    once = {"schedule_type": "FUTURE", "schedule_time": "2099-01-01T00:00:00Z"}
    return await scene.clients.submit(key, function(scene, "brief") | once, once=False)


async def _cancel(scene: Scene, job_id: UUID) -> None:
    async with api_client(scene.clients.urls[0]) as client:
        answer = await client.delete(f"/jobs/{job_id}")
        assert answer.status_code == 202, f"{answer.status_code} {answer.text}"


async def _is_gone(scene: Scene, job_id: UUID) -> bool:
    answer = await scene.clients.get(f"/jobs/{job_id}")
    return bool(answer and answer["status"] == "CANCELLED")


async def mixing(scene: Scene, size: Size) -> Knowledge:
    """R7-CLUSTERS: roles of another database are started on the same prefix by mistake: they refuse; others go on."""
    channels = await stage(scene)
    other = Server()
    try:
        await other.prepare()
        settings = {"TICKWISE_DATABASE_URL": other.url, "TICKWISE_INGEST": "buffered"}
        begun = [scene.fleet.start(kind, *_words(kind), **settings) for kind in CLUSTER_KINDS]
        load = Steady(scene, max(1, round(size.jobs / 4)))
        async with load.going_on():
            scene.harmed("another cluster's roles", "the broker")
            for role in begun:
                status = await role.ended(90)
                said = role.log.read_text(errors="replace")
                if status != Exit.MISCONFIGURED or channels.prefix not in said:
                    scene.complain(f"{role.log.name} of another cluster ended with {status}: {said[-500:]}")
        await scene.calm()
    finally:
        await other.stop()
    return Knowledge()


def _words(kind: str) -> list[str]:
    return ["--port", "0"] if kind == "api" else []


ROWS: Final = (
    Row(
        name="R7-POISON",
        fault="messages that cannot be read, in every topic",
        invariant="each is parked, with its bytes and where it was; no role ends, nothing else waits",
        play=poisoning,
        short=Size(jobs=60, rounds=1),
        long=Size(jobs=150, rounds=100),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-BUFFERED",
        fault="PostgreSQL is away while jobs are submitted and cancelled, with buffered ingest",
        invariant="what was accepted is there once and runs once, what was cancelled does not",
        play=buffering,
        short=Size(jobs=60, seconds=3, rounds=1),
        long=Size(jobs=150, seconds=120, rounds=2),
        pace=BROKEN,
        own_recovery=True,
    ),
    Row(
        name="R7-CLUSTERS",
        fault="roles of another database are started on the same topics",
        invariant="they refuse and name both; the others go on",
        play=mixing,
        short=Size(jobs=60),
        long=Size(jobs=150),
        pace=BROKEN,
        own_recovery=True,
    ),
)
