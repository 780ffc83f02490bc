"""The first key of an installation: made once, in a file for one user, and in no log."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from tests.integration.processes.fleet import KEY, Fleet, api_client
from tickwise.adapters.store.postgres import upgrade

REPLICAS = 3


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(database_url, tmp_path)
    yield made
    made.stop()


async def _status(url: str, key: str) -> int:
    async with api_client(url, timeout=60) as client:
        answer: httpx2.Response = await client.get("/jobs", headers={"Authorization": f"Bearer {key}"})
        return answer.status_code


async def test_replicas_that_start_at_once_make_one_first_key(fleet: Fleet, database_url: str, tmp_path: Path) -> None:
    """One of them has it in a file that only its user can read; it opens all of them, and no log has it."""
    await upgrade(database_url)
    fleet.untell("TICKWISE_BOOTSTRAP_KEY")
    folders = [tmp_path / f"data-{number}" for number in range(REPLICAS)]
    roles = [fleet.start("api", "--port", "0", TICKWISE_DATA_DIR=str(folder)) for folder in folders]
    urls = [str(await role.ready()) for role in roles]
    [file] = [found for folder in folders if folder.is_dir() for found in folder.iterdir()]
    assert "first.key" == file.name
    assert 0 == stat.S_IMODE(file.stat().st_mode) & 0o077
    secret = file.read_text(encoding="utf-8").strip()
    assert [200] * REPLICAS == [await _status(url, secret) for url in urls]
    logs = [role.log.read_text(encoding="utf-8") for role in roles]
    assert [False] * REPLICAS == [secret in log for log in logs]
    assert 1 == sum(str(file) in log for log in logs), fleet.logs()
    connection = await asyncpg.connect(database_url)
    assert 1 == await connection.fetchval("SELECT count(*) FROM tickwise.keys")
    await connection.close()


async def test_a_process_with_an_old_bootstrap_key_does_not_bring_it_back(fleet: Fleet, database_url: str) -> None:
    """The setting is changed, and one replica that still has the old one starts again afterwards."""
    await upgrade(database_url)
    new = "3c1f0b9a7d5e48261f3b5a7c9e0d2468"
    old = fleet.start("api", "--port", "0")
    assert 200 == await _status(str(await old.ready()), KEY)
    renewed = fleet.start("api", "--port", "0", TICKWISE_BOOTSTRAP_KEY=new)
    url = str(await renewed.ready())
    again = fleet.start("api", "--port", "0")
    assert (await again.event("bootstrap_key_revoked"))["level"] == "error"
    await again.ready()
    assert (401, 200) == (await _status(url, KEY), await _status(url, new))
    assert KEY not in fleet.logs(1 << 20)


async def test_up_with_a_revoked_bootstrap_key_has_a_key_that_opens(
    fleet: Fleet, database_url: str, tmp_path: Path
) -> None:
    """The command line of its machine gets a key of its own, and nobody is told that the revoked one is good."""
    await upgrade(database_url)
    await fleet.start("api", "--port", "0").ready()
    await fleet.start("api", "--port", "0", TICKWISE_BOOTSTRAP_KEY="3c1f0b9a7d5e48261f3b5a7c9e0d2468").ready()
    folder = tmp_path / "data"
    up = fleet.start("up", "--port", "0", TICKWISE_DATA_DIR=str(folder))
    url = str(await up.ready())
    key = json.loads((folder / "client.json").read_text(encoding="utf-8"))["key"]
    assert (401, 200) == (await _status(url, KEY), await _status(url, key))
    assert key == (folder / "local.key").read_text(encoding="utf-8").strip()
    said = up.log.read_text(encoding="utf-8")
    assert "The key in TICKWISE_BOOTSTRAP_KEY is revoked" in said
    assert "TICKWISE_BOOTSTRAP_KEY is an admin key" not in said
