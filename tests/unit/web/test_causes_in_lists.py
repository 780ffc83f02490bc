"""What lists and the overview say at a glance: the cause of a failure, what is held back, and what nobody serves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.domain.decision import Hold, SkipReason, TimerState
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.ports.store import ClaimRequest, FireRequest, JobQuery
from tickwise.testing.contracts.base import taken
from tickwise.testing.factories import Factory, executor, outcome
from tickwise.web import charts
from tickwise.web.views.overview import _held_back
from tickwise.web.views.rows import lateness_of

TRACE = (
    "exit status 1: "
    + "a line of output\n" * 30
    + "Traceback (most recent call last):\n  File x\nValueError: no money\n"
)
TASK = {"kind": "shell", "command": "true"}
DAY = 86_400.0


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def _job(rig: Rig, **fields: Any) -> str:
    made = await rig.here.client.post(f"{API}/jobs", json={"name": "books", "task": TASK, **fields})
    assert 201 == made.status_code, made.text
    return str(made.json()["job_id"])


async def _run(rig: Rig, job: str) -> str:
    made = await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})
    return str(made.json()["run_id"])


async def _failed(rig: Rig, job: str, error: str) -> str:
    """A run of the job that failed."""
    store, run = rig.here.store, await _run(rig, job)
    row = await store.jobs.get("default", UUID(job))
    assert row is not None
    number = await store.executors.join(executor())
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=50, ahead_seconds=1.0
    )
    for each in await store.attempts.claim(request):
        await store.attempts.finish(number, [outcome(each, RunState.FAILED, reason="exit_code", error=error)])
    return run


async def _words(browser: Browser, path: str) -> str:
    answer = await browser.get(path)
    assert 200 == answer.status_code, answer.text
    return Markup(answer.text).words


async def test_a_stopped_job_is_marked_in_the_list_and_on_its_page(rig: Rig) -> None:
    """Also one without a schedule: what is asked for waits."""
    job = await _job(rig, schedule_type="ON_DEMAND", labels={"customer": "acme"})
    await _job(rig, name="another", every="1h")
    ada = await rig.signed_in("ada", ("operator", "default"))
    stop = {"what": "labels", "which": "customer=acme", "reason": "their database moves", "for": "60"}
    assert 303 == (await ada.post("/stops", stop)).status_code
    marks = [each for each in Markup((await ada.get("/jobs")).text).named("a") if "mark" in each.get("class", "")]
    assert 1 == len(marks)
    assert "by ada: their database moves" in marks[0]["title"]
    words = await _words(ada, f"/jobs/{job}")
    assert "were stopped by ada" in words
    assert "runs of the job are asked for, and wait until then" in words
    assert "has no schedule" not in words


async def test_a_stop_of_nothing_is_called_so(rig: Rig) -> None:
    """Of a label that no job has, and of a queue that no job has used; else the number of jobs is shown."""
    await _job(rig, every="1h", labels={"customer": "acme"})
    ada = await rig.signed_in("ada", ("operator", "default"))
    said = "/stops/new?reason=x&for=60&what="
    assert "No job has this label." in await _words(ada, f"{said}labels&which=customer%3Dacne")
    assert "No job has used this queue." in await _words(ada, f"{said}queue&which=nowhere")
    words = await _words(ada, f"{said}labels&which=customer%3Dacme")
    assert "job concerned1" in words
    assert "No job has" not in words


async def test_a_queue_that_nobody_serves_is_told_where_it_matters(rig: Rig) -> None:
    """On the queues, on the overview, and while a job is made."""
    await rig.here.store.executors.join(executor())
    job = await _job(rig, schedule_type="ON_DEMAND", queue="reports")
    ada = await rig.signed_in("ada", ("developer", "default"))
    assert "no executor serves it" not in await _words(ada, "/queues")
    await _run(rig, job)
    assert "no executor serves it" in await _words(ada, "/queues")
    assert "Runs wait in the queue reports, and no active executor serves it." in await _words(ada, "/")
    form = {"form": "job", "name": "x", "kind": "shell", "task.command": "true", "schedule_type": "ON_DEMAND"}
    for queue, told in (("reports", True), ("default", False)):
        answer = await ada.post("/jobs/new", {**form, "queue": queue, "action": "preview"})
        assert told is ("No active executor serves the queue" in Markup(answer.text).words), queue


async def test_the_main_line_of_an_error_is_shown_and_all_of_it_is_at_hand(rig: Rig) -> None:
    """In the list of runs, on the page of the job and on the overview. The lateness is that of the first attempt."""
    job = await _job(rig, schedule_type="ON_DEMAND", max_retries=0)
    await _failed(rig, job, TRACE)
    ada = await rig.signed_in("ada", ("operator", "default"))
    for path in ("/runs", "/", f"/jobs/{job}"):
        page = Markup((await ada.get(path)).text)
        assert "exit status 1: ValueError: no money the whole error" in page.words, path
        assert "a line of output" in page.words, path


async def test_who_sees_some_jobs_alone_is_told_of_their_failures(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a person has no counts of the namespace; the verdict names the failures that they see, and no others."""
    monkeypatch.setattr(charts, "HOUR", 1e9)  # no hour ends during the test
    for team in ("red", "blue"):
        await _failed(rig, await _job(rig, schedule_type="ON_DEMAND", max_retries=0, labels={"team": team}), TRACE)
    person = {"name": "Red", "password": "four quiet herons wade", "roles": [
        {"role": "viewer", "namespace": "default", "labels": {"team": "red"}}]}  # fmt: skip
    assert 201 == (await rig.here.client.post(f"{API}/users", json=person)).status_code
    browser = rig.browser()
    assert 303 == (await browser.sign_in("Red")).status_code
    assert "One run failed in this hour." in Markup((await browser.get("/")).text).words


async def test_a_job_that_is_held_back_is_not_overdue(rig: Rig) -> None:
    """By a stop, a pause, a calendar or a window: each says which."""
    await _job(rig, every="1h", labels={"customer": "acme"})
    [row] = await rig.here.store.searches.jobs(JobQuery(namespace="default"))
    assert _held_back(row, ()) is None
    stop = Factory(await rig.here.store.now()).stop()
    assert f"stopped by {stop.by}: {stop.reason}" == _held_back(row, [stop])
    for hold in Hold:
        held = row._replace(timer=TimerState(1.0, 1.0, hold, 0))
        assert _held_back(held, ()) is not None, hold


async def test_the_bars_of_the_overview_lead_to_their_runs(rig: Rig) -> None:
    """Of that hour and that state."""
    job = await _job(rig, schedule_type="ON_DEMAND", max_retries=0)
    run = await _failed(rig, job, "no")
    ada = await rig.signed_in("ada", ("operator", "default"))
    links = [each["href"] for each in Markup((await ada.get("/")).text).named("a") if "due_before" in each["href"]]
    assert 1 == len(links)
    assert "status=FAILED" in links[0]
    assert run in (await ada.get(links[0])).text


async def test_the_lateness_of_a_run_that_was_tried_again_is_that_of_its_first_attempt(rig: Rig) -> None:
    """A row knows the last attempt; without the first one nothing is claimed."""
    run = await _failed(rig, await _job(rig, schedule_type="ON_DEMAND", max_retries=0), "no")
    row = await rig.here.store.runs.get("default", UUID(run))
    assert row is not None
    again = row._replace(attempt=3, started_at=row.due_at + 50.0)
    assert lateness_of(again) is None
    assert 2.0 == lateness_of(again, {row.run_id: row.due_at + 2.0})
    assert 50.0 == lateness_of(again._replace(attempt=1), {})
    who = Principal("ada", "default", frozenset({"runs:read"}))
    found = await rig.here.control.runs.first_starts(who, [row, again])
    assert {row.run_id: row.started_at} == found
    elsewhere = await rig.here.control.runs.first_starts(who, [again._replace(namespace="team-a")])
    assert {} == elsewhere


async def test_snooze_and_skip_name_their_times_on_the_clock_of_the_job(rig: Rig) -> None:
    """And the field begins with the time that is there."""
    job = await _job(rig, cron="30 2 1 1 *", timezone="Asia/Tokyo")
    ada = await rig.signed_in("ada", ("operator", "default"))
    page = Markup((await ada.get(f"/jobs/{job}")).text)
    assert 2 == page.words.count("01-01 02:30:00 in Asia/Tokyo")
    until = [each["value"] for each in page.named("input") if each.get("name") == "until" and each.get("value")]
    assert ["01-01T02:30"] == [each[5:] for each in until]


async def test_a_page_of_a_run_says_whether_its_task_was_changed_since(rig: Rig) -> None:
    """A retry would do something else then; another schedule, another label or a pause say nothing."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    job = await _job(rig, every="1h")
    run = await _failed(rig, job, "exit status 3: no disk")
    here, told = f"{API}/jobs/{job}", "task or payload was changed"
    for change in ({"labels": {"team": "data"}}, {"every": "2h"}, {"max_retries": 9}):
        assert 200 == (await rig.here.client.patch(here, json=change)).status_code
    await rig.here.client.post(f"{here}/pause", json={"reason": "x"})
    for path in (f"/runs/{run}", "/dead-letters"):
        assert told not in Markup((await browser.get(path)).text).words, path
    assert 200 == (await rig.here.client.patch(here, json={"payload": {"a": 1}})).status_code
    for path in (f"/runs/{run}", "/dead-letters"):
        assert told in Markup((await browser.get(path)).text).words, path


async def test_the_page_of_a_run_leads_with_its_cause(rig: Rig) -> None:
    """All of the error stands below it, and the reason is a word beside it."""
    browser = await rig.signed_in("ada", ("operator", "default"))
    run = await _failed(rig, await _job(rig, every="1h"), TRACE)
    page = Markup((await browser.get(f"/runs/{run}")).text)
    assert "exit status 1: ValueError: no money" in page.words.partition("Reason: exit_code")[0]
    assert "Reason: exit_code" in page.words
    assert "Traceback (most recent call last)" in page.words


async def test_a_label_leads_to_a_stop_of_its_jobs(rig: Rig) -> None:
    """From the list that it filters, with the label filled in."""
    await _job(rig, every="1h", labels={"customer": "acme"})
    browser = await rig.signed_in("ada", ("operator", "default"))
    page = Markup((await browser.get("/jobs?label=customer%3Dacme")).text)
    [found] = {each["href"] for each in page.named("a") if each.get("href", "").startswith("/stops?")}
    assert 'value="customer=acme"' in (await browser.get(found)).text
    assert "for a time" not in (await browser.get("/jobs?label=customer%3Dacme&name=b")).text


async def test_what_did_not_run_is_told_on_the_overview(rig: Rig) -> None:
    """By times and jobs, with the list that shows them. What somebody chose to skip is not counted, nor is what was
    over before the day began."""
    store, ada = rig.here.store, await rig.signed_in("ada", ("viewer", "default"))
    now = await store.now()
    make = Factory(now)
    jobs = [make.recurring(now) for _ in range(3)]
    for job in jobs:
        await store.jobs.add([job])
    assert "did not run" not in await _words(ada, "/")
    expired = make.skip(jobs[0].job_id, now - 3 * DAY, until=now - 60.0, occurrences=70, reason=SkipReason.EXPIRED)
    skips = {
        jobs[0].job_id: [expired, make.skip(jobs[0].job_id, now - 30.0, reason=SkipReason.MISFIRE)],
        jobs[1].job_id: [make.skip(jobs[1].job_id, now - 30.0, reason=SkipReason.OVERLAP)],
        jobs[2].job_id: [make.skip(jobs[2].job_id, now - 2 * DAY, reason=SkipReason.EXPIRED)],
    }
    async with taken(store, FireRequest(horizon_seconds=2.0, limit=100)) as batch:
        await batch.commit([make.fire(job, now, None, runs=(), skips=each) for job, each in skips.items()])
    page_text = (await ada.get("/")).text
    assert "71 times of one job did not run in 24 hours." in Markup(page_text).words
    verdict = Markup(page_text.partition('aria-label="Health"')[2].partition("</section>")[0])
    [link] = [each["href"] for each in verdict.named("a") if "SKIPPED" in each.get("href", "")]
    shown = Markup((await ada.get(link)).text)
    links = {each.get("href", "") for each in shown.named("a")}
    assert any(str(expired.run_id) in each for each in links), links
