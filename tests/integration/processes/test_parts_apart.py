"""The parts of the API as processes of their own: each does its work while the others are away."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import pytest

from tests.integration.processes.fleet import KEY, Fleet, Role
from tickwise.adapters.store.postgres import upgrade

PASSWORD: Final = "four quiet herons wade"
JOB: Final = {"name": "a job", "every": "1h", "task": {"kind": "shell", "command": "true"}}
PARTS: Final = {"jobs": "jobs", "search": "search", "identity": "users,auth"}


class Apart:
    """One process of each part. `identity` alone is given the key that signs tokens, `jobs` alone the admin key."""

    def __init__(self, fleet: Fleet, token_key: Path) -> None:
        self._fleet = fleet
        self._token_key = token_key
        self.roles: dict[str, Role] = {}
        self.urls: dict[str, str] = {}

    async def start(self, *parts: str) -> None:
        own = {"jobs": {"TICKWISE_BOOTSTRAP_KEY": KEY}, "identity": {"TICKWISE_TOKEN_KEY_FILE": str(self._token_key)}}
        for part in parts:
            folder = {"TICKWISE_DATA_DIR": str(self._fleet.folder / part)}
            words = ("api", "--serve", PARTS[part], "--port", "0")
            self.roles[part] = self._fleet.start(*words, **own.get(part, {}), **folder)
        for part in parts:
            self.urls[part] = str(await self.roles[part].ready())

    async def ask(self, part: str, method: str, path: str, credential: str, body: Any = None) -> httpx2.Response:
        """A request to one part."""
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
            return await client.request(method, f"{self.urls[part]}/api/v1{path}", json=body, headers=headers)

    async def tokens(self, **grant: str) -> dict[str, Any]:
        """What `identity` answers to a grant."""
        answer = await self.ask("identity", "POST", "/auth/token", "", grant)
        assert 200 == answer.status_code, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def apart(empty_url: str, tmp_path: Path) -> Iterator[Apart]:
    token_key = tmp_path / "token.key"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(token_key)], check=True)
    token_key.chmod(0o600)
    fleet = Fleet(empty_url, tmp_path)
    fleet.untell("TICKWISE_BOOTSTRAP_KEY")
    yield Apart(fleet, token_key)
    fleet.stop()


async def test_tokens_work_for_jobs_while_no_process_serves_people_and_tokens(apart: Apart, empty_url: str) -> None:
    """Sign in, stop `identity`: the token works at `jobs` and `search`, also at one that is started only now. Start it
    again: the sign-in goes on."""
    await upgrade(empty_url)
    await apart.start("jobs", "search", "identity")
    person = {"name": "Ada", "password": PASSWORD, "roles": [{"role": "developer", "namespace": "default"}]}
    assert 201 == (await apart.ask("identity", "POST", "/users", KEY, person)).status_code
    tokens = await apart.tokens(grant_type="password", username="ada", password=PASSWORD)
    assert 201 == (await apart.ask("jobs", "POST", "/jobs", tokens["access_token"], JOB)).status_code

    apart.roles["identity"].kill()
    apart.roles["jobs"].kill()
    await apart.start("jobs")
    made = await apart.ask("jobs", "POST", "/jobs", tokens["access_token"], JOB)
    assert 201 == made.status_code, made.text
    found = await apart.ask("search", "GET", f"/jobs/{made.json()['job_id']}", tokens["access_token"])
    assert (200, "a job") == (found.status_code, found.json()["name"])
    forged = tokens["access_token"][:-8] + "AAAAAAAA"
    assert 401 == (await apart.ask("jobs", "POST", "/jobs", forged, JOB)).status_code
    elsewhere = await apart.ask("jobs", "POST", "/auth/token", "", {"grant_type": "password"})
    assert (421, "auth") == (elsewhere.status_code, elsewhere.json()["service"])

    await apart.start("identity")
    renewed = await apart.tokens(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
    assert renewed["access_token"] != tokens["access_token"]
    assert 201 == (await apart.ask("jobs", "POST", "/jobs", renewed["access_token"], JOB)).status_code


async def test_the_parts_that_change_no_job_make_no_first_key(apart: Apart, empty_url: str) -> None:
    """They may be the first to start, and would keep the only admin key where nobody looks for it."""
    await upgrade(empty_url)
    await apart.start("search", "identity")
    connection = await asyncpg.connect(empty_url)
    assert 0 == await connection.fetchval("SELECT count(*) FROM tickwise.keys")
    await apart.start("jobs")
    assert 1 == await connection.fetchval("SELECT count(*) FROM tickwise.keys")
    await connection.close()
    assert 200 == (await apart.ask("search", "GET", "/jobs", KEY)).status_code
    assert 200 == (await apart.ask("identity", "GET", "/users", KEY)).status_code
