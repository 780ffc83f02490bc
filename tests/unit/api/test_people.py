"""People are added, sign in, and do what their roles allow; and nothing after it was taken away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY, World, world
from tests.support.people import OTHER_PASSWORD, PASSWORD, ask, person, signed_in, signing_key
from tickwise.api.auth import KNOWN_SECONDS
from tickwise.ports.identity.namespaces import SETTLE_SECONDS
from tickwise.testing.clock import VirtualClock

JOB = {"name": "report", "task": {"kind": "function", "name": "f"}, "schedule_time": "2999-01-01T00:00:00Z"}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest_asyncio.fixture
async def here(clock: VirtualClock) -> AsyncIterator[World]:
    async with world(clock=clock) as made:
        await made.control.bearers.sign_with(signing_key())
        assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code
        yield made


async def test_a_person_signs_in_and_does_what_the_roles_allow(here: World) -> None:
    """In each namespace what the role there says."""
    ada = await person(here, "Ada", ("developer", "team-a"), ("viewer", "default"), email="ada@example.org")
    assert ada["link"] is None
    tokens = await signed_in(here, "ada@example.org")
    assert ("Bearer", 600, "Ada") == (tokens["token_type"], tokens["expires_in"], tokens["user"]["name"])
    token = tokens["access_token"]
    me = (await ask(here, token, "GET", "/auth/me")).json()
    assert ("Ada", "default", ada["user_id"]) == (me["name"], me["namespace"], me["user_id"])
    assert 403 == (await ask(here, token, "POST", "/jobs", json=JOB)).status_code
    made = await ask(here, token, "POST", "/jobs", json=JOB, namespace="team-a")
    assert 201 == made.status_code
    job = await ask(here, token, "GET", f"/jobs/{made.json()['job_id']}", namespace="team-a")
    assert "Ada" == job.json()["created_by"]
    assert 403 == (await ask(here, token, "GET", "/users")).status_code
    assert 403 == (await ask(here, token, "GET", "/jobs", namespace="nowhere")).status_code


@pytest.mark.parametrize("header", [None, ADMIN_KEY, "wrong", "eyJ.eyJ.x"], ids=str)
async def test_a_sign_in_minds_no_other_credential(here: World, header: str | None) -> None:
    """Whatever header comes with it."""
    await person(here, "Ada", ("viewer", "default"))
    body = {"grant_type": "password", "username": "ADA", "password": PASSWORD}
    assert 200 == (await ask(here, header, "POST", "/auth/token", json=body)).status_code


@pytest.mark.parametrize(
    ("username", "password"), [("Ada", "wrong"), ("Nobody", PASSWORD), ("Ada", OTHER_PASSWORD)], ids=str
)
async def test_a_wrong_name_and_a_wrong_password_have_one_answer(here: World, username: str, password: str) -> None:
    """So nobody learns who is there."""
    await person(here, "Ada", ("viewer", "default"))
    body = {"grant_type": "password", "username": username, "password": password}
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert (401, "the name or the password is wrong") == (answer.status_code, answer.json()["detail"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"grant_type": "client_credentials"},
        {"grant_type": "password"},
        {"grant_type": "password", "username": "Ada"},
        {"grant_type": "refresh_token"},
        {"grant_type": "password", "username": "Ada", "password": "x", "scope": "jobs:fly"},
        {"grant_type": "password", "username": "Ada", "password": "x", "admin": True},
    ],
    ids=str,
)
async def test_a_request_for_a_token_that_cannot_be_meant_is_refused(here: World, body: dict[str, Any]) -> None:
    """With the field that is wrong, and before a password is looked at."""
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert (400, "token_request_invalid") == (answer.status_code, answer.json()["code"])


async def test_a_refresh_token_works_once_and_ends_its_session_when_it_is_shown_again(
    here: World, clock: VirtualClock
) -> None:
    """One of two has a stolen one: neither goes on."""
    await person(here, "Ada", ("viewer", "default"))
    first = await signed_in(here, "Ada")
    body = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = (await ask(here, None, "POST", "/auth/token", json=body)).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert 200 == (await ask(here, second["access_token"], "GET", "/jobs")).status_code
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    body = {"grant_type": "refresh_token", "refresh_token": second["refresh_token"]}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    await clock.advance(KNOWN_SECONDS + 1.0)
    for token in (first["access_token"], second["access_token"]):
        assert 401 == (await ask(here, token, "GET", "/jobs")).status_code


@pytest.mark.parametrize("how", ["revoke", "sessions", "deactivate", "roles", "password"])
async def test_what_is_taken_away_is_gone_within_seconds(here: World, clock: VirtualClock, how: str) -> None:
    """With a token that has not expired."""
    ada = await person(here, "Ada", ("viewer", "default"))
    tokens = await signed_in(here, "Ada")
    token = tokens["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    path = f"/users/{ada['user_id']}"
    requests: dict[str, tuple[str, str, str | None, Any]] = {
        "revoke": ("POST", "/auth/revoke", None, {"token": tokens["refresh_token"]}),
        "sessions": ("DELETE", "/auth/sessions", token, None),
        "deactivate": ("PATCH", path, ADMIN_KEY, {"active": False}),
        "roles": ("PATCH", path, ADMIN_KEY, {"roles": []}),
        "password": ("POST", "/users/password", token, {"current": PASSWORD, "password": OTHER_PASSWORD}),
    }
    method, place, key, body = requests[how]
    done = await ask(here, key, method, place, **({} if body is None else {"json": body}))
    assert 200 == done.status_code, done.text
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 401 == (await ask(here, token, "GET", "/jobs")).status_code
    again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=again)).status_code


async def test_a_token_is_at_most_what_was_asked_for(here: World) -> None:
    """Its scope and its namespace bound it; they add nothing."""
    await person(here, "Ada", ("developer", "team-a"), ("viewer", "default"))
    token = (await signed_in(here, "Ada", scope="jobs:read users:admin", namespace="team-a"))["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    assert 403 == (await ask(here, token, "POST", "/jobs", json=JOB)).status_code
    assert 403 == (await ask(here, token, "GET", "/users")).status_code
    assert 403 == (await ask(here, token, "GET", "/jobs", namespace="default")).status_code
    assert "team-a" == (await ask(here, token, "GET", "/auth/me")).json()["namespace"]


async def test_a_key_becomes_a_token_that_ends_with_it(here: World, clock: VirtualClock) -> None:
    """It can do what the key can, until the key is revoked."""
    made = (await ask(here, ADMIN_KEY, "POST", "/keys", json={"name": "ci", "permissions": ["jobs:read"]})).json()
    body = {"grant_type": "api_key", "api_key": made["key"]}
    token = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    assert 403 == (await ask(here, token, "GET", "/runs")).status_code
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", f"/keys/{made['key_id']}")).status_code
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 401 == (await ask(here, token, "GET", "/jobs")).status_code


@pytest.mark.parametrize("kept", ["key", "key of the key", "token of the key"])
async def test_a_key_works_with_what_its_owner_may_do_now(here: World, clock: VirtualClock, kept: str) -> None:
    """The keys of a person, and those that were made with them, lose a permission with the person, and get it back."""
    ada = await person(here, "Ada", ("admin", "default"))
    token = (await signed_in(here, "Ada"))["access_token"]
    made = await _key(here, token, permissions=["keys:admin", "jobs:read", "jobs:write"])
    assert ada["user_id"] == made["owner_id"]
    credential = made["key"]
    if kept == "key of the key":
        child = await _key(here, credential, permissions=["jobs:read", "jobs:write"])
        assert ada["user_id"] == child["owner_id"]
        credential = child["key"]
    elif kept == "token of the key":
        body = {"grant_type": "api_key", "api_key": credential}
        credential = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]

    async def answers() -> list[int]:
        await clock.advance(KNOWN_SECONDS + 1.0)
        return [
            (await ask(here, credential, "GET", "/jobs")).status_code,
            (await ask(here, credential, "POST", "/jobs", json=JOB)).status_code,
        ]

    assert [200, 201] == await answers()
    for change, expected in (
        ({"roles": [{"namespace": "default", "role": "viewer"}]}, [200, 403]),
        ({"roles": [{"namespace": "team-a", "role": "admin"}]}, [403, 403]),
        ({"active": False}, [401, 401]),
        ({"active": True, "roles": [{"namespace": "default", "role": "developer"}]}, [200, 201]),
    ):
        changed = await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json=change)
        assert 200 == changed.status_code, changed.text
        assert expected == await answers(), change


async def test_a_key_of_nobody_outlives_every_person(here: World, clock: VirtualClock) -> None:
    """Keys of the installation's own keys need no person."""
    key = await _key(here, ADMIN_KEY, permissions=["jobs:read"])
    assert key["owner_id"] is None
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 200 == (await ask(here, key["key"], "GET", "/jobs")).status_code


async def test_a_key_of_a_deactivated_person_becomes_no_token(here: World) -> None:
    """One answer, as for a key that is not known."""
    ada = await person(here, "Ada", ("admin", "default"))
    key = await _key(here, (await signed_in(here, "Ada"))["access_token"], permissions=["jobs:read"])
    off = await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json={"active": False})
    assert 200 == off.status_code
    body = {"grant_type": "api_key", "api_key": key["key"]}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code


async def test_a_key_of_each_namespace_is_cut_to_those_of_its_owner(here: World, clock: VirtualClock) -> None:
    """`*` in a key stands for the permissions of the person in each namespace; elsewhere it gives nothing."""
    await person(here, "Kim", ("admin", "*"))
    ada = await person(here, "Ada", ("admin", "*"))
    token = (await signed_in(here, "Ada"))["access_token"]
    key = (await _key(here, token, permissions=["*"], namespaces=["*"]))["key"]
    assert 200 == (await ask(here, key, "GET", "/users", namespace="team-a")).status_code
    roles = [{"namespace": "team-a", "role": "viewer"}]
    changed = await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json={"roles": roles})
    assert 200 == changed.status_code, changed.text
    await clock.advance(KNOWN_SECONDS + 1.0)
    statuses = [
        (await ask(here, key, "GET", path, namespace=place)).status_code
        for path, place in (("/jobs", "team-a"), ("/users", "team-a"), ("/jobs", "default"), ("/namespaces", "default"))
    ]
    assert [200, 403, 403, 403] == statuses


async def _key(here: World, by: str, **body: Any) -> dict[str, Any]:
    answer = await ask(here, by, "POST", "/keys", json={"name": "ci", **body})
    assert 201 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_person_is_invited_by_a_link_that_works_once(here: World) -> None:
    """And then has the password that they chose."""
    invited = await person(here, "Bob", ("viewer", "default"), password=None)
    body = {"grant_type": "password", "username": "Bob", "password": PASSWORD}
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    weak = await ask(here, None, "POST", "/users/links", json={"secret": invited["link"], "password": "password1234"})
    assert (422, "password_weak") == (weak.status_code, weak.json()["code"])
    own = await ask(here, None, "POST", "/users/links", json={"secret": invited["link"], "password": "Bob bob BOB bob"})
    assert (422, "password_weak") == (own.status_code, own.json()["code"])
    use = {"secret": invited["link"], "password": PASSWORD}
    assert 200 == (await ask(here, None, "POST", "/users/links", json=use)).status_code
    assert 401 == (await ask(here, None, "POST", "/users/links", json=use)).status_code
    await signed_in(here, "Bob")


async def test_a_reset_ends_sessions_when_it_is_used(here: World, clock: VirtualClock) -> None:
    """Not when it is made: an administrator ends nobody's work by mistake."""
    ada = await person(here, "Ada", ("viewer", "default"))
    token = (await signed_in(here, "Ada"))["access_token"]
    link = (await ask(here, ADMIN_KEY, "POST", f"/users/{ada['user_id']}/reset")).json()["link"]
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    use = {"secret": link, "password": OTHER_PASSWORD}
    assert 200 == (await ask(here, None, "POST", "/users/links", json=use)).status_code
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 401 == (await ask(here, token, "GET", "/jobs")).status_code
    await signed_in(here, "Ada", OTHER_PASSWORD)


async def test_registration_is_off(here: World) -> None:
    """Unless the operator opens it."""
    body = {"name": "Eve", "password": PASSWORD}
    assert 403 == (await ask(here, None, "POST", "/users/register", json=body)).status_code


async def test_an_administrator_of_a_namespace_rules_that_one_alone(here: World) -> None:
    """Members of others are not there; nobody gets a role elsewhere, or more than the administrator's own."""
    await person(here, "Boss", ("admin", "team-a"))
    boss = (await signed_in(here, "Boss"))["access_token"]
    other = await person(here, "Other", ("viewer", "default"))
    mine = await ask(
        here, boss, "POST", "/users",
        json={"name": "Mine", "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "team-a"}]},
    )  # fmt: skip
    assert 201 == mine.status_code, mine.text
    assert {"Boss", "Mine"} == {each["name"] for each in (await ask(here, boss, "GET", "/users")).json()}
    assert 404 == (await ask(here, boss, "GET", f"/users/{other['user_id']}")).status_code
    assert 404 == (await ask(here, boss, "PATCH", f"/users/{other['user_id']}", json={"active": False})).status_code
    for namespace in ("default", "*"):
        role = [{"role": "viewer", "namespace": namespace}]
        path = f"/users/{mine.json()['user_id']}"
        assert 403 == (await ask(here, boss, "PATCH", path, json={"roles": role})).status_code
    body = {"name": "No", "password": PASSWORD}
    assert 422 == (await ask(here, boss, "POST", "/users", json=body)).status_code


async def test_nobody_takes_the_place_of_somebody_stronger(here: World) -> None:
    """Who may only administer people resets no administrator's password, and changes nothing of one."""
    root = await person(here, "Root", ("admin", "*"))
    body = {"name": "staff", "permissions": ["users:admin"], "namespaces": ["*"]}
    staff = (await ask(here, ADMIN_KEY, "POST", "/keys", json=body)).json()["key"]
    path = f"/users/{root['user_id']}"
    assert 403 == (await ask(here, staff, "POST", f"{path}/reset")).status_code
    changes: list[dict[str, Any]] = [{"active": False}, {"email": "x@example.org"}, {"roles": []}, {"name": "Toor"}]
    for change in changes:
        assert 403 == (await ask(here, staff, "PATCH", path, json=change)).status_code, change
    role = {"role": "viewer", "namespace": "default"}
    added = {"name": "New", "password": PASSWORD, "roles": [role]}
    assert 403 == (await ask(here, staff, "POST", "/users", json=added)).status_code


async def test_an_administrator_of_one_namespace_gives_no_more_elsewhere(here: World) -> None:
    """The permissions of this namespace count in this one; elsewhere those of the installation."""
    roles = [("admin", "team-a")]
    await person(here, "Boss", *roles)
    boss = (await signed_in(here, "Boss"))["access_token"]
    body = {"name": "ci", "role": "viewer", "namespaces": ["team-a", "default"]}
    assert 403 == (await ask(here, boss, "POST", "/keys", json=body)).status_code
    made = await ask(here, boss, "POST", "/keys", json={"name": "ci", "role": "viewer"})
    assert (201, None) == (made.status_code, made.json()["expires_at"])


async def test_a_stolen_token_guesses_no_password(here: World) -> None:
    """The attempts to change it are paced, too."""
    await person(here, "Ada", ("viewer", "default"))
    token = (await signed_in(here, "Ada"))["access_token"]
    body = {"current": "a guess", "password": OTHER_PASSWORD}
    statuses = [(await ask(here, token, "POST", "/users/password", json=body)).status_code for _ in range(6)]
    assert [422] * 5 + [429] == statuses


async def test_wrong_guesses_of_one_person_keep_no_other_waiting(here: World) -> None:
    """Not even those of several people: each person who changes the own password has a pace of their own."""
    names = [f"Guesser {letter}" for letter in "ABCD"]
    tokens = []
    for name in (*names, "Bob"):
        await person(here, name, ("viewer", "default"))
        tokens.append((await signed_in(here, name))["access_token"])
    *guessers, bob = tokens
    guess = {"current": "a guess", "password": OTHER_PASSWORD}
    for token in guessers:
        statuses = [(await ask(here, token, "POST", "/users/password", json=guess)).status_code for _ in range(6)]
        assert [422] * 5 + [429] == statuses
    body = {"current": PASSWORD, "password": OTHER_PASSWORD}
    assert 200 == (await ask(here, bob, "POST", "/users/password", json=body)).status_code


async def test_of_two_changes_of_a_password_at_once_one_is_refused(here: World) -> None:
    """And the other one is the password."""
    await person(here, "Ada", ("viewer", "default"))
    token = (await signed_in(here, "Ada"))["access_token"]
    chosen = [f"{OTHER_PASSWORD} {number}" for number in range(2)]
    answers = await asyncio.gather(
        *(ask(here, token, "POST", "/users/password", json={"current": PASSWORD, "password": each}) for each in chosen)
    )
    assert [200, 412] == sorted(answer.status_code for answer in answers)
    [password] = [each for each, answer in zip(chosen, answers, strict=True) if answer.status_code == 200]
    await signed_in(here, "Ada", password)


async def test_what_ends_a_token_is_told_to_the_processes_that_know_it(here: World) -> None:
    """By an id that its caller has: they forget it at once."""
    ada = await person(here, "Ada", ("viewer", "default"))
    tokens = await signed_in(here, "Ada")
    caller = (await here.control.bearers.find(tokens["access_token"])).caller
    revoke = {"token": tokens["refresh_token"]}
    assert 200 == (await ask(here, None, "POST", "/auth/revoke", json=revoke)).status_code
    assert [caller.session_id] == here.bell.about
    here.bell.about.clear()
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json={"active": False})).status_code
    assert [caller.user_id] == here.bell.about
    here.bell.about.clear()
    made = (await ask(here, ADMIN_KEY, "POST", "/keys", json={"name": "ci", "permissions": ["jobs:read"]})).json()
    body = {"grant_type": "api_key", "api_key": made["key"]}
    token = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]
    caller = (await here.control.bearers.find(token)).caller
    assert 200 == (await ask(here, ADMIN_KEY, "DELETE", f"/keys/{made['key_id']}")).status_code
    assert [caller.key_id] == here.bell.about


async def test_a_person_without_roles_has_a_password_and_nothing_else(here: World) -> None:
    """They may sign in, see who they are, and choose another password."""
    await person(here, "Ada")
    token = (await signed_in(here, "Ada"))["access_token"]
    me = (await ask(here, token, "GET", "/auth/me")).json()
    assert ("Ada", "default") == (me["name"], me["namespace"])
    for method, path in (("GET", "/jobs"), ("POST", "/jobs"), ("GET", "/runs"), ("GET", "/users"), ("GET", "/keys")):
        assert 403 == (await ask(here, token, method, path, json=JOB)).status_code, path
    assert 403 == (await ask(here, token, "GET", "/auth/me", namespace="team-a")).status_code
    body = {"current": PASSWORD, "password": OTHER_PASSWORD}
    assert 200 == (await ask(here, token, "POST", "/users/password", json=body)).status_code
    await signed_in(here, "Ada", OTHER_PASSWORD)


async def test_an_invitation_opens_no_account_that_was_promoted_since(here: World) -> None:
    """The administrator of a namespace, who had made it, would be in the place of one of the installation."""
    await person(here, "Boss", ("admin", "team-a"))
    boss = (await signed_in(here, "Boss"))["access_token"]
    body = {"name": "Ada", "roles": [{"role": "viewer", "namespace": "team-a"}]}
    ada = (await ask(here, boss, "POST", "/users", json=body)).json()
    promoted = {"roles": [{"role": "admin", "namespace": "*"}]}
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", f"/users/{ada['user_id']}", json=promoted)).status_code
    use = {"secret": ada["link"], "password": PASSWORD}
    assert 401 == (await ask(here, None, "POST", "/users/links", json=use)).status_code


@pytest.mark.parametrize("namespace", ["nowhere", "no/such", "*", "TEAM-A"])
@pytest.mark.parametrize("grant", ["api_key", "password"])
async def test_no_token_is_made_for_a_namespace_that_is_not_there(here: World, grant: str, namespace: str) -> None:
    """Also for who may do everything, everywhere."""
    await person(here, "Root", ("admin", "*"))
    credential = {"api_key": ADMIN_KEY} if grant == "api_key" else {"username": "Root", "password": PASSWORD}
    body = {"grant_type": grant, **credential, "namespace": namespace}
    answer = await ask(here, None, "POST", "/auth/token", json=body)
    assert (400, "/namespace") == (answer.status_code, answer.json()["pointer"])
    answer = await ask(here, None, "POST", "/auth/token", json={**body, "namespace": "team-a"})
    assert 200 == answer.status_code
    assert 201 == (await ask(here, answer.json()["access_token"], "POST", "/jobs", json=JOB)).status_code


async def test_no_token_is_made_for_a_namespace_of_others(here: World) -> None:
    """With the same answer as for one that is not there."""
    await person(here, "Ada", ("viewer", "default"))
    body = {"grant_type": "password", "username": "Ada", "password": PASSWORD}
    answers = [
        await ask(here, None, "POST", "/auth/token", json={**body, "namespace": namespace})
        for namespace in ("team-a", "team-b")
    ]
    assert [400, 400] == [answer.status_code for answer in answers]
    there, nowhere = (answer.json()["detail"] for answer in answers)
    assert there == nowhere.replace("team-b", "team-a")


async def test_a_token_ends_with_its_namespace(here: World, clock: VirtualClock) -> None:
    """Although its requests name none."""
    body = {"grant_type": "api_key", "api_key": ADMIN_KEY, "namespace": "team-a"}
    token = (await ask(here, None, "POST", "/auth/token", json=body)).json()["access_token"]
    assert 200 == (await ask(here, token, "GET", "/jobs")).status_code
    closing = {"state": "closing"}
    assert 200 == (await ask(here, ADMIN_KEY, "PATCH", "/namespaces/team-a", json=closing)).status_code
    assert 202 == (await ask(here, ADMIN_KEY, "DELETE", "/namespaces/team-a")).status_code
    await clock.advance(SETTLE_SECONDS + 1.0)
    assert await here.store.removals.end("team-a")
    await clock.advance(KNOWN_SECONDS + 1.0)
    assert 404 == (await ask(here, token, "GET", "/jobs")).status_code


async def test_the_last_administrator_stays(here: World) -> None:
    """Neither deactivated nor without the role."""
    root = await person(here, "Root", ("admin", "*"))
    changes: list[dict[str, Any]] = [{"active": False}, {"roles": []}]
    for change in changes:
        answer = await ask(here, ADMIN_KEY, "PATCH", f"/users/{root['user_id']}", json=change)
        assert (409, "last_administrator") == (answer.status_code, answer.json()["code"])


@pytest.mark.parametrize("name", ["Ada", "ada", "\u0430da", "\uff21\uff24\uff21"])
async def test_no_two_people_look_alike(here: World, name: str) -> None:
    """Small letters, other scripts, wide letters."""
    await person(here, "Ada", ("viewer", "default"))
    answer = await ask(here, ADMIN_KEY, "POST", "/users", json={"name": name, "password": PASSWORD})
    assert answer.status_code in (409, 422), answer.text


async def test_wrong_passwords_slow_down_where_they_come_from(here: World, clock: VirtualClock) -> None:
    """The pause ends by itself: nobody is locked out."""
    await person(here, "Ada", ("viewer", "default"))
    wrong = {"grant_type": "password", "username": "Ada", "password": "wrong"}
    statuses = [(await ask(here, None, "POST", "/auth/token", json=wrong)).status_code for _ in range(6)]
    assert [401] * 5 + [429] == statuses
    right = {**wrong, "password": PASSWORD}
    paused = await ask(here, None, "POST", "/auth/token", json=right)
    assert (429, "sign_in_paced") == (paused.status_code, paused.json()["code"])
    assert int(paused.headers["retry-after"]) >= 1
    await clock.advance(float(paused.headers["retry-after"]))
    assert 200 == (await ask(here, None, "POST", "/auth/token", json=right)).status_code


async def test_guesses_by_name_and_by_e_mail_are_guesses_of_one_person(here: World) -> None:
    """In one network; somebody else's count stays."""
    await person(here, "Ada", ("viewer", "default"), email="ada@example.org")
    await person(here, "Bob", ("viewer", "default"))
    wrong = {"grant_type": "password", "password": "wrong"}

    async def guess(name: str) -> int:
        return (await ask(here, None, "POST", "/auth/token", json={**wrong, "username": name})).status_code

    assert [401] * 3 == [await guess("Ada") for _ in range(3)]
    assert [401, 401, 429] == [await guess("ADA@example.org") for _ in range(3)]
    assert [429, 401] == [await guess("ada"), await guess("Bob")]


async def test_the_key_set_is_for_anybody(here: World) -> None:
    """And holds nothing private."""
    keys = (await ask(here, None, "GET", "/.well-known/jwks.json")).json()["keys"]
    assert [{"kty", "crv", "alg", "use", "kid", "x"}] == [set(each) for each in keys]


async def test_a_process_without_a_key_makes_no_tokens_and_says_so() -> None:
    """It still checks those of others."""
    async with world() as here:
        body = {"grant_type": "password", "username": "Ada", "password": PASSWORD}
        answer = await ask(here, None, "POST", "/auth/token", json=body)
        assert (503, "tokens_unavailable") == (answer.status_code, answer.json()["code"])
