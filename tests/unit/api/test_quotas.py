"""`/namespaces/{name}/quotas` and `/usage`: who sets them, who sees them, and what a request over one is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import ask
from tickwise.adapters.clock import VirtualClock

PATH = "/namespaces/team"
SHELL = {"kind": "shell", "command": "true"}
EVERY_HOUR = {"name": "a", "every": "1h", "task": SHELL}
AT_ONCE = {"name": "b", "schedule_type": "IMMEDIATE", "task": SHELL}
NONE = {
    "jobs": None, "runs_per_day": None, "bytes": None, "lanes": None, "calendars": None, "windows": None,
    "concurrent_runs": None, "requests_per_second": None, "min_isolation": None,
}  # fmt: skip


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock()) as made:
        assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": "team"})).status_code
        yield made


async def limit(here: World, **quotas: float) -> None:
    answer = await ask(here, ADMIN_KEY, "PUT", f"{PATH}/quotas", json=quotas)
    assert 200 == answer.status_code, answer.text


async def submit(here: World, job: dict[str, Any] = EVERY_HOUR, **options: Any) -> Any:
    return await ask(here, ADMIN_KEY, "POST", "/jobs", json=job, namespace="team", **options)


async def advance(here: World, seconds: float) -> None:
    assert isinstance(here.clock, VirtualClock)
    await here.clock.advance(seconds)


async def test_quotas_are_replaced_as_a_whole_and_shown_with_their_use(here: World) -> None:
    """What is left out has none any more; a namespace without any counts no runs."""
    assert {**NONE, "version": 1} == (await ask(here, ADMIN_KEY, "GET", f"{PATH}/quotas")).json()
    assert (await ask(here, ADMIN_KEY, "GET", f"{PATH}/usage")).json()["runs_today"] is None
    await limit(here, jobs=5, runs_per_day=10)
    await limit(here, runs_per_day=10, windows=1)
    assert {**NONE, "runs_per_day": 10, "windows": 1, "version": 3} == (
        await ask(here, ADMIN_KEY, "GET", f"{PATH}/quotas")
    ).json()
    for job in (EVERY_HOUR, AT_ONCE, AT_ONCE):
        assert 201 == (await submit(here, job)).status_code
    use = (await ask(here, ADMIN_KEY, "GET", f"{PATH}/usage")).json()
    assert (1, 2, 0, 0) == (use["jobs"], use["runs_today"], use["calendars"], use["windows"])
    assert use["bytes"] > 50
    assert 10 == use["quotas"]["runs_per_day"]


async def test_the_administrator_of_a_namespace_sees_them_and_sets_none(here: World) -> None:
    """Members see what is used of which quota, as a refusal tells them to. Other namespaces see nothing of it."""
    keys = {}
    for role in ("admin", "developer"):
        body = {"name": f"ci of {role}", "role": role, "namespaces": ["team"]}
        keys[role] = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    for path in ("quotas", "usage"):
        assert 200 == (await ask(here, keys["admin"], "GET", f"{PATH}/{path}")).status_code
        assert 404 == (await ask(here, keys["admin"], "GET", f"/namespaces/default/{path}")).status_code
        assert (
            404 == (await ask(here, keys["developer"], "GET", f"/namespaces/default/{path}")).status_code
            or path == "quotas"
        )
        member = await ask(here, keys["developer"], "GET", f"{PATH}/{path}")
        assert {"quotas": 403, "usage": 200}[path] == member.status_code
    assert 403 == (await ask(here, keys["admin"], "PUT", f"{PATH}/quotas", json={"jobs": 1})).status_code


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"jobs": -1}, "/jobs"), ({"jobs": 1.5}, "/jobs"), ({"runs": 1}, "/runs"), ({"requests_per_second": 0}, None),
     ({"windows": 201}, "/windows")],
    ids=str,
)  # fmt: skip
async def test_a_quota_that_means_nothing_is_refused(here: World, body: dict[str, Any], pointer: str | None) -> None:
    """With the field at fault."""
    answer = await ask(here, ADMIN_KEY, "PUT", f"{PATH}/quotas", json=body)
    assert 422 == answer.status_code, answer.text
    assert pointer in (None, answer.json()["pointer"])


async def test_quotas_are_of_the_version_that_was_seen(here: World) -> None:
    """Of two that set them at once, one is told."""
    await limit(here, jobs=5)
    answer = await ask(here, ADMIN_KEY, "PUT", f"{PATH}/quotas", json={"jobs": 6, "expected_version": 1})
    assert (412, "version_conflict") == (answer.status_code, answer.json()["code"])


async def test_a_job_over_the_quota_is_refused_in_each_way_of_creating_one(here: World) -> None:
    """By the same code; an atomic batch stores nothing, another one what there is room for."""
    await limit(here, jobs=2)
    assert 201 == (await submit(here)).status_code
    whole = await ask(here, ADMIN_KEY, "POST", "/jobs:batch?atomic=true", json=[EVERY_HOUR] * 2, namespace="team")
    assert {"quota_jobs"} == {each["problem"]["code"] for each in whole.json()["results"] if "problem" in each}
    batch = await ask(here, ADMIN_KEY, "POST", "/jobs:batch", json=[EVERY_HOUR] * 3, namespace="team")
    assert [201, 409, 409] == [each["status"] for each in batch.json()["results"]], batch.text
    refused = [
        await submit(here),
        await ask(here, ADMIN_KEY, "PUT", "/jobs/by-key/k", json=EVERY_HOUR, namespace="team"),
    ]
    for answer in refused:
        assert (409, "quota_jobs", "") == (
            answer.status_code, answer.json()["code"], answer.json()["pointer"],
        )  # fmt: skip
        assert "/api/v1/namespaces/team/usage" in answer.json()["detail"]
    assert 201 == (await submit(here, AT_ONCE)).status_code, "it passes, and counts as a run"


async def test_an_edit_that_makes_a_job_last_needs_room_and_others_do_not(here: World) -> None:
    """A one-time job gets an interval and a payload: its creation asked for neither."""
    await limit(here, jobs=1, bytes=3_000)
    at = "2100-01-01T00:00:00Z"
    assert isinstance(here.clock, VirtualClock)
    soon = datetime.fromtimestamp(here.clock.now() + 3 * 3_600, UTC).isoformat()
    once = {"name": "o", "schedule_type": "FUTURE", "schedule_time": soon, "task": SHELL}
    ids = [(await submit(here, once)).json()["job_id"] for _ in range(3)]
    grows = {"schedule_type": "INTERVAL", "interval_seconds": 60, "payload": {"b": "x" * 2_000}}
    codes = []
    for job_id in ids:
        answer = await ask(here, ADMIN_KEY, "PATCH", f"/jobs/{job_id}", json=grows, namespace="team")
        codes.append((answer.status_code, answer.json().get("code")))
    assert [(200, None), (409, "quota_jobs"), (409, "quota_jobs")] == codes
    use = (await ask(here, ADMIN_KEY, "GET", f"{PATH}/usage")).json()
    assert (1, True) == (use["jobs"], use["bytes"] <= 3_000)
    path = f"/jobs/{ids[0]}"
    more = {"payload": {"b": "x" * 4_000}}
    answer = await ask(here, ADMIN_KEY, "PATCH", path, json=more, namespace="team")
    assert (409, "quota_bytes") == (answer.status_code, answer.json()["code"])
    keeps: tuple[dict[str, Any], ...] = ({"payload": {}}, {"name": "other"})
    for kept in keeps:
        assert 200 == (await ask(here, ADMIN_KEY, "PATCH", path, json=kept, namespace="team")).status_code
    late = await ask(here, ADMIN_KEY, "PATCH", f"/jobs/{ids[1]}", json={"schedule_time": at}, namespace="team")
    assert (409, "quota_jobs") == (late.status_code, late.json()["code"])


async def test_runs_over_the_quota_of_a_day_are_refused_until_the_next_day(here: World) -> None:
    """Runs now, retries and backfills as a whole; a day of UTC later there is room again."""
    await limit(here, runs_per_day=3)
    job_id = (await submit(here)).json()["job_id"]
    for _ in range(2):
        assert 202 == (await ask(here, ADMIN_KEY, "POST", f"/jobs/{job_id}/runNow", namespace="team")).status_code
    assert 201 == (await submit(here, AT_ONCE)).status_code
    refused = [
        await ask(here, ADMIN_KEY, "POST", f"/jobs/{job_id}/runNow", namespace="team"),
        await submit(here, AT_ONCE),
    ]
    assert [(409, "quota_runs")] * 2 == [(each.status_code, each.json()["code"]) for each in refused]
    await advance(here, 86_400.0)
    assert 202 == (await ask(here, ADMIN_KEY, "POST", f"/jobs/{job_id}/runNow", namespace="team")).status_code


async def test_a_namespace_has_a_rate_of_requests_of_its_own(here: World) -> None:
    """Within four seconds, and no longer than it is set."""
    await limit(here, requests_per_second=0.5)
    body = {"name": "k", "role": "viewer", "namespaces": ["team"]}
    key = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    answers = [await ask(here, key, "GET", "/jobs") for _ in range(2)]
    assert [200, 429] == [answer.status_code for answer in answers]
    assert '"namespace";q=1;w=2' == answers[-1].headers["ratelimit-policy"]
    await limit(here)
    await advance(here, 5.0)
    assert {200} == {(await ask(here, key, "GET", "/jobs")).status_code for _ in range(5)}
