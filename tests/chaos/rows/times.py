"""R9 and R10: schedules while nobody fires them, and while the clock of one node is wrong."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from tests.chaos.evidence import Knowledge
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, DEFAULT, Scene
from tests.chaos.shim import ShiftedClock, own_time
from tickwise.domain.history.checker import Target

INTERVAL_SECONDS: Final = 1
GRACE_SECONDS: Final = 0.5
MAX_CATCHUP: Final = 5
POLICIES: Final = {"skip": {0}, "latest": {0, 1}, "all": {MAX_CATCHUP}}
"""How many of what was missed for longer than the grace run, by the mode of the misfire rule. Of `latest` the newest of
all runs: that may be one within the grace."""
LEAD_SECONDS: Final = 3.0
TAIL_SECONDS: Final = 4.0
SKIPPED: Final = 8
LATE_SECONDS: Final = 5.0
"""How late a run may begin on a node whose own clock is wrong; what is judged is that each occurrence has one."""


def _text(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat()


def _recurring(scene: Scene, begin: float, end: float, **policy: Any) -> dict[str, Any]:
    """A job that is due each second from one instant to another, both included."""
    times = {"start_at": _text(begin), "end_at": _text(end), "interval_seconds": INTERVAL_SECONDS}
    kind = {"schedule_type": "INTERVAL", "overlap": "allow"}
    return function(scene, "brief") | kind | times | policy


async def unattended(scene: Scene, size: Size) -> Knowledge:
    """R9: all schedulers are down for longer than any grace; of what was missed, each job's policy runs its number."""
    await scene.cast()
    begin = float(int(time.time()) + 3)
    end = begin + LEAD_SECONDS + size.seconds + TAIL_SECONDS
    jobs: dict[UUID, str] = {}
    for mode in POLICIES:
        policy = {"mode": mode, "grace_seconds": GRACE_SECONDS, "max_catchup": MAX_CATCHUP}
        body = _recurring(scene, begin, end, misfire=policy)
        made = await scene.clients.submit_many(mode, [body] * (size.jobs // len(POLICIES)), once=False)
        jobs |= dict.fromkeys(made, mode)
    await CLOCK.sleep(begin + LEAD_SECONDS - time.time())
    for scheduler in scene.of("scheduler"):
        scene.kill(scheduler)
    down = time.time()
    await CLOCK.sleep(size.seconds)
    await asyncio.gather(*(scene.restart(scheduler) for scheduler in scene.of("scheduler")))
    await CLOCK.sleep(end - time.time())
    scene.figures["recovered_seconds"] = round(await scene.all_fired(), 2)
    async with scene.session() as connection:
        rows = await connection.fetch(scene.sql["occurrences"])
    expected = int((end - begin) / INTERVAL_SECONDS) + 1
    kept = defaultdict[UUID, list[Any]](list)
    for row in rows:
        kept[row["job_id"]].append(row)
    late: Counter[str] = Counter()
    for job_id, mode in jobs.items():
        late[mode] += _check(scene, kept[job_id], mode, begin, expected)
    scene.figures |= {"schedules": len(jobs), "occurrences": expected, "down_seconds": round(time.time() - down, 1)}
    scene.figures |= {f"made_up_for_{mode}": late[mode] for mode in POLICIES}
    return Knowledge()


def _check(scene: Scene, rows: list[Any], mode: str, begin: float, expected: int) -> int:
    """Each occurrence of one job has one record, and of what was missed as many run as the policy says: how many."""
    covered: Counter[int] = Counter()
    late = 0
    for row in rows:
        first = round((row["nominal"] - begin) / INTERVAL_SECONDS)
        covered.update(range(first, first + row["occurrences"]))
        if row["state"] != SKIPPED and row["queued"] - row["nominal"] > GRACE_SECONDS:
            late += 1
    if covered != Counter(range(expected)):
        twice = sorted(place for place, count in covered.items() if count > 1)
        missing = sorted(set(range(expected)) - covered.keys())
        scene.complain(f"{mode}: occurrences {missing[:5]} have no record, {twice[:5]} have two")
    if late not in POLICIES[mode]:
        scene.complain(f"{mode}: {late} of what was missed ran, and not {POLICIES[mode]}")
    decided = max((row["queued"] for row in rows if row["state"] == SKIPPED), default=None)
    if decided is None:
        scene.complain(f"{mode}: nothing was missed")
    elif mode == "latest":
        newest = max((row for row in rows if row["nominal"] <= decided), key=lambda row: row["nominal"])
        if newest["state"] == SKIPPED:
            scene.complain("latest: the newest of what was missed did not run")
    return late


async def wrong_clocks(scene: Scene, size: Size) -> Knowledge:
    """R10: the clock of one node after the other is an hour ahead, then two hours behind."""
    clocks = {kind: ShiftedClock(scene.folder, kind) for kind in ("api", "scheduler", "executor")}
    for kind, clock in clocks.items():
        player = scene.start(kind, **clock.environment)
        scene.players.append(player)
    scene.forget_settings()
    await asyncio.gather(*(scene.ready(player) for player in scene.players))
    shifted = [*scene.players]
    await scene.cast(schedulers=1, executors=2, apis=1)
    begin = float(int(time.time()) + 4)
    end = begin + size.seconds
    bodies = [_recurring(scene, begin, end)] * size.jobs
    jobs = await scene.clients.submit_many("every second", bodies, once=False)
    place = 0
    each = size.seconds / (2 * len(clocks))
    for hours in (1, -2):
        for player, clock in zip(shifted, clocks.values(), strict=True):
            clock.shift(hours * 3600.0)
            scene.harmed(f"clock {hours:+d} h", player)
            if abs(own_time(clock.environment) - time.time() - hours * 3600) > 60:
                raise AssertionError("the shim shifts nothing")
            until = CLOCK.monotonic() + each
            while CLOCK.monotonic() < until:
                await scene.clients.submit(f"once {place}", function(scene, "brief"))
                place += 1
                await CLOCK.sleep(0.2)
            clock.shift(0.0)
    await CLOCK.sleep(end - time.time())
    await scene.all_fired()
    occurrences = range(int(size.seconds) // INTERVAL_SECONDS + 1)
    targets = [
        Target(job, begin + n * INTERVAL_SECONDS, begin + n * INTERVAL_SECONDS + LATE_SECONDS)
        for job in jobs
        for n in occurrences
    ]
    scene.figures |= {"schedules": size.jobs, "occurrences": len(targets), "submitted": place}
    return Knowledge(targets=targets)


ROWS: Final = (
    Row(
        name="R9",
        fault="all schedulers are down, for far longer than the grace of the schedules",
        invariant="each occurrence has one record; of the missed ones as many run as each policy says",
        play=unattended,
        short=Size(jobs=30, seconds=12),
        long=Size(jobs=600, seconds=130),
        pace=DEFAULT,
        own_recovery=True,
    ),
    Row(
        name="R10",
        fault="the wall clock of one node after the other is an hour ahead, then two hours behind",
        invariant="each occurrence of each schedule runs once, in its time: matched blind, by when tasks really began",
        play=wrong_clocks,
        short=Size(jobs=30, seconds=18),
        long=Size(jobs=200, seconds=60),
        pace=DEFAULT,
    ),
)
