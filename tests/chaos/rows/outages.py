"""R5, R6 and R15: the database is killed, cut off, out of reach one way or both, frozen, read-only, full."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import asyncpg

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, mixed, ticking
from tests.chaos.scene import CLOCK, DEFAULT, PATIENT, Player, Scene
from tests.chaos.server import Server, fill, small_disk
from tests.chaos.two_servers import TwoServers
from tests.integration.processes.runtime import gone
from tests.support.waiting import eventually
from tickwise.domain.history.checker import Fault

CLIENTS: Final = 8
AWAY_SECONDS: Final = 1.0
WAYS: Final = [
    ("partition both ways", True, True),
    ("partition to it", False, True),
    ("partition from it", True, False),
]
AWAY_LEASES: Final = 3
LATE_SECONDS: Final = 0.3
"""A task that is killed at the end of the lease takes a moment to be gone."""
HEALTHY_SECONDS: Final = 30.0
DISK_MEGABYTES: Final = 400

Harm = Callable[[Scene], Awaitable[None]]


async def failing_store(scene: Scene, size: Size) -> Knowledge:
    """R6: one fault of the database after the other, under clients who give nothing up."""
    await scene.cast()
    over = asyncio.Event()
    submitted: list[UUID] = []
    async with asyncio.TaskGroup() as all_at_once:
        for number in range(CLIENTS):
            all_at_once.create_task(_client(scene, number, over, submitted))
        for _ in range(size.rounds):
            for name, harm in HARMS.items():
                await _acknowledged(submitted, size.jobs)
                scene.harmed(name, "the database")
                await harm(scene)
                scene.last_fault = time.monotonic()
        over.set()
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    scene.figures["acknowledged"] = len(submitted)
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
        for failed in player.role.events("loop_failed")[:1]:
            *_, cause = str(failed.get("exception", "")).strip().splitlines() or [""]
            scene.complain(f"{player.role.log.name} took an absent database for a defect: {failed['loop']}: {cause}")
    await scene.slots_are_free()
    return Knowledge()


async def _acknowledged(submitted: list[UUID], more: int) -> None:
    """Wait for so many further jobs."""
    goal = len(submitted) + more
    await eventually(lambda: len(submitted) >= goal, within_seconds=100, what=f"{more} more jobs are acknowledged")


async def _client(scene: Scene, number: int, over: asyncio.Event, submitted: list[UUID]) -> None:
    place = 0
    while not over.is_set():
        body = function(scene, "lasting", seconds=0.3) if place % 10 == 9 else function(scene, "brief")
        submitted.append(await scene.clients.submit(f"client {number} {place}", body))
        place += 1


# ------------------------------------------------------------------ what happens to the database


async def _kill(scene: Scene) -> None:
    await scene.server.kill()
    await scene.server.start()


async def _stop_immediately(scene: Scene) -> None:
    await scene.server.stop_immediately()
    await scene.server.start()


async def _restart(scene: Scene) -> None:
    await scene.server.stop_fast()
    await CLOCK.sleep(AWAY_SECONDS)
    await scene.server.start()


async def _kill_backend(scene: Scene) -> None:
    await scene.server.kill_backend()


async def _terminate_all(scene: Scene) -> None:
    await scene.server.terminate_all()


async def _freeze(scene: Scene) -> None:
    scene.server.freeze()
    try:
        await CLOCK.sleep(AWAY_SECONDS)
    finally:
        scene.server.thaw()


async def _read_only(scene: Scene) -> None:
    """As a standby is that has taken the address over by mistake."""
    async with scene.session() as connection:
        await connection.execute(scene.sql["read_only"])
    await scene.server.terminate_all()
    await CLOCK.sleep(AWAY_SECONDS)
    async with scene.session() as connection:
        await connection.execute(scene.sql["read_write"])
    await scene.server.terminate_all()


async def _no_connections(scene: Scene) -> None:
    """Others take every connection that there is, while those of the product are cut."""
    greedy: list[asyncpg.Connection] = []
    try:
        await scene.server.terminate_all()
        with contextlib.suppress(asyncpg.TooManyConnectionsError):
            while True:
                greedy.append(await scene.server.connect())
        await CLOCK.sleep(AWAY_SECONDS)
    finally:
        for connection in greedy:
            connection.terminate()


async def partitioned(scene: Scene, size: Size) -> Knowledge:
    """R5: an executor's link to the database is cut both ways, then one way, then the other; its tasks go on at first.

    It begins nothing after its lease's end, and all that it runs is dead by then.
    """
    await scene.cast(executors=1)
    cut = await scene.proxied("executor", TICKWISE_SLOTS="8")
    await scene.ready(cut)
    scene.players.append(cut)
    assert cut.proxy is not None
    survived: list[float] = []
    for number, (name, up, down) in enumerate(WAYS * size.rounds):
        gate = scene.folder / f"open {number}"
        jobs = await scene.clients.submit_many(f"long {number}", [ticking(scene, gate)] * 10)
        pids = await _runs_on(scene, cut, jobs)
        scene.harmed(name, cut)
        cut.proxy.swallow(up=up, down=down)
        await scene.clients.submit_many(f"load {number}", mixed(scene, size.jobs // (3 * size.rounds)))
        number_then = cut.role.events("executor_joined")[-1]["executor"]
        await gone(pids, within_seconds=120)
        survived.append(time.time() - await _lease_end(scene, number_then))
        await eventually(partial(scene.is_gone, number_then), within_seconds=120, what="it is expired")
        await CLOCK.sleep(size.seconds)
        cut.proxy.heal()
        scene.last_fault = time.monotonic()
        gate.touch()
        await cut.role.event("executor_expired", count=number + 1, within_seconds=60)
        scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    scene.figures |= {"swallowed_bytes": cut.proxy.swallowed, "tasks_outlived_lease_seconds": round(max(survived), 2)}
    if max(survived) > LATE_SECONDS:
        scene.complain(f"tasks went on for {max(survived):.2f} s after the lease of their executor")
    if not cut.proxy.swallowed:
        scene.complain("nothing was lost on the way")
    return Knowledge(must_hit=True, watch_leases=True)


async def _runs_on(scene: Scene, player: Player, jobs: Sequence[UUID]) -> list[int]:
    """The processes of those of these jobs that this executor runs, once it runs some and all have begun."""

    async def look() -> list[int]:
        async with scene.session() as connection:
            rows = await connection.fetch(scene.sql["running"], jobs)
        number = player.role.events("executor_joined")[-1]["executor"]
        mine = {(row["run_id"], row["token"]) for row in rows if row["executor"] == number}
        pids = [line.pid for line in scene.witness.begun() if (line.run_id, line.token) in mine]
        return pids if len(rows) == len(jobs) else []

    return await eventually(look, within_seconds=60, what="all run, some of them there")


async def away(scene: Scene, size: Size) -> Knowledge:
    """D9: the database is away for three leases. Executors go on until their lease's end, and stop all by then."""
    await scene.cast(executors=2)
    for number in range(size.rounds):
        gate = scene.folder / f"open {number}"
        before = len(scene.witness.begun())
        await scene.clients.submit_many(f"long {number}", [ticking(scene, gate)] * size.jobs)
        await scene.ended(number * size.jobs)
        await eventually(partial(_begun_more, scene, before + size.jobs), within_seconds=60, what="all run")
        held = int(await scene.ask("held_at_all"))
        stopped = time.monotonic()
        await scene.server.stop_immediately()
        scene.faults.append(Fault("store away", scene.witness.wall(stopped), "the database", held))
        await CLOCK.sleep(AWAY_LEASES * scene.pace.lease)
        alive = [line.at for line in scene.witness.lines() if line.what == "t"]
        scene.figures["stopped_before_lease_end_seconds"] = round(stopped + scene.pace.lease - max(alive), 2)
        if max(alive) > stopped + scene.pace.lease + LATE_SECONDS:
            scene.complain(f"tasks went on {max(alive) - stopped:.2f} s after the last beat that can have been heard")
        await scene.server.start()
        scene.last_fault = time.monotonic()
        await eventually(partial(_begun_more, scene, before + 2 * size.jobs), within_seconds=90, what="all run again")
        scene.figures["goes_on_seconds"] = round(time.monotonic() - scene.last_fault, 2)
        gate.touch()
        await scene.calm()
    if overlaps := scene.witness.overlaps():
        scene.complain(f"{len(overlaps)} tasks lived beside their own repetition, for {max(overlaps):.2f} s at most")
    return Knowledge()


async def _begun_more(scene: Scene, count: int) -> bool:
    return len(scene.witness.begun()) >= count


async def _lease_end(scene: Scene, number: int) -> float:
    async with scene.session() as connection:
        return float(await connection.fetchval(scene.sql["lease"], number))


async def filling(scene: Scene, size: Size) -> Knowledge:
    """R15: the disk of the database is full; its log cannot grow, so it panics; then there is space again."""
    await scene.cast()
    over = asyncio.Event()
    submitted: list[UUID] = []
    async with asyncio.TaskGroup() as all_at_once:
        for number in range(CLIENTS):
            all_at_once.create_task(_client(scene, number, over, submitted))
        for _ in range(size.rounds):
            await _fill_once(scene, size, submitted)
        over.set()
    await scene.calm()
    scene.figures["acknowledged"] = len(submitted)
    if scene.figures["healthy_seconds"] > HEALTHY_SECONDS:
        scene.complain(f"healthy only {scene.figures['healthy_seconds']} s after there was space")
    return Knowledge()


async def _fill_once(scene: Scene, size: Size, submitted: list[UUID]) -> None:
    await _acknowledged(submitted, size.jobs)
    ballast = scene.server.data_dir / "ballast"
    put_off = scene.clients.statuses[503] + CLIENTS
    scene.harmed("disk full", "the database")
    fill(ballast)
    await eventually(lambda: scene.clients.statuses[503] > put_off, within_seconds=100, what="clients hear of it")
    ballast.unlink()
    freed = time.monotonic()
    if not scene.server.runs:
        await scene.server.start()
    await _acknowledged(submitted, CLIENTS + 1)
    scene.last_fault = time.monotonic()
    scene.figures["healthy_seconds"] = round(scene.last_fault - freed, 2)


class FullServer(Server):
    """On a small disk of its own."""

    def __init__(self) -> None:
        self._disk = contextlib.ExitStack()
        folder = self._disk.enter_context(small_disk(DISK_MEGABYTES))
        super().__init__(folder=folder / "data", settings={"max_wal_size": "64MB", "min_wal_size": "32MB"})

    async def stop(self) -> None:
        """And take the disk away."""
        try:
            await super().stop()
        finally:
            self._disk.close()


HARMS: Final[dict[str, Harm]] = {
    "store stopped immediately": _stop_immediately,
    "backend killed": _kill_backend,
    "sessions terminated": _terminate_all,
    "store killed": _kill,
    "store restarted": _restart,
    "store frozen": _freeze,
    "store read-only": _read_only,
    "no connections left": _no_connections,
}

ROWS: Final = (
    Row(
        name="R6",
        fault="the database killed, stopped, restarted, frozen, read-only, out of connections; its sessions cut",
        invariant="what was acknowledged is there, what was in doubt is settled by its key, nothing runs twice",
        play=failing_store,
        short=Size(jobs=30, rounds=1),
        long=Size(jobs=300, rounds=6),
        pace=PATIENT,
        own_recovery=True,
    ),
    Row(
        name="R6-SHARDS",
        fault="as R6, of the second of two databases behind the router, which has all jobs",
        invariant="as R6; the first one goes on meanwhile",
        play=failing_store,
        short=Size(jobs=30, rounds=1),
        long=Size(jobs=300, rounds=3),
        pace=PATIENT,
        server=TwoServers,
        own_recovery=True,
    ),
    Row(
        name="R5",
        fault="an executor's link to the database swallows what is sent: both ways, to it, from it",
        invariant="nothing begins there after its lease, what it ran is dead by then and goes on elsewhere",
        play=partitioned,
        short=Size(jobs=90, rounds=1),
        long=Size(jobs=20_000, seconds=20, rounds=2),
    ),
    Row(
        name="AWAY",
        fault="the database is away for three leases while tasks run",
        invariant="all tasks are stopped by their lease's end; none lives beside its own repetition",
        play=away,
        short=Size(jobs=8, rounds=1),
        long=Size(jobs=16, rounds=5),
    ),
    Row(
        name="R15",
        fault="the disk of the database is full, and has space again",
        invariant="no acknowledged job is lost; meanwhile clients are told to come again",
        play=filling,
        short=Size(jobs=200, rounds=1),
        long=Size(jobs=3_000, rounds=3),
        server=FullServer,
        pace=DEFAULT,
        own_recovery=True,
    ),
)
