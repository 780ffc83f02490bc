"""Queues: what waits in each, and holding them still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def test_queues_are_listed_by_name_with_what_is_in_them(here: Scene) -> None:
    """Waiting, handed out, running."""
    assert [] == await here.ask("GET", "/queues")
    for _ in range(3):
        await here.create(schedule_type="IMMEDIATE", queue="mail")
    await here.create(schedule_type="IMMEDIATE", queue="bills")
    number = await here.join(queues=("mail",))
    claims = await here.take(number, limit=2, queues=("mail",))
    await here.begin(number, claims[:1])
    found = {each["queue"]: each for each in await here.ask("GET", "/queues")}
    assert ["bills", "mail"] == list(found)
    assert (1, 1, 1, False, None) == tuple(
        found["mail"][name] for name in ("queued", "dispatched", "running", "held", "hold")
    )
    assert found["bills"] == await here.ask("GET", "/queues/bills")
    await here.ask("GET", "/queues/nothing", 404)


async def test_a_queue_on_hold_hands_out_nothing_until_it_is_resumed(here: Scene) -> None:
    """What waits keeps its place; who holds it and why is told."""
    await here.create(schedule_type="IMMEDIATE")
    found = await here.ask("POST", "/queues/default/hold", 200, {"reason": "the database moves"})
    assert (True, "the database moves", None) == (found["held"], found["hold"]["reason"], found["hold"]["until"])
    assert found["hold"]["from"] == "2027-01-15T08:00:00Z"
    number = await here.join()
    assert [] == await here.take(number)
    resumed = await here.ask("POST", "/queues/default/resume")
    assert (False, None) == (resumed["held"], resumed["hold"])
    assert 1 == len(await here.take(number))


async def test_a_hold_ends_by_itself_and_can_begin_later(here: Scene) -> None:
    """From a time, until a time."""
    await here.create(schedule_type="IMMEDIATE")
    span = {"from": "2027-01-15T08:10:00Z", "until": "2027-01-15T08:20:00Z"}
    found = await here.ask("POST", "/queues/default/hold", 200, span)
    assert (False, span) == (found["held"], {name: found["hold"][name] for name in span})
    await here.pass_time(601)
    assert (await here.ask("GET", "/queues/default"))["held"]
    await here.pass_time(600)
    found = await here.ask("GET", "/queues/default")
    assert (False, None) == (found["held"], found["hold"])


async def test_a_hold_takes_the_place_of_the_one_before(here: Scene) -> None:
    """The last word counts."""
    await here.ask("POST", "/queues/mail/hold", 200, {"reason": "one"})
    await here.ask("POST", "/queues/mail/hold", 200, {"reason": "two", "until": "2027-01-15T09:00:00Z"})
    [found] = await here.ask("GET", "/queues")
    assert ("two", "2027-01-15T09:00:00Z") == (found["hold"]["reason"], found["hold"]["until"])


async def test_draining_says_what_still_runs(here: Scene) -> None:
    """Until it is 0; what waits stays."""
    for _ in range(3):
        await here.create(schedule_type="IMMEDIATE")
    number = await here.join()
    claims = await here.take(number, limit=1)
    await here.begin(number, claims)
    found = await here.ask("POST", "/queues/default/drain", 200, {"reason": "upgrade"})
    assert (True, 2, 0, 1) == tuple(found[name] for name in ("held", "queued", "dispatched", "running"))
    await here.finish(number, claims)
    found = await here.ask("GET", "/queues/default")
    assert (True, 2, 0, 0) == tuple(found[name] for name in ("held", "queued", "dispatched", "running"))


async def test_resuming_what_is_not_on_hold_changes_nothing(here: Scene) -> None:
    """A queue that only its hold was known of is gone with it."""
    await here.create(schedule_type="IMMEDIATE")
    assert not (await here.ask("POST", "/queues/default/resume"))["held"]
    await here.ask("POST", "/queues/default/hold", 200)
    for _ in range(2):
        assert not (await here.ask("POST", "/queues/default/resume"))["held"]
    await here.ask("POST", "/queues/nothing/resume", 404)
    await here.ask("POST", "/queues/later/hold", 200)
    assert 0 == (await here.ask("POST", "/queues/later/resume"))["queued"]
    assert ["default"] == [each["queue"] for each in await here.ask("GET", "/queues")]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"until": "2027-01-15T07:00:00Z"}, "/until"),
        ({"from": "2027-01-15T06:00:00Z"}, "/from"),
        ({"from": "2027-01-15T09:00:00Z", "until": "2027-01-15T09:00:00Z"}, "/until"),
        ({"until": "soon"}, "/until"),
        ({"until": "9999-01-01T00:00:00Z"}, "/until"),
        ({"reason": "a\0b"}, "/reason"),
        ({"reason": "x" * 1_001}, "/reason"),
        ({"why": "x"}, "/why"),
    ],
)
async def test_a_hold_that_makes_no_sense_is_refused(here: Scene, body: dict[str, Any], pointer: str) -> None:
    """With the field, and nothing is held."""
    found = await here.ask("POST", "/queues/mail/hold", 422, body)
    assert pointer == found["pointer"]
    assert [] == await here.ask("GET", "/queues")


@pytest.mark.parametrize("name", ["-", "a b", "x" * 101, "%00", "é"])
async def test_a_name_that_no_queue_can_have_is_not_held(here: Scene, name: str) -> None:
    """404: there will never be one."""
    for action in ("hold", "drain", "resume"):
        assert 404 == (await here.world.client.post(f"{API}/queues/{name}/{action}")).status_code


async def test_queues_of_another_namespace_are_not_there(here: Scene) -> None:
    """A hold concerns the own namespace alone, also where the other one's queue has the same name."""
    await here.create(schedule_type="IMMEDIATE")
    key = await here.world.key("somebody-elses-key", "*", namespace="other")
    headers = {"Authorization": f"Bearer {key}"}
    assert [] == (await here.world.client.get(f"{API}/queues", headers=headers)).json()
    assert 200 == (await here.world.client.post(f"{API}/queues/default/hold", headers=headers)).status_code
    assert not (await here.ask("GET", "/queues/default"))["held"]
    assert 1 == len(await here.take(await here.join()))
