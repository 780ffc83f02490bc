"""R1, R2 and R12: nothing happens; whoever it is dies; a job kills its executor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, mixed
from tests.chaos.scene import CLOCK, DEFAULT, Player, Scene
from tests.chaos.two_servers import TwoServers
from tickwise.domain.history.checker import Edge
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import CRASHES_MAX

KILL_EVERY_SECONDS: Final = 2.0
RESTART_SECONDS: Final = 3.0
LIMITS: Final = (1, 2, 4)
LIMITED_SECONDS: Final = 0.1
ALWAYS: Final = 1_000
HANDOVER_SECONDS: Final = 0.04
"""How long a slot may stand empty between two runs (the target of case H1 of `bench/`)."""


async def nothing(scene: Scene, size: Size) -> Knowledge:
    """R1."""
    await scene.cast()
    begun = CLOCK.monotonic()
    await scene.clients.submit_many("job", [function(scene, "brief")] * size.jobs)
    await scene.ended(size.jobs)
    scene.figures["runs_per_second"] = round(size.jobs / (CLOCK.monotonic() - begun))
    await scene.calm()
    await scene.slots_are_free()
    return Knowledge()


async def killing(scene: Scene, size: Size) -> Knowledge:
    """R2: kill -9 one role after the other, start it again a moment later, while jobs come in."""
    await scene.cast()
    over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(kill_in_turn(scene, over, size.seconds))
        both.create_task(_submit(scene, size, over))
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    await scene.slots_are_free()
    return Knowledge(must_hit=True)


async def _submit(scene: Scene, size: Size, over: asyncio.Event) -> None:
    """Rounds of jobs, spread over the time in which there are faults."""
    begun, each = CLOCK.monotonic(), size.jobs // size.rounds
    for number in range(size.rounds):
        await scene.clients.submit_many(f"round {number}", mixed(scene, each))
        await CLOCK.sleep(max(0.0, begun + (number + 1) / size.rounds * size.seconds - CLOCK.monotonic()))
    over.set()


async def kill_in_turn(scene: Scene, over: asyncio.Event, seconds: float) -> None:
    """Until the load is over, and for so many seconds at least. Everybody's turn comes, in an order that is drawn; an
    executor is killed when it holds something."""
    until = CLOCK.monotonic() + seconds
    victims = _in_turn(scene)
    async with asyncio.TaskGroup() as restarts:
        while CLOCK.monotonic() < until or not over.is_set():
            victim = next((each for each in islice(victims, len(scene.players)) if each.working), None)
            if victim is not None and await _kill(scene, victim):
                restarts.create_task(restart_later(scene, victim))
            await CLOCK.sleep(KILL_EVERY_SECONDS)


def _in_turn(scene: Scene) -> Iterator[Player]:
    others = [player for player in scene.players if player.kind != "executor"]
    executors = scene.of("executor")
    scene.dice.shuffle(others)
    scene.dice.shuffle(executors)
    longer = max(len(others), len(executors))
    pairs = zip((executors * longer)[:longer], (others * longer)[:longer], strict=True)
    return cycle([player for pair in pairs for player in pair])


async def _kill(scene: Scene, victim: Player) -> bool:
    if victim.kind == "executor":
        return await scene.kill_busy(victim)
    scene.kill(victim)
    return True


async def restart_later(scene: Scene, victim: Player) -> None:
    """As a supervisor does that has a look now and then."""
    await CLOCK.sleep(scene.dice.random() * RESTART_SECONDS)
    await scene.restart(victim)


async def poisoning(scene: Scene, size: Size) -> Knowledge:
    """R12: some jobs take their executor along, again and again; a supervisor brings it back."""
    await scene.cast()
    over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(_bring_back(scene, over))
        both.create_task(_poison(scene, size, over))
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    async with scene.session() as connection:
        rows = await connection.fetch(scene.sql["poisoned"])
    wrong = [row["run_id"] for row in rows if not row["name"].startswith("poison")]
    scene.figures["quarantined"] = len(rows)
    scene.figures["bystanders_quarantined"] = len(wrong)
    if len(rows) - len(wrong) != size.rounds or any(row["crashes"] != CRASHES_MAX for row in rows):
        scene.complain(f"{len(rows)} runs were quarantined, of {size.rounds} that are poison")
    return Knowledge(must_hit=True)


async def _poison(scene: Scene, size: Size, over: asyncio.Event) -> None:
    await scene.clients.submit_many("poison", [function(scene, "poison")] * size.rounds)
    await scene.clients.submit_many("job", [function(scene, "brief")] * size.jobs)
    await scene.ended(size.jobs + size.rounds, within_seconds=600)
    over.set()


async def _bring_back(scene: Scene, over: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as supervisors:
        for player in scene.of("executor"):
            supervisors.create_task(_supervise(scene, player, over))


async def _supervise(scene: Scene, player: Player, over: asyncio.Event) -> None:
    while not over.is_set():
        status = player.role.process.poll()
        if status is not None:
            scene.harmed("poison", player)
            await scene.restart(player)
        await CLOCK.sleep(0.05)


async def limited(scene: Scene, size: Size) -> Knowledge:
    """R20: what R2 does, under jobs of which only one, two or four may run at once."""
    await scene.cast()
    over = asyncio.Event()
    keys: dict[UUID, str] = {}
    async with asyncio.TaskGroup() as both:
        both.create_task(kill_in_turn(scene, over, size.seconds))
        both.create_task(_submit_limited(scene, size, keys, over))
    backlog = await _backlog_seconds(scene, keys)
    since_fault = CLOCK.monotonic() - scene.last_fault
    recovered = await scene.calm(within_seconds=600)
    scene.figures |= {"recovered_seconds": round(recovered, 2), "backlog_seconds": round(backlog, 2)}
    if recovered > (most := since_fault + backlog + scene.pace.recovery_seconds):
        scene.complain(f"all went on after {recovered:.1f} s, and not within {most:.1f} s")
    await scene.slots_are_free()
    return Knowledge(must_hit=True, limits={f"at most {limit}": limit for limit in LIMITS}, limit_keys=keys)


async def _backlog_seconds(scene: Scene, keys: dict[UUID, str]) -> float:
    """How long what is unfinished takes if no slot of its key stands empty."""
    seconds = []
    for limit in LIMITS:
        jobs = [job for job, key in keys.items() if key == f"at most {limit}"]
        left = int(await scene.ask("unfinished_of", jobs))
        seconds.append(-(-left // limit) * (LIMITED_SECONDS + HANDOVER_SECONDS))
    return max(seconds)


async def _submit_limited(scene: Scene, size: Size, keys: dict[UUID, str], over: asyncio.Event) -> None:
    begun, each = CLOCK.monotonic(), size.jobs // size.rounds
    for number in range(size.rounds):
        for limit in LIMITS:
            rule = {"concurrency": {"limit": limit, "key": f"key:most-{limit}"}}
            body = function(scene, "lasting", seconds=LIMITED_SECONDS) | rule
            made = await scene.clients.submit_many(f"round {number} most {limit}", [body] * (each * limit))
            keys |= dict.fromkeys(made, f"at most {limit}")
        await CLOCK.sleep(max(0.0, begun + (number + 1) / size.rounds * size.seconds - CLOCK.monotonic()))
    over.set()


async def chains(scene: Scene, size: Size) -> Knowledge:
    """E1: Job1, then Job2, then Job3, or what stands in for them after a failure, while roles are killed."""
    await scene.cast()
    over = asyncio.Event()
    waits = {"schedule_type": "ON_DEMAND"}
    third = await scene.clients.submit("third", function(scene, "following") | waits, once=False)
    second = await scene.clients.submit(
        "second", function(scene, "following") | waits | {"then": str(third)}, once=False
    )
    instead = await scene.clients.submit("instead", function(scene, "following") | waits, once=False)
    follow = {"then": str(second), "on_failure": str(instead)}
    edges = [Edge(second, RunState.SUCCESS, third)]
    async with asyncio.TaskGroup() as both:
        both.create_task(kill_in_turn(scene, over, size.seconds))
        for number in range(size.rounds):
            each = size.jobs // size.rounds
            # Every fifth fails for good, also in an attempt after its executor died.
            bodies = [
                function(scene, "failing", failures=n % 5 // 4 * ALWAYS) | follow | {"max_retries": 0}
                for n in range(each)
            ]
            made = await scene.clients.submit_many(f"first {number}", bodies)
            edges += [Edge(job, RunState.SUCCESS, second) for job in made]
            edges += [Edge(job, RunState.FAILED, instead) for job in made]
            await CLOCK.sleep(size.seconds / size.rounds)
        over.set()
    scene.figures["recovered_seconds"] = round(await scene.calm(), 2)
    failed, begun = size.rounds * (size.jobs // size.rounds // 5), size.rounds * (size.jobs // size.rounds)
    scene.figures["chains"] = begun
    for job, runs in ((second, begun - failed), (third, begun - failed), (instead, failed)):
        if runs != (ended := int(await scene.ask("succeeded", job))):
            scene.complain(f"{ended} runs of {job} succeeded, and not {runs}")
    return Knowledge(edges=edges)


ROWS: Final = (
    Row(
        name="R1",
        fault="none",
        invariant="each job is executed exactly once",
        play=nothing,
        short=Size(jobs=2_000),
        long=Size(jobs=100_000),
        pace=DEFAULT,
    ),
    Row(
        name="R2",
        fault="kill -9 of one role after the other every 2 s, started again within 3 s",
        invariant="no job lost, each ended once; what runs again was held by a victim",
        play=killing,
        short=Size(jobs=1_500, seconds=9, rounds=15),
        long=Size(jobs=100_000, seconds=120, rounds=240),
        longest_seconds=1.0,
    ),
    Row(
        name="R2-SHARDS",
        fault="as R2, with two databases behind the router; all jobs are in the second",
        invariant="as R2",
        play=killing,
        short=Size(jobs=600, seconds=8, rounds=12),
        long=Size(jobs=50_000, seconds=60, rounds=120),
        longest_seconds=1.0,
        server=TwoServers,
    ),
    Row(
        name="R12",
        fault="jobs that kill their executor",
        invariant="each is quarantined after three crashes, the others go on",
        play=poisoning,
        short=Size(jobs=500, rounds=2),
        long=Size(jobs=20_000, rounds=20),
    ),
    Row(
        name="CHAIN",
        fault="kill -9 as in R2, under sequences of three jobs with a branch for failures",
        invariant="what follows a run's end is made once, whoever dies between the two",
        play=chains,
        short=Size(jobs=200, seconds=8, rounds=10),
        long=Size(jobs=5_000, seconds=60, rounds=60),
    ),
    Row(
        name="R20",
        fault="kill -9 as in R2, under concurrency limits of 1, 2 and 4",
        invariant="no more run at once than the limit allows, and no slot is lost",
        play=limited,
        short=Size(jobs=30, seconds=8, rounds=3),
        long=Size(jobs=600, seconds=100, rounds=60),
        own_recovery=True,
    ),
)
