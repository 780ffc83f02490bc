"""People, roles and tokens: each route with each role, ids of another namespace on every route, and forged tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.alerts import opened
from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.people import PASSWORD, ask, person, signed_in, signing_key
from tickwise.api.endpoint import Endpoint
from tickwise.api.examples import BODIES
from tickwise.api.resources import RESOURCES
from tickwise.domain.permissions import ROLES, Role

PLACES: Final = ("team-a", "team-b")
SHELL: Final = {"kind": "shell", "command": "true"}
NOBODY: Final = "019a2b3c-4d5e-8f60-9123-456789abcdef"
IDS: Final = {
    "job_id": NOBODY, "run_id": NOBODY, "operation_id": NOBODY, "key_id": NOBODY, "user_id": NOBODY,
    "backfill_id": NOBODY, "key": "k", "task_id": "t", "name": "n", "queue": "q", "namespace": "team-b",
    "version": "1", "error_id": NOBODY, "stop_id": NOBODY, "channel_id": NOBODY, "rule_id": NOBODY,
    "alert_id": NOBODY, "notice_id": NOBODY, "objective_id": NOBODY, "artefact": "a", "page_id": NOBODY,
    "announcement_id": NOBODY, "factor_id": NOBODY, "federation_id": NOBODY,
}  # fmt: skip
EVENTS: Final = "streamEvents"
GUARDED: Final = [endpoint for endpoint in RESOURCES if endpoint.permissions]
WITH_IDS: Final = [endpoint for endpoint in GUARDED if "{" in endpoint.path]


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        await made.control.bearers.sign_with(signing_key())
        for name in PLACES:
            assert 201 == (await ask(made, ADMIN_KEY, "POST", "/namespaces", json={"name": name})).status_code
        yield made


async def key_for(here: World, namespace: str, **fields: Any) -> str:
    """A key that works in one namespace."""
    body = {"name": "probe", "namespaces": [namespace], **fields}
    made = await ask(here, ADMIN_KEY, "POST", "/keys", json=body)
    assert 201 == made.status_code, made.text
    return str(made.json()["key"])


async def asked(here: World, credential: str, endpoint: Endpoint, ids: Mapping[str, str]) -> Any:
    """A route, with the ids in its path and the example of its body."""
    path = endpoint.path.removeprefix(API).format(**ids)
    headers: dict[str, str] = {}
    content: dict[str, Any] = {}
    if endpoint.body is not None:
        if b"application/json" in endpoint.media:
            content["json"] = BODIES.get(endpoint.body.__name__, {})
        else:
            media = min(endpoint.media).decode()
            headers, content = {"Content-Type": media}, {"content": b"print('hello')\n"}
    if endpoint.name == EVENTS:
        headers = {"Accept": "application/json"}  # it would never end
    sent = {"Authorization": f"Bearer {credential}", **headers}
    return await here.client.request(endpoint.method, f"{API}{path}", headers=sent, **content)


@probe(10, stopped_by="each route needs the permission that its method of control declares")
@pytest.mark.parametrize("role", [None, *Role])
async def test_each_route_refuses_each_role_that_lacks_its_permission(here: World, role: Role | None) -> None:
    """Every route is called with a key of each role, and of none."""
    fields = {"permissions": ["docs:read"]} if role is None else {"role": role.value}
    granted = {"docs:read"} if role is None else ROLES[role]
    key = await key_for(here, "team-a", **fields)
    refused, expected = set(), set()
    for endpoint in GUARDED:
        answer = await asked(here, key, endpoint, IDS)
        lacks = answer.status_code == 403 and "lacks the permission" in answer.json()["detail"]
        refused |= {endpoint.name} if lacks else set()
        assert answer.status_code != 401, endpoint.name
        if "*" not in granted and granted.isdisjoint(endpoint.permissions):
            expected.add(endpoint.name)
    assert expected == refused


async def things_of(here: World, namespace: str) -> dict[str, str]:
    """One thing of each kind in a namespace, by the names of their ids in paths."""
    admin = await key_for(here, namespace, role="admin")

    async def put(method: str, path: str, status: int, body: Any) -> Any:
        answer = await ask(here, admin, method, path, json=body)
        assert status == answer.status_code, answer.text
        return answer.json()

    job_id = (await put("POST", "/jobs", 201, {"name": "a", "key": "k-a", "every": "1h", "task": SHELL}))["job_id"]
    run_id = (await put("POST", f"/jobs/{job_id}/runNow", 202, {}))["run_id"]
    operation = await put("POST", "/jobs:pause", 202, {"filter": {"all": True}})
    await put("PUT", "/calendars/n-a", 201, {"dates": ["2027-01-01"]})
    await put("PUT", "/secrets/n-a", 201, {"value": "theirs"})
    await put("POST", "/tasks", 201, {"taskId": "t-a", "script": "print('hello')\n"})
    key = (await put("POST", "/keys", 201, {"name": "theirs", "role": "viewer"}))["key_id"]
    hook = {"name": "on-call", "kind": "webhook", "url": "https://hooks.example.com/x"}
    channel = (await put("POST", "/channels", 201, hook))["channel_id"]
    rule = await put("POST", "/notification-rules", 201, {"name": "r", "on": ["failure"], "channels": ["on-call"]})
    notice = (await put("POST", f"/channels/{channel}/test", 202, None))["notice_id"]
    page_id = (await put("POST", "/status-pages", 201, {"slug": f"of-{namespace}", "title": "Theirs"}))["page_id"]
    said = {"kind": "incident", "title": "Late", "text": "We look at it."}
    told = await put("POST", f"/status-pages/{page_id}/announcements", 201, said)
    alert = await opened(here.store, UUID(rule["rule_id"]), alert_id=uuid4(), namespace=namespace)
    user = await person(here, "Ada", ("developer", namespace))
    return {
        **IDS, "job_id": job_id, "run_id": run_id, "operation_id": operation["operation_id"], "key_id": key,
        "user_id": user["user_id"], "key": "k-a", "task_id": "t-a", "name": "n-a", "namespace": namespace,
        "channel_id": channel, "rule_id": rule["rule_id"], "notice_id": notice, "alert_id": str(alert),
        "page_id": page_id, "announcement_id": told["announcement_id"],
    }  # fmt: skip


@probe(10, stopped_by="everything is looked up within the namespace of the caller: 404, as if it were not there")
async def test_ids_of_another_namespace_are_not_there(here: World) -> None:
    """Every route with an id in its path gets an id of another namespace, from an administrator of one's own."""
    ids = await things_of(here, "team-a")
    stranger = await key_for(here, "team-b", role="admin")
    found = {}
    for endpoint in sorted(WITH_IDS, key=lambda each: each.method == "PUT"):
        answer = await asked(here, stranger, endpoint, ids)
        # A PUT under a name, and a queue, make a thing of the caller's own under that name, or ask for what it needs.
        own = endpoint.method == "PUT" and answer.status_code in {201, 422}
        if not own and "{queue}" not in endpoint.path and answer.status_code != 404:
            found[endpoint.name] = (answer.status_code, answer.text[:200])
    assert {} == {name: answer for name, answer in found.items() if answer[0] not in {403, 412}}
    admin = await key_for(here, "team-a", role="admin")
    kept = (await ask(here, admin, "GET", f"/jobs/{ids['job_id']}")).json()
    assert ("a", "k-a") == (kept["name"], kept["key"])


@probe(10, stopped_by="nobody gives what they have not got")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/keys", {"name": "x", "permissions": ["*"], "namespaces": ["*"]}),
        ("POST", "/keys", {"name": "x", "permissions": ["jobs:read"], "namespaces": ["team-a"]}),
        ("POST", "/users", {"name": "Eve", "password": PASSWORD, "roles": [{"role": "admin", "namespace": "*"}]}),
        ("POST", "/users", {"name": "Eve", "password": PASSWORD, "roles": [{"role": "viewer", "namespace": "team-a"}]}),
        ("POST", "/namespaces", {"name": "mine"}),
        ("PATCH", "/namespaces/team-b", {"state": "closing"}),
        ("DELETE", "/namespaces/team-b", None),
    ],
)
async def test_an_administrator_of_a_namespace_stays_within_it(
    here: World, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """An administrator of one namespace makes keys, people and namespaces beyond it."""
    admin = await key_for(here, "team-b", role="admin")
    answer = await ask(here, admin, method, path, **({} if body is None else {"json": body}))
    assert 403 == answer.status_code, answer.text


@probe(10, stopped_by="a person with roles elsewhere is changed by an administrator of the installation alone")
@pytest.mark.parametrize(
    ("method", "tail", "body"),
    [("POST", "/reset", None), ("PATCH", "", {"active": False}), ("PATCH", "", {"name": "Eve", "email": "e@ex.org"})],
)
async def test_a_stronger_person_cannot_be_taken_over(
    here: World, method: str, tail: str, body: dict[str, Any] | None
) -> None:
    """An administrator of a namespace resets, deactivates or renames a member who administers the installation."""
    strong = await person(here, "Grace", ("admin", "*"), ("viewer", "team-a"))
    admin = await key_for(here, "team-a", role="admin")
    path = f"/users/{strong['user_id']}{tail}"
    answer = await ask(here, admin, method, path, **({} if body is None else {"json": body}))
    assert 403 == answer.status_code, answer.text


def _text(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _value(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=="))
    return found


@probe(10, stopped_by="one algorithm, one kind of token, keys from the database alone; then the signature")
@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"}, {"alg": "HS256"}, {"alg": "ES256"}, {"kid": "../../etc/passwd"}, {"kid": "other"},
        {"typ": "JWT"}, {"jku": "http://127.0.0.1:1/keys"}, {"crit": ["exp"]}, {"b64": False, "crit": ["b64"]},
    ],
)  # fmt: skip
async def test_a_header_that_was_changed_forges_no_token(here: World, header: dict[str, Any]) -> None:
    """The head of a token is exchanged: no algorithm, the public key as a secret, a key from elsewhere."""
    await person(here, "Ada", ("developer", "team-a"))
    head, claims, signature = (await signed_in(here, "ada"))["access_token"].split(".")
    [public] = (await ask(here, None, "GET", "/.well-known/jwks.json")).json()["keys"]
    forged = _text({**_value(head), **header})
    signed = f"{forged}.{claims}".encode()
    secrets = (public["x"].encode(), base64.urlsafe_b64decode(public["x"] + "=="), json.dumps(public).encode())
    digests = [hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets]
    for end in (signature, "", *(base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in digests)):
        assert 401 == (await ask(here, f"{forged}.{claims}.{end}", "GET", "/jobs")).status_code


@probe(10, stopped_by="the signature covers every claim, and each is checked")
@pytest.mark.parametrize(
    "claims",
    [{"sub": NOBODY}, {"gen": 99}, {"aud": "other"}, {"iss": NOBODY}, {"exp": 4_000_000_000}, {"scope": "*"}],
)
async def test_claims_that_were_changed_forge_no_token(here: World, claims: dict[str, Any]) -> None:
    """The claims of a token are exchanged: another person, another audience, a later end, more permissions."""
    await person(here, "Ada", ("viewer", "team-a"))
    head, before, signature = (await signed_in(here, "ada"))["access_token"].split(".")
    forged = _text({**_value(before), **claims})
    assert 401 == (await ask(here, f"{head}.{forged}.{signature}", "GET", "/jobs")).status_code


@probe(10, stopped_by="a refresh token works once; its second use ends the session")
async def test_a_stolen_refresh_token_ends_the_session(here: World) -> None:
    """A refresh token is used by its owner, then by a thief."""
    await person(here, "Ada", ("viewer", "team-a"))
    first = await signed_in(here, "ada")
    body = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    owner = await ask(here, None, "POST", "/auth/token", json=body)
    assert 200 == owner.status_code
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    body["refresh_token"] = owner.json()["refresh_token"]
    assert 401 == (await ask(here, None, "POST", "/auth/token", json=body)).status_code
    assert 401 == (await ask(here, first["refresh_token"], "GET", "/jobs")).status_code


@probe(10, stopped_by="names are compared without case, width and invisible characters, and have letters of one script")
@pytest.mark.parametrize("name", ["GRACE", "\uff27race", "Grace ", "Gra\u200bce", "Gr\u0430ce", "grace\u0301"])
async def test_a_name_that_looks_like_another_is_refused_or_apart(here: World, name: str) -> None:
    """A person is added whose name looks like that of an administrator."""
    await person(here, "Grace", ("admin", "*"))
    answer = await ask(here, ADMIN_KEY, "POST", "/users", json={"name": name, "password": PASSWORD})
    if name == "grace\u0301":  # another letter to every reader
        assert 201 == answer.status_code, answer.text
        return
    assert answer.status_code in {409, 422}, answer.text


@probe(10, stopped_by="headers of every answer: no guessing of types, no scripts, no frames, no referrer")
@pytest.mark.parametrize("path", ["/jobs", "/nowhere", "/livez", "/openapi.json", "/keys", "/auth/me"])
async def test_a_browser_makes_no_page_of_an_answer(here: World, path: str) -> None:
    """An answer with text of an attacker is opened in a browser, or put into a frame."""
    place = path if path in {"/livez", "/openapi.json"} else f"{API}{path}"
    answer = await here.client.get(place)
    assert "nosniff" == answer.headers["x-content-type-options"]
    assert "default-src 'none'; frame-ancestors 'none'" == answer.headers["content-security-policy"]
    assert "no-referrer" == answer.headers["referrer-policy"]


@probe(10, stopped_by="a sign-in without a place to wait is refused before anything is looked up")
async def test_a_flood_of_sign_ins_that_finds_no_place_costs_no_query(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More sign-ins at once than may wait; only those are looked up whose passwords are then checked."""
    await person(here, "ada", ("viewer", "team-a"))
    monkeypatch.setattr(here.control.auth._check._passwords, "_max_waiting", 2)
    users = here.store.users
    sign_in, looked_up = users.sign_in, []

    async def counted(account: str) -> Any:
        looked_up.append(account)
        return await sign_in(account)

    monkeypatch.setattr(users, "sign_in", counted)
    body = {"grant_type": "password", "username": "ada", "password": "nine purple kettles"}
    tries = [asyncio.create_task(ask(here, None, "POST", "/auth/token", json=body)) for _ in range(20)]
    answers = [(await each).status_code for each in tries]
    assert {401, 429} == set(answers)
    assert answers.count(401) == len(looked_up)
