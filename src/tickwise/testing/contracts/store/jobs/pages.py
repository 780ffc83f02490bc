"""Pages bounded in bytes: cut before they hold too much, never empty, and joined by their cursors.

Each listing of the store is filled with rows of very different sizes, short ones between large ones, and read by one
call in one form for all ports. `page_within` says what a page must be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.lifecycle import JobStatus, RunState
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.audit import AuditPlace, AuditQuery
from tickwise.ports.store import (
    NO_TEXT,
    JobQuery,
    LetterQuery,
    LetterStatus,
    Page,
    RuleKind,
    RuleQuery,
    RunQuery,
    RunRow,
    RunText,
    Settlement,
    Store,
    page_within,
)
from tickwise.testing.contracts.base import DAY_SECONDS, StoreContract
from tickwise.testing.factories import Factory, outcome

SIZES: Final = (900, 20_000, 40, 3, 60_000, 5_000, 60_000, 1, 900)
"""Characters of the rows' texts, oldest first: a store may keep some of them in the row, and some apart from it."""
ALL: Final = 50
"""More than there are rows."""
AWAY: Final = "elsewhere"
BUSY: Final = "busy"

Fill: TypeAlias = Callable[[StoreContract, Store, Factory], Awaitable[None]]
Read: TypeAlias = Callable[[Store, Any, int, int | None], Awaitable[Page[Any]]]
"""Read a page: behind this cursor (None: the first), with this limit and bound."""


class Listing(NamedTuple):
    """A listing of the port."""

    fill: Fill
    read: Read
    cursor: Callable[[Any], Any]
    """The cursor behind a row."""


def _text(size: int, place: int) -> str:
    """A JSON text that hardly compresses, a fourth of whose characters take two bytes."""
    digits = "".join(blake2b(f"{place}/{at}".encode()).hexdigest() for at in range(size // 128 + 1))[:size]
    return '"' + "".join("ü" if at % 4 == 3 else digit for at, digit in enumerate(digits)) + '"'


TEXTS: Final = tuple(_text(size, place) for place, size in enumerate(SIZES))


# ------------------------------------------------------------------------------------------ filled


async def _jobs(on: StoreContract, store: Store, make: Factory) -> None:
    """Jobs of two namespaces, due in an hour."""
    for namespace in (DEFAULT_NAMESPACE, AWAY):
        jobs = [
            make.job(make.now + 3600.0, job_id=make.identifier(float(place)), definition=text, namespace=namespace)
            for place, text in enumerate(TEXTS)
        ]
        await on.add(store, *jobs)


async def _waiting(on: StoreContract, store: Store, make: Factory) -> None:
    """Runs of a job that wait, each with a definition of its own, in two namespaces."""
    for namespace in (DEFAULT_NAMESPACE, AWAY):
        job = make.recurring(make.now + 3600.0, key=BUSY, namespace=namespace)
        await on.add(store, job)
        runs = [make.run(job.job_id, make.now + place, definition=text) for place, text in enumerate(TEXTS)]
        await store.runs.add(namespace, job.job_id, runs)


async def _ended(on: StoreContract, store: Store, make: Factory) -> None:
    """Runs that failed, in turn with a large definition, result and error. Some letters are settled with a note."""
    executor, job = await on.register(store), make.recurring(make.now + 3600.0, key=BUSY)
    await on.add(store, job)
    runs = [
        make.run(job.job_id, make.now - 60.0 + place, definition=text if place % 3 == 0 else None)
        for place, text in enumerate(TEXTS)
    ]
    await store.runs.add(DEFAULT_NAMESPACE, job.job_id, runs)
    claims = {claimed.run_id: claimed for claimed in await on.claim_freed(store, executor)}
    ends = [
        outcome(
            claims[run.run_id],
            RunState.FAILED,
            result=text if place % 3 == 1 else None,
            error=text if place % 3 == 2 else "no!",
        )
        for place, (run, text) in enumerate(zip(runs, TEXTS, strict=True))
    ]
    assert await on.finish(store, executor, *ends) == []
    notes = [Settlement(run.run_id, LetterStatus.DISCARDED, _text(8_000, 99)) for run in runs[::4]]
    await store.letters.settle(DEFAULT_NAMESPACE, notes, by="ada")


async def _operations(_on: StoreContract, store: Store, make: Factory) -> None:
    for place, text in enumerate(TEXTS):
        await store.operations.add(make.operation(operation_id=make.identifier(float(place)), request=text))


async def _tasks(_on: StoreContract, store: Store, make: Factory) -> None:
    """Several tasks, and one in several versions."""
    for place, text in enumerate(TEXTS):
        await store.tasks.put(make.task(task_id=f"task-{place}", task=text, digest=f"{place:064}"))
        await store.tasks.put(make.task(task_id="grown", task=text, digest=f"{place + 100:064}"))


async def _rules(_on: StoreContract, store: Store, make: Factory) -> None:
    """Names whose order is that of their code points."""
    for kind in RuleKind:
        for name, text in zip("Zeß aAé-_", TEXTS, strict=True):
            await store.rules.put(make.rule(name, kind, body=text))


async def _audit(_on: StoreContract, store: Store, make: Factory) -> None:
    """Entries with a large text before, after or beside, and some with many ids, as those of batches are."""
    source = Source(CallerKind.KEY, None, "ada")
    for place, text in enumerate(TEXTS):
        entry = AuditEntry(DEFAULT_NAMESPACE, AuditAction.JOB_CREATED, source, "job")
        if place % 4 == 3:
            entry = entry._replace(targets=[make.identifier() for _ in range(700 * place)])
        else:
            before, after, detail = (text if place % 4 == field else None for field in range(3))
            entry = entry._replace(before=before, after=after, detail=detail)
        await store.audit.add([entry])


# ------------------------------------------------------------------------------------------ read


def _read_jobs(**asked: Any) -> Read:
    async def read(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
        given = {"namespace": DEFAULT_NAMESPACE, **asked}
        return await store.searches.jobs(JobQuery(**given, before=cursor, limit=limit, bytes_most=bytes_most))

    return read


def _read_runs(**asked: Any) -> Read:
    async def read(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
        given = {"namespace": DEFAULT_NAMESPACE, **asked}
        return await store.searches.runs(RunQuery(**given, before=cursor, limit=limit, bytes_most=bytes_most))

    return read


async def _read_runs_of_job(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
    job = await store.jobs.get(DEFAULT_NAMESPACE, BUSY)
    assert job is not None
    return await _read_runs(job_id=job.job_id)(store, cursor, limit, bytes_most)


async def _read_letters(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
    return await store.searches.letters(
        LetterQuery(
            namespace=DEFAULT_NAMESPACE,
            expire_seconds=30 * DAY_SECONDS,
            before=cursor,
            limit=limit,
            bytes_most=bytes_most,
        )
    )


async def _read_operations(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
    return await store.searches.operations(DEFAULT_NAMESPACE, cursor, limit, bytes_most=bytes_most)


async def _read_tasks(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
    return await store.tasks.page(DEFAULT_NAMESPACE, cursor, limit, bytes_most=bytes_most)


async def _read_versions(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
    return await store.tasks.versions(DEFAULT_NAMESPACE, "grown", before=cursor, limit=limit, bytes_most=bytes_most)


def _read_rules(kind: RuleKind) -> Read:
    async def read(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
        given = RuleQuery(namespace=DEFAULT_NAMESPACE, kind=kind, after=cursor, limit=limit, bytes_most=bytes_most)
        return await store.rules.find(given)

    return read


def _read_audit(*, ascending: bool, **asked: Any) -> Read:
    async def read(store: Store, cursor: Any, limit: int, bytes_most: int | None) -> Page[Any]:
        given = {"namespace": DEFAULT_NAMESPACE, "ascending": ascending, **asked}
        return await store.audit.find(AuditQuery(**given, beyond=cursor, limit=limit, bytes_most=bytes_most))

    return read


def _audit_place(row: Any) -> Any:
    return AuditPlace(row.at, row.entry)


def _listed(row: Any) -> Any:
    return row.listed


def _run_id(row: Any) -> Any:
    return row.run_id


def _name(row: Any) -> Any:
    return row.name


LISTINGS: Final = {
    "jobs": Listing(_jobs, _read_jobs(), _listed),
    "jobs of another namespace": Listing(_jobs, _read_jobs(namespace=AWAY), _listed),
    "jobs by name": Listing(_jobs, _read_jobs(name="clean"), _listed),
    "jobs by status": Listing(_jobs, _read_jobs(statuses=(JobStatus.SCHEDULED,)), _listed),
    "runs": Listing(_waiting, _read_runs(), _run_id),
    "runs of another namespace": Listing(_waiting, _read_runs(namespace=AWAY), _run_id),
    "runs of a job": Listing(_waiting, _read_runs_of_job, _run_id),
    "ended runs": Listing(_ended, _read_runs(), _run_id),
    "runs by state": Listing(_ended, _read_runs(states=(RunState.FAILED,)), _run_id),
    "dead letters": Listing(_ended, _read_letters, lambda row: row.run.run_id),
    "operations": Listing(_operations, _read_operations, lambda row: row.operation_id),
    "tasks": Listing(_tasks, _read_tasks, lambda row: row.task_id),
    "versions of a task": Listing(_tasks, _read_versions, lambda row: row.version),
    "calendars": Listing(_rules, _read_rules(RuleKind.CALENDAR), _name),
    "audit log": Listing(_audit, _read_audit(ascending=False), _audit_place),
    "audit log, oldest first": Listing(_audit, _read_audit(ascending=True), _audit_place),
    "audit log of a caller": Listing(_audit, _read_audit(ascending=False, namespace=None, actor="ada"), _audit_place),
    "windows": Listing(_rules, _read_rules(RuleKind.WINDOW), _name),
}


def _without(row: RunRow, texts: frozenset[RunText]) -> RunRow:
    """The run with these texts only."""
    definition = row.definition if RunText.DEFINITION in texts else None
    return row._replace(definition=definition, result=row.result if RunText.RESULT in texts else None)


class PagesContract(StoreContract):
    """`bytes_most` of each listing."""

    @pytest.fixture(params=LISTINGS)
    async def listing(self, request: pytest.FixtureRequest, store: Store, make: Factory) -> Listing:
        """A listing, filled."""
        found = LISTINGS[request.param]
        await found.fill(self, store, make)
        return found

    async def test_a_page_is_cut_before_it_holds_more_than_its_bound(self, store: Store, listing: Listing) -> None:
        """To the byte, with one row at least; it says that it was cut, and only then."""
        rows = await listing.read(store, None, ALL, None)
        assert len(rows) >= len(TEXTS)
        assert not rows.cut
        for total in accumulate(row.text_bytes for row in rows):
            for most in (total - 1, total):
                page, expected = await listing.read(store, None, ALL, most), page_within(rows, most)
                assert (page, page.cut) == (expected, expected.cut), most

    async def test_pages_that_were_cut_join(self, store: Store, listing: Listing) -> None:
        """A caller that goes on behind the last row while there may be more sees each row once, in order."""
        rows = await listing.read(store, None, ALL, None)
        for most, limit in ((0, ALL), (25_000, ALL), (25_000, 2), (90_000, 3), (1 << 20, 4)):
            seen: list[Any] = []
            page = await listing.read(store, None, limit, most)
            while page:
                assert len(page) == 1 or sum(row.text_bytes for row in page) <= most
                seen += page
                if not page.is_full(limit):
                    break
                page = await listing.read(store, listing.cursor(page[-1]), limit, most)
            assert seen == list(rows), (most, limit)

    async def test_a_limit_is_no_cut(self, store: Store, listing: Listing) -> None:
        """A page of as many rows as were asked for is full, and was not cut by that; it holds them all."""
        rows = await listing.read(store, None, ALL, None)
        page = await listing.read(store, None, 4, 1 << 20)
        assert (list(page), page.cut, page.is_full(4)) == (rows[:4], False, True)
        last = await listing.read(store, listing.cursor(rows[-2]), 4, 1 << 20)
        assert (list(last), last.cut, last.is_full(4)) == (rows[-1:], False, False)

    async def test_a_search_that_finds_nothing_was_not_cut(self, store: Store) -> None:
        """A bound of nothing cuts nothing off."""
        for listing in (
            "jobs",
            "runs",
            "dead letters",
            "operations",
            "tasks",
            "versions of a task",
            "calendars",
            "audit log",
        ):
            page = await LISTINGS[listing].read(store, None, ALL, 0)
            assert (list(page), page.cut) == ([], False), listing

    @pytest.mark.parametrize("texts", [NO_TEXT, *(frozenset({text}) for text in RunText)], ids=repr)
    async def test_texts_that_are_not_asked_for_do_not_come_and_have_no_size(
        self, store: Store, make: Factory, texts: frozenset[RunText]
    ) -> None:
        """Of runs of every search, and of those of dead letters."""
        await _ended(self, store, make)
        job = await store.jobs.get(DEFAULT_NAMESPACE, BUSY)
        assert job is not None
        plain = RunQuery(namespace=DEFAULT_NAMESPACE, limit=ALL)
        for query in (plain, replace(plain, job_id=job.job_id), replace(plain, states=(RunState.FAILED,))):
            rows = await store.searches.runs(query)
            expected = [_without(row, texts) for row in rows]
            assert expected != list(rows)
            assert list(await store.searches.runs(replace(query, texts=texts))) == expected
            page = await store.searches.runs(replace(query, texts=texts, bytes_most=90_000))
            assert page == page_within(expected, 90_000)
        whole = LetterQuery(namespace=DEFAULT_NAMESPACE, expire_seconds=30 * DAY_SECONDS, limit=ALL)
        letters = [replace(row, run=_without(row.run, texts)) for row in await store.searches.letters(whole)]
        assert list(await store.searches.letters(replace(whole, texts=texts))) == letters
        cut = await store.searches.letters(replace(whole, texts=texts, bytes_most=90_000))
        assert cut == page_within(letters, 90_000)

    async def test_a_count_knows_no_bound(self, store: Store, make: Factory) -> None:
        """It ships nothing."""
        await _jobs(self, store, make)
        await _ended(self, store, make)
        jobs, failed = JobQuery(namespace=AWAY, bytes_most=0), RunQuery(namespace=DEFAULT_NAMESPACE, bytes_most=0)
        letters = LetterQuery(namespace=DEFAULT_NAMESPACE, expire_seconds=30 * DAY_SECONDS, bytes_most=0)
        assert [len(TEXTS)] * 3 == [await store.searches.count(query) for query in (jobs, failed, letters)]
