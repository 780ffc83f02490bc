"""`tickwise doctor history` over a PostgreSQL: what the product leaves on record is valid, a lost run is found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import asyncpg
import pytest_asyncio

from tests.support.local_up import Ran, environment, run_command
from tests.support.recorded import PLAIN, Recorded, Scene
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.testing.clock import ShiftedClock


class Database(NamedTuple):
    """One with records."""

    url: str
    recorded: Recorded

    def doctor(self, *options: str) -> Ran:
        """`tickwise doctor history` on it."""
        return run_command(["doctor", "history", "--database", self.url, *options], environment())

    async def execute(self, sql: str, *values: object) -> None:
        """Something that only an operator can do."""
        connection = await asyncpg.connect(self.url)
        await connection.execute(sql, *values)
        await connection.close()


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    await upgrade(database_url)
    clock = ShiftedClock()
    store = PostgresStore(database_url, clock=clock)
    await store.open()

    shifted_seconds = 0.0

    async def shift(seconds: float) -> None:
        nonlocal shifted_seconds
        shifted_seconds += seconds
        clock.shift(seconds)
        await store.shift(shifted_seconds, start_seconds=0.0)

    recorded = await Scene(store, shift).play()
    await store.close()
    yield Database(database_url, recorded)


async def test_the_records_of_the_product_are_valid(database: Database) -> None:
    """And what they cannot show is said."""
    ran = database.doctor("--json", "--to", "2099-01-01")
    assert 0 == ran.code, f"{ran.out}{ran.err}"
    assert ("valid", []) == (ran.json["status"], ran.json["findings"])
    expected = {"runs": PLAIN + 4, "ended": PLAIN + 3, "attempts": 4, "one_time_jobs_over": PLAIN + 3, "executors": 2}
    assert expected == ran.json["counts"]
    assert ran.json["unseen"]
    told = database.doctor("--to", "2099-01-01").out
    lines = [f"{PLAIN + 4}  runs with a nominal time in the period", f"{PLAIN + 3}  of these runs have ended"]
    assert lines == [line.strip() for line in told.splitlines() if "runs with" in line or "of these" in line]
    assert "4  attempts of the ended runs that had more than one" in told


async def test_a_run_that_is_gone_is_found(database: Database) -> None:
    """It names the job, and the exit code is that of a doctor who found something."""
    lost = database.recorded.plain[0]
    await database.execute("DELETE FROM tickwise.history WHERE job_id = $1", lost)
    ran = database.doctor()
    assert 1 == ran.code
    assert f"lost: the one-time job {lost}" in ran.out


async def test_an_attempt_that_was_never_lost_is_found(database: Database) -> None:
    """A run whose earlier attempt had ended it already."""
    await database.execute("UPDATE tickwise.attempts SET state = 5 WHERE reason = 'lease_lost'")
    ran = database.doctor()
    assert 1 == ran.code
    assert "terminal-left: " in ran.out


async def test_a_time_without_records_is_unknown_and_that_is_no_success(database: Database) -> None:
    """A script that asks about the wrong day, or the wrong namespace, must not be told that all is well."""
    for options in (["--from", "2020-01-01", "--to", "2020-01-02"], ["--namespace", "nobody"]):
        ran = database.doctor(*options)
        assert 1 == ran.code
        assert "history: unknown" in ran.out


async def test_what_cannot_be_read_is_said_with_what_to_write(database: Database) -> None:
    """Times the wrong way round, no time at all, the option before the command."""
    for options, said in (
        (["--from", "1h", "--to", "2h"], "--from must be before --to"),
        (["--from", "soon"], "--from: 'soon' is no time"),
    ):
        ran = database.doctor(*options)
        assert 2 == ran.code
        assert said in ran.err
    ran = run_command(["doctor", "--database", database.url, "history"], environment())
    assert 2 == ran.code
    assert "write --database after `history`" in ran.err
