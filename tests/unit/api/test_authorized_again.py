"""What was asked for is authorized again when it is carried out: pages of operations, and buffered requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import ADMIN_KEY
from tests.support.buffered import Buffered, buffered
from tests.support.people import ask, person, signed_in, signing_key
from tests.support.scene import SHELL, Scene, scene
from tickwise.control.bulk.authorized import AuthorizedPages
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.broker import REQUESTS, Message
from tickwise.ports.store import JobQuery, OperationStep
from tickwise.roles.shared.messages import Request, encode

ALL = {"filter": {"all": True}}
TEAM = {"team": "billing"}
Lapse = Callable[[Any, dict[str, Any]], Awaitable[Any]]


async def _revoke(world: Any, who: dict[str, Any]) -> None:
    gone = await ask(world, ADMIN_KEY, "DELETE", f"/keys/{who['key_id']}", namespace="team-a")
    assert 200 == gone.status_code, gone.text


async def _rotate(world: Any, who: dict[str, Any]) -> None:
    path, body = f"/keys/{who['key_id']}/rotate", {"overlap_seconds": 0}
    answer = await ask(world, ADMIN_KEY, "POST", path, json=body, namespace="team-a")
    assert 200 == answer.status_code, answer.text


async def _deactivate(world: Any, who: dict[str, Any]) -> None:
    assert 200 == (await ask(world, ADMIN_KEY, "PATCH", f"/users/{who['user_id']}", json={"active": False})).status_code


async def _take_role(world: Any, who: dict[str, Any]) -> None:
    body = {"roles": [{"role": "viewer", "namespace": "team-a"}]}
    assert 200 == (await ask(world, ADMIN_KEY, "PATCH", f"/users/{who['user_id']}", json=body)).status_code


async def _nothing(_world: Any, _who: dict[str, Any]) -> None:
    """In between, nothing happens."""


async def _key(world: Any) -> dict[str, Any]:
    """A key of nobody."""
    body = {"name": "ci", "role": "developer", "namespace": "team-a"}
    answer = await ask(world, ADMIN_KEY, "POST", "/keys", json=body)
    assert 201 == answer.status_code, answer.text
    return {**answer.json(), "credential": answer.json()["key"]}


async def _labelled_key(world: Any) -> dict[str, Any]:
    """A key for the jobs of one team."""
    body = {"name": "ci", "role": "developer", "namespace": "team-a", "labels": TEAM}
    answer = await ask(world, ADMIN_KEY, "POST", "/keys", json=body)
    assert 201 == answer.status_code, answer.text
    return {**answer.json(), "credential": answer.json()["key"]}


async def _labelled_person(world: Any) -> dict[str, Any]:
    """Ada, who is a developer for the jobs of one team."""
    ada = await _person(world)
    await _give(world, ada, TEAM)
    return ada


async def _narrow(world: Any, who: dict[str, Any]) -> None:
    await _give(world, who, TEAM)


async def _narrow_further(world: Any, who: dict[str, Any]) -> None:
    await _give(world, who, {**TEAM, "env": "test"})


async def _give(world: Any, who: dict[str, Any], labels: dict[str, str]) -> None:
    body = {"roles": [{"role": "developer", "namespace": "team-a", "labels": labels}]}
    answer = await ask(world, ADMIN_KEY, "PATCH", f"/users/{who['user_id']}", json=body)
    assert 200 == answer.status_code, answer.text
    who["credential"] = (await signed_in(world, "Ada"))["access_token"]


async def _person(world: Any) -> dict[str, Any]:
    """Ada, who is signed in."""
    ada = await person(world, "Ada", ("developer", "team-a"))
    return {**ada, "credential": (await signed_in(world, "Ada"))["access_token"]}


async def _key_of_person(world: Any) -> dict[str, Any]:
    """A key that Ada made."""
    await person(world, "Ada", ("admin", "team-a"))
    token = (await signed_in(world, "Ada"))["access_token"]
    body = {"name": "ci", "role": "developer", "namespace": "team-a"}
    answer = await ask(world, token, "POST", "/keys", json=body, namespace="team-a")
    assert 201 == answer.status_code, answer.text
    return {**answer.json(), "user_id": answer.json()["owner_id"], "credential": answer.json()["key"]}


LAPSES = [
    (_key, _nothing, True),
    (_key, _rotate, True),
    (_key, _revoke, False),
    (_person, _nothing, True),
    (_person, _deactivate, False),
    (_person, _take_role, False),
    (_person, _narrow, False),
    (_key_of_person, _nothing, True),
    (_key_of_person, _deactivate, False),
    (_key_of_person, _take_role, False),
]
"""(who asks, what happens in between, whether it is carried out)"""
BY_LABELS = [
    (_labelled_key, _nothing, True),
    (_labelled_key, _revoke, False),
    (_labelled_person, _nothing, True),
    (_labelled_person, _narrow_further, False),
]
"""The same for callers with labels, whose requests are never buffered."""


def named(value: Any) -> str:
    return str(getattr(value, "__name__", value)).strip("_")


async def prepared(world: Any) -> None:
    await world.control.bearers.sign_with(signing_key())
    assert 201 == (await ask(world, ADMIN_KEY, "POST", "/namespaces", json={"name": "team-a"})).status_code


# ------------------------------------------------------------------------------------------ operations


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        await prepared(made.world)
        yield made


async def asked(here: Scene, who: dict[str, Any], jobs: int = 4) -> str:
    """The id of an operation on so many jobs, of which each page takes two."""
    for _ in range(jobs):
        body = {"name": "a", "task": SHELL, "every": "1h", "labels": TEAM}
        answer = await ask(here.world, who["credential"], "POST", "/jobs", json=body, namespace="team-a")
        assert 201 == answer.status_code, answer.text
    await here.pass_time(1)
    answer = await ask(here.world, who["credential"], "POST", "/jobs:pause", json=ALL, namespace="team-a")
    assert 202 == answer.status_code, answer.text
    return str(answer.json()["operation_id"])


async def page(here: Scene) -> None:
    """Carry out one page."""
    operation = await here.store.operations.take(30.0)
    assert operation is not None
    done = await AuthorizedPages(here.world.control.context).page(operation, 2)
    assert await here.store.operations.step(
        OperationStep(
            operation_id=operation.operation_id,
            expected_step=operation.step,
            cursor=done.cursor,
            done=done.done,
            refused=done.refused,
            problems=done.problems,
            failed=done.failed,
        )
    )


async def told(here: Scene, operation: str) -> Any:
    return (await ask(here.world, ADMIN_KEY, "GET", f"/operations/{operation}", namespace="team-a")).json()


async def paused(here: Scene) -> int:
    found = await here.store.searches.jobs(JobQuery(namespace="team-a", limit=100))
    return sum(row.status.value == "PAUSED" for row in found)


@pytest.mark.parametrize(("who", "lapse", "goes_on"), [*LAPSES, *BY_LABELS], ids=named)
async def test_an_operation_goes_on_as_long_as_its_asker_may(
    here: Scene, who: Any, lapse: Lapse, goes_on: bool
) -> None:
    """What was done stays; nothing more is done, and the reason is on record."""
    asker = await who(here.world)
    operation = await asked(here, asker)
    await page(here)
    assert 2 == await paused(here)
    await lapse(here.world, asker)
    await page(here)
    found = await told(here, operation)
    if goes_on:
        assert (4, 4) == (await paused(here), found["done"])
        return
    assert (2, 2, "failed") == (await paused(here), found["done"], found["status"])
    assert "no_longer_allowed" == found["problems"][-1]["code"]
    assert await here.store.operations.take(30.0) is None
    assert asker["credential"] not in str(found)


async def test_a_store_that_is_away_is_no_denial(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is carried out later."""
    asker = await _key(here.world)
    operation = await asked(here, asker)

    async def away(*_said: Any) -> Any:
        raise StoreUnavailable("the link is cut")

    with monkeypatch.context() as cut:
        cut.setattr(type(here.store.keys), "of_id", away)
        with pytest.raises(StoreUnavailable):
            await page(here)
    await here.pass_time(31)
    assert "running" == (await told(here, operation))["status"]
    await page(here)
    assert 2 == await paused(here)


async def test_an_operation_in_a_namespace_that_is_gone_stops(here: Scene) -> None:
    """The asker works in each namespace, and this one is no more."""
    operation = await asked(here, {"credential": ADMIN_KEY})
    del here.store.state.namespaces["team-a"]
    await page(here)
    found = await here.store.operations.get("team-a", UUID(operation))
    assert found is not None
    assert ("failed", True) == (found.status, "no_longer_allowed" in found.problems)


async def test_an_operation_of_the_release_before_is_carried_out(here: Scene) -> None:
    """Nothing says who asked for it."""
    operation = UUID(await asked(here, await _key(here.world)))
    record = here.store.state.operations[operation]
    record.row = replace(record.row, asker=None)
    for key in await here.store.keys.page("team-a", before=None, limit=10):
        await here.store.keys.revoke("team-a", key.key_id)
    await page(here)
    assert 2 == await paused(here)


# ------------------------------------------------------------------------------------------ buffered requests


@pytest_asyncio.fixture
async def there() -> AsyncIterator[Buffered]:
    async with buffered() as made:
        await prepared(made.world)
        yield made


async def send(there: Buffered, who: dict[str, Any], method: str, path: str, body: Any = None) -> Any:
    answer = await ask(there.world, who["credential"], method, path, json=body, namespace="team-a")
    assert 202 == answer.status_code, answer.text
    return answer.json()


async def jobs(there: Buffered) -> dict[str, str]:
    """The names of the stored jobs, and their states."""
    found = await there.link.store.searches.jobs(JobQuery(namespace="team-a", limit=100))
    return {row.name: row.status.value for row in found}


async def end_of(there: Buffered, accepted: Any) -> tuple[str, str | None]:
    """(the status of its operation, the code of its problem)"""
    row = await there.link.store.operations.get("team-a", UUID(accepted["operation_id"]))
    if row is None:
        return "none", None
    problems = msgspec.json.decode(row.problems)
    return row.status.value, problems[0]["code"] if problems else None


@pytest.mark.parametrize(("who", "lapse", "goes_on"), LAPSES, ids=named)
async def test_a_buffered_request_is_applied_if_its_asker_still_may(
    there: Buffered, who: Any, lapse: Lapse, goes_on: bool
) -> None:
    """A create, a change and a cancel: each ends as a failed operation otherwise, and changes nothing."""
    asker = await who(there.world)
    kept, gone = [
        await send(there, asker, "POST", "/jobs", {"name": name, "task": SHELL, "every": "1h"})
        for name in ("kept", "gone")
    ]
    await there.apply()
    accepted = [
        await send(there, asker, "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"}),
        await send(there, asker, "PUT", f"/jobs/{kept['job_id']}", {"name": "changed"}),
        await send(there, asker, "DELETE", f"/jobs/{gone['job_id']}"),
    ]
    await lapse(there.world, asker)
    batch = await there.batch()
    for _ in range(2):  # the second time it changes nothing
        await there.recorder.apply(batch)
    if goes_on:
        assert {"changed": "SCHEDULED", "gone": "CANCELLED", "new": "SCHEDULED"} == await jobs(there)
        return
    assert {"kept": "SCHEDULED", "gone": "SCHEDULED"} == await jobs(there)
    assert [("failed", "no_longer_allowed")] * 3 == [await end_of(there, each) for each in accepted]


async def test_what_was_applied_stays_done_when_its_message_comes_again(there: Buffered) -> None:
    """The recorder died before it confirmed it, and the key was revoked by then."""
    asker = await _key(there.world)
    made = await send(there, asker, "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"})
    changed = await send(there, asker, "PUT", f"/jobs/{made['job_id']}", {"name": "changed"})
    batch = await there.batch()
    await there.recorder.apply(batch)
    await _revoke(there.world, asker)
    await there.recorder.apply(batch)
    assert {"changed": "SCHEDULED"} == await jobs(there)
    assert [("none", None), ("done", None)] == [await end_of(there, each) for each in (made, changed)]


async def test_a_request_waits_while_nobody_knows_whether_it_is_allowed(there: Buffered) -> None:
    """The store does not answer for keys: the batch is applied later, as a whole."""
    asker = await _key(there.world)
    made = await send(there, asker, "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"})
    batch = await there.batch()
    there.link.failing = {"keys.of_id"}
    with pytest.raises(StoreUnavailable):
        await there.recorder.apply(batch)
    assert ({}, ("none", None)) == (await jobs(there), await end_of(there, made))
    there.link.failing = set()
    await there.recorder.apply(batch)
    assert {"new": "SCHEDULED"} == await jobs(there)


async def test_a_create_for_a_namespace_that_closes_is_not_applied(there: Buffered) -> None:
    """It would keep the namespace from becoming empty."""
    asker = await _key(there.world)
    made = await send(there, asker, "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"})
    closed = await ask(there.world, ADMIN_KEY, "PATCH", "/namespaces/team-a", json={"state": "closing"})
    assert 200 == closed.status_code, closed.text
    await there.clock.advance(5)
    await there.apply()
    assert ({}, ("failed", "namespace_closing")) == (await jobs(there), await end_of(there, made))


async def test_a_request_of_the_release_before_is_applied(there: Buffered) -> None:
    """Its message names no key: the permissions that were checked when it was accepted count."""
    asker = await _key(there.world)
    accepted = await send(there, asker, "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"})
    await _revoke(there.world, asker)
    for delivery in await there.batch():
        if not delivery.value:
            continue
        request = msgspec.msgpack.decode(delivery.value, type=Request)
        assert (UUID(asker["key_id"]), None) == (request.key_id, request.user_id)
        fields = msgspec.to_builtins(request, builtin_types=(UUID, bytes))
        for name in ("key_id", "user_id", "owner_id"):
            fields.pop(name, None)
        old = msgspec.convert(fields, Request)
        assert b"key_id" not in encode(old)
        await there.broker.send(REQUESTS, [Message(encode(old), old.job_id.bytes)])
    await there.apply()
    assert ("none", None) == await end_of(there, accepted)
    assert {"new": "SCHEDULED"} == await jobs(there)


async def test_a_message_is_read_by_the_release_before(there: Buffered) -> None:
    """It ignores the fields that it does not know."""

    class Before(msgspec.Struct, frozen=True, omit_defaults=True):
        kind: str
        namespace: str
        principal: str

    await send(there, await _key(there.world), "POST", "/jobs", {"name": "new", "task": SHELL, "every": "1h"})
    [message] = [each.value for each in await there.batch() if each.value]
    assert Before("create", "team-a", "ci") == msgspec.msgpack.decode(message, type=Before)


async def test_one_look_serves_a_batch(there: Buffered, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests of one key cost one query for it."""
    asker = await _key(there.world)
    for number in range(100):
        await send(there, asker, "POST", "/jobs", {"name": f"job {number}", "task": SHELL, "every": "1h"})
    store, looks = there.link.store, []
    find = type(store.keys).of_id

    async def counted(part: Any, *said: Any) -> Any:
        looks.append(said)
        return await find(part, *said)

    monkeypatch.setattr(type(store.keys), "of_id", counted)
    await there.recorder.apply(await there.batch())
    assert (100, 2) == (len(await jobs(there)), 1 + len(looks))
