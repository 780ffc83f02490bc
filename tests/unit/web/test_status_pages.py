"""Status pages as administrators make them, without a script."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def stored(rig: Rig) -> dict[str, Any]:
    """The one page, as the API tells it."""
    [found] = (await rig.here.client.get(f"{API}/status-pages")).json()
    return dict(found)


async def made_of(rig: Rig, browser: Browser) -> str:
    """The address of a new page of the administrator."""
    answer = await browser.post("/status-pages", {"slug": "acme", "title": "Acme <b>"})
    assert 303 == answer.status_code, answer.text
    return answer.headers["location"].partition("?")[0]


async def test_a_page_is_made_filled_and_shown(rig: Rig) -> None:
    """Hidden at first; components by rows; then anybody reads it."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "export", "key": "ex", "every": "1h"})).json()
    browser = await rig.signed_in("Ada", ("admin", "default"))
    assert "There is no status page" in (await browser.get("/status-pages")).text
    path = await made_of(rig, browser)
    first = Markup((await browser.get(path)).text)
    assert "hidden" in first.words
    assert "Acme <b>" in first.words
    form = {
        "version": "1", "slug": "acme", "title": "Acme", "intro": "Hello", "enabled": "yes", "show_uptime": "yes",
        "history_days": "30", "name_0": "Exports", "jobs_0": "ex", "labels_0": "", "name_1": "Mail", "jobs_1": "",
        "labels_1": "team=mail, env=prod",
    }  # fmt: skip
    answer = await browser.post(path, form)
    assert (303, f"{path}?done=changed") == (answer.status_code, answer.headers["location"])
    found = await stored(rig)
    assert (True, True, False, 30, 2) == tuple(
        found[name] for name in ("enabled", "show_uptime", "show_punctuality", "history_days", "version")
    )
    assert [("Exports", [job["job_id"]], {}), ("Mail", [], {"team": "mail", "env": "prod"})] == [
        (each["name"], each["jobs"], each["labels"]) for each in found["components"]
    ]
    shown = Markup((await browser.get(path)).text)
    assert {"name": "labels_1", "value": "team=mail, env=prod"}.items() <= {
        **next(each for each in shown.named("input") if each.get("name") == "labels_1")
    }.items()
    assert "Exports" in Markup((await rig.browser().get("/status/acme")).text).words


async def test_a_form_that_is_refused_keeps_what_was_typed(rig: Rig) -> None:
    """With the fault at its field; a page that was changed meanwhile is a conflict."""
    browser = await rig.signed_in("Ada", ("admin", "default"))
    path = await made_of(rig, browser)
    form = {"version": "1", "slug": "acme", "title": "Typed", "history_days": "90", "name_0": "A", "name_1": "A"}
    refused = await browser.post(path, form)
    found = Markup(refused.text)
    assert 422 == refused.status_code
    assert "two components have the name" in found.words
    fields = {each["name"]: each for each in found.named("input") if "name" in each}
    assert ("Typed", "A", "true") == (
        fields["title"]["value"], fields["name_1"]["value"], fields["name_1"]["aria-invalid"],
    )  # fmt: skip
    assert 303 == (await browser.post(path, {**form, "name_1": ""})).status_code
    again = await browser.post(path, {**form, "name_1": ""})
    assert 409 == again.status_code
    assert "was changed since version 1" in Markup(again.text).words
    taken = await browser.post("/status-pages", {"slug": "acme", "title": "Other"})
    assert (409, True) == (taken.status_code, "is taken" in taken.text)


async def test_people_on_call_announce_and_resolve(rig: Rig) -> None:
    """An operator may; the page itself stays as it is."""
    admin = await rig.signed_in("Ada", ("admin", "default"))
    path = await made_of(rig, admin)
    form = {"version": "1", "slug": "acme", "title": "Acme", "enabled": "yes", "history_days": "0", "name_0": "Mail"}
    await admin.post(path, form)
    operator = await rig.signed_in("Bob", ("operator", "default"))
    assert "What it shows" not in (await operator.get(path)).text
    told = {"kind": "incident", "title": "Mail is late", "text": "We look.", "about_0": "yes"}
    assert 422 == (await operator.post(f"{path}/announcements", {**told, "text": " "})).status_code
    assert 303 == (await operator.post(f"{path}/announcements", told)).status_code
    page = Markup((await operator.get(path)).text)
    [action] = {
        each["action"] for each in page.named("form")
        if "/announcements/" in each.get("action", "") and not each["action"].endswith("/remove")
    }  # fmt: skip
    assert "Mail is late" in (await rig.browser().get("/status/acme")).text
    assert 422 == (await operator.post(action, {"state": "ended", "text": "x"})).status_code
    assert 303 == (await operator.post(action, {"state": "resolved", "text": "All is sent."})).status_code
    assert "resolved" in (await operator.get(path)).text
    assert 303 == (await operator.post(f"{action}/remove")).status_code
    assert "Nothing is announced" in (await operator.get(path)).text


async def test_a_page_is_removed_after_a_tick(rig: Rig) -> None:
    """And not without."""
    browser = await rig.signed_in("Ada", ("admin", "default"))
    path = await made_of(rig, browser)
    assert 422 == (await browser.post(f"{path}/remove")).status_code
    assert 303 == (await browser.post(f"{path}/remove", {"confirm": "yes"})).status_code
    assert 404 == (await browser.get(path)).status_code
