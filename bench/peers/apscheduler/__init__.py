"""APScheduler: schedules inside one Python process, https://github.com/agronholm/apscheduler. Cases of its own.

It has no queue to drain and no workers elsewhere: who schedules, runs. So L2 is jobs of a date each, and R1 is jobs of
an interval; both in memory, and in its SQLAlchemy store on PostgreSQL. R1 has a tenth of the jobs that ours has, 5,000
that fire every ten seconds, spread evenly: 500 fires a second.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from bench.harness import Failed, Round
from bench.peers.environment import Environment
from bench.peers.peer import Peer
from bench.peers.program import LATE_AHEAD_SECONDS, LATE_PER_SECOND, LATE_SECONDS
from bench.peers.rig import PeerRig

HERE = Path(__file__).parent
ENVIRONMENT = Environment(HERE)
RECURRING, PERIOD_SECONDS, TIMES = 5_000, 10, 3
# Its store adds each job in a transaction of its own.
RECURRING_AHEAD_SECONDS = {False: 5, True: 25}
PATIENCE_SECONDS = 90.0


@dataclass(frozen=True)
class Where:
    """Where jobs are kept, and at which setting."""

    stored: bool
    settings: Literal["default", "best"]


async def _measure(where: Where, rig: PeerRig, words: tuple[object, ...], expected: int) -> Round:
    """One process until all occurrences are run or given up. Raises Failed unless each was run once or more."""
    record = rig.folder / "record.json"
    environment = ENVIRONMENT.variables | {"PEER_RECORD": str(record), "PEER_SETTINGS": where.settings}
    if where.stored:
        environment["PEER_DATABASE_URL"] = (await rig.postgres()).url
    async with rig.process([*ENVIRONMENT.command, *map(str, words)], environment=environment, cwd=HERE) as process:
        await process.until_ready()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while process.handled < expected:
                process.check()
                await rig.clock.sleep(0.05)
        cpu, memory = process.cpu_seconds, process.peak_bytes
        await process.close()
    told: dict[str, Any] = json.loads(record.read_text())
    late = sorted(told["late_ms"])
    missed = expected - len(set(told["ids"]))
    if missed:
        raise Failed(
            f"a void measurement: {missed} of {expected} occurrences never run ({told['given_up']} given up as too "
            f"late or still running); those that ran were up to {late[-1]:.0f} ms late"
        )
    more = {
        "runs": expected,
        "lost": 0,
        "duplicates": Counter(told["ids"]).total() - expected,
        "p50_ms": round(late[len(late) // 2], 2),
        "p99_ms": round(late[int(len(late) * 0.99)], 2),
        "max_ms": round(late[-1], 2),
        "earliest_ms": round(late[0], 2),
        "early": sum(1 for value in late if value < 0),
        "worker_cpu_ms_a_job": round(1000 * cpu / expected, 4),
        "worker_peak_mb": round(memory / 1e6, 1),
    }
    return Round(late[int(len(late) * 0.99)], more)


async def lateness(where: Where, rig: PeerRig) -> Round:
    """L2 in small, as for other peers."""
    count = LATE_PER_SECOND * LATE_SECONDS
    return await _measure(where, rig, ("dates", count, LATE_AHEAD_SECONDS, 1000 / LATE_PER_SECOND), count)


async def recurring(where: Where, rig: PeerRig) -> Round:
    """R1 in small."""
    words = ("intervals", RECURRING, RECURRING_AHEAD_SECONDS[where.stored], PERIOD_SECONDS, TIMES)
    done = await _measure(where, rig, words, RECURRING * TIMES)
    return replace(done, more={"jobs": RECURRING, "every_seconds": PERIOD_SECONDS, **done.more})


def _peer(where: Where) -> Peer:
    return Peer(
        name="apscheduler-sqlalchemy" if where.stored else "apscheduler",
        version=ENVIRONMENT.version("apscheduler"),
        language="Python",
        durability="schedules committed one at a time, runs not recorded"
        if where.stored
        else "memory: nothing survives",
        stores="the schedule and its next time, nothing of runs",
        settings=where.settings,
        link="https://apscheduler.readthedocs.io/en/3.x/userguide.html#missed-job-executions-and-coalescing",
        cases={"L2": partial(lateness, where), "R1": partial(recurring, where)},
        install=ENVIRONMENT.install,
    )


PEERS = tuple(_peer(Where(stored, settings)) for stored in (False, True) for settings in ("default", "best"))
