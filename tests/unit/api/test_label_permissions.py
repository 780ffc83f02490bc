"""Permissions for jobs with certain labels: what is made, changed and given within them. What is reached by each route
is the matrix of `tests/security/test_label_selectors.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key
from tickwise.adapters.broker.memory import Exchange, MemoryBroker
from tickwise.adapters.clock import VirtualClock
from tickwise.control.bulk.pages import OperationPages

BILLING = {"team": "billing"}
JOB = {"name": "a", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}
PERMISSIONS = ["jobs:read", "jobs:write", "runs:read", "runs:write"]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_800_000_000.0)


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        yield made


async def key_for(here: World, labels: dict[str, str] | None = None, name: str = "ci", **fields: Any) -> str:
    """A key for jobs with these labels, made by the API."""
    body: dict[str, Any] = {"name": name, "permissions": PERMISSIONS, "labels": BILLING if labels is None else labels}
    answer = await ask(here, ADMIN_KEY, "POST", "/keys", json={**body, **fields})
    assert 201 == answer.status_code, answer.text
    secret: str = answer.json()["key"]
    return secret


async def job(here: World, labels: dict[str, str], by: str = ADMIN_KEY, **fields: Any) -> str:
    """A new job; its id."""
    body = {**JOB, "labels": labels, **fields}
    answer = await ask(here, by, "POST", "/jobs", json=body)
    assert 201 == answer.status_code, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id


def refused(answer: httpx2.Response) -> tuple[int, str, str | None]:
    """Status, code and pointer of a refusal."""
    problem = answer.json()
    return answer.status_code, problem["code"], problem.get("pointer")


# ------------------------------------------------------------------------------------------ make and change


async def test_a_job_is_made_with_the_labels_of_the_key(here: World) -> None:
    """Others may stand beside; without them it is refused, and the answer says which are missing."""
    key = await key_for(here)
    await job(here, {**BILLING, "env": "prod"}, key)
    for labels in ({}, {"team": "ops"}, {"env": "prod"}):
        answer = await ask(here, key, "POST", "/jobs", json={**JOB, "labels": labels})
        assert (403, "forbidden", "/labels") == refused(answer)
        assert "team=billing" in answer.json()["detail"]
    assert 1 == len((await ask(here, ADMIN_KEY, "GET", "/jobs")).json())


async def test_each_job_of_a_batch_is_judged_by_its_labels(here: World) -> None:
    """One of other labels is refused in its place; of a batch that is all or none, nothing is stored."""
    key = await key_for(here)
    batch = [{**JOB, "labels": BILLING}, JOB, {**JOB, "labels": BILLING}]
    results = (await ask(here, key, "POST", "/jobs:batch", json=batch)).json()["results"]
    assert [201, 403, 201] == [each["status"] for each in results]
    await ask(here, key, "POST", "/jobs:batch?atomic=true", json=batch)
    assert 2 == len((await ask(here, ADMIN_KEY, "GET", "/jobs")).json())


async def test_a_job_moves_neither_out_of_the_labels_nor_into_them(here: World) -> None:
    """The labels before and after a change both count, by each way to change a job."""
    key = await key_for(here)
    mine, other = await job(here, BILLING), await job(here, {"team": "ops"})
    for labels in ({}, {"team": "ops"}, None):
        for method in ("PUT", "PATCH"):
            answer = await ask(here, key, method, f"/jobs/{mine}", json={"labels": labels})
            assert (403, "/labels") == (answer.status_code, answer.json()["pointer"]), method
        dry = await ask(here, key, "PUT", f"/jobs/{mine}?dry_run=true", json={"labels": labels})
        assert 403 == dry.status_code
    assert 200 == (await ask(here, key, "PUT", f"/jobs/{mine}", json={"labels": {**BILLING, "x": "y"}})).status_code
    assert 200 == (await ask(here, key, "PUT", f"/jobs/{mine}", json={"name": "renamed"})).status_code
    assert 404 == (await ask(here, key, "PUT", f"/jobs/{other}", json={"labels": BILLING})).status_code
    await ask(here, ADMIN_KEY, "PUT", f"/jobs/{mine}", json={"labels": {"team": "ops"}})
    assert 404 == (await ask(here, key, "GET", f"/jobs/{mine}")).status_code


async def test_a_key_of_a_job_of_others_is_taken(here: World) -> None:
    """By a create and by an upsert, with and without a precondition; and nothing of that job is told."""
    key = await key_for(here)
    await job(here, {"team": "ops"}, name="hidden", key="nightly")
    for headers in ({}, {"If-Match": "*"}, {"If-Match": '"a-guess"'}, {"If-None-Match": "*"}):
        answer = await here.client.put(
            "/api/v1/jobs/by-key/nightly", json={**JOB, "labels": BILLING},
            headers={"Authorization": f"Bearer {key}", **headers},
        )  # fmt: skip
        assert (409, "key_taken") == refused(answer)[:2]
        assert "hidden" not in answer.text
    created = await ask(here, key, "POST", "/jobs", json={**JOB, "key": "nightly", "labels": BILLING})
    assert (409, "key_taken") == refused(created)[:2]
    own = await ask(here, key, "PUT", "/jobs/by-key/mine", json={**JOB, "labels": BILLING})
    assert 201 == own.status_code
    assert 200 == (await ask(here, key, "PUT", "/jobs/by-key/mine", json={"name": "again"})).status_code
    assert (403, "/labels") == refused(await ask(here, key, "PUT", "/jobs/by-key/new", json=JOB))[::2]


async def test_a_sequence_names_jobs_of_the_labels_alone(here: World) -> None:
    """A job of others is not there to be named; those that an administrator named stay; circles tell no names."""
    key = await key_for(here)
    other, mine = await job(here, {"team": "ops"}, name="hidden"), await job(here, BILLING)
    for reference in (other, [mine, other]):
        answer = await ask(here, key, "POST", "/jobs", json={**JOB, "labels": BILLING, "then": reference})
        assert (422, "successor_unknown") == refused(answer)[:2]
    first = await job(here, BILLING, key, then=mine)
    # An administrator closes most of a circle through a job of others.
    await ask(here, ADMIN_KEY, "PUT", f"/jobs/{mine}", json={"then": other})
    await ask(here, ADMIN_KEY, "PUT", f"/jobs/{other}", json={"on_failure": (third := await job(here, BILLING))})
    assert 200 == (await ask(here, key, "PUT", f"/jobs/{mine}", json={"name": "b"})).status_code
    circle = await ask(here, key, "PUT", f"/jobs/{third}", json={"then": first})
    assert (422, "sequence_cycle") == refused(circle)[:2]
    assert "hidden" not in circle.text
    assert other in circle.text


async def test_a_preview_is_of_a_job_that_could_be_made(here: World) -> None:
    """Maintenance windows of other labels are told to nobody else."""
    key = await key_for(here)
    assert (
        200
        == (await ask(here, key, "POST", "/jobs:preview", json={"cron": "0 3 * * *", "labels": BILLING})).status_code
    )
    for labels in ({}, {"team": "ops"}):
        answer = await ask(here, key, "POST", "/jobs:preview", json={"cron": "0 3 * * *", "labels": labels})
        assert (403, "forbidden", "/labels") == refused(answer)


async def test_a_retry_with_an_idempotency_key_is_answered_to_the_same_key_alone(here: World) -> None:
    """Keys of one name share no answers: neither restricted ones, nor others."""
    whole, mine = await key_for(here, name="ci", labels=BILLING), await key_for(here, name="ci", labels={"env": "prod"})
    again = await key_for(here, name="ci", labels=BILLING)
    body = {**JOB, "labels": {**BILLING, "env": "prod"}}
    answers = [
        await here.client.post(
            "/api/v1/jobs", json=body, headers={"Authorization": f"Bearer {key}", "Idempotency-Key": "k"}
        )
        for key in (whole, mine, again)
    ]
    assert [201, 201, 201] == [each.status_code for each in answers]
    first, second, third = [each.json()["job_id"] for each in answers]
    assert 3 == len({first, second, third})
    repeated = await here.client.post(
        "/api/v1/jobs", json=body, headers={"Authorization": f"Bearer {mine}", "Idempotency-Key": "k"}
    )
    assert (second, "true") == (repeated.json()["job_id"], repeated.headers["idempotency-replayed"])


async def test_a_run_whose_job_is_gone_is_nobodys(here: World) -> None:
    """It has no labels; an unrestricted key still sees it."""
    key = await key_for(here)
    mine = await job(here, BILLING)
    run = (await ask(here, key, "POST", f"/jobs/{mine}/runNow", json={})).json()["run_id"]
    assert 200 == (await ask(here, key, "GET", f"/runs/{run}")).status_code
    state = here.store.state
    del state.jobs[UUID(mine)]
    for method, path in (("GET", ""), ("GET", "/logs"), ("GET", "/explain"), ("POST", "/cancel"), ("POST", "/retry")):
        assert 404 == (await ask(here, key, method, f"/runs/{run}{path}")).status_code, path
    assert [] == (await ask(here, key, "GET", "/runs")).json()
    assert 200 == (await ask(here, ADMIN_KEY, "GET", f"/runs/{run}")).status_code


async def test_an_operation_that_was_asked_for_heeds_labels_that_change_before_it_is_done(here: World) -> None:
    """What left the labels since is left alone; what came into them is of others."""
    key = await key_for(here)
    mine, gone = await job(here, BILLING), await job(here, BILLING)
    asked = await ask(here, key, "POST", "/jobs:pause", json={"filter": {"all": True}})
    operation_id = asked.json()["operation_id"]
    await ask(here, ADMIN_KEY, "PUT", f"/jobs/{gone}", json={"labels": {"team": "ops"}})
    operation = await here.store.operations.take(60.0)
    assert operation is not None
    assert '"only":[{"team":"billing"}]' in operation.request
    page = await OperationPages(here.control.context).page(operation, 50)
    assert (1, 0) == (page.done, page.refused)
    states = [(await ask(here, ADMIN_KEY, "GET", f"/jobs/{each}")).json()["status"] for each in (mine, gone)]
    assert ["PAUSED", "SCHEDULED"] == states
    assert 200 == (await ask(here, key, "GET", f"/operations/{operation_id}")).status_code
    narrower = await key_for(here, {**BILLING, "env": "prod"})
    assert 404 == (await ask(here, narrower, "GET", f"/operations/{operation_id}")).status_code


async def test_a_dry_run_shows_what_may_be_read_alone(here: World) -> None:
    """A permission to change jobs of some labels shows none of them; with one to read others, none either."""
    await job(here, BILLING, name="hidden")
    body = {"filter": {"all": True}, "dry_run": True}
    writer = await key_for(here, permissions=["jobs:write"])
    shown = (await ask(here, writer, "POST", "/jobs:cancel", json=body)).json()
    assert (1, []) == (shown["matches"], shown["sample"])
    both = (await ask(here, await key_for(here), "POST", "/jobs:cancel", json=body)).json()
    assert ["hidden"] == [each["name"] for each in both["sample"]]
    roles = [
        {"role": "submitter", "namespace": "default", "labels": BILLING},
        {"role": "viewer", "namespace": "default", "labels": {"team": "ops"}},
    ]
    await ask(here, ADMIN_KEY, "PUT", "/namespaces/default/roles/submitter", json={"permissions": ["jobs:write"]})
    await ask(here, ADMIN_KEY, "POST", "/users", json={"name": "Ada", "password": PASSWORD, "roles": roles})
    token = (await signed_in(here, "ada"))["access_token"]
    shown = (await ask(here, token, "POST", "/jobs:cancel", json=body)).json()
    assert (1, []) == (shown["matches"], shown["sample"])


async def test_with_a_broker_requests_of_restricted_keys_go_to_the_store(clock: VirtualClock) -> None:
    """The store judges the labels of the job as it is when the request is carried out; others are buffered."""
    async with world(clock=clock, broker=MemoryBroker(Exchange(), clock)) as here:
        key = await key_for(here)
        body = {**JOB, "labels": BILLING}
        pending = await ask(here, ADMIN_KEY, "POST", "/jobs", json=body)
        assert 202 == pending.status_code
        for path in (f"/jobs/{pending.json()['job_id']}", f"/operations/{pending.json()['operation_id']}"):
            assert 202 == (await ask(here, ADMIN_KEY, "GET", path)).status_code
            assert 404 == (await ask(here, key, "GET", path)).status_code
        made = await ask(here, key, "POST", "/jobs", json=body)
        assert 201 == made.status_code
        path = f"/jobs/{made.json()['job_id']}"
        assert 201 == (await ask(here, key, "POST", "/jobs:batch", json=[body])).json()["results"][0]["status"]
        assert 200 == (await ask(here, key, "PUT", path, json={"name": "b"})).status_code
        assert 403 == (await ask(here, key, "PUT", path, json={"labels": {}})).status_code
        assert 200 == (await ask(here, key, "DELETE", path)).status_code
        assert 404 == (await ask(here, key, "DELETE", f"/jobs/{uuid4()}")).status_code


# ------------------------------------------------------------------------------------------ give


async def test_nobody_gives_more_than_they_have_for_the_labels(here: World) -> None:
    """A key that administers keys, and has the rest for one team, makes keys for that team or a part of it."""
    await ask(here, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a", "display_name": "A"})
    for name, permissions, labels in (("staff", ["keys:admin", "users:admin"], None), ("doer", PERMISSIONS, BILLING)):
        body = {"permissions": permissions, **({"labels": labels} if labels else {})}
        assert 201 == (await ask(here, ADMIN_KEY, "PUT", f"/namespaces/team-a/roles/{name}", json=body)).status_code
    await person(here, "Ada", ("staff", "team-a"), ("doer", "team-a"))
    token = (await signed_in(here, "ada"))["access_token"]

    async def gives(labels: dict[str, str] | None, *permissions: str) -> list[int]:
        """The statuses of a key, of a role, and of a person with a role, with these labels."""
        said = {"permissions": list(permissions), **({"labels": labels} if labels else {})}
        key = await ask(here, token, "POST", "/keys", json={"name": "ci", **said}, namespace="team-a")
        role = await ask(here, token, "PUT", f"/namespaces/team-a/roles/r{uuid4().hex}", json=said, namespace="team-a")
        return [key.status_code, role.status_code]

    assert [201, 201] == await gives(BILLING, "jobs:write")
    assert [201, 201] == await gives({**BILLING, "env": "prod"}, "jobs:write", "runs:read")
    assert [201, 201] == await gives(None, "keys:admin")
    assert [403, 403] == await gives(None, "jobs:write")
    assert [403, 403] == await gives({"env": "prod"}, "jobs:write")
    assert [403, 403] == await gives({"team": "ops"}, "jobs:write")
    assert [403, 403] == await gives(BILLING, "*")
    assert [403, 403] == await gives(BILLING, "jobs:write", "tasks:write")


async def test_a_role_is_given_for_labels_and_never_for_more_than_its_own(here: World) -> None:
    """A person with a role for one team changes jobs of that team, by session and by a key that they made."""
    body = {"permissions": [*PERMISSIONS, "keys:admin"], "labels": {"env": "prod"}}
    await ask(here, ADMIN_KEY, "PUT", "/namespaces/default/roles/prod", json=body)
    roles = [
        {"role": "prod", "namespace": "default", "labels": BILLING},
        {"role": "viewer", "namespace": "default", "labels": {"team": "ops"}},
    ]
    added = await ask(here, ADMIN_KEY, "POST", "/users", json={"name": "Ada", "password": PASSWORD, "roles": roles})
    assert roles == added.json()["roles"]
    token = (await signed_in(here, "ada"))["access_token"]
    mine, part = await job(here, {**BILLING, "env": "prod"}), await job(here, BILLING)
    ops, others = await job(here, {"team": "ops"}), await job(here, {"team": "web"})
    seen = (await ask(here, token, "GET", "/jobs")).json()
    assert {mine, ops} == {each["job_id"] for each in seen}
    for job_id, statuses in {mine: [200, 200], ops: [200, 404], part: [404, 404], others: [404, 404]}.items():
        got = await ask(here, token, "GET", f"/jobs/{job_id}")
        changed = await ask(here, token, "PUT", f"/jobs/{job_id}", json={"name": "b"})
        assert statuses == [got.status_code, changed.status_code]
    assert (
        403 == (await ask(here, token, "POST", "/keys", json={"name": "x", "permissions": ["jobs:read"]})).status_code
    )
    clash = [{"role": "prod", "namespace": "default", "labels": {"env": "test"}}]
    answer = await ask(here, ADMIN_KEY, "POST", "/users", json={"name": "Eve", "password": PASSWORD, "roles": clash})
    assert (422, "/roles/0/labels") == refused(answer)[::2]


async def test_a_key_has_no_more_labels_than_its_owner(here: World, clock: VirtualClock) -> None:
    """What a person has for one team alone from now on, their keys have for that team alone, within seconds."""
    ada = await person(here, "Ada", ("admin", "default"))
    token = (await signed_in(here, "ada"))["access_token"]
    made = await ask(here, token, "POST", "/keys", json={"name": "ci", "permissions": PERMISSIONS})
    key = made.json()["key"]
    mine, other = await job(here, BILLING), await job(here, {"team": "ops"})
    assert 200 == (await ask(here, key, "GET", f"/jobs/{other}")).status_code
    roles = [{"role": "admin", "namespace": "default", "labels": BILLING}]
    await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json={"roles": roles})
    await clock.advance(5)
    assert [200, 404] == [(await ask(here, key, "GET", f"/jobs/{each}")).status_code for each in (mine, other)]


async def test_a_token_keeps_the_labels_of_its_key(here: World) -> None:
    """Also one that is bounded to a namespace and to permissions."""
    key = await key_for(here)
    mine, other = await job(here, BILLING), await job(here, {"team": "ops"})
    for more in ({}, {"scope": "jobs:read"}, {"namespace": "default"}):
        body = {"grant_type": "api_key", "api_key": key, **more}
        token = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]
        assert [200, 404] == [(await ask(here, token, "GET", f"/jobs/{each}")).status_code for each in (mine, other)]


async def test_an_administrator_of_some_jobs_touches_nobody_who_may_do_more(here: World) -> None:
    """Neither their keys, nor their roles: labels make a person weaker, not another person's equal."""
    body = {"permissions": ["users:admin", "keys:admin"]}
    await ask(here, ADMIN_KEY, "PUT", "/namespaces/default/roles/staff", json=body)
    roles = [
        {"role": "staff", "namespace": "default"},
        {"role": "admin", "namespace": "default", "labels": BILLING},
    ]
    await ask(here, ADMIN_KEY, "POST", "/users", json={"name": "Ada", "password": PASSWORD, "roles": roles})
    token = (await signed_in(here, "ada"))["access_token"]
    victims = {
        name: await ask(
            here, ADMIN_KEY, "POST", "/users",
            json={"name": name, "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "default", **more}]},
        )
        for name, more in {"Eve": {}, "Bob": {"labels": {"team": "ops"}}, "Cyd": {"labels": BILLING}}.items()
    }  # fmt: skip
    statuses = {
        name: (await ask(here, token, "POST", f"/users/{each.json()['user_id']}/reset")).status_code
        for name, each in victims.items()
    }
    assert {"Eve": 403, "Bob": 403, "Cyd": 201} == statuses
    made = await ask(
        here, ADMIN_KEY, "POST", "/keys", json={"name": "ops", "permissions": ["jobs:read"], "labels": {"team": "ops"}}
    )
    assert 403 == (await ask(here, token, "DELETE", f"/keys/{made.json()['key_id']}")).status_code


LONG = {"n" * 100 + str(number): "v" * 100 for number in range(9)}


@pytest.mark.parametrize(
    ("labels", "pointer"), [({}, "/labels"), ({"": "x"}, "/labels"), ({"a": "\0"}, "/labels/a"), (LONG, "/labels")]
)
async def test_labels_that_cannot_be_are_refused(here: World, labels: dict[str, str], pointer: str) -> None:
    """None at all is not "all jobs": that is said by leaving the field out."""
    answer = await ask(
        here, ADMIN_KEY, "POST", "/keys", json={"name": "ci", "permissions": ["jobs:read"], "labels": labels}
    )
    assert 422 == answer.status_code
    assert answer.json()["pointer"].startswith(pointer)
