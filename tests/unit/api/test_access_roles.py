"""Custom roles: made, given, changed and removed; and never stronger than the one who makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key
from tickwise.adapters.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_800_000_000.0)


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
        yield made


async def put(here: World, name: str, *permissions: str, key: str = ADMIN_KEY, namespace: str = "team-a") -> Any:
    """The answer to a role that is put."""
    body = {"permissions": list(permissions)}
    return await ask(here, key, "PUT", f"/namespaces/{namespace}/roles/{name}", json=body)


async def test_a_custom_role_lets_its_people_do_what_it_says(here: World, clock: VirtualClock) -> None:
    """In its namespace alone; a change counts for tokens that there are, within seconds."""
    made = await put(here, "rerunner", "jobs:read", "runs:read")
    assert (201, ["jobs:read", "runs:read"], False) == (
        made.status_code, made.json()["permissions"], made.json()["built_in"],
    )  # fmt: skip
    await person(here, "Ada", ("rerunner", "team-a"))
    token = (await signed_in(here, "ada"))["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    assert 403 == (await ask(here, token, "GET", "/tasks")).status_code
    assert 200 == (await put(here, "rerunner", "tasks:read")).status_code
    await clock.advance(5)
    assert 401 == (await ask(here, token, "GET", "/jobs")).status_code
    token = (await signed_in(here, "ada"))["access_token"]
    assert 403 == (await ask(here, token, "GET", "/jobs")).status_code
    assert 200 == (await ask(here, token, "GET", "/tasks")).status_code
    elsewhere = await ask(
        here, ADMIN_KEY, "POST", "/users",
        json={"name": "Eve", "password": PASSWORD, "roles": [{"role": "rerunner", "namespace": "default"}]},
    )  # fmt: skip
    assert (422, "/roles/0/role") == (elsewhere.status_code, elsewhere.json()["pointer"])


async def test_a_role_is_listed_and_removed_when_nobody_has_it(here: World) -> None:
    """The built-in ones come first, and stay."""
    await put(here, "rerunner", "jobs:read")
    listed = (await ask(here, ADMIN_KEY, "GET", "/namespaces/team-a/roles")).json()
    assert ["viewer", "operator", "developer", "admin", "rerunner"] == [each["name"] for each in listed]
    assert 4 == len((await ask(here, ADMIN_KEY, "GET", "/namespaces/default/roles")).json())
    ada = await person(here, "Ada", ("rerunner", "team-a"))
    path = "/namespaces/team-a/roles/rerunner"
    used = await ask(here, ADMIN_KEY, "DELETE", path)
    assert (409, "role_in_use") == (used.status_code, used.json()["code"])
    await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json={"roles": []})
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", path)).status_code
    assert 404 == (await ask(here, ADMIN_KEY, "DELETE", path)).status_code
    assert 404 == (await ask(here, ADMIN_KEY, "DELETE", "/namespaces/team-a/roles/viewer")).status_code


@pytest.mark.parametrize(
    ("name", "permissions", "pointer"),
    [
        ("viewer", ["jobs:read"], "/name"), ("Upper", ["jobs:read"], "/name"), ("a" * 64, ["jobs:read"], "/name"),
        ("x", ["jobs:fly"], "/permissions/0"), ("x", [], "/permissions"),
    ],
)  # fmt: skip
async def test_a_role_that_cannot_be_is_refused(here: World, name: str, permissions: list[str], pointer: str) -> None:
    """The answer points at what is wrong."""
    answer = await put(here, name, *permissions)
    assert (422, pointer) == (answer.status_code, answer.json()["pointer"])


async def test_nobody_makes_or_touches_a_role_that_is_stronger(here: World) -> None:
    """Neither a new one, nor one that is there: its people would lose what only stronger ones may take."""
    body = {"name": "staff", "permissions": ["users:admin", "jobs:read"], "namespaces": ["team-a"]}
    key = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    assert 403 == (await put(here, "boss", "jobs:write", key=key)).status_code
    assert 403 == (await put(here, "boss", "*", key=key)).status_code
    assert 201 == (await put(here, "boss", "jobs:write")).status_code
    assert 403 == (await put(here, "boss", "jobs:read", key=key)).status_code
    assert 403 == (await ask(here, key, "DELETE", "/namespaces/team-a/roles/boss")).status_code
    assert 201 == (await put(here, "reader", "jobs:read", key=key)).status_code
    assert 404 == (await put(here, "x", "jobs:read", key=key, namespace="default")).status_code
    assert 404 == (await put(here, "x", "jobs:read", key=key, namespace="*")).status_code
    assert 404 == (await put(here, "x", "jobs:read", namespace="nowhere")).status_code
    assert 201 == (await put(here, "everywhere", "jobs:read", namespace="*")).status_code


async def test_a_namesake_of_the_installation_opens_no_role_of_a_namespace(here: World) -> None:
    """A weak role at `*` of the same name leaves a stronger one in a namespace what it is, also on record."""
    await put(here, "staff", "users:admin", "namespaces:read", namespace="*")
    await put(here, "chief", "*")
    await put(here, "chief", "namespaces:read", namespace="*")
    await person(here, "Helen", ("staff", "*"))
    helen = (await signed_in(here, "Helen"))["access_token"]
    assert 403 == (await put(here, "chief", "namespaces:read", key=helen)).status_code
    assert 403 == (await ask(here, helen, "DELETE", "/namespaces/team-a/roles/chief")).status_code
    assert 200 == (await put(here, "chief", "jobs:read")).status_code
    [entry] = (await ask(here, ADMIN_KEY, "GET", "/audit?action=role.put&namespace=team-a&limit=1")).json()
    assert (["*"], ["jobs:read"]) == (entry["before"]["permissions"], entry["after"]["permissions"])
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", "/namespaces/team-a/roles/chief")).status_code
    [entry] = (await ask(here, ADMIN_KEY, "GET", "/audit?action=role.dropped")).json()
    assert ["jobs:read"] == entry["before"]["permissions"]


async def test_a_namespace_rules_its_own_role_beside_a_namesake_of_the_installation(here: World) -> None:
    """And the own one is the one that is listed: people of the namespace have it."""
    await put(here, "chief", "namespaces:admin", namespace="*")
    await person(here, "Boss", ("admin", "team-a"))
    boss = (await signed_in(here, "Boss"))["access_token"]
    path = "/namespaces/team-a/roles/chief"
    assert 201 == (await put(here, "chief", "jobs:read", key=boss)).status_code
    assert 200 == (await put(here, "chief", "jobs:write", key=boss)).status_code
    listed = (await ask(here, boss, "GET", "/namespaces/team-a/roles")).json()
    assert [["jobs:write"]] == [each["permissions"] for each in listed if each["name"] == "chief"]
    assert 200 == (await ask(here, boss, "DELETE", path)).status_code
    assert 404 == (await ask(here, boss, "DELETE", path)).status_code


async def test_no_weaker_role_is_put_in_front_of_a_stronger_one(here: World) -> None:
    """People who have the role of the installation in a namespace would have the weaker one from then on."""
    await put(here, "chief", "jobs:write", namespace="*")
    body = {"name": "staff", "permissions": ["users:admin", "jobs:read"], "namespaces": ["team-a"]}
    key = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    assert 403 == (await put(here, "chief", "jobs:read", key=key)).status_code
