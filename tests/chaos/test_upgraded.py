"""The release before this one and this one on one database. The row: `tests/chaos/rows/upgrades.py`."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.chaos.older import OlderServer
from tests.chaos.short import SECONDS, holds
from tests.integration.processes.fleet import Fleet, api_client
from tickwise.adapters.store.postgres import upgrade

JOB: Final = {"name": "before", "task": {"kind": "shell", "command": "true"}, "schedule_type": "ON_DEMAND"}


@pytest.mark.takes_up_to(SECONDS)
async def test_two_releases_work_on_one_database_forwards_and_back() -> None:
    """Under load: the schema is upgraded while the older roles work, the newer ones take their places one by one, and
    the older ones come back. Nothing is lost, nothing runs twice. Skipped in a copy without the history, such as a
    source archive."""
    try:
        await holds("R21")
    except NotImplementedError as reason:
        pytest.skip(str(reason))


@pytest_asyncio.fixture
async def older() -> AsyncIterator[OlderServer]:
    """A database with the schema of the release before."""
    try:
        server = OlderServer()
    except NotImplementedError as reason:
        pytest.skip(str(reason))
    try:
        await server.prepare()
        yield server
    finally:
        await server.stop()


async def test_an_upgrade_from_one_bootstrap_key_loses_nobody(older: OlderServer, tmp_path: Path) -> None:
    """An installation of the release before knew one key, which came from a setting and could do everything. After the
    upgrade that key is an administrator of the installation, also where the setting is gone; jobs are its own."""
    fleet = Fleet(older.url, tmp_path)
    try:
        before = fleet.start("api", "--port", "0", **older.path)
        async with api_client(str(await before.ready())) as client:
            job_id = (await client.post("/jobs", json=JOB)).json()["job_id"]
        before.signal(signal.SIGTERM)
        assert 0 == await before.ended()
        await upgrade(older.url)
        fleet.untell("TICKWISE_BOOTSTRAP_KEY")
        after = fleet.start("api", "--port", "0")
        async with api_client(str(await after.ready())) as client:
            me = (await client.get("/auth/me")).json()
            assert ["*"] == me["permissions"], me
            for path, body in (
                ("/namespaces", {"name": "team-a"}),
                ("/users", {"name": "Ada", "roles": [{"role": "admin", "namespace": "*"}]}),
                ("/keys", {"name": "more", "scopes": ["jobs:read"], "namespaces": ["team-a"]}),
            ):
                answer = await client.post(path, json=body)
                assert 201 == answer.status_code, answer.text
            assert "before" == (await client.get(f"/jobs/{job_id}")).json()["name"]
            assert 202 == (await client.post(f"/jobs/{job_id}/runNow")).status_code
    finally:
        fleet.stop()
