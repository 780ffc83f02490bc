"""The queries of `docs/reference/cassandra-tables.md`, as they stand there, on a real node."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final
from uuid import UUID

import pytest_asyncio

from tests.support.cassandras import CLOCK, keyspace, linked
from tests.support.local_up import ROOT
from tests.support.table_rows import end_claimed
from tests.support.waiting import eventually
from tickwise.adapters.store.cassandra.link import CassandraLink
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.cassandra.readable.writing import CassandraTables
from tickwise.adapters.store.keeper.readable.projector import TableProjector
from tickwise.adapters.store.keeper.store import KeeperStore
from tickwise.domain.audit import AuditAction, AuditEntry, CallerKind, Source
from tickwise.ports.store import NewJob, NewRun
from tickwise.testing.factories import Factory

PAGE: Final = (ROOT / "docs/reference/cassandra-tables.md").read_text()
JOB: Final = "01a3185c-5000-8ea5-bf54-a73d1efc13d3"
RUN: Final = "01a3185c-5000-8a35-9c46-5c3f0aa1c5b7"
KEYS: Final = ("3", "19", "2027-01-15 08:00Z")
"""What the page says of these two: part of jobs, part of runs, hour."""
SHARD: Final = 1


class Queries:
    """The page's statements about one job, with its ids and keys put in."""

    def __init__(self, link: CassandraLink, job: UUID, run: UUID) -> None:
        self.link = link
        self.job, self.run = job, run
        self.keys = keys_of(str(job), str(run))
        self.asked: set[str] = set()
        """The statements of the page that were run."""

    async def __call__(self, beginning: str, *containing: str) -> list[dict[str, Any]]:
        """The rows that answer the one statement of the page that begins so and contains that. By column."""
        (found,) = [
            each for each in statements() if each.startswith(beginning) and all(part in each for part in containing)
        ]
        self.asked.add(found)
        here = found.replace(JOB, str(self.job)).replace(RUN, str(self.run))
        here = re.sub(r"\bpart = 3\b", f"part = {self.keys[0]}", here)
        here = re.sub(r"\bpart = 19\b", f"part = {self.keys[1]}", here)
        here = here.replace(KEYS[2], self.keys[2]).replace("shard = 0", f"shard = {SHARD}")
        here = here.replace("2027-01-15 08:12:30Z", self.keys[2])
        named = re.match(r"SELECT (?:DISTINCT )?(.+?) FROM", found)
        assert named is not None
        columns = ["namespace", "part", "job_id"] if named[1] == "*" else named[1].split(", ")  # a key begins its row
        return [dict(zip(columns, row, strict=named[1] != "*")) for row in await self.link.run(here)]


def statements() -> Iterator[str]:
    """Each CQL statement of the page's blocks, without comments."""
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.MULTILINE):
        text = re.sub(r"--.*", "", textwrap.dedent(block))
        yield from (each.strip() for each in text.split(";") if each.strip().startswith("SELECT"))


def keys_of(job: str, run: str) -> tuple[str, ...]:
    """What the program of the page prints for these ids."""
    (program,) = re.findall(r"<<'END'\n(.*?)\n    END\n", PAGE, re.DOTALL)
    printed = subprocess.run(
        [sys.executable, "-", job, run], input=textwrap.dedent(program), capture_output=True, text=True, check=True
    ).stdout
    return tuple(line.partition(": ")[2] for line in printed.splitlines())


def test_the_program_prints_the_keys_that_the_page_says() -> None:
    """Its ids are those of the queries behind it."""
    assert f"python3 - {JOB} {RUN} <<" in PAGE
    assert KEYS == keys_of(JOB, RUN)


@pytest_asyncio.fixture
async def written(cassandra_server_url: str) -> AsyncIterator[tuple[CassandraLink, NewJob, NewRun]]:
    """A recurring job that is due in half an hour, its run that failed or succeeded, one-time jobs, and audit entries;
    all of them in the tables."""
    async with keyspace(cassandra_server_url) as url, linked(url, answer_seconds=20.0) as link:
        projector = TableProjector(CassandraTables(link, SHARD), CLOCK, shard=SHARD)
        store = KeeperStore(CassandraLog(link, SHARD, lease_seconds=30.0), CLOCK, projection=projector)
        await store.open()
        try:
            now = await store.now()
            make = Factory(now, seed="queries")
            job = make.recurring(now + 1_800, name="nightly report", labels={"team": "billing"})
            await store.jobs.add([job, make.job(), make.job()])
            run = make.run(job.job_id, now)
            assert await store.runs.add("default", job.job_id, [run])
            await end_claimed(store)
            caller = Source(CallerKind.KEY, None, "ci")
            await store.audit.add(
                [
                    AuditEntry("default", AuditAction.JOB_PAUSED, caller, "job", target=str(job.job_id)),
                    AuditEntry("default", AuditAction.JOB_RESUMED, caller, "job", targets=[job.job_id]),
                    AuditEntry("default", AuditAction.JOB_PAUSED, caller, "job", target=str(make.identifier())),
                ]
            )

            async def has_all() -> bool:
                await projector.reached(store.position)
                return projector.position >= store.position

            await eventually(has_all)
            yield link, job, run
        finally:
            await store.close()


async def test_each_query_of_the_page_answers_its_question(
    written: tuple[CassandraLink, NewJob, NewRun],
) -> None:
    """Jobs, what is due, what ran with which token, and who changed a job; and the reads of one partition."""
    link, job, run = written
    ask = Queries(link, job.job_id, run.run_id)
    this = [job.job_id]

    jobs = await ask("SELECT job_id, name, state, queue")
    assert 3 == len(jobs)
    assert {"default"} == {row["namespace"] for row in await ask("SELECT DISTINCT")}
    assert this == [row["job_id"] for row in await ask("SELECT job_id, name, state, owner")]
    assert this == [row["job_id"] for row in await ask("SELECT * FROM jobs")]
    for condition in re.findall(r"labels CONTAINS (?:KEY )?'\w+'", PAGE):
        parts = ", ".join(map(str, range(16)))
        where = f"namespace = 'default' AND part IN ({parts}) AND {condition} ALLOW FILTERING"
        assert this == [row[0] for row in await link.run(f"SELECT job_id FROM jobs WHERE {where}")]

    assert this == [row["job_id"] for row in await ask("SELECT due_at, namespace, job_id, hold")]
    assert job.due is not None
    in_this_hour = job.due // 3_600 == run.due // 3_600
    due_here = await ask("SELECT due_at, namespace, job_id FROM due")
    assert (this if in_this_hour else []) == [row["job_id"] for row in due_here]

    ran = await ask("SELECT job_id, run_id, execution_token")
    assert 3 == len(ran)
    (mine,) = [row for row in ran if row["run_id"] == run.run_id]
    (claim,) = await ask("SELECT execution_token, attempt")
    assert mine["execution_token"] == claim["execution_token"]
    assert [run.run_id] == [row["run_id"] for row in await ask("SELECT run_id, state, started_at")]

    changes = [(row["source_name"], row["action"]) for row in await ask("SELECT at, action", "target = ")]
    assert [("ci", "job.paused")] == changes
    assert ["job.resumed"] == [row["action"] for row in await ask("SELECT at, action", "targets CONTAINS")]
    assert await ask("SELECT hour FROM audit_hours")
    await ask("SELECT hour FROM run_hours")
    assert set(statements()) == ask.asked, "a query of the page that no test runs"
