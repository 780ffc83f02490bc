"""A password that somebody else chose, or could have chosen, opens what they could open, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        await made.control.bearers.sign_with(signing_key())
        for name in ("team-a", "team-b"):
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        await person(made, "Alice", ("admin", "team-a"))
        yield made


async def sign_in(here: World, name: str, password: str) -> httpx2.Response:
    body = {"grant_type": "password", "username": name, "password": password}
    return await ask(here, None, "POST", "/auth/token", json=body)


async def roles(here: World, user: dict[str, Any], *given: tuple[str, str], by: str = ADMIN_KEY) -> httpx2.Response:
    body = {"roles": [{"role": role, "namespace": namespace} for role, namespace in given]}
    return await ask(here, by, "PATCH", f"/users/{user['user_id']}", json=body)


async def planted(here: World, how: str) -> dict[str, Any]:
    """A person of team-a whose password Alice, its administrator, knows."""
    alice = (await signed_in(here, "Alice"))["access_token"]
    body: dict[str, Any] = {"name": "Paul", "roles": [{"role": "viewer", "namespace": "team-a"}]}
    if how == "password":
        body["password"] = OTHER_PASSWORD
    made = (await ask(here, alice, "POST", "/users", json=body)).json()
    link = made["link"]
    if how == "reset":
        await ask(here, None, "POST", "/users/links", json={"secret": link, "password": PASSWORD})
        link = (await ask(here, alice, "POST", f"/users/{made['user_id']}/reset")).json()["link"]
    if how != "password":
        use = {"secret": link, "password": OTHER_PASSWORD}
        assert 200 == (await ask(here, None, "POST", "/users/links", json=use)).status_code
    if how == "changed":
        token = (await signed_in(here, "Paul", OTHER_PASSWORD))["access_token"]
        for current, chosen in ((OTHER_PASSWORD, PASSWORD), (PASSWORD, OTHER_PASSWORD)):
            change = {"current": current, "password": chosen}
            assert 200 == (await ask(here, token, "POST", "/users/password", json=change)).status_code
            token = (await signed_in(here, "Paul", chosen))["access_token"]
    found: dict[str, Any] = made
    return found


@pytest.mark.parametrize("how", ["password", "invitation", "reset", "changed"])
@pytest.mark.parametrize("role", [("admin", "team-b"), ("viewer", "team-b"), ("viewer", "*")])
async def test_the_password_of_one_namespace_opens_no_other(here: World, how: str, role: tuple[str, str]) -> None:
    """The one that gives the role is told so, and a link by them opens both namespaces."""
    paul = await planted(here, how)
    session = await signed_in(here, "Paul", OTHER_PASSWORD)
    given = await roles(here, paul, ("viewer", "team-a"), role)
    assert (200, True) == (given.status_code, given.json()["needs_link"])
    [entry] = (await ask(here, ADMIN_KEY, "GET", "/audit?action=user.changed")).json()
    assert {"needs_link": True} == entry["detail"]
    refused = await sign_in(here, "Paul", OTHER_PASSWORD)
    assert (401, "password_limited") == (refused.status_code, refused.json()["code"])
    again = {"grant_type": "refresh_token", "refresh_token": session["refresh_token"]}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=again)).status_code
    alice = (await signed_in(here, "Alice"))["access_token"]
    assert 403 == (await ask(here, alice, "POST", f"/users/{paul['user_id']}/reset")).status_code
    link = (await ask(here, ADMIN_KEY, "POST", f"/users/{paul['user_id']}/reset")).json()["link"]
    use = {"secret": link, "password": PASSWORD}
    assert (200, False) == (
        (await ask(here, None, "POST", "/users/links", json=use)).status_code,
        (await ask(here, ADMIN_KEY, "GET", f"/users/{paul['user_id']}")).json()["needs_link"],
    )
    token = (await signed_in(here, "Paul"))["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs", namespace="team-b")).status_code


async def test_no_password_opens_more_than_its_setter_could(here: World) -> None:
    """In one namespace, too; and when the role itself becomes stronger."""
    put = "/namespaces/team-a/roles/"
    for name, permissions in (("staff", ["users:admin", "jobs:read"]), ("helper", ["jobs:read"])):
        body: dict[str, Any] = {"permissions": permissions}
        assert 201 == (await ask(here, ADMIN_KEY, "PUT", f"{put}{name}", json=body)).status_code
    await person(here, "Sue", ("staff", "team-a"))
    sue = (await signed_in(here, "Sue"))["access_token"]
    body = {"name": "Paul", "password": OTHER_PASSWORD, "roles": [{"role": "helper", "namespace": "team-a"}]}
    paul = (await ask(here, sue, "POST", "/users", json=body)).json()
    assert 200 == (await sign_in(here, "Paul", OTHER_PASSWORD)).status_code
    stronger = {"permissions": ["jobs:read", "jobs:write"]}
    assert 200 == (await ask(here, ADMIN_KEY, "PUT", f"{put}helper", json=stronger)).status_code
    assert 401 == (await sign_in(here, "Paul", OTHER_PASSWORD)).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "PUT", f"{put}helper", json={"permissions": ["jobs:read"]})).status_code
    assert 200 == (await sign_in(here, "Paul", OTHER_PASSWORD)).status_code
    alice = (await signed_in(here, "Alice"))["access_token"]
    assert (await roles(here, paul, ("admin", "team-a"), by=alice)).json()["needs_link"]
    assert 401 == (await sign_in(here, "Paul", OTHER_PASSWORD)).status_code
    link = (await ask(here, alice, "POST", f"/users/{paul['user_id']}/reset")).json()["link"]
    assert (
        200 == (await ask(here, None, "POST", "/users/links", json={"secret": link, "password": PASSWORD})).status_code
    )
    assert 200 == (await sign_in(here, "Paul", PASSWORD)).status_code


async def test_people_of_one_administrator_keep_their_password(here: World) -> None:
    """A stronger role within what the setter could give, and a password by the installation, change nothing."""
    paul = await planted(here, "password")
    alice = (await signed_in(here, "Alice"))["access_token"]
    given = await roles(here, paul, ("admin", "team-a"), by=alice)
    assert (200, False) == (given.status_code, given.json()["needs_link"])
    assert 200 == (await sign_in(here, "Paul", OTHER_PASSWORD)).status_code
    eve = await person(here, "Eve", ("viewer", "team-a"))
    assert not (await roles(here, eve, ("admin", "*"))).json()["needs_link"]
    assert 200 == (await sign_in(here, "Eve", PASSWORD)).status_code


async def test_a_namespace_learns_of_no_role_elsewhere_from_the_need_of_a_link(here: World) -> None:
    """It sees what follows from its own roles."""
    paul = await planted(here, "password")
    await roles(here, paul, ("viewer", "team-a"), ("admin", "team-b"))
    alice = (await signed_in(here, "Alice"))["access_token"]
    assert not (await ask(here, alice, "GET", f"/users/{paul['user_id']}")).json()["needs_link"]
    assert not [each for each in (await ask(here, alice, "GET", "/users")).json() if each["needs_link"]]
