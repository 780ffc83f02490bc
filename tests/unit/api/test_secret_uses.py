"""Which jobs and stored tasks use a secret: told by the rights of the reader, and asked before a removal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.domain.model import Principal
from tickwise.domain.selectors import RestrictedGrant

TASK = {"kind": "shell", "command": "date", "env": {"TOKEN": "secret:api-token"}}
NONE: dict[str, Any] = {"jobs": [], "tasks": [], "hidden": 0, "more": False}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        await made.ask("PUT", "/secrets/api-token", 201, {"value": "correct-horse-battery"})
        yield made


async def key(here: Scene, *permissions: str, **fields: Any) -> str:
    """A key with these permissions."""
    made = await here.ask("POST", "/keys", 201, {"name": "k", "permissions": list(permissions), **fields})
    return str(made["key"])


async def used(here: Scene, by: str | None = None) -> dict[str, Any]:
    """What uses the secret."""
    found: dict[str, Any] = await here.ask("GET", "/secrets/api-token/uses", key=by)
    return found


@pytest.mark.parametrize(
    "task",
    [
        TASK,
        {"kind": "shell", "command": "date", "env": {"F": "secret-file:api-token"}},
        {"kind": "http", "url": "http://a.test", "headers": {"X": "secret:api-token"}},
        {
            "kind": "http", "url": "http://a.test", "templates": True,
            "headers": {"Authorization": "Bearer {{ secret.api-token }}"},
        },
        {"kind": "http", "url": "http://a.test", "oauth": {
            "token_url": "http://a.test/t", "client_id": "a", "client_secret": "secret:api-token"}},
    ],
)  # fmt: skip
async def test_each_place_of_a_reference_counts(here: Scene, task: dict[str, Any]) -> None:
    """By the list, and by name."""
    job = await here.create(name="nightly", key="n", task=task, cron="0 2 * * *")
    assert {**NONE, "jobs": [{"job_id": job, "name": "nightly", "key": "n"}]} == await used(here)
    assert [("api-token", 1)] == [(each["name"], each["jobs"]) for each in await here.ask("GET", "/secrets")]


async def test_what_only_looks_like_a_reference_does_not_count(here: Scene) -> None:
    """Such as a text in the payload, another provider's secret, and a command."""
    for task in (
        {"kind": "shell", "command": "echo secret:api-token"},
        {"kind": "shell", "command": "date", "env": {"A": "secret:vault:api-token"}},
        {"kind": "shell", "command": "date", "env": {"A": "see secret:api-token"}},
    ):
        await here.create(task=task, payload={"a": "secret:api-token"}, cron="0 2 * * *")
    assert NONE == await used(here)
    assert [0] == [each["jobs"] for each in await here.ask("GET", "/secrets")]


async def test_edits_and_stored_tasks_are_followed(here: Scene) -> None:
    """A stored task counts by its newest version; a job has a copy of the version that it was made with."""
    job = await here.create(task=TASK, cron="0 2 * * *")
    await here.ask("POST", "/tasks", 201, {"taskId": "shared", "task": TASK})
    copy = (await here.ask("POST", "/jobs", 201, {"name": "b", "taskId": "shared", "cron": "0 3 * * *"}))["job_id"]
    found = await used(here)
    assert {job, copy} == {each["job_id"] for each in found["jobs"]}
    assert [{"taskId": "shared", "version": 1}] == found["tasks"]
    await here.ask("POST", "/tasks", 201, {"taskId": "shared", "task": {"kind": "shell", "command": "date"}})
    await here.ask("PATCH", f"/jobs/{job}", 200, {"task": {"kind": "shell", "command": "date"}})
    await here.ask("PATCH", f"/jobs/{copy}", 200, {"labels": {"a": "b"}})
    assert {**NONE, "jobs": [{"job_id": copy, "name": "b", "key": None}]} == await used(here)


async def test_a_secret_that_is_used_is_not_removed_without_a_word(here: Scene) -> None:
    """The refusal names its users; `force` removes it all the same, and nothing else does."""
    job = await here.create(name="nightly", task=TASK, cron="0 2 * * *")
    refused = await here.ask("DELETE", "/secrets/api-token", 409)
    assert ("secret_in_use", True) == (refused["code"], "used by 1 job (job 'nightly')" in refused["detail"])
    assert "force" in refused["detail"]
    await here.ask("DELETE", "/secrets/api-token?force=false", 409)
    assert "api-token" == (await here.ask("DELETE", "/secrets/api-token?force=true"))["name"]
    await here.ask("GET", "/secrets/api-token/uses", 404)
    await here.ask("PUT", "/secrets/api-token", 201, {"value": "correct-horse-battery"})
    assert [job] == [each["job_id"] for each in (await used(here))["jobs"]], "a secret that comes back is used again"
    await here.ask("DELETE", f"/jobs/{job}")
    await here.ask("DELETE", "/secrets/api-token")


async def test_many_users_are_told_by_number(here: Scene) -> None:
    """A refusal names a few of them."""
    for number in range(7):
        await here.create(name=f"j{number}", task=TASK, cron="0 2 * * *")
    await here.ask("POST", "/tasks", 201, {"taskId": "shared", "task": TASK})
    detail = (await here.ask("DELETE", "/secrets/api-token", 409))["detail"]
    assert "used by 7 jobs and 1 stored task (" in detail
    assert (5, True) == (detail.count("job '"), ", …)" in detail)


async def test_names_are_told_by_the_rights_of_the_reader(here: Scene) -> None:
    """A reader of secrets who may see some jobs alone, or none, is told the number of the others; a writer, too."""
    billing = await here.create(name="billing", task=TASK, labels={"team": "billing"}, cron="0 2 * * *")
    await here.create(name="payroll", task=TASK, labels={"team": "payroll"}, cron="0 2 * * *")
    await here.ask("POST", "/tasks", 201, {"taskId": "shared", "task": TASK})
    blind = await key(here, "secrets:read", "secrets:write")
    assert {**NONE, "hidden": 3} == await used(here, blind)
    refused = await here.ask("DELETE", "/secrets/api-token", 409, key=blind)
    assert "used by 3 that you may not see; without" in refused["detail"]
    jobs = await key(here, "secrets:read", "jobs:read")
    assert ({"billing", "payroll"}, 1) == (
        {each["name"] for each in (await used(here, jobs))["jobs"]}, (await used(here, jobs))["hidden"]
    )  # fmt: skip
    writer = await key(here, "secrets:write")
    await here.ask("GET", "/secrets/api-token/uses", 403, key=writer)
    assert "payroll" not in (await here.ask("DELETE", "/secrets/api-token", 409, key=writer))["detail"]
    assert billing in {each["job_id"] for each in (await used(here))["jobs"]}


async def test_a_reader_of_some_jobs_is_told_their_names_alone(here: Scene) -> None:
    """A person who may read secrets, and jobs with certain labels; the others are counted."""
    await here.create(name="billing", task=TASK, labels={"team": "billing"}, cron="0 2 * * *")
    await here.create(name="payroll", task=TASK, labels={"team": "payroll"}, cron="0 2 * * *")
    grant = RestrictedGrant(frozenset({"jobs:read"}), (("team", "billing"),), is_everywhere=False)
    ada = Principal("ada", "default", frozenset({"secrets:read"}), restricted=(grant,))
    found = await here.world.control.secrets.uses(ada, "api-token")
    assert (["billing"], 1) == ([each.name for each in found.jobs], found.hidden)


async def test_another_namespace_uses_its_own_secret(here: Scene) -> None:
    """A name there is another secret."""
    await here.ask("POST", "/namespaces", 201, {"name": "team"})
    there = await key(here, "jobs:write", "jobs:read", "secrets:write", "secrets:read", namespace="team")
    await here.ask("POST", "/jobs", 201, {"name": "a", "task": TASK, "cron": "0 2 * * *"}, key=there)
    assert NONE == await used(here)
    await here.ask("DELETE", "/secrets/api-token")
