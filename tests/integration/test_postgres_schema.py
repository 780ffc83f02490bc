"""The schema is brought up to date by whoever comes first, and nobody works on one that is not theirs."""

from __future__ import annotations

import asyncio
from functools import partial

import asyncpg
import pytest

from tests.support import databases
from tests.support.local_up import environment, run_command
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.postgres import PostgresStore, grant, schema_status, upgrade
from tickwise.adapters.store.postgres.schema import WANTED
from tickwise.domain.errors import Misconfigured, StoreUnavailable


async def pretend(url: str, version: str, serves: str) -> None:
    """Let the database say that it has another schema, which serves programs from that one on."""
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE tickwise.schema_version SET version_num = $1, serves = $2", version, serves)
    await connection.close()


async def test_many_starters_may_upgrade_at_once(empty_url: str) -> None:
    """One works, the others wait; all find the schema that they need."""
    assert await schema_status(empty_url) == (None, WANTED)
    assert [WANTED] * 5 == await asyncio.gather(*(upgrade(empty_url) for _ in range(5)))
    found, wanted = await schema_status(empty_url)
    assert found is not None
    assert (found.version, found.fits, wanted) == (WANTED, True, WANTED)


async def test_an_upgrade_of_what_is_up_to_date_changes_nothing(empty_url: str) -> None:
    """It may be run at every start."""
    await upgrade(empty_url)
    store = PostgresStore(empty_url, clock=SystemClock())
    await store.open()
    assert await upgrade(empty_url) == WANTED
    assert await store.keys.count() == 0
    await store.close()


async def test_a_new_schema_is_seen_with_the_rights_of_the_executors_role(empty_url: str) -> None:
    """Both are one transaction: an executor that waits for the schema is never refused in between."""
    with pytest.raises(Misconfigured, match="createuser --pwprompt no_such_role"):
        await upgrade(empty_url, partial(grant, role="no_such_role"))
    assert (None, WANTED) == await schema_status(empty_url)
    assert WANTED == await upgrade(empty_url)


async def test_a_newer_schema_that_serves_this_program_is_as_good_as_its_own(empty_url: str) -> None:
    """While a newer release takes its place, and after the newer one was taken back. An upgrade leaves it as it is."""
    await upgrade(empty_url)
    await pretend(empty_url, "9999", serves=WANTED)
    store = PostgresStore(empty_url, clock=SystemClock())
    await store.open()
    assert await store.keys.count() == 0
    await store.close()
    assert await upgrade(empty_url) == "9999"
    found, _ = await schema_status(empty_url)
    assert found is not None
    assert (found, found.is_newer, found.fits) == (("9999", WANTED), True, True)


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (None, "run `tickwise db upgrade`"),
        ("0000", "run `tickwise db upgrade`"),
        ("9999", "install the newer Tickwise"),
    ],
)
async def test_a_schema_that_does_not_fit_is_refused_with_what_to_do(
    empty_url: str, version: str | None, advice: str
) -> None:
    """Missing, older, or newer and made for newer programs alone."""
    if version is not None:
        await upgrade(empty_url)
        await pretend(empty_url, version, serves=version)
    store = PostgresStore(empty_url, clock=SystemClock())
    with pytest.raises(Misconfigured, match=advice):
        await store.open()


async def test_a_database_that_is_not_there_is_an_operators_matter(postgres_url: str) -> None:
    """The server answers, so waiting would not help."""
    store = PostgresStore(databases.with_database(postgres_url, "nowhere"), clock=SystemClock())
    with pytest.raises(Misconfigured, match="nowhere"):
        await store.open()


async def test_a_server_that_is_away_is_worth_waiting_for() -> None:
    """Nothing listens there."""
    store = PostgresStore("postgresql://nobody:secret@127.0.0.1:1/none", clock=SystemClock())
    with pytest.raises(StoreUnavailable):
        await store.open()


async def test_the_products_own_role_gives_no_cause_for_findings(empty_url: str) -> None:
    """It is no superuser and has a password. (A server for tests may forget everything at a power cut.)"""
    await upgrade(empty_url)
    store = PostgresStore(empty_url, clock=SystemClock())
    await store.open()
    assert [finding for finding in await store.findings() if "fsync" not in finding] == []
    await store.close()


@pytest.mark.parametrize(
    ("has", "says"),
    [
        (None, f"The schema is at none; this program needs {WANTED}. Run `tickwise db upgrade`."),
        ((WANTED, "0001"), f"The schema is at {WANTED}, and this program needs no other."),
        (("9999", WANTED), f"The schema is at 9999; this program was written for {WANTED}, which it serves too."),
        (("9999", "9999"), "The schema is at 9999 and serves newer programs alone. Install the newer Tickwise."),
    ],
)
async def test_the_command_line_says_how_program_and_schema_stand(
    empty_url: str, has: tuple[str, str] | None, says: str
) -> None:
    """And what to do, if anything."""
    if has is not None:
        await upgrade(empty_url)
        await pretend(empty_url, *has)
    ran = await asyncio.to_thread(run_command, ["db", "status", "--database", empty_url], environment())
    assert (ran.code, ran.out) == (0, f"{says}\n")
