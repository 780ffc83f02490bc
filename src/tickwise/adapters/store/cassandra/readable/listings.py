"""Listings that read the tables: runs of a job, their attempts, and the audit log, as the store's port gives them.

    hours of the job, newest first ──► one partition after the other, until the page is full

Reads touch hours that have rows, so they cost the same after a million runs. Times are whole ms. What these listings
cannot do is in record 0106.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.keeper.readable.tables import hour_of, hour_of_run, job_part, run_part
from tickwise.domain.audit import CallerKind, Source
from tickwise.domain.lifecycle import FINAL, RunState
from tickwise.domain.model import Trigger
from tickwise.ports.audit import AuditPage, AuditQuery, AuditRow
from tickwise.ports.paging import Page, page_within
from tickwise.ports.store import AttemptRow, CancelRow, RunQuery, RunRow, RunText

LAST_ID: Final = UUID(int=(1 << 128) - 1)
LAST_ENTRY: Final = (1 << 63) - 1


class TableListings:
    """Reads the readable tables of a keyspace. Each method may raise `StoreUnavailable`, and `Misconfigured` if a table
    is missing."""

    def __init__(self, link: CassandraLink) -> None:
        self._link = link

    async def runs(self, query: RunQuery) -> Page[RunRow]:
        """Ended runs of one job, newest first; `query.job_id` must be given. Conditions on jobs (name, labels, queue,
        selector) are not looked at: one job is asked for."""
        assert query.job_id is not None
        found: list[RunRow] = []
        async for hour in self._hours(query.namespace, query.job_id):
            if query.before is not None and hour > hour_of_run(query.before):
                continue
            if len(found) >= query.limit or (query.after is not None and hour < hour_of_run(query.after)):
                break
            async for row in self._rows("runs_of_hour", query.namespace, hour, query.job_id, query.before or LAST_ID):
                run = _run(query, row)
                if run.state in FINAL and query.is_met_by(run):
                    found.append(run)
                if len(found) >= query.limit:
                    break
        return page_within(found, query.bytes_most)

    async def run(self, namespace: str, job_id: UUID, run_id: UUID) -> RunRow | None:
        """A run that has ended; None: there is none of that id."""
        query = RunQuery(namespace=namespace, job_id=job_id, ids=[run_id])
        at = (namespace, hour_of_run(run_id), run_part(job_id), job_id, run_id)
        runs = [_run(query, row) for row in await self._link.ask("run_read", *at)]
        return runs[0] if runs and runs[0].state in FINAL else None

    async def attempts(self, namespace: str, job_id: UUID, run_id: UUID) -> Sequence[AttemptRow]:
        """The attempts of a run, active or ended, the first one first."""
        at = (namespace, hour_of_run(run_id), run_part(job_id), job_id, run_id)
        return [_attempt(row) async for row in self._pages("attempts_read", *at)]

    async def audit(self, query: AuditQuery) -> AuditPage:
        """Entries of one namespace, newest first; `query.namespace` must be given, `ascending` must not."""
        assert query.namespace is not None
        assert not query.ascending
        found: list[AuditRow] = []
        last = LAST_ENTRY if query.beyond is None else query.beyond.entry
        async for (hour_at,) in self._pages("audit_hours_read", query.namespace):
            hour = round(_seconds(hour_at) * 1_000)
            if query.until is not None and hour >= query.until * 1_000:
                continue
            if len(found) >= query.limit or (query.since is not None and hour < hour_of(int(query.since * 1_000))):
                break
            if query.beyond is not None and hour > query.beyond.at * 1_000:
                continue
            async for row in self._pages("audit_read", query.namespace, hour, last):
                entry = _entry(query.namespace, row)
                if _is_asked(entry, query):
                    found.append(entry)
                if len(found) >= query.limit:
                    break
        page = page_within(found, query.bytes_most)
        return AuditPage(page, cut=page.cut)

    async def _hours(self, namespace: str, job_id: UUID) -> AsyncIterator[int]:
        """The hours with runs of a job, newest first, in ms."""
        job = await self._link.ask("first_hour_read", namespace, job_part(job_id), job_id)
        first = round(_seconds(job[0][0]) * 1_000) if job and job[0][0] is not None else None
        async for (hour_at,) in self._pages("run_hours_read", namespace, job_id):
            hour = round(_seconds(hour_at) * 1_000)
            if first is not None and first >= hour:
                if first > hour:
                    yield first
                first = None
            yield hour
        if first is not None:
            yield first

    def _rows(self, name: str, namespace: str, hour: int, job_id: UUID, before: UUID) -> AsyncIterator[tuple[Any, ...]]:
        return self._pages(name, namespace, hour, run_part(job_id), job_id, before)

    async def _pages(self, name: str, *values: Any) -> AsyncIterator[tuple[Any, ...]]:
        after: bytes | None = None
        while True:
            rows, after = await self._link.page(name, *values, after=after)
            for row in rows:
                yield row
            if after is None:
                return


def _seconds(at: datetime) -> float:
    """The driver gives times of UTC without their zone."""
    return at.replace(tzinfo=UTC).timestamp()


def _time(at: datetime | None) -> float | None:
    return None if at is None else _seconds(at)


def _trigger(name: str) -> int:
    return Trigger[name].value if name in Trigger.__members__ else int(name)


def _run(query: RunQuery, row: tuple[Any, ...]) -> RunRow:
    (
        job_id, run_id, state, trigger, due, nominal, queued, ready, dispatched, started, ended, attempt, failures,
        crashes, executor, reason, error, result, origin, definition, occurrences, until, asked, asked_error, heard,
    ) = row  # fmt: skip
    return RunRow(
        run_id=run_id,
        job_id=job_id,
        namespace=query.namespace,
        state=RunState(state),
        trigger=_trigger(trigger),
        due_at=_seconds(due),
        queued_at=_seconds(queued),
        dispatched_at=_time(dispatched),
        started_at=_time(started),
        ended_at=_time(ended),
        ready_at=_time(ready),
        attempt=attempt,
        failures=failures,
        crashes=crashes,
        executor=executor,
        reason=reason,
        error=error,
        result=result if RunText.RESULT in query.texts else None,
        origin=origin,
        definition=definition if RunText.DEFINITION in query.texts else None,
        nominal_at=_seconds(nominal),
        cancel=None if asked is None else CancelRow(asked_at=_seconds(asked), error=asked_error, heard_at=_time(heard)),
        occurrences=occurrences or 1,
        until=_time(until),
    )


def _attempt(row: tuple[Any, ...]) -> AttemptRow:
    token, attempt, executor, state, dispatched, started, ended, reason, error, cpu, *sizes, image = row
    memory, output, read, written, network, work = sizes
    return AttemptRow(
        attempt=attempt,
        token=token,
        executor=executor,
        state=RunState(state),
        dispatched_at=_time(dispatched),
        started_at=_time(started),
        ended_at=_time(ended),
        reason=reason,
        error=error,
        cpu_seconds=cpu,
        memory_bytes=memory,
        output_bytes=output,
        read_bytes=read,
        written_bytes=written,
        network_bytes=network,
        work_bytes=work,
        image=image,
    )


def _entry(namespace: str, row: tuple[Any, ...]) -> AuditRow:
    (
        number, at, action, kind, caller_id, name, address, request_id, target_kind, target, targets, before, after,
        detail,
    ) = row  # fmt: skip
    return AuditRow(
        entry=number,
        at=_seconds(at),
        namespace=namespace,
        action=action,
        source=Source(CallerKind(kind), caller_id, name, address or "", request_id or ""),
        target_kind=target_kind,
        target=target,
        targets=list(targets or ()),
        before=before,
        after=after,
        detail=detail,
    )


def _is_asked(entry: AuditRow, query: AuditQuery) -> bool:
    beyond = query.beyond
    return (
        (query.since is None or entry.at >= query.since)
        and (query.until is None or entry.at < query.until)
        and (query.actor is None or query.actor == entry.source.name)
        and (query.action is None or query.action == entry.action)
        and (query.target is None or query.target == entry.target or query.target in map(str, entry.targets))
        and (beyond is None or (entry.at, entry.entry) < (beyond.at, beyond.entry))
    )
