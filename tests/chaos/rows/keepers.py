"""R2, R6 and R10 on Cassandra: keepers, nodes and roles die, freeze, lose their tables, and have a wrong clock.

The bad days of one keeper and its log alone have tests of their own: `docs/explanation/bad-days-on-cassandra.md`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.keepers.cluster import KeeperCluster
from tests.chaos.keepers.stage import KeeperScene
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import mixed
from tests.chaos.rows.kills import KILL_EVERY_SECONDS, restart_later
from tests.chaos.scene import CLOCK, Pace, Scene
from tests.support.waiting import eventually

NODE_AWAY_SECONDS: Final = 1.0
KEEPER_LEASE_SECONDS: Final = 5.0
BETWEEN: Final = 20
"""Jobs that are acknowledged between two faults."""
PACE: Final = Pace(lease=6.0, heartbeat=0.6, poll=0.2)
TABLES: Final = ("runs", "due")

Harm = Callable[[KeeperScene], Awaitable[None]]


async def killing(scene: Scene, size: Size) -> Knowledge:
    """R2-KEEPERS: kill -9 of owners, executors, nodes and other roles, beside a steady load."""
    assert isinstance(scene, KeeperScene)
    await scene.cast()
    over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(_submit(scene, size, over))
        until = CLOCK.monotonic() + size.seconds
        async with asyncio.TaskGroup() as restarts:
            while CLOCK.monotonic() < until:
                await _kill_each(scene, restarts)
        over.set()
    scene.figures["recovered_seconds"] = round(await scene.calm(within_seconds=200), 2)
    await scene.slots_are_free()
    await scene.tables_show_what_the_log_says()
    _takeovers(scene)
    return Knowledge(must_hit=True)


async def _submit(scene: KeeperScene, size: Size, over: asyncio.Event) -> None:
    """So many jobs a second at most, until there are no more faults."""
    number = 0
    while not over.is_set():
        begun = CLOCK.monotonic()
        await scene.clients.submit_many(f"round {number}", mixed(scene, size.jobs))
        number += 1
        await CLOCK.sleep(max(0.0, begun + 1.0 - CLOCK.monotonic()))


async def _kill_each(scene: KeeperScene, restarts: asyncio.TaskGroup) -> None:
    """The owner of the shard, an executor that holds something, a node and another role, in an order that is drawn."""
    victims = ["keeper", "executor", "node", scene.dice.choice(["api", "scheduler"])]
    scene.dice.shuffle(victims)
    for victim in victims:
        await CLOCK.sleep(KILL_EVERY_SECONDS)
        if victim == "node":
            node = scene.dice.choice(scene.cluster.nodes)
            scene.harmed("kill", f"node {node.host}")
            await scene.cluster.kill_for(node, NODE_AWAY_SECONDS)
            scene.last_fault = time.monotonic()
            continue
        working = [each for each in scene.of(victim) if each.working]
        if victim == "keeper":
            working = [each for each in working if each is scene.owner]
        if not working:
            continue
        player = scene.dice.choice(working)
        if victim == "executor":
            # The load goes on, so there is something to lose; on a slow machine that may take some time.
            await eventually(partial(scene.kill_busy, player), within_seconds=90, what="an executor holds something")
        else:
            scene.kill(player)
        restarts.create_task(restart_later(scene, player))


def _takeovers(scene: KeeperScene) -> None:
    opened = [event for role in scene.fleet.roles for event in role.events("log_opened")]
    scene.figures["tenures"] = len(opened)
    if len(opened) < 2:
        scene.complain("no keeper took over from another, so these faults have shown nothing")
    scene.figures["longest_rebuild_seconds"] = max((event["seconds"] for event in opened), default=0.0)


async def harming(scene: Scene, size: Size) -> Knowledge:
    """R6-KEEPERS: one fault after the other, under clients who give nothing up."""
    assert isinstance(scene, KeeperScene)
    await scene.cast()
    over = asyncio.Event()
    submitted: list[UUID] = []
    async with asyncio.TaskGroup() as all_at_once:
        all_at_once.create_task(_client(scene, over, submitted))
        for _ in range(size.rounds):
            for name, harm in _harms(scene).items():
                await _acknowledged(submitted)
                scene.harmed(name, "the store")
                await harm(scene)
                scene.last_fault = time.monotonic()
        await _acknowledged(submitted)
        over.set()
    scene.figures["recovered_seconds"] = round(await scene.calm(within_seconds=200), 2)
    scene.figures["acknowledged"] = len(submitted)
    await scene.tables_show_what_the_log_says()
    _takeovers(scene)
    for player in scene.players:
        if player.role.process.poll() is not None:
            scene.complain(f"{player.role.log.name} ended with {player.role.process.returncode}")
    return Knowledge()


def _harms(scene: KeeperScene) -> dict[str, Harm]:
    """Of one node those that no other short form has."""
    names = HARMS if len(scene.cluster.nodes) > 1 else HARMS_OF_ONE
    return {name: HARMS[name] for name in names}


async def _client(scene: Scene, over: asyncio.Event, submitted: list[UUID]) -> None:
    number = 0
    while not over.is_set():
        submitted += await scene.clients.submit_many(f"client {number}", mixed(scene, BETWEEN // 2, longest=0.3))
        number += 1


async def _acknowledged(submitted: list[UUID]) -> None:
    before = len(submitted)
    await eventually(lambda: len(submitted) >= before + BETWEEN, within_seconds=90, what="jobs are acknowledged")


async def frozen_owner(scene: KeeperScene) -> None:
    """SIGSTOP for longer than its lease, and until another has taken over; then it thaws and writes: it is refused."""
    owner = scene.owner
    before = len(owner.role.events("log_lost"))
    owner.role.signal(signal.SIGSTOP)
    try:
        await CLOCK.sleep(KEEPER_LEASE_SECONDS)
        await scene.another_owns(owner)
    finally:
        owner.role.signal(signal.SIGCONT)
    await owner.role.event("log_lost", count=before + 1, within_seconds=90)


async def killed_owner(scene: KeeperScene) -> None:
    """kill -9 of the owner."""
    owner = scene.owner
    owner.role.kill()
    await scene.another_owns(owner)
    await scene.restart(owner)


async def both_killed(scene: KeeperScene) -> None:
    """Nobody owns the shard for a while."""
    for keeper in scene.of("keeper"):
        keeper.role.kill()
    await asyncio.gather(*(restart_later(scene, keeper) for keeper in scene.of("keeper")))


async def retired_owner(scene: KeeperScene) -> None:
    """SIGTERM: it gives the shard back, and ends in order."""
    owner = scene.owner
    owner.role.signal(signal.SIGTERM)
    if status := await owner.role.ended(60):
        scene.complain(f"{owner.role.log.name} was told to end, and ended with {status}")
    await scene.restart(owner)


async def frozen_nodes(scene: KeeperScene) -> None:
    """All nodes stand still for longer than the lease: the owner may answer no reads, and another may take over."""
    await scene.cluster.freeze_for(scene.cluster.nodes, KEEPER_LEASE_SECONDS + 2.0)


async def lost_tables(scene: KeeperScene) -> None:
    """Readable tables are dropped; `tickwise db upgrade` makes all of them anew."""
    for table in TABLES:
        await scene.log.rows(f"DROP TABLE {table}")
    await scene.cluster.upgrade()


HARMS: Final[dict[str, Harm]] = {
    "owner frozen": frozen_owner,
    "tables dropped": lost_tables,
    "owner killed": killed_owner,
    "nodes frozen": frozen_nodes,
    "owner retired": retired_owner,
    "both keepers killed": both_killed,
}
HARMS_OF_ONE: Final = ("owner frozen", "tables dropped", "both keepers killed")


ROWS: Final = (
    Row(
        name="R2-KEEPERS",
        fault="kill -9 of the owner, an executor, a node and another role, one each 2 s, started again within 3 s",
        invariant="as R2, by the log of the shard; the readable tables are equal at the end",
        play=killing,
        short=Size(jobs=40, seconds=1),
        long=Size(jobs=100, seconds=120),
        pace=PACE,
        server=KeeperCluster,
        long_server=partial(KeeperCluster, 3),
        stage=KeeperScene,
        longest_seconds=1.0,
        own_recovery=True,
    ),
    Row(
        name="R6-KEEPERS",
        fault="the owner frozen, killed, told to end, both keepers killed; nodes frozen; readable tables dropped",
        invariant="nothing acknowledged is lost, nothing ends twice, and the readable tables are equal at the end",
        play=harming,
        short=Size(rounds=1),
        long=Size(rounds=5),
        pace=PACE,
        server=KeeperCluster,
        long_server=partial(KeeperCluster, 3),
        stage=KeeperScene,
        own_recovery=True,
    ),
)
