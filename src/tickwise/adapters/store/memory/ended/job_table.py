"""`JobTable`: the jobs by id. A store may keep those that are at rest elsewhere than in memory.

A job is at rest when it is over and nothing leads to it but its id and its key: it ran once, has no timer and no active
run, and names no secret and no calendar. Only a person's call brings it back.

Invariant: a job that is read may be a copy that refuses changes (`RestingJob`); who changes a job has it from
`to_change`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.store.memory.records import JobRecord
from tickwise.domain.errors import Bug
from tickwise.domain.model import Lane
from tickwise.domain.schedule import ScheduleType
from tickwise.ports.store import JobAction


class RestingJob(JobRecord):
    """A job as it was read from outside of memory. A change of it would be lost, so it is refused."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        raise Bug(f"a job at rest was changed ({name}): take it by `to_change`")


REST_FIELDS: Final = ("recurring", "timer", "secrets", "calendars", "standing", "schedule_type")
"""The fields that tell whether a job may rest, beside its active runs."""


def may_rest(job: Any) -> bool:
    """Check whether a job is over, but for its active runs. `job` has the `REST_FIELDS`."""
    return not (
        job.recurring
        or job.timer
        or job.secrets
        or job.calendars
        or job.standing is JobAction.PAUSE
        or job.schedule_type == ScheduleType.ON_DEMAND
    )


class JobTable(MutableMapping[UUID, JobRecord]):
    """Jobs by their ids. All of them are in memory."""

    def __init__(self) -> None:
        self._near: dict[UUID, JobRecord] = {}
        """Those in memory."""
        self.keyed: dict[tuple[str, str], JobRecord] = {}
        """Those in memory that have a key, by namespace and key."""
        self._came: Callable[[UUID], None] | None = None
        self._goes: Callable[[UUID], None] | None = None
        self._kind: type = JobRecord
        """The class of a record that comes back into memory."""

    def note_by(self, came: Callable[[UUID], None], goes: Callable[[UUID], None], kind: type) -> None:
        """Tell of each job that comes, and of each that goes, from now on; `kind`: records of it tell of changes."""
        self._came, self._goes, self._kind = came, goes, kind

    def close(self) -> None:
        """Give back what is held outside of memory."""

    def forget(self) -> None:
        """Let go of what is in memory, once nobody uses it."""
        self._near.clear()
        self.keyed.clear()

    # ------------------------------------------------------------------------------------------- a mapping

    def __getitem__(self, job_id: UUID) -> JobRecord:
        return self._near[job_id]

    def get(self, job_id: UUID, default: Any = None) -> Any:
        return self._near.get(job_id, default)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._near

    def __setitem__(self, job_id: UUID, job: JobRecord) -> None:
        """Take a new job."""
        if self._came is not None:
            self._came(job_id)
        self._near[job_id] = job

    def __delitem__(self, job_id: UUID) -> None:
        if job_id not in self:
            raise KeyError(job_id)
        if self._goes is not None:
            self._goes(job_id)
        del self._near[job_id]

    def __iter__(self) -> Iterator[UUID]:
        return iter(self._near)

    def __len__(self) -> int:
        return len(self._near)

    def values(self) -> Any:
        return self._near.values()

    def items(self) -> Any:
        return self._near.items()

    # ------------------------------------------------------------------------------------------- in memory

    @property
    def awake(self) -> Collection[JobRecord]:
        """The jobs in memory: all that are not at rest, and some that are."""
        return self._near.values()

    def to_change(self, job_id: UUID) -> JobRecord | None:
        """A job in memory, where it stays until the end of the call."""
        return self._near.get(job_id)

    def rest(self, job: JobRecord) -> None:
        """This job may be over now: later it may leave memory."""

    def settle(self) -> None:
        """Let jobs at rest leave memory. Nobody has a record of the table now."""

    # ------------------------------------------------------------------------------------------- at rest

    def resting_before(self, at: float) -> Sequence[UUID]:  # noqa: ARG002  # all of it is in memory
        """The jobs outside of memory that were made before `at`."""
        return ()

    def resting_since(self, since: UUID) -> Iterable[UUID]:  # noqa: ARG002  # all of it is in memory
        """The jobs outside of memory that last, or whose id is not less."""
        return ()

    def resting_of(self, namespace: str, limit: int) -> Sequence[UUID]:  # noqa: ARG002  # all of it is in memory
        """Up to so many jobs of a namespace that are outside of memory."""
        return ()

    def resting_in(self, namespace: str) -> int:  # noqa: ARG002  # all of it is in memory
        """The number of jobs of a namespace outside of memory."""
        return 0

    # ------------------------------------------------------------------------------------------- both

    def by_key(self, namespace: str, key: str) -> JobRecord | None:
        """The job that has a key, to be read."""
        return self.keyed.get((namespace, key))

    def ids_after(self, job_id: UUID, limit: int) -> Sequence[UUID]:
        """Up to so many ids above this one, the least first."""
        return sorted(each for each in self._near if each > job_id)[:limit]

    def listed(self, namespace: str, before: UUID | None, *, resting: bool) -> Iterator[JobRecord]:  # noqa: ARG002  # as above
        """The jobs of a namespace, those first that come first in a list, from below a place on. Without `resting`
        those outside of memory may be missing. Raises `Invalid` where that would take too long."""
        found = [
            job for job in self._near.values() if job.namespace == namespace and (before is None or job.listed < before)
        ]
        return iter(sorted(found, key=lambda job: job.listed.int, reverse=True))

    def lanes(self) -> set[tuple[str, Lane]]:
        """The namespaces and lanes that jobs have."""
        return {(job.namespace, job.lane) for job in self._near.values()}

    def pages(self, rows: int) -> Iterator[Sequence[tuple[Any, Any]]]:
        """All jobs with their ids, up to so many at a time, while jobs come and go between the pages: those that are
        there from the begin to the end are in them, some twice. A job may come as its image, with its id as bytes."""
        ids = list(self._near)
        for begin in range(0, len(ids), rows):
            yield [(each, found) for each in ids[begin : begin + rows] if (found := self.get(each)) is not None]
