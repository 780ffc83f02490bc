"""Bulk requests: tried first, carried out page by page, told of; and nothing by halves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.control.bulk import pages
from tickwise.control.bulk.pages import MAX_PROBLEMS, OperationPage, OperationPages
from tickwise.domain.errors import Bug, Invalid, StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import PAGE_BYTES, LetterStatus, OperationRow, OperationStep, Page, Settlement

BULK = (
    "/runs:cancel", "/runs:retry", "/jobs:pause", "/jobs:resume", "/jobs:cancel", "/dead-letters:redrive",
    "/dead-letters:discard",
)  # fmt: skip
EVERYTHING = {"filter": {"all": True}}
LARGE = 900_000


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def asked(here: Scene, path: str, **body: Any) -> str:
    """The id of an operation that was asked for."""
    return str((await here.ask("POST", path, 202, {**EVERYTHING, **body}))["operation_id"])


async def taken(here: Scene) -> OperationRow:
    operation = await here.store.operations.take(30.0)
    assert operation is not None
    return operation


async def put_on_record(here: Scene, operation: OperationRow, done: OperationPage) -> bool:
    return await here.store.operations.step(
        OperationStep(
            operation_id=operation.operation_id,
            expected_step=operation.step,
            cursor=done.cursor,
            done=done.done,
            refused=done.refused,
            problems=done.problems,
        )
    )


async def carried_out(here: Scene, operation_id: str, size: int = 3) -> Any:
    """An operation after all of its pages, as it is answered."""
    for _ in range(1_000):
        found = await here.ask("GET", f"/operations/{operation_id}")
        if found["status"] != "running":
            return found
        operation = await taken(here)
        assert await put_on_record(
            here, operation, await OperationPages(here.world.control.context).page(operation, size)
        )
        # What is made now is not what was there when it was asked for.
        await here.pass_time(1)
    raise AssertionError("it does not end")


async def waiting(here: Scene, count: int, **body: Any) -> list[str]:
    """Runs that wait for an executor, the newest first."""
    for _ in range(count):
        await here.create(schedule_type="IMMEDIATE", **body)
    return [run["run_id"] for run in await here.ask("GET", "/runs?status=QUEUED&limit=500")]


async def failed(here: Scene, count: int, **body: Any) -> list[str]:
    """Runs that failed for good."""
    for _ in range(count):
        await here.create(schedule_type="IMMEDIATE", max_retries=0, **body)
    number = await here.join(slots=1_000)
    claims = await here.take(number, limit=1_000)
    assert count == await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED, reason="exit_code")
    await here.pass_time(1)
    return [str(claim.run_id) for claim in claims]


# ------------------------------------------------------------------------------------------ asked for


@pytest.mark.parametrize("path", BULK)
async def test_an_empty_filter_is_refused(here: Scene, path: str) -> None:
    """Who means everything says so; and everything and something are not both meant."""
    for body, pointer in (
        ({"filter": {}}, "/filter"),
        ({}, "/filter"),
        ({"filter": {"all": False}}, "/filter"),
        ({"filter": {"all": True, "status": ["QUEUED"] if "runs" in path else "PAUSED"}}, "/filter/"),
        ({"filter": {"colour": "red"}}, "/filter/colour"),
        ({"filter": {"all": True}, "dry_run": "yes"}, "/dry_run"),
        ({"filter": {"all": True}, "force": True}, "/force"),
        ({"filter": None}, "/filter"),
    ):
        assert (await here.ask("POST", path, 422, body))["pointer"].startswith(pointer), body
    assert [] == await here.ask("GET", "/operations")


@pytest.mark.parametrize("path", BULK)
async def test_a_filter_that_matches_nothing_is_done_at_once(here: Scene, path: str) -> None:
    """It is accepted, says 0, and ends with its first page."""
    accepted = await here.ask("POST", path, 202, EVERYTHING)
    assert 0 == accepted["matched"]
    found = await carried_out(here, accepted["operation_id"])
    assert ("done", 0, 0, []) == tuple(found[name] for name in ("status", "done", "refused", "problems"))
    assert path == f"/{found['kind']}"


async def test_a_dry_run_tells_what_would_be_concerned_and_changes_nothing(here: Scene) -> None:
    """How many, and the first ten of them."""
    await waiting(here, 12)
    found = await here.ask("POST", "/runs:cancel", 200, {**EVERYTHING, "dry_run": True})
    assert (12, False, 10, {"QUEUED"}) == (
        found["matches"],
        found["more"],
        len(found["sample"]),
        {run["status"] for run in found["sample"]},
    )
    jobs = await here.ask("POST", "/jobs:cancel", 200, {"filter": {"name": "a"}, "dry_run": True})
    assert (12, 10) == (jobs["matches"], len(jobs["sample"]))
    letters = await here.ask("POST", "/dead-letters:redrive", 200, {**EVERYTHING, "dry_run": True})
    assert (0, []) == (letters["matches"], letters["sample"])
    assert [] == await here.ask("GET", "/operations")
    assert 12 == len(await here.ask("GET", "/runs?status=QUEUED"))


@pytest.mark.parametrize("path", BULK)
async def test_a_dry_run_shows_a_sample_to_readers_only(here: Scene, path: str) -> None:
    """A key that may only change things has the number of its targets, not their contents."""
    if "jobs" in path:
        job_id = await here.create(cron="0 3 * * *")
        if path == "/jobs:resume":
            await here.ask("POST", f"/jobs/{job_id}/pause")
    elif path == "/runs:cancel":
        await waiting(here, 1)
    else:
        await failed(here, 1)
    read, write = ("jobs:read", "jobs:write") if "jobs" in path else ("runs:read", "runs:write")
    body = {**EVERYTHING, "dry_run": True}
    for permissions, sampled in (([write], 0), ([read, write], 1)):
        key = await here.ask("POST", "/keys", 201, {"name": "bulk", "scopes": permissions})
        found = await here.ask("POST", path, 200, body, key=key["key"])
        assert (1, sampled) == (found["matches"], len(found["sample"])), (path, permissions)


async def test_an_operator_pauses_and_resumes_in_bulk_and_cannot_cancel(here: Scene) -> None:
    """`jobs:operate` holds for many jobs as it does for one."""
    await waiting(here, 1)
    key = (await here.ask("POST", "/keys", 201, {"name": "ops", "scopes": ["jobs:operate"]}))["key"]
    for path in ("/jobs:pause", "/jobs:resume"):
        accepted = await here.ask("POST", path, 202, EVERYTHING, key=key)
        await here.ask("GET", f"/operations/{accepted['operation_id']}", 200, key=key)
        await here.ask("POST", f"/operations/{accepted['operation_id']}/cancel", 200, key=key)
    refused = await here.ask("POST", "/jobs:cancel", 403, EVERYTHING, key=key)
    assert "jobs:write" in refused["detail"], refused


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/runs:cancel", {"filter": {"status": ["QUEUED", "SUCCESS"]}}, "/filter/status/1"),
        ("/runs:retry", {"filter": {"status": ["RUNNING"]}}, "/filter/status/0"),
        ("/dead-letters:redrive", {"filter": {"status": ["redriven"]}}, "/filter/status/0"),
        ("/dead-letters:discard", {"filter": {"status": ["open"]}, "note": "a\0"}, "/note"),
        ("/dead-letters:redrive", {"filter": {"all": True}, "payload": 1, "params": 2}, "/params"),
        ("/runs:retry", {"filter": {"reason": "a\0b"}}, "/filter/reason"),
        ("/runs:retry", {"filter": {"job_id": "no"}}, "/filter/job_id"),
        ("/runs:retry", {"filter": {"due_after": 5}}, "/filter/due_after"),
        ("/jobs:pause", {"filter": {"labels": {"a": "\0"}}}, "/filter/labels"),
        ("/jobs:pause", {"filter": {"all": True}, "until": "2001-01-01T00:00:00Z"}, "/until"),
        ("/jobs:pause", {"filter": {"status": "ASLEEP"}}, "/filter/status"),
        ("/jobs:resume", {"filter": {"all": True}, "missed": "perhaps"}, "/missed"),
    ],
)
async def test_what_no_subject_could_take_is_refused_at_once(
    here: Scene, path: str, body: dict[str, Any], pointer: str
) -> None:
    """Before anything is done."""
    assert pointer == (await here.ask("POST", path, 422, body))["pointer"]
    assert [] == await here.ask("GET", "/operations")


async def test_the_same_request_under_a_key_is_one_operation(here: Scene) -> None:
    """With where to look at it."""
    await waiting(here, 2)
    headers = {"Idempotency-Key": "once"}
    first, second = [
        await here.world.client.post(f"{API}/runs:cancel", json=EVERYTHING, headers=headers) for _ in range(2)
    ]
    assert (202, first.content, first.headers["location"]) == (
        second.status_code,
        second.content,
        second.headers["location"],
    )
    assert f"{API}/operations/{first.json()['operation_id']}" == first.headers["location"]
    assert 1 == len(await here.ask("GET", "/operations"))
    # A trial is no effect, so nothing is kept of it.
    tried = {**EVERYTHING, "dry_run": True}
    for _ in range(2):
        answer = await here.world.client.post(f"{API}/runs:cancel", json=tried, headers={"Idempotency-Key": "trial"})
        assert 200 == answer.status_code


# ------------------------------------------------------------------------------------------ carried out


async def test_runs_are_cancelled_page_by_page(here: Scene) -> None:
    """With its progress, to the last one; runs that came later are left alone."""
    await waiting(here, 7)
    operation_id = await asked(here, "/runs:cancel")
    operation = await taken(here)
    assert await put_on_record(here, operation, await OperationPages(here.world.control.context).page(operation, 3))
    found = await here.ask("GET", f"/operations/{operation_id}")
    assert ("running", 7, 3) == (found["status"], found["matched"], found["done"])
    await here.pass_time(60)
    await here.create(schedule_type="IMMEDIATE")
    found = await carried_out(here, operation_id)
    assert ("done", 7, 0) == (found["status"], found["done"], found["refused"])
    assert {"CANCELLED": 7, "QUEUED": 1} == _counted(await here.ask("GET", "/runs"), "status")


def _counted(rows: list[dict[str, Any]], name: str) -> dict[str, int]:
    values = [row[name] for row in rows]
    return {value: values.count(value) for value in values}


async def test_only_what_the_filter_names_is_concerned(here: Scene) -> None:
    """The others of the same kind go on."""
    await waiting(here, 3, name="b")
    job_id = (await here.ask("GET", "/jobs?name=b"))[0]["job_id"]
    await carried_out(here, await asked(here, "/runs:cancel", filter={"job_id": job_id}))
    assert {"CANCELLED": 1, "QUEUED": 2} == _counted(await here.ask("GET", "/runs"), "status")


async def test_runs_that_came_to_match_later_are_left_alone(here: Scene) -> None:
    """One that was queued after the request, and one that began after it where the filter means those that run."""
    running, *_ = await waiting(here, 1)
    number = await here.join(slots=1_000)
    claims = await here.take(number)
    assert 1 == await here.begin(number, claims)
    began_later, *_ = await waiting(here, 1)
    await here.pass_time(1)
    all_running = await asked(here, "/runs:cancel", filter={"status": ["RUNNING"]})
    await here.pass_time(1)
    assert 1 == await here.begin(number, await here.take(number))
    found = await carried_out(here, all_running)
    assert (1, 0) == (found["done"], found["refused"])
    states = {run_id: (await here.store.runs.get("default", UUID(run_id))) for run_id in (running, began_later)}
    assert [True, False] == [row is not None and row.cancel is not None for row in states.values()]
    everything = await asked(here, "/runs:cancel")
    await here.pass_time(1)
    queued_later, *_ = await waiting(here, 1)
    await carried_out(here, everything)
    assert "QUEUED" == (await here.ask("GET", f"/runs/{queued_later}"))["status"]


async def test_an_operation_is_about_jobs_of_several_statuses(here: Scene) -> None:
    """What it would be about is told before; and no others are touched."""
    ahead, paused = [await here.create(cron="0 * * * *", name=name) for name in ("a", "b")]
    await here.ask("POST", f"/jobs/{paused}/pause", 200, {})
    said = {"filter": {"status": ["COMPLETED", "PAUSED"]}}
    told = await here.ask("POST", "/jobs:cancel", 200, {**said, "dry_run": True})
    assert (1, [paused]) == (told["matches"], [job["job_id"] for job in told["sample"]])
    found = await carried_out(here, await asked(here, "/jobs:cancel", **said))
    assert (1, 0) == (found["done"], found["refused"])
    statuses = [(await here.ask("GET", f"/jobs/{job_id}"))["status"] for job_id in (ahead, paused)]
    assert ["SCHEDULED", "CANCELLED"] == statuses


@pytest.mark.parametrize("path", ["/jobs:pause", "/jobs:resume", "/jobs:cancel"])
async def test_jobs_that_were_changed_later_are_left_alone_and_told(here: Scene, path: str) -> None:
    """Such a job may have come to match by its change."""
    jobs = [await here.create(cron="0 * * * *", name=f"job {number}") for number in range(2)]
    if path == "/jobs:resume":
        for job_id in jobs:
            await here.ask("POST", f"/jobs/{job_id}/pause", 200, {})
    await here.pass_time(1)
    operation_id = await asked(here, path, filter={"name": "job"})
    await here.pass_time(1)
    await here.ask("PUT", f"/jobs/{jobs[0]}", 200, {"description": "another one"})
    before = (await here.ask("GET", f"/jobs/{jobs[0]}"))["status"]
    found = await carried_out(here, operation_id)
    assert (1, 1, [(jobs[0], "changed_since")]) == (
        found["done"], found["refused"], [(each["id"], each["code"]) for each in found["problems"]],
    )  # fmt: skip
    assert before == (await here.ask("GET", f"/jobs/{jobs[0]}"))["status"]


async def test_failed_runs_are_redriven_each_once(here: Scene) -> None:
    """All letters are settled, each linked to a run of its own; what fails again is not met again."""
    runs = await failed(here, 7)
    operation_id = await asked(here, "/dead-letters:redrive", note="mended")
    operation = await taken(here)
    assert await put_on_record(here, operation, await OperationPages(here.world.control.context).page(operation, 3))
    # What was redriven already fails at once.
    number = await here.join()
    claims = await here.take(number)
    await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED)
    found = await carried_out(here, operation_id)
    assert ("done", 7, 0) == (found["status"], found["done"], found["refused"])
    letters = await here.ask("GET", "/dead-letters?status=redriven")
    assert set(runs) == {each["run_id"] for each in letters}
    assert 7 == len({each["redriven_as"] for each in letters})
    assert {"mended"} == {each["note"] for each in letters}
    assert 3 == len(await here.ask("GET", "/dead-letters?status=open"))
    assert 14 == len(await here.ask("GET", "/runs"))


@pytest.mark.parametrize("page_bytes", [PAGE_BYTES, 1])
@pytest.mark.parametrize(
    "path",
    ["/runs:cancel", "/runs:retry", "/jobs:pause", "/jobs:cancel", "/dead-letters:redrive", "/dead-letters:discard"],
)
async def test_a_page_that_is_done_twice_is_done_once(
    here: Scene, monkeypatch: pytest.MonkeyPatch, path: str, page_bytes: int
) -> None:
    """Whoever carried it out was cut off before it was on record: the next one does the same, and counts the same. So
    also if each page has one row, because of its size."""
    monkeypatch.setattr(pages, "PAGE_BYTES", page_bytes)
    if path in ("/runs:retry", "/dead-letters:redrive", "/dead-letters:discard"):
        await failed(here, 5)
    elif path == "/runs:cancel":
        await waiting(here, 5)
    else:
        for _ in range(5):
            await here.create(every="1h")
    operation_id = await asked(here, path)
    await here.pass_time(1)
    for _ in range(3):
        operation = await taken(here)
        await OperationPages(here.world.control.context).page(operation, 2)
        await here.pass_time(31)
    found = await carried_out(here, operation_id, size=2)
    assert ("done", 5, 0) == (found["status"], found["done"], found["refused"])
    runs = _counted(await here.ask("GET", "/runs"), "status")
    assert runs == {
        "/runs:cancel": {"CANCELLED": 5},
        "/runs:retry": {"FAILED": 5, "QUEUED": 5},
        "/dead-letters:redrive": {"FAILED": 5, "QUEUED": 5},
        "/dead-letters:discard": {"FAILED": 5},
    }.get(path, {})


async def large(here: Scene, path: str, count: int) -> None:
    """Subjects of this operation with much text; what each of its pages reads of them is bounded."""
    payload = "x" * LARGE
    if path.startswith("/jobs"):
        for _ in range(count):
            await here.create(every="1h", payload=payload)
            await here.pass_time(1)
        return
    job_id = await here.create(every="1h", overlap="allow", max_retries=0)
    for _ in range(count):
        await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {"payload": payload})
    if path == "/runs:cancel":
        return
    number = await here.join(slots=1_000)
    claims = await here.take(number, limit=1_000)
    assert count == await here.begin(number, claims)
    await here.finish(number, claims, RunState.FAILED, reason="exit_code", result=json.dumps(payload))
    await here.pass_time(1)


@pytest.mark.parametrize("path", [path for path in BULK if path != "/jobs:resume"])
async def test_an_operation_over_large_subjects_comes_to_its_end(
    here: Scene, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Its pages end early, none is the last by that, and none reads more than its bound; nor does the look at what a
    page did that was not put on record."""
    await large(here, path, 6)
    read: list[int] = []
    for name in ("jobs", "runs", "letters"):
        monkeypatch.setattr(here.store.searches, name, _weighed(getattr(here.store.searches, name), read))
    operation_id = await asked(here, path)
    read.clear()
    await OperationPages(here.world.control.context).page(await taken(here), 6)
    await here.pass_time(31)
    found = await carried_out(here, operation_id, size=5)
    assert ("done", 6, 0) == (found["status"], found["done"], found["refused"])
    assert max(read) <= PAGE_BYTES


def _weighed(ask: Callable[[Any], Awaitable[Page[Any]]], read: list[int]) -> Callable[[Any], Awaitable[Page[Any]]]:
    async def asked(query: Any) -> Page[Any]:
        page = await ask(query)
        read.append(sum(row.text_bytes for row in page))
        return page

    return asked


async def test_runs_of_other_ends_are_retried_if_they_are_named(here: Scene) -> None:
    """Each by a run linked to it; with another payload, if one is sent."""
    await waiting(here, 2)
    await here.work(await here.join())
    await carried_out(here, await asked(here, "/runs:retry", filter={"status": ["SUCCESS"]}, payload={"again": True}))
    new = await here.ask("GET", "/runs?trigger=retry")
    assert (2, {"QUEUED"}) == (len(new), {run["status"] for run in new})
    details = [await here.ask("GET", f"/runs/{run['run_id']}") for run in new]
    assert [{"again": True}] * 2 == [run["payload"] for run in details]
    assert 2 == len({run["retry_of"] for run in details})


async def test_what_somebody_settled_meanwhile_is_refused_one_by_one(here: Scene) -> None:
    """The others are done; the answer says which could not be, and why."""
    runs = await failed(here, 3)
    operation_id = await asked(here, "/runs:retry", filter={"status": ["FAILED"]})
    await here.store.letters.settle("default", [Settlement(UUID(runs[0]), LetterStatus.DISCARDED)], by="somebody else")
    found = await carried_out(here, operation_id)
    assert ("done", 2, 1) == (found["status"], found["done"], found["refused"])
    [problem] = found["problems"]
    assert (runs[0], "letter_settled", True) == (
        problem["id"],
        problem["code"],
        "discarded by somebody else" in problem["detail"],
    )


async def test_refusals_are_all_counted_and_the_first_are_told(here: Scene) -> None:
    """However many there are."""
    await waiting(here, MAX_PROBLEMS + 5)
    found = await carried_out(here, await asked(here, "/jobs:pause"), size=10)
    assert (0, MAX_PROBLEMS + 5, MAX_PROBLEMS) == (found["done"], found["refused"], len(found["problems"]))
    assert {"job_not_recurring"} == {problem["code"] for problem in found["problems"]}


async def test_jobs_are_paused_resumed_and_cancelled(here: Scene) -> None:
    """Those that the filter names by their labels; each with the reason."""
    team = {"team": "data"}
    mine = [await here.create(every="1h", labels=team) for _ in range(4)]
    other = await here.create(every="1h")
    await carried_out(here, await asked(here, "/jobs:pause", filter={"labels": team}, reason="maintenance"))
    for job_id in mine:
        job = await here.ask("GET", f"/jobs/{job_id}")
        assert ("PAUSED", "maintenance") == (job["status"], job["pause_reason"])
    assert "SCHEDULED" == (await here.ask("GET", f"/jobs/{other}"))["status"]
    found = await carried_out(here, await asked(here, "/jobs:resume"))
    assert 4 == found["done"]
    assert {"SCHEDULED": 5} == _counted(await here.ask("GET", "/jobs"), "status")
    await carried_out(here, await asked(here, "/jobs:cancel", filter={"labels": team}))
    assert {"CANCELLED": 4, "SCHEDULED": 1} == _counted(await here.ask("GET", "/jobs"), "status")


async def test_jobs_of_several_statuses_are_cancelled(here: Scene) -> None:
    """Those of the named statuses alone, in pages; the dry run counts the same. A status may be written alone."""
    team = {"team": "data"}
    paused = {await here.create(every="1h", labels=team) for _ in range(3)}
    await carried_out(here, await asked(here, "/jobs:pause", filter={"labels": team}))
    await failed(here, 2)
    ended = {job["job_id"] for job in await here.ask("GET", "/jobs?status=FAILED")}
    scheduled = {await here.create(every="1h") for _ in range(2)}
    several = {"status": ["PAUSED", "FAILED"]}
    tried = await here.ask("POST", "/jobs:cancel", 200, {"filter": several, "dry_run": True})
    assert (5, paused | ended) == (tried["matches"], {job["job_id"] for job in tried["sample"]})
    found = await carried_out(here, await asked(here, "/jobs:cancel", filter=several), size=2)
    assert (5, 0) == (found["done"], found["refused"])
    assert paused | ended == {job["job_id"] for job in await here.ask("GET", "/jobs?status=CANCELLED")}
    assert scheduled == {job["job_id"] for job in await here.ask("GET", "/jobs?status=SCHEDULED&status=PAUSED")}
    await carried_out(here, await asked(here, "/jobs:cancel", filter={"status": "SCHEDULED"}))
    assert 7 == len(await here.ask("GET", "/jobs?status=CANCELLED"))


async def test_letters_are_discarded_with_a_note(here: Scene) -> None:
    """The runs stay on record."""
    await failed(here, 4)
    await carried_out(here, await asked(here, "/dead-letters:discard", filter={"reason": "exit_code"}, note="known"))
    letters = await here.ask("GET", "/dead-letters")
    assert [("discarded", "known")] * 4 == [(each["status"], each["note"]) for each in letters]


# ------------------------------------------------------------------------------------------ stopped, cut off


async def test_a_cancelled_operation_goes_no_further(here: Scene) -> None:
    """What is done stays done; twice is once."""
    await waiting(here, 6)
    operation_id = await asked(here, "/runs:cancel")
    operation = await taken(here)
    assert await put_on_record(here, operation, await OperationPages(here.world.control.context).page(operation, 2))
    for _ in range(2):
        found = await here.ask("POST", f"/operations/{operation_id}/cancel")
        assert ("cancelled", 2) == (found["status"], found["done"])
    assert await here.store.operations.take(30.0) is None
    assert {"CANCELLED": 2, "QUEUED": 4} == _counted(await here.ask("GET", "/runs"), "status")


async def test_an_operation_goes_on_where_it_was_when_the_store_comes_back(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that could not be carried out is no refusal of anything."""
    await waiting(here, 4)
    operation_id = await asked(here, "/runs:cancel")
    operation = await taken(here)

    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as during:
        during.setattr(here.store.runs, "move", away)
        with pytest.raises(StoreUnavailable):
            await OperationPages(here.world.control.context).page(operation, 10)
    await here.pass_time(31)
    found = await carried_out(here, operation_id)
    assert (4, 0) == (found["done"], found["refused"])


async def test_a_kind_that_this_version_does_not_know_is_a_bug(here: Scene) -> None:
    """Nothing is done in its name."""
    await asked(here, "/runs:cancel")
    operation = await taken(here)
    object.__setattr__(operation, "kind", "runs:paint")
    with pytest.raises(Bug, match="runs:paint"):
        await OperationPages(here.world.control.context).page(operation, 10)


async def test_an_operation_whose_search_takes_too_long_ends_and_says_so(
    here: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take as long the next time; what was done before counts."""
    await waiting(here, 5)
    operation_id = await asked(here, "/runs:cancel")
    operation = await taken(here)
    assert await put_on_record(here, operation, await OperationPages(here.world.control.context).page(operation, 3))

    async def too_long(*_: Any) -> None:
        raise Invalid("narrow the search")

    monkeypatch.setattr(here.store.searches, "runs", too_long)
    found = await carried_out(here, operation_id)
    assert (found["status"], found["done"], found["refused"]) == ("done", 3, 1)
    assert found["problems"] == [{"id": operation_id, "code": "invalid", "detail": "narrow the search"}]


async def test_operations_are_listed_newest_first_in_pages(here: Scene) -> None:
    """And those of another namespace are not there."""
    ids = []
    for _ in range(3):
        ids.append(await asked(here, "/runs:cancel"))
        await here.pass_time(1)
    first = await here.world.client.get(f"{API}/operations?limit=2")
    assert [ids[2], ids[1]] == [each["operation_id"] for each in first.json()]
    second = await here.world.client.get(first.links["next"]["url"])
    assert [ids[0]] == [each["operation_id"] for each in second.json()]
    key = await here.world.key("somebody-elses-key", "*", namespace="other")
    headers = {"Authorization": f"Bearer {key}"}
    assert [] == (await here.world.client.get(f"{API}/operations", headers=headers)).json()
    for method, path in (("GET", ids[0]), ("POST", f"{ids[0]}/cancel")):
        answer = await here.world.client.request(method, f"{API}/operations/{path}", headers=headers)
        assert 404 == answer.status_code


async def test_more_than_are_counted_are_said_to_be_more(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a million it is enough to know that they are many; all of them are concerned."""
    monkeypatch.setattr("tickwise.control.bulk.operations.MAX_COUNTED", 12)
    await waiting(here, 15)
    tried = await here.ask("POST", "/runs:cancel", 200, {**EVERYTHING, "dry_run": True})
    assert (12, True) == (tried["matches"], tried["more"])
    accepted = await here.ask("POST", "/runs:cancel", 202, EVERYTHING)
    assert None is accepted["matched"]
    assert 15 == (await carried_out(here, accepted["operation_id"]))["done"]


async def test_runs_of_cancelled_jobs_are_refused_one_by_one(here: Scene) -> None:
    """Of such a job nothing runs any more, however its runs ended; the others are retried."""
    [gone] = await failed(here, 1, name="gone")
    await waiting(here, 2)
    done = [str(claim.run_id) for claim in await here.work(await here.join())]
    for run_id in (gone, done[0]):
        job_id = (await here.ask("GET", f"/runs/{run_id}"))["job_id"]
        await here.ask("DELETE", f"/jobs/{job_id}")
    await here.pass_time(1)
    found = await carried_out(here, await asked(here, "/runs:retry", filter={"status": ["FAILED", "SUCCESS"]}))
    assert (1, 2, {"job_cancelled"}) == (
        found["done"],
        found["refused"],
        {problem["code"] for problem in found["problems"]},
    )
    assert {gone, done[0]} == {problem["id"] for problem in found["problems"]}
    assert "open" == (await here.ask("GET", f"/dead-letters/{gone}"))["status"]


@pytest.mark.parametrize(("subject", "path"), [("jobs", "/jobs:pause"), ("runs", "/runs:cancel")])
async def test_who_may_ask_for_an_operation_may_look_at_it_and_cancel_it(here: Scene, subject: str, path: str) -> None:
    """And a key for other things may not: an operation goes by the scopes of what it is about."""
    await here.create(every="1h")
    job_id = await here.create(schedule_type="ON_DEMAND", timezone="UTC")
    await here.ask("POST", f"/jobs/{job_id}/runNow", 202)
    operation_id = await asked(here, path)
    other = "runs" if subject == "jobs" else "jobs"
    own = [await here.world.key(f"own-{action}", f"{subject}:{action}") for action in ("read", "write")]
    others = await here.world.key("another", f"{other}:read", f"{other}:write")

    async def answered(key: str, method: str, path: str) -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        return await here.world.client.request(method, API + path, headers=headers)

    for key in own:
        assert 200 == (await answered(key, "GET", f"/operations/{operation_id}")).status_code
        found = await answered(key, "GET", "/operations")
        assert [operation_id] == [each["operation_id"] for each in found.json()]
    assert [] == (await answered(others, "GET", "/operations")).json()
    for method, tail in (("GET", ""), ("POST", "/cancel")):
        refusal = await answered(others, method, f"/operations/{operation_id}{tail}")
        assert 403 == refusal.status_code
        needed = "jobs:operate" if path == "/jobs:pause" else f"{subject}:write"
        assert needed in refusal.json()["detail"]
    read, write = own
    assert 403 == (await answered(read, "POST", f"/operations/{operation_id}/cancel")).status_code
    assert "running" == (await here.ask("GET", f"/operations/{operation_id}"))["status"]
    assert "cancelled" == (await answered(write, "POST", f"/operations/{operation_id}/cancel")).json()["status"]


async def test_operations_of_dead_letters_go_by_the_scopes_of_runs(here: Scene) -> None:
    """Which they are."""
    await here.ask("POST", "/dead-letters:discard", 202, EVERYTHING)
    for scope, number in (("runs:read", 1), ("jobs:read", 0)):
        headers = {"Authorization": f"Bearer {await here.world.key(scope, scope)}"}
        assert number == len((await here.world.client.get(f"{API}/operations", headers=headers)).json())


# ------------------------------------------------------------------------------------------ chosen one by one


async def test_jobs_that_are_named_one_by_one_are_meant_and_no_others(here: Scene) -> None:
    """By their ids, of a bounded number; or by a key."""
    jobs = [await here.create(every="1h", key=f"k{number}") for number in range(5)]
    chosen = {"job_ids": [jobs[0], jobs[3]]}
    tried = await here.ask("POST", "/jobs:pause", 200, {"filter": chosen, "dry_run": True})
    assert (2, {jobs[0], jobs[3]}) == (tried["matches"], {row["job_id"] for row in tried["sample"]})
    done = await carried_out(here, await asked(here, "/jobs:pause", filter=chosen), size=1)
    assert ("done", 2, 0) == (done["status"], done["done"], done["refused"])
    done = await carried_out(here, await asked(here, "/jobs:pause", filter={"key": "k1"}))
    assert 1 == done["done"]
    paused = await here.ask("GET", "/jobs?status=PAUSED")
    assert {jobs[0], jobs[1], jobs[3]} == {row["job_id"] for row in paused}
    many = {"job_ids": [jobs[0]] * 1_001}
    assert "/filter/job_ids" == (await here.ask("POST", "/jobs:pause", 422, {"filter": many}))["pointer"]


async def test_runs_that_are_named_one_by_one_are_meant_and_no_others(here: Scene) -> None:
    """By their ids."""
    runs = await waiting(here, 4)
    done = await carried_out(here, await asked(here, "/runs:cancel", filter={"run_ids": [runs[1], runs[2]]}), size=1)
    assert ("done", 2) == (done["status"], done["done"])
    left = await here.ask("GET", "/runs?status=QUEUED")
    assert {runs[0], runs[3]} == {run["run_id"] for run in left}
