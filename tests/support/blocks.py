"""Stores whose ended runs are in small blocks, and logs that die at a step, for the tests of blocks."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.effects import contents_of, differences
from tickwise.adapters.store.keeper.block_places import BlockPlaces
from tickwise.adapters.store.keeper.blocks import NamedBlock, names_in
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.images import Reader
from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Bug, TickwiseError
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
            reader.head(part)
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


class Died(Bug):
    """The process that has the log is no more."""


class Death:
    """Tells when: before or after so many steps from the moment on that it is armed."""

    def __init__(self, steps: int, *, after: bool) -> None:
        self.left, self.after, self.is_armed = steps, after, False

    async def around(self, step: Callable[[], Awaitable[Any]]) -> Any:
        """Carry out a step of a log, if it comes to that."""
        if self.is_armed:
            self.left -= 1
        if self.left < 0 or (self.left == 0 and not self.after):
            raise Died("killed")
        found = await step()
        if self.left == 0:
            raise Died("killed")
        return found


class DyingFileLog(FileLog):
    """A log in a folder, of a process that dies."""

    def __init__(self, folder: Path, death: Death) -> None:
        super().__init__(folder, sync=lambda _file: None)
        self.death = death

    async def _apart(self, work: Callable[[], Any]) -> Any:
        return await self.death.around(partial(super()._apart, work))

    async def bury(self) -> None:
        """As the end of the process: its lock goes."""
        await super()._apart(self._release)


async def lived(store: KeeperStore, death: Death) -> tuple[bool, set[UUID], set[UUID]]:
    """A life with two checkpoints, between them a run that goes, and more than a block that end. Whether it came to its
    end; the runs that must be there after it, and those of which nobody was told whether they go."""
    there = {*await end_runs(store, 2 * BLOCK_RUNS + 1), *await end_runs(store, BLOCK_RUNS, failed=True)}
    open_ones: set[UUID] = set()
    death.is_armed = True
    try:
        await store.keep_checkpoint()
        open_ones = {min(there)}
        there -= open_ones
        await drop_runs(store, list(open_ones))
        open_ones = set()
        await store.keep_checkpoint()
    except TickwiseError:
        return False, there, open_ones
    return True, there, open_ones


async def judge_next_owner(store: KeeperStore, there: set[UUID], open_ones: set[UUID]) -> None:
    """Check the promises to the next owner of the log: nothing lost, nothing back, no block that is left over."""
    await store.open()
    assert there <= set(store.memory.state.ended) <= there | open_ones
    more = await end_runs(store, BLOCK_RUNS)
    await store.keep_checkpoint()
    tenure = Tenure(0, store.position, store.position)
    assert {} == await wrong_in_log(store, tenure)
    assert {each.name for each in await names_of(store.log, store.position)} == set(await store.log.blocks())
    assert there | set(more) <= set(store.memory.state.ended)
