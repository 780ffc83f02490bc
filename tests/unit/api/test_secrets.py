"""Secrets by the API: set, listed, removed and rotated; a value goes in and never comes out."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.secrets.keys import LocalKey
from tickwise.adapters.secrets.own import OwnSecrets
from tickwise.adapters.secrets.sealing import EnvelopeSealing
from tickwise.control.secrets.service import REWRAP_PAGE, SecretBody
from tickwise.ports.secrets import WantedSecret

VALUE = "correct-horse-battery-staple"
FIRST, NEXT, OTHER = (LocalKey(bytes(range(begin, begin + 32))) for begin in (0, 50, 100))


def sealer(*keys: LocalKey) -> EnvelopeSealing:
    """A sealer by these keys, the newest first."""
    return EnvelopeSealing(keys, SystemClock())


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def value_of(here: Scene, name: str, namespace: str = "default", keys: Any = None) -> Any:
    """The value that a task would get."""
    wanted = WantedSecret(namespace, name)
    keys = keys or here.world.control.context.sealer
    assert keys is not None
    provider = OwnSecrets(here.store.secrets, keys)
    return (await provider.values([wanted]))[wanted]


async def test_a_secret_is_set_listed_replaced_and_removed(here: Scene) -> None:
    """Answers have names, versions and times."""
    made = await here.ask("PUT", "/secrets/db-password", 201, {"value": VALUE})
    assert ("db-password", 1, "admin", True, [1]) == (
        made["name"], made["version"], made["created_by"], made["readable"],
        [each["version"] for each in made["versions"]],
    )  # fmt: skip
    assert VALUE.encode() == await value_of(here, "db-password")
    await here.pass_time(60)
    again = await here.ask("PUT", "/secrets/db-password", 200, {"value": "newer"})
    assert (2, made["created_at"]) == (again["version"], again["created_at"])
    assert [] == again.pop("warnings")
    assert again["changed_at"] > made["changed_at"]
    assert b"newer" == await value_of(here, "db-password")
    assert again == await here.ask("GET", "/secrets/db-password")
    listed = await here.ask("GET", "/secrets")
    assert [{**{name: value for name, value in again.items() if name != "versions"}, "jobs": 0}] == listed
    assert again == await here.ask("DELETE", "/secrets/db-password")
    assert [] == await here.ask("GET", "/secrets")
    await here.ask("GET", "/secrets/db-password", 404)
    await here.ask("DELETE", "/secrets/db-password", 404)


@pytest.mark.parametrize(
    ("value", "why"),
    [("a", "fewer than"), ("123", "fewer than"), ("password", "a common word"), ("#" * 40, "repeated")],
)
async def test_a_value_that_would_mask_too_much_is_set_with_a_warning(here: Scene, value: str, why: str) -> None:
    """It says why, and never the value; the state of the secret is as without."""
    made = await here.ask("PUT", "/secrets/weak", 201, {"value": value})
    [warning] = made.pop("warnings")
    assert "not masked in the output of tasks" in warning
    assert why in warning
    assert value == "a" or value not in warning
    assert made == await here.ask("GET", "/secrets/weak")


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        ({"value": "x"}, b"x"),
        ({"value": "a\nb\r\n"}, b"a\nb\r\n"),
        ({"value": "ü🦊"}, "ü🦊".encode()),
        ({"value": "\0"}, b"\0"),
        ({"value": "z" * (1 << 20)}, b"z" * (1 << 20)),
        ({"value": "\n" * (1 << 20)}, b"\n" * (1 << 20)),
        ({"value": base64.b64encode(b"\x00\xff").decode(), "encoding": "base64"}, b"\x00\xff"),
        ({"value": base64.encodebytes(bytes(1 << 20)).decode(), "encoding": "base64"}, bytes(1 << 20)),
    ],
    ids=["a byte", "line ends", "letters", "NUL", "1 MiB", "1 MiB of line ends", "bytes", "1 MiB in base64"],
)
async def test_each_value_of_1_byte_to_1_mib_comes_as_it_was_sent(here: Scene, body: Any, plain: bytes) -> None:
    """To the task, byte for byte."""
    await here.ask("PUT", "/secrets/a", 201, body)
    assert plain == await value_of(here, "a")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"value": ""}, "/value"),
        ({"value": "z" * ((1 << 20) + 1)}, "/value"),
        ({"value": base64.b64encode(bytes((1 << 20) + 1)).decode(), "encoding": "base64"}, "/value"),
        ({"value": "S3CRET!", "encoding": "base64"}, "/value"),
        ({"value": "S3CRET", "encoding": "hex"}, "/encoding"),
        ({}, "/value"),
        ({"value": 5}, "/value"),
        ({"value": None}, "/value"),
        ({"value": "S3CRET", "ttl": 5}, "/ttl"),
    ],
)
async def test_a_bad_value_is_refused_without_being_shown(here: Scene, body: Any, pointer: str) -> None:
    """Neither in the answer nor in the log."""
    with capture_logs() as logs:
        answer = await here.ask("PUT", "/secrets/a", 422, body)
    assert pointer == answer["pointer"]
    assert "S3CRET" not in str(answer)
    assert "S3CRET" not in str(logs)
    assert [] == await here.ask("GET", "/secrets")


@pytest.mark.parametrize("name", ["-a", "a-", ".a", "a b", "ä", "a" * 129, "a%2Fb", "a%00"])
async def test_a_bad_name_is_refused(here: Scene, name: str) -> None:
    """422, or 404 where it cannot be one segment of a path."""
    answer = await here.world.client.put(f"{API}/secrets/{name}", json={"value": VALUE})
    assert answer.status_code in (404, 422), answer.text
    assert [] == await here.ask("GET", "/secrets")


async def test_names_are_apart_by_their_letters(here: Scene) -> None:
    """A list is by code point, in pages."""
    for name in ("b", "B", "a.1", "a-1", "a_1"):
        await here.ask("PUT", f"/secrets/{name}", 201, {"value": name})
    assert ["B", "a-1", "a.1", "a_1", "b"] == [each["name"] for each in await here.ask("GET", "/secrets")]
    page = await here.world.client.get(f"{API}/secrets?limit=3")
    assert ["B", "a-1", "a.1"] == [each["name"] for each in page.json()]
    rest = await here.world.client.get(page.links["next"]["url"])
    assert (["a_1", "b"], {}) == ([each["name"] for each in rest.json()], rest.links)


async def test_a_write_can_be_bound_to_what_was_read(here: Scene) -> None:
    """`If-None-Match: *` only makes; `If-Match` replaces and removes only that version."""
    client = here.world.client
    only_new = {"If-None-Match": "*"}
    made = await client.put(f"{API}/secrets/a", json={"value": "1"}, headers=only_new)
    assert (201, 412) == (
        made.status_code,
        (await client.put(f"{API}/secrets/a", json={"value": "2"}, headers=only_new)).status_code,
    )
    read = await client.get(f"{API}/secrets/a")
    assert made.headers["etag"] == read.headers["etag"]
    bound = {"If-Match": made.headers["etag"]}
    second = await client.put(f"{API}/secrets/a", json={"value": "2"}, headers=bound)
    assert (200, 2) == (second.status_code, second.json()["version"])
    assert 412 == (await client.put(f"{API}/secrets/a", json={"value": "3"}, headers=bound)).status_code
    assert 412 == (await client.delete(f"{API}/secrets/a", headers=bound)).status_code
    assert b"2" == await value_of(here, "a")
    last = {"If-Match": second.headers["etag"]}
    assert 200 == (await client.delete(f"{API}/secrets/a", headers=last)).status_code
    assert 412 == (await client.put(f"{API}/secrets/a", json={"value": "3"}, headers=last)).status_code


async def test_secrets_are_of_their_namespace(here: Scene) -> None:
    """The same name is another secret there; and who may write need not be able to read."""
    both = [await here.world.key(f"key-{name}-of-more-than-32-characters", "secrets:read", "secrets:write",
                                 namespace=name) for name in ("team-a", "team-b")]  # fmt: skip
    for number, key in enumerate(both):
        await here.ask("PUT", "/secrets/a", 201, {"value": f"{number}"}, key=key)
    assert (b"0", b"1") == (await value_of(here, "a", "team-a"), await value_of(here, "a", "team-b"))
    assert [] == await here.ask("GET", "/secrets")
    writer = await here.world.key("key-of-a-writer-of-more-than-32-chars", "secrets:write", namespace="team-a")
    await here.ask("PUT", "/secrets/a", 200, {"value": "2"}, key=writer)
    await here.ask("GET", "/secrets/a", 403, key=writer)
    reader = await here.world.key("key-of-a-reader-of-more-than-32-chars", "secrets:read", namespace="team-a")
    assert 2 == (await here.ask("GET", "/secrets/a", key=reader))["version"]
    await here.ask("PUT", "/secrets/a", 403, {"value": "3"}, key=reader)
    await here.ask("DELETE", "/secrets/a", 403, key=reader)
    for path, method in (("/secrets:keys", "GET"), ("/secrets:rewrap", "POST")):
        for key in (writer, reader):
            await here.ask(method, path, 403, key=key)


async def test_no_value_is_kept_anywhere(here: Scene) -> None:
    """Neither in the store (receipts and the audit log are in it) nor in an answer nor in the log; an Idempotency-Key
    keeps nothing of the body."""
    client, answers = here.world.client, []
    with capture_logs() as logs:
        for _ in range(2):
            sent = {"Idempotency-Key": "once"}
            answers.append(await client.put(f"{API}/secrets/a", json={"value": VALUE}, headers=sent))
        coded = {"value": base64.b64encode(VALUE.encode()).decode(), "encoding": "base64"}
        answers.append(await client.put(f"{API}/secrets/b", json=coded))
        answers += [await client.get(f"{API}{path}") for path in ("/secrets", "/secrets/a", "/audit", "/metrics")]
        answers.append(await client.delete(f"{API}/secrets/a"))
    assert [201, 200, 201] == [each.status_code for each in answers[:3]]
    state = str({name: repr(part) for name, part in vars(here.store.state).items()})
    for form in (VALUE, coded["value"], VALUE.encode().hex()):
        assert form not in state
        assert form not in str(logs)
        assert not [each for each in answers if form in each.text]
    assert {} == here.store.state.receipts
    assert VALUE not in repr(SecretBody(value=VALUE))


async def test_a_secret_that_is_set_by_several_at_once_has_one_last_value(here: Scene) -> None:
    """Each request is one version."""
    await here.ask("PUT", "/secrets/a", 201, {"value": "first"})
    more = await asyncio.gather(
        *(here.world.client.put(f"{API}/secrets/a", json={"value": str(at)}) for at in range(4))
    )
    assert {200} == {each.status_code for each in more}
    assert [5, 4, 3, 2, 1] == [each["version"] for each in (await here.ask("GET", "/secrets/a"))["versions"]]


# ------------------------------------------------------------------------------------------ the installation's key


async def test_a_rotation_wraps_each_key_anew_and_goes_on_where_it_was_ended() -> None:
    """In steps; what is done is passed over, and afterwards the earlier key is of no use."""
    async with scene(sealer=sealer(FIRST)) as here:
        count = REWRAP_PAGE + 3
        for number in range(count):
            await here.ask("PUT", f"/secrets/s{number:03}", 201, {"value": f"value {number}"})
        here.world.control.context.sealer = sealer(NEXT, FIRST)
        assert [(NEXT.key_id.hex(), True, 0), (FIRST.key_id.hex(), False, count)] == [
            (each["id"], each["newest"], each["secrets"]) for each in (await here.ask("GET", "/secrets:keys"))["keys"]
        ]
        step = await here.ask("POST", "/secrets:rewrap", 200, {})
        assert (REWRAP_PAGE, []) == (step["rewrapped"], step["failed"])
        # The command ended here, and is begun anew: without the place of the step before.
        rest = await here.ask("POST", "/secrets:rewrap", 200, {})
        assert (3, [], None) == (rest["rewrapped"], rest["failed"], rest["next"])
        assert 0 == (await here.ask("POST", "/secrets:rewrap", 200, {"after": step["next"]}))["rewrapped"]
        for number in range(count):
            assert f"value {number}".encode() == await value_of(here, f"s{number:03}", keys=sealer(NEXT))
        again = await here.ask("POST", "/secrets:rewrap", 200, {"again": True})
        assert REWRAP_PAGE == again["rewrapped"]
        assert 1 == (await here.ask("GET", "/secrets/s000"))["version"]


async def test_a_lost_key_is_told_by_the_names_of_its_secrets() -> None:
    """Everything else goes on: lists, new secrets, a new value of a lost one."""
    async with scene(sealer=sealer(FIRST)) as here:
        for name in ("a", "b"):
            await here.ask("PUT", f"/secrets/{name}", 201, {"value": VALUE})
        here.world.control.context.sealer = sealer(OTHER)
        assert [False, False] == [each["readable"] for each in await here.ask("GET", "/secrets")]
        found = await here.ask("GET", "/secrets:keys")
        assert [{"namespace": "default", "name": name} for name in ("a", "b")] == found["lost"]
        assert [(OTHER.key_id.hex(), True), (FIRST.key_id.hex(), False)] == [
            (each["id"], each["known"]) for each in found["keys"]
        ]
        step = await here.ask("POST", "/secrets:rewrap", 200, {})
        assert (0, ["a", "b"], None) == (step["rewrapped"], [each["name"] for each in step["failed"]], step["next"])
        assert all(FIRST.key_id.hex() in each["detail"] for each in step["failed"])
        assert (await here.ask("PUT", "/secrets/a", 200, {"value": "anew"}))["readable"]
        await here.ask("PUT", "/secrets/c", 201, {"value": "new"})
        assert b"anew" == await value_of(here, "a")
        await here.ask("DELETE", "/secrets/b")


async def test_without_a_key_a_write_says_how_to_get_one() -> None:
    """409; nothing is stored, and what only reads works."""
    async with scene(sealer=sealer()) as here:
        refused = await here.ask("PUT", "/secrets/a", 409, {"value": VALUE})
        assert "sealing_key_unset" == refused["code"]
        assert "tickwise secrets new-key" in refused["detail"]
        assert [] == await here.ask("GET", "/secrets")
        assert {"keys": [], "lost": []} == await here.ask("GET", "/secrets:keys")
        await here.ask("POST", "/secrets:rewrap", 409, {})
