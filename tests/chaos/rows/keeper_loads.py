"""R10, HOUR and HOT on Cassandra: a node's clock is wrong; very many timers; one namespace that asks for too much."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import psutil

from tests.chaos.clients import Clients
from tests.chaos.evidence import Knowledge
from tests.chaos.keepers.cluster import KeeperCluster
from tests.chaos.keepers.log_witness import LogWitness
from tests.chaos.keepers.stage import KeeperScene
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function, shell
from tests.chaos.rows.keepers import PACE
from tests.chaos.scene import CLOCK, Scene
from tests.integration.processes.fleet import api_client
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.domain.errors import Unavailable
from tickwise.domain.history.checker import Target
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.testing.factories import Factory
from tickwise.wiring.cassandra.stores import KeyspaceStore

HOUR_SECONDS: Final = 3_600.0
HOURS: Final = (1, -1)
EACH_CLOCK_SECONDS: Final = 4.0
LATE_SECONDS: Final = 15.0
"""How late a run may begin while owners are killed; what is judged is that nothing is early, and each has its run."""
LOOK_SECONDS: Final = 0.2
BATCH: Final = 1_000
LOADERS: Final = 4
AWAY_SECONDS: Final = 600.0
"""The hour with the timers begins so much later: none of them fires."""
BYTES_A_JOB: Final = 3_000
"""docs/how-to/cassandra.md says 3 kB for a job with its run; a timer alone has less."""
TOGETHER: Final = 500
"""Jobs that are due at the same instant, beside the others."""
FLOODS: Final = 6
FLOOD_BATCH: Final = 6
HOT_SECONDS: Final = 0.2
MANY: Final = 50
"""So many runs of the hot namespace wait at least, when another one's come."""
TURNS_MORE: Final = 20
"""Runs of the hot namespace that may be taken before one of another, beyond their turns: claims that are under way
when it comes, and each tenth one, which begins with the run that has waited longest."""
RATE: Final = 10
"""Requests that a namespace may send a second."""


async def wrong_clocks(scene: Scene, size: Size) -> Knowledge:
    """R10-KEEPERS: the clock of one node of three after the other is an hour ahead, then an hour behind. The owner is
    killed each time, so that the next one measures the clocks as they are then."""
    assert isinstance(scene, KeeperScene)
    await scene.cast(schedulers=1, executors=2)
    begin = float(int(time.time()) + 4)
    seconds = len(HOURS) * len(scene.cluster.nodes) * (EACH_CLOCK_SECONDS + 2.0)
    body = function(scene, "brief") | {
        "schedule_type": "INTERVAL", "interval_seconds": 1, "overlap": "allow", "misfire": {"mode": "all"},
        "start_at": _text(begin), "end_at": _text(begin + seconds),
    }  # fmt: skip
    jobs = await scene.clients.submit_many("every second", [body] * size.jobs, once=False)
    over = asyncio.Event()
    async with asyncio.TaskGroup() as both:
        both.create_task(_watch_time(scene, over))
        for hours in HOURS:
            for node, clock in zip(scene.cluster.nodes, scene.cluster.clocks, strict=True):
                clock.shift(hours * HOUR_SECONDS)
                scene.harmed(f"clock {hours:+d} h", f"node {node.host}")
                owner = scene.owner
                owner.role.kill()
                await scene.another_owns(owner)
                await scene.restart(owner)
                await CLOCK.sleep(EACH_CLOCK_SECONDS)
                clock.shift(0.0)
        await CLOCK.sleep(begin + seconds - time.time())
        over.set()
    await scene.all_fired(within_seconds=200)
    scene.figures["occurrences"] = len(jobs) * (int(seconds) + 1)
    return Knowledge(
        targets=[
            Target(job, begin + n, begin + n + LATE_SECONDS, skippable=True)
            for job in jobs
            for n in range(int(seconds) + 1)
        ]
    )


def _text(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat()


async def _watch_time(scene: KeeperScene, over: asyncio.Event) -> None:
    """The time that the log was told never goes back, and is never ahead of the machine's by more than a second."""
    last = ahead = 0.0
    while not over.is_set():
        try:
            told = await scene.log.told_at()
        except Unavailable:
            told = last
        if told < last:
            scene.complain(f"the store's time went back by {last - told:.3f} s")
        last, ahead = told, max(ahead, told - time.time())
        await CLOCK.sleep(LOOK_SECONDS)
    scene.figures["time_ahead_seconds_most"] = round(ahead, 3)
    if ahead > 1.0:
        scene.complain(f"the store's time was {ahead:.1f} s ahead")


async def many_timers(scene: Scene, size: Size) -> Knowledge:
    """HOUR-KEEPERS: so many one-time jobs are due within one hour. The owner's memory is bounded by them, another
    keeper takes over, and what is due meanwhile runs."""
    assert isinstance(scene, KeeperScene)
    await scene.cast(schedulers=1, executors=1)
    before = _resident_bytes(scene)
    begun = CLOCK.monotonic()
    await _load(scene, size.jobs)
    scene.figures["jobs"] = size.jobs
    scene.figures["jobs_per_second"] = round(size.jobs / (CLOCK.monotonic() - begun))
    each = (_resident_bytes(scene) - before) / size.jobs
    scene.figures["owner_bytes_a_job"] = round(each)
    if each > BYTES_A_JOB:
        scene.complain(f"the owner has {each:,.0f} bytes for a timer, and not {BYTES_A_JOB:,} at most")
    due = time.time() + 5.0
    body = function(scene, "brief") | {"schedule_type": "FUTURE", "schedule_time": _text(due)}
    await scene.clients.submit_many("together", [body] * TOGETHER)
    owner = scene.owner
    scene.harmed("kill", owner)
    killed = CLOCK.monotonic()
    owner.role.kill()
    await scene.another_owns(owner)
    scene.figures["takeover_seconds"] = round(CLOCK.monotonic() - killed, 2)
    await scene.restart(owner)
    await scene.ended(TOGETHER)
    await eventually(partial(_timers_are, scene, size.jobs), within_seconds=60, what="all timers are there")
    return Knowledge()


def _resident_bytes(scene: KeeperScene) -> int:
    return int(psutil.Process(scene.owner.role.pid).memory_info().rss)


async def _timers_are(scene: KeeperScene, count: int) -> bool:
    await scene.ask("unfired")
    return len(scene.log.timed) == count


async def _load(scene: KeeperScene, count: int) -> None:
    """Past the API, by the same calls of the store."""
    store = KeyspaceStore(read_address(scene.cluster.roles_url), CLOCK)
    await store.open()
    try:
        batches = iter(range(0, count, BATCH))
        begin = await store.now() + AWAY_SECONDS

        async def load() -> None:
            for first in batches:
                make = Factory(begin, seed=f"hour {first}")
                places = range(first, min(count, first + BATCH))
                await store.jobs.add([make.job(begin + HOUR_SECONDS * place / count) for place in places])

        await asyncio.gather(*(load() for _ in range(LOADERS)))
    finally:
        await store.close()


async def hot_namespace(scene: Scene, size: Size) -> Knowledge:
    """HOT-KEEPERS: one namespace asks for all it can. It is told to come back later, and what it was promised runs;
    requests of another namespace are all taken, and its runs do not wait for the many of the first."""
    assert isinstance(scene, KeeperScene)
    scene.tell(TICKWISE_NAMESPACE_REQUESTS_PER_SECOND_MOST=str(RATE))
    await scene.cast(schedulers=1, executors=1, slots=4)
    async with api_client(scene.clients.urls[0]) as admin:
        for name in ("hot", "calm"):
            answer = await admin.post("/namespaces", json={"name": name})
            assert answer.status_code == 201, answer.text
    hot, calm = (Clients(scene.clients.urls, scene.witness.wall(0.0), namespace=name) for name in ("hot", "calm"))
    over, gate = asyncio.Event(), scene.folder / "no rush any more"
    try:
        async with asyncio.TaskGroup() as all_at_once:
            for number in range(FLOODS):
                all_at_once.create_task(_flood(scene, hot, number, over, gate))
            await eventually(partial(_many_wait, scene), within_seconds=90, what="many runs of hot wait")
            for number in range(size.jobs):
                await calm.submit(f"calm {number}", shell(scene))
                await CLOCK.sleep(size.seconds / size.jobs)
            over.set()
            gate.touch()
    finally:
        await hot.close()
        await calm.close()
    scene.clients.operations += [*hot.operations, *calm.operations]
    scene.figures["hot_refused"] = hot.statuses[429]
    if not hot.statuses[429] or calm.statuses[429]:
        scene.complain(f"hot got {hot.statuses[429]} answers 429, calm {calm.statuses[429]}")
    await scene.calm(within_seconds=300)
    _judge_turns(scene, size.jobs)
    return Knowledge()


async def _flood(scene: KeeperScene, hot: Clients, number: int, over: asyncio.Event, gate: Path) -> None:
    """Batches, one after the other. A run has a slot of the executor for itself: functions go on beside each other, so
    an executor may take all of them at once. Once the gate is there, runs are over at once."""
    count = 0
    while not over.is_set():
        body = shell(scene, f'[ -e "{gate}" ] || sleep {HOT_SECONDS}')
        await hot.submit_many(f"hot {number} {count}", [body] * FLOOD_BATCH)
        count += 1


async def _many_wait(scene: KeeperScene) -> bool:
    """Whether many runs of the first namespace have no executor."""
    await scene.ask("active")
    log = scene.log
    waiting = Counter(log.jobs[run["job"]]["namespace"] for run in log.runs.values() if not run.get("executor"))
    return waiting["hot"] >= MANY


def _judge_turns(scene: KeeperScene, jobs: int) -> None:
    """By the order of the log, in which a slow machine changes nothing: while a run of calm waits, an executor takes
    about as many runs of hot as of calm, however many of hot wait. `jobs`: those of calm."""
    judged = unfair = hot_waited = passed_most = 0
    for turns in _turns(scene.log):
        passed_most = max(passed_most, turns.hot)
        if turns.hot_waiting >= MANY:
            judged += 1
            hot_waited = max(hot_waited, turns.hot_waiting)
            unfair += turns.hot > 2 * turns.calm + TURNS_MORE
    scene.figures |= {"hot_waited": hot_waited, "hot_taken_before_a_calm_one_most": passed_most}
    if judged < jobs // 2:
        scene.complain(f"only at {judged} of {jobs} runs of calm {MANY} of hot waited, so this has shown nothing")
    if unfair:
        scene.complain(f"{unfair} runs of calm were passed over, the worst by {passed_most} of hot")


@dataclass
class _Turns:
    """What was taken while a run of calm waited."""

    hot_waiting: int
    """When it came."""
    hot: int = 0
    calm: int = 0


def _turns(log: LogWitness) -> list[_Turns]:
    """For each run of calm, from its making until an executor took it."""
    jobs = {run_id: run["job"] for run_id, run in log.runs.items()}
    jobs |= {run_id: ended.row.job_id for run_id, ended in log.ended.items()}
    waiting: dict[str, set[UUID]] = {"hot": set(), "calm": set()}
    turns: dict[UUID, _Turns] = {}
    for move in log.moves:
        run_id = move["run_id"]
        name = log.jobs[jobs[run_id]]["namespace"]
        if move["after"] == CODES[RunState.QUEUED]:
            waiting[name].add(run_id)
            if name == "calm":
                turns.setdefault(run_id, _Turns(len(waiting["hot"])))
        elif run_id in waiting[name]:
            waiting[name].discard(run_id)
            for other in waiting["calm"]:
                turns[other].hot += name == "hot"
                turns[other].calm += name == "calm"
    return list(turns.values())


ROWS: Final = (
    Row(
        name="R10-KEEPERS",
        fault="the clock of one node of three is an hour ahead, then an hour behind, while owners are killed",
        invariant="nothing begins early, every occurrence is on record, and the store's time never goes back",
        play=wrong_clocks,
        short=Size(jobs=5),
        long=Size(jobs=50),
        pace=PACE,
        server=partial(KeeperCluster, 3),
        stage=KeeperScene,
        own_recovery=True,
    ),
    Row(
        name="HOUR-KEEPERS",
        fault="a million one-time jobs (200,000 in the short form) are due within one hour; the owner is killed",
        invariant="the owner's memory is bounded, the next one has all timers, and what is due runs on time",
        play=many_timers,
        short=Size(jobs=200_000),
        long=Size(jobs=1_000_000),
        pace=PACE,
        server=KeeperCluster,
        stage=KeeperScene,
        own_recovery=True,
    ),
    Row(
        name="HOT-KEEPERS",
        fault="one namespace sends more than it may, and its runs fill all slots",
        invariant="it gets 429, and another namespace is neither refused nor made to wait",
        play=hot_namespace,
        short=Size(jobs=20, seconds=5),
        long=Size(jobs=300, seconds=60),
        pace=PACE,
        server=KeeperCluster,
        stage=KeeperScene,
        own_recovery=True,
    ),
)
