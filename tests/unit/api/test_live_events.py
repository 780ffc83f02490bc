"""Live events over HTTP: what a stream is about, who may see it, and what it costs a reader to be slow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.support.app import ADMIN_KEY, API, World, world
from tests.support.people import PASSWORD, signed_in, signing_key
from tests.support.waiting import eventually
from tickwise.control.bulk.removal import NamespaceRemoval
from tickwise.control.live import reader
from tickwise.control.live.service import LiveOptions
from tickwise.domain.feed import FeedPlace
from tickwise.ports.identity.namespaces import SETTLE_SECONDS
from tickwise.ports.store import NewJob
from tickwise.roles.scheduler.removals import Removals
from tickwise.testing.clock import ShiftedClock
from tickwise.testing.factories import Factory

PAGE = 2_000
"""Events that a stream about everything gets at once."""
COUNT = 8_000
ENDS_WITHIN_SECONDS = 14.0
"""Usual are 1 to 3 s; the next heartbeat comes after 15."""
HOURLY = {"name": "hourly", "every": "1h", "task": {"kind": "shell", "command": "true"}}


@pytest.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


class Client:
    """A client that reads what it is sent, or lets it lie."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.text = ""
        self.reads = asyncio.Event()
        self.reads.set()
        self.over = False

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.text += message["body"].decode()

    def events(self, name: str = "run") -> list[dict[str, Any]]:
        """The data of events of a name."""
        blocks = (block.split("\n") for block in self.text.split("\n\n"))
        return [
            json.loads(line.removeprefix("data: "))
            for block in blocks
            if f"event: {name}" in block
            for line in block
            if line.startswith("data: ")
        ]

    async def until(self, count: int, name: str = "run") -> list[dict[str, Any]]:
        """So many events of a name."""
        await eventually(lambda: len(self.events(name)) >= count, what=f"{count} {name}")
        return self.events(name)


@asynccontextmanager
async def opened(
    here: World, query: str = "", *, key: str = ADMIN_KEY, method: str = "GET", path: str = "/events", **headers: str
) -> AsyncIterator[Client]:
    """A request that goes on; over a real application, and no socket."""
    client, gone = Client(), asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def serve() -> None:
        await here.app(scope, receive, client.send)
        client.over = True

    sent = [(b"authorization", f"Bearer {key}".encode())]
    sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": API + path,
        "query_string": query.encode(),
        "headers": sent,
    }
    scope |= {"http_version": "1.1", "asgi": {"version": "3.0", "spec_version": "2.3"}, "client": ("127.0.0.1", 1)}
    task = asyncio.create_task(serve())
    try:
        await eventually(lambda: client.text or client.over, what="an answer")
        yield client
    finally:
        gone.set()
        client.reads.set()
        await asyncio.wait_for(task, 60)


async def made(here: World, **fields: Any) -> NewJob:
    """A job with a run, stored."""
    job = Factory(await here.store.now(), seed=str(fields)).job(**fields)
    await here.store.jobs.add([job])
    return job


async def test_a_stream_is_open_when_it_answers(here: World) -> None:
    """Not compressed, not kept, and not held back on its way."""
    async with opened(here, accept_encoding="gzip") as client:
        assert (200, b"text/event-stream") == (client.status, client.headers[b"content-type"])
        assert b"no-cache, no-transform" == client.headers[b"cache-control"]
        assert b"no" == client.headers[b"x-accel-buffering"]
        assert b"content-encoding" not in client.headers
        assert client.text.startswith(": open\n")
        job = await made(here)
        [event] = await client.until(1)
        expected = {"run_id": str(job.run_id), "job_id": str(job.job_id), "namespace": "default", "status": "QUEUED"}
        assert expected == {name: event[name] for name in expected}
        assert {"attempt", "time", "change"} == event.keys() - expected.keys()


@pytest.mark.parametrize("query", ["job_id={job}", "run_id={run}", "label=team=a", "job_id={job}&status=QUEUED"])
async def test_a_stream_is_about_what_it_asked_for(here: World, query: str) -> None:
    """And about nothing else."""
    make = Factory(await here.store.now())
    job, other = make.job(labels={"team": "a"}), make.job(labels={"team": "b"})
    async with opened(here, query.format(job=job.job_id, run=job.run_id)) as client, opened(here) as whole:
        await here.store.jobs.add([other, job])
        await whole.until(2)
        [event] = await client.until(1)
        assert str(job.job_id) == event["job_id"]


async def test_a_stream_of_a_state_leaves_out_the_others(here: World) -> None:
    """A queued run is no failed one."""
    async with opened(here, "status=FAILED&status=CANCELLED") as client, opened(here) as whole:
        job = await made(here)
        await whole.until(1)
        assert 200 == (await here.client.post(f"{API}/runs/{job.run_id}/cancel")).status_code
        [event] = await client.until(1)
        assert "CANCELLED" == event["status"]


async def test_a_stream_is_of_one_namespace(here: World) -> None:
    """Or of each, for those who may see runs everywhere."""
    await here.key("a-key-of-team-a-that-is-long-enough", "runs:read", namespace="team-a")
    own = opened(here, key="a-key-of-team-a-that-is-long-enough")
    async with own as client, opened(here, "namespace=*") as whole, opened(here, "namespace=team-a") as named:
        await made(here)
        await made(here, namespace="team-a")
        assert ["default", "team-a"] == [event["namespace"] for event in await whole.until(2)]
        assert ["team-a"] == [event["namespace"] for event in await client.until(1)]
        assert ["team-a"] == [event["namespace"] for event in await named.until(1)]


@pytest.mark.parametrize(
    ("query", "status"),
    [("namespace=*", 403), ("namespace=default", 403), ("last_event_id=none", 422), ("job_id=x", 422)],
)
async def test_a_stream_is_refused(here: World, query: str, status: int) -> None:
    """Before it begins, as any request."""
    await here.key("a-key-of-team-a-that-is-long-enough", "runs:read", namespace="team-a")
    async with opened(here, query, key="a-key-of-team-a-that-is-long-enough") as client:
        assert status == client.status


async def test_a_permission_for_some_labels_shows_their_jobs_alone(here: World) -> None:
    """Also with a filter for others."""
    body = {"name": "ci", "permissions": ["runs:read"], "labels": {"team": "a"}}
    key = (await here.client.post(f"{API}/keys", json=body)).json()["key"]
    async with opened(here, key=key) as client, opened(here, "label=team=b", key=key) as wrong, opened(here) as whole:
        await made(here, labels={"team": "b"})
        await made(here)
        mine = await made(here, labels={"team": "a"})
        await whole.until(3)
        [event] = await client.until(1)
        assert (str(mine.job_id), []) == (event["job_id"], wrong.events())


async def person_of(here: World, *roles: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    """A person's access token, and the person."""
    body = [{"role": role, "namespace": namespace} for role, namespace in roles]
    await here.control.bearers.sign_with(signing_key())
    made = await here.client.post(f"{API}/users", json={"name": "ada", "password": PASSWORD, "roles": body})
    assert 201 == made.status_code, made.text
    return (await signed_in(here, "ada"))["access_token"], made.json()


async def until_end(client: Client) -> str:
    """The reason for which a stream ended, soon."""
    await eventually(lambda: client.over, within_seconds=ENDS_WITHIN_SECONDS, what="the stream ends")
    [end] = client.events("end")
    return str(end["reason"])


async def test_a_stream_ends_with_the_permission(here: World) -> None:
    """A role that is less than it was ends the token; the client comes back with what it may have now."""
    token, who = await person_of(here, ("viewer", "default"))
    async with opened(here, key=token) as client:
        answer = await here.client.patch(f"{API}/users/{who['user_id']}", json={"roles": []})
        assert 200 == answer.status_code, answer.text
        assert "unauthenticated" == await until_end(client)


async def test_a_job_that_is_given_other_labels_is_out_of_sight(here: World) -> None:
    """Of a key for some labels: its changes soon, and its output too."""
    body = {"name": "ci", "permissions": ["runs:read"], "labels": {"team": "a"}}
    key = (await here.client.post(f"{API}/keys", json=body)).json()["key"]
    answer = await here.client.post(f"{API}/jobs", json={**HOURLY, "labels": {"team": "a"}})
    job_id = answer.json()["job_id"]
    first = (await here.client.post(f"{API}/jobs/{job_id}/runNow", json={})).json()["run_id"]
    async with opened(here, key=key) as client, opened(here, key=key, path=f"/runs/{first}/logs/stream") as log:
        assert (200, 200) == (client.status, log.status)
        again = await here.client.patch(f"{API}/jobs/{job_id}", json={"labels": {"team": "b"}})
        assert 200 == again.status_code, again.text
        assert "not_found" == await until_end(log)
        second = (await here.client.post(f"{API}/jobs/{job_id}/runNow", json={})).json()["run_id"]
        mine = await made(here, labels={"team": "a"})
        await eventually(lambda: str(mine.job_id) in client.text, what="its own are told")
        assert second not in client.text


async def test_a_stream_ends_with_its_person(here: World) -> None:
    """Who is deactivated hears nothing more."""
    token, who = await person_of(here, ("viewer", "default"))
    async with opened(here, key=token) as client:
        answer = await here.client.patch(f"{API}/users/{who['user_id']}", json={"active": False})
        assert 200 == answer.status_code, answer.text
        assert "unauthenticated" == await until_end(client)


async def test_a_stream_ends_with_its_token() -> None:
    """When its time is over; with another one the client comes back."""
    clock = ShiftedClock()
    async with world(clock=clock) as here:
        token, _ = await person_of(here, ("viewer", "default"))
        async with opened(here, key=token) as client:
            clock.shift(3_600)
            assert "unauthenticated" == await until_end(client)


async def test_a_stream_ends_with_its_namespace() -> None:
    """A key of it at once; the caller of several when it is gone. A stream of all goes on."""
    clock = ShiftedClock()
    async with world(clock=clock) as here:
        await here.key("a-key-of-team-a-that-is-long-enough", "runs:read", namespace="team-a")
        own = opened(here, key="a-key-of-team-a-that-is-long-enough")
        async with own as client, opened(here, "namespace=team-a") as admin, opened(here, "namespace=*") as whole:
            await here.client.patch(f"{API}/namespaces/team-a", json={"state": "closing"})
            assert 202 == (await here.client.delete(f"{API}/namespaces/team-a")).status_code
            assert "unauthenticated" == await until_end(client)
            part = Removals(here.store.removals, NamespaceRemoval(here.control.context).page)
            for _ in range(20):
                await part.step()
                clock.shift(SETTLE_SECONDS)
            assert "not_found" == await until_end(admin)
            assert not whole.over


async def test_more_than_its_rate_is_counted(here: World) -> None:
    """A stream about everything is told how much it was not told."""
    make = Factory(await here.store.now())
    async with opened(here) as client:
        await here.store.jobs.add([make.job() for _ in range(COUNT)])
        markers = await client.until(1, "coalesced")
        told = len(client.events())
        assert PAGE <= told < COUNT
        await eventually(
            lambda: len(client.events()) + sum(each["skipped"] for each in client.events("coalesced")) == COUNT,
            what="all are told or counted",
        )
        assert {"QUEUED"} == markers[0]["by_status"].keys()


async def test_a_slow_reader_is_dropped_and_comes_back(here: World) -> None:
    """Its buffer is bounded; it hears why, and misses nothing when it returns with its last id."""
    make = Factory(await here.store.now())
    jobs = [make.job() for _ in range(1_900)]
    async with opened(here) as client:
        client.reads.clear()
        for at in range(0, len(jobs), 475):
            await here.store.jobs.add(jobs[at : at + 475])
            place = await here.store.feed.watch()
            await eventually(partial(passed, here, place), what="the reader has seen it")
        client.reads.set()
        await eventually(lambda: client.over, what="the stream ended")
        assert [{"reason": "slow_reader"}] == client.events("end")
        got = client.events()
        assert len(got) < len(jobs)
        last = [line.removeprefix("id: ") for line in client.text.split("\n") if line.startswith("id: ")][-1]
    async with opened(here, last_event_id=last) as again:
        await again.until(len(jobs) - len(got))
        told = [event["job_id"] for event in (*got, *again.events())]
        assert [str(job.job_id) for job in jobs] == told
    assert 'tickwise_live_streams_ended_total{reason="slow_reader"} 1.0' in here.metrics.render().decode()


async def test_a_slow_reader_that_comes_back_delays_nobody(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing of what it missed; a stream beside it hears all the same. A reader that waited for it would wait
    for an hour."""
    monkeypatch.setattr(reader, "ROOM_SECONDS", 3_600.0)
    monkeypatch.setattr(reader, "ROOM_SECONDS_BESIDE_OTHERS", 3_600.0)
    make = Factory(await here.store.now())
    async with opened(here) as first:
        place = await here.store.feed.watch()
        await here.store.jobs.add([make.job() for _ in range(1_900)])
        await first.until(1_900)
    async with opened(here, "status=CANCELLED") as live, opened(here, last_event_id=place.text()) as slow:
        slow.reads.clear()
        await here.store.jobs.add([make.job() for _ in range(1_900)])
        job = await made(here)
        assert 200 == (await here.client.post(f"{API}/runs/{job.run_id}/cancel")).status_code
        await live.until(1)
        slow.reads.set()


def passed(here: World, place: FeedPlace) -> bool:
    """Whether the reader of the process is at a place or beyond."""
    present = here.control.live._reader._place
    return present is not None and present.covers(place)


async def test_a_caller_has_so_many_streams(here: World) -> None:
    """A further one is refused until one is closed."""
    here.control.live._limits = LiveOptions(3, 2)
    async with opened(here):
        async with opened(here), opened(here) as third:
            assert (429, True) == (third.status, third.over)
        async with opened(here) as again:
            assert 200 == again.status
    assert 0 == here.control.live._open.total()


async def test_a_head_opens_nothing(here: World) -> None:
    """It shows the headers, and that is all."""
    async with opened(here, method="HEAD") as client:
        assert (200, "") == (client.status, client.text)
    assert 0 == here.control.live._open.total()


async def test_an_old_id_is_a_gap(here: World) -> None:
    """The client is told, and goes on with what comes."""
    async with opened(here, last_event_id="0.1.") as client:
        [gap] = await client.until(1, "gap")
        assert {"reason": "expired"} == gap
        await made(here)
        await client.until(1)


async def test_a_log_of_no_run_is_not_found(here: World) -> None:
    """Nor of one in another namespace."""
    async with opened(here, path="/runs/019a2b3c-4d5e-8f60-9123-456789abcdef/logs/stream") as client:
        assert 404 == client.status
