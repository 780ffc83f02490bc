"""A row of the scorecard: how it is played, how it is judged, and the result that it leaves.

Invariant: a row in which nothing happened fails; so does one whose faults hit nothing where it says that they must.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.record import commit
from tests.chaos import evidence
from tests.chaos.evidence import Knowledge
from tests.chaos.scene import DEFAULT, QUICK, ROOT, Pace, Scene, cores, scene
from tests.chaos.server import Backing, Server
from tickwise.domain.history.checker import HistoryVerdict, Status, judge

RESULTS: Final = ROOT / "bench" / "results"
MAX_SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of it."""

    jobs: int = 0
    seconds: float = 0.0
    """How long faults go on."""
    rounds: int = 1
    timed: bool = False
    """Whether how long things took is judged: only where the machine does nothing else."""


Play = Callable[[Scene, Size], Awaitable[Knowledge]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row. `play` brings the scene to its calm and says what only it can know."""

    name: str
    fault: str
    invariant: str
    play: Play
    short: Size
    long: Size
    pace: Pace = QUICK
    server: Callable[[], Backing] = Server
    stage: type[Scene] = Scene
    long_server: Callable[[], Backing] | None = None
    """The servers of the long form, if those are more."""
    longest_seconds: float = 0.0
    """How long its longest job takes: what has to run again takes that once more."""
    own_recovery: bool = False
    """It measures by itself how soon all goes on."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a row came to."""

    row: Row
    seed: int
    verdict: HistoryVerdict
    complaints: tuple[str, ...]
    figures: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    history_sha256: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the history is valid, and nothing else was wrong."""
        return self.verdict.status is Status.VALID and not self.complaints

    def as_json(self) -> dict[str, Any]:
        """What `bench/results/chaos-<row>.json` says."""
        counts = dict(self.verdict.counts)
        return {
            "row": self.row.name,
            "fault": self.row.fault,
            "invariant": self.row.invariant,
            "verdict": "good" if self.good else "unknown" if self.verdict.status is Status.UNKNOWN else "bad",
            "seed": self.seed,
            "faults": self.faults,
            "re_executions_allowed": counts.get("re_executions_allowed", 0),
            "re_executions": counts.get("re_executions", 0),
            "figures": self.figures,
            "counts": counts,
            "answers": self.statuses,
            "findings": dict(Counter(str(found.kind) for found in self.verdict.findings)),
            "complaints": list(self.complaints),
            "history_sha256": self.history_sha256,
            "seconds": round(self.seconds, 1),
            "settings": self.settings,
            "machine": self.machine,
            "commit": commit(),
        }

    def as_text(self) -> str:
        """Lines for people."""
        told = self.as_json()
        lines = [
            f"{told['row']} {told['verdict']} in {told['seconds']} s, seed {self.seed}: {self.row.fault}",
            f"  faults {told['faults']}; run again {told['re_executions']} of at most {told['re_executions_allowed']}",
            f"  {', '.join(f'{name} {value}' for name, value in self.figures.items())}",
            *(f"  wrong: {complaint}" for complaint in self.complaints),
        ]
        if self.verdict.status is not Status.VALID:
            lines.append(self.verdict.as_text())
        return "\n".join(lines)


async def run_row(row: Row, size: Size, *, seed: int, strict: bool, histories: Path | None = None) -> Result:
    """Play it and judge it. `strict`: seconds count too, as on a machine that does nothing else."""
    begun = time.monotonic()
    server = row.long_server if strict and row.long_server is not None else row.server
    async with scene(pace=row.pace, seed=seed, backing=server(), kind=row.stage) as stage:
        try:
            knowledge = await row.play(stage, size)
        except (AssertionError, ExceptionGroup) as failure:
            told = "; ".join(map(str, failure.exceptions)) if isinstance(failure, ExceptionGroup) else str(failure)
            raise AssertionError(f"{row.name}, seed {seed}: {told}\n{stage.fleet.logs(1_500)}") from failure
        await stage.no_orphans()
        history = await evidence.history_of(stage, knowledge, stalls=not strict and row.pace.lease < DEFAULT.lease)
        if knowledge.must_hit and not any(fault.in_flight for fault in history.faults or ()):
            stage.complain("no executor lost anything by these faults, so they have shown nothing")
        machine = await stage.machine()
        if strict:
            _check_recovery(row, stage)
        if histories is not None:
            evidence.keep(history, histories / f"chaos-{row.name}.jsonl")
        result = Result(
            row=row,
            seed=seed,
            verdict=judge(history),
            complaints=tuple(stage.complaints),
            figures=stage.figures,
            faults=dict(Counter(fault.kind for fault in history.faults or ())),
            statuses={str(status): count for status, count in sorted(stage.clients.statuses.items())},
            settings=dict(row.pace.environment()),
            machine={**machine, "cores": cores(), "kernel": platform.release(), "python": platform.python_version()},
            history_sha256=evidence.digest(history),
            seconds=time.monotonic() - begun,
        )
        if not result.good and os.environ.get("CHAOS_LOGS"):
            print(stage.fleet.logs())  # noqa: T201 - asked for by whoever looks for a cause
        return result


def _check_recovery(row: Row, stage: Scene) -> None:
    recovered = stage.figures.get("recovered_seconds")
    limit = row.pace.recovery_seconds + row.longest_seconds
    if not row.own_recovery and recovered is not None and recovered > limit:
        stage.complain(f"all went on after {recovered:.1f} s, and not within {limit:g} s")


def record(result: Result) -> None:
    """Write `bench/results/chaos-<row>.json`."""
    file = RESULTS / f"chaos-{result.row.name}.json"
    file.write_text(json.dumps(result.as_json(), indent=2) + "\n")
