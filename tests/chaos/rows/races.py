"""R13, R18 and R19: everybody ends a run at once, everybody asks for one at once, and one row stands in the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, shell
from tests.chaos.scene import CLOCK, DEFAULT, Scene
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.ports.store import ClaimRequest, NewExecutor

CANCELLED_SHARE: Final = 0.6
RETRIED_SHARE: Final = 0.1
LONGEST_SECONDS: Final = 0.4
TIMEOUT_SECONDS: Final = 0.2
CLIENTS: Final = 20
LONG_LEASE_SECONDS: Final = 600.0
"""Until all that it is to hold is claimed."""


async def racing(scene: Scene, size: Size) -> Knowledge:
    """R13: jobs that end, fail, run out of time and are retried, while clients cancel them and ask for more."""
    await scene.cast()
    over = asyncio.Event()
    async with asyncio.TaskGroup() as all_at_once:
        all_at_once.create_task(_meddle(scene, over))
        each = size.jobs // size.rounds
        for number in range(size.rounds):
            await scene.clients.submit_many(f"round {number}", [_racer(scene, n) for n in range(each)])
            await CLOCK.sleep(LONGEST_SECONDS)
        await scene.calm()
        over.set()
    await scene.calm()
    async with scene.session() as connection:
        ends = Counter[str]()
        for row in await connection.fetch(scene.sql["ends"]):
            ends[f"{row['state']} {row['reason']}".strip()] += row["runs"]
    scene.figures |= dict(ends)
    wanted = {"SUCCESS", "CANCELLED cancelled", "FAILED timeout"}
    if not wanted <= ends.keys():
        scene.complain(f"{wanted - ends.keys()} never came of any race")
    await scene.slots_are_free()
    return Knowledge()


def _racer(scene: Scene, number: int) -> dict[str, Any]:
    seconds = round(scene.dice.random() * LONGEST_SECONDS, 3)
    retry = {"max_retries": 2, "retry": {"backoff": "fixed", "base_seconds": 0.1}}
    if number % 4 == 0:
        return function(scene, "lasting", seconds=seconds) | {"timeout_seconds": TIMEOUT_SECONDS}
    if number % 4 == 1:
        return function(scene, "failing", failures=1) | retry
    if number % 20 == 2:
        return shell(scene, f"sleep {seconds}")
    return function(scene, "lasting", seconds=seconds)


async def _meddle(scene: Scene, over: asyncio.Event) -> None:
    """Cancel many of the runs that there are, each at a time of its own, and ask for some of them again."""
    seen = 0
    async with asyncio.TaskGroup() as meddlers:
        turns = asyncio.Semaphore(CLIENTS)
        while not over.is_set():
            async with scene.session() as connection:
                made = await connection.fetch(scene.sql["made"], seen)
            for row in made:
                seen = row["seq"]
                chance = scene.dice.random()
                if chance < CANCELLED_SHARE:
                    meddlers.create_task(_cancel(scene, turns, row["run_id"], scene.dice.random() * LONGEST_SECONDS))
                elif chance < CANCELLED_SHARE + RETRIED_SHARE:
                    meddlers.create_task(_again(scene, turns, row["run_id"], LONGEST_SECONDS))
            await CLOCK.sleep(0.02)


async def _cancel(scene: Scene, turns: asyncio.Semaphore, run_id: UUID, after: float) -> None:
    await CLOCK.sleep(after)
    async with turns:
        await scene.clients.cancel(run_id)


async def _again(scene: Scene, turns: asyncio.Semaphore, run_id: UUID, after: float) -> None:
    await CLOCK.sleep(after)
    async with turns:
        await scene.clients.retry(run_id, f"again {run_id}")


async def crowding(scene: Scene, size: Size) -> Knowledge:
    """R18: many clients send each request at once, to two APIs, and send it again after its answer."""
    await scene.cast(apis=2)
    different: list[str] = []

    async def client(number: int) -> None:
        dice = scene.dice
        for place in range(size.jobs):
            key = f"wanted {place}"
            made = await scene.clients.submit(key, function(scene, "brief"))
            if answers.setdefault(key, made) != made:
                different.append(key)
            if dice.random() < 0.1 and answers[key] != await scene.clients.submit(key, function(scene, "brief")):
                different.append(key)

    answers: dict[str, UUID] = {}
    async with asyncio.TaskGroup() as crowd:
        for number in range(size.rounds):
            crowd.create_task(client(number))
    await scene.calm()
    if different:
        scene.complain(f"{len(different)} keys were answered with different jobs: {different[:3]}")
    scene.figures |= {"keys": size.jobs, "requests": sum(scene.clients.statuses.values())}
    return Knowledge()


async def in_the_way(scene: Scene, size: Size) -> Knowledge:
    """R19: the runs of one dead executor cannot be freed, for somebody holds their rows; another one dies after it."""
    # One alone: a second one could go on while the first waits, and hide that it does.
    await scene.cast(schedulers=1, executors=0)
    async with _stuck(scene, size.jobs):
        victim = scene.start("executor")
        await scene.ready(victim)
        scene.players.append(victim)
        gate = scene.folder / "open"
        job = await scene.clients.submit("held", shell(scene, f"until [ -e {gate} ]; do sleep 0.05; done"))
        await eventually(lambda: scene.holds(victim), within_seconds=30, what="it holds the run")
        await eventually(lambda: scene.witness.begun(), within_seconds=30, what="it runs")
        other = scene.start("executor", TICKWISE_QUEUES="default,stuck")
        await scene.ready(other)
        scene.players.append(other)
        scene.kill(victim)
        killed = CLOCK.monotonic()
        await eventually(lambda: len(scene.witness.begun()) > 1, within_seconds=90, what=f"the run of {job} goes on")
        scene.figures["rescued_seconds"] = scene.figures["recovered_seconds"] = round(CLOCK.monotonic() - killed, 2)
        gate.touch()
    await scene.calm()
    return Knowledge(must_hit=True)


@asynccontextmanager
async def _stuck(scene: Scene, count_of: int) -> AsyncIterator[None]:
    """So many runs of an executor that is dead, in a session that does not let go of their rows."""
    body = function(scene, "brief") | {"queue": "stuck"}
    await scene.clients.submit_many("stuck", [body] * count_of)
    store = PostgresStore(scene.server.url, clock=CLOCK)
    await store.open()
    dead = await store.executors.join(
        NewExecutor(
            number=1, name="dead", queues=("stuck",), labels=(), functions=(), slots=1, lease_seconds=LONG_LEASE_SECONDS
        )
    )
    labels = ("task:function", "function:*", "function:chaos.brief")
    request = ClaimRequest(executor=dead, queues=("stuck",), labels=labels, limit=count_of, ahead_seconds=0.0)
    taken = 0
    for _ in range(50):
        taken += len(await store.attempts.claim(request))
        if taken >= count_of:
            break
        await CLOCK.sleep(0.1)
    await store.close()
    if taken != count_of:
        raise AssertionError(f"it was to hold {count_of} runs, and holds {taken}")
    scene.idlers.add(dead)
    scene.harmed("stuck", "an executor that never was")
    async with scene.session() as connection, connection.transaction():
        await connection.execute(scene.sql["hold_rows"], dead)
        async with scene.session() as other:
            await other.execute(scene.sql["lease_over"], dead)
        yield


ROWS: Final = (
    Row(
        name="R13",
        fault="cancel, retry, success, failure and timeout of the same runs at the same time",
        invariant="one of them wins, and what is cancelled stays so",
        play=racing,
        short=Size(jobs=400, rounds=4),
        long=Size(jobs=20_000, rounds=80),
        pace=DEFAULT,
    ),
    Row(
        name="R18",
        fault="each request comes from many clients at once, to two APIs, and again later",
        invariant="one key is one job and one run",
        play=crowding,
        short=Size(jobs=30, rounds=20),
        long=Size(jobs=1_000, rounds=50),
        pace=DEFAULT,
    ),
    Row(
        name="R19",
        fault="the rows of a dead executor's runs are locked by somebody; then another executor dies",
        invariant="what cannot be healed holds up nothing that can",
        play=in_the_way,
        short=Size(jobs=2_000),
        long=Size(jobs=10_000),
    ),
)
