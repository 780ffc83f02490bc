"""Result files: a figure with everything that is needed to judge and to repeat it.

Invariant: `bench/results/` holds measurements of as many rounds as their cases ask for. A quick look with fewer goes to
`bench/out/`, which is not committed.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from bench.figures import meets
from bench.harness import Case, Round
from tickwise import __version__

HERE = Path(__file__).parent


def commit() -> str:
    """The commit that was measured, with a plus if the tree differs from it."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True, check=False
    )
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "src", "bench/*.py"],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return (head.stdout.strip() or "unknown") + ("+" if dirty.stdout.strip() else "")


def machine() -> dict[str, Any]:
    """What it was measured on. `loop_ms` is one core's speed at this moment: machines that are shared drift."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "loop_ms": _loop_ms(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _loop_ms() -> float:
    """The quickest of five times to count to half a million."""
    taken = []
    for _ in range(5):
        begun = perf_counter()
        for _ in range(500_000):
            pass
        taken.append(perf_counter() - begun)
    return round(min(taken) * 1000, 2)


def judged(case: Case, product: Sequence[Round]) -> dict[str, dict[str, Any]]:
    """Each further demand of the case: its figure (the median of the rounds), its bound, whether it is met."""
    found = {}
    for check in case.checks:
        figures = [measured.more[check.of] for measured in product if measured.more.get(check.of) is not None]
        # One round in which the figure could not be had (it never recovered) makes the demand missed.
        figure = statistics.median(figures) if len(figures) == len(product) else None
        found[check.name] = {
            "figure": figure,
            "bound": check.bound,
            "met": meets(figure, check.bound, higher=check.higher),
        }
    return found


def result(
    case: Case, product: Sequence[Round], limits: Sequence[Round], *, surroundings: Mapping[str, Any]
) -> dict[str, Any]:
    """What a result file says. `more` is that of the round whose value is nearest to the median."""
    values = [measured.value for measured in product]
    value = statistics.median(values)
    limit = statistics.median([measured.value for measured in limits]) if limits else None
    nearest = min(product, key=lambda measured: abs(measured.value - value))
    return {
        "case": case.name,
        "value": round(value, 3),
        "unit": case.unit,
        "low": round(min(values), 3),
        "high": round(max(values), 3),
        "rounds": [round(one, 3) for one in values],
        "limit": None if limit is None else round(limit, 3),
        "limit_rounds": [round(measured.value, 3) for measured in limits],
        "ratio": round(value / limit, 3) if limit else None,
        "limit_is": case.limit_is,
        "target": case.target,
        "met": meets(value, case.target, higher=case.higher),
        "checks": judged(case, product),
        "more": nearest.more,
        **surroundings,
    }


def surroundings(*, postgresql: Mapping[str, str], full: bool) -> dict[str, Any]:
    """What every result file says of where and when, and of which versions."""
    return {
        "full": full,
        "machine": machine(),
        "postgresql": dict(postgresql),
        "python": platform.python_version(),
        "tickwise": __version__,
        "commit": commit(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def folder(case: Case, rounds: int) -> Path:
    """Where the result of so many rounds belongs."""
    place = HERE / ("results" if rounds >= case.rounds else "out")
    place.mkdir(exist_ok=True)
    return place


def write(place: Path, said: Mapping[str, Any]) -> None:
    """One result, as JSON."""
    place.write_text(json.dumps(said, indent=2) + "\n")
