"""The pages of errors: one row for one cause, and what a visitor decides about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tests.unit.web.test_pages import HOSTILE, SHELL, _inert
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import ClaimRequest
from tickwise.roles.scheduler.error_folding import ErrorFolding
from tickwise.testing.factories import executor, outcome


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def fails(rig: Rig, error: str, *, job: str | None = None, namespace: str = "default") -> tuple[str, str]:
    """A run that failed so, and is counted; its job and its id."""
    store = rig.here.store
    if job is None:
        body = {"name": "writes reports", "schedule_type": "ON_DEMAND", "task": SHELL, "max_retries": 0}
        job = str((await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"])
    run_id = (await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})).json()["run_id"]
    row = await store.jobs.get(namespace, UUID(job))
    assert row is not None
    number = await store.executors.join(executor(f"one of {run_id}"))
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=50, ahead_seconds=1.0
    )
    claims = await store.attempts.claim(request)
    assert [run_id] == [str(each.run_id) for each in claims]
    ends = [outcome(each, RunState.FAILED, reason="exit_code", error=error, ended=await store.now()) for each in claims]
    assert [] == list(await store.attempts.finish(number, ends))
    await ErrorFolding(store.error_groups).step()
    return job, run_id


async def first(browser: Browser, query: str = "") -> str:
    """The address of the first group of a list."""
    found = Markup((await browser.get(f"/errors{query}")).text)
    return next(each["href"] for each in found.named("a") if "data-row" in each)


async def listed(browser: Browser, query: str = "") -> str:
    return Markup((await browser.get(f"/errors{query}")).text).words


async def test_failures_of_one_cause_are_one_row_that_leads_to_its_runs(rig: Rig) -> None:
    """And the run and its dead letter lead back."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    assert "Nothing has failed that waits for a decision." in await listed(browser)
    job, _ = await fails(rig, "exit status 7: order 1 not in /tmp/a")
    _, run = await fails(rig, "exit status 7: order 2 not in /tmp/b", job=job)
    page = Markup((await browser.get("/errors")).text)
    assert "exit status 7" in page.words
    assert "order <n> not in <path>" in page.text
    assert ["2 in the last 24 hours"] == [each["aria-label"] for each in page.named("svg") if "spark" in each["class"]]
    group = await first(browser)
    one = Markup((await browser.get(group)).text)
    links = {each["href"] for each in one.named("a")}
    assert {f"/runs/{run}?attempt=1", f"/jobs/{job}", f"/runs/{run}"} <= links
    assert "order 2 not in /tmp/b" in one.words
    assert "writes reports" in one.words
    for path in (f"/runs/{run}", "/dead-letters"):
        assert group in {each["href"] for each in Markup((await browser.get(path)).text).named("a")}, path
    letters = Markup((await browser.get(f"/dead-letters?error_id={group.rpartition('/')[2]}")).text)
    assert 2 == len([each for each in letters.named("a") if "data-row" in each])
    other = await browser.get("/dead-letters?error_id=019a2b3c-4d5e-8f60-9123-456789abcdef")
    assert "No dead letter matches." in Markup(other.text).words


async def test_a_resolved_group_leaves_the_list_until_it_fails_again(rig: Rig) -> None:
    """With the note, and who it was."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    job, _ = await fails(rig, "no!")
    group = await first(browser)
    sent = await browser.post(f"{group}/resolve", {"note": "disk added"})
    assert (303, group) == (sent.status_code, sent.headers["location"])
    assert "Nothing has failed" in await listed(browser)
    assert "resolved" in await listed(browser, "?status=resolved")
    page = Markup((await browser.get(group)).text)
    assert ("by ada" in page.words, "disk added" in page.words) == (True, True)
    await fails(rig, "no!", job=job)
    assert "open again" in await listed(browser)
    assert "Open again: ada resolved it" in Markup((await browser.get(group)).text).words
    await browser.post(f"{group}/reopen")
    assert "open again" not in await listed(browser)


async def test_a_group_is_ignored_for_a_while(rig: Rig) -> None:
    """A form without an end comes back with what was typed."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    await fails(rig, "no!")
    group = await first(browser)
    for form in ({"period": "", "failures": ""}, {"failures": "many"}, {"period": "century"}):
        answer = await browser.post(f"{group}/ignore", {"note": "known", **form})
        assert 422 == answer.status_code
        assert "known" in [each.get("value") for each in Markup(answer.text).named("input")]
    assert 303 == (await browser.post(f"{group}/ignore", {"period": "week", "failures": "9"})).status_code
    assert "Nothing has failed" in await listed(browser)
    assert "until it has failed 10 times" in Markup((await browser.get(group)).text).words


async def test_dead_letters_of_a_group_are_run_again_as_an_operation(rig: Rig) -> None:
    """The page says how far it has come."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    job, _ = await fails(rig, "no!")
    await fails(rig, "no!", job=job)
    group = await first(browser)
    assert "2 runs that failed for good" in Markup((await browser.get(group)).text).words
    sent = await browser.post(f"{group}/redrive", {"note": "again"})
    assert 303 == sent.status_code
    page = Markup((await browser.get(sent.headers["location"])).text)
    assert "Dead letters are run again: 0 of 2 so far." in page.words
    assert ["2"] == [each["data-live"] for each in page.named("div") if "data-live" in each]
    assert 422 == (await browser.get(f"{group}?operation=x")).status_code


async def test_a_viewer_decides_nothing_and_another_namespace_sees_nothing(rig: Rig) -> None:
    """As in the API."""
    await fails(rig, "no!")
    viewer = await rig.signed_in("vera", ("viewer", "default"))
    group = await first(viewer)
    assert {"/logout", "/display"} == {
        each["action"] for each in Markup((await viewer.get(group)).text).named("form") if each.get("method") == "post"
    }
    for deed in ("resolve", "ignore", "reopen", "redrive"):
        assert 403 == (await viewer.post(f"{group}/{deed}", {"failures": "1"})).status_code
    await rig.here.key("in-team-a", "jobs:read", namespace="team-a")
    other = await rig.signed_in("eve", ("admin", "team-a"))
    assert 404 == (await other.get(f"{group}?namespace=team-a")).status_code
    for deed in ("resolve", "redrive"):
        assert 404 == (await other.post(f"{group}/{deed}?namespace=team-a")).status_code
    assert "no!" not in await listed(other, "?namespace=team-a")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_error_becomes_markup(rig: Rig, text: str) -> None:
    """In the list, on the page of the group, and in the filters."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    await fails(rig, f"ValueError: {text}")
    group = await first(browser)
    await browser.post(f"{group}/resolve", {"note": text[:200].replace("\x1b", "").replace("\x07", "")})
    for path in ("/errors?status=resolved", group):
        answer = await browser.get(path)
        assert 200 == answer.status_code, path
        _inert(Markup(answer.text))
        assert not {"\x1b", "\u202e", "\x07"} & set(answer.text), path


async def test_a_list_goes_on_page_by_page(rig: Rig) -> None:
    """Each filter is in the address, and a place that is none is refused."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    for number in range(27):
        await fails(rig, f"exit status {number + 1}")
    page = Markup((await browser.get("/errors?text=status")).text)
    assert 25 == len([each for each in page.named("a") if "data-row" in each])
    follow = next(each["href"] for each in page.named("a") if each.get("rel") == "next")
    assert "text=status" in follow
    rest = Markup((await browser.get(follow)).text)
    assert 2 == len([each for each in rest.named("a") if "data-row" in each])
    for cursor in (
        "x",
        "nan_019a2b3c-4d5e-8f60-9123-456789abcdef",
        "1e400_019a2b3c-4d5e-8f60-9123-456789abcdef",
        "1.0_x",
    ):
        assert 422 == (await browser.get(f"/errors?cursor={cursor}")).status_code
    assert 422 == (await browser.get("/errors?status=x&first_seen_after=y")).status_code
    assert "No error matches." in await listed(browser, "?text=nothing%25")
    assert 200 == (await browser.get("/errors?first_seen_after=2001-01-01T00%3A00%3A00%2B00%3A00")).status_code
