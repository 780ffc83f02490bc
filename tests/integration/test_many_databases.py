"""One `tickwise up` on two databases: one executor runs jobs of both, and one of the two goes away and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from tests.support import databases
from tests.support.local_up import Local, environment, local_up, run_command
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade

PLACES: Final = "SELECT shard, namespace FROM tickwise.shard_places WHERE namespace LIKE 'team-%' ORDER BY namespace"
EXECUTORS: Final = "SELECT array_agg(executor) FROM tickwise.executors WHERE gone IS NULL"
NAMESPACES: Final = "SELECT array_agg(DISTINCT namespace) FROM tickwise.history WHERE state = 5"
TOKENS: Final = "SELECT array_agg(DISTINCT token & 63) FROM tickwise.history WHERE namespace LIKE 'team-%'"
WALLED: Final = "quotas = jsonb_build_object('min_isolation', 'sandbox')::text"
AWAY_SECONDS: Final = 60.0


async def ask(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


class Two:
    """The `up`, its databases, and a namespace in each."""

    def __init__(self, up: Local, urls: list[str]) -> None:
        self.up = up
        self.urls = urls
        self.client = httpx2.AsyncClient(
            base_url=f"{up.url}/api/v1", headers={"Authorization": f"Bearer {up.key}"}, timeout=60.0
        )
        self.names: dict[int, str] = {}

    async def begin(self) -> None:
        """Add namespaces until each database has one."""
        for number in range(32):
            added = await self.client.post("/namespaces", json={"name": f"team-{number}"})
            assert 201 == added.status_code, added.text
            self.names = dict(await ask(self.urls[0], PLACES))
            if len(self.names) == 2:
                return
        raise AssertionError("one database got every namespace")

    async def submit(self, shard: int) -> httpx2.Response:
        body = {"name": "a", "schedule_type": "IMMEDIATE", "task": {"kind": "shell", "command": "true"}}
        return await self.client.post("/jobs", json=body, headers={"Tickwise-Namespace": self.names[shard]})

    async def succeeds(self, shard: int, job_id: str) -> bool:
        found = await self.client.get(f"/jobs/{job_id}/runs", headers={"Tickwise-Namespace": self.names[shard]})
        return 200 == found.status_code and ["SUCCESS"] == [each["status"] for each in found.json()]


@pytest_asyncio.fixture(scope="module")
async def two(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    async with databases.database(postgres_url) as first, databases.database(postgres_url) as second:
        with local_up(tmp_path_factory.mktemp("two"), "--database", f"{first} {second}") as up:
            made = Two(up, [first, second])
            await made.begin()
            yield made
            await made.client.aclose()


async def test_one_executor_runs_the_jobs_of_both(two: Two) -> None:
    """Each namespace is in its database alone; the executor has one number in both, and tokens name their database."""
    for shard in (1, 2):
        job_id = (await two.submit(shard)).json()["job_id"]
        await eventually(lambda s=shard, j=job_id: two.succeeds(s, j), what=f"a run in shard {shard}")  # type: ignore[misc]  # mypy infers no type of a default
    first, second = [(await ask(url, EXECUTORS))[0][0] for url in two.urls]
    assert first == second
    assert [[two.names[1]], [two.names[2]]] == [(await ask(url, NAMESPACES))[0][0] for url in two.urls]
    assert [[1], [2]] == [(await ask(url, TOKENS))[0][0] for url in two.urls]


async def test_one_goes_away_and_comes_back(two: Two) -> None:
    """Its namespace waits, and says which database is away; the other one's jobs run; a list of roles says what it is
    without. Then all goes on."""
    name = urlsplit(two.urls[1]).path.removeprefix("/")
    server = await asyncpg.connect(two.urls[0])
    await server.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    await server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = current_user", name
    )
    try:
        await eventually(lambda: _is_refused(two), what="the second database is away, and the answer names it")
        job_id = (await two.submit(1)).json()["job_id"]
        await eventually(lambda: two.succeeds(1, job_id), what="a run in the first database")
        listed = await two.client.get("/executors")
        assert (200, "2") == (listed.status_code, listed.headers["Tickwise-Missing-Shards"])
    finally:
        await server.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        await server.close()
    back = await eventually(lambda: _accepted(two), what="the second database is back")
    await eventually(lambda: two.succeeds(2, back["job_id"]), within_seconds=AWAY_SECONDS, what="its jobs run again")


async def _is_refused(two: Two) -> bool:
    """The first refusal may be of a write that was under way."""
    answer = await two.submit(2)
    return answer.status_code == 503 and "shard 2" in answer.json()["detail"]


async def _accepted(two: Two) -> Any:
    answer = await two.submit(2)
    return answer.json() if answer.status_code == 201 else None


async def test_one_of_the_databases_alone_is_refused(two: Two) -> None:
    """Neither the first nor the second is taken for an installation of its own."""
    for url, says in zip(two.urls, ("this installation has 2 databases", "not its first"), strict=True):
        ran = await asyncio.to_thread(
            run_command, ["scheduler"], environment(TICKWISE_DATABASE_URL=url, TICKWISE_DATA_DIR=str(two.up.data_dir))
        )
        assert (6, True) == (ran.code, says in ran.err), ran.err


async def test_doctor_looks_at_each_database(two: Two) -> None:
    """The number of each, and their clocks; one that is not named, and one that is named in two ways."""
    first, second = two.urls
    again = f"{second}{'&' if '?' in second else '?'}application_name=again"
    said = {}
    for kind, given in {"both": f"{first} {second}", "one": first, "twice": f"{first} {second} {again}"}.items():
        given_here = environment(TICKWISE_DATABASE_URL=given, TICKWISE_DATA_DIR=str(two.up.data_dir / "elsewhere"))
        ran = await asyncio.to_thread(run_command, ["doctor", "--json"], given_here)
        said[kind] = ran.out
    assert "shard 1, takes new namespaces" in said["both"]
    assert "shard 2, takes new namespaces" in said["both"]
    assert "within 0.5 s of one another" in said["both"]
    assert "this installation has 2 databases" in said["one"]
    assert "the addresses 2 and 3 lead to one database" in said["twice"]


async def test_doctor_finds_what_is_wrong_in_the_second_database(two: Two) -> None:
    """Jobs whose isolation keeps them waiting, with the number of the database. One that cannot be opened is named, and
    what is wrong elsewhere is still found."""
    namespace = {"Tickwise-Namespace": two.names[2]}
    body = {
        "name": "below",
        "schedule_type": "CRON",
        "cron_expression": "0 0 1 1 *",
        "task": {"kind": "shell", "command": "true"},
    }
    added = await two.client.post("/jobs", json=body, headers=namespace)
    assert 201 == added.status_code, added.text
    await ask(two.urls[1], f"UPDATE tickwise.namespaces SET {WALLED} WHERE name = '{two.names[2]}'")
    elsewhere = f"{two.urls[1].rpartition('/')[0]}/no_such_database"
    said = {}
    for kind, given in {"both": two.urls, "with one that is away": [two.urls[0], elsewhere, two.urls[1]]}.items():
        given_here = environment(
            TICKWISE_DATABASE_URL=" ".join(given), TICKWISE_DATA_DIR=str(two.up.data_dir / "elsewhere")
        )
        ran = await asyncio.to_thread(run_command, ["doctor", "--json"], given_here)
        said[kind] = {(each["name"], each["level"]): each["detail"] for each in json.loads(ran.out)}
    waits = "1 below the min_isolation of their namespace, so their runs wait: {}/below ({})".format(
        two.names[2], added.json()["job_id"]
    )
    assert f"database 2: {waits}" == said["both"]["isolation of jobs", "warning"]
    assert ("shards", "ok") in said["both"]
    assert f"database 3: {waits}" == said["with one that is away"]["isolation of jobs", "warning"]
    assert ("database 2", "error") in said["with one that is away"]


@pytest.mark.parametrize("kind", ["twice", "other words", "with content"])
async def test_wrong_addresses_are_refused_before_anything_is_written(two: Two, postgres_url: str, kind: str) -> None:
    """The same database twice, and a database that holds an installation of its own."""
    first = two.urls[0]
    async with databases.database(postgres_url) as other:
        if kind == "twice":
            given, says = f"{first} {first}", "names one address twice"
        elif kind == "other words":
            given = f"{first} {first}{'&' if '?' in first else '?'}application_name=again"
            says = "lead to one database"
        else:
            await upgrade(other)
            await ask(other, "INSERT INTO tickwise.namespaces SELECT * FROM tickwise.namespaces WHERE false")
            given, says = f"{other} {first}", "belongs to another installation"
        ran = await asyncio.to_thread(run_command, ["db", "upgrade"], environment(TICKWISE_DATABASE_URL=given))
        assert (6, True) == (ran.code, says in ran.err), ran.err
