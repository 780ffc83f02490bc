"""`EndedRuns`: the runs that have their final state, by id, by job, and the newest first.

Duties read them through this class alone, so that a store may keep the older ones elsewhere than in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.adapters.store.memory.ended.job_table import JobTable
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import RunQuery

_ABOVE_ALL: Final = 1 << 128
"""A number that no id has."""


class Within(NamedTuple):
    """Bounds of ids and of due times."""

    before: UUID | None = None
    """A lesser id …"""
    after: UUID | None = None
    """… and a greater one."""
    due_after: float = -math.inf
    """Due from this instant on …"""
    due_before: float = math.inf
    """… and before that one."""

    @classmethod
    def of(cls, query: RunQuery) -> Within:
        """The bounds of a search."""
        due_after = -math.inf if query.due_after is None else query.due_after
        return cls(query.before, query.after, due_after, math.inf if query.due_before is None else query.due_before)

    def is_due(self, due: float) -> bool:
        """Check whether a due time is within."""
        return self.due_after <= due < self.due_before


ALL_RUNS: Final = Within()


class EndedRuns(MutableMapping[UUID, EndedRun]):
    """Ended runs by their ids, in the order in which they came. All of them are in memory."""

    def __init__(self) -> None:
        self._near: dict[UUID, EndedRun] = {}
        """Those in memory."""
        self._near_of: dict[UUID, dict[UUID, EndedRun]] = {}
        """Those in memory, by job."""
        self._came: Callable[[UUID], None] | None = None
        self._goes: Callable[[UUID], None] | None = None

    def note_by(self, came: Callable[[UUID], None], goes: Callable[[UUID], None]) -> None:
        """Tell of each run that comes, and of each that goes, from now on."""
        self._came, self._goes = came, goes

    def make_jobs(self) -> JobTable:
        """An empty table of jobs for a store that keeps ended runs as this does; it is closed with this."""
        return JobTable()

    def close(self) -> None:
        """Give back what is held outside of memory."""

    def forget(self) -> None:
        """Let go of what is in memory, once nobody uses it."""
        self._near.clear()
        self._near_of.clear()

    @property
    def in_memory(self) -> int:
        """The number of those in memory."""
        return len(self._near)

    # ------------------------------------------------------------------------------------------- a mapping

    def __getitem__(self, run_id: UUID) -> EndedRun:
        return self._near[run_id]

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._near

    def __setitem__(self, run_id: UUID, ended: EndedRun) -> None:
        if self._came is not None:
            self._came(run_id)
        self._put(run_id, ended)

    def __delitem__(self, run_id: UUID) -> None:
        self.drop([run_id])

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._near)

    def __len__(self) -> int:
        return len(self._near)

    def values(self) -> Any:
        return self._near.values()

    def items(self) -> Any:
        return self._near.items()

    def _put(self, run_id: UUID, ended: EndedRun) -> None:
        self._near[run_id] = ended
        self._near_of.setdefault(ended.row.job_id, {})[run_id] = ended

    def _take_out(self, run_id: UUID) -> EndedRun:
        ended = self._near.pop(run_id)
        mine = self._near_of[ended.row.job_id]
        del mine[run_id]
        if not mine:
            del self._near_of[ended.row.job_id]
        return ended

    # ------------------------------------------------------------------------------------------- reading

    def newest(
        self,
        job_id: UUID | None = None,
        *,
        namespace: str | None = None,
        failed: bool = False,
        within: Within = ALL_RUNS,
        is_search: bool = False,  # noqa: ARG002  # all of it is in memory
    ) -> Iterator[EndedRun]:
        """The ended runs, those with the greatest id first: of this job, of this namespace, those that FAILED, within
        these bounds. They are read as they are asked for; a run that comes or goes meanwhile may be missing or not.

        `is_search`: raises `Invalid` where that would take too long, and says what narrows it."""
        near = self._near if job_id is None else self._near_of.get(job_id, {})
        low = -1 if within.after is None else within.after.int
        high = _ABOVE_ALL if within.before is None else within.before.int
        # Numbers alone: as many tuples would be a walk of the garbage collector for each page.
        numbers = [number for run_id in near if low < (number := run_id.int) < high]
        numbers.sort(reverse=True)  # nearly sorted, as runs end by their time
        for number in numbers:
            ended = near.get(UUID(int=number))
            if ended is None or namespace not in (None, ended.row.namespace) or not within.is_due(ended.row.due_at):
                continue
            if not failed or ended.row.state is RunState.FAILED:
                yield ended

    def ids_after(self, run_id: UUID) -> Iterable[UUID]:
        """The ids from this one on, in any order."""
        return [each for each in self._near if each >= run_id]

    def has_any(self, job_id: UUID) -> bool:
        """Check whether a run of this job is on record."""
        return job_id in self._near_of

    def newest_failed(self, job_id: UUID) -> bool:
        """Check whether the job's newest run on record FAILED."""
        newest = next(self.newest(job_id), None)
        return newest is not None and newest.row.state is RunState.FAILED

    def number_of(self, namespace: str) -> int:
        """The number of ended runs of a namespace."""
        return sum(ended.row.namespace == namespace for ended in self._near.values())

    def ended_before(self, at: float, *, failed_at: float) -> list[UUID]:
        """The runs that ended before `at`; of those that FAILED: before `failed_at`."""
        return [
            run_id
            for run_id, ended in self._near.items()
            if (ended.row.ended_at or 0.0) < (failed_at if ended.row.state is RunState.FAILED else at)
        ]

    def pages(self, rows: int) -> Iterator[Sequence[tuple[UUID, Any]]]:
        """All runs with their ids that a checkpoint has to have as rows, up to so many at a time, while runs come and
        go between the pages: those that are there from the begin to the end are in them. A run may come as the bytes of
        its image."""
        ids = list(self)
        for begin in range(0, len(ids), rows):
            yield [(each, found) for each in ids[begin : begin + rows] if (found := self.get(each)) is not None]

    # ------------------------------------------------------------------------------------------- going

    def drop(self, run_ids: Iterable[UUID], *, erase: bool = False) -> None:  # noqa: ARG002  # all of it is in memory
        """Drop these runs. `erase`: no copy that is kept elsewhere is to wait until others are dropped, too. Raises
        `KeyError` for one that is not there."""
        for run_id in run_ids:
            if run_id not in self._near:
                raise KeyError(run_id)
            if self._goes is not None:
                self._goes(run_id)
            self._take_out(run_id)
