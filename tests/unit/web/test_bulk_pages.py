"""Operations over many jobs and runs on pages: asked first, then followed, stopped and taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tests.support.people import PASSWORD
from tickwise.control.bulk.authorized import AuthorizedPages
from tickwise.ports.store import OperationRow, OperationStep

SHELL = {"kind": "shell", "command": "date"}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


@pytest_asyncio.fixture
async def ada(rig: Rig) -> Browser:
    """A developer's browser."""
    return await rig.signed_in("ada", ("developer", "default"))


async def _jobs(rig: Rig, count: int, **fields: Any) -> list[str]:
    bodies = [{"name": f"job {number}", "task": SHELL, "every": "1h", **fields} for number in range(count)]
    answer = await rig.here.client.post(f"{API}/jobs:batch", json=bodies)
    assert answer.status_code in (200, 201, 207), answer.text
    found = (await rig.here.client.get(f"{API}/jobs?limit=500")).json()
    return [job["job_id"] for job in found]


async def _page(rig: Rig, size: int = 200) -> OperationRow:
    """Carry one page of an operation out, as a scheduler does."""
    operation = await rig.here.store.operations.take(30.0)
    assert operation is not None
    page = await AuthorizedPages(rig.here.control.context).page(operation, size)
    await rig.here.store.operations.step(
        OperationStep(
            operation_id=operation.operation_id, expected_step=operation.step, cursor=page.cursor, done=page.done,
            refused=page.refused, problems=page.problems, failed=page.failed,
        )
    )  # fmt: skip
    return operation


def _once(html: str) -> str:
    return next(each["value"] for each in Markup(html).named("input") if each.get("name") == "once")


async def _statuses(rig: Rig) -> dict[str, str]:
    return {job["job_id"]: job["status"] for job in (await rig.here.client.get(f"{API}/jobs?limit=500")).json()}


async def test_all_that_match_are_counted_and_shown_before_anything_happens(rig: Rig, ada: Browser) -> None:
    """How many, the first ten, the filter; and the address says all of it."""
    await _jobs(rig, 13, labels={"team": "a"})
    await _jobs(rig, 2)
    page = await ada.get("/bulk/jobs/pause?of=all&label=team%3Da")
    words = Markup(page.text).words
    assert 200 == page.status_code
    assert "13 jobs All that match" in words
    assert "label: team=a" in words
    assert "and 3 others" in words
    assert 10 == sum(each["href"].startswith("/jobs/") for each in Markup(page.text).named("a"))
    assert {"SCHEDULED"} == set((await _statuses(rig)).values())
    everything = Markup((await ada.get("/bulk/jobs/pause?of=all")).text).words
    assert "All jobs of the namespace default: no filter is set." in everything
    assert [] == (await rig.here.client.get(f"{API}/operations")).json()


async def test_an_operation_is_followed_to_its_end_and_taken_back(rig: Rig, ada: Browser) -> None:
    """It goes on page by page; what it did, and by whom; and the way back is asked again."""
    await _jobs(rig, 5, labels={"team": "a"})
    address = "/bulk/jobs/pause?of=all&label=team%3Da"
    form = {"once": _once((await ada.get(address)).text), "reason": "the shop is <closed>"}
    asked = [await ada.post(address, form) for _ in range(2)]
    assert [303, 303] == [each.status_code for each in asked]
    assert 1 == len((await rig.here.client.get(f"{API}/operations")).json())
    path = asked[0].headers["location"]
    assert path == asked[1].headers["location"]
    assert "It begins 0 paused of 5" in Markup((await ada.get(path)).text).words
    await _page(rig, 2)
    page = await ada.get(path)
    words = Markup(page.text).words
    assert "It goes on 2 paused of 5" in words
    assert "newest first, down to those of" in words
    assert "the shop is <closed>" in words
    assert "Stop it" in words
    assert 'data-live="1"' in page.text
    while "data-live" in page.text:
        await _page(rig, 2)
        page = await ada.get(path)
    assert "It is done 5 paused" in Markup(page.text).words
    assert {"PAUSED"} == set((await _statuses(rig)).values())
    assert "Stop it" not in page.text
    back = next(each["href"] for each in Markup(page.text).named("a") if "/resume" in each["href"])
    assert "5 jobs" in Markup((await ada.get(back)).text).words
    done = await ada.post(back, {"missed": "skip"})
    await _page(rig)
    assert {"SCHEDULED"} == set((await _statuses(rig)).values())
    listed = Markup((await ada.get("/bulk")).text)
    assert {path, done.headers["location"]} <= {each["href"] for each in listed.named("a")}


async def test_the_filter_of_an_operation_is_for_those_who_may_read_all_that_it_may_name(
    rig: Rig, ada: Browser
) -> None:
    """A permission to write all runs shows an operation; to read runs with some labels does not show its filter."""
    await _jobs(rig, 1, name="merger-with-acme")
    client = rig.here.client
    assert (
        await client.put(f"{API}/namespaces/default/roles/retrier", json={"permissions": ["runs:write"]})
    ).status_code < 300
    body = {
        "name": "Red", "password": PASSWORD, "roles": [
            {"role": "retrier", "namespace": "default"},
            {"role": "viewer", "namespace": "default", "labels": {"team": "red"}},
        ],
    }  # fmt: skip
    made = await client.post(f"{API}/users", json=body)
    assert 201 == made.status_code, made.text
    answer = await ada.post("/bulk/runs/cancel?of=all&job_name=merger-with-acme", {"confirm": "yes"})
    path = answer.headers["location"]
    assert "merger-with-acme" in Markup((await ada.get(path)).text).words
    red = rig.browser()
    assert 303 == (await red.sign_in("Red")).status_code
    page = await red.get(path)
    assert (200, False) == (page.status_code, "merger-with-acme" in page.text)


async def test_an_operation_is_stopped(rig: Rig, ada: Browser) -> None:
    """What is done stays done, and the others are left alone."""
    await _jobs(rig, 6)
    answer = await ada.post("/bulk/jobs/pause?of=all", {"reason": "x"})
    path = answer.headers["location"]
    await _page(rig, 2)
    assert 303 == (await ada.post(f"{path}/stop")).status_code
    page = Markup((await ada.get(path)).text).words
    assert "It was stopped 2 paused" in page
    assert await rig.here.store.operations.take(30.0) is None
    assert 2 == list((await _statuses(rig)).values()).count("PAUSED")


async def test_rows_that_are_selected_are_meant_and_no_others(rig: Rig, ada: Browser) -> None:
    """The filter of the list has no part in it; none is selected: nothing is meant."""
    jobs = await _jobs(rig, 4)
    address = f"/bulk/jobs/cancel?of=rows&name=nothing&job_id={jobs[0]}&job_id={jobs[2]}"
    page = await ada.get(address)
    assert "2 jobs The rows that you selected" in Markup(page.text).words
    unsure = await ada.post(address, {})
    assert (422, True) == (unsure.status_code, "Tick the box" in unsure.text)
    assert 303 == (await ada.post(address, {"confirm": "yes"})).status_code
    await _page(rig)
    assert {jobs[0], jobs[2]} == {job for job, status in (await _statuses(rig)).items() if status == "CANCELLED"}
    nothing = await ada.get("/bulk/jobs/cancel?of=rows")
    assert (422, True) == (nothing.status_code, "no row is selected" in Markup(nothing.text).words.lower())
    assert 422 == (await ada.get("/bulk/jobs/cancel?of=rows&job_id=x")).status_code


async def test_the_list_offers_its_rows_and_its_filter(rig: Rig, ada: Browser) -> None:
    """To those who may do it, as far as they may."""
    jobs = await _jobs(rig, 3, labels={"team": "a"})
    page = Markup((await ada.get("/jobs?label=team%3Da&status=SCHEDULED")).text)
    picks = [each for each in page.named("input") if "data-pick" in each]
    assert {(job, "bulk") for job in jobs} == {(each["value"], each["form"]) for each in picks}
    hidden = {each["name"]: each["value"] for each in page.named("input") if each.get("type") == "hidden"}
    assert {"label": "team=a", "status": "SCHEDULED"}.items() <= hidden.items()
    verbs = {each["formaction"] for each in page.named("button") if "formaction" in each}
    assert {"/bulk/jobs/pause", "/bulk/jobs/resume", "/bulk/jobs/cancel"} == verbs
    operator = await rig.signed_in("olaf", ("operator", "default"))
    verbs = {each.get("formaction", "") for each in Markup((await operator.get("/jobs")).text).named("button")}
    assert "/bulk/jobs/pause" in verbs
    assert "/bulk/jobs/cancel" not in verbs
    viewer = Markup((await (await rig.signed_in("vera", ("viewer", "default"))).get("/jobs")).text)
    assert [] == [each for each in viewer.named("input") if "data-pick" in each]


async def test_what_is_refused_is_told_with_its_reason(rig: Rig, ada: Browser) -> None:
    """The first of them, and how many."""
    await _jobs(rig, 25, every=None, at="2027-01-01T00:00:00Z")
    answer = await ada.post("/bulk/jobs/pause?of=all", {"reason": "x"})
    await _page(rig)
    page = Markup((await ada.get(answer.headers["location"])).text)
    assert "0 paused 25 refused of 25" in page.words
    assert "Refused: the first 20 of 25" in page.words
    assert 20 == sum(each["href"].startswith("/jobs/") for each in page.named("a"))


async def test_runs_are_cancelled_and_run_again(rig: Rig, ada: Browser) -> None:
    """Those of the filter, with a payload for all; the page shows the new runs."""
    for _ in range(3):
        body = {"name": "now", "task": SHELL, "schedule_type": "IMMEDIATE", "max_retries": 0}
        assert 201 == (await rig.here.client.post(f"{API}/jobs", json=body)).status_code
    listed = Markup((await ada.get("/runs?status=QUEUED")).text)
    assert 3 == len([each for each in listed.named("input") if "data-pick" in each])
    wrong = await ada.get("/bulk/runs/retry?of=all&status=QUEUED")
    assert (422, True) == (wrong.status_code, "cannot be retried" in Markup(wrong.text).words)
    asked = await ada.post("/bulk/runs/cancel?of=all&status=QUEUED", {"confirm": "yes"})
    await _page(rig)
    page = Markup((await ada.get(asked.headers["location"])).text)
    assert "It is done 3 cancelled of 3" in page.words
    assert 3 == sum(each["href"].startswith("/runs/") for each in page.named("a"))
    again = "/bulk/runs/retry?of=all&status=CANCELLED"
    bad = await ada.post(again, {"payload": "{"})
    typed = bad.text[bad.text.index("<textarea") : bad.text.index("</textarea>")]
    assert (422, "\n{") == (bad.status_code, Markup(typed).text)
    made = await ada.post(again, {"payload": '{"again": true}'})
    await _page(rig)
    page = Markup((await ada.get(made.headers["location"])).text)
    runs = [each["href"].split("/")[2] for each in page.named("a") if each["href"].startswith("/runs/")]
    assert 3 == len(runs)
    run = (await rig.here.client.get(f"{API}/runs/{runs[0]}")).json()
    assert ({"again": True}, "QUEUED") == (run["payload"], run["status"])


async def test_an_operation_tells_its_request_to_those_who_may_read_it(rig: Rig, ada: Browser) -> None:
    """A payload may hold what others must not see."""
    await _jobs(rig, 2, labels={"team": "secret"})
    path = (await ada.post("/bulk/jobs/pause?of=all&label=team%3Dsecret", {"reason": "not for all"})).headers[
        "location"
    ]
    role = {"permissions": ["jobs:operate"]}
    answer = await rig.here.client.put(f"{API}/namespaces/default/roles/operates", json=role)
    assert answer.status_code in (200, 201), answer.text
    other = await rig.signed_in("blind", ("operates", "default"))
    page = await other.get(path)
    assert 200 == page.status_code
    assert "secret" not in page.text
    assert "not for all" not in page.text
    own = await other.post("/bulk/jobs/resume?of=all&status=PAUSED", {"missed": "skip"})
    assert "PAUSED" in (await other.get(own.headers["location"])).text
    asks = await other.get("/bulk/jobs/pause?of=all")
    assert (200, False) == (asks.status_code, "job 1" in asks.text)


async def test_an_operation_of_another_namespace_is_not_there(rig: Rig, ada: Browser) -> None:
    """Neither to look at nor to stop."""
    await rig.here.key("in-team-a", "jobs:read", namespace="team-a")
    await _jobs(rig, 1)
    path = (await ada.post("/bulk/jobs/pause?of=all", {"reason": "x"})).headers["location"]
    other = await rig.signed_in("elsewhere", ("admin", "team-a"))
    assert 404 == (await other.get(f"{path}?namespace=team-a")).status_code
    assert 404 == (await other.post(f"{path}/stop?namespace=team-a")).status_code
    assert str(UUID(path.removeprefix("/bulk/"))) in path
