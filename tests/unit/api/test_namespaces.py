"""`/namespaces` and the header that chooses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key

JOB = {"name": "report", "task": {"kind": "function", "name": "f"}, "schedule_time": "2999-01-01T00:00:00Z"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        for name in ("team-a", "team-b"):
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        yield made


async def key_for(here: World, **fields: Any) -> str:
    body = {k: v for k, v in {"name": "ci", "role": "developer", **fields}.items() if v is not None}
    answer = await ask(here, ADMIN_KEY, "POST", "/keys", json=body)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["key"])


async def test_a_key_of_several_namespaces_names_the_one_it_means(here: World) -> None:
    """Without a name, its first; a job of one is not there in the other."""
    key = await key_for(here, namespaces=["team-b", "team-a"])
    made = await ask(here, key, "POST", "/jobs", json=JOB)
    assert 201 == made.status_code, made.text
    path = f"/jobs/{made.json()['job_id']}"
    assert 200 == (await ask(here, key, "GET", path, namespace="team-b")).status_code
    for elsewhere in ("team-a",):
        assert 404 == (await ask(here, key, "GET", path, namespace=elsewhere)).status_code
        assert 404 == (await ask(here, key, "DELETE", path, namespace=elsewhere)).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "GET", path, namespace="team-b")).status_code
    assert 404 == (await ask(here, ADMIN_KEY, "GET", path)).status_code


@pytest.mark.parametrize("namespace", ["team-b", "default", "nowhere", "*"])
async def test_a_namespace_without_a_grant_is_forbidden_whether_or_not_it_is_there(here: World, namespace: str) -> None:
    """So nobody learns the names of others."""
    key = await key_for(here, namespaces=["team-a"])
    answer = await ask(here, key, "GET", "/jobs", namespace=namespace)
    assert 403 == answer.status_code
    assert answer.json()["detail"] == (await ask(here, key, "GET", "/jobs", namespace="other")).json()[
        "detail"
    ].replace("other", namespace)


async def test_the_administrator_names_only_namespaces_that_are_there(here: World) -> None:
    """A name that is mistyped makes no tenant."""
    answer = await ask(here, ADMIN_KEY, "POST", "/jobs", json=JOB, namespace="taem-a")
    assert (404, "there is no namespace 'taem-a'") == (answer.status_code, answer.json()["detail"])


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "naïve"])
async def test_a_header_that_can_name_nothing_is_refused(here: World, name: str) -> None:
    """With the name of the header."""
    headers = {b"authorization": f"Bearer {ADMIN_KEY}".encode(), b"tickwise-namespace": name.encode("latin-1")}
    answer = await here.client.get(f"{API}/jobs", headers=headers)
    assert 422 == answer.status_code, answer.text
    assert "Tickwise-Namespace" in answer.text


async def test_a_namespace_is_changed_and_closed_before_it_is_removed(here: World) -> None:
    """In steps; each tells what stands in its way."""
    path = "/namespaces/team-a"
    changed = await ask(here, ADMIN_KEY, "PATCH", path, json={"display_name": "Team A"})
    row = changed.json()
    assert ("Team A", 2) == (row["display_name"], row["version"])
    early = await ask(here, ADMIN_KEY, "DELETE", path)
    assert (409, "namespace_not_closing") == (early.status_code, early.json()["code"])
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", path, json={"state": "closing"})).status_code
    assert 202 == (await ask(here, ADMIN_KEY, "DELETE", path)).status_code


async def test_a_closing_namespace_takes_no_new_jobs(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any way of creating one; what is there can be changed, and once it is open again all goes on."""
    monkeypatch.setattr("tickwise.control.context.NAMESPACES_FRESH_SECONDS", 0.0)
    job = {"name": "a", "cron": "0 3 * * *", "task": {"kind": "shell", "command": "true"}}
    key = await key_for(here, role="developer", namespaces=["team-a"])
    job_id = (await ask(here, key, "POST", "/jobs", json=job)).json()["job_id"]
    for state, status in (("closing", 409), ("active", 201)):
        changed = await ask(here, ADMIN_KEY, "PATCH", "/namespaces/team-a", json={"state": state})
        assert 200 == changed.status_code, changed.text
        made = await ask(here, key, "POST", "/jobs", json=job)
        assert status == made.status_code, made.text
        batch = await ask(here, key, "POST", "/jobs:batch", json=[job])
        put = await ask(here, key, "PUT", f"/jobs/by-key/{state}", json=job)
        assert ((409, 409) if status == 409 else (200, 201)) == (batch.status_code, put.status_code), batch.text
        if status == 409:
            assert "namespace_closing" == made.json()["code"]
        assert 200 == (await ask(here, key, "PUT", f"/jobs/{job_id}", json={"name": state})).status_code


async def test_an_administrator_of_one_namespace_sees_and_names_that_one_alone(here: World) -> None:
    """The state, and other namespaces, are not theirs."""
    key = await key_for(here, role="admin", namespaces=["team-a"])
    assert ["team-a"] == [each["name"] for each in (await ask(here, key, "GET", "/namespaces")).json()]
    assert 404 == (await ask(here, key, "GET", "/namespaces/team-b")).status_code
    assert 200 == (await ask(here, key, "PATCH", "/namespaces/team-a", json={"display_name": "A"})).status_code
    closing = {"state": "closing"}
    assert 403 == (await ask(here, key, "PATCH", "/namespaces/team-a", json=closing)).status_code
    assert 403 == (await ask(here, key, "POST", "/namespaces", json={"name": "mine"})).status_code
    assert 403 == (await ask(here, key, "DELETE", "/namespaces/team-a")).status_code


@pytest.mark.parametrize(
    "fields",
    [
        {"namespaces": ["team-b"]},
        {"namespaces": ["*"]},
        {"namespace": "team-b"},
        {"namespaces": ["team-a", "team-b"]},
        {"role": "admin"},
        {"role": None, "permissions": ["users:admin"]},
        {"role": None, "scopes": ["*"]},
    ],
    ids=str,
)
async def test_a_key_makes_no_stronger_key(here: World, fields: dict[str, Any]) -> None:
    """Neither in another namespace, nor with another permission."""
    mine = await key_for(here, role=None, permissions=["keys:admin", "jobs:read"], namespaces=["team-a"])
    body = {"name": "more", "role": None, "permissions": ["jobs:read"], **fields}
    if body["role"] or "scopes" in body:
        del body["permissions"]
    answer = await ask(here, mine, "POST", "/keys", json={k: v for k, v in body.items() if v is not None})
    assert 403 == answer.status_code, answer.text


async def test_a_key_of_a_namespace_that_is_not_there_is_not_made(here: World) -> None:
    """Even by the administrator."""
    body = {"name": "ci", "role": "viewer", "namespaces": ["nowhere"]}
    assert 404 == (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).status_code


@pytest.mark.parametrize(
    "fields",
    [{}, {"role": "viewer", "permissions": ["jobs:read"]}, {"role": "boss"}, {"permissions": ["jobs:fly"]}],
    ids=str,
)
async def test_a_key_has_a_role_or_permissions(here: World, fields: dict[str, Any]) -> None:
    """One of them, and known ones."""
    assert 422 == (await ask(here, ADMIN_KEY, "POST", "/keys", json={"name": "ci", **fields})).status_code


async def test_people_of_elsewhere_are_not_named(here: World) -> None:
    """Who may list the people of a namespace sees its members alone, and neither who of the installation added them nor
    who made the namespace."""
    await here.control.bearers.sign_with(signing_key())
    await person(here, "Root", ("admin", "*"))
    root = (await signed_in(here, "Root"))["access_token"]
    assert 201 == (await ask(here, root, "POST", "/namespaces", json={"name": "team-c"})).status_code
    roles = [{"namespace": "team-c", "role": "admin"}]
    added = await ask(here, root, "POST", "/users", json={"name": "Ann", "password": PASSWORD, "roles": roles})
    assert ("Root", 201) == (added.json()["created_by"], added.status_code)
    ann = (await signed_in(here, "Ann"))["access_token"]
    for path in ("/users", f"/users/{added.json()['user_id']}", "/namespaces", "/namespaces/team-c", "/auth/me"):
        seen = await ask(here, ann, "GET", path, namespace="team-c")
        assert 200 == seen.status_code, seen.text
        assert "Root" not in seen.text
    changed = await ask(here, ann, "PATCH", "/namespaces/team-c", namespace="team-c", json={"display_name": "C"})
    assert (200, None) == (changed.status_code, changed.json()["created_by"])
    assert ["Ann"] == [each["name"] for each in (await ask(here, ann, "GET", "/users", namespace="team-c")).json()]
    assert {"Root", "Ann"} <= {each["name"] for each in (await ask(here, root, "GET", "/users")).json()}
