"""A stored answer under an Idempotency-Key is for the credential that had it, with the permissions that it had."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio

from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.people import ask, person, signed_in, signing_key

JOB = {"name": "sec", "every": "1d", "payload": {"pin": "4711"}, "task": {"kind": "shell", "command": "true"}}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        await made.control.bearers.sign_with(signing_key())
        for name in ("team-a", "team-b"):
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        yield made


async def key(here: World, *permissions: str, namespaces: tuple[str, ...] = ("team-a",)) -> str:
    """The secret of a key with the name that all of them have."""
    body = {"name": "ci", "permissions": permissions, "namespaces": namespaces}
    return str((await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"])


async def once(here: World, credential: str, path: str, body: Any) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {credential}", "Idempotency-Key": "once", "Tickwise-Namespace": "team-a"}
    return await here.client.post(API + path, json=body, headers=headers)


async def test_keys_of_one_name_read_no_answers_of_each_other(here: World) -> None:
    """A weaker one is answered as if it had asked first."""
    reader = await key(here, "jobs:read", "jobs:write", "jobs:operate")
    operator = await key(here, "jobs:operate")
    job = (await once(here, reader, "/jobs", JOB)).json()
    path = f"/jobs/{job['job_id']}/pause"
    first, again = await once(here, reader, path, {}), await once(here, reader, path, {})
    assert (JOB["payload"], "true") == (again.json()["payload"], again.headers["idempotency-replayed"])
    assert first.content == again.content
    other = await once(here, operator, path, {})
    assert (200, False) == (other.status_code, "idempotency-replayed" in other.headers)
    assert {"job_id", "status", "version", "warnings"} == other.json().keys()


async def test_a_move_is_answered_again_to_its_asker_alone(here: World) -> None:
    """The job is elsewhere by then, where a key of the same name may have no permission."""
    mover = await key(here, "jobs:read", "jobs:write", namespaces=("team-a", "team-b"))
    writer = await key(here, "jobs:write")
    job = (await once(here, mover, "/jobs", JOB)).json()
    path, body = f"/jobs/{job['job_id']}/move", {"namespace": "team-b"}
    assert 200 == (await once(here, mover, path, body)).status_code
    assert "true" == (await once(here, mover, path, body)).headers["idempotency-replayed"]
    assert 403 == (await once(here, writer, path, body)).status_code


async def test_no_answer_outlives_the_permissions_that_it_was_given_to(here: World) -> None:
    """A request by somebody who may do less by now is neither answered from before, nor done twice."""
    ada = await person(here, "Ada", ("developer", "team-a"), ("developer", "team-b"))
    token = (await signed_in(here, "Ada"))["access_token"]
    assert 201 == (await once(here, token, "/jobs", JOB)).status_code
    bounded = (await signed_in(here, "Ada", scope="jobs:write"))["access_token"]
    refused = await once(here, bounded, "/jobs", JOB)
    assert (422, "idempotency_key_reused") == (refused.status_code, refused.json()["code"])
    roles = {"roles": [{"role": "developer", "namespace": "team-a"}]}
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json=roles)).status_code
    token = (await signed_in(here, "Ada"))["access_token"]
    assert 422 == (await once(here, token, "/jobs", JOB)).status_code
    jobs = (await ask(here, ADMIN_KEY, "GET", "/jobs", namespace="team-a")).json()
    assert 1 == len(jobs)


async def test_an_answer_stays_with_a_key_whose_secret_changed(here: World) -> None:
    """And with the tokens that the key becomes."""
    body = {"name": "ci", "permissions": ["jobs:write"], "namespaces": ["team-a"]}
    made = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()
    first = await once(here, made["key"], "/jobs", JOB)
    rotated = (await ask(here, ADMIN_KEY, "POST", f"/keys/{made['key_id']}/rotate", json={})).json()["key"]
    grant = {"grant_type": "api_key", "api_key": rotated}
    token = (await ask(here, None, "POST", "/auth/token", json=grant)).json()["access_token"]
    for credential in (rotated, token):
        again = await once(here, credential, "/jobs", JOB)
        assert (first.content, "true") == (again.content, again.headers["idempotency-replayed"])
