"""The API is killed while clients submit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.integration.processes.fleet import Fleet
from tests.integration.processes.load import Load, each_once
from tests.integration.processes.witness import Witness, judge, nothing_lives
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(database_url, tmp_path, TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks")
    yield made
    made.stop()


async def test_nothing_that_a_killed_api_acknowledged_is_lost(fleet: Fleet, database_url: str, tmp_path: Path) -> None:
    """Every 201 has its job and one run that ends once; and who repeats an unanswered request gets no second job."""
    await upgrade(database_url)
    witness = Witness(tmp_path / "witness")
    first, second = fleet.start("api", "--port", "0"), fleet.start("api", "--port", "0")
    executor = fleet.start("executor")
    await executor.ready()
    connection = await asyncpg.connect(database_url)
    try:
        load = Load(str(await first.ready()), witness)
        spare = str(await second.ready())
        async with load.going_on():
            await load.acknowledges(500)
            first.kill()
            load.url = spare
            await load.acknowledges(100)
        await eventually(lambda: nothing_lives(connection), what="all has ended")
        ended = await judge(connection, witness)
        await each_once(connection, load, ended)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{fleet.logs()}") from failure
    finally:
        await connection.close()
    assert {201} == load.statuses.keys(), "no client heard of the death but by a broken connection"
    assert {1} == {row["attempt"] for row in ended}
