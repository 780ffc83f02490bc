"""Secrets of http tasks in answers: masked everywhere, kept when what was read is written back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, create, get, post, put, stored
from tickwise.adapters.clock import VirtualClock
from tickwise.documents.definition import decode_definition
from tickwise.domain.masking import MASK

SECRET = "s3cr3t-value"
URL = f"https://ada:{SECRET}@example.com/hook;sid={SECRET}?token={SECRET}&page=2#{SECRET}"
HEADERS = {"Authorization": f"Bearer {SECRET}", "X-Pin": SECRET, "Accept": "text/plain"}
OAUTH = {"token_url": "https://login.example.com/token", "client_id": "me", "client_secret": SECRET}
SIGNING = "whsec_" + "A" * 43 + "="
HTTP = {
    "kind": "http", "url": URL, "headers": HEADERS, "query": {"api_key": SECRET}, "sign": {"secrets": [SIGNING]},
}  # fmt: skip


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def task_of(here: World, job_id: str) -> dict[str, Any]:
    """As it is stored."""
    found: dict[str, Any] = json.loads(bytes(decode_definition((await stored(here, job_id)).definition).task))
    return found


async def test_no_answer_shows_a_secret_of_a_task(here: World) -> None:
    """Jobs alone, by key, in lists and after each write; tasks; explanations; runs."""
    job_id = await create(here, task=HTTP, every="1h", key="k")
    await post(here, "/tasks", 201, taskId="t", task=HTTP)
    run = (await post(here, f"/jobs/{job_id}/runNow", 202))["run_id"]
    other = await create(here, task={"kind": "http", "url": "https://example.com/", "oauth": OAUTH}, every="1h")
    answers = [
        *[await here.client.get(API + path) for path in (
            f"/jobs/{job_id}", "/jobs/by-key/k", "/jobs", f"/jobs/{job_id}/explain", f"/runs/{run}", "/runs",
            f"/runs/{run}/explain", f"/jobs/{other}",
            "/tasks", "/tasks/t", "/tasks/t/versions", f"/jobs/{job_id}/preview",
        )],
        await here.client.put(f"{API}/jobs/{job_id}", json={"description": "b"}),
        await here.client.post(f"{API}/jobs/{job_id}/pause"),
        await here.client.post(f"{API}/jobs/{job_id}/resume"),
        await here.client.post(f"{API}/tasks", json={"taskId": "t", "task": HTTP}),
        await here.client.delete(f"{API}/jobs/{job_id}"),
    ]  # fmt: skip
    for answer in answers:
        assert answer.is_success, answer.text
        assert SECRET not in answer.text, answer.request.url
        assert SIGNING not in answer.text, answer.request.url
    shown = answers[0].json()["task"]
    assert f"https://{MASK}@example.com/hook;sid={MASK}?token={MASK}&page=2#{MASK}" == shown["url"]
    assert {"Authorization": MASK, "X-Pin": MASK, "Accept": "text/plain"} == shown["headers"]


async def test_a_signing_secret_is_changed_without_knowing_the_old_one(here: World) -> None:
    """The new one is sent before the mask; then the mask alone keeps it. Another address gets none of them."""
    job_id = await create(here, task=HTTP, every="1h")
    task = (await get(here, f"/jobs/{job_id}"))["task"]
    new = "whsec_" + "B" * 43 + "="
    await put(here, job_id, task={**task, "sign": {"secrets": [new, MASK]}})
    assert [new, SIGNING] == (await task_of(here, job_id))["sign"]["secrets"]
    await put(here, job_id, task={**task, "sign": {"secrets": [MASK]}})
    assert [new] == (await task_of(here, job_id))["sign"]["secrets"]
    bare = {"kind": "http", "url": "https://evil.example/", "sign": {"secrets": [MASK]}}
    refused = await here.client.put(f"{API}/jobs/{job_id}", json={"task": bare})
    assert (422, "secret_masked", "/task/sign/secrets/0") == (
        refused.status_code, refused.json()["code"], refused.json()["pointer"],
    )  # fmt: skip


async def test_what_was_read_can_be_written_back(here: World) -> None:
    """The whole task, with one thing changed: the secrets stay, by id and by key; a new secret replaces the old one."""
    job_id = await create(here, task=HTTP, every="1h", key="k")
    before = await task_of(here, job_id)
    for path in (f"{API}/jobs/{job_id}", f"{API}/jobs/by-key/k"):
        task = (await here.client.get(path)).json()["task"]
        task["headers"]["Accept"] = "application/json"
        answer = await here.client.put(path, json={"task": task})
        assert (200, SECRET in answer.text) == (answer.status_code, False)
        headers = {**before["headers"], "Accept": "application/json"}
        assert {**before, "headers": headers} == await task_of(here, job_id)
    task["headers"]["Authorization"] = "Bearer new"
    await put(here, job_id, task=task)
    assert "Bearer new" == (await task_of(here, job_id))["headers"]["Authorization"]


async def test_a_stored_task_keeps_its_secrets_too(here: World) -> None:
    """What was read and stored again is the same version; with a change it is the next one, with the secrets."""
    first = await post(here, "/tasks", 201, taskId="t", task=HTTP)
    assert first == await post(here, "/tasks", 201, taskId="t", task=first["task"])
    second = await post(here, "/tasks", 201, taskId="t", task={**first["task"], "method": "POST"})
    row = await here.store.tasks.get("default", "t")
    assert row is not None
    kept = json.loads(row.task)
    assert (2, URL, "POST") == (second["version"], kept["url"], kept["method"])


@pytest.mark.parametrize("url", ["https://evil.example/", "http://example.com/hook", "https://example.com:8443/"])
async def test_a_secret_cannot_be_sent_elsewhere_by_who_does_not_know_it(here: World, url: str) -> None:
    """A change of the host with the mask is refused, and changes nothing."""
    job_id = await create(here, task=HTTP, every="1h")
    before = await task_of(here, job_id)
    task = {**HTTP, "url": url, "headers": {"X-Pin": MASK}}
    answer = await here.client.put(f"{API}/jobs/{job_id}", json={"task": task})
    assert (422, "secret_masked", "/task/headers/X-Pin") == (
        answer.status_code, answer.json()["code"], answer.json()["pointer"],
    )  # fmt: skip
    assert before == await task_of(here, job_id)


async def test_a_merge_patch_keeps_secrets_and_sends_them_nowhere_else(here: World) -> None:
    """What it does not name stays; another host needs the secrets anew."""
    job_id = await create(here, task=HTTP, every="1h")
    before = await task_of(here, job_id)

    async def patch(task: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/merge-patch+json"}
        body = json.dumps({"task": task}).encode()
        return await here.client.patch(f"{API}/jobs/{job_id}", content=body, headers=headers)

    kept = await patch({"headers": {"X-Note": "a", "X-Pin": None}})
    assert (200, False) == (kept.status_code, SECRET in kept.text)
    after = await task_of(here, job_id)
    headers = {"Authorization": before["headers"]["Authorization"], "Accept": "text/plain", "X-Note": "a"}
    assert {**before, "headers": headers} == after
    elsewhere = await patch({"url": "https://evil.example/"})
    assert (422, "secret_masked") == (elsewhere.status_code, elsewhere.json()["code"])
    assert after == await task_of(here, job_id)


async def test_a_new_job_cannot_be_made_with_a_mask(here: World) -> None:
    """Alone, in a batch, under a key, as a stored task: what was copied out of an answer lacks its secret."""
    task = {"kind": "http", "url": "https://example.com/", "headers": {"Cookie": MASK}}
    body = {"name": "a", "task": task, "every": "1h"}
    alone = await here.client.post(f"{API}/jobs", json=body)
    by_key = await here.client.put(f"{API}/jobs/by-key/k", json=body)
    kept = await here.client.post(f"{API}/tasks", json={"taskId": "t", "task": task})
    for answer in (alone, by_key, kept):
        assert (422, "secret_masked") == (answer.status_code, answer.json()["code"])
        assert "/task/headers/Cookie" == answer.json()["pointer"]
    [result] = (await here.client.post(f"{API}/jobs:batch", json=[body])).json()["results"]
    assert (422, "secret_masked") == (result["status"], result["problem"]["code"])


async def test_asterisks_elsewhere_are_asterisks(here: World) -> None:
    """In texts of other tasks, in headers that are shown, in payloads."""
    shell = {"kind": "shell", "command": "echo ***"}
    job_id = await create(here, task=shell, every="1h", payload={"a": MASK})
    await put(here, job_id, task={"kind": "shell", "command": "echo *** again"})
    assert "echo *** again" == (await get(here, f"/jobs/{job_id}"))["task"]["command"]
    plain = await create(here, task={**HTTP, "headers": {"Accept": MASK}}, every="1h")
    assert {"Accept": MASK} == (await task_of(here, plain))["headers"]


@pytest.mark.parametrize(
    "fault",
    [
        {"headers": {"X-Pin": f"{SECRET}\n"}},
        {"headers": {"X-Pin": [SECRET]}},
        {"headers": {f"Authorization: Bearer {SECRET}": ""}},
        {"headers": {f"Bearer {SECRET}": "Authorization"}},
        {"headers": f"X-Pin: {SECRET}"},
        {"headers": {"Content-Length": SECRET}},
        {"url": f"https://ada:{SECRET}/a@example.com/"},
        {"url": f"https://ada:{SECRET}\u2100@example.com/"},
        {"url": f"https://[ada:{SECRET}@example.com/"},
        {"url": f"https://ada:{SECRET}@exam ple.com/"},
        {"url": f"ftp://ada:{SECRET}@example.com/"},
        {"method": "TRACE"},
        {"expect": [SECRET]},
    ],
    ids=str,
)
async def test_a_problem_never_quotes_a_secret_of_a_task(here: World, fault: dict[str, Any]) -> None:
    """A refusal is logged and forwarded by many a client, so it names the field and not its value."""
    body = {"name": "a", "task": {**HTTP, **fault}, "every": "1h"}
    job_id = await create(here, task=HTTP, every="1h")
    alone = await here.client.post(f"{API}/jobs", json=body)
    change = await here.client.put(f"{API}/jobs/{job_id}", json={"task": body["task"]})
    kept = await here.client.post(f"{API}/tasks", json={"taskId": "t", "task": body["task"]})
    batch = await here.client.post(f"{API}/jobs:batch", json=[body])
    assert [422, 422, 422] == [answer.status_code for answer in (alone, change, kept)]
    for answer in (alone, change, kept, batch):
        assert SECRET not in answer.text
