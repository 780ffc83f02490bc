"""The oracle of a store's log: the state that is rebuilt from images is the one that made them, all of it.

`described` gives a state in plain values, with its indexes. `RecordedStore` is a memory store that, after each call,
lays the call's images over those of before, rebuilds the state and compares. `WatchedStore` does so over a folder.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from tests.support.readable import ProjectedRows
from tickwise.adapters.store.keeper.file_log import FileLog
from tickwise.adapters.store.keeper.images import CODECS, entry_body, head_part, table_part
from tickwise.adapters.store.keeper.log import EffectLog, Tenure
from tickwise.adapters.store.keeper.rebuild import Contents
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.adapters.store.keeper.tables import TABLES, VALUES
from tickwise.adapters.store.keeper.tracking import EffectRecorder
from tickwise.adapters.store.keeper.wire.forms import READING
from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.state import State
from tickwise.ports.clock import Clock
from tickwise.ports.store.wrapping import Call, WrappedStore

ROWS_A_CALL = 100
"""A state of fewer rows is compared after each call; one of ten times as many after each hundredth."""
SEEN_EFFECTS: defaultdict[str, list[bool]] = defaultdict(list)
"""Of the calls of this process on a `WatchedStore`, by their names: whether each changed something."""
CALLS_EACH = 200
"""Of as many calls each is compared; of as many more every second one, and so on."""


def described(state: State) -> dict[str, Any]:
    """All that is kept of a state and all that follows from it, in plain values and in its order."""
    found: dict[str, Any] = {}
    for table in TABLES:
        content: Any = state
        for name in table.path.split("."):
            content = getattr(content, name)
        codec = CODECS.get(table.value)
        rows = [(key, value if codec is None else codec.whole(value)) for key, value in content.items()]
        if isinstance(content, EndedRuns | JobTable):
            rows.sort(key=itemgetter(0))  # where they are kept says nothing of their order
        found[table.path] = rows
    found |= {each.name: each.get(state) for each in VALUES}
    return found | _indexes(state)


def _indexes(state: State) -> dict[str, Any]:
    return {
        "job_keys": {
            (job.namespace, job.key): found.job_id
            for job in state.jobs.values()
            if job.key is not None and (found := state.jobs.by_key(job.namespace, job.key)) is not None
        },
        "keys without a job": [key for key, job in state.jobs.keyed.items() if state.jobs.get(job.job_id) is not job],
        "one_time": [(at, place, timer.job.job_id) for at, place, timer in state.one_time.waiting()],
        "decided": [(at, place, timer.job.job_id) for at, place, timer in state.decided.waiting()],
        "lanes": {
            name: waiting
            for name, queue in state.lanes.items()
            if (waiting := [(at, place, run.run_id) for at, place, run in queue.waiting()])
        },
        "held": {number: list(each.held) for number, each in state.executors.items()},
        "runs of jobs": {job_id: list(job.runs) for job_id, job in state.jobs.items()},
        "ended of jobs": {job_id: [each.row.run_id for each in state.ended.newest(job_id)] for job_id in state.jobs},
        "slots": state.slots.contents(),
        "known_of": +state.known_of,
        "rules_of_kind": +state.rules_of_kind,
        "unsealed": {name: [row.entry for row in rows] for name, rows in state.audit.unsealed.items()},
        "chains": {name: seal.seq for name, seal in state.audit.last_seals.items()},
    }


def differences(live: State, rebuilt: State) -> dict[str, tuple[Any, Any]]:
    """The tables and fields that differ, by their names."""
    mine, theirs = described(live), described(rebuilt)
    theirs["lent"] = mine["lent"]  # of batches, which end with their process
    apart = [name for name in mine if mine[name] != theirs[name]]
    found = {name: (_plain(mine[name]), _plain(theirs[name])) for name in apart}
    return {name: pair for name, pair in found.items() if pair[0] != pair[1]}


def _plain(value: Any) -> Any:
    """A value without the difference of lists and tuples, and of texts that no store can keep as they are."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(map(_plain, value))
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def checkpoint_of(recorder: EffectRecorder) -> list[bytes]:
    """All parts of a checkpoint."""
    values = {each.name: each.get(recorder.state) for each in VALUES}
    tables = (table_part(each.kind, list(each.content.items())) for each in recorder.tables.values())
    return [head_part(values), *tables]


class RecordedStore(WrappedStore):
    """A memory store whose log is a list: see the module."""

    def __init__(self, clock: Clock) -> None:
        self.memory = MemoryStore(clock)
        self.recorder = EffectRecorder(self.memory.state)
        self.watched = True
        """False: no comparison any more, since the test damaged what no call can."""
        self.calls = Counter[str]()
        self._left = 0
        self._contents = Contents()
        for number, part in enumerate(checkpoint_of(self.recorder)):
            self._contents.read_part(part, is_first=number == 0)
        super().__init__(self.memory)

    def around(self, name: str, call: Call) -> Call:
        async def recorded(*given: Any, **named: Any) -> Any:
            try:
                return await call(*given, **named)
            finally:
                self.calls[name] += 1
                self.compare(name)

        return recorded

    def compare(self, name: str = "", *, at_end: bool = False) -> None:
        """Compare the state that the log gives with the live one."""
        changes, values = self.recorder.take()
        if not self.watched:
            return
        if changes or values:
            self._contents.read_entry(self.calls.total(), entry_body(changes, values))
        if self._left > 0 and not at_end:
            self._left -= 1
            return
        # A few thousand rows are compared now and then, and at the end of the test.
        self._left = sum(map(len, self._contents.tables.values())) // ROWS_A_CALL
        state = self.memory.state
        rebuilt = State(state.clock, state.near_seconds)
        self._contents.fill(rebuilt)
        found = differences(state, rebuilt)
        assert not found, f"after {name} the log gives another state: {found}"
        assert rebuilt.tickets.last <= state.tickets.last


class WatchedLog(FileLog):
    """A log in a folder that also keeps what its entries give, laid over one another."""

    contents: Contents
    rows: ProjectedRows | None = None
    """The readable tables that the entries give."""

    async def acquire(self, owner: str, endpoint: str) -> Tenure:
        tenure = await super().acquire(owner, endpoint)
        self.contents = await contents_of(self, tenure)
        self.rows = self.rows or ProjectedRows()
        await self.rows.begin(self, tenure)
        return tenure

    async def append(self, body: bytes) -> int:
        position = await super().append(body)
        self.contents.read_entry(position, body)
        assert self.rows is not None
        self.rows.take(position, body)
        return position


async def contents_of(log: EffectLog, tenure: Tenure, ended: EndedRuns | None = None) -> Contents:
    """The state that checkpoint and entries of a log give. `ended`: takes the ended runs, as where a store opens."""
    contents, is_first = Contents(ended), True
    if tenure.checkpoint:
        async for part in log.checkpoint(tenure.checkpoint):
            for named in contents.read_part(part, is_first=is_first):
                contents.read_block(named, await log.block(named.name))
            is_first = False
    async for entry in log.entries(tenure.checkpoint):
        contents.read_entry(entry.position, entry.body)
    return contents


class WatchedStore(KeeperStore):
    """A store over a log in a folder. After each call the state is rebuilt from the entries and compared with the live
    one; `check_log` does so from the bytes on disk, and from those of a checkpoint that is kept then."""

    CHECKPOINT_CALLS = 7
    """After so many calls a checkpoint is kept; the next one after twice as many, and so on."""

    def __init__(self, folder: Path, clock: Clock, *, make_ended: Callable[[], EndedRuns] = EndedRuns) -> None:
        self.folder = folder
        self.watched = True
        """False: no comparison any more, since the test damaged what no call can."""
        self._calls_made = self._left = 0
        self.is_touched = False
        """True once the test changed the state past all calls: the next effects are of no call."""
        self._next_checkpoint = self.CHECKPOINT_CALLS
        self.watched_log = WatchedLog(folder, sync=lambda _file: None)
        super().__init__(self.watched_log, clock, make_ended=make_ended)

    def _effects(self, name: str) -> bytes | None:
        body = super()._effects(name)
        if self.is_touched:
            self.is_touched = body is None
        elif name:
            SEEN_EFFECTS[name].append(body is not None)
            assert body is None or name not in READING, f"{name} is in READING, and changes something"
        return body

    async def _settled(self, name: str = "") -> None:
        before = self.position
        await super()._settled(name)
        self._calls_made += 1
        if self._calls_made >= self._next_checkpoint and not self._keeping.locked():
            self._next_checkpoint *= 2
            await self.keep_checkpoint()
        if self.position == before:
            return  # a read; were it none after all, the next write would show it
        self._left -= 1
        if self.watched and self._left < 0 and self._flying is None and not self._open_group.bodies:
            # Of many rows or calls some are compared, and what is on disk at the end of the test.
            rows = sum(map(len, self.watched_log.contents.tables.values()))
            self._left = (rows // ROWS_A_CALL) ** 2 + self._calls_made // CALLS_EACH
            self._compare(self.watched_log.contents)

    async def check_log(self) -> None:
        """Rebuild the state from the files, and compare."""
        if self.watched and self._tasks:
            await super()._settled()
            await self._check_files()
            if self.memory.state.ended:
                await self.keep_checkpoint()
                await self._check_files()

    async def _check_files(self) -> None:
        async with self._keeping:  # a checkpoint that is under way takes the one before it away
            names = [each.stem.split("-")[1] for each in self.folder.glob("checkpoint-*.tw")]
            tenure = Tenure(0, max(map(int, names), default=0), self.position)
            self._compare(await contents_of(self.log, tenure))
            opened = await contents_of(self.log, tenure, self._make_ended())
            self._compare(opened)
            opened.close()
            await self._compare_rows(tenure)

    async def _compare_rows(self, tenure: Tenure) -> None:
        """Compare the readable tables: written entry by entry, and made anew from checkpoint and entries."""
        assert self.watched_log.rows is not None
        state = self.memory.state
        wrong = self.watched_log.rows.wrong(state)
        assert not wrong, f"the readable tables are other than the state: {wrong}"
        anew = ProjectedRows()
        await anew.begin(self.log, tenure)
        wrong = anew.wrong(state)
        assert not wrong, f"readable tables that are made anew are other than the state: {wrong}"

    def _compare(self, contents: Contents) -> None:
        state = self.memory.state
        rebuilt = State(state.clock, state.near_seconds)
        contents.fill(rebuilt)
        found = differences(state, rebuilt)
        assert not found, f"the log gives another state: {found}"
