"""R4, R14 and R17: executors that stand still for longer than their lease; roles restarted in order; namesakes."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

import psutil

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import mixed, shell
from tests.chaos.rows.points import start_at
from tests.chaos.scene import CLOCK, PATIENT, Player, Scene
from tests.integration.processes.runtime import gone
from tests.support.waiting import eventually

LATE_WORDS: Final = ("attempts.finish:paused", "attempts.start:paused")
REFUSED: Final = ("outcomes_refused", "attempt_stale")
LASTING_SECONDS: Final = (0.5, 30.0)
"""By late word. Long enough that a start is recorded while it runs, on a machine that stands still for a while, too."""
OVERLAP_MARGIN_SECONDS: Final = 1.0
"""After SIGCONT and a heartbeat: what was taken over is dead by then."""


async def pausing(scene: Scene, size: Size) -> Knowledge:
    """R4: SIGSTOP for two leases, and SIGCONT: what it held has gone on elsewhere meanwhile."""
    await scene.cast()
    overlaps, victims = [], scene.of("executor")
    for number in range(size.rounds):
        gate = scene.folder / f"open {number}"
        await scene.clients.submit_many(f"load {number}", mixed(scene, size.jobs // size.rounds, longest=3.0))
        waits = shell(scene, f'until [ -e "{gate}" ]; do sleep 0.05; done')
        jobs = await scene.clients.submit_many(f"long {number}", [waits] * len(victims) * 2)
        victim, stale = await _victim(scene, jobs)
        expired = len(victim.role.events("executor_expired"))
        await scene.pause(victim)
        continued = time.monotonic()
        await victim.role.event("executor_expired", count=expired + 1, within_seconds=60)
        await gone(stale, within_seconds=60)
        overlaps.append(time.monotonic() - continued)
        gate.touch()
        scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    await scene.slots_are_free()
    refused = await _late_words(scene)
    expired = sum(len(player.role.events("executor_expired")) for player in victims)
    scene.figures |= {"expiries_heard": expired, "late_words_refused": refused}
    scene.figures["overlap_seconds_most"] = round(max(overlaps), 2)
    scene.figures["overlap_seconds_limit"] = scene.pace.heartbeat + OVERLAP_MARGIN_SECONDS
    return Knowledge(must_hit=True, stale_refused=refused)


async def _late_words(scene: Scene) -> int:
    """Executors that stand still with their word on the lips until another one has the run: how many words were
    refused."""
    gate, elsewhere = scene.folder / "late", scene.folder / "elsewhere"
    queues = [f"late{place}" for place in range(len(LATE_WORDS))]
    late = [start_at(scene, "executor", point, TICKWISE_QUEUES=q) for q, point in zip(queues, LATE_WORDS, strict=True)]
    for queue, seconds in zip(queues, LASTING_SECONDS, strict=True):
        # Not by the number of the attempt: an executor that lost its first one to a stall begins another.
        again = f'until [ -e "{gate}" ]; do say T; sleep 0.05; done'
        waits = f'if [ -e "{elsewhere}" ]; then {again}; else sleep {seconds}; fi'
        await scene.clients.submit(f"for {queue}", shell(scene, waits) | {"queue": queue})
    for player in late:
        await eventually(partial(_stands, player), within_seconds=60, what="it stands still")
    elsewhere.touch()
    successor = scene.start("executor", TICKWISE_QUEUES=",".join(queues))
    scene.players += [*late, successor]
    await scene.ready(successor)
    await eventually(
        lambda: len({line.run_id for line in scene.witness.lines() if line.what == "t"}) == len(late),
        within_seconds=60,
        what="all run elsewhere",
    )
    for player in late:
        player.role.signal(signal.SIGCONT)
        await player.role.event("executor_expired", within_seconds=60)
    await late[0].role.event("outcomes_refused", within_seconds=60)
    refused = sum(len(player.role.events(event)) for player in late for event in REFUSED)
    gate.touch()
    await scene.calm()
    for player in (*late, successor):
        await scene.retire(player)
        scene.players.remove(player)
    return refused


def _stands(player: Player) -> bool:
    return bool(psutil.Process(player.role.pid).status() == psutil.STATUS_STOPPED)


async def _victim(scene: Scene, jobs: Sequence[UUID]) -> tuple[Player, list[int]]:
    """An executor that runs some of these, and has their starts on record; with their processes."""

    async def look() -> tuple[Player, list[int]] | None:
        async with scene.session() as connection:
            running = await connection.fetch(scene.sql["running"], jobs)
        if len(running) != len(jobs):
            return None
        number = min(Counter(row[0] for row in running).items(), key=lambda each: (-each[1], each[0]))[0]
        mine = {(run_id, token) for executor, run_id, token in running if executor == number}
        pids = [line.pid for line in scene.witness.begun() if (line.run_id, line.token) in mine]
        # One that a stall has cost its number gets another, and its runs go on elsewhere.
        player = player_of(scene, number)
        return None if player is None else (player, pids)

    return await eventually(look, within_seconds=60, what="all of them run")


def player_of(scene: Scene, number: int) -> Player | None:
    """Who bears that number now."""
    for player in scene.of("executor"):
        if player.role.events("executor_joined")[-1]["executor"] == number:
            return player
    return None


async def rolling(scene: Scene, size: Size) -> Knowledge:
    """R14: SIGTERM to one role after the other, the next process in its place, while jobs go on."""
    await scene.cast(apis=2)
    over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(_restart_in_turn(scene, over))
        both.create_task(_submit(scene, size, over))
    await scene.calm()
    freed = int(await scene.ask("freed_most"))
    if freed:
        scene.complain(f"{freed} runs were taken from executors that could have ended them in peace")
    scene.figures["restarts"] = len(scene.victims) + len(scene.faults)
    await scene.slots_are_free()
    return Knowledge()


async def _restart_in_turn(scene: Scene, over: asyncio.Event) -> None:
    """Until the load is over, and everybody once at least."""
    players = [*scene.players]
    scene.dice.shuffle(players)
    first = True
    while first or not over.is_set():
        for player in players:
            if player.kind == "api":
                # As behind a load balancer that is told first.
                others = [str(await other.role.ready()) for other in scene.of("api") if other is not player]
                scene.clients.urls = others
            status = await scene.retire(player)
            if status != 0:
                scene.complain(f"{player.role.log.name} ended with {status} after SIGTERM")
            await scene.restart(player)
        first = False


async def _submit(scene: Scene, size: Size, over: asyncio.Event) -> None:
    begun, each = CLOCK.monotonic(), size.jobs // size.rounds
    for number in range(size.rounds):
        await scene.clients.submit_many(f"round {number}", mixed(scene, each, longest=2.0))
        await CLOCK.sleep(max(0.0, begun + (number + 1) / size.rounds * size.seconds - CLOCK.monotonic()))
    over.set()


async def namesakes(scene: Scene, size: Size) -> Knowledge:
    """R17: two executors with the same host name and the same process id, each in a container's worth of namespaces."""
    program = shutil.which("unshare")
    if program is None:
        raise AssertionError("`unshare` is needed: without a namespace no two processes have the same id")
    await scene.cast(executors=0)
    inside = (program, "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", "tickwise")
    twins = [Player("executor", scene.fleet.start("executor", program=inside)) for _ in range(2)]
    scene.players += twins
    await asyncio.gather(*(scene.ready(twin) for twin in twins))
    names = {twin.role.events("executor_joined")[0]["name"] for twin in twins}
    if len(names) != 1:
        raise AssertionError(f"they were to have one name, and have {names}")
    for number in range(size.rounds):
        await scene.clients.submit_many(f"load {number}", mixed(scene, size.jobs // size.rounds))
        victim = twins[number % 2]
        await eventually(partial(_holds, scene, victim), within_seconds=30, what="it holds something")
        (inner,) = psutil.Process(victim.role.pid).children()
        await scene.pause(victim, inner)
        await victim.role.event("executor_expired", count=number // 2 + 1, within_seconds=60)
        await scene.calm()
    return Knowledge(must_hit=True)


async def _holds(scene: Scene, player: Player) -> bool:
    number = player.role.events("executor_joined")[-1]["executor"]
    async with scene.session() as connection:
        return bool(await connection.fetchval(scene.sql["held_by"], number))


ROWS: Final = (
    Row(
        name="R4",
        fault="SIGSTOP of an executor for two leases, then SIGCONT",
        invariant="what it reports is refused and its tasks are killed; all has gone on elsewhere",
        play=pausing,
        short=Size(jobs=200, rounds=2),
        long=Size(jobs=20_000, rounds=8),
    ),
    Row(
        name="R14",
        fault="SIGTERM to one role after the other, again and again",
        invariant="nothing runs again: who is told to stop lets its tasks end and is heard of meanwhile",
        play=rolling,
        short=Size(jobs=300, seconds=6, rounds=6),
        long=Size(jobs=20_000, seconds=120, rounds=120),
        pace=replace(PATIENT, settings={"TICKWISE_DRAIN_SECONDS": "120"}),
    ),
    Row(
        name="R17",
        fault="two executors of one host name and one process id, one of them paused for two leases",
        invariant="an executor is known by its number, never by its name",
        play=namesakes,
        short=Size(jobs=300, rounds=1),
        long=Size(jobs=10_000, rounds=4),
    ),
)
