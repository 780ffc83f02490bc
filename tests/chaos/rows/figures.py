"""How soon: a dead executor's runs go on elsewhere, and a cancelled job is gone."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import shell
from tests.chaos.scene import CLOCK, DEFAULT, Pace, Player, Scene
from tests.chaos.witness import Line
from tests.integration.processes.runtime import active
from tests.support.waiting import eventually

FAST: Final = Pace(lease=1.0, heartbeat=0.25, poll=0.1)
"""The shortest lease that a busy machine keeps: four heartbeats. See docs/how-to."""
DEAD_SECONDS: Final = {DEFAULT.lease: 15.0, FAST.lease: 3.0}
CANCEL_SECONDS: Final = 1.0


async def dead_executor(scene: Scene, size: Size) -> Knowledge:
    """Kill an executor that runs a job; how long until the job runs on another one. A number of times."""
    await scene.cast(executors=2)
    found: list[float] = []
    for number in range(size.rounds):
        gate = scene.folder / f"open {number}"
        before = len(scene.witness.begun())
        await scene.clients.submit(f"job {number}", shell(scene, f'until [ -e "{gate}" ]; do sleep 0.02; done'))
        await _begins(scene, before)
        holder = await eventually(partial(_holder, scene), within_seconds=30, what="its start is on record")
        scene.kill(holder)
        killed = CLOCK.monotonic()
        await _begins(scene, before + 1)
        found.append(CLOCK.monotonic() - killed)
        gate.touch()
        await scene.calm()
        await scene.restart(holder)
    limit = DEAD_SECONDS[scene.pace.lease]
    scene.figures |= {"goes_on_seconds_median": round(statistics.median(found), 2)}
    scene.figures |= {"goes_on_seconds_most": round(max(found), 2), "goes_on_seconds_limit": limit}
    if max(found) > limit:
        scene.complain(f"the run of a dead executor went on after {max(found):.1f} s, and not within {limit:g} s")
    return Knowledge(must_hit=True)


async def _begins(scene: Scene, earlier: int) -> Line:
    """The next beginning after so many."""
    return (await eventually(lambda: scene.witness.begun()[earlier:], within_seconds=60, what="it runs"))[0]


async def _holder(scene: Scene) -> Player | None:
    for player in scene.of("executor"):
        if await scene.ask("begun", player.name):
            return player
    return None


async def cancelling(scene: Scene, size: Size) -> Knowledge:
    """Cancel a running job that obeys TERM; how long from the request until it is over and on record."""
    await scene.cast(schedulers=1, executors=1)
    found: list[float] = []
    for number in range(size.rounds):
        before = len(scene.witness.begun())
        job = await scene.clients.submit(f"job {number}", shell(scene, "exec sleep 600"))
        line = await _begins(scene, before)
        await CLOCK.sleep(scene.dice.random())
        asked = CLOCK.monotonic()
        await scene.clients.cancel(line.run_id)
        await eventually(partial(_ended, scene, job), within_seconds=30, what="it is on record")
        found.append(CLOCK.monotonic() - asked)
        if active([line.pid]):
            scene.complain("a cancelled job is on record as over, and its process lives")
    scene.figures |= {"cancels": len(found), "cancel_seconds_median": round(statistics.median(found), 3)}
    scene.figures |= {"cancel_seconds_most": round(max(found), 3), "cancel_seconds_limit": CANCEL_SECONDS}
    if statistics.median(found) > CANCEL_SECONDS:
        scene.complain(f"half of the cancels took more than {statistics.median(found):.2f} s")
    return Knowledge()


async def _ended(scene: Scene, job: UUID) -> bool:
    async with scene.session() as connection:
        return bool(await connection.fetchval(scene.sql["ended_of"], job))


ROWS: Final = (
    Row(
        name="DEAD",
        fault="kill -9 of an executor that runs a job, at default settings",
        invariant="the job runs on another one within 15 s",
        play=dead_executor,
        short=Size(rounds=1),
        long=Size(rounds=5),
        pace=DEFAULT,
        own_recovery=True,
    ),
    Row(
        name="DEAD-FAST",
        fault="the same with a lease of 1 s and a heartbeat of 0.25 s",
        invariant="the job runs on another one within 3 s",
        play=dead_executor,
        short=Size(rounds=2),
        long=Size(rounds=10),
        pace=FAST,
        own_recovery=True,
    ),
    Row(
        name="CANCEL",
        fault="cancel of a running shell job that obeys TERM",
        invariant="it is gone and on record within 1 s, in the median",
        play=cancelling,
        short=Size(rounds=5),
        long=Size(rounds=40),
        pace=DEFAULT,
    ),
)
