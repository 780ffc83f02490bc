"""`make bench-check`: has the hot path become slower? Short T1, T2 and L2, as ratios to the raw limit beside them.

A ratio, because two machines, and one machine at two times, differ by more than any change that this is to find; short
rounds in turn, limit and product, and their median, because noise comes in bursts. What it compares with is recorded in
`check.json`: RECORD=1 writes that anew. A ratio that falls more than 15 % below the recorded one fails the command.

Invariant: higher is better everywhere, so a lateness in ms counts as 1000 by it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench import raw, record
from bench.cases.drain import drain
from bench.cases.lateness import late
from bench.figures import fell
from bench.harness import Rig, rig
from bench.stream import flowing

RECORDED = Path(__file__).with_name("check.json")
ROUNDS = 5
MAX_FALL = 0.15
T1_JOBS = 50_000
T2_JOBS, T2_SECONDS = 100_000, 5.0
L2_RATE, L2_SECONDS = 5_000, 2.0


class Pair(NamedTuple):
    """One round: the limit, and ours a moment later. Of both, higher is better."""

    limit: float
    ours: float


async def _t1(bench: Rig) -> Pair:
    limit = await raw.drain(bench, T1_JOBS)
    return Pair(limit.value, (await drain(bench, T1_JOBS)).value)


async def _t2(bench: Rig) -> Pair:
    limit = await raw.sustained(bench, T2_JOBS)
    async with flowing(bench) as stream:
        before, begin = await stream.ended()
        await bench.clock.sleep(T2_SECONDS)
        after, end = await stream.ended()
        await stream.finish()
    return Pair(limit.value, (after - before) / (end - begin))


async def _l2(bench: Rig) -> Pair:
    limit = await raw.timers(bench, L2_SECONDS)
    await bench.reset()
    outcome = await late(bench, L2_RATE, L2_SECONDS)
    return Pair(1000 / limit.value, 1000 / float(outcome["p99_ms"]))


CHECKS: Mapping[str, Callable[[Rig], Awaitable[Pair]]] = {"T1": _t1, "T2": _t2, "L2": _l2}


async def measure(rounds: int) -> dict[str, list[Pair]]:
    """The pairs of each check, round by round, the checks in turn."""
    found: dict[str, list[Pair]] = {name: [] for name in CHECKS}
    async with rig(full=False) as bench:
        for number in range(rounds):
            for name, check in CHECKS.items():
                found[name].append(await check(bench))
            said = {name: f"{pairs[-1].ours:.0f} of {pairs[-1].limit:.0f}" for name, pairs in found.items()}
            print(f"{number + 1}/{rounds}:", said, flush=True)
    return found


def ratio(pairs: Sequence[Pair]) -> float:
    """What is compared: the median of the rounds' ratios."""
    return round(statistics.median(pair.ours / pair.limit for pair in pairs), 4)


def verdict(measured: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """One line for each ratio that fell too far, or of which nothing is recorded."""
    wrong = []
    for name, ratio in measured.items():
        if name not in recorded:
            wrong.append(f"{name}: nothing is recorded; `make bench-check RECORD=1` records what is now")
        elif (fall := fell(ratio, recorded[name])) > MAX_FALL:
            wrong.append(
                f"{name}: {ratio:.3f} of the limit beside it, {fall:.0%} below the recorded {recorded[name]:.3f} "
                f"({MAX_FALL:.0%} is the most)"
            )
    return wrong


def main() -> int:
    """The command."""
    rounds = int(os.environ.get("ROUNDS") or ROUNDS)
    found = uvloop.run(measure(rounds))
    measured = {name: ratio(pairs) for name, pairs in found.items()}
    print("medians:", measured)
    if os.environ.get("RECORD"):
        said: dict[str, Any] = {"ratios": measured, "rounds": found, "machine": record.machine()}
        record.write(RECORDED, said | {"commit": record.commit()})
        return 0
    recorded = json.loads(RECORDED.read_text())["ratios"] if RECORDED.exists() else {}
    wrong = verdict(measured, recorded)
    print("\n".join(wrong) or f"none is more than {MAX_FALL:.0%} below {recorded}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
