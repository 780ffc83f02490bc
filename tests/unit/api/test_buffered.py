"""An API that buffers requests: what is answered with 202, and what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
import pytest_asyncio

import tickwise.api.ingest
import tickwise.api.resources.jobs
from tests.support.app import API
from tests.support.buffered import Buffered, buffered
from tests.support.waiting import eventually
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.signals.local import LocalSharedState
from tickwise.api.ingest import job_body
from tickwise.control.bodies import JobBody
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.broker import DEAD, MAX_MESSAGE_BYTES, REQUESTS, Message
from tickwise.ports.store import JobQuery, JobRow

SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Buffered]:
    async with buffered() as made:
        yield made


async def send(here: Buffered, method: str, path: str, status: int, **options: Any) -> Any:
    """The body of an answer that has this status."""
    answer = await here.world.client.request(method, API + path, **options)
    assert status == answer.status_code, answer.text
    return answer.json()


async def create(here: Buffered, *, once: str | None = None, **body: Any) -> Any:
    """The answer to a create that was accepted."""
    headers = {} if once is None else {"Idempotency-Key": once}
    return await send(here, "POST", "/jobs", 202, json={"name": "a", "task": SHELL, **body}, headers=headers)


async def stored(here: Buffered) -> list[JobRow]:
    return list(await here.link.store.searches.jobs(JobQuery(namespace="default", limit=500)))


def share(here: Buffered, other: Buffered) -> None:
    """Make the other server one of the same store, which remembers nothing of what the first has taken in."""
    context: Any = other.world.control.context
    context.store, other.ingest._cluster = here.link, here.ingest._cluster


async def test_a_job_is_pending_until_a_recorder_applies_it(here: Buffered) -> None:
    """202 with its ids; reads say pending; after the recorder it is an ordinary job, and its operation is done."""
    answer = await here.world.client.post(
        f"{API}/jobs", json={"name": "a", "task": SHELL, "at": "2030-01-01T00:00:00Z"}
    )
    told = answer.json()
    assert (202, "pending") == (answer.status_code, told["status"])
    assert f"{API}/jobs/{told['job_id']}" == answer.headers["location"]
    for path in ("", "/status", "/runs", "/preview"):
        waiting = await here.world.client.get(f"{API}/jobs/{told['job_id']}{path}")
        assert (202, told, "1") == (waiting.status_code, waiting.json(), waiting.headers["retry-after"])
    assert "pending" == (await send(here, "GET", f"/operations/{told['operation_id']}", 202))["status"]
    await here.apply()
    job = await send(here, "GET", f"/jobs/{told['job_id']}", 200)
    assert ("a", "SCHEDULED", "admin") == (job["name"], job["status"], job["created_by"])
    assert "done" == (await send(here, "GET", f"/operations/{told['operation_id']}", 200))["status"]


async def test_jobs_are_taken_in_while_the_store_is_away_and_all_are_there_once_afterwards(here: Buffered) -> None:
    """Creates, changes and cancels are accepted without it; nothing is lost, nothing is there twice."""
    first = await create(here, every="1h")  # the key and the time are known from now on
    await here.apply()
    here.link.away = True
    made = [await create(here, name=f"n{number}", every="1h") for number in range(20)]
    changed = await send(here, "PUT", f"/jobs/{first['job_id']}", 202, json={"name": "b"})
    ended = await send(here, "DELETE", f"/jobs/{made[0]['job_id']}", 202)
    assert "pending" == (await send(here, "GET", f"/jobs/{made[3]['job_id']}", 202))["status"]
    here.link.away = False
    await here.apply()
    rows = {str(row.job_id): row for row in await stored(here)}
    assert {first["job_id"], *(one["job_id"] for one in made)} == set(rows)
    assert ("b", "CANCELLED", "SCHEDULED") == (
        rows[first["job_id"]].name, rows[made[0]["job_id"]].status, rows[made[1]["job_id"]].status,
    )  # fmt: skip
    for operation in (changed, ended):
        assert "done" == (await send(here, "GET", f"/operations/{operation['operation_id']}", 200))["status"]


async def test_what_is_wrong_is_refused_at_once(here: Buffered) -> None:
    """A body that could never be applied gets its problem in place of a 202, with the pointer to the field."""
    bad = await send(here, "POST", "/jobs", 422, json={"name": "a", "task": SHELL, "cron": "61 * * * *"})
    assert ("cron_invalid", "/cron") == (bad["code"], bad["pointer"])
    made = await create(here, every="1h")
    await here.apply()
    wrong = await send(here, "PUT", f"/jobs/{made['job_id']}", 422, json={"cron": "61 * * * *"})
    assert "/cron" == wrong["pointer"]
    assert [] == await here.batch()


async def test_a_time_that_passes_while_it_waits_is_no_fault(here: Buffered) -> None:
    """It was to come when the job was accepted; it runs as soon as it is stored."""
    made = await create(here, at="2027-01-15T08:00:10Z")
    changed = await create(here, every="1h")
    await send(here, "PUT", f"/jobs/{changed['job_id']}", 202, json={"at": "2027-01-15T08:00:20Z"})
    await here.clock.advance(600)
    await here.apply()
    for one in (made, changed):
        [run] = await send(here, "GET", f"/jobs/{one['job_id']}/runs", 200)
        assert "QUEUED" == run["status"]


async def test_the_same_key_gives_the_same_job_whichever_process_takes_it(here: Buffered) -> None:
    """A replay has the ids of the first, also where nobody remembers it; one job is stored."""
    first = await create(here, once="k1", every="1h")
    assert first == await create(here, once="k1", every="1h")
    async with buffered() as other:
        share(here, other)
        again = await create(other, once="k1", every="1h")
        assert (first["job_id"], first["operation_id"]) == (again["job_id"], again["operation_id"])
        for delivery in await other.batch():
            await here.recorder.apply([delivery])
    await here.apply()
    assert [UUID(first["job_id"])] == [row.job_id for row in await stored(here)]


async def test_another_body_under_a_key_is_refused_or_ends_as_a_failed_operation(here: Buffered) -> None:
    """422 where the key is remembered; elsewhere it is accepted, and its own operation says why it is not applied."""
    first = await create(here, once="k1", every="1h")
    body = {"name": "another", "task": SHELL, "every": "1h"}
    refused = await send(here, "POST", "/jobs", 422, json=body, headers={"Idempotency-Key": "k1"})
    assert "idempotency_key_reused" == refused["code"]
    await here.apply()
    async with buffered() as other:
        share(here, other)
        again = await create(other, once="k1", **body)
        for delivery in await other.batch():
            await here.recorder.apply([delivery])
    assert first["job_id"] == again["job_id"]
    assert first["operation_id"] != again["operation_id"]
    failed = await send(here, "GET", f"/operations/{again['operation_id']}", 200)
    assert ("failed", "job_id_taken") == (failed["status"], failed["problems"][0]["code"])
    assert ["a"] == [row.name for row in await stored(here)]


async def test_a_create_that_cannot_be_stored_says_so_where_the_job_would_be(here: Buffered) -> None:
    """Two with one unique key, accepted before either is stored: the second one's operation is failed, and a read of
    the job says why."""
    first = await create(here, every="1h", key="unique")
    second = await create(here, every="1h", key="unique")
    await here.apply()
    assert [first["job_id"]] == [str(row.job_id) for row in await stored(here)]
    failed = await send(here, "GET", f"/operations/{second['operation_id']}", 200)
    assert ("failed", "key_taken", "/key") == (
        failed["status"], failed["problems"][0]["code"], failed["problems"][0]["pointer"],
    )  # fmt: skip
    gone = await send(here, "GET", f"/jobs/{second['job_id']}", 404)
    assert "'unique' belongs to another job" in gone["detail"]
    third = await send(here, "POST", "/jobs", 409, json={"name": "a", "task": SHELL, "every": "1h", "key": "unique"})
    assert "key_taken" == third["code"]


async def test_a_create_that_was_refused_stays_refused_when_its_message_comes_again(here: Buffered) -> None:
    """Also if what it names is there by then: its operation says that it failed, and its client may have sent it
    anew."""
    await send(here, "PUT", "/calendars/c", 201, json={"dates": ["2030-01-01"]})
    made = await create(here, every="1h", calendars=[{"name": "c"}])
    assert 200 == (await here.world.client.delete(f"{API}/calendars/c")).status_code
    batch = await here.batch()
    await here.recorder.apply(batch)
    where = f"/operations/{made['operation_id']}"
    assert "failed" == (await send(here, "GET", where, 200))["status"]
    await send(here, "PUT", "/calendars/c", 201, json={"dates": ["2030-01-01"]})
    await here.recorder.apply(batch)
    assert [] == await stored(here)
    assert "failed" == (await send(here, "GET", where, 200))["status"]


async def test_the_reason_of_a_refusal_is_for_callers_that_may_see_the_job(here: Buffered) -> None:
    """As its operation is. Others learn that there is no such job."""
    await create(here, every="1h", key="unique")
    second = await create(here, every="1h", key="unique")
    await here.apply()
    key = await here.world.key("runs-alone", "runs:read")
    headers = {"Authorization": f"Bearer {key}"}
    for path, status in ((f"/jobs/{second['job_id']}/status", 404), (f"/operations/{second['operation_id']}", 403)):
        answer = await here.world.client.get(API + path, headers=headers)
        assert status == answer.status_code, answer.text
        assert "unique" not in answer.text


@pytest.mark.parametrize("chosen", [True, False])
async def test_a_repeat_of_a_create_with_a_key_of_its_own_is_no_clash(here: Buffered, chosen: bool) -> None:
    """Once it is stored, its unique key is taken: by itself. Whoever takes the repeat in tells that from a clash."""
    said: Any = {"job_id": str(uuid4())} if chosen else {"once": "k"}
    first = await create(here, every="1h", key="unique", **said)
    await here.apply()
    async with buffered() as other:
        share(here, other)
        again = await create(other, every="1h", key="unique", **said)
        assert (first["job_id"], first["operation_id"]) == (again["job_id"], again["operation_id"])
        for delivery in await other.batch():
            await here.recorder.apply([delivery])
    assert ["unique"] == [row.key for row in await stored(here)]
    await send(here, "GET", f"/operations/{first['operation_id']}", 200)


async def test_a_change_that_comes_again_is_not_made_over_what_came_after_it(here: Buffered) -> None:
    """The recorder lost the store after the change, before the end of its batch. Meanwhile somebody changed the job
    directly; the batch comes again."""
    made, other = await create(here, every="1h"), await create(here, every="1h")
    await here.apply()
    changed = await send(here, "PUT", f"/jobs/{made['job_id']}", 202, json={"name": "buffered"})
    await send(here, "DELETE", f"/jobs/{other['job_id']}", 202)
    batch = sorted(await here.batch(), key=lambda delivery: delivery.key == UUID(other["job_id"]).bytes)
    here.link.failing = {"operations.record"}
    with pytest.raises(StoreUnavailable):
        await here.recorder.apply(batch)
    here.link.failing = set()
    where = f"/jobs/{made['job_id']}"
    await send(here, "PUT", f"{where}?if_version=2", 200, json={"name": "direct"})
    await here.recorder.apply(batch)
    job = await send(here, "GET", where, 200)
    assert ("direct", 3) == (job["name"], job["version"])
    assert "done" == (await send(here, "GET", f"/operations/{changed['operation_id']}", 200))["status"]


async def test_a_change_that_cannot_be_applied_is_a_failed_operation(here: Buffered) -> None:
    """A cancel and then a change of the same job are both accepted; the change finds a cancelled job."""
    made = await create(here, every="1h")
    await send(here, "DELETE", f"/jobs/{made['job_id']}", 202)
    late = await send(here, "PUT", f"/jobs/{made['job_id']}", 202, json={"name": "b"})
    await here.apply()
    failed = await send(here, "GET", f"/operations/{late['operation_id']}", 200)
    assert ("failed", "job:change", "job_cancelled") == (
        failed["status"], failed["kind"], failed["problems"][0]["code"],
    )  # fmt: skip
    listed = await send(here, "GET", "/operations", 200)
    assert {"job:change", "job:cancel"} == {operation["kind"] for operation in listed}


async def test_a_job_says_that_a_change_of_it_is_on_its_way(here: Buffered) -> None:
    """`pending` is true from the 202 on until the recorder has applied it, and not there otherwise."""
    made = await create(here, every="1h")
    await here.apply()
    assert "pending" not in await send(here, "GET", f"/jobs/{made['job_id']}", 200)
    await send(here, "PUT", f"/jobs/{made['job_id']}", 202, json={"name": "b"})
    waiting = await send(here, "GET", f"/jobs/{made['job_id']}", 200)
    assert ("a", True) == (waiting["name"], waiting["pending"])
    await here.apply()
    job = await send(here, "GET", f"/jobs/{made['job_id']}", 200)
    assert ("b", False) == (job["name"], "pending" in job)


async def test_what_goes_by_a_version_or_all_or_none_is_answered_by_the_store(here: Buffered) -> None:
    """Preconditions, dry runs, atomic batches and upserts by key are not buffered."""
    made = await create(here, every="1h")
    await here.apply()
    where = f"/jobs/{made['job_id']}"
    await send(here, "PUT", f"{where}?if_version=1", 200, json={"name": "b"})
    await send(here, "PUT", f"{where}?if_version=1", 412, json={"name": "c"})
    await send(here, "PUT", where, 412, json={"name": "c"}, headers={"If-Match": '"1"'})
    await send(here, "PUT", f"{where}?dry_run=true", 200, json={"every": "2h"})
    await send(here, "PUT", "/jobs/by-key/k", 201, json={"name": "k", "task": SHELL, "every": "1h"})
    jobs = [{"name": f"n{number}", "task": SHELL, "every": "1h"} for number in range(3)]
    assert 3 == (await send(here, "POST", "/jobs:batch?atomic=true", 200, json=jobs))["created"]
    await send(here, "DELETE", where, 200, headers={"If-Match": "*"})
    assert [] == await here.batch()


async def test_a_batch_is_taken_in_with_its_refusals_in_their_places(here: Buffered) -> None:
    """Good ones are accepted, bad ones told; under a key a replay has the same ids."""
    jobs = [{"name": "a", "task": SHELL, "every": "1h"}, {"name": "b"}, {"name": "c", "task": SHELL, "every": "2h"}]
    headers = {"Idempotency-Key": "batch"}
    told = await send(here, "POST", "/jobs:batch", 202, json=jobs, headers=headers)
    assert ("pending", 2, 1, [202, 422, 202]) == (
        told["status"], told["accepted"], told["refused"], [result["status"] for result in told["results"]],
    )  # fmt: skip
    assert told == await send(here, "POST", "/jobs:batch", 202, json=jobs, headers=headers)
    refused = await send(here, "POST", "/jobs:batch", 422, json=jobs[:1], headers=headers)
    assert "idempotency_key_reused" == refused["code"]
    await here.apply()
    assert {told["results"][0]["job_id"], told["results"][2]["job_id"]} == {
        str(row.job_id) for row in await stored(here)
    }


async def test_another_write_to_a_job_that_is_pending_is_put_off(here: Buffered) -> None:
    """What needs the job in the store is answered 503 with Retry-After, so that clients send it again."""
    made = await create(here, every="1h")
    for path in ("pause", "runNow", "skipNext"):
        answer = await here.world.client.post(f"{API}/jobs/{made['job_id']}/{path}")
        assert (503, "job_pending", "1") == (answer.status_code, answer.json()["code"], answer.headers["retry-after"])
    await here.apply()
    await send(here, "POST", f"/jobs/{made['job_id']}/pause", 200)


async def test_another_thing_that_is_not_there_is_told_of_a_pending_job(here: Buffered) -> None:
    """A move to a namespace that nobody has added is 404 at once: to wait for the job would not help."""
    made = await create(here, every="1h")
    move = f"/jobs/{made['job_id']}/move"
    assert "not_found" == (await send(here, "POST", move, 404, json={"namespace": "nowhere"}))["code"]
    await send(here, "POST", "/namespaces", 201, json={"name": "team-a"})
    assert "job_pending" == (await send(here, "POST", move, 503, json={"namespace": "team-a"}))["code"]


async def test_another_process_tells_pending_from_absent_by_the_time_inside_an_id(here: Buffered) -> None:
    """A server that took nothing in says pending of an id that was made after what is applied, also while nothing
    comes; once the marks have passed it, it is not there."""
    made = await create(here, every="1h")
    operation = await send(here, "DELETE", f"/jobs/{made['job_id']}", 202)
    held = await here.batch()
    async with buffered() as other:
        share(here, other)
        assert "pending" == (await send(other, "GET", f"/jobs/{made['job_id']}", 202))["status"]
        assert "pending" == (await send(other, "GET", f"/operations/{operation['operation_id']}", 202))["status"]
        await send(other, "GET", f"/jobs/{uuid4()}", 404)
        await here.clock.advance(600)
        await here.consumer.done(held)  # lost: what was accepted is not applied, and never will be
        await here.mark()
        await other.clock.advance(600)
        await send(other, "GET", f"/jobs/{made['job_id']}", 404)
        await send(other, "GET", f"/operations/{operation['operation_id']}", 404)
        await send(other, "PUT", f"/jobs/{made['job_id']}", 404, json={"name": "b"})
        await send(other, "DELETE", f"/jobs/{made['job_id']}", 404)


async def test_what_is_named_is_known_from_what_the_store_said_lately(here: Buffered) -> None:
    """Stored tasks, calendars and successors count while the store is away, if it spoke of them; else 503."""
    await send(here, "POST", "/tasks", 201, json={"taskId": "t", "name": "T", "task": SHELL})
    await send(here, "PUT", "/calendars/c", 201, json={"dates": ["2030-01-01"]})
    first = await create(here, every="1h", key="first")
    await here.apply()
    said = {"every": "1h", "calendars": [{"name": "c"}], "taskId": "t", "then": "first"}
    await send(here, "POST", "/jobs", 202, json=said)
    here.link.away = True
    await send(here, "POST", "/jobs", 202, json=said)
    for unknown in (
        {"taskId": "other"},
        {"calendars": [{"name": "other"}], "task": SHELL},
        {"then": "x", "task": SHELL},
    ):
        refused = await send(here, "POST", "/jobs", 503, json={"name": "a", "every": "1h", **unknown})
        assert "store_unavailable" == refused["code"]
    here.link.away = False
    await here.apply()
    followed = [decode_definition(row.definition).then for row in await stored(here) if row.key is None]
    assert [(UUID(first["job_id"]),)] * 2 == followed


async def test_a_key_counts_for_a_while_without_the_store_and_no_longer(here: Buffered) -> None:
    """One that it knew lately; a stranger's is answered 503, for nobody can tell. After a quarter of an hour so is
    the known one."""
    await create(here, every="1h")
    here.link.away = True
    await here.clock.advance(600)
    await create(here, every="1h")
    stranger = {"Authorization": "Bearer nobody-knows-this-key-of-many-characters"}
    await send(here, "POST", "/jobs", 503, json={"name": "a", "task": SHELL, "every": "1h"}, headers=stranger)
    await here.clock.advance(400)
    await send(here, "POST", "/jobs", 503, json={"name": "a", "task": SHELL, "every": "1h"})


async def test_a_broker_that_is_away_is_told_as_for_now(here: Buffered) -> None:
    """503; under the same key the same request is the same job when it is back."""
    here.exchange.away = True
    answer = await here.world.client.post(
        f"{API}/jobs", json={"name": "a", "task": SHELL, "every": "1h"}, headers={"Idempotency-Key": "k"}
    )
    assert (503, "broker_unavailable") == (answer.status_code, answer.json()["code"])
    assert "retry-after" in answer.headers
    here.exchange.away = False
    made = await create(here, once="k", every="1h")
    await here.apply()
    assert [made["job_id"]] == [str(row.job_id) for row in await stored(here)]


async def test_what_a_message_cannot_hold_goes_to_the_store_directly() -> None:
    """A job whose message would be larger than the broker takes is answered 201."""
    async with buffered(body_limit_bytes=4 << 20) as here:
        large = {"name": "a", "task": SHELL, "every": "1h", "payload": "x" * MAX_MESSAGE_BYTES}
        await send(here, "POST", "/jobs", 201, json=large, headers={"Idempotency-Key": "large"})
        assert 1 == len(await stored(here))
        assert [] == await here.batch()


@pytest.mark.parametrize("path", ["/jobs", "/jobs:batch"])
async def test_a_body_that_no_message_can_hold_is_read_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is stored as it was read for the broker: no part of the body is parsed a second time."""
    read: list[int] = []

    def counting(body: bytes | msgspec.Raw) -> JobBody:
        read.append(len(bytes(body)))
        return job_body(body)

    job = {"name": "a", "task": SHELL, "every": "1h", "payload": "x" * MAX_MESSAGE_BYTES}
    monkeypatch.setattr(tickwise.api.ingest, "job_body", counting)
    monkeypatch.setattr(tickwise.api.resources.jobs, "job_body", counting)
    async with buffered(body_limit_bytes=4 << 20) as here:
        sent, status = (job, 201) if path == "/jobs" else ([job], 200)
        await send(here, "POST", path, status, json=sent)
        assert 1 == len(await stored(here))
        assert [] == await here.batch()
    assert 1 == len(read)


async def test_the_store_is_asked_for_a_key_only_where_it_keeps_the_answer(
    here: Buffered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffered request asks for no receipt, however often it comes. A batch for the store alone asks once a time."""
    asked: list[str] = []
    find = here.link.store.receipts.find

    async def counting(principal: str, route: str, key: str) -> Any:
        asked.append(key)
        return await find(principal, route, key)

    monkeypatch.setattr(here.link.store.receipts, "find", counting)
    first = await create(here, every="1h", once="buffered")
    assert first == await create(here, every="1h", once="buffered")
    batch = [{"name": "a", "task": SHELL, "every": "1h"}]
    for _ in range(2):
        await send(here, "POST", "/jobs:batch?atomic=true", 200, json=batch, headers={"Idempotency-Key": "stored"})
    assert ["stored", "stored"] == asked


async def test_a_poisonous_message_is_parked_and_holds_up_nothing(here: Buffered) -> None:
    """Bytes that are no message lie in the channel of the dead, as they came; what is around them is applied."""
    dead = here.broker.consumer([DEAD], "the test")
    await dead.start()
    first = await create(here, every="1h")
    await here.broker.send(REQUESTS, [Message(b"\xff\x00 poison", b"key")])
    second = await create(here, every="1h")
    await here.apply()
    assert {first["job_id"], second["job_id"]} == {str(row.job_id) for row in await stored(here)}
    [parked] = await dead.take(10, 0)
    assert (b"\xff\x00 poison", b"key", b"requests") == (parked.value, parked.key, dict(parked.headers)["channel"])
    await dead.stop()


async def test_reads_of_another_namespace_say_nothing(here: Buffered) -> None:
    """What one namespace has accepted is not there for another, whoever asks."""
    chosen = str(uuid4())
    await create(here, every="1h", job_id=chosen)
    secret = await here.world.key("x" * 40, "*", namespace="other")
    theirs = {"Authorization": f"Bearer {secret}"}
    await send(here, "GET", f"/jobs/{chosen}", 202)
    await send(here, "GET", f"/jobs/{chosen}", 404, headers=theirs)
    await send(
        here, "POST", "/jobs", 202, json={"name": "b", "task": SHELL, "every": "1h", "job_id": chosen}, headers=theirs
    )
    ours = await send(here, "GET", f"/jobs/{chosen}", 202)
    assert ours["operation_id"] != (await send(here, "GET", f"/jobs/{chosen}", 202, headers=theirs))["operation_id"]


async def test_with_a_board_every_process_knows_what_any_has_accepted() -> None:
    """Of a job whose id tells no time, too: by a note that the process which took it in has put up."""
    shared_state = LocalSharedState(VirtualClock(1_800_000_000.0))
    await shared_state.start()
    async with buffered(shared_state=shared_state) as here, buffered(shared_state=shared_state) as other:
        made = await create(here, once="k", every="1h")
        await eventually(
            lambda: shared_state.look("request", [f"create:{made['job_id']}:default"]), what="the note is there"
        )
        assert made == await send(other, "GET", f"/jobs/{made['job_id']}", 202)
        told = await send(other, "GET", f"/operations/{made['operation_id']}", 202)
        assert "pending" == told["status"]
    await shared_state.stop()
