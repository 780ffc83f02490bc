"""Errors: failures grouped by cause, decided about as a group, and run again as one."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.domain.lifecycle import RunState
from tickwise.roles.scheduler.error_folding import ErrorFolding

VIEWER = "a-viewers-key-for-tests-of-32-characters-or-more"
WRITER = "a-writers-key-for-tests-of-32-characters-or-more"
HOSTILE = "ValueError: <script>alert(1)</script> \u202e {{ 7 * 7 }} \x1b[31m"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


def _cursor(seen: str) -> str:
    """A cursor that nobody was given."""
    return urlsafe_b64encode(f"{seen} 019a2b3c-4d5e-8f60-9123-456789abcdef".encode()).rstrip(b"=").decode()


async def fails(here: Scene, error: str = "exit status 7: no disk", *, number: int = 1, **body: Any) -> list[str]:
    """The ids of runs of jobs that fail so; they are counted."""
    jobs = [await here.create(schedule_type="IMMEDIATE", max_retries=0, **body) for _ in range(number)]
    holder = await here.join()
    claims = await here.take(holder, limit=100)
    await here.begin(holder, claims)
    await here.finish(holder, claims, RunState.FAILED, reason="exit_code", error=error)
    assert len(jobs) == len(claims)
    await ErrorFolding(here.store.error_groups).step()
    return [str(each.run_id) for each in claims]


async def fails_again(here: Scene, job_id: str, error: str) -> None:
    """A job fails once more."""
    await here.pass_time(10)
    await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {})
    holder = await here.join()
    claims = await here.take(holder)
    await here.begin(holder, claims)
    await here.finish(holder, claims, RunState.FAILED, reason="exit_code", error=error)
    await ErrorFolding(here.store.error_groups).step()


async def listed(here: Scene, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await here.ask("GET", f"/errors{query}")
    return found


async def test_a_group_says_how_often_since_when_and_of_which_jobs(here: Scene) -> None:
    """With the newest failure as its sample."""
    job_id = await here.create(schedule_type="ON_DEMAND", max_retries=0)
    await fails_again(here, job_id, "exit status 7: order 1 not in /tmp/a")
    await fails_again(here, job_id, "exit status 7: order 2 not in /tmp/b")
    [found] = await listed(here)
    assert ("open", "exit_code", "exit status 7", "order <n> not in <path>") == tuple(
        found[name] for name in ("status", "reason", "kind", "message")
    )
    assert (2, 1, "shell", "a") == tuple(found[name] for name in ("failures", "jobs", "task_kind", "task"))
    assert found["first_seen"] < found["last_seen"]
    assert "exit status 7: order 2 not in /tmp/b" == found["error_message"]
    assert (None, None, None) == (found["decision"], found["note"], found["ignored_until"])
    one = await here.ask("GET", f"/errors/{found['error_id']}")
    assert [(job_id, 2)] == [(each["job_id"], each["failures"]) for each in one["top_jobs"]]
    assert [2] == [each["failures"] for each in one["hours"]]
    assert found == {name: one[name] for name in found}
    assert "FAILED" == (await here.ask("GET", f"/runs/{found['run_id']}"))["status"]


async def test_a_resolved_group_opens_by_itself_when_it_fails_again(here: Scene) -> None:
    """What was decided stays to be read."""
    job_id = await here.create(schedule_type="ON_DEMAND", max_retries=0)
    await fails_again(here, job_id, "no!")
    await here.pass_time(10)
    [found] = await listed(here)
    path = f"/errors/{found['error_id']}"
    resolved = await here.ask("POST", f"{path}/resolve", 200, {"note": "disk added"})
    assert ("resolved", "resolve", "disk added") == (resolved["status"], resolved["decision"], resolved["note"])
    assert [] == await listed(here, "?status=open&status=ignored")
    await fails_again(here, job_id, "no!")
    [again] = await listed(here, "?status=open")
    assert ("resolve", "disk added", 2) == (again["decision"], again["note"], again["failures"])
    reopened = await here.ask("POST", f"{path}/reopen", 200)
    assert (None, None, "open") == (reopened["decision"], reopened["note"], reopened["status"])


async def test_a_group_is_ignored_until_a_time_or_a_count(here: Scene) -> None:
    """Never for ever, and never until a time that has passed."""
    await fails(here)
    [found] = await listed(here)
    path = f"/errors/{found['error_id']}/ignore"
    await here.ask("POST", path, 422, {})
    await here.ask("POST", path, 422, {"until": "2027-01-15T07:00:00Z"})
    await here.ask("POST", path, 422, {"failures": 0})
    ignored = await here.ask("POST", path, 200, {"until": "2027-01-15T09:00:00Z", "failures": 5})
    assert ("ignored", "2027-01-15T09:00:00Z", 6) == tuple(
        ignored[name] for name in ("status", "ignored_until", "ignored_until_failures")
    )
    await here.pass_time(3_600)
    assert ["open"] == [each["status"] for each in await listed(here)]


async def test_the_dead_letters_of_a_group_are_redriven_together(here: Scene) -> None:
    """By the filter of all dead letters; those of other groups are left alone."""
    wanted = await fails(here, number=3)
    other = await fails(here, "exit status 8")
    found = {each["kind"]: each for each in await listed(here)}
    # Each shell job has a group of its own: those of one are redriven.
    group = next(each for each in await listed(here) if each["run_id"] == wanted[0])
    assert 2 == len(found)
    query = f"?error_id={group['error_id']}"
    assert [wanted[0]] == [each["run_id"] for each in await here.ask("GET", f"/dead-letters{query}")]
    body = {"filter": {"error_id": group["error_id"]}}
    tried = await here.ask("POST", "/dead-letters:redrive", 200, {**body, "dry_run": True})
    assert (1, [wanted[0]]) == (tried["matches"], [each["run_id"] for each in tried["sample"]])
    assert other[0] not in [each["run_id"] for each in tried["sample"]]
    accepted = await here.ask("POST", "/dead-letters:redrive", 202, body)
    assert 1 == accepted["matched"]


async def test_a_list_is_searched_and_paged(here: Scene) -> None:
    """Each group once."""
    for number in range(5):
        await fails(here, f"exit status {number + 1}")
        await here.pass_time(1)
    assert ["exit status 3"] == [each["kind"] for each in await listed(here, "?text=STATUS%203")]
    assert [] == await listed(here, "?reason=timeout")
    [third] = await listed(here, "?text=status%203")
    since = third["first_seen"].replace("+", "%2B")
    assert 3 == len(await listed(here, f"?first_seen_after={since}"))
    seen, path = [], "/errors?limit=2"
    while path:
        answer = await here.world.client.get(API + path)
        seen += [each["kind"] for each in answer.json()]
        path = answer.links["next"]["url"].removeprefix(API) if "next" in answer.links else ""
    assert [f"exit status {number}" for number in (5, 4, 3, 2, 1)] == seen
    for cursor in ("AAAA", _cursor("nan"), _cursor("inf"), _cursor("0x1p99999"), _cursor("0x1p90")):
        await here.ask("GET", f"/errors?cursor={cursor}", 422)


async def test_hostile_text_is_text(here: Scene) -> None:
    """It is answered as it was, and found by a part of it."""
    await fails(here, HOSTILE)
    [found] = await listed(here, "?text=%3CSCRIPT%3E")
    assert (HOSTILE, "ValueError") == (found["error_message"], found["kind"])
    await here.ask("GET", "/errors?text=%00", 422)
    await here.ask("GET", "/errors/nothing", 404)
    await here.ask("GET", f"/errors/{found['run_id']}", 404)
    await here.ask("POST", f"/errors/{found['run_id']}/resolve", 404, {})


@pytest.mark.parametrize(("method", "path"), [("POST", "resolve"), ("POST", "reopen"), ("POST", "ignore")])
async def test_decisions_take_the_permission_to_write_runs(here: Scene, method: str, path: str) -> None:
    """To look takes that to read them; who may not read sees no text of an error."""
    await here.world.key(VIEWER, "runs:read", name="viewer")
    await here.world.key(WRITER, "runs:write", name="writer")
    await fails(here)
    [found] = await here.ask("GET", "/errors", key=VIEWER)
    body = {"failures": 1} if path == "ignore" else {}
    await here.ask(method, f"/errors/{found['error_id']}/{path}", 403, body, key=VIEWER)
    await here.ask("GET", "/errors", 403, key=WRITER)
    answer = await here.ask(method, f"/errors/{found['error_id']}/{path}", 200, body, key=WRITER)
    assert {"error_id", "status"} == set(answer)


async def test_another_namespace_sees_nothing(here: Scene) -> None:
    """Neither the group nor its hours."""
    await here.world.key(VIEWER, "runs:read", "runs:write", name="viewer", namespace="team-a")
    await fails(here)
    [found] = await listed(here)
    assert [] == await here.ask("GET", "/errors", key=VIEWER)
    await here.ask("GET", f"/errors/{found['error_id']}", 404, key=VIEWER)
    await here.ask("POST", f"/errors/{found['error_id']}/resolve", 404, {}, key=VIEWER)
