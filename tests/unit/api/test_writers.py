"""A caller who may write and not read learns nothing of what others wrote."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tickwise.adapters.clock import VirtualClock
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.ports.store import ClaimRequest
from tickwise.testing.factories import executor, outcome

SECRET = "of-somebody-else"  # a text of the test, not a password
OTHERS = {
    "name": SECRET,
    "key": "k",
    "cron": "0 3 * * *",
    "labels": {"team": SECRET},
    "owner": SECRET,
    "task": {"kind": "shell", "command": f"echo {SECRET}"},
    "payload": {"text": SECRET},
}
WRITER = "a-writers-key-for-tests-of-32-characters-or-more"
CREATOR = "a-creators-key-for-tests-of-32-characters-or-more"
OPERATOR = "an-operators-key-for-tests-of-32-characters-or-more"
READER = "a-readers-key-for-tests-of-32-characters-or-more"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(1_800_000_000.0)) as made:
        await made.key(WRITER, "jobs:write", "runs:write", name="writer")
        await made.key(CREATOR, "jobs:create", name="creator")
        await made.key(OPERATOR, "jobs:operate", name="operator")
        await made.key(READER, "jobs:write", "jobs:read", "runs:write", "runs:read", name="reader")
        yield made


async def job(here: World) -> str:
    """A job of somebody else."""
    answer = await here.client.post(f"{API}/jobs", json=OTHERS)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/jobs/{job}", {"queue": "mine"}),
        ("PATCH", "/jobs/{job}", {"queue": "mine"}),
        ("MERGE", "/jobs/{job}", {"queue": "mine"}),
        ("PUT", "/jobs/by-key/k", {"queue": "mine"}),
        ("POST", "/jobs/{job}/pause", {"reason": "mine"}),
        ("POST", "/jobs/{job}/resume", {}),
        ("DELETE", "/jobs/{job}", None),
    ],
)
async def test_a_writer_is_told_id_status_and_version(here: World, method: str, path: str, body: Any) -> None:
    """And a reader the whole job."""
    for key, sees in ((WRITER, False), (READER, True)):
        job_id = await job(here)
        answer = await write(here, key, method, path.format(job=job_id), body)
        assert 200 == answer.status_code, answer.text
        assert (sees, sees) == (SECRET in answer.text, "etag" in answer.headers)
        if not sees:
            assert {"job_id", "status", "version", "warnings"} == answer.json().keys()
        assert job_id == answer.json()["job_id"]
        assert 200 == (await here.client.delete(f"{API}/jobs/{job_id}")).status_code


async def test_an_operator_without_the_right_to_read_is_told_as_much(here: World) -> None:
    """Who pauses what others wrote; the repeat under an Idempotency-Key is answered alike."""
    path, headers = f"/jobs/{await job(here)}/pause", {"Idempotency-Key": "once"}
    first, again = [await write(here, OPERATOR, "POST", path, {}, **headers) for _ in range(2)]
    assert ("PAUSED", 2) == (first.json()["status"], first.json()["version"])
    assert (first.content, "content-location" in first.headers) == (again.content, "content-location" in again.headers)


async def test_a_dry_run_shows_the_schedule_and_needs_the_right_to_read_it(here: World) -> None:
    path = f"/jobs/{await job(here)}?dry_run=true"
    refused = await write(here, WRITER, "PUT", path, {"cron": "0 4 * * *"})
    assert (403, True) == (refused.status_code, "jobs:read" in refused.json()["detail"])
    assert 200 == (await write(here, READER, "PUT", path, {"cron": "0 4 * * *"})).status_code


@pytest.mark.parametrize(("path", "status"), [("discard", "discarded"), ("decide", "decided")])
async def test_who_settles_a_letter_and_may_not_read_it_is_told_its_status(here: World, path: str, status: str) -> None:
    """Its error and its job are what others wrote."""
    for key, sees in ((WRITER, False), (READER, True)):
        run_id = await failed(here, unknown=path == "decide")
        body = {"outcome": "failed"} if path == "decide" else {}
        answer = await write(here, key, "POST", f"/dead-letters/{run_id}/{path}", body)
        assert 200 == answer.status_code, answer.text
        assert sees == (SECRET in answer.text)
        assert (run_id, status) == (answer.json()["run_id"], answer.json()["status"])


async def test_an_operation_of_others_shows_a_writer_its_progress_alone(here: World) -> None:
    """Its request may hold a payload; who asked for it sees it."""
    body = {"filter": {"all": True}, "payload": {"text": SECRET}}
    other = (await here.client.post(f"{API}/runs:retry", json=body)).json()["operation_id"]
    own = (await write(here, WRITER, "POST", "/runs:retry", body)).json()["operation_id"]
    for key, seen in ((WRITER, {own}), (READER, {own, other})):
        rows = (await write(here, key, "GET", "/operations", None)).json()
        assert seen == {row["operation_id"] for row in rows if SECRET in str(row["request"])}
        shown = await write(here, key, "GET", f"/operations/{other}", None)
        assert (other in seen) == (SECRET in shown.text)


async def test_a_namesake_sees_no_request_of_an_operation(here: World) -> None:
    """Names of keys are not unique: the one that asked is known by its id."""
    body = {"filter": {"all": True}, "payload": {"text": SECRET}}
    operation = (await write(here, WRITER, "POST", "/runs:retry", body)).json()["operation_id"]
    namesake = "a-namesakes-key-for-tests-of-32-characters-or-more"
    await here.key(namesake, "runs:write", name="writer")
    shown = await write(here, namesake, "GET", f"/operations/{operation}", None)
    assert (200, False) == (shown.status_code, SECRET in shown.text)
    assert SECRET in (await write(here, WRITER, "GET", f"/operations/{operation}", None)).text


async def test_a_precondition_tells_a_writer_nothing_of_what_others_wrote(here: World) -> None:
    """The tag is a digest of the whole job: with a guess of it, each guess of the job would be answered."""
    job_id = await job(here)
    tag = (await here.client.get(f"{API}/jobs/{job_id}")).headers["etag"]
    for method, path, key in (
        ("PUT", f"/jobs/{job_id}", WRITER), ("PATCH", f"/jobs/{job_id}", WRITER), ("DELETE", f"/jobs/{job_id}", WRITER),
        ("PUT", "/jobs/by-key/k", WRITER), ("POST", f"/jobs/{job_id}/pause", OPERATOR),
        ("POST", f"/jobs/{job_id}/resume", OPERATOR),
    ):  # fmt: skip
        body = None if method == "DELETE" else {} if "/pause" in path or "/resume" in path else {"queue": "mine"}
        for headers in ({"If-Match": tag}, {"If-Match": '"wrong"'}, {"If-None-Match": tag}):
            answer = await write(here, key, method, path, body, **headers)
            assert (403, True) == (answer.status_code, "if_version" in answer.json()["detail"]), (method, path)
            assert tag.strip('"') not in answer.text
    assert 412 == (await write(here, WRITER, "PUT", "/jobs/by-key/k", OTHERS, **{"If-None-Match": "*"})).status_code
    assert 200 == (await write(here, WRITER, "PUT", f"/jobs/{job_id}", {"queue": "x"}, **{"If-Match": "*"})).status_code
    assert 200 == (await write(here, WRITER, "PUT", f"/jobs/{job_id}?if_version=2", {"queue": "y"})).status_code


async def write(here: World, key: str, method: str, path: str, body: Any, **headers: str) -> httpx2.Response:
    """A request with this key. MERGE: a merge patch."""
    media = "application/merge-patch+json" if method == "MERGE" else "application/json"
    return await here.client.request(
        method.replace("MERGE", "PATCH"),
        API + path,
        content=None if body is None else json.dumps(body),
        headers={"Authorization": f"Bearer {key}", "Content-Type": media, **headers},
    )


async def failed(here: World, *, unknown: bool) -> str:
    """A dead letter of a job of somebody else."""
    made = await here.client.post(
        f"{API}/jobs", json={**OTHERS, "key": None, "cron": None, "schedule_type": "IMMEDIATE"}
    )
    assert 201 == made.status_code, made.text
    one = await here.store.executors.join(executor(queues=("default",), lease_seconds=3600.0))
    request = ClaimRequest(executor=one, queues=("default",), labels=("task:shell",), limit=1, ahead_seconds=0.0)
    [claimed] = await here.store.attempts.claim(request)
    reason = UNKNOWN_OUTCOME if unknown else None
    ended = outcome(claimed, RunState.FAILED, error=SECRET, reason=reason)
    assert [] == list(await here.store.attempts.finish(one, [ended]))
    return str(claimed.run_id)


async def test_a_key_that_only_creates_submits_and_does_nothing_else(here: World) -> None:
    """One job and many; it reads, changes, pauses and cancels none, not even its own."""
    headers = {"Authorization": f"Bearer {CREATOR}"}
    body = {"name": "a", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}
    made = await here.client.post(f"{API}/jobs", json=body, headers=headers)
    assert 201 == made.status_code, made.text
    many = await here.client.post(f"{API}/jobs:batch", json=[body, body], headers=headers)
    assert (200, 2) == (many.status_code, many.json()["created"])
    own = made.json()["job_id"]
    for method, path, sent in (
        ("GET", f"/jobs/{own}", None),
        ("GET", "/jobs", None),
        ("PUT", f"/jobs/{own}", {"queue": "mine"}),
        ("PATCH", f"/jobs/{own}", {"queue": "mine"}),
        ("PUT", "/jobs/by-key/k", body),
        ("POST", f"/jobs/{own}/pause", {}),
        ("POST", f"/jobs/{own}/runNow", {}),
        ("POST", "/jobs:cancel", {"filter": {"all": True}}),
        ("DELETE", f"/jobs/{own}", None),
    ):
        refused = await here.client.request(method, f"{API}{path}", json=sent, headers=headers)
        assert 403 == refused.status_code, (method, path, refused.text)
