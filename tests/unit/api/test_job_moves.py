"""`POST /jobs/{job_id}/move`: who may, what stands in its way, and what each side sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import ask
from tickwise.domain.lifecycle import RunState
from tickwise.ports.blobs import read_script, scripts_folder
from tickwise.ports.store import ClaimRequest
from tickwise.testing.clock import VirtualClock
from tickwise.testing.factories import executor, outcome

A, B = "team-a", "team-b"
SHELL = {"kind": "shell", "command": "true"}
CRON = {"name": "nightly", "cron": "0 3 * * *", "task": SHELL}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(1_800_000_000.0)) as made:
        for name in (A, B):
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        yield made


async def said(here: World, method: str, path: str, status: int, *, namespace: str = A, **options: Any) -> Any:
    """The body of the answer to an administrator."""
    answer = await ask(here, ADMIN_KEY, method, path, namespace=namespace, **options)
    assert status == answer.status_code, answer.text
    return answer.json()


async def move(here: World, job_id: str, status: int, *, key: str = ADMIN_KEY, to: str = B, namespace: str = A) -> Any:
    """The answer to a move."""
    path = f"/jobs/{job_id}/move"
    answer = await ask(here, key, "POST", path, namespace=namespace, json={"namespace": to})
    assert status == answer.status_code, answer.text
    return answer.json()


async def key_for(here: World, **fields: Any) -> str:
    """A key of this right in these namespaces."""
    answer = await ask(here, ADMIN_KEY, "POST", "/keys", json={"name": "ci", **fields})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["key"])


async def test_a_job_moves_and_the_same_again_is_the_same(here: World) -> None:
    """It keeps its id and its key; in the namespace before it is not there."""
    made = await said(here, "POST", "/jobs", 201, json={**CRON, "key": "k"})
    job_id = made["job_id"]
    before = await said(here, "GET", f"/jobs/{job_id}", 200)
    moved = await move(here, job_id, 200)
    assert (B, "k", before["version"] + 1) == (moved["namespace"], moved["key"], moved["version"])
    assert moved == await move(here, job_id, 200)
    assert moved == await move(here, job_id, 200, namespace=B)
    await said(here, "GET", f"/jobs/{job_id}", 404)
    assert moved == await said(here, "GET", f"/jobs/{job_id}", 200, namespace=B)
    assert B == (await said(here, "GET", "/jobs/by-key/k", 200, namespace=B))["namespace"]
    await said(here, "POST", "/jobs", 201, json={**CRON, "key": "k"})


async def test_a_move_needs_the_right_to_write_in_both(here: World) -> None:
    """And a namespace that is not the caller's is 403, whether or not it is there."""
    job_id = (await said(here, "POST", "/jobs", 201, json=CRON))["job_id"]
    here_alone = await key_for(here, permissions=["jobs:write"], namespaces=[A])
    reads = await key_for(here, permissions=["jobs:read"], namespaces=[A, B])
    both = await key_for(here, permissions=["jobs:write"], namespaces=[A, B])
    for key, to in ((here_alone, B), (here_alone, "nowhere"), (reads, B)):
        await move(here, job_id, 403, key=key, to=to)
    await move(here, job_id, 404, to="nowhere")
    assert {"job_id", "status", "version", "warnings"} == (await move(here, job_id, 200, key=both)).keys()
    other = (await said(here, "POST", "/jobs", 201, json=CRON, namespace="default"))["job_id"]
    await move(here, other, 404, key=both)


async def test_what_a_job_names_must_be_there_too(here: World) -> None:
    """Each thing that is missing is named; with it there, the job moves."""
    follower = (await said(here, "POST", "/jobs", 201, json=CRON))["job_id"]
    await said(here, "PUT", "/calendars/free", 201, json={"dates": ["2030-01-01"]})
    body = {**CRON, "calendars": [{"name": "free"}], "then": follower}
    job_id = (await said(here, "POST", "/jobs", 201, json=body))["job_id"]
    refused = await move(here, job_id, 409)
    assert "references_missing" == refused["code"]
    assert "the calendar free" in refused["detail"]
    assert f"the job {follower}" in refused["detail"]
    await said(here, "PUT", "/calendars/free", 201, json={"dates": ["2031-01-01"]}, namespace=B)
    await move(here, follower, 200)
    assert B == (await move(here, job_id, 200))["namespace"]


async def test_a_stored_task_must_be_there_in_the_same_version_with_the_same_content(here: World) -> None:
    """Another one of its name is none."""
    await stored_task(here, A, "true")
    job_id = (await said(here, "POST", "/jobs", 201, json={"name": "n", "cron": "0 3 * * *", "taskId": "t"}))["job_id"]
    assert "the task t in version 1" in (await move(here, job_id, 409))["detail"]
    await stored_task(here, B, "false")
    assert "the task t in version 1" in (await move(here, job_id, 409))["detail"]
    await stored_task(here, "default", "true")
    assert "default" == (await move(here, job_id, 200, to="default"))["namespace"]


async def test_a_stored_script_must_be_there_too(here: World) -> None:
    """Nothing is copied, neither by a move that is refused nor by one that succeeds."""
    script = "print('hello')\n"
    digest = sha256(script.encode()).hexdigest()
    blobs = here.control.context.blobs
    stored = {"task_id": "t", "script": script}
    await said(here, "POST", "/tasks", 201, json=stored)
    task = {"kind": "python", "file": f"sha256:{digest}"}
    job_id = (await said(here, "POST", "/jobs", 201, json={**CRON, "task": task}))["job_id"]
    refused = await move(here, job_id, 409)
    assert "references_missing" == refused["code"]
    assert f"the script sha256:{digest}" in refused["detail"]
    assert [] == list(await blobs.list(scripts_folder(B)))
    await said(here, "POST", "/tasks", 201, json=stored, namespace=B)
    assert B == (await move(here, job_id, 200))["namespace"]
    assert script.encode() == await read_script(blobs, B, digest)


async def test_a_move_waits_for_runs_and_leaves_them_where_they_ran(here: World) -> None:
    """409 while one goes on; afterwards the run is told where it ran, and not in the other namespace."""
    body = {"name": "at once", "schedule_type": "IMMEDIATE", "task": SHELL}
    job_id = (await said(here, "POST", "/jobs", 201, json=body))["job_id"]
    one = await here.store.executors.join(executor(queues=("default",), lease_seconds=3600.0))
    request = ClaimRequest(executor=one, queues=("default",), labels=("task:shell",), limit=1, ahead_seconds=0.0)
    [claimed] = await here.store.attempts.claim(request)
    assert "job_busy" == (await move(here, job_id, 409))["code"]
    assert [] == list(await here.store.attempts.finish(one, [outcome(claimed, RunState.FAILED)]))
    await move(here, job_id, 200)
    run = f"/runs/{claimed.run_id}"
    assert job_id == (await said(here, "GET", run, 200))["job_id"]
    for path in (run, f"{run}/logs", f"/dead-letters/{claimed.run_id}"):
        await said(here, "GET", path, 404, namespace=B)
    assert [] == await said(here, "GET", f"/jobs/{job_id}/runs", 200, namespace=B)
    assert "(moved)" == (await said(here, "GET", "/dead-letters", 200))[0]["job_name"]
    await said(here, "POST", f"/dead-letters/{claimed.run_id}/redrive", 404, json={})
    assert await said(here, "GET", f"{run}/explain", 200)


@pytest.mark.parametrize(("state", "code"), [("closing", "namespace_closing"), ("taken", "key_taken")])
async def test_what_stands_in_the_way_is_told(here: World, state: str, code: str) -> None:
    """A namespace that takes nothing new, and a key that another job there has."""
    job_id = (await said(here, "POST", "/jobs", 201, json={**CRON, "key": "k"}))["job_id"]
    if state == "taken":
        await said(here, "POST", "/jobs", 201, json={**CRON, "key": "k"}, namespace=B)
    else:
        await said(here, "PATCH", f"/namespaces/{B}", 200, json={"state": "closing"})
    assert code == (await move(here, job_id, 409))["code"]
    assert A == (await said(here, "GET", f"/jobs/{job_id}", 200))["namespace"]


async def stored_task(here: World, namespace: str, command: str) -> None:
    """A task of this name."""
    await said(
        here,
        "POST",
        "/tasks",
        201,
        namespace=namespace,
        json={"taskId": "t", "name": "t", "task": {**SHELL, "command": command}},
    )
