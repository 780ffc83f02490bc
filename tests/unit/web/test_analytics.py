"""The page of analytics: its rows, its filters, its links, and its table for spreadsheets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import pytest_asyncio

from tests.support.pages import Browser, Markup, Rig, pages
from tests.unit.web.test_errors import fails
from tests.unit.web.test_pages import HOSTILE, SHELL, _inert


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


@pytest_asyncio.fixture
async def browser(rig: Rig) -> Browser:
    return await rig.signed_in("looks", ("admin", "*"))


async def test_groups_lead_to_what_they_count(rig: Rig, browser: Browser) -> None:
    """A job to its page, a reason to the runs that ended for it, in the time that is shown."""
    job, _ = await fails(rig, "no disk")
    page = Markup((await browser.get("/analytics")).text)
    assert f"/jobs/{job}" in {each.get("href") for each in page.named("a")}
    assert ("writes reports" in page.words, "Total" in page.words) == (True, True)
    reasons = Markup((await browser.get("/analytics?group_by=reason")).text)
    [link] = [each["href"] for each in reasons.named("a") if each.get("href", "").startswith("/runs?")]
    asked = parse_qs(urlsplit(link).query)
    assert ["exit_code"] == asked["reason"]
    assert 200 == (await browser.get(link)).status_code
    listed = Markup((await browser.get(link)).text)
    assert "writes reports" in listed.words


async def test_filters_stay_in_the_form_the_table_and_the_commands(rig: Rig, browser: Browser) -> None:
    """The address says all: it is what the file and the commands ask for."""
    await fails(rig, "no disk")
    page = Markup((await browser.get("/analytics?group_by=hour&status=FAILED&label=&sort=failed")).text)
    hrefs = {each.get("href", "") for each in page.named("a")}
    assert "/analytics.csv?group_by=hour&sort=failed&status=FAILED" in hrefs
    assert "tickwise analytics --group-by=hour --status=FAILED --sort=failed --namespace default" in page.words
    assert "client.request" in page.words
    assert "/api/v1/analytics?group_by=hour" in page.words
    answer = await browser.get("/analytics.csv?group_by=hour&status=FAILED")
    assert (200, "text/csv; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    assert answer.text.startswith("kind,key,name,runs,")
    assert "\r\ntotal,,,1,0,1," in answer.text


async def test_nothing_to_count_says_what_to_do(browser: Browser) -> None:
    """With and without filters."""
    assert "No run has ended in the last day." in Markup((await browser.get("/analytics")).text).words
    assert "No ended run matches." in Markup((await browser.get("/analytics?status=FAILED")).text).words


@pytest.mark.parametrize(
    "query", ["group_by=colour", "from=2000", "status=RUNNING", "top=0", "sort=x", "colour=red", "label=x"]
)
async def test_a_question_that_makes_no_sense_is_refused(browser: Browser, query: str) -> None:
    """As a page that says what is wrong."""
    for path in ("/analytics", "/analytics.csv"):
        assert 422 == (await browser.get(f"{path}?{query}")).status_code


async def test_hostile_names_do_nothing(rig: Rig, browser: Browser) -> None:
    """Neither as the name of a job nor in a filter."""
    for name in HOSTILE:
        body = {"name": name, "schedule_type": "ON_DEMAND", "task": SHELL, "max_retries": 0}
        answer = await rig.here.client.post("/api/v1/jobs", json=body)
        assert answer.is_success == (not set(name) & set("\x1b\x00\n")), name
        if answer.is_success:
            await fails(rig, "x", job=str(answer.json()["job_id"]))
        for query in ("", f"?job_name={quote(name)}", f"?group_by={quote(f'label:{name}')}"):
            _inert(Markup((await browser.get(f"/analytics{query}")).text))


async def test_namespaces_lead_to_their_own_analytics(rig: Rig, browser: Browser) -> None:
    """For a visitor that may read the runs of each."""
    await fails(rig, "no disk")
    page = Markup((await browser.get("/analytics?group_by=namespace")).text)
    assert "of all namespaces" in page.words
