"""PostgreSQL is killed in the middle of load, and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest
import pytest_asyncio

from tests.integration.processes.fleet import Fleet
from tests.integration.processes.load import Load, each_once
from tests.integration.processes.witness import Witness, judge, nothing_lives
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.store.postgres import upgrade


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """The data folder of a server of our own."""
    # Directly below the system's folder for such things: pytest's own are closed to the server's user, and long.
    data_dir = Path(tempfile.mkdtemp(prefix="tickwise-tests-"))
    yield data_dir
    pointer = data_dir / "postgres" / "LOCATION"
    if pointer.exists():
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
    shutil.rmtree(data_dir, ignore_errors=True)


@pytest_asyncio.fixture
async def server(cluster: Path) -> AsyncIterator[EmbeddedPostgres]:
    """That server, to be started and killed."""
    made = EmbeddedPostgres(cluster, clock=SystemClock())
    yield made
    await made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[list[Fleet]]:
    fleets: list[Fleet] = []
    yield fleets
    for fleet in fleets:
        fleet.stop()


async def test_roles_wait_for_a_database_that_comes_later(
    server: EmbeddedPostgres, folder: list[Fleet], tmp_path: Path
) -> None:
    """Machines come up in any order. Who is told to stop meanwhile does, and calls it no error."""
    url = await server.start()
    await upgrade(url)
    await server.stop()
    fleet = Fleet(url, tmp_path)
    folder.append(fleet)
    api, impatient = fleet.start("api", "--port", "0"), fleet.start("executor")
    for role in (api, impatient):
        awaited = await role.event("awaited")
        assert "store" == awaited["what"]
        assert "could not be reached" in awaited["detail"]
    impatient.signal(signal.SIGTERM)
    assert 0 == await impatient.ended()
    assert "Error" not in impatient.log.read_text()
    await server.start()
    assert 200 == (await _ready(str(await api.ready()))).status_code


async def test_a_killed_database_costs_a_pause_and_nothing_else(
    server: EmbeddedPostgres, folder: list[Fleet], tmp_path: Path
) -> None:
    """Meanwhile the API says 503 and when to come again; roles go on by themselves; no acknowledged job is lost."""
    url = await server.start()
    await upgrade(url)
    witness = Witness(tmp_path / "witness")
    fleet = Fleet(
        url,
        tmp_path,
        TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks",
        TICKWISE_LEASE_SECONDS="60",  # the database may take its time to come back
        TICKWISE_HEARTBEAT_SECONDS="0.5",
    )
    folder.append(fleet)
    api, scheduler, executor = fleet.start("api", "--port", "0"), fleet.start("scheduler"), fleet.start("executor")
    address = str(await api.ready())
    await scheduler.ready()
    await executor.ready()
    load = Load(address, witness)
    try:
        async with load.going_on():
            await load.acknowledges(500)
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
            await eventually(lambda: load.statuses[503] >= 10, what="clients are told to come again")
            ready = await _ready(address)
            assert 503 == ready.status_code
            assert int(ready.headers["Retry-After"]) >= 1
            assert 200 == (await _ready(address, "/livez")).status_code
            assert url == await server.start()
            await load.acknowledges(500)
        assert load.retry_after <= {"1", "2", "3", "4", "5"}
        connection = await asyncpg.connect(url)
        try:
            await eventually(lambda: nothing_lives(connection), what="all has ended")
            ended = await judge(connection, witness)
            await each_once(connection, load, ended)
        finally:
            await connection.close()
        assert 200 == (await _ready(address)).status_code
        assert [] == executor.events("executor_expired"), "it was not dead, its database was"
        assert [None] * 3 == [role.process.poll() for role in (api, scheduler, executor)]
        for role in (api, scheduler, executor):
            assert [] == role.events("loop_failed"), "an absent database is foreseen"
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{fleet.logs()}") from failure


async def _ready(address: str, path: str = "/readyz") -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60, verify=False, trust_env=False) as client:
        return await client.get(address + path)
