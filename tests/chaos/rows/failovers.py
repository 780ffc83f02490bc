"""FAILOVER: a standby that has not got everything is promoted. What it has goes on; nothing stands still for ever."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

from tests.chaos.evidence import Knowledge
from tests.chaos.replicated import Replicated
from tests.chaos.row import Row, Size
from tests.chaos.rows.jobs import function
from tests.chaos.scene import CLOCK, DEFAULT, Scene
from tests.support.waiting import eventually
from tickwise.domain.fencing import epoch_of

TASK_SECONDS: Final = 0.4
AWAY_SECONDS: Final = 5.0
"""From the primary's death to the promotion."""
GOES_ON_SECONDS: Final = 100.0
"""A bound for the whole: what is judged is that every job goes on."""
SUCCESS: Final = 5
FREE_SHARE: Final = 4
ROUNDS: Final = 3
"""Each job has run so often before the standby is cut off: what is claimed then is claimed in the usual way. It runs
as often again after the promotion."""
END_SECONDS: Final = 1.0
"""From the last of these rounds to the end of the jobs."""


def _recurring(scene: Scene) -> dict[str, Any]:
    """Each second, with the default overlap: a run that stays RUNNING stops its job for good."""
    body = function(scene, "lasting", seconds=TASK_SECONDS)
    return body | {"schedule_type": "INTERVAL", "interval_seconds": 1}


async def failover(scene: Scene, size: Size) -> Knowledge:
    """The standby's stream is cut, the primary is killed some seconds later, and the standby promoted after that."""
    server = scene.server
    assert isinstance(server, Replicated)
    await scene.cast()
    body = _recurring(scene)
    jobs = await scene.clients.submit_many("recurring", [body] * size.jobs, once=False)
    # These begin without asking the store first, so they run under claims that are going to be lost.
    free = [body | {"overlap": "allow"}] * (size.jobs // FREE_SHARE)
    jobs += await scene.clients.submit_many("free", free, once=False)
    for _ in range(ROUNDS):
        await _continued(scene, time.time(), len(jobs))
    cut = time.time()
    await server.cut()
    await CLOCK.sleep(size.seconds)
    begun_before = _begun(scene)
    scene.harmed("failover", "the database")
    await server.kill()
    await CLOCK.sleep(AWAY_SECONDS)
    await server.promote()
    promoted = time.time()
    await _continued(scene, promoted, len(jobs))
    scene.figures["continued_seconds"] = round(time.time() - promoted, 2)
    for _ in range(ROUNDS):
        await _continued(scene, time.time(), len(jobs))
    end = datetime.fromtimestamp(time.time() + END_SECONDS, UTC).isoformat()
    for job_id in jobs:
        await scene.clients.change(job_id, {"end_at": end})
    scene.figures["recovered_seconds"] = round(await scene.all_fired(), 2)
    await _check(scene, len(jobs), begun_before)
    return Knowledge(lost=(cut, promoted + scene.pace.lease))


async def _continued(scene: Scene, since: float, count: int) -> None:
    async def look() -> bool:
        return int(await scene.ask("continued", since)) == count

    await eventually(look, within_seconds=GOES_ON_SECONDS, what=f"all {count} jobs go on")


def _begun(scene: Scene) -> int:
    """The greatest token under which a task began."""
    return max(line.token for line in scene.witness.begun())


async def _check(scene: Scene, count: int, token: int) -> None:
    """One epoch began, tokens are above all that were seen before, no executor had to start anew."""
    async with scene.session() as connection:
        epochs = await connection.fetch(scene.sql["epochs"])
        rows = await connection.fetch(scene.sql["occurrences"])
    causes = [row["cause"] for row in epochs]
    if causes != ["first", "promoted"]:
        scene.complain(f"the epochs are {causes}")
    later = [line.token for line in scene.witness.begun() if epoch_of(line.token) == epochs[-1]["epoch"]]
    if not later or min(later) <= token:
        scene.complain(f"tokens went back: {min(later, default=None)} after {token}")
    for executor in scene.of("executor"):
        if executor.role.events("executor_expired"):
            scene.complain(f"{executor.role.log.name} was given up")
    ended = Counter(row["job_id"] for row in rows if row["state"] == SUCCESS)
    scene.figures |= {
        "jobs": count,
        "continued": len(ended),
        "runs_that_differed": epochs[-1]["differed"],
        "runs_per_job_least": min(ended.values(), default=0),
    }


ROWS: Final = [
    Row(
        name="FAILOVER",
        fault="a standby's stream is cut, its primary is killed some seconds later, and it is promoted after 5 s more",
        invariant="every recurring job goes on, no run stays RUNNING, tokens grow; only what it lacked is lost",
        play=failover,
        short=Size(jobs=12, seconds=2.0),
        long=Size(jobs=24, seconds=3.0),
        pace=DEFAULT,
        server=Replicated,
        own_recovery=True,
    )
]
