"""Objectives for starts on the pages: at their job, and on the first page."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tests.unit.web.test_pages import SHELL


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def test_an_objective_stands_at_its_job_and_on_the_first_page(rig: Rig) -> None:
    """With its share, its time and its budget; a job without one has no such part."""
    body = {"name": "bills", "every": "1h", "task": SHELL}
    plain = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
    said = {**body, "objective_start_seconds": 30, "objective_ratio": 0.995}
    job = (await rig.here.client.post(f"{API}/jobs", json=said)).json()["job_id"]
    browser = await rig.signed_in("looks", ("admin", "*"))
    page = Markup((await browser.get(f"/jobs/{job}")).text).words
    assert "99.5 % of the runs begin within 30 s of their due time." in page
    assert "nothing was due" in page
    assert "Objective for starts" not in Markup((await browser.get(f"/jobs/{plain}")).text).words
    first = Markup((await browser.get("/")).text).words
    assert "Objectives for starts" in first
    assert "99.5 % within 30 s: 0 of 0 runs late, budget left 100 %" in first


async def test_the_page_has_each_objective_and_leads_to_its_job(rig: Rig) -> None:
    """In the navigation; one by priority and labels is made and removed there."""
    browser = await rig.signed_in("looks", ("admin", "*"))
    empty = Markup((await browser.get("/objectives")).text)
    assert "There is no objective in default." in empty.words
    assert "/objectives" in {each["href"] for each in empty.named("a")}
    said = {"name": "bills", "every": "1h", "task": SHELL, "objective_start_seconds": 30}
    job = (await rig.here.client.post(f"{API}/jobs", json=said)).json()["job_id"]
    fields = {"name": "urgent <b>", "share": "99.5", "within": "5", "priority": "9", "labels": "team=data"}
    assert 303 == (await browser.post("/objectives", fields)).status_code
    page = Markup((await browser.get("/objectives?done=made")).text)
    assert f"/jobs/{job}" in {each["href"] for each in page.named("a")}
    for words in (
        "urgent <b>",
        "priority 9",
        "team=data",
        "99.5 % within 5.0 s",
        "99.0 % within 30 s",
        "nothing was due",
    ):
        assert words in page.words
    [made] = await rig.here.store.objectives.find("default")
    assert (9, {"team": "data"}, 0.995) == (made.priority, made.labels, made.ratio)
    path = f"/objectives/{made.objective_id}/remove"
    assert 422 == (await browser.post(path)).status_code
    assert 303 == (await browser.post(path, {"confirm": "yes"})).status_code
    assert [] == await rig.here.store.objectives.find("default")


async def test_a_form_that_makes_no_sense_says_so_at_its_field(rig: Rig) -> None:
    """And keeps what was typed."""
    browser = await rig.signed_in("looks", ("admin", "*"))
    good = {"name": "urgent", "share": "99", "within": "5", "priority": "", "labels": ""}
    for field, typed in (("share", "all"), ("share", "100"), ("within", "-1"), ("labels", "team")):
        answer = await browser.post("/objectives", {**good, field: typed})
        page = Markup(answer.text)
        assert 422 == answer.status_code
        [wrong] = [each for each in page.named("input") if each.get("aria-invalid") == "true"]
        assert (field, typed) == (wrong["name"], wrong["value"])
    assert 303 == (await browser.post("/objectives", good)).status_code
    assert 409 == (await browser.post("/objectives", good)).status_code


async def test_who_may_only_look_has_no_form(rig: Rig) -> None:
    """Nor a button to remove one."""
    admin = await rig.signed_in("makes", ("admin", "*"))
    fields = {"name": "urgent", "share": "99", "within": "5", "priority": "", "labels": ""}
    assert 303 == (await admin.post("/objectives", fields)).status_code
    browser = await rig.signed_in("looks", ("viewer", "default"))
    page = Markup((await browser.get("/objectives")).text)
    assert "urgent" in page.words
    assert "New objective" not in page.words
    assert "Remove" not in page.words
    assert 403 == (await browser.post("/objectives", {**fields, "name": "x"})).status_code
