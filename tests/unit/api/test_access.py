"""Nobody gets in without a key, and nobody does more than the key allows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio

from tests.support.app import ADMIN_KEY, API, World, world
from tickwise.api.endpoint import Endpoint
from tickwise.api.resources import RESOURCES
from tickwise.control.access import permissions_of
from tickwise.domain.permissions import Permission, closed

DOCUMENTS = {"/.well-known/jwks.json", "/.well-known/openid-configuration", "/.well-known/identity-keys.json"}
OPEN_ROUTES = {*DOCUMENTS, f"{API}/auth/providers"}
OPEN = {"/livez", "/readyz", "/healthz", *OPEN_ROUTES}
WAYS_IN = {
    f"{API}/{path}"
    for path in (
        "auth/token", "auth/revoke", "auth/device", "users/register", "users/links", "auth/providers/logout",
    )
}  # fmt: skip
"""Their bodies hold the credential."""
SOME_ID = "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d"


@pytest_asyncio.fixture(scope="module")
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def _routes(here: World) -> list[tuple[str, str]]:
    """Every route that the application serves, as the framework knows them."""
    framework = here.app._inner
    return [(method, route.path) for route in framework.routes for method in route.methods]


async def _ask(here: World, method: str, path: str, key: str | None) -> httpx2.Response:
    for name in ("job_id", "run_id", "task_id", "key", "operation_id", "queue", "key_id", "user_id", "namespace"):
        path = path.replace("{" + name + "}", SOME_ID)
    headers = {"Authorization": f"Bearer {key}"} if key else {"Authorization": ""}
    return await here.client.request(method, path, headers=headers, json={} if method in ("POST", "PUT") else None)


async def test_every_route_but_health_and_the_ways_in_needs_a_key(here: World) -> None:
    """No key, an empty one and a wrong one are 401 everywhere, also where nothing is served."""
    walked = 0
    for method, path in [*_routes(here), ("GET", "/"), ("GET", f"{API}/nothing"), ("PATCH", f"{API}/jobs")]:
        if path in WAYS_IN:
            continue
        for key in (None, "wrong", "x" * 5_000):
            answer = await _ask(here, method, path, key)
            assert (answer.status_code == 200) == (path in OPEN), (method, path, key, answer.text)
            if path not in OPEN:
                assert 401 == answer.status_code, (method, path, key)
                assert answer.headers["www-authenticate"].startswith("Bearer")
            walked += 1
    assert walked > 75


async def test_a_path_that_ends_in_a_line_break_is_served_nowhere(here: World) -> None:
    """Also with a key. Where another path ends in a name, the line break is part of that name."""
    whole = [(method, path) for method, path in _routes(here) if not path.endswith("}")]
    assert len(whole) > 60
    for method, path in whole:
        answer = await _ask(here, method, f"{path}%0a", ADMIN_KEY)
        assert answer.status_code in (404, 405), (method, path, answer.text)


async def test_a_key_without_the_scope_of_a_route_is_refused(here: World) -> None:
    """Each route is 403 for a key that has every other scope, and something else for one that has its own."""
    scopes = set(Permission)
    extra = [("GET", "/metrics", ["metrics:read"]), ("GET", "/openapi.json", ["docs:read"])]
    # The head of an answer that does not end.
    routes = [
        ("HEAD" if each.endless else each.method, each.path, list[str](each.permissions))
        for each in RESOURCES
        if each.permissions
    ]
    for place, (method, path, enough) in enumerate([*routes, *extra]):
        others = [scope for scope in scopes if closed({scope}).isdisjoint(enough)]
        without = await here.key(f"without-{place}", *others)
        assert 403 == (await _ask(here, method, path, without)).status_code, (method, path)
        for scope in enough:
            only = await here.key(f"only-{place}-{scope}", scope, everywhere=True)
            assert (await _ask(here, method, path, only)).status_code not in (401, 403), (method, path, scope)


async def test_the_metrics_are_for_those_who_may_read_them_in_the_whole_installation(here: World) -> None:
    """They count the jobs, runs and queues of all namespaces: the permission in one of them is not enough."""
    one = await here.key("metrics-of-one-namespace", "metrics:read")
    every = await here.key("metrics-of-all-namespaces", "metrics:read", everywhere=True)
    refused = await _ask(here, "GET", "/metrics", one)
    assert (403, "forbidden") == (refused.status_code, refused.json()["code"])
    assert "all namespaces" in refused.json()["detail"]
    assert 200 == (await _ask(here, "GET", "/metrics", every)).status_code


async def test_each_scope_of_a_route_is_enough_for_a_job_that_is_there(here: World) -> None:
    """Of an id that is not there, the edge alone is asked. What a route does for a job, and what it shows of it
    afterwards, asks for no scope that the route does not name."""
    job = {"name": "a", "task": {"kind": "shell", "command": "date"}, "schedule_type": "CRON", "cron": "0 3 * * *"}
    routes = [(each.method, each.path, list[str](each.permissions)) for each in RESOURCES if "{job_id}" in each.path]
    assert len(routes) > 10
    for method, path, enough in routes:
        for scope in enough:
            job_id = (await here.client.post(f"{API}/jobs", json=job)).json()["job_id"]
            only = await here.key(f"only-{method}-{path}-{scope}", scope)
            answer = await _ask(here, method, path.replace("{job_id}", job_id), only)
            assert answer.status_code not in (401, 403, 500), (method, path, scope, answer.text)


async def test_every_route_that_is_served_declares_itself(here: World) -> None:
    """A route that somebody adds beside the declarations would have no scope: there is none."""
    declared = {(endpoint.method, endpoint.path) for endpoint in RESOURCES}
    paths = ("/livez", "/readyz", "/healthz", "/healthz/details", "/metrics", "/openapi.json")
    own = {("GET", path) for path in paths}
    heads = {("HEAD", path) for method, path in declared | own if method == "GET"}
    served = {(method, path.replace(":path}", "}")) for method, path in _routes(here)}
    assert declared | own | heads == served
    assert {endpoint.path for endpoint in RESOURCES if endpoint.is_open} == WAYS_IN | OPEN_ROUTES
    assert {endpoint.name for endpoint in RESOURCES if endpoint.signed_in} == {
        "beginSecondFactor",
        "changePassword",
        "confirmSecondFactor",
        "createRecoveryCodes",
        "createSessionLink",
        "endSessions",
        "listSecondFactors",
        "removeSecondFactor",
        "renameSecondFactor",
        "rotateKey",
        "whoAmI",
    }


def test_the_scopes_that_a_key_can_have_are_those_of_the_routes() -> None:
    """None is left out, none leads nowhere."""
    needed = {permission for endpoint in RESOURCES for permission in endpoint.permissions}
    assert needed | {Permission.METRICS_READ, Permission.DOCS_READ} == set(Permission)


def test_every_route_takes_its_permissions_from_the_method_that_it_calls() -> None:
    """One table feeds the check at the edge and the check of control: none of the resources has a list of its own."""
    for endpoint in RESOURCES:
        if endpoint.is_open or endpoint.signed_in:
            continue
        assert endpoint.control is not None, endpoint.name
        assert permissions_of(endpoint.control) == endpoint.permissions


WRITES: tuple[tuple[str, str, Any, str], ...] = (
    ("PUT", "/jobs/{job}", {"name": "changed"}, "jobs:write"),
    ("PATCH", "/jobs/{job}", {"name": "patched"}, "jobs:write"),
    ("PUT", "/jobs/by-key/the-key", {"name": "upserted"}, "jobs:write"),
    ("POST", "/jobs/{job}/pause", {}, "jobs:write"),
    ("POST", "/jobs/{job}/resume", {}, "jobs:write"),
    ("DELETE", "/jobs/{job}", None, "jobs:write"),
    ("PUT", "/tasks/a-task", b"print(2)", "tasks:write"),
    ("PUT", "/calendars/closed", {"dates": ["2027-01-02"]}, "calendars:write"),
    ("DELETE", "/calendars/closed", None, "calendars:write"),
    ("PUT", "/windows/upkeep", {"when": {"dates": ["2027-01-02"]}}, "windows:write"),
    ("DELETE", "/windows/upkeep", None, "windows:write"),
    ("POST", "/queues/default/resume", {}, "queues:write"),
)


async def test_a_write_that_looks_at_what_is_there_needs_no_permission_to_read(here: World) -> None:
    """A key that may only write writes with a precondition too, and sees the thing that it changed, but no GET."""
    job = {"name": "mine", "key": "the-key", "every": "1h"}
    job_id = (await here.client.post(f"{API}/jobs", json=job)).json()["job_id"]
    script = {"Content-Type": "text/x-python"}
    assert 201 == (await here.client.put(f"{API}/tasks/a-task", content=b"print(1)", headers=script)).status_code
    assert 201 == (await here.client.put(f"{API}/calendars/closed", json={"dates": ["2027-01-01"]})).status_code
    window = {"when": {"dates": ["2027-01-01"]}}
    assert 201 == (await here.client.put(f"{API}/windows/upkeep", json=window)).status_code
    for number, (method, path, said, scope) in enumerate(WRITES):
        key = await here.key(f"writes-{number}", scope)
        headers = {"Authorization": f"Bearer {key}", "If-Match": "*"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        if isinstance(said, bytes):
            headers |= script
        content = said if isinstance(said, bytes) else None if said is None else json.dumps(said).encode()
        if isinstance(said, dict):
            headers.setdefault("Content-Type", "application/json")
        url = f"{API}{path.replace('{job}', job_id)}"
        answer = await here.client.request(method, url, headers=headers, content=content)
        assert 200 == answer.status_code, (method, path, answer.text)
        if not path.endswith(("pause", "resume")):
            assert 403 == (await here.client.get(url, headers=headers)).status_code, path


async def test_a_key_sees_its_own_namespace_only(here: World) -> None:
    """Jobs of another namespace are not there: 404, and in no list."""
    other = await here.key("another-namespace-altogether", "*", namespace="other")
    job_id = (await here.client.post(f"{API}/jobs", json={"name": "mine", "every": "1h"})).json()["job_id"]
    headers = {"Authorization": f"Bearer {other}"}
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/status"), ("GET", "/runs")):
        answer = await here.client.request(method, f"{API}/jobs/{job_id}{path}", headers=headers, json={})
        assert answer.status_code in (404, 405), (method, path)
    assert [] == (await here.client.get(f"{API}/jobs", headers=headers)).json()


async def test_the_scheme_is_read_in_any_case(here: World) -> None:
    """RFC 9110: the name of the scheme has no case."""
    answer = await here.client.get(f"{API}/jobs", headers={"Authorization": f"bearer {ADMIN_KEY}"})
    assert 200 == answer.status_code


def test_no_two_routes_share_a_name() -> None:
    """Operation ids are what generated clients call their methods."""
    names = [endpoint.name for endpoint in RESOURCES]
    assert len(names) == len(set(names))
    assert all(isinstance(endpoint, Endpoint) for endpoint in RESOURCES)
