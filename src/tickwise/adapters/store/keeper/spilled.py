"""`SpilledRuns`: ended runs of a keeper, of which the newest are in memory and the others in a file of the process.

    a run ends ──► memory ──► more than `near_most` or `near_bytes` there: the oldest go to the file ──► blocks
    read ────────► memory, then the file, by id, by job and by the end: indexes of SQLite

The file is no truth: log and checkpoint are, as of all other parts of the state. It has no name, so it ends with the
process, however that ends, and each opening of the log makes another one. So nothing of it is synced, and no crash can
leave it ahead of the log or behind it. A checkpoint has the runs in memory and names blocks of those in the file
(`history`): `places` knows which run is in which block.

Invariants: a run is in memory or in the file, never in both. If a run cannot be moved (the disk is full) it stays in
memory. If the file cannot be read, nothing is answered by this state any more (`SpillLost`).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from sys import getsizeof
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from tickwise.adapters.statements import Statements
from tickwise.adapters.store.keeper.block_places import BlockPlaces, PlacedBlock
from tickwise.adapters.store.keeper.blocks import BlockRun, NamedBlock, ended_of
from tickwise.adapters.store.keeper.images import value_image
from tickwise.adapters.store.keeper.log import BlockName
from tickwise.adapters.store.keeper.spill_file import SpillLost, open_spill
from tickwise.adapters.store.keeper.spilled_jobs import SpilledJobs
from tickwise.adapters.store.memory.ended import ALL_RUNS, EndedRuns, Within
from tickwise.adapters.store.memory.records import EndedRun
from tickwise.domain.errors import Invalid, Misconfigured
from tickwise.domain.lifecycle import RunState

MOVED_AT_ONCE: Final = 200
"""Runs that one call moves: about 3 ms."""
NEAR_BYTES: Final = 32 << 20
"""Of the runs in memory, with their texts: 10,000 usual ones have a third of it, and a result may have 1 MiB."""
MOVED_BYTES: Final = 1 << 20
"""The least that is moved where there are too many bytes: a few ms."""
RUN_BYTES: Final = 1_000
"""The memory of a run beside its texts."""
READ_AT_ONCE: Final = 200
STEPS_AT_ONCE: Final = 10_000
STEPS_MOST: Final = 100_000_000
"""Of SQLite's virtual machine: a search that takes more is refused, since all others wait for it. About a second."""
STEPS_OF_RUN: Final = 150
"""As many steps as what else it costs to read a run."""
LAYOUT: Final = "spilled_table", "spilled_index_of_jobs", "spilled_index_over", "spilled_index_failed"

statement: Final = Statements(Path(__file__).parent)
logger = structlog.get_logger("tickwise.store")


class SpilledRuns(EndedRuns):
    """Ended runs by their ids, the newest `near_most` in memory, and of these no more than about `near_bytes`. The file
    is made in `folder` when it is needed."""

    def __init__(
        self, folder: Path, near_most: int, places: BlockPlaces | None = None, *, near_bytes: int = NEAR_BYTES
    ) -> None:
        super().__init__()
        self.places = places or BlockPlaces()
        self._folder, self._near_most = folder, near_most
        self._moved_at_once = max(1, min(MOVED_AT_ONCE, near_most))
        self._room = near_most + self._moved_at_once
        """The number of runs in memory from which some are moved."""
        self._most_bytes = self._room_bytes = near_bytes
        self._moved_bytes = min(MOVED_BYTES, near_bytes // 4)
        self._bytes = 0
        """Of the runs in memory."""
        self._file: sqlite3.Connection | None = None
        self._far: Counter[str] = Counter()
        """The number of runs in the file, by namespace."""
        self._far_number = 0
        self._far_last = b""
        """No run in the file has a greater id."""
        self._decode = msgspec.msgpack.Decoder(EndedRun).decode
        self._jobs: SpilledJobs | None = None

    def make_jobs(self) -> SpilledJobs:
        self._jobs = SpilledJobs(self._folder, self._near_most)
        return self._jobs

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._jobs is not None:
            self._jobs.close()

    # ------------------------------------------------------------------------------------------- a mapping

    def __getitem__(self, run_id: UUID) -> EndedRun:
        found = self._near.get(run_id)
        if found is None:
            found = self._far_run(run_id)
        if found is None:
            raise KeyError(run_id)
        return found

    def get(self, run_id: UUID, default: Any = None) -> Any:
        found = self._near.get(run_id)
        if found is None:
            found = self._far_run(run_id)
        return default if found is None else found

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._near or (isinstance(run_id, UUID) and self._is_far(run_id))

    def __iter__(self) -> Iterator[UUID]:
        yield from self._far_ids()
        yield from list(self._near)

    def __len__(self) -> int:
        return len(self._near) + self._far_number

    def values(self) -> Any:
        return (ended for _, ended in self.items())

    def items(self) -> Any:
        near = list(self._near.items())
        for page in self._far_pages("spilled_images", READ_AT_ONCE):
            yield from ((UUID(bytes=run), self._decode(image)) for run, image in page)
        yield from near

    def _put(self, run_id: UUID, ended: EndedRun) -> None:
        if self._is_far(run_id):
            self._drop_far([run_id])
        self._put_near(run_id, ended)
        if len(self._near) >= self._room or self._bytes > self._room_bytes:
            self._make_room()

    def _put_near(self, run_id: UUID, ended: EndedRun) -> None:
        before = self._near.get(run_id)
        self._bytes += memory_of(ended) - (0 if before is None else memory_of(before))
        super()._put(run_id, ended)

    def _take_out(self, run_id: UUID) -> EndedRun:
        ended = super()._take_out(run_id)
        self._bytes -= memory_of(ended)
        return ended

    def forget(self) -> None:
        super().forget()
        self._bytes = 0

    def clear(self) -> None:
        self.drop(list(self))

    # ------------------------------------------------------------------------------------------- reading

    def newest(
        self,
        job_id: UUID | None = None,
        *,
        namespace: str | None = None,
        failed: bool = False,
        within: Within = ALL_RUNS,
        is_search: bool = False,
    ) -> Iterator[EndedRun]:
        near = super().newest(job_id, namespace=namespace, failed=failed, within=within)
        far = self._newest_far(job_id, namespace, within, failed=failed, is_search=is_search)
        return _merged(near, far, self._far_last)

    def ids_after(self, run_id: UUID) -> Iterable[UUID]:
        yield from super().ids_after(run_id)
        yield from self._far_ids(run_id.bytes)

    def has_any(self, job_id: UUID) -> bool:
        return super().has_any(job_id) or self._last_far(job_id) is not None

    def newest_failed(self, job_id: UUID) -> bool:
        far, near = self._last_far(job_id), max(self._near_of.get(job_id, ()), default=None)
        if near is not None and (far is None or near.bytes > far[0]):
            return self._near[near].row.state is RunState.FAILED
        return far is not None and bool(far[1])

    def number_of(self, namespace: str) -> int:
        return super().number_of(namespace) + self._far[namespace]

    def ended_before(self, at: float, *, failed_at: float) -> list[UUID]:
        found = super().ended_before(at, failed_at=failed_at)
        for failed, before in ((0, at), (1, failed_at)):
            over = self._asked(statement("spilled_over"), (failed, before))
            found += [UUID(bytes=run) for (run,) in over]
        return found

    def pages(self, rows: int) -> Iterator[Sequence[tuple[UUID, Any]]]:
        near = list(self._near)
        for begin in range(0, len(near), rows):
            # A run that was moved meanwhile is still found.
            yield [(each, found) for each in near[begin : begin + rows] if (found := self.get(each)) is not None]
        loose = self.places.loose()
        for begin in range(0, len(loose), rows):
            found = [self._asked(statement("spilled_image"), (run,)) for run in loose[begin : begin + rows]]
            yield [
                (UUID(bytes=run), msgspec.Raw(each[0][0]))
                for run, each in zip(loose[begin:], found, strict=False)
                if each
            ]

    # ------------------------------------------------------------------------------------------- going

    def drop(self, run_ids: Iterable[UUID], *, erase: bool = False) -> None:
        far = []
        for run_id in dict.fromkeys(run_ids):
            is_near = run_id in self._near
            if not is_near and not self._is_far(run_id):
                raise KeyError(run_id)
            if self._goes is not None:
                self._goes(run_id)
            if is_near:
                self._take_out(run_id)
            else:
                far.append(run_id)
        self._drop_far(far, erase=erase)

    # ------------------------------------------------------------------------------------------- the file

    def _make_room(self) -> None:
        """Move the oldest runs to the file."""
        moved = self._oldest()
        rows = [block_run(ended) for _, ended in moved]
        try:
            self._write(rows, [self.places.add(row.run, len(row.image), failed=row.failed) for row in rows])
        except (sqlite3.Error, OSError) as failure:
            # They stay in memory. It is tried again after some more.
            self._room = len(self._near) + max(MOVED_AT_ONCE, len(self._near) // 4)
            self._room_bytes = self._bytes + max(MOVED_BYTES, self._bytes // 4)
            _warn_not_moved(len(moved), failure)
            return
        for run_id, _ in moved:
            self._take_out(run_id)
        self._room = max(self._near_most + self._moved_at_once, len(self._near) + 1)
        self._room_bytes = max(self._most_bytes, self._bytes)

    def _oldest(self) -> list[tuple[UUID, EndedRun]]:
        """The runs that are too many here, by number or by bytes."""
        number = len(self._near) - self._near_most
        # Runs of a failed disk are many at once: the next calls move the others.
        over = min(self._bytes - self._most_bytes, 10 * MOVED_BYTES)
        if over > 0:
            over += self._moved_bytes
        moved: list[tuple[UUID, EndedRun]] = []
        for run_id, ended in islice(self._near.items(), 10 * MOVED_AT_ONCE):
            if len(moved) >= number and over <= 0:
                break
            moved.append((run_id, ended))
            over -= memory_of(ended)
        return moved

    def _write(self, rows: Sequence[BlockRun], places: Sequence[int]) -> None:
        """Put runs into the file, at these places. They are not there."""
        try:
            file = self._file
            if file is None:
                layout = [statement(each) for each in LAYOUT]
                file = self._file = open_spill(self._folder, layout)
            with file:
                file.execute("BEGIN")
                file.executemany(
                    statement("spilled_add"), [(*row, place) for row, place in zip(rows, places, strict=True)]
                )
        except (sqlite3.Error, OSError):
            for row, place in zip(rows, places, strict=True):
                self.places.drop(place, failed=row.failed)
            raise
        self._far.update(row.namespace for row in rows)
        self._far_number += len(rows)
        self._far_last = max(self._far_last, *(row.run for row in rows)) if rows else self._far_last

    def _drop_far(self, run_ids: Sequence[UUID], *, erase: bool = False) -> None:
        if not run_ids:
            return
        if self._file is None:
            raise SpillLost("the file of ended runs is closed")
        runs = [(run_id.bytes,) for run_id in run_ids]
        gone: list[tuple[str, int, int]] = []
        try:
            with self._file as file:
                file.execute("BEGIN")
                for run in runs:
                    gone += file.execute(statement("spilled_place"), run)
                file.executemany(statement("spilled_drop"), runs)
        except sqlite3.Error as failure:
            raise SpillLost(f"the file of ended runs in {self._folder} cannot be written: {failure}") from failure
        self._far_number -= len(runs)
        for namespace, failed, place in gone:
            self._far[namespace] -= 1
            self.places.drop(place, failed=bool(failed), erase=erase)

    # ------------------------------------------------------------------------------------------- blocks

    def runs_at(self, block: PlacedBlock, begin: int, number: int) -> list[BlockRun | None]:
        """The runs of a block that is begun, at so many of its places; None where none counts."""
        found: list[BlockRun | None] = []
        for place in range(block.first + begin, block.first + min(begin + number, block.places)):
            known = block.runs.get(place)
            rows = self._asked(statement("spilled_row"), (known[0],)) if known is not None else []
            found += [BlockRun(*row)._replace(failed=bool(row[3])) for row in rows] or [None]
        return found

    def take_block(self, named: NamedBlock, runs: Sequence[BlockRun | None]) -> None:
        """The runs of a block of a checkpoint. None of them is here."""
        rows = [(place, run) for place, run in enumerate(runs) if run is not None]
        block = self.places.take(named)
        if not rows:
            return
        try:
            self._write([run for _, run in rows], [block.first + place for place, _ in rows])
        except sqlite3.IntegrityError:
            raise Misconfigured(f"the log is damaged: a run of {named.name} is in another block, too") from None
        except (sqlite3.Error, OSError) as failure:
            # They stay in memory, in no block, until there is room.
            _warn_not_moved(len(rows), failure)
            for run_id, ended in ended_of(runs):
                self._put_near(run_id, ended)

    def learn_block(self, named: NamedBlock, runs: Sequence[BlockRun | None]) -> None:
        """The owner of the log has put these runs into a block. One that is another here is not that of the block."""
        block = self.places.take(named)
        moved: list[tuple[BlockRun, int]] = []
        for offset, run in enumerate(runs):
            place = block.first + offset
            if run is None:
                continue
            near = self._near.get(UUID(bytes=run.run))
            if near is not None:
                if value_image(near) == run.image:
                    moved.append((run, place))
                else:
                    self.places.drop(place, failed=block.failed)
                continue
            rows = self._asked(statement("spilled_row"), (run.run,))
            if rows and rows[0][-1] == run.image:
                [(_, failed, before)] = self._asked(statement("spilled_place"), (run.run,))
                self._asked(statement("spilled_replace"), (place, run.run))
                self.places.drop(before, failed=bool(failed))
            else:
                self.places.drop(place, failed=block.failed)
        if not moved:
            return
        try:
            self._write([run for run, _ in moved], [place for _, place in moved])
        except (sqlite3.Error, OSError) as failure:
            _warn_not_moved(len(moved), failure)
            return
        for run, _ in moved:
            self._take_out(UUID(bytes=run.run))

    def keep_blocks(self, names: Collection[BlockName]) -> None:
        """Of the blocks that are known here these alone are still named. Entries to come say that the runs of the
        others have gone."""
        for block in self.places.stored():
            block.is_lapsed = block.name not in names

    def placed(self, rows: int) -> Iterator[list[tuple[bytes, int, int, int]]]:
        """Of all runs in the file id, whether it FAILED, place and size; so many at a time, while runs come and go."""
        yield from self._far_pages("spilled_places", rows)

    def _asked(self, query: str, given: Any, *, steps: list[int] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a query. `steps`: of a search; those that it has taken, which this adds to."""
        if self._file is None:
            if self._far_number:
                raise SpillLost("the file of ended runs is closed")
            return []

        def goes_on() -> bool:
            assert steps is not None
            steps[0] += STEPS_AT_ONCE
            return steps[0] > STEPS_MOST

        try:
            if steps is not None:
                self._file.set_progress_handler(goes_on, STEPS_AT_ONCE)
            return self._file.execute(query, given).fetchall()
        except sqlite3.Error as failure:
            if steps is not None and steps[0] > STEPS_MOST:
                raise _too_much() from failure
            raise SpillLost(f"the file of ended runs in {self._folder} cannot be read: {failure}") from failure
        finally:
            if steps is not None:
                self._file.set_progress_handler(None, 0)  # it would end what writes, too

    def _is_far(self, run_id: UUID) -> bool:
        key = run_id.bytes
        return key <= self._far_last and bool(self._asked(statement("spilled_known"), (key,)))

    def _far_run(self, run_id: UUID) -> EndedRun | None:
        key = run_id.bytes
        found = self._asked(statement("spilled_image"), (key,)) if key <= self._far_last else []
        return self._decode(found[0][0]) if found else None

    def _last_far(self, job_id: UUID) -> tuple[Any, ...] | None:
        """The newest run of a job in the file, and whether it FAILED."""
        found = self._asked(statement("spilled_last"), (job_id.bytes,))
        return found[0] if found else None

    def _newest_far(
        self, job_id: UUID | None, namespace: str | None, within: Within, *, failed: bool, is_search: bool
    ) -> Iterator[EndedRun]:
        if self._file is None:
            return
        name = "spilled_newest"
        if job_id is not None:
            name = "spilled_newest_of_job"
        elif failed and namespace is not None:
            name = "spilled_newest_failed"
        query = statement(name)
        given = {
            "job": None if job_id is None else job_id.bytes,
            "namespace": namespace,
            "failed": int(failed),
            "after": b"" if within.after is None else within.after.bytes,
            "before": b"\xff" * 17 if within.before is None else within.before.bytes,
            "due_after": within.due_after,
            "due_before": within.due_before,
            "number": 20,  # a page is small more often than not
        }
        steps = [0]
        while rows := self._asked(query, given, steps=steps if is_search else None):
            for _, image in rows:
                yield self._decode(image)
            given |= {"before": rows[-1][0], "number": READ_AT_ONCE}
            steps[0] += len(rows) * STEPS_OF_RUN
            if is_search and steps[0] > STEPS_MOST:
                raise _too_much()

    def _far_ids(self, since: bytes = b"") -> Iterator[UUID]:
        for page in self._far_pages("spilled_ids", READ_AT_ONCE, since):
            yield from (UUID(bytes=row[0]) for row in page)

    def _far_pages(self, name: str, rows: int, since: bytes = b"") -> Iterator[list[Any]]:
        while page := self._asked(statement(name), (since, rows)):
            yield page
            since = page[-1][0] + b"\0"


def memory_of(ended: EndedRun) -> int:
    """Its memory in bytes, about."""
    row, size = ended.row, RUN_BYTES
    for text in (row.result, row.error, row.definition, *(each.error for each in ended.attempts)):
        if text is not None:
            size += getsizeof(text)
    return size


def block_run(ended: EndedRun) -> BlockRun:
    """An ended run as blocks and the file have it."""
    row = ended.row
    return BlockRun(
        row.run_id.bytes, row.job_id.bytes, row.namespace, row.state is RunState.FAILED, row.due_at,
        row.ended_at or 0.0, value_image(ended),
    )  # fmt: skip


def _too_much() -> Invalid:
    return Invalid(
        "nothing more was found within about a second: narrow the search, for example by a time window, a job or "
        "FAILED as the state"
    )


def _merged(near: Iterator[EndedRun], far: Iterator[EndedRun], far_last: bytes) -> Iterator[EndedRun]:
    """Both in one, those with the greatest id first. The file is not read before its greatest id is reached."""
    first = next(near, None)
    while first is not None and first.row.run_id.bytes > far_last:
        yield first
        first = next(near, None)
    second = next(far, None)
    while first is not None and second is not None:
        if first.row.run_id > second.row.run_id:
            yield first
            first = next(near, None)
        else:
            yield second
            second = next(far, None)
    for last, rest in ((first, near), (second, far)):
        if last is not None:
            yield last
            yield from rest


def _warn_not_moved(runs: int, failure: Exception) -> None:
    logger.warning("ended_runs_not_moved", runs=runs, detail=str(failure))
