"""The page of stops: what one would hold back is shown before it is confirmed, and each page says what is stopped."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.stops import Stop, StopScope
from tickwise.ports.store import JobQuery, StopQuery

HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
CHOSEN = {"what": "labels", "which": "customer=acme, env=prod", "reason": "their database moves", "for": "60"}


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        for name, labels in (("nightly export", {"customer": "acme", "env": "prod"}), ("heartbeat", {})):
            body = {"name": name, "cron": "*/5 * * * *", "labels": labels, "task": {"kind": "shell", "command": "date"}}
            assert 201 == (await made.here.client.post(f"{API}/jobs", json=body)).status_code
        yield made


async def standing(rig: Rig) -> list[Stop]:
    """The stops of the namespace."""
    return list(await rig.here.store.stops.find(StopQuery(namespace="default", over_seconds=0.0)))


def address(**said: str) -> str:
    """Of a preview."""
    return "/stops/new?" + urlencode({**CHOSEN, **said})


async def confirmed(browser: Browser, page: Markup) -> Any:
    """Send the form of a preview as it stands."""
    fields = {each["name"]: each["value"] for each in page.named("input") if each.get("type") == "hidden"}
    return await browser.post("/stops", fields)


async def test_a_stop_is_looked_at_before_it_is_made(rig: Rig) -> None:
    """The preview changes nothing; its form makes the stop, for as long, with the reason."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    first = Markup((await browser.get("/stops")).text)
    assert "Nothing is stopped in default." in first.words
    page = Markup((await browser.get(address())).text)
    assert "Nothing is stopped yet." in page.words
    assert "nightly export" in page.words
    assert "heartbeat" not in page.words
    [jobs] = [each["href"] for each in page.named("a") if each.get("href", "").startswith("/jobs?label=")]
    listed = Markup((await browser.get(jobs)).text).words
    assert (True, False) == ("nightly export" in listed, "heartbeat" in listed)
    assert [] == await standing(rig)
    assert 303 == (await confirmed(browser, page)).status_code
    [stop] = await standing(rig)
    assert StopScope({"customer": "acme", "env": "prod"}) == stop.scope
    assert (3600, "their database moves", "ops") == (round(stop.until - stop.begin), stop.reason, stop.by)


async def test_counts_of_a_preview_are_bounded_and_say_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a way to all of them, for a person who may see them."""
    monkeypatch.setattr("tickwise.control.stops.service.MAX_COUNTED", 2)
    monkeypatch.setattr("tickwise.web.views.stops.MAX_COUNTED", 2)
    labels = {"customer": "acme", "env": "prod"}
    for _ in range(3):
        body = {
            "name": "once",
            "schedule_type": "IMMEDIATE",
            "labels": labels,
            "task": {"kind": "shell", "command": "a"},
        }
        assert 201 == (await rig.here.client.post(f"{API}/jobs", json=body)).status_code
    browser = await rig.signed_in("ops", ("operator", "default"))
    page = Markup((await browser.get(address())).text)
    assert "jobs concerned2 or more" in "".join(page.words.split("  "))
    [runs] = [each["href"] for each in page.named("a") if each.get("href", "").startswith("/runs?status=QUEUED")]
    assert 3 == Markup((await browser.get(runs)).text).words.count("once")


async def test_each_page_says_what_is_stopped(rig: Rig) -> None:
    """To each visitor of the namespace who may read its jobs, and in no other namespace."""
    ops = await rig.signed_in("ops", ("operator", "default"))
    await confirmed(ops, Markup((await ops.get(address())).text))
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    [job, *_] = await rig.here.store.searches.jobs(JobQuery(namespace="default", limit=1))
    for path in ("/", "/jobs", "/runs", "/queues", "/executors", f"/jobs/{job.job_id}"):
        words = Markup((await viewer.get(path)).text).words
        assert "The jobs with the labels customer=acme, env=prod are stopped" in words, path
        assert "by ops: their database moves" in words.lower(), path
    assert "Lift now" not in (await viewer.get("/stops")).text
    await rig.here.key("elsewhere", "jobs:read", namespace="team-a")
    other = await rig.signed_in("other", ("viewer", "team-a"))
    assert "are stopped" not in (await other.get("/jobs?namespace=team-a")).text


async def test_a_lifted_stop_is_told_as_over(rig: Rig) -> None:
    """And no page says any more that something is stopped."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    await confirmed(browser, Markup((await browser.get(address())).text))
    [stop] = await standing(rig)
    assert 303 == (await browser.post(f"/stops/{stop.stop_id}/lift")).status_code
    assert "are stopped" not in (await browser.get("/jobs")).text
    words = Markup((await browser.get("/stops")).text).words
    assert "Nothing is stopped in default." in words
    assert "lifted by ops" in words


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"which": "acme"}, "which"),
        ({"which": ""}, "which"),
        ({"what": "job", "which": "nothing"}, "which"),
        ({"what": "everything"}, "what"),
        ({"reason": " "}, "reason"),
        ({"for": "never"}, "for"),
        ({"from": "2001-01-01T00:00"}, "from"),
        ({"until": "yesterday"}, "until"),
    ],
)
async def test_a_fault_stands_at_its_field_with_what_was_typed(rig: Rig, said: dict[str, str], field: str) -> None:
    """In the form, by the preview as by the stop itself."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    for answer in (await browser.get(address(**said)), await browser.post("/stops", {**CHOSEN, **said})):
        assert 422 == answer.status_code
        page = Markup(answer.text)
        assert [each for each in page.named("span") if each.get("id") == f"fault-{field}"], answer.text
        typed = {each.get("name"): each.get("value") for each in page.named("input")}
        assert {**CHOSEN, **said}["which"] == typed["which"]
    assert [] == await standing(rig)


async def test_the_form_comes_back_as_it_was_chosen(rig: Rig) -> None:
    """The preview leads back to it."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    page = Markup((await browser.get(address(meanwhile="skip", **{"for": "lifted"}))).text)
    [back] = [each["href"] for each in page.named("a") if each["href"].startswith("/stops?")]
    form = (await browser.get(back)).text
    assert "their database moves" in form
    assert [True, True] == [
        f'<option value="{value}" selected>' in form.replace("\n", "") for value in ("skip", "lifted")
    ]


async def test_no_text_of_a_stop_becomes_markup(rig: Rig) -> None:
    """In its reason, in the names and values of labels, on every page."""
    browser = await rig.signed_in("ops", ("operator", "default"))
    page = Markup((await browser.get(address(which=f"{HOSTILE[:40]}=x", reason=HOSTILE))).text)
    assert 303 == (await confirmed(browser, page)).status_code
    for path in ("/", "/jobs", "/stops", address(reason=HOSTILE)):
        text = (await browser.get(path)).text
        assert "<script>alert" not in text, path
        assert "<img" not in text, path


async def test_pages_are_there_while_nobody_can_say_what_is_stopped(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without the banner is better than none."""
    browser = await rig.signed_in("viewer", ("viewer", "default"))

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(rig.here.store.stops, "find", away)
    assert 200 == (await browser.get("/jobs")).status_code


async def test_the_conditions_of_a_wait_stand_behind_its_sentence(rig: Rig) -> None:
    """On the page of the job and of the run, each with its evidence, and a link to the stop."""
    ops = await rig.signed_in("ops", ("operator", "default"))
    await confirmed(ops, Markup((await ops.get(address())).text))
    [job] = await rig.here.store.searches.jobs(JobQuery(namespace="default", labels={"customer": "acme"}, limit=1))
    run = (await rig.here.client.post(f"{API}/jobs/{job.job_id}/runNow", json={})).json()["run_id"]
    for path in (f"/runs/{run}", f"/jobs/{job.job_id}"):
        page = Markup((await ops.get(path)).text)
        assert "keeps it from starting" in page.words, path
        assert "What would change it" in page.words, path
        assert "no executor is active" in page.words, path
        assert "their database moves" in page.words, path


async def test_who_may_not_cancel_runs_is_not_asked_about_it(rig: Rig) -> None:
    """A viewer is not offered a stop at all."""
    viewer = await rig.signed_in("viewer", ("viewer", "default"))
    assert "Stop something" not in (await viewer.get("/stops")).text
    operator = await rig.signed_in("ops", ("operator", "default"))
    assert 'name="cancel_running"' in (await operator.get("/stops")).text
