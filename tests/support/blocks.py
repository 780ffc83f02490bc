"""Stores whose ended runs are in small blocks, and logs that die at a step, for the tests of blocks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from tests.support.effects import contents_of, differences
from tickwise.adapters.store.keeper.block_places import BlockPlaces
from tickwise.adapters.store.keeper.blocks import NamedBlock, names_in
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunState
from tickwise.ports.clock import Clock
from tickwise.ports.store import AttemptRow, ClaimRequest, RunRow
from tickwise.testing import factories
from tickwise.testing.factories import Factory

BLOCK_RUNS = 5
JOBS = [UUID(int=number) for number in range(1, 5)]
NAMESPACES = ("default", "other")


def ended_run(number: int, chance: random.Random) -> EndedRun:
    """An ended run whose id says its time, as ids do."""
    at = 1_000.0 + number
    state = chance.choice((RunState.SUCCESS, RunState.SUCCESS, RunState.FAILED, RunState.SKIPPED))
    attempt = AttemptRow(
        attempt=1, token=number, executor=7, state=state, dispatched_at=at, started_at=at, ended_at=at + 1, reason=None,
        error="it fell" if state is RunState.FAILED else None,
    )  # fmt: skip
    row = RunRow(
        run_id=UUID(int=(number << 80) + chance.getrandbits(70)), job_id=chance.choice(JOBS),
        namespace=chance.choice(NAMESPACES), state=state, trigger=0, due_at=at, queued_at=at, dispatched_at=at,
        started_at=at, ended_at=at + chance.randint(0, 9), ready_at=None, attempt=1, failures=0, crashes=0, executor=7,
        reason=None, error=None, result="7", origin=None, definition=None, nominal_at=at,
    )  # fmt: skip
    return EndedRun(row, number, (attempt,), reported=True)


def small_blocks(folder: Path, in_memory: int = 0, runs: int = BLOCK_RUNS) -> SpilledRuns:
    """A container of ended runs."""
    return SpilledRuns(folder, in_memory, BlockPlaces(runs_most=runs))


def store_over(log: EffectLog, folder: Path, clock: Clock, in_memory: int = 0) -> KeeperStore:
    """A store over this log; its files of ended runs are in that folder."""
    return KeeperStore(log, clock, make_ended=lambda: small_blocks(folder, in_memory))


async def end_runs(store: KeeperStore, number: int, *, failed: bool = False) -> list[UUID]:
    """Jobs whose runs have ended, and these runs."""
    make = Factory(await store.now(), seed=f"{number} {failed} {len(store.memory.state.jobs)} {store.position}")
    jobs = [make.job() for _ in range(number)]
    await store.jobs.add(jobs)
    executor = await store.executors.join(factories.executor(f"one {len(store.memory.state.executors)}"))
    claims = await store.attempts.claim(
        ClaimRequest(executor=executor, queues=("default",), labels=(), limit=number, ahead_seconds=0.0)
    )
    state = RunState.FAILED if failed else RunState.SUCCESS
    assert [] == list(await store.attempts.finish(executor, factories.outcomes(claims, state)))
    return [job.run_id for job in jobs if job.run_id is not None]


async def drop_runs(store: KeeperStore, runs: Sequence[UUID]) -> None:
    """Let ended runs go, one by one, and wait until the log has it."""
    for run_id in runs:
        store.memory.state.ended.drop([run_id])
    await store.now()


async def names_of(log: EffectLog, position: int) -> list[NamedBlock]:
    """The blocks that a checkpoint names."""
    return [named async for part in log.checkpoint(position) for named in names_in(part)]


async def rows_in(log: EffectLog, position: int) -> int:
    """The number of ended runs that a checkpoint has itself."""
    reader, rows, is_first = Reader(), 0, True
    async for part in log.checkpoint(position):
        if is_first:
            reader.entry(part)
        elif not names_in(part):
            found = reader.part(part)
            if not isinstance(found, int) and found[0] is not None and found[0].table.path == "ended":
                rows += len(list(found[1]))
        is_first = False
    return rows


async def wrong_in_log(store: KeeperStore, tenure: Tenure) -> dict[str, object]:
    """The tables in which the state that a log gives is not that of its store."""
    state = store.memory.state
    rebuilt = State(state.clock, state.near_seconds)
    (await contents_of(store.log, tenure)).fill(rebuilt)
    return {name: pair for name, pair in differences(state, rebuilt).items() if name != "lent"}
