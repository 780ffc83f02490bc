"""What people ask of jobs and runs over HTTP, from create to retry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API, Bell, World, world
from tests.support.overriding import override
from tickwise.adapters.clock import SystemClock, VirtualClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.domain.errors import StoreUnavailable, VersionConflict
from tickwise.ports.blobs import log_chunk_key, script_key
from tickwise.ports.signals import Topic
from tickwise.ports.store import ClaimRequest, JobMove, JobQuery, JobRow, NewExecutor

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z, where the virtual clock begins
SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    clock = VirtualClock(START)
    async with world(clock=clock) as made:
        yield made


async def create(here: World, **body: Any) -> str:
    """A stored job's id."""
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **body})
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def get(here: World, path: str) -> Any:
    answer = await here.client.get(API + path)
    assert 200 == answer.status_code, answer.text
    return answer.json()


async def test_the_first_body_of_the_issue_creates_a_daily_job(here: World) -> None:
    """A cron job without a task runs the function of its own name; the answer says so, and that nobody offers it."""
    body = (
        b'{"name":"Daily Data Cleanup","schedule_type":"CRON","cron_expression":"0 0 * * *",'
        b'"payload":{"cleanup_target":"old_logs","retention_days":30},"max_retries":2}'
    )
    answer = await here.client.post(f"{API}/jobs", content=body, headers={"Content-Type": "application/json"})
    assert 201 == answer.status_code
    assert f"{API}/jobs/{answer.json()['job_id']}" == answer.headers["location"]
    own_name, offered = answer.json()["warnings"]
    assert "the registered function of its own name, 'Daily Data Cleanup'" in own_name
    assert "no active executor offers the function 'Daily Data Cleanup'" in offered
    job = await get(here, f"/jobs/{answer.json()['job_id']}")
    assert {"kind": "function", "name": "Daily Data Cleanup"} == job["task"]
    assert {"cleanup_target": "old_logs", "retention_days": 30} == job["payload"]
    assert ("CRON", 2, "SCHEDULED", "UTC") == (
        job["schedule_type"], job["max_retries"], job["status"], job["timezone"],
    )  # fmt: skip
    assert "2027-01-16T00:00:00Z" == job["next_run_at"]
    assert [own_name, offered] == job["warnings"]


@pytest.mark.parametrize(
    ("body", "warning"),
    [
        ({"queue": "reports"}, "no active executor serves the queue 'reports'; its runs wait until one does"),
        (
            {"requires": ["gpu"]},
            "no active executor of the queue 'default' has the labels gpu; its runs wait until one has",
        ),
        ({}, None),
    ],
)
async def test_a_job_that_nobody_can_take_is_created_with_a_warning(
    here: World, body: dict[str, Any], warning: str | None
) -> None:
    """Whether its queue or its labels are what is missing; as long as no executor is there at all, nothing is said."""
    task = {"name": "x", "cron": "0 0 * * *", "task": {"kind": "shell", "command": "true"}, **body}
    answer = await here.client.post(f"{API}/jobs", json=task)
    assert not answer.json().get("warnings")
    await here.store.executors.join(
        NewExecutor(number=1, name="e", queues=["default"], labels=[], functions=[], slots=1, lease_seconds=9e6)
    )
    await cast("VirtualClock", here.clock).advance(60.0)
    for path, sent in (("/jobs", task), ("/jobs:batch", {"jobs": [task]})):
        answer = await here.client.post(f"{API}{path}", json=sent)
        found = answer.json() if path == "/jobs" else answer.json()["results"][0]
        assert ([] if warning is None else [warning]) == list(found.get("warnings") or ())


async def test_the_second_body_of_the_issue_makes_it_run_once(here: World) -> None:
    """A time without a schedule_type makes it a FUTURE job; what was not sent stays."""
    job_id = await create(here, name="Daily Data Cleanup", cron="0 0 * * *", payload={"x": 1}, max_retries=2)
    body = b'{"name":"Updated Data Cleanup","schedule_time":\n"2027-09-25T10:00:00Z"}'
    answer = await here.client.put(f"{API}/jobs/{job_id}", content=body, headers={"Content-Type": "application/json"})
    assert 200 == answer.status_code, answer.text
    job = await get(here, f"/jobs/{job_id}")
    assert ("Updated Data Cleanup", "FUTURE", "2027-09-25T10:00:00Z", "2027-09-25T10:00:00Z", None, 2, {"x": 1}) == (
        job["name"], job["schedule_type"], job["schedule_time"], job["next_run_at"], job["cron_expression"],
        job["max_retries"], job["payload"],
    )  # fmt: skip


async def test_the_third_body_of_the_issue_waits_for_its_task(here: World) -> None:
    """422 at /taskId while no such task is stored; 201 once it is, named after the task."""
    body = {"taskId": "someUniqueId", "cron": "*/5 * * * *", "params": {"p1": "val1", "p2": "val2"}}
    refused = await here.client.post(f"{API}/jobs", json=body)
    assert (422, "/taskId") == (refused.status_code, refused.json()["pointer"])
    stored = await here.client.post(
        f"{API}/tasks", json={"taskId": "someUniqueId", "name": "Stored", "script": "print(1)"}
    )
    assert 201 == stored.status_code
    answer = await here.client.post(f"{API}/jobs", json=body)
    assert 201 == answer.status_code
    assert {"job_id"} == answer.json().keys()
    job = await get(here, f"/jobs/{answer.json()['job_id']}")
    assert ("Stored", "someUniqueId", 1, "*/5 * * * *", {"p1": "val1", "p2": "val2"}) == (
        job["name"], job["taskId"], job["task_version"], job["cron_expression"], job["payload"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "kind", "next_run_at"),
    [
        ({"schedule_type": "IMMEDIATE"}, "IMMEDIATE", None),
        ({"at": "2027-01-15T10:00:00+01:00"}, "FUTURE", "2027-01-15T09:00:00Z"),
        ({"every": "1h30m"}, "INTERVAL", "2027-01-15T09:30:00Z"),
        ({"interval_seconds": 90}, "INTERVAL", "2027-01-15T08:01:30Z"),
        ({"every": "10m", "anchor": "2027-01-01T00:05:00Z"}, "INTERVAL", "2027-01-15T08:05:00Z"),
        ({"cron": "0 9 * * *", "timezone": "America/New_York"}, "CRON", "2027-01-15T14:00:00Z"),
    ],
)
async def test_the_type_follows_from_the_fields(
    here: World, said: dict[str, Any], kind: str, next_run_at: str | None
) -> None:
    """Short forms are understood on the way in; the first fire of an interval is one interval from now."""
    job = await get(here, f"/jobs/{await create(here, **said)}")
    assert kind == job["schedule_type"]
    if next_run_at is not None:
        assert next_run_at == job["next_run_at"]


async def test_a_time_just_past_fires_at_once(here: World) -> None:
    """Up to a minute: clocks differ, and requests take time."""
    job_id = await create(here, at="2027-01-15T07:59:01Z")
    latest = (await get(here, f"/jobs/{job_id}/status"))["latest_run"]
    assert "QUEUED" == latest["status"]


async def test_a_job_id_of_the_clients_choice_makes_create_repeatable(here: World) -> None:
    """The same body answers as the first did, also after its time has passed; another body is 409."""
    job_id = "11111111-2222-4333-8444-555555555555"
    body = {"name": "a", "task": SHELL, "job_id": job_id, "at": "2027-01-15T08:00:30Z"}
    first = await here.client.post(f"{API}/jobs", json=body)
    await cast(VirtualClock, here.clock).advance(600)
    again = await here.client.post(f"{API}/jobs", json=body)
    assert (201, first.json()) == (again.status_code, again.json())
    other = await here.client.post(f"{API}/jobs", json={**body, "name": "b", "at": "2027-02-01T00:00:00Z"})
    assert (409, "job_id_taken", "/job_id") == (other.status_code, other.json()["code"], other.json()["pointer"])
    never = await here.client.post(f"{API}/jobs", json={**body, "job_id": job_id.replace("1", "9")})
    assert (422, "/at") == (never.status_code, never.json()["pointer"])


async def test_a_key_is_unique_and_upserts(here: World) -> None:
    """PUT by key creates, then changes; a POST with the same key is 409."""
    made = await here.client.put(f"{API}/jobs/by-key/nightly", json={"name": "a", "task": SHELL, "every": "1h"})
    changed = await here.client.put(f"{API}/jobs/by-key/nightly", json={"every": "2h"})
    assert (201, 200) == (made.status_code, changed.status_code)
    assert (made.json()["job_id"], 7200.0) == (changed.json()["job_id"], changed.json()["interval_seconds"])
    assert made.json()["job_id"] == (await get(here, "/jobs/by-key/nightly"))["job_id"]
    taken = await here.client.post(f"{API}/jobs", json={"name": "b", "task": SHELL, "every": "1h", "key": "nightly"})
    assert (409, "key_taken", "/key") == (taken.status_code, taken.json()["code"], taken.json()["pointer"])


# ------------------------------------------------------------------------------------------ change


async def test_a_change_is_guarded_by_the_etag(here: World) -> None:
    """If-Match with the newest version passes, with an older one it is 412 and nothing is changed."""
    job_id = await create(here, every="1h")
    etag = (await here.client.get(f"{API}/jobs/{job_id}")).headers["etag"]
    first = await here.client.put(f"{API}/jobs/{job_id}", json={"name": "b"}, headers={"If-Match": etag})
    late = await here.client.put(f"{API}/jobs/{job_id}", json={"name": "c"}, headers={"If-Match": etag})
    assert (200, 412) == (first.status_code, late.status_code)
    assert etag != first.headers["etag"]
    assert "b" == (await get(here, f"/jobs/{job_id}"))["name"]


async def test_a_new_schedule_replaces_the_time_zone_too(here: World) -> None:
    """It goes by UTC unless it says another; the dry run and the answer say so. A zone alone keeps the schedule."""
    job_id = await create(here, cron="0 9 * * *", timezone="Europe/Berlin")
    path = f"{API}/jobs/{job_id}"
    difference = (await here.client.put(f"{path}?dry_run=true", json={"cron": "0 10 * * *"})).json()
    assert "2027-01-15T10:00:00Z" == difference["after"][0]
    assert "send timezone with it to keep Europe/Berlin" in difference["warnings"][0]
    kept = {"cron": "0 10 * * *", "timezone": "Europe/Berlin"}
    assert [] == (await here.client.put(f"{path}?dry_run=true", json=kept)).json()["warnings"]
    changed = (await here.client.put(path, json={"cron": "0 10 * * *"})).json()
    assert ("UTC", "2027-01-15T10:00:00Z", difference["warnings"]) == (
        changed["timezone"], changed["next_run_at"], changed["warnings"],
    )  # fmt: skip
    moved = (await here.client.put(path, json={"timezone": "Asia/Tokyo"})).json()
    assert ("0 10 * * *", "2027-01-16T01:00:00Z", []) == (
        moved["cron_expression"], moved["next_run_at"], moved["warnings"],
    )  # fmt: skip


async def test_only_what_is_sent_is_changed(here: World) -> None:
    """A new name leaves the schedule and its next time alone; null takes an optional value away."""
    job_id = await create(here, every="1h", description="d", key="k", labels={"a": "1"}, timeout_seconds=5)
    before = await get(here, f"/jobs/{job_id}")
    await cast(VirtualClock, here.clock).advance(60)
    await here.client.put(f"{API}/jobs/{job_id}", json={"name": "b", "description": None, "timeout_seconds": None})
    after = await get(here, f"/jobs/{job_id}")
    changed = {field for field in before if before[field] != after[field]}
    assert {"name", "description", "timeout_seconds", "version", "updated_at"} == changed


async def test_a_new_schedule_counts_from_now(here: World) -> None:
    """An interval that is set at some moment fires one interval after it, whatever the old one was."""
    job_id = await create(here, every="1h")
    await cast(VirtualClock, here.clock).advance(100)
    await here.client.put(f"{API}/jobs/{job_id}", json={"every": "10m"})
    assert "2027-01-15T08:11:40Z" == (await get(here, f"/jobs/{job_id}"))["next_run_at"]


async def test_a_cancelled_job_stays_cancelled(here: World) -> None:
    """PUT, runNow, pause and resume are 409; a second DELETE is the same as one."""
    job_id = await create(here, every="1h")
    for _ in range(2):
        assert "CANCELLED" == (await here.client.delete(f"{API}/jobs/{job_id}")).json()["status"]
    for method, path in (("PUT", ""), ("POST", "/runNow"), ("POST", "/pause"), ("POST", "/resume")):
        answer = await here.client.request(method, f"{API}/jobs/{job_id}{path}", json={})
        assert (409, "job_cancelled") == (answer.status_code, answer.json()["code"]), path


async def test_jobs_are_listed_by_one_status_or_several(here: World) -> None:
    """Newest first; the pages of several lead on; and of what is no status nothing is listed."""
    ahead, paused, cancelled = [await create(here, every="1h", name=name) for name in ("a", "b", "c")]
    await here.client.post(f"{API}/jobs/{paused}/pause")
    await here.client.delete(f"{API}/jobs/{cancelled}")
    assert [paused] == [job["job_id"] for job in await get(here, "/jobs?status=PAUSED")]
    several = "/jobs?status=SCHEDULED&status=CANCELLED&status=CANCELLED"
    assert [cancelled, ahead] == [job["job_id"] for job in await get(here, several)]
    first = await here.client.get(f"{API}{several}&limit=1")
    assert [cancelled] == [job["job_id"] for job in first.json()]
    second = await here.client.get(first.links["next"]["url"])
    assert [ahead] == [job["job_id"] for job in second.json()]
    refused = await here.client.get(f"{API}/jobs?status=SCHEDULED&status=ASLEEP")
    assert (422, "status") == (refused.status_code, refused.json()["parameter"])


# ------------------------------------------------------------------------------------------ pause


async def test_a_pause_stops_the_schedule_and_resume_lets_it_go_on(here: World) -> None:
    """With its reason and who did it; what fell into it is on record as skipped unless it is asked for."""
    job_id = await create(here, cron="0 * * * *")
    paused = (await here.client.post(f"{API}/jobs/{job_id}/pause", json={"reason": "audit"})).json()
    assert ("PAUSED", "audit", "admin", None) == (
        paused["status"], paused["pause_reason"], paused["paused_by"], paused["next_run_at"],
    )  # fmt: skip
    await cast(VirtualClock, here.clock).advance(3 * 3_600)
    resumed = (await here.client.post(f"{API}/jobs/{job_id}/resume")).json()
    assert ("SCHEDULED", "2027-01-15T12:00:00Z") == (resumed["status"], resumed["next_run_at"])
    (skipped,) = await get(here, f"/jobs/{job_id}/runs")
    assert ("SKIPPED", "paused", 3, "2027-01-15T09:00:00Z", "2027-01-15T11:00:00Z") == (
        skipped["status"], skipped["reason"], skipped["occurrences"], skipped["nominal_time"], skipped["until"],
    )  # fmt: skip


@pytest.mark.parametrize(("missed", "runs"), [("run_latest", 1), ("run_all", 3), ("skip", 0)])
async def test_what_fell_into_a_pause_is_made_up_for_if_asked(here: World, missed: str, runs: int) -> None:
    """The latest, all, or none; each as a run of its own, due now."""
    job_id = await create(here, cron="0 * * * *")
    await here.client.post(f"{API}/jobs/{job_id}/pause")
    await cast(VirtualClock, here.clock).advance(3 * 3_600 + 60)
    answer = await here.client.post(f"{API}/jobs/{job_id}/resume", json={"missed": missed})
    assert 200 == answer.status_code, answer.text
    found = await get(here, f"/jobs/{job_id}/runs?trigger=missed")
    assert ["missed"] * runs == [run["trigger"] for run in found]


async def test_what_fell_into_a_pause_is_counted_from_its_begin(here: World) -> None:
    """However often the job was edited, or paused for another reason, meanwhile."""
    job_id = await create(here, cron="0 * * * *")
    await here.client.post(f"{API}/jobs/{job_id}/pause")
    await cast(VirtualClock, here.clock).advance(3 * 3_600 + 60)
    await here.client.put(f"{API}/jobs/{job_id}", json={"name": "edited"})
    await here.client.post(f"{API}/jobs/{job_id}/pause", json={"reason": "still"})
    await here.client.post(f"{API}/jobs/{job_id}/resume", json={"missed": "run_all"})
    assert 3 == len(await get(here, f"/jobs/{job_id}/runs?trigger=missed"))


async def test_a_pause_until_a_time_ends_by_itself(here: World) -> None:
    """The next fire is the first one from that time on."""
    job_id = await create(here, cron="0 * * * *")
    body = {"until": "2027-01-15T11:00:00Z"}
    paused = (await here.client.post(f"{API}/jobs/{job_id}/pause", json=body)).json()
    assert ("PAUSED", "2027-01-15T11:00:00Z") == (paused["status"], paused["next_run_at"])
    await cast(VirtualClock, here.clock).advance(3 * 3_600 + 1)
    assert "SCHEDULED" == (await get(here, f"/jobs/{job_id}"))["status"]


async def test_one_time_jobs_cannot_be_paused(here: World) -> None:
    """409, and the advice is to change its time."""
    job_id = await create(here, at="2027-02-01T00:00:00Z")
    answer = await here.client.post(f"{API}/jobs/{job_id}/pause")
    assert (409, "job_not_recurring") == (answer.status_code, answer.json()["code"])


class ChangedMeanwhile(MemoryStore):
    """A store in which somebody changes the job just before it is moved, so often."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.changes_left = 0
        self.change: Callable[[], Awaitable[Any]] | None = None
        self.moves: list[JobMove] = []
        override(self, "jobs.move", self._move)

    async def _move(self, call: Callable[..., Awaitable[JobRow]], move: JobMove, **said: Any) -> JobRow:
        self.moves.append(move)
        if self.changes_left and self.change is not None:
            self.changes_left -= 1
            await self.change()
            raise VersionConflict("another version is stored")
        return await call(move, **said)


@pytest.mark.parametrize(("move", "due"), [("pause", "2027-01-15T12:30:00Z"), ("resume", "2027-01-15T08:30:00Z")])
async def test_a_change_that_meets_a_pause_or_resume_is_planned_in(move: str, due: str) -> None:
    """The plan is made from a version, and anew from the next one; after some tries others are blamed."""
    clock = VirtualClock(START)
    store = ChangedMeanwhile(clock)
    async with world(clock=clock, store=store) as here:
        job_id = await create(here, cron="0 * * * *")
        until = {"until": "2027-01-15T12:00:00Z"}
        await here.client.post(f"{API}/jobs/{job_id}/pause", json=until)
        store.moves.clear()
        store.change = lambda: here.client.put(f"{API}/jobs/{job_id}", json={"cron": "30 * * * *"})
        store.changes_left = 1
        body = until if move == "pause" else {}
        answer = await here.client.post(f"{API}/jobs/{job_id}/{move}", json=body)
        assert (200, due) == (answer.status_code, answer.json()["next_run_at"])
        assert [2, 3] == [each.expected_version for each in store.moves]
        await here.client.post(f"{API}/jobs/{job_id}/pause", json=until)
        store.changes_left = 100
        answer = await here.client.post(f"{API}/jobs/{job_id}/{move}", json=body)
        assert (429, "busy") == (answer.status_code, answer.json()["code"])


# ------------------------------------------------------------------------------------------ runs


async def test_a_run_is_asked_for_looked_at_cancelled_and_retried(here: World) -> None:
    """runNow with a payload of its own; a retry is linked to it, with an edited payload."""
    job_id = await create(here, every="1h", payload={"a": 1})
    asked = await here.client.post(f"{API}/jobs/{job_id}/runNow", json={"payload": {"a": 2}})
    assert 202 == asked.status_code
    run_id = asked.json()["run_id"]
    run = await get(here, f"/runs/{run_id}")
    assert ("QUEUED", {"a": 2}, "run_now", []) == (run["status"], run["payload"], run["trigger"], run["attempts"])
    early = await here.client.post(f"{API}/runs/{run_id}/retry")
    assert (409, "run_not_ended") == (early.status_code, early.json()["code"])
    cancelled = await here.client.post(f"{API}/runs/{run_id}/cancel")
    assert (200, "CANCELLED") == (cancelled.status_code, cancelled.json()["status"])
    again = await here.client.post(f"{API}/runs/{run_id}/retry", json={"params": {"a": 3}})
    assert 202 == again.status_code
    retried = await get(here, f"/runs/{again.json()['run_id']}")
    assert (run_id, {"a": 3}, "retry") == (retried["retry_of"], retried["payload"], retried["trigger"])


async def test_runs_are_listed_newest_first_with_the_names_of_the_specification(here: World) -> None:
    """The nine fields of A8 are there; the status of a job is its latest run."""
    job_id = await create(here, every="1h")
    asked = []
    for _ in range(3):
        await cast(VirtualClock, here.clock).advance(1)
        asked.append((await here.client.post(f"{API}/jobs/{job_id}/runNow")).json()["run_id"])
    runs = await get(here, f"/jobs/{job_id}/runs")
    assert list(reversed(asked)) == [run["run_id"] for run in runs]
    names = "run_id status start_time end_time modified_time attempt_number executor_id error_message log_url"
    assert names.split() == list(runs[0])[:9]
    status = await get(here, f"/jobs/{job_id}/status")
    assert {"job_id": job_id, "latest_run": runs[0]} == status
    assert {"job_id": (other := await create(here, every="1h")), "latest_run": None} == await get(
        here, f"/jobs/{other}/status"
    )


async def test_pages_are_followed_by_their_links_to_the_end(here: World) -> None:
    """Every job once, newest first, the filter kept; the last page has no link."""
    made = [await create(here, every="1h", labels={"team": "x y"}) for _ in range(5)]
    await create(here, every="1h")
    seen: list[str] = []
    path: str | None = f"{API}/jobs?limit=2&label=team%3Dx+y"
    pages = 0
    while path is not None:
        answer = await here.client.get(path)
        seen += [job["job_id"] for job in answer.json()]
        path = answer.links.get("next", {}).get("url")
        pages += 1
    assert 3 == pages
    assert sorted(made) == sorted(seen)
    assert sorted(seen, reverse=True) == seen


async def test_a_log_is_read_piece_by_piece_and_its_end_is_told(here: World) -> None:
    """Text by default, JSON if asked for; an offset goes across the chunks."""
    job_id = await create(here, schedule_type="IMMEDIATE")
    run_id = (await get(here, f"/jobs/{job_id}/runs"))[0]["run_id"]
    empty = await here.client.get(f"{API}/runs/{run_id}/logs")
    assert (b"", "false") == (empty.content, empty.headers["tickwise-complete"])
    assert 404 == (await here.client.get(f"{API}/runs/{run_id}/logs?attempt=2")).status_code
    await _claimed(here)
    blobs = here.control.context.blobs
    await blobs.put(log_chunk_key(UUID(run_id), 1, 0, last=False), b"hello ")
    part = await here.client.get(f"{API}/runs/{run_id}/logs?offset=2")
    assert (b"llo ", "6", "false") == (
        part.content, part.headers["tickwise-next-offset"], part.headers["tickwise-complete"],
    )  # fmt: skip
    await blobs.put(log_chunk_key(UUID(run_id), 1, 1, last=True), b"<b>world</b>")
    part = await here.client.get(f"{API}/runs/{run_id}/logs?offset=4&limit=5")
    assert (b"o <b>", "false", "nosniff") == (
        part.content, part.headers["tickwise-complete"], part.headers["x-content-type-options"],
    )  # fmt: skip
    assert part.headers["content-type"].startswith("text/plain")
    rest = await here.client.get(f"{API}/runs/{run_id}/logs?offset=9", headers={"Accept": "application/json"})
    assert ("world</b>", 18, True) == (rest.json()["text"], rest.json()["next_offset"], rest.json()["complete"])


async def _claimed(here: World) -> None:
    """An executor takes what is there."""
    executor = await here.store.executors.join(
        NewExecutor(number=2, name="e", queues=["default"], labels=[], functions=[], slots=1, lease_seconds=60)
    )
    claimed = await here.store.attempts.claim(
        ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=10, ahead_seconds=0)
    )
    assert claimed


async def test_an_executor_that_offers_the_function_silences_the_warning(here: World) -> None:
    """Within the two seconds that the list is kept; and its runs wait where only such executors look."""
    first = await here.client.post(f"{API}/jobs", json={"name": "clean", "every": "1h"})
    assert 2 == len(first.json()["warnings"])
    await here.store.executors.join(
        NewExecutor(number=3, name="e", queues=["default"], labels=[], functions=["clean"], slots=1, lease_seconds=60)
    )
    await cast(VirtualClock, here.clock).advance(2)
    second = await here.client.post(f"{API}/jobs", json={"name": "clean", "every": "1h"})
    assert 1 == len(second.json()["warnings"])
    rows = {row.job_id: row.lane.requires for row in await _rows(here)}
    lanes = [list(requires) for _, requires in sorted(rows.items())]
    assert [["function:*", "task:function"], ["function:clean", "task:function"]] == lanes
    assert [] == (await get(here, f"/jobs/{second.json()['job_id']}"))["requires"]


async def _rows(here: World) -> Any:
    return await here.store.searches.jobs(JobQuery(namespace="default"))


# ------------------------------------------------------------------------------------------ tasks


async def test_a_stored_task_is_versioned_by_its_content_and_pinned_by_jobs(here: World) -> None:
    """The same content is the same version; a job keeps the version that was the newest when it was made."""
    versions = []
    for script in ("print(1)", "print(1)", "print(2)"):
        stored = await here.client.post(f"{API}/tasks", json={"taskId": "t", "name": "T", "script": script})
        versions.append(stored.json()["version"])
    assert [1, 1, 2] == versions
    first = await get(here, "/tasks/t?version=1")
    job = (await here.client.post(f"{API}/jobs", json={"taskId": "t", "every": "1h"})).json()["job_id"]
    await here.client.post(f"{API}/tasks", json={"taskId": "t", "name": "T", "script": "print(3)"})
    assert (2, (await get(here, "/tasks/t?version=2"))["task"]) == (
        (await get(here, f"/jobs/{job}"))["task_version"], (await get(here, f"/jobs/{job}"))["task"],
    )  # fmt: skip
    digest = first["task"]["file"].removeprefix("sha256:")
    assert b"print(1)" == await here.control.context.blobs.get(script_key("default", digest))
    assert 404 == (await here.client.get(f"{API}/tasks/t?version=9")).status_code


async def test_a_task_names_a_script_of_its_own_namespace_alone(here: World) -> None:
    """Whoever learns the digest of another's script neither stores nor runs it."""
    stored = (await here.client.post(f"{API}/tasks", json={"taskId": "t", "script": "print(1)"})).json()
    task = {"taskId": "u", "task": {"kind": "python", "file": stored["task"]["file"]}}
    assert 201 == (await here.client.post(f"{API}/tasks", json=task)).status_code
    other = await here.key("a-key-of-another-namespace-of-32-characters", "*", namespace="other")
    headers = {"Authorization": f"Bearer {other}"}
    refused = await here.client.post(f"{API}/tasks", json=task, headers=headers)
    assert (422, "/task/file") == (refused.status_code, refused.json()["pointer"])


# ------------------------------------------------------------------------------------------ batches


async def test_a_bad_job_spoils_no_other(here: World) -> None:
    """Each has its own status, in the order of the batch: JSON array, object and lines alike."""
    good, bad = {"name": "a", "task": SHELL, "every": "1h"}, {"nme": 1}
    lines = b"\n".join([json.dumps(good).encode(), b"", b'{"x"', json.dumps(good).encode()])
    for content, media, expected in (
        (json.dumps([good, bad, good]).encode(), "application/json", [201, 422, 201]),
        (json.dumps({"jobs": [good, bad]}).encode(), "application/json", [201, 422]),
        (lines, "application/x-ndjson", [201, 400, 201]),
    ):
        answer = await here.client.post(f"{API}/jobs:batch", content=content, headers={"Content-Type": media})
        assert 200 == answer.status_code, answer.text
        assert expected == [result["status"] for result in answer.json()["results"]]
        assert expected.count(201) == answer.json()["created"]
    assert 5 == len(await get(here, "/jobs"))


async def test_an_atomic_batch_is_all_or_none(here: World) -> None:
    """One bad job, or one whose id is taken, and nothing is stored; the answer says which."""
    good = {"name": "a", "task": SHELL, "every": "1h"}
    taken = await create(here, every="1h", job_id="11111111-2222-4333-8444-555555555555")
    for other in ({"nme": 1}, {**good, "name": "b", "job_id": taken}):
        answer = await here.client.post(f"{API}/jobs:batch?atomic=true", json=[good, other])
        assert (422, "batch_refused") == (answer.status_code, answer.json()["code"])
        assert [424, 422 if "nme" in other else 409] == [result["status"] for result in answer.json()["results"]]
    assert 1 == len(await get(here, "/jobs"))
    assert 200 == (await here.client.post(f"{API}/jobs:batch?atomic=true", json=[good, good])).status_code
    assert 3 == len(await get(here, "/jobs"))


async def test_a_batch_is_bounded(here: World) -> None:
    """10,000 jobs are taken, 10,001 are 413."""
    job = b'{"name":"a","schedule_time":"2027-02-01T00:00:00Z","task":{"kind":"shell","command":"x"}}\n'
    for count, status in ((10_000, 200), (10_001, 413)):
        answer = await here.client.post(
            f"{API}/jobs:batch", content=job * count, headers={"Content-Type": "application/x-ndjson"}
        )
        assert status == answer.status_code, answer.text[:300]


# ------------------------------------------------------------------------------------------ Idempotency-Key


@pytest.mark.parametrize("path", ["/jobs", "/jobs:batch"])
async def test_a_repeated_post_under_a_key_is_done_once(here: World, path: str) -> None:
    """The stored answer comes back, marked as a replay; of a batch the whole, its refusals too."""
    good = {"name": "a", "task": SHELL, "every": "1h"}
    taken = {**good, "key": "k"}
    await here.client.post(f"{API}/jobs", json=taken)
    body: Any = good if path == "/jobs" else [good, taken, {"nme": 1}]
    first, again = [
        await here.client.post(API + path, json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert (None, "true") == (first.headers.get("idempotency-replayed"), again.headers.get("idempotency-replayed"))
    assert 2 == len(await get(here, "/jobs"))
    if path == "/jobs:batch":
        assert [201, 409, 422] == [result["status"] for result in again.json()["results"]]


async def test_an_idempotency_key_is_for_one_request_one_route_and_one_principal(here: World) -> None:
    """Another body is 422; another route, or another principal, does not meet it."""
    good = {"name": "a", "task": SHELL, "every": "1h"}
    headers = {"Idempotency-Key": "once"}
    job_id = (await here.client.post(f"{API}/jobs", json=good, headers=headers)).json()["job_id"]
    other = await here.client.post(f"{API}/jobs", json={**good, "name": "b"}, headers=headers)
    assert (422, "idempotency_key_reused") == (other.status_code, other.json()["code"])
    assert 202 == (await here.client.post(f"{API}/jobs/{job_id}/runNow", headers=headers)).status_code
    second = await create(here, every="1h")
    elsewhere = await here.client.post(f"{API}/jobs/{second}/runNow", headers=headers)
    assert 422 == elsewhere.status_code
    key = await here.key("somebody-else", "*", name="else")
    mine = await here.client.post(f"{API}/jobs", json=good, headers={**headers, "Authorization": f"Bearer {key}"})
    assert mine.json()["job_id"] != job_id


@pytest.mark.parametrize("action", ["runNow", "pause", "resume"])
async def test_every_post_on_a_job_can_be_repeated(here: World, action: str) -> None:
    """The replay gives the first answer, whatever has become of the job since."""
    job_id = await create(here, every="1h")
    path = f"{API}/jobs/{job_id}/{action}"
    first = await here.client.post(path, headers={"Idempotency-Key": "once"})
    await here.client.delete(f"{API}/jobs/{job_id}")
    again = await here.client.post(path, headers={"Idempotency-Key": "once"})
    assert first.is_success
    assert (first.status_code, first.json()) == (again.status_code, again.json())


async def test_a_refused_request_leaves_its_key_free(here: World) -> None:
    """What was not done can be done right under the same key."""
    headers = {"Idempotency-Key": "once"}
    assert 422 == (await here.client.post(f"{API}/jobs", json={"name": "a"}, headers=headers)).status_code
    good = {"name": "a", "task": SHELL, "every": "1h"}
    assert 201 == (await here.client.post(f"{API}/jobs", json=good, headers=headers)).status_code


@pytest.mark.parametrize(("path", "header"), [("/jobs", "location"), ("/jobs/{job_id}/pause", "etag")])
async def test_a_replay_carries_the_headers_of_the_first_answer(here: World, path: str, header: str) -> None:
    """Where the job is, and in which version."""
    address = API + path.format(job_id=await create(here, every="1h"))
    body = {"name": "a", "task": SHELL, "every": "1h"} if header == "location" else {}
    first, again = [await here.client.post(address, json=body, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert "true" == again.headers["idempotency-replayed"]
    assert first.headers[header] == again.headers[header]


@pytest.mark.parametrize("key", ["x" * 256, "ä"])
async def test_a_key_that_cannot_be_kept_is_refused(here: World, key: str) -> None:
    """1 to 255 printable ASCII characters."""
    answer = await here.client.post(f"{API}/jobs", json={}, headers=[(b"Idempotency-Key", key.encode())])
    assert (422, "Idempotency-Key") == (answer.status_code, answer.json()["parameter"])


# ------------------------------------------------------------------------------------------ wake-ups


async def test_what_is_due_now_wakes_executors_and_what_is_far_away_wakes_nobody(here: World) -> None:
    """A ring a commit, and only for whom there is something to do."""
    bell: Bell = here.bell
    bell.rung.clear()
    await create(here, at="2027-06-01T00:00:00Z")
    assert [] == bell.rung
    await create(here, at="2027-01-15T08:00:20Z")
    assert [Topic.TIMERS] == bell.rung
    job_id = await create(here, every="1h")
    bell.rung.clear()
    await here.client.delete(f"{API}/jobs/{job_id}")
    assert Topic.CANCELS in bell.rung


@pytest.mark.parametrize(
    ("when", "rung"),
    [
        ({"schedule_type": "IMMEDIATE"}, [Topic.RUNS]),
        ({"at": "2027-01-15T08:00:01Z"}, [Topic.RUNS]),
        ({"at": "2027-01-15T08:00:02Z"}, [Topic.RUNS, Topic.TIMERS]),
        ({"at": "2027-01-15T08:00:10Z"}, [Topic.TIMERS]),
        ({"every": "1s"}, [Topic.TIMERS]),
        ({"every": "10m"}, []),
    ],
)
async def test_a_run_wakes_executors_and_a_timer_schedulers(
    here: World, when: dict[str, Any], rung: list[Topic]
) -> None:
    """What became a run needs no scheduler; at the edge of the store's horizon, both are woken."""
    for submit in (create(here, **when), _batched(here, when), create_once(here, when)):
        here.bell.rung.clear()
        await submit
        assert rung == here.bell.rung


async def _batched(here: World, when: dict[str, Any]) -> None:
    answer = await here.client.post(f"{API}/jobs:batch", json=[{"name": "a", "task": SHELL, **when}])
    assert 1 == answer.json()["created"]


async def create_once(here: World, when: dict[str, Any]) -> None:
    headers = {"Idempotency-Key": "k"}
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "task": SHELL, **when}, headers=headers)
    assert 201 == answer.status_code


# ------------------------------------------------------------------------------------------ after the commit


class GoneAfterwards(MemoryStore):
    """A store that is away from the moment on in which it has committed; what is remembered of it is old by then."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.clock = clock
        self.gone = False
        for name in ("jobs.add", "jobs.move"):
            override(self, name, self._commit)
        for name in ("receipts.keep", "executors.all"):
            override(self, name, self._ask)

    async def _commit(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        result = await call(*arguments, **named)
        self.gone = True
        await self.clock.advance(60)
        return result

    async def _ask(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        self._look()
        return await call(*arguments, **named)

    async def now(self) -> float:
        self._look()
        return await super().now()

    def _look(self) -> None:
        if self.gone:
            raise StoreUnavailable("connection to 10.1.2.3 refused")


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/jobs", {}, {}, 201),
        ("/jobs", {}, {"Idempotency-Key": "k"}, 201),
        ("/jobs:batch", [{}], {}, 200),
        ("/jobs:batch", [{}], {"Idempotency-Key": "k"}, 200),
        ("/jobs:batch?atomic=true", [{}], {}, 200),
        ("/jobs/{job_id}/pause", None, {}, 200),
        ("/jobs/{job_id}/pause", None, {"Idempotency-Key": "k"}, 200),
    ],
)
async def test_what_is_stored_is_answered_as_stored(path: str, body: Any, headers: dict[str, str], status: int) -> None:
    """A store that is gone right after the commit makes no failure of it: the client would do it again."""
    clock = VirtualClock(START)
    store = GoneAfterwards(clock)
    job = {"name": "a", "every": "1h"}
    async with world(clock=clock, store=store) as here:
        job_id = await create(here, **job)
        store.gone = False
        said = [job] if body == [{}] else job if body == {} else None
        answer = await here.client.post(API + path.format(job_id=job_id), json=said, headers=headers)
        assert store.gone
        assert status == answer.status_code, answer.text


class HeldStore(MemoryStore):
    """A store whose transaction under a receipt takes as long as the test wants."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        override(self, "jobs.add", self._add)

    async def _add(self, call: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        self.reached.set()
        await self.go_on.wait()
        return await call(*arguments, **named)


async def test_a_request_whose_key_is_still_in_flight_is_refused() -> None:
    """409 while the first is under way, so that the effect is never had twice; its answer afterwards."""
    store = HeldStore(SystemClock())
    async with world(store=store) as here:
        body, headers = {"name": "a", "task": SHELL, "every": "1h"}, {"Idempotency-Key": "once"}
        first = asyncio.ensure_future(here.client.post(f"{API}/jobs", json=body, headers=headers))
        await store.reached.wait()
        second = await here.client.post(f"{API}/jobs", json=body, headers=headers)
        assert (409, "idempotency_key_in_flight") == (second.status_code, second.json()["code"])
        store.go_on.set()
        await first
        third = await here.client.post(f"{API}/jobs", json=body, headers=headers)
        assert (201, first.result().json()) == (third.status_code, third.json())


async def test_a_cancel_is_guarded_by_if_match(here: World) -> None:
    """The one change that cannot be taken back minds the version too."""
    job_id = await create(here, every="1h")
    old = (await here.client.get(f"{API}/jobs/{job_id}")).headers["etag"]
    new = (await here.client.put(f"{API}/jobs/{job_id}", json={"name": "b"})).headers["etag"]
    stale = await here.client.delete(f"{API}/jobs/{job_id}", headers={"If-Match": old})
    assert 412 == stale.status_code
    assert "SCHEDULED" == (await get(here, f"/jobs/{job_id}"))["status"]
    fresh = await here.client.delete(f"{API}/jobs/{job_id}", headers={"If-Match": new})
    assert (200, "CANCELLED") == (fresh.status_code, fresh.json()["status"])


async def test_a_cancelled_jobs_key_serves_the_next_job(here: World) -> None:
    """An upsert after a cancel creates."""
    body = {"name": "a", "every": "1h", "task": SHELL}
    first = await here.client.put(f"{API}/jobs/by-key/nightly", json=body)
    await here.client.delete(f"{API}/jobs/{first.json()['job_id']}")
    again = await here.client.put(f"{API}/jobs/by-key/nightly", json=body)
    assert 201 == again.status_code
    assert first.json()["job_id"] != again.json()["job_id"]


@pytest.mark.parametrize(
    ("route", "body", "pointer"),
    [
        ("/jobs", {"name": "a", "every": "1h", "task": SHELL, "key": "team/1"}, "/key"),
        ("/tasks", {"taskId": "a/b", "script": "print(1)"}, "/taskId"),
    ],
)
async def test_what_could_not_stand_in_a_path_is_refused(
    here: World, route: str, body: dict[str, Any], pointer: str
) -> None:
    """A slash in a key or task id would make it unreachable."""
    answer = await here.client.post(API + route, json=body)
    assert (422, pointer) == (answer.status_code, answer.json()["pointer"])
