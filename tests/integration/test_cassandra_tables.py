"""The readable tables of a keeper on a real node: what people read there is what the state says."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.cassandras import CLOCK, keyspace, linked, next_shard
from tests.support.readable import wrong_rows
from tests.support.table_rows import end_claimed, end_runs, rows_in
from tests.support.waiting import eventually
from tests.unit.adapters.keeper.test_recording import life_of_runs
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable import rows
from tickwise.adapters.store.cassandra.readable.listings import TableListings
from tickwise.adapters.store.cassandra.readable.tables import IDS, TABLE_NAMES, rebuild_readable
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.cassandra.schema import upgrade
from tickwise.adapters.store.keeper.readable import projector
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.readable.tables import JOBS, RUNS, PartitionDrop, RowWrite, hour_of, run_part
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import RunState
from tickwise.ports.audit import AuditQuery
from tickwise.ports.store import RunQuery
from tickwise.testing.factories import Factory

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """New runs wait for their end for a moment."""
    monkeypatch.setattr(projector, "HELD_SECONDS", 0.1)


@pytest_asyncio.fixture(scope="module")
async def link(cassandra_url: str) -> AsyncIterator[CassandraLink]:
    """One session for the tests of this module. Its statements may wait for a change of the schema."""
    async with linked(cassandra_url, answer_seconds=20.0) as opened:
        yield opened


class Keeper:
    """A keeper of one shard, with its projector."""

    def __init__(self, link: CassandraLink, shard: int) -> None:
        self.link, self.shard = link, shard
        self.projector = TableProjector(CassandraTables(link, shard), CLOCK, shard=shard)
        self.store = KeeperStore(CassandraLog(link, shard, lease_seconds=30.0), CLOCK, projection=self.projector)

    async def projected(self) -> None:
        """Wait until the tables have all of the log; they may be made anew just now, when nobody is to wait for
        them."""

        async def have_all() -> bool:
            await self.projector.reached(self.store.position)
            return self.projector.position >= self.store.position

        await eventually(have_all)

    async def wrong(self) -> dict[str, Any]:
        """What is in the tables and not so in the state, or the other way round."""
        await self.projected()
        return wrong_rows(await rows_in(self.link), self.store.memory.state, self.shard)


@contextlib.asynccontextmanager
async def keeping(link: CassandraLink, shard: int) -> AsyncIterator[Keeper]:
    """A keeper that owns a shard. The tables hold nothing else."""
    keeper = Keeper(link, shard)
    await keeper.store.open()
    try:
        yield keeper
    finally:
        await keeper.store.close()


@pytest_asyncio.fixture
async def keeper(link: CassandraLink) -> AsyncIterator[Keeper]:
    """One on empty tables."""
    for name in TABLE_NAMES:
        await link.run(f"TRUNCATE {name}")
    async with keeping(link, next_shard()) as made:
        yield made


def entry(namespace: str, number: int) -> AuditEntry:
    """An entry of the audit log."""
    source = Source(CallerKind.PROGRAM, None, f"caller {number}")
    return AuditEntry(namespace, AuditAction.JOB_PAUSED, source, "job", target=str(number), detail='{"why":"test"}')


async def test_the_tables_are_what_the_state_is(keeper: Keeper) -> None:
    """Jobs, timers, runs, attempts with their tokens, audit entries: after runs that waited, ended and are tried
    again."""
    await life_of_runs(keeper.store)
    await end_runs(keeper.store, 20, "more")
    await keeper.store.audit.add([entry("default", number) for number in range(3)])
    assert {} == await keeper.wrong()
    tables = await rows_in(keeper.link)
    assert 23 == len(tables["jobs"])
    assert {"SUCCESS", "FAILED", "RETRYING", "QUEUED"} >= {row["state"] for row in tables["runs"].values()}
    tokens = {run.token for run in keeper.store.memory.state.ended.values()}
    assert tokens <= {key[-1] for key in tables["attempts"]}


async def test_writes_twice_and_in_any_order_change_nothing(link: CassandraLink, keeper: Keeper) -> None:
    """On the node itself: a row that was deleted stays so, and no older value comes back."""
    tables = CassandraTables(link, keeper.shard)
    at = hour_of(round(1_000 * CLOCK.now()))
    make = Factory(CLOCK.now(), seed="order")
    jobs = [make.job() for _ in range(3)]
    keys = [("order", at, run_part(job.job_id), job.job_id, job.run_id) for job in jobs]
    kept, gone, dropped = keys
    writes: list[tuple[list[RowWrite], PartitionDrop | None]] = [
        ([RowWrite(RUNS, kept, 5, {"state": "QUEUED", "attempt": 0, "ready_at": at})], None),
        ([RowWrite(RUNS, kept, 7, {"state": "RUNNING", "attempt": 1, "executor": 9})], None),
        ([RowWrite(RUNS, kept, 9, {"state": "SUCCESS", "ready_at": None, "result": "7"})], None),
        ([RowWrite(RUNS, gone, 5, {"state": "QUEUED"})], None),
        ([RowWrite(RUNS, gone, 8, None)], None),
        ([RowWrite(RUNS, dropped, 6, {"state": "SUCCESS"})], None),
        ([], PartitionDrop("runs", dropped[:3], 8)),
        ([RowWrite(RUNS, dropped, 8, {"state": "FAILED"})], None),
    ]
    for write in [*reversed(writes), *writes, *writes[3:], *writes[:2]]:
        await tables.write(*write)
    assert {kept: {"state": "SUCCESS", "attempt": 1, "executor": 9, "result": "7"}} == (await rows_in(link))["runs"]
    (row,) = await link.run("SELECT writetime(state), writetime(attempt) FROM runs")
    assert (9, 7) == row, "the timestamp is the position in the log"


async def _end_lease(link: CassandraLink, shard: int) -> None:
    """Take the shard from an owner that is dead and give it back: the next one need not wait for a lease that is long
    enough for a busy machine."""
    log = CassandraLog(link, shard)
    await log.seize("after a death", "")
    await log.release()


@pytest.mark.takes_up_to(360)
@pytest.mark.parametrize(("load", "number"), [("runs", 100), ("timers", 8_000)])
async def test_a_keeper_that_is_killed_between_commit_and_projection_loses_no_row(
    cassandra_url: str, link: CassandraLink, tmp_path: Path, load: str, number: int
) -> None:
    """`kill -9`, twice: the next owner writes what was acknowledged and not projected, from the log. In a load of
    timers some rows of a window are written by then, others are not, and the rest was never read."""
    for name in TABLE_NAMES:
        await link.run(f"TRUNCATE {name}")
    shard, acknowledged = next_shard(), 0
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.support.table_writer", cassandra_url, str(shard), load,
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        assert process.stdout is not None
        done, is_behind = 0, False
        async with asyncio.timeout(150):
            while done < number or not is_behind:
                line = (await process.stdout.readline()).split()
                assert line, "the keeper has ended"
                if line[0] == b"done":
                    done, is_behind = int(line[1]), line[2] == b"True"
        process.kill()
        await process.wait()
        acknowledged += done
        await _end_lease(link, shard)
    async with keeping(link, shard) as keeper:
        assert {} == await keeper.wrong()
        assert 0 == keeper.projector.rebuilds, "it began anew"
        assert acknowledged <= len(keeper.store.memory.state.jobs)


@pytest.mark.parametrize("lost", ["runs", "all", "by command"])
async def test_lost_tables_are_made_anew(cassandra_url: str, link: CassandraLink, keeper: Keeper, lost: str) -> None:
    """The keeper goes on without them. Once `db upgrade` or a command has made them, it writes every row anew from its
    checkpoint and log."""
    await life_of_runs(keeper.store)
    await end_runs(keeper.store, 10, "first")
    await keeper.store.audit.add([entry("default", 1)])
    await keeper.projected()
    await keeper.store.keep_checkpoint()
    await end_runs(keeper.store, 10, "behind the checkpoint")
    assert {} == await keeper.wrong()
    generation = keeper.projector.generation
    address = read_address(cassandra_url)
    if lost == "by command":
        assert generation < await rebuild_readable(address, CLOCK)
    else:
        for name in TABLE_NAMES if lost == "all" else [lost]:
            await link.run(f"DROP TABLE {name}")
        await end_runs(keeper.store, 5, "meanwhile")
        await upgrade(address, CLOCK)
    await eventually(lambda: keeper.projector.generation > generation, within_seconds=60.0)
    await end_runs(keeper.store, 5, "after")
    assert {} == await keeper.wrong()
    tables = await rows_in(link)
    assert len(keeper.store.memory.state.ended) == sum("ended_at" in row for row in tables["runs"].values())
    assert 1 == len(tables["audit"])


async def test_rows_of_many_shapes_share_a_statement(
    link: CassandraLink, keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the sets of columns that have statements of their own: what is not set stays as it is."""
    monkeypatch.setattr(rows, "SHAPES", 1)
    tables = CassandraTables(link, keeper.shard)
    key = ("shapes", 0, Factory(CLOCK.now(), seed="shapes").job().job_id)
    shapes: tuple[dict[str, Any], ...] = (
        {"name": "first"},
        {"version": 7, "labels": {"a": "b"}},
        {"requires": ["gpu"], "recurring": True},
        {},
    )
    for position, columns in enumerate(shapes, start=1):
        await tables.write([RowWrite(JOBS, key, position, columns)], None)
    await tables.write([RowWrite(JOBS, key, 9, {"labels": None, "next_due_at": 1_800_000_000_123})], None)
    expected = {"name": "first", "version": 7, "requires": ["gpu"], "recurring": True, "next_due_at": 1_800_000_000_123}
    assert {key: expected} == {name: row for name, row in (await rows_in(link))["jobs"].items() if name == key}


@pytest.mark.parametrize("wrong", [{"version": "seven"}, {"version": 1 << 40}, {"name": 7}])
async def test_a_value_that_no_column_takes_is_a_fault_of_its_row(
    link: CassandraLink, keeper: Keeper, wrong: dict[str, Any]
) -> None:
    """The projector leaves such a row out; it must not take it for a node that is away."""
    key = ("wrong", 0, Factory(CLOCK.now(), seed="wrong").job().job_id)
    with pytest.raises(Bug, match="jobs does not fit"):
        await CassandraTables(link, keeper.shard).write([RowWrite(JOBS, key, 1, wrong)], None)


async def test_several_machines_may_make_lost_tables_at_once(cassandra_server_url: str) -> None:
    """All of them make the tables of one generation, and none is missing."""
    async with keyspace(cassandra_server_url) as url:
        address = read_address(url)
        async with linked(address, answer_seconds=20.0) as link:
            await link.run("DROP TABLE attempts")
            await asyncio.gather(*(upgrade(address, CLOCK) for _ in range(3)))
            place = await CassandraTables(link, 0).place()
            assert place.generation > 1
            assert place.position is None
            there = set(map(tuple, await link.ask("generation_tables", address.keyspace)))
            ids = {(name, uuid.uuid5(IDS, f"{address.keyspace}.{name}.{place.generation}")) for name in TABLE_NAMES}
            assert ids <= there


async def test_listings_of_the_tables_are_those_of_the_store(link: CassandraLink, keeper: Keeper) -> None:
    """Ended runs of a job, page by page and by their conditions, over several hours; attempts; audit entries."""
    store, now = keeper.store, await keeper.store.now()
    make = Factory(now, seed="listings")
    job = make.recurring(now + 86_400)
    await store.jobs.add([job])
    dues = [now - 3_600 * hours - 60 * place for hours in (0, 1, 5) for place in range(4)]
    for due in dues:
        assert await store.runs.add("default", job.job_id, [make.run(job.job_id, due)])
    await end_claimed(store)
    await store.audit.add([entry("default", number) for number in range(7)])
    await keeper.projected()
    listings = TableListings(link)
    query = RunQuery(namespace="default", job_id=job.job_id)
    everything = list(await store.searches.runs(query))
    assert len(dues) == len(everything)
    pages: list[Any] = []
    while page := await listings.runs(replace(query, limit=5, before=pages[-1].run_id if pages else None)):
        pages += page
    assert [in_ms(row) for row in everything] == pages
    for asked in (
        replace(query, states=[RunState.FAILED]),
        replace(query, after=everything[6].run_id),
        replace(query, due_after=in_ms(everything[6]).due_at, limit=3),
    ):
        assert [in_ms(row) for row in await store.searches.runs(asked)] == list(await listings.runs(asked))
    run = everything[3]
    assert in_ms(run) == await listings.run("default", job.job_id, run.run_id)
    attempts = await listings.attempts("default", job.job_id, run.run_id)
    assert [each.token for each in await store.runs.attempts(run.run_id)] == [each.token for each in attempts]
    for search in (
        AuditQuery(namespace="default"),
        AuditQuery(namespace="default", limit=2),
        AuditQuery(namespace="default", target="3"),
    ):
        entries = [
            replace(row, at=math.floor(row.at * 1_000) / 1_000, targets=list(row.targets))
            for row in await store.audit.find(search)
        ]
        assert entries == list(await listings.audit(search))


def in_ms(row: Any) -> Any:
    """A run with its times in whole ms, as the tables have them."""
    times = ("due_at", "queued_at", "dispatched_at", "started_at", "ended_at", "ready_at", "nominal_at", "until")
    cut = {name: getattr(row, name) for name in times}
    return row._replace(
        **{name: None if value is None else math.floor(value * 1_000) / 1_000 for name, value in cut.items()}
    )
