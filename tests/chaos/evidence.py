"""What the witnesses say, brought together for the judge."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.chaos.scene import Scene
from tickwise.domain.history.checker import Edge, Execution, Fault, History, LeaseEnd, Run, RunChange, Target
from tickwise.domain.lifecycle import STATES, RunState


@dataclass(kw_only=True)
class Knowledge:
    """What a row knows that nobody inside can know. See `tickwise.domain.history.events`."""

    targets: Sequence[Target] | None = None
    edges: Sequence[Edge] = ()
    limits: dict[str, int] = field(default_factory=dict)
    limit_keys: dict[UUID, str] = field(default_factory=dict)
    """Of each job under a limit: whose."""
    attempts_most: int | None = None
    unwitnessed: frozenset[UUID] = frozenset()
    """Jobs whose tasks write nothing."""
    watch_leases: bool = False
    stale_refused: int = 0
    lost: tuple[float, float] | None = None
    """In this time claims were acknowledged that the database lost; what began under them is on no record."""
    must_hit: bool = False
    """If its faults took nothing from an executor, the row has shown nothing."""


async def history_of(scene: Scene, knowledge: Knowledge, *, stalls: bool) -> History:
    """All of it, read after the calm. `stalls`: an executor that nobody harmed may have been given up all the same, for
    the machine did not let it speak for a whole lease; that is then a fault like others."""
    seen = await scene.seen()
    executors = seen.executors
    return History(
        runs=[_run(row, knowledge) for row in seen.records],
        journal=_changes(seen.moves),
        operations=scene.clients.operations,
        executions=_executions(scene, knowledge, seen.moves),
        targets=knowledge.targets,
        faults=faults_of(scene, executors, seen.freed, seen.given_back, stalls=stalls),
        lease_ends=[LeaseEnd(row["executor"], row["lease"]) for row in executors] if knowledge.watch_leases else (),
        limits=knowledge.limits,
        edges=knowledge.edges,
        stale_refused=knowledge.stale_refused,
        clock_slack=0.02,
    )


def _executions(scene: Scene, knowledge: Knowledge, moves: Sequence[Any]) -> list[Execution]:
    """All that ran, but for what ran under claims that were lost: how often that was is a figure."""
    executions = scene.witness.executions()
    if knowledge.lost is None:
        return executions
    begin, end = knowledge.lost
    claimed = {(row["run_id"], row["token"]) for row in moves}
    kept = [each for each in executions if (each.run_id, each.token) in claimed or not begin <= each.begin <= end]
    scene.figures["ran_under_lost_claims"] = len(executions) - len(kept)
    return kept


def _run(row: Any, knowledge: Knowledge) -> Run:
    return Run(
        row["run_id"],
        row["job_id"],
        STATES[row["state"]],
        trigger=row["trigger"],
        due=row["due"],
        nominal=row["nominal"],
        until=row["until"],
        started=row["started"],
        ended=row["ended"],
        token=row["token"],
        attempt=row["attempt"],
        failures=row["failures"],
        crashes=row["crashes"],
        reason=row["reason"],
        origin=row["origin"],
        key=row["name"] if row["origin"] is None else None,
        attempts_most=knowledge.attempts_most,
        limit_key=knowledge.limit_keys.get(row["job_id"]),
        witnessed=row["job_id"] not in knowledge.unwitnessed,
    )


def _changes(moves: Sequence[Any]) -> list[RunChange]:
    """Numbered as they were committed: the writer of each held the run's row."""
    final = {row["run_id"] for row in moves if row["after"] >= 5}
    versions: Counter[UUID] = Counter()
    changes = []
    for row in moves:
        run_id, after = row["run_id"], row["after"]
        if after == 0 and run_id in final:
            continue  # it went where it is on record
        versions[run_id] += 1
        changes.append(
            RunChange(
                run_id,
                versions[run_id],
                _state(row["before"]),
                _state(after),
                token=row["token"],
                executor=0 if row["freed"] else row["holder"],
                at=row["at"],
            )
        )
    return changes


def _state(code: int) -> RunState | None:
    return STATES[code] if code else None


def faults_of(
    scene: Scene, executors: Sequence[Any], freed: Mapping[int, int], given_back: Sequence[Any], *, stalls: bool
) -> list[Fault]:
    """What was done, each fault on an executor with what it lost by it: as many attempts as the store had to take from
    it, or as it gave back itself, for its lease was over. What one lost that nobody harmed is a stall of the machine,
    or, where those do not count, nobody's fault, so it explains nothing."""
    faults = [*scene.faults]
    gave_up = {row["executor"]: row["at"] for row in given_back}
    lost = Counter(freed) + Counter({row["executor"]: row["attempts"] for row in given_back})
    lost = Counter({number: count for number, count in lost.items() if number not in scene.idlers})
    gone = {row["executor"]: row["gone"] or float("inf") for row in executors}
    for role, kind, at in scene.victims:
        numbers = [event["executor"] for event in role.events("executor_joined")]
        # The number that it bore then: the first that was not gone yet; who dies of itself is found out only later.
        number = next((number for number in numbers if gone.get(number, 0.0) > at), numbers[-1] if numbers else None)
        held = 0 if number is None else lost.pop(number, 0)
        faults.append(Fault(kind, at, role.log.stem, held, number))
    if stalls:
        for number, held in lost.items():
            at = gone[number] if freed.get(number) else gave_up[number]
            faults.append(Fault("stall", at, f"executor {number}", held, number))
    return sorted(faults, key=lambda fault: fault.at)


def digest(history: History) -> str:
    """A hash of all of it, so that a published figure names the history that it came from."""
    return hashlib.sha256(_text(history).encode()).hexdigest()


def keep(history: History, file: Path) -> None:
    """Write it down, one JSON value a line."""
    file.write_text(_text(history))


def _text(history: History) -> str:
    lines: list[str] = []
    for name in ("runs", "journal", "operations", "executions", "targets", "faults", "lease_ends"):
        told = getattr(history, name) or ()
        lines += [json.dumps({"kind": name, **each._asdict()}, default=str) for each in told]
    return "\n".join(lines)
