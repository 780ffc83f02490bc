"""`SpilledJobs`: jobs of a keeper, of which those at rest are in a file of the process, but for the newest of them.

    its last run ends ──► memory ──► more than `near_most` such there: the oldest go to the file, at the end of a call
    read ───────────────► memory, then the file: a copy that refuses changes
    to be changed ──────► memory, and out of the file

As of ended runs (`spilled`), the file is no truth: log and checkpoint have all jobs. What moves between memory and
file changes nothing of the state, so no entry of the log tells of it.

Invariants: a job is in memory or in the file, never in both. A job that cannot be moved stays in memory. A record of a
job that is in the file refuses changes, also for who had it from memory.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from tickwise.adapters.statements import Statements
from tickwise.adapters.store.keeper.images import fields_reader, record_image, record_of, some_fields
from tickwise.adapters.store.keeper.spill_file import SpillLost, open_spill
from tickwise.adapters.store.keeper.tables import TimerImage
from tickwise.adapters.store.memory.ended.job_table import REST_FIELDS, JobTable, RestingJob, may_rest
from tickwise.adapters.store.memory.records import JobRecord, TimerRecord
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Lane

MOVED_AT_ONCE: Final = 200
READ_AT_ONCE: Final = 200
LISTED_MOST: Final = 50_000
"""Jobs at rest that a search reads before it is refused: about a second, in which nobody else is answered."""
LAYOUT: Final = (
    "resting_table",
    "resting_index_listed",
    "resting_index_created",
    "resting_index_lasting",
    "resting_index_keys",
)
HEAD: Final = (*REST_FIELDS, "key", "namespace", "lane", "listed", "created_at", "lasting")

statement: Final = Statements(Path(__file__).parent)
logger = structlog.get_logger("tickwise.store")

_set_class: Final = object.__setattr__


class SpilledJobs(JobTable):
    """Jobs by their ids, with at most about `near_most` of those at rest in memory."""

    def __init__(self, folder: Path, near_most: int) -> None:
        super().__init__()
        self._folder, self._near_most = folder, near_most
        self._room = near_most + max(1, min(MOVED_AT_ONCE, near_most))
        self._over: deque[JobRecord] = deque()
        """Jobs that may be at rest, the oldest first; some twice, and some that left memory since."""
        self._file: sqlite3.Connection | None = None
        self._number = 0
        """Of jobs in the file."""
        self._last = -1
        """No job in the file has a greater id."""
        self._places: dict[tuple[str, Lane], int] = {}
        self._at: list[tuple[str, Lane]] = []
        """Namespaces and lanes, by their numbers."""
        self._namespaces: dict[str, int] = {}
        self._in_place = Counter[int]()
        """The number of jobs in the file, by namespace and lane."""
        self._returned: list[set[UUID]] = []
        """For each checkpoint that reads pages just now: the jobs that came back into memory meanwhile."""
        self._read = fields_reader(JobRecord)
        self._head = some_fields(JobRecord, HEAD)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def forget(self) -> None:
        super().forget()
        self._over.clear()

    @property
    def in_memory(self) -> int:
        """The number of jobs in memory."""
        return len(self._near)

    # ------------------------------------------------------------------------------------------- a mapping

    def __getitem__(self, job_id: UUID) -> JobRecord:
        found = self.get(job_id)
        if found is None:
            raise KeyError(job_id)
        return found  # type: ignore[no-any-return]  # `get` gives jobs

    def get(self, job_id: UUID, default: Any = None) -> Any:
        found = self._near.get(job_id)
        if found is None:
            image = self._image(job_id)
            return default if image is None else self._resting(image)
        return found

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._near or (isinstance(job_id, UUID) and self._is_far(job_id))

    def __delitem__(self, job_id: UUID) -> None:
        is_near = job_id in self._near
        if not is_near and not self._is_far(job_id):
            raise KeyError(job_id)
        if self._goes is not None:
            self._goes(job_id)
        if is_near:
            _set_class(self._near.pop(job_id), "__class__", RestingJob)
        else:
            self._drop_far([job_id])

    def __iter__(self) -> Iterator[UUID]:
        near = list(self._near)
        for page in self._far_pages("resting_ids"):
            yield from (UUID(bytes=row[0]) for row in page)
        yield from near

    def __len__(self) -> int:
        return len(self._near) + self._number

    def values(self) -> Any:
        return (job for _, job in self.items())

    def items(self) -> Any:
        near = list(self._near.items())
        for page in self._far_pages("resting_images"):
            yield from ((UUID(bytes=job), self._resting(image)) for job, image in page)
        yield from near

    def clear(self) -> None:
        for job_id in list(self):
            del self[job_id]

    # ------------------------------------------------------------------------------------------- in memory

    def to_change(self, job_id: UUID) -> JobRecord | None:
        job = self._near.get(job_id)
        if job is None:
            image = self._image(job_id)
            if image is None:
                return None
            job = record_of(JobRecord, self._read(image))
            assert job is not None
            _set_class(job, "__class__", self._kind)
            self._drop_far([job_id])
            self._near[job_id] = job
            if job.key is not None:
                self.keyed[job.namespace, job.key] = job
            for returned in self._returned:
                returned.add(job_id)
        self.rest(job)
        return job

    def rest(self, job: JobRecord) -> None:
        if not job.recurring:
            self._over.append(job)

    def settle(self) -> None:
        if len(self._over) >= self._room:
            self._make_room()

    def _make_room(self) -> None:
        """Move the oldest jobs at rest to the file."""
        over, moved = self._over, list[JobRecord]()
        while len(over) > self._near_most and len(moved) < 10 * MOVED_AT_ONCE:
            job = over.popleft()
            if type(job) is not RestingJob and not job.runs and may_rest(job):
                _set_class(job, "__class__", RestingJob)
                moved.append(job)
        try:
            self._write([(job.job_id, job, record_image(JobRecord, job)) for job in moved])
        except (sqlite3.Error, OSError) as failure:
            # They stay in memory, as the oldest. It is tried again after some more.
            for job in moved:
                _set_class(job, "__class__", self._kind)
            over.extendleft(reversed(moved))
            self._room = len(over) + max(MOVED_AT_ONCE, len(over) // 4)
            _warn_not_moved(len(moved), failure)
            return
        for job in moved:
            del self._near[job.job_id]
            if job.key is not None:
                self.keyed.pop((job.namespace, job.key), None)
        self._room = max(self._near_most + max(1, min(MOVED_AT_ONCE, self._near_most)), len(self._over) + 1)

    # ------------------------------------------------------------------------------------------- at rest

    def resting_before(self, at: float) -> Sequence[UUID]:
        return [UUID(bytes=job) for (job,) in self._asked("resting_before", (at,))]

    def resting_since(self, since: UUID) -> Iterable[UUID]:
        lasting = {job for (job,) in self._asked("resting_lasting", ())}
        yield from (UUID(bytes=job) for job in lasting)
        below = UUID(int=since.int - 1).bytes if since.int else b""
        for page in self._far_pages("resting_ids", below):
            yield from (UUID(bytes=job) for (job,) in page if job not in lasting)

    def resting_of(self, namespace: str, limit: int) -> Sequence[UUID]:
        number = self._namespaces.get(namespace)
        return [] if number is None else [UUID(bytes=job) for (job,) in self._asked("resting_of", (number, limit))]

    def resting_in(self, namespace: str) -> int:
        return sum(jobs for place, jobs in self._in_place.items() if self._at[place][0] == namespace)

    # ------------------------------------------------------------------------------------------- both

    def by_key(self, namespace: str, key: str) -> JobRecord | None:
        found = self.keyed.get((namespace, key))
        number = self._namespaces.get(namespace)
        if found is not None or number is None:
            return found
        rows = self._asked("resting_keyed", (number, _key(key)))
        return self._resting(rows[0][0]) if rows else None

    def ids_after(self, job_id: UUID, limit: int) -> Sequence[UUID]:
        far = (UUID(bytes=job) for (job,) in self._asked("resting_ids", (job_id.bytes, limit)))
        return sorted([*super().ids_after(job_id, limit), *far])[:limit]

    def listed(self, namespace: str, before: UUID | None, *, resting: bool) -> Iterator[JobRecord]:
        near = super().listed(namespace, before, resting=resting)
        number = self._namespaces.get(namespace)
        if not resting or number is None:
            return near
        return heapq.merge(near, self._listed_far(number, before), key=lambda job: job.listed.int, reverse=True)

    def _listed_far(self, namespace: int, before: UUID | None) -> Iterator[JobRecord]:
        below, limit, read = b"\xff" * 17 if before is None else before.bytes, 20, 0  # pages are small mostly
        while rows := self._asked("resting_listed", (namespace, below, limit)):
            for _, _, image in rows:
                yield self._resting(image)
            below, limit, read = rows[-1][0], READ_AT_ONCE, read + len(rows)
            if read > LISTED_MOST:
                raise Invalid(
                    "nothing more was found within about a second: narrow the search, for example by ids, or by "
                    "a status of jobs that go on"
                )

    def lanes(self) -> set[tuple[str, Lane]]:
        return super().lanes() | {self._at[place] for place, jobs in self._in_place.items() if jobs}

    def pages(self, rows: int) -> Iterator[Sequence[tuple[Any, Any]]]:
        """See `JobTable`. Those of the file have their ids as bytes: a part of a checkpoint says the same of both."""
        returned: set[UUID] = set()
        self._returned.append(returned)
        try:
            yield from super().pages(rows)
            for page in self._far_pages("resting_images", rows=rows):
                yield [(job, msgspec.Raw(image)) for job, image in page]
            again = [(job_id, job) for job_id in returned if (job := self.get(job_id)) is not None]
            for begin in range(0, len(again), rows):
                yield again[begin : begin + rows]
        finally:
            self._returned = [each for each in self._returned if each is not returned]

    # ------------------------------------------------------------------------------------------- out of a log

    def take(self, images: Iterable[tuple[UUID, msgspec.Raw]]) -> None:
        """Take jobs of a checkpoint by the images of this release. Those that may rest go to the file as they are."""
        far = []
        for job_id, raw in images:
            self._forget_one(job_id)
            head = self._head(raw)
            if may_rest(head):
                far.append((job_id, head, bytes(raw)))
            else:
                self.lay(job_id, self._read(raw))
        try:
            self._write(far)
        except (sqlite3.Error, OSError) as failure:
            _warn_not_moved(len(far), failure)
            for job_id, _, image in far:
                self.lay(job_id, self._read(image))

    def lay(self, job_id: UUID, values: dict[str, Any]) -> None:
        """Take a job as the log has it, at the end of the table."""
        self._forget_one(job_id)
        image: TimerImage | None = values.pop("timer", None)
        job = self._near[job_id] = record_of(JobRecord, values)
        self._lay_timer(job, image)

    def lay_fields(self, job_id: UUID, values: dict[str, Any]) -> bool:
        """Take fields of a job as the log has them; False: there is no such job."""
        job = self.to_change(job_id)
        if job is None:
            return False
        for name, value in values.items():
            if name == "timer":
                self._lay_timer(job, value)
            else:
                setattr(job, name, value)
        self.rest(job)
        return True

    def _lay_timer(self, job: JobRecord, image: TimerImage | None) -> None:
        job.timer = image and TimerRecord(
            job=job, pending=image.pending, run_id=image.run_id, zone_data=image.zone_data, place=image.place
        )
        self.rest(job)

    def _forget_one(self, job_id: UUID) -> None:
        if (job := self._near.pop(job_id, None)) is not None:
            _set_class(job, "__class__", RestingJob)
        elif self._is_far(job_id):
            self._drop_far([job_id])

    # ------------------------------------------------------------------------------------------- the file

    def _resting(self, image: bytes) -> JobRecord:
        job: JobRecord = record_of(JobRecord, self._read(image))
        _set_class(job, "__class__", RestingJob)
        return job

    def _write(self, jobs: Sequence[tuple[UUID, Any, bytes]]) -> None:
        """Put jobs into the file: id, record or head, image. They are not there."""
        if not jobs:
            return
        rows = []
        for job_id, job, image in jobs:
            where = job.namespace, job.lane
            place = self._places.get(where)
            if place is None:
                place = self._places[where] = len(self._at)
                self._at.append(where)
            namespace = self._namespaces.setdefault(job.namespace, len(self._namespaces))
            key = job_id.bytes
            listed = key if job.listed == job_id else job.listed.bytes
            rows.append((key, place, namespace, listed, job.created_at, job.lasting, _key(job.key), image))
        file = self._file
        if file is None:
            layout = [statement(each) for each in LAYOUT]
            file = self._file = open_spill(self._folder, layout)
        with file:
            file.execute("BEGIN")
            file.executemany(statement("resting_add"), rows)
        self._in_place.update(row[1] for row in rows)
        self._number += len(rows)
        self._last = max(self._last, int.from_bytes(max(row[0] for row in rows)))

    def _drop_far(self, job_ids: Iterable[UUID]) -> None:
        for job_id in job_ids:
            for (place,) in self._asked("resting_drop", (job_id.bytes,)):
                self._in_place[place] -= 1
                self._number -= 1

    def _image(self, job_id: UUID) -> bytes | None:
        found = self._asked("resting_image", (job_id.bytes,)) if job_id.int <= self._last else []
        return found[0][0] if found else None

    def _is_far(self, job_id: UUID) -> bool:
        return job_id.int <= self._last and bool(self._asked("resting_known", (job_id.bytes,)))

    def _far_pages(self, name: str, after: bytes = b"", *, rows: int = READ_AT_ONCE) -> Iterator[list[Any]]:
        while page := self._asked(name, (after, rows)):
            yield page
            after = page[-1][0]

    def _asked(self, name: str, given: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        if self._file is None:
            if self._number:
                raise SpillLost("the file of jobs at rest is closed")
            return []
        try:
            return self._file.execute(statement(name), given).fetchall()
        except sqlite3.Error as failure:
            raise SpillLost(f"the file of jobs at rest in {self._folder} cannot be used: {failure}") from failure


def _key(key: str | None) -> bytes | None:
    """A key as the file has it: as images have texts."""
    return None if key is None else key.encode("utf-8", "replace")


def _warn_not_moved(jobs: int, failure: Exception) -> None:
    logger.warning("jobs_not_moved", jobs=jobs, detail=str(failure))
