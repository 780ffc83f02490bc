"""`tickwise doctor history`, over a store in memory: good records are valid, and each thing wrong in them is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.recorded import PLAIN, Recorded, Scene
from tickwise.adapters.store.memory import MemoryStore
from tickwise.domain.errors import Misconfigured
from tickwise.domain.history.checker import FindingKind, HistoryVerdict, Status
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import AttemptRow, ExecutorRow, Page, RunQuery, RunRow
from tickwise.ports.store.wrapping import WrappedStore
from tickwise.testing.clock import VirtualClock
from tickwise.wiring import history
from tickwise.wiring.history import HistoryPeriod, judge_database, judge_records

DAY = 86_400.0


class Distorted(WrappedStore):
    """A store whose records are told otherwise."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._store = store
        self.searches.runs = self._runs
        self.runs.attempts = self._attempts
        self.executors.all = self._executors
        self.told_runs: dict[UUID, dict[str, Any]] = {}
        """By job: what its runs are told as."""
        self.hidden: set[UUID] = set()
        """Jobs whose runs are not told."""
        self.told_attempts: dict[int, dict[str, Any]] = {}
        """By attempt number: what these are told as."""
        self.gone_earlier_seconds = 0.0
        self.asked: list[RunQuery] = []

    async def _runs(self, query: RunQuery) -> Page[RunRow]:
        self.asked.append(query)
        rows = await self._store.searches.runs(query)
        told = (row._replace(**self.told_runs.get(row.job_id, {})) for row in rows if row.job_id not in self.hidden)
        return Page(told, cut=rows.cut)

    async def _attempts(self, run_id: UUID) -> Sequence[AttemptRow]:
        rows = await self._store.runs.attempts(run_id)
        return [replace(row, **self.told_attempts.get(row.attempt, {})) for row in rows]

    async def _executors(self, between: tuple[float, float] | None = None) -> Sequence[ExecutorRow]:
        rows = await self._store.executors.all(between)
        return [
            row if row.gone_at is None else replace(row, gone_at=row.gone_at - self.gone_earlier_seconds)
            for row in rows
        ]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def archive(clock: VirtualClock) -> Distorted:
    return Distorted(MemoryStore(clock))


@pytest_asyncio.fixture
async def recorded(archive: Distorted, clock: VirtualClock) -> Recorded:
    return await Scene(archive._store, clock.advance).play()


async def judged(archive: Any, *, begin: float = -DAY, end: float = 60.0) -> HistoryVerdict:
    """Of a day until now."""
    now = await archive.now()
    return await judge_records(archive, HistoryPeriod(begin=now + begin, end=now + end))


async def test_good_records_are_valid(archive: Distorted, recorded: Recorded) -> None:
    """Retried, lost, cancelled and active runs among them; what records cannot show is said."""
    verdict = await judged(archive)
    assert (Status.VALID, ()) == (verdict.status, verdict.findings), verdict.as_text()
    expected = {"runs": PLAIN + 4, "ended": PLAIN + 3, "attempts": 4, "one_time_jobs_over": PLAIN + 3, "executors": 2}
    assert expected == verdict.counts
    assert "only a witness can tell" in verdict.as_text()


@pytest.mark.parametrize("page", [1, 2, 3, 5])
async def test_pages_of_any_size_come_to_the_same(
    archive: Distorted, recorded: Recorded, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing falls between two pages, and none is longer than asked."""
    whole = await judged(archive)
    monkeypatch.setattr(history, "PAGE", page)
    archive.asked.clear()
    assert whole == await judged(archive)
    assert {page} == {query.limit for query in archive.asked}


async def test_pages_that_are_cut_come_to_the_same(
    archive: Distorted, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large jobs a page is short, and not the last one by that."""
    whole = await judged(archive)
    monkeypatch.setattr(history, "PAGE_BYTES", 1)
    assert whole == await judged(archive)
    archive.hidden = {recorded.plain[0]}
    assert recorded.plain[0] in {found.job_id for found in (await judged(archive)).findings}


async def test_nothing_on_record_is_unknown(archive: Distorted, recorded: Recorded) -> None:
    """An empty time shows nothing, and that is no praise."""
    assert Status.UNKNOWN is (await judged(archive, begin=-2 * DAY, end=-DAY)).status


async def test_what_lives_is_no_history(archive: Distorted, clock: VirtualClock, recorded: Recorded) -> None:
    """Runs that have not ended show nothing yet."""
    archive.hidden = {*recorded.plain, recorded.retried, recorded.lost}
    archive.told_runs = {recorded.alive: {"state": RunState.RUNNING}}
    verdict = await judged(archive)
    assert 1 < verdict.counts["runs"]
    assert FindingKind.NOT_TERMINAL not in verdict.kinds()


async def test_a_one_time_job_without_a_run_is_lost(archive: Distorted, recorded: Recorded) -> None:
    """Its job says that it is over."""
    archive.hidden = {recorded.plain[2]}
    verdict = await judged(archive)
    [found] = verdict.findings
    assert (FindingKind.LOST, recorded.plain[2]) == (found.kind, found.job_id)


async def test_a_run_outside_of_the_time_is_no_loss(archive: Distorted, recorded: Recorded) -> None:
    """Jobs of this time whose runs are of another are asked for by themselves."""
    archive.told_runs = {recorded.plain[0]: {"nominal_at": 0.0}}
    assert (await judged(archive)).valid


CASES: list[tuple[FindingKind, dict[str, Any]]] = [
    (FindingKind.EARLY_START, {"due_at": 1_900_000_000.0}),
    (FindingKind.TOO_MANY_ATTEMPTS, {"crashes": 4}),
]


@pytest.mark.parametrize(("kind", "wrong"), CASES, ids=[str(kind) for kind, _ in CASES])
async def test_a_wrong_record_is_found(
    archive: Distorted, recorded: Recorded, kind: FindingKind, wrong: dict[str, Any]
) -> None:
    """By the run alone."""
    archive.told_runs = {recorded.plain[1]: wrong}
    verdict = await judged(archive)
    assert kind in verdict.kinds(), verdict.as_text()
    assert not verdict.valid


GONE = 1
"""Stands for the number of the executor that was lost."""
ATTEMPTS: list[tuple[FindingKind, dict[int, dict[str, Any]]]] = [
    (FindingKind.ILLEGAL_TRANSITION, {2: {"state": RunState.RETRYING}}),
    (FindingKind.TERMINAL_LEFT, {1: {"state": RunState.SUCCESS}}),
    (FindingKind.TOKEN_REUSED, {1: {"token": 77}, 2: {"token": 77}}),
    (FindingKind.TOKEN_NOT_INCREASED, {1: {"attempt": 2}, 2: {"attempt": 1}}),
    (FindingKind.LATE_START, {2: {"executor": GONE}}),
]


@pytest.mark.parametrize(("kind", "wrong"), ATTEMPTS, ids=[str(kind) for kind, _ in ATTEMPTS])
async def test_wrong_attempts_are_found(
    archive: Distorted, recorded: Recorded, kind: FindingKind, wrong: dict[int, dict[str, Any]]
) -> None:
    """An ended run's attempts are told as a walk, and the walk is judged as a journal is."""
    [gone] = [row.executor for row in await archive.executors.all() if row.gone_at is not None]
    archive.told_attempts = {
        attempt: {**told, "executor": gone} if told.get("executor") == GONE else told for attempt, told in wrong.items()
    }
    archive.gone_earlier_seconds = 5.0
    verdict = await judged(archive)
    assert kind in verdict.kinds(), verdict.as_text()


async def test_more_attempts_than_are_counted_are_found(archive: Distorted, recorded: Recorded) -> None:
    """The count and the list are kept apart, so they can be held against each other."""
    archive.told_runs = {recorded.lost: {"attempt": 1, "crashes": 1}}
    assert {FindingKind.TOO_MANY_ATTEMPTS} == (await judged(archive)).kinds()


@pytest.mark.parametrize("address", [None, "memory://"])
def test_without_a_database_it_says_what_to_name(address: str | None) -> None:
    """Records in another process's memory cannot be read."""
    with pytest.raises(Misconfigured, match="--database"):
        judge_database(address, HistoryPeriod(begin=0.0, end=1.0))
