"""A state out of a checkpoint and the entries behind it.

    parts ──► rows of tables, as they were written ─┐     parts name blocks of ended runs (`blocks`)
    entries ──► after-images over them ─────────────┴──► records and indexes of a new state

A checkpoint is written while calls go on, so a row may be newer than its position. The entries up to where it was
finished lay the same images over it once more: the result is the same, as each of them says what is, not what was done.

Invariant: an entry that does not fit what is there (fields of a record that is unknown) is damage, and is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from tickwise.adapters.store.keeper.blocks import ENDED, NamedBlock, ended_of, names_in, read_block
from tickwise.adapters.store.keeper.images import CODECS, Entry, Reader, TableReader, record_of
from tickwise.adapters.store.keeper.log import BlockName
from tickwise.adapters.store.keeper.spilled import SpilledRuns
from tickwise.adapters.store.keeper.spilled_jobs import SpilledJobs
from tickwise.adapters.store.keeper.tables import LENT, TABLES, VALUES, TimerImage
from tickwise.adapters.store.keeper.tracking import FIELDS, FRESH, GONE, WHOLE
from tickwise.adapters.store.memory.ended import EndedRuns
from tickwise.adapters.store.memory.records import ErrorGroupRecord, JobRecord, RunRecord, TimerRecord
from tickwise.adapters.store.memory.state import State
from tickwise.domain.errors import Misconfigured

JOBS: Final = "jobs"
TENURE_BITS: Final = 32
"""Numbers that end with the process begin with that of its tenure, above all that were given before."""

STEP_ROWS: Final = 5_000
"""Some 50 ms of work. An owner that builds a large state renews its lease between the steps."""

Row = TypeVar("Row")


class Contents:
    """The rows of all tables, and the single values, as of a position."""

    def __init__(self, ended: EndedRuns | None = None) -> None:
        """`ended`: takes the ended runs, and becomes those of the state that is filled; None: they are copied."""
        self.tables: dict[str, MutableMapping[Any, Any]] = {table.path: {} for table in TABLES}
        """Of records: their fields by name."""
        if ended is not None:
            self.tables[ENDED] = ended
            if isinstance(jobs := ended.make_jobs(), SpilledJobs):
                self.tables[JOBS] = jobs
        self.values: dict[str, Any] = {}
        self.until = 0
        """Up to this position rows may be newer than the entry that is laid over them."""
        self._reader = Reader()

    def close(self) -> None:
        """Give back what ended runs hold outside of memory, where no state was filled."""
        if isinstance(ended := self.tables["ended"], EndedRuns):
            ended.close()

    def read_part(self, body: bytes, *, is_first: bool) -> Sequence[NamedBlock]:
        """Take a part of a checkpoint. It may name blocks, which are to be read before the next part."""
        if is_first:
            self._take_values(self._reader.head(body))
            return ()
        if names := names_in(body):
            return names
        jobs = self.tables[JOBS]
        if isinstance(jobs, SpilledJobs) and (images := self._reader.images(JOBS, body)) is not None:
            jobs.take(images)
            return ()
        found = self._reader.part(body)
        if isinstance(found, int):
            self.until = found
        elif (reader := found[0]) is not None:
            rows = self.tables[reader.table.path]
            if isinstance(rows, SpilledJobs):
                for key, values in found[1]:
                    _lay_job(rows, WHOLE, key, values)
            else:
                rows.update(found[1])
        return ()

    def read_block(self, named: NamedBlock, body: bytes) -> None:
        """Take the ended runs of a block."""
        runs, ended = read_block(named, body), self.tables[ENDED]
        if isinstance(ended, SpilledRuns):
            ended.take_block(named, runs)
        else:
            ended.update(ended_of(runs))

    def learn_blocks(self, names: Collection[BlockName]) -> Collection[BlockName]:
        """A later checkpoint names these blocks, and no other one; those of them that are not known here."""
        ended = self.tables[ENDED]
        if not isinstance(ended, SpilledRuns):
            return ()
        ended.keep_blocks(names)
        return set(names) - {each.name for each in ended.places.stored()}

    def learn_block(self, named: NamedBlock, body: bytes) -> None:
        """Take note of which runs that are here already are in a block."""
        ended = self.tables[ENDED]
        if isinstance(ended, SpilledRuns):
            ended.learn_block(named, read_block(named, body))

    def read_entry(self, position: int, body: bytes) -> None:
        """Lay the effects of one commit over what is there."""
        entry = self._reader.entry(body)
        readers: dict[str, TableReader | None] = {}
        for path, how, raw_key, raw in entry.changes:
            reader = readers.get(path) or readers.setdefault(path, self._reader.table(path))
            if reader is None:
                continue
            key, rows = reader.key(raw_key), self.tables[path]
            if how == GONE:
                rows.pop(key, None)
            elif isinstance(rows, SpilledJobs):
                if not _lay_job(rows, how, key, reader.value(raw)) and position > self.until:
                    raise _not_there(position, key, path)
            elif how == FIELDS:
                if key in rows:
                    rows[key].update(reader.value(raw))
                elif position > self.until:
                    raise _not_there(position, key, path)
            else:
                if how == FRESH:
                    rows.pop(key, None)
                rows[key] = reader.value(raw)
        if isinstance(jobs := self.tables[JOBS], SpilledJobs):
            jobs.settle()
        self._take_values(entry)

    def _take_values(self, entry: Entry) -> None:
        self.values.update(self._reader.values(entry))

    def fill(self, state: State, *, tenure: int = 0) -> None:
        """Put all of it into a new state."""
        for _ in self.fill_in_steps(state, tenure=tenure):
            pass

    def fill_in_steps(self, state: State, *, tenure: int = 0) -> Iterator[None]:
        """Put all of it into a new state, at most `STEP_ROWS` rows between two steps, so that others get their turn."""
        for table in TABLES:
            kind = table.value
            rows = self.tables[table.path]
            content: Any = None if kind in (JobRecord, RunRecord) else _content(state, table.path)
            if isinstance(content, EndedRuns):
                self._fill_ended(state, rows)
                continue
            if isinstance(rows, SpilledJobs):
                state.jobs = rows
                _restore_timers(state, {})
                continue
            if content is not None:
                content.clear()
            timers = {}
            for portion in _portions(rows.items()):
                if kind is JobRecord:
                    for key, values in portion:
                        timers[key] = values.get("timer")
                        state.jobs[key] = record_of(kind, {**values, "timer": None})
                elif kind is RunRecord:
                    for key, values in portion:
                        state.runs[key] = record_of(kind, {**values, "job": _job_of(state, key, values["job"])})
                elif kind in CODECS:
                    dict.update(content, {key: record_of(kind, values) for key, values in portion})
                else:
                    dict.update(content, portion)
                yield
            if kind is JobRecord:
                _restore_timers(state, timers)
        for value in VALUES:
            if value.name in self.values:
                value.put(state, self.values[value.name])
        yield from self._derive(state)
        state.batch_numbers.last = tenure << TENURE_BITS
        state.feed.next = (tenure << TENURE_BITS) + 1

    def _fill_ended(self, state: State, rows: MutableMapping[Any, Any]) -> None:
        if isinstance(rows, EndedRuns):
            state.ended = rows
        else:
            state.ended = EndedRuns()
            state.ended.update(rows)

    @property
    def lent(self) -> dict[int, dict[str, int]]:
        """Counted runs of batches that ended with their process, by batch."""
        return self.values.get(LENT) or {}

    def _derive(self, state: State) -> Iterator[None]:
        """Make the indexes over what is kept."""
        state.jobs.keyed.clear()
        for jobs in _portions(state.jobs.awake):
            for job in jobs:
                if job.key is not None:
                    state.jobs.keyed[job.namespace, job.key] = job
                state.secret_uses.add(job)
            yield
        for group in state.error_groups.values():
            _recount(group)
        waiting: dict[Any, list[Any]] = {}
        last = max((timer.place for timer in state.timers()), default=0)
        for runs in _portions(state.runs.values()):
            for run in runs:
                run.job.runs[run.run_id] = run
                if run.place:
                    waiting.setdefault((run.job.namespace, run.lane), []).append((run.ready, run.place, run))
                    last = max(last, run.place)
            yield
        for lane, entries in waiting.items():
            state.lane(lane).restore(entries)
        for run in sorted((run for run in state.runs.values() if run.held), key=lambda run: run.token):
            if run.executor in state.executors:
                state.executors[run.executor].held[run.run_id] = run
        state.tickets.last = last
        state.known_of = Counter(namespace for namespace, _ in state.known)
        state.rules_of_kind = Counter((namespace, kind) for namespace, kind, _ in state.rules)
        state.slots.restore(state.runs.values())
        state.audit.restore()


def _lay_job(jobs: SpilledJobs, how: int, key: Any, values: dict[str, Any]) -> bool:
    """Lay the image of a job, or fields of it, over what a table has; False: fields of none that is there."""
    if how == FIELDS:
        return jobs.lay_fields(key, values)
    jobs.lay(key, values)
    return True


def _not_there(position: int, key: Any, path: str) -> Misconfigured:
    return Misconfigured(f"the log is damaged: entry {position} changes {key} in {path}, which is not there")


def _portions(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    """Cut the rows into pieces of `STEP_ROWS`."""
    left = iter(rows)
    while portion := list(islice(left, STEP_ROWS)):
        yield portion


def _content(state: State, path: str) -> Any:
    owner: Any = state
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


def _job_of(state: State, run_id: Any, job_id: Any) -> JobRecord:
    job = state.jobs.to_change(job_id)
    if job is None:
        raise Misconfigured(f"the log is damaged: there is no job {job_id} of the run {run_id}")
    return job


def _recount(group: ErrorGroupRecord) -> None:
    group.hours = Counter(group.hours)


def _restore_timers(state: State, timers: dict[Any, TimerImage | None]) -> None:
    """Timers of jobs, in the queues in which they wait. Jobs of a table that the log was read into have theirs."""
    entries: tuple[list[Any], list[Any]] = ([], [])
    for job_id, image in timers.items():
        if image is not None:
            job = state.jobs[job_id]
            job.timer = TimerRecord(
                job=job, pending=image.pending, run_id=image.run_id, zone_data=image.zone_data, place=image.place
            )
    for timer in state.timers():
        entries[timer.run_id is None].append((timer.pending.due, timer.place, timer))
    state.one_time.restore(entries[False])
    state.decided.restore(entries[True])
