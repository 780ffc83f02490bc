"""Runs: look up, search, cancel, retry, and read what they wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.access import check_namespace, requires
from tickwise.control.bodies import RunRetryBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.jobs.changes import function_of
from tickwise.control.jobs.confining import demand_of_job
from tickwise.control.runs.artefacts import RunArtefacts, artefact_download, index_of
from tickwise.control.runs.cancels import cancel_run
from tickwise.control.runs.downloads import Download
from tickwise.control.runs.log_search import OutputSearch, OutputSearched, OutputSearches
from tickwise.control.runs.logs import LogChunk, LogFile, LogHit, LogSearch, find_in_log, log_download, read_log
from tickwise.control.runs.retries import retry_run
from tickwise.control.runs.settlements import Settlements
from tickwise.control.runs.waiting_output import waiting_output
from tickwise.control.visible_runs import visible_runs
from tickwise.documents.definition import decode_definition
from tickwise.documents.progress import RunProgress, read_progress
from tickwise.domain.errors import Invalid, NotFound, Unavailable
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.domain.rules.limits import QUOTA_KEY
from tickwise.domain.trace_context import trace_id_of_run
from tickwise.ports.store import (
    PAGE_BYTES,
    AttemptRow,
    EndingQuery,
    JobRow,
    LatestRunsQuery,
    LetterStatus,
    Page,
    Replay,
    RunQuery,
    RunRow,
    RunText,
    Tally,
)
from tickwise.roles.shared.served_queues import in_use, not_offered, unserved

DAY_SECONDS: Final = 86_400.0
BLOCKED: Final = "it waits until an earlier run of its job has ended (overlap)"
NO_SLOT: Final = "it waits until a slot of its concurrency limit is free"
NO_QUOTA: Final = "it waits until fewer runs of its namespace go on than its quota says (concurrent_runs)"
NO_EXECUTOR: Final = "no executor is active; runs wait for one"
LISTED_TEXTS: Final = frozenset({RunText.RESULT})
"""A list of runs shows no definition, with the payload in it."""
MAX_TALLIED_SECONDS: Final = 92 * DAY_SECONDS
"""The most that fits into one answer of the store, `MAX_TALLIES`."""


RETRIED_LOOKED_AT: Final = 60
LOOKS_AT_ONCE: Final = 8
LAST_LOOKED: Final = 5
"""Runs of one job among which its last one is looked for; those to come are few."""


class RunDetails(NamedTuple):
    """A run, its attempts, and why it may be waiting."""

    row: RunRow
    attempts: Sequence[AttemptRow]
    warnings: Sequence[str]
    redriven_as: UUID | None = None
    """Of a FAILED one: the run that was made in its place."""
    job: JobRow | None = None
    """The job whose payload it has; None: it has its own, or the job is gone."""
    trace_id: str | None = None
    """The trace that it belongs to, 32 hex digits; None: it belongs to none that is known here."""
    progress: RunProgress | None = None
    """Of one that is RUNNING: how far it is, as its task said; None: it said nothing."""
    letter: LetterStatus | None = None
    """Of a FAILED one: the status of its dead letter; None: it has none."""


class RunService:
    """Everything about runs."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._settlements = Settlements(context)
        self._output_searches = OutputSearches(context)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def get(self, who: Principal, run: UUID) -> RunDetails:
        """One run with its attempts. Raises `NotFound`."""
        row = await self._context.run(who, run)
        attempts = await self._context.store.runs.attempts(run)
        warnings: Sequence[str] = ()
        if row.state in (RunState.QUEUED, RunState.RETRYING):
            warnings = await self._waiting_for(row)
        letter = await self._settlements.find(who, run) if row.state is RunState.FAILED else None
        job = None if row.definition is not None else await self._context.store.jobs.get(who.namespace, row.job_id)
        redriven_as, status = (None, None) if letter is None else (letter.redriven_as, letter.status)
        progress = await self._progress_of(row)
        return RunDetails(row, attempts, warnings, redriven_as, job, self._trace_of(row, job), progress, status)

    async def _progress_of(self, row: RunRow) -> RunProgress | None:
        """One look at the blobs, for a run that goes on; while they are away nothing is known."""
        if row.state is not RunState.RUNNING:
            return None
        try:
            return await read_progress(self._context.blobs, row.run_id, row.attempt)
        except Unavailable:
            return None

    def _trace_of(self, row: RunRow, job: JobRow | None) -> str | None:
        """The trace of the request or run that made it; else its own, if it is recorded."""
        text = row.definition if row.definition is not None else None if job is None else job.definition
        if text is not None and (trace := decode_definition(text).trace) is not None:
            return trace.trace_text
        tracer = self._context.tracer
        return f"{trace_id_of_run(row.run_id):032x}" if tracer is not None and tracer.records(row.run_id) else None

    @requires(Permission.RUNS_READ, by_labels=True)
    async def search(
        self,
        who: Principal,
        query: RunQuery,
        *,
        must_exist: bool = False,
        texts: frozenset[RunText] = LISTED_TEXTS,
    ) -> Page[RunRow]:
        """Newest first, for people: a replica may be asked. A page is bounded in bytes, and tells of no definition,
        unless `texts` asks for it: a caller that may see a run may see its payload.
        With `must_exist`, raises `NotFound` if the job of the query is not there. A planned skip is found only if the
        query names states. Raises `Forbidden` for a query about another namespace."""
        check_namespace(who, query.namespace)
        if must_exist and query.job_id is not None:
            await self._context.job(who, query.job_id)
        bounded = replace(query, within=who.within, bytes_most=PAGE_BYTES, texts=texts)
        return await visible_runs(self._context.searches, bounded, await self._context.time.now())

    @requires(Permission.RUNS_READ, by_labels=True)
    async def latest(self, who: Principal, jobs: Sequence[UUID], each: int) -> Mapping[UUID, Sequence[RunRow]]:
        """The newest runs of each of these jobs, newest first, without texts and planned skips, for a page of jobs. Of
        a job that is not the caller's, and of one without runs, nothing is said."""
        now = await self._context.time.now()
        query = LatestRunsQuery(namespace=who.namespace, jobs=jobs, each=each, until=now, within=who.within)
        found: dict[UUID, list[RunRow]] = {}
        for row in await self._context.searches.runs(query) if jobs else ():
            found.setdefault(row.job_id, []).append(row)
        return found

    @requires(Permission.RUNS_READ, by_labels=True)
    async def last(self, who: Principal, jobs: Sequence[UUID]) -> Sequence[RunRow]:
        """The newest run of each of these jobs, as `latest` has it; one that is yet to come, such as a snoozed one,
        only if there is no other among the newest."""
        found = (await self.latest(who, jobs, LAST_LOOKED)).values()
        now = await self._context.time.now()
        return [next((run for run in runs if not _is_to_come(run, now)), runs[0]) for runs in found]

    @requires(Permission.RUNS_READ, by_labels=True)
    async def ending_with(self, who: Principal, ending: str, limit: int) -> Sequence[RunRow]:
        """The runs whose ids end with a text, the newest first: of those under way, and those of the last day. Without
        texts."""
        since = await self._context.time.now() - DAY_SECONDS
        query = EndingQuery(namespace=who.namespace, ending=ending, since=since, within=who.within, limit=limit)
        return await self._context.searches.runs(query)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def first_starts(self, who: Principal, rows: Sequence[RunRow]) -> Mapping[UUID, float]:
        """The begin of the first attempt of each of these runs, which the caller was shown: a row knows the last one.
        A look for each that was tried again, for at most `RETRIED_LOOKED_AT` of them."""
        again = [row.run_id for row in rows if row.attempt > 1 and row.namespace == who.namespace]
        gate = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def first(run: UUID) -> tuple[UUID, float | None]:
            async with gate:
                attempts = await self._context.store.runs.attempts(run)
            return run, min((each.started_at for each in attempts if each.started_at is not None), default=None)

        found = await asyncio.gather(*(first(run) for run in again[:RETRIED_LOOKED_AT]))
        return {run: began for run, began in found if began is not None}

    @requires(Permission.RUNS_READ)
    async def tally(self, who: Principal, since: float | None, until: float | None) -> Sequence[Tally]:
        """Count the runs of the namespace that came on record in each hour that begins in this time; in the last day if
        no time is named. Raises `Invalid`."""
        end = await self._context.time.now() if until is None else until
        start = end - DAY_SECONDS if since is None else since
        if not 0 <= end - start <= MAX_TALLIED_SECONDS:
            raise Invalid(f"ask for {MAX_TALLIED_SECONDS / DAY_SECONDS:.0f} days at most, that begin before they end")
        return await self._context.searches.tally(who.namespace, start, end)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def cancel(self, who: Principal, run: UUID) -> RunState:
        """End it, or ask its executor to; the state that it is in now. Raises `NotFound`; `Conflict` if it ended
        in another way before."""
        return await cancel_run(self._context, who, run)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def retry(
        self, who: Principal, run: UUID, body: RunRetryBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """A new run like one that has ended, linked to it; its id. The dead letter of a failed one is settled by it.

        Raises `Conflict` while that one is going on, and if its letter was settled before: what follows the run
        would follow it twice."""
        return await retry_run(self._context, who, run, body, receipt_for)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def log(self, who: Principal, run: UUID, *, attempt: int | None, offset: int, limit: int) -> LogChunk:
        """A part of what an attempt wrote; of the newest one if none is named. Raises `NotFound`."""
        row = await self._context.run(who, run)
        number = _attempt_of(row, attempt)
        ended = row.state in FINAL or number < row.attempt
        chunk = await read_log(self._context.blobs, run, number, offset=offset, limit=limit, ended=ended)
        if not ended or chunk.is_closed:
            return chunk
        waiting = await waiting_output(self._context, row, number, chunk.size)
        return chunk if waiting is None else chunk._replace(waiting=waiting, complete=False)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def log_file(self, who: Principal, run: UUID, *, attempt: int | None) -> LogFile:
        """The output of an attempt as far as it is written, as a file; of the newest attempt if none is named. Raises
        `NotFound`."""
        number = _attempt_of(await self._context.run(who, run), attempt)
        return LogFile(number, await log_download(self._context.blobs, run, number))

    @requires(Permission.RUNS_READ, by_labels=True)
    async def find_in_log(self, who: Principal, run: UUID, search: LogSearch, *, attempt: int | None) -> LogHit:
        """The next line with a text in what an attempt wrote; of the newest one if none is named. It reads a part at a
        time, and so much at most as the search says. Raises `NotFound`; `Invalid` for a text of several lines or of
        none."""
        if not search.text or "\n" in search.text:
            raise Invalid("look for a text of one line", pointer="/find")
        row = await self._context.run(who, run)
        return await find_in_log(self._context.blobs, run, _attempt_of(row, attempt), search)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def search_outputs(self, who: Principal, query: RunQuery, search: OutputSearch) -> OutputSearched:
        """The lines with a text in what the newest attempts of these runs wrote, newest run first, within the bounds of
        the search. Raises `Forbidden` for a query about another namespace; `Invalid` for a text of several lines or of
        none; `Busy` while others search."""
        check_namespace(who, query.namespace)
        if not search.text or "\n" in search.text:
            raise Invalid("look for a text of one line", pointer="/find")
        return await self._output_searches.search(replace(query, within=who.within), search)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def artefacts(self, who: Principal, run: UUID, *, attempt: int | None) -> RunArtefacts:
        """The files that an attempt left; of the newest one if none is named. Raises `NotFound`."""
        number = _attempt_of(await self._context.run(who, run), attempt)
        return RunArtefacts(number, *await index_of(self._context.blobs, run, number))

    @requires(Permission.RUNS_READ, by_labels=True)
    async def artefact(self, who: Principal, run: UUID, name: str, *, attempt: int | None) -> Download | str:
        """A file that an attempt left, or its signed address in the store; of the newest one if none is named. Raises
        `NotFound`."""
        number = _attempt_of(await self._context.run(who, run), attempt)
        return await artefact_download(self._context.blobs, run, number, name, self._context.signed_downloads)

    async def _waiting_for(self, row: RunRow) -> Sequence[str]:
        """The reason why a run without a holder waits."""
        if row.blocked:
            if row.limit_key == QUOTA_KEY:
                return (NO_QUOTA,)
            return (BLOCKED if row.limit_key is None else f"{NO_SLOT} ({row.limit_key})",)
        job = await self._context.store.jobs.get(row.namespace, row.job_id)
        if job is None:
            return ()
        definition = decode_definition(row.definition or job.definition)
        function = function_of(job, definition.task)
        passing = not_offered(function, await self._context.executors.functions())
        if passing is None:
            active = await self._context.executors.rows()
            demand = demand_of_job(definition)
            passing = unserved(job.lane, function, active, job.namespace, demand) if active else NO_EXECUTOR
            if passing is None and demand is not None:
                able = [each for each in active if unserved(job.lane, function, [each], job.namespace, demand) is None]
                passing = in_use(demand, able)
        return (passing,) if passing else ()


def _is_to_come(run: RunRow, now: float) -> bool:
    """Check whether it has not begun and is due later."""
    return run.state is RunState.QUEUED and run.started_at is None and not run.blocked and run.due_at > now


def _attempt_of(row: RunRow, attempt: int | None) -> int:
    """The attempt that is asked for, or the newest one. Raises `NotFound`."""
    if attempt is not None and not 1 <= attempt <= row.attempt:
        raise NotFound(f"the run has had {row.attempt} attempts so far, there is no attempt {attempt}")
    return row.attempt if attempt is None else attempt
