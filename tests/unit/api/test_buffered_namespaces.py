"""Buffered requests for a namespace that closes, or goes, while they are on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.buffered import Buffered, buffered
from tests.support.waiting import eventually
from tests.unit.api.test_buffered import share
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSharedState
from tickwise.api.ingest import job_body
from tickwise.control.buffered.pending import PendingRequest
from tickwise.control.context import NAMESPACES_FRESH_SECONDS
from tickwise.control.receipts import Once
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.identity.namespaces import SETTLE_SECONDS

SHELL = {"kind": "shell", "command": "date"}
OLD_ID = "00000000-0000-8000-8000-000000000001"
"""An id of 1970: all that was accepted before it was made is applied."""
BODY = {"name": "a", "task": SHELL, "every": "1h"}
TEAM = {"Tickwise-Namespace": "team-a"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Buffered]:
    async with buffered() as made:
        yield made


async def send(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """The body of an answer that has this status."""
    answer = await here.world.client.request(method, API + path, **options)
    assert status == answer.status_code, answer.text
    return answer.json()


async def test_what_was_accepted_for_a_namespace_that_closed_fails_on_record(here: Buffered) -> None:
    """A create that was on its way; the operation says why. What is there can still be changed."""
    there = await team_job(here)
    late = await team_job(here, apply=False)
    await close_team(here)
    await here.apply()
    ended = await team(here, "GET", f"/operations/{late['operation_id']}", 200)
    assert ("failed", "namespace_closing") == (ended["status"], ended["problems"][0]["code"])
    await team(here, "GET", f"/jobs/{late['job_id']}", 404)
    assert 200 == (await here.world.client.get(f"{API}/jobs/{there['job_id']}", headers=TEAM)).status_code


async def test_what_was_accepted_for_a_namespace_that_is_gone_is_not_applied_to_a_later_one(here: Buffered) -> None:
    """Nor leaves it a record there."""
    late = [await team_job(here, apply=False) for _ in range(2)]
    await close_team(here)
    store = here.link.store.removals
    await store.begin("team-a")
    await here.clock.advance(SETTLE_SECONDS)
    assert await store.end("team-a")
    await here.clock.advance(1.0)
    await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})
    await here.apply()
    for each in late:
        assert await here.link.store.jobs.get("team-a", UUID(each["job_id"])) is None
    assert [] == list(await here.link.store.searches.operations("team-a", None, 10))
    made = await team_job(here)
    assert await here.link.store.jobs.get("team-a", UUID(made["job_id"])) is not None


async def test_what_was_accepted_after_a_namespace_was_opened_again_is_applied(here: Buffered) -> None:
    """Also by a recorder that has just seen it closing: what it remembers is no reason to refuse for good."""
    await team_job(here)
    late = await team_job(here, apply=False)
    await close_team(here)
    await here.clock.advance(NAMESPACES_FRESH_SECONDS + 1.0)
    await here.apply()
    assert "failed" == (await team(here, "GET", f"/operations/{late['operation_id']}", 200))["status"]
    await send(here, "PATCH", "/namespaces/team-a", 200, json={"state": "active"})
    made = await team_job(here)
    assert await here.link.store.jobs.get("team-a", UUID(made["job_id"])) is not None


async def test_a_namespace_that_is_being_removed_accepts_nothing_new(here: Buffered) -> None:
    """As one that is closing: the answer comes with the request, and not with its operation."""
    await team_job(here)
    await close_team(here)
    await here.link.store.removals.begin("team-a")
    await here.clock.advance(NAMESPACES_FRESH_SECONDS + 1.0)
    refused = await team(here, "POST", "/jobs", 409, json={"name": "a", "task": SHELL, "every": "1h"})
    assert "namespace_closing" == refused["code"]


async def test_an_idempotency_key_of_a_former_namespace_is_a_new_one(here: Buffered) -> None:
    """The same request makes a job in the later namespace of the name, and another request is none that was repeated;
    also under a job_id of the client's own."""
    for number, body in enumerate((BODY, {**BODY, "job_id": str(uuid4())})):
        once = {"Idempotency-Key": f"k{number}", **TEAM}
        for later in (body, {**body, "every": "2h"}):
            await team_job(here)
            first = await send(here, "POST", "/jobs", 202, json=body, headers=once)
            await here.apply()
            await renew_team(here)
            again = await send(here, "POST", "/jobs", 202, json=later, headers=once)
            assert first["job_id"] == again["job_id"]
            await here.apply()
            job = await here.link.store.jobs.get("team-a", UUID(again["job_id"]))
            assert job is not None
            assert again == await send(here, "POST", "/jobs", 202, json=later, headers=once)
            await send(here, "POST", "/jobs", 422, json={**body, "name": "b"}, headers=once)
            await renew_team(here)


async def test_a_batch_under_a_key_of_a_former_namespace_is_a_new_one(here: Buffered) -> None:
    """Also another batch."""
    once = {"Idempotency-Key": "k", **TEAM}
    await team_job(here)
    await send(here, "POST", "/jobs:batch", 202, json={"jobs": [BODY]}, headers=once)
    await here.apply()
    await renew_team(here)
    batch = {"jobs": [{**BODY, "every": "2h"}]}
    [made] = (await send(here, "POST", "/jobs:batch", 202, json=batch, headers=once))["results"]
    await here.apply()
    assert await here.link.store.jobs.get("team-a", UUID(made["job_id"])) is not None


async def test_a_job_id_of_a_former_namespace_is_free_for_another_job(here: Buffered) -> None:
    """As it is where the store is asked."""
    body = {**BODY, "job_id": str(uuid4())}
    await team_job(here)
    await team(here, "POST", "/jobs", 202, json=body)
    await here.apply()
    await renew_team(here)
    await team(here, "POST", "/jobs", 202, json={**body, "name": "another"})
    await here.apply()
    assert "another" == (await team(here, "GET", f"/jobs/{body['job_id']}", 200))["name"]


@pytest.mark.parametrize("same_process", [True, False], ids=["memory", "shared state"])
async def test_nothing_of_a_former_namespace_is_pending_in_a_later_one(same_process: bool) -> None:
    """Neither its jobs, changes and operations, nor for another process that was told of them."""
    shared_state = LocalSharedState(VirtualClock(1_800_000_000.0))
    await shared_state.start()
    async with buffered(shared_state=shared_state) as here, buffered(shared_state=shared_state) as other:
        share(here, other)
        other.world.control.directory._namespaces = here.link.namespaces
        asked = here if same_process else other
        there = await team_job(here)
        late = await team(here, "POST", "/jobs", 202, json={**BODY, "job_id": OLD_ID})
        await team(here, "PUT", f"/jobs/{there['job_id']}", 202, json={"every": "3h"})
        places = (f"/jobs/{late['job_id']}", f"/operations/{late['operation_id']}")
        for place in places:
            await eventually(lambda place=place: is_pending(asked, place), what="it is told as pending")  # type: ignore[misc]  # mypy does not infer a lambda with a default
        await renew_team(here)
        for place in places:
            await team(asked, "GET", place, 404)
        for method in ("PUT", "DELETE"):
            await team(asked, method, places[0], 404, json={"every": "3h"} if method == "PUT" else None)
        await team(here, "POST", "/jobs", 202, json={**BODY, "job_id": there["job_id"]})
        await here.apply()
        assert "pending" not in await team(asked, "GET", f"/jobs/{there['job_id']}", 200)
    await shared_state.stop()


async def is_pending(here: Buffered, path: str) -> bool:
    return 202 == (await here.world.client.get(API + path, headers=TEAM)).status_code


async def test_a_request_for_a_former_namespace_does_not_hide_the_same_one_for_a_later(here: Buffered) -> None:
    """Both have one id, and come to the recorder in one batch."""
    body = {**BODY, "job_id": str(uuid4()), "key": "k"}
    await team_job(here)
    first = await team(here, "POST", "/jobs", 202, json=body)
    await renew_team(here)
    again = await team(here, "POST", "/jobs", 202, json=body)
    assert first == again
    await here.apply()
    assert await here.link.store.jobs.get("team-a", UUID(again["job_id"])) is not None
    assert "done" == (await team(here, "GET", f"/operations/{again['operation_id']}", 200))["status"]


async def test_a_namespace_that_is_being_removed_takes_nothing(here: Buffered) -> None:
    """Also of an administrator of the installation, who still sees it: it is not accepted first and refused later."""
    await team_job(here)
    await close_team(here)
    await here.link.store.removals.begin("team-a")
    await here.clock.advance(NAMESPACES_FRESH_SECONDS)
    await team(here, "POST", "/jobs", 409, json=BODY)


async def test_keys_of_one_name_share_no_idempotency_key(here: Buffered) -> None:
    """As where the store keeps the answers: a request is known under the id of its credential."""
    first = Principal("ci", "default", frozenset({Permission.JOBS_WRITE}), key_id=uuid4())
    once = Once("POST /jobs", "k", b"1" * 32)
    made = []
    for who in (first, first, first._replace(key_id=uuid4())):
        accepted = await here.world.control.requests.create(who, lambda: job_body(msgspec.json.encode(BODY)), once=once)
        assert isinstance(accepted, PendingRequest)
        made.append(accepted.job_id)
    assert made[0] == made[1] != made[2]


async def renew_team(here: Buffered) -> None:
    """Remove the namespace with all that it holds, and add another one of its name."""
    store = here.link.store
    await close_team(here)
    await store.removals.begin("team-a")
    while await store.removals.drop("team-a", 100):
        pass
    await here.clock.advance(SETTLE_SECONDS)
    assert await store.removals.end("team-a")
    await here.clock.advance(1.0)
    await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})


async def team(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """As `send`, in a namespace of its own."""
    return await send(here, method, path, status, headers=TEAM, **options)


async def team_job(here: Buffered, *, apply: bool = True) -> Any:
    """A job that was accepted there, and applied."""
    if await here.link.store.namespaces.get("team-a") is None:
        await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})
    made = await team(here, "POST", "/jobs", 202, json={"name": "a", "task": SHELL, "every": "1h"})
    if apply:
        await here.apply()
    return made


async def close_team(here: Buffered) -> None:
    await send(here, "PATCH", "/namespaces/team-a", 200, json={"state": "closing"})
