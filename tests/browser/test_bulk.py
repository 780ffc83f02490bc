"""People do things to many jobs and runs at once, and see how far it is."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PASSWORD, PATIENCE_MS, Open, World, axe
from tests.browser.spaces import Space, space
from tests.support.local_up import local_up

Contexts = Callable[..., BrowserContext]
SHELL = {"kind": "shell", "command": "true"}
MANY = 10_000
NUMBERS = count(1)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A Tickwise of these tests alone: others open the menu of namespaces, and count jobs."""
    with local_up(tmp_path_factory.mktemp("bulk") / "data") as up:
        world = World(up)
        yield world
        world.client.close()


@pytest.fixture
def place(here: World) -> Iterator[Space]:
    """Where the jobs of a test are."""
    with space(here, f"bulk{next(NUMBERS)}") as made:
        yield made


@pytest.fixture
def many(place: Space) -> str:
    """The page of ten thousand jobs with a label."""
    for begin in range(0, MANY, 1_000):
        bodies = [
            {"name": f"customer {number}", "every": "24h", "task": SHELL, "labels": {"tier": "many"}}
            for number in range(begin, begin + 1_000)
        ]
        place.ask("POST", "/jobs:batch", bodies)
    return place.at("/jobs?label=tier%3Dmany")


@pytest.fixture
def few(place: Space) -> list[str]:
    """Five jobs with a label."""
    fields = {"every": "24h", "task": SHELL, "labels": {"tier": "few"}}
    return [place.client.job_create({"name": f"few {number}", **fields})["job_id"] for number in range(5)]


def _sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_rows_are_selected_and_paused(opened: Open, place: Space, few: list[str]) -> None:
    """The selection stays while the page is live; and it is taken back."""
    page = opened(place.at("/jobs?label=tier%3Dfew"))
    everything = page.get_by_label("Select all rows of this page")
    everything.check()
    expect(page.locator("[data-picked]")).to_have_text("(5)")
    everything.uncheck()
    page.get_by_label("Select few 1").check()
    page.get_by_label("Select few 3").check()
    expect(page.locator("[data-picked]")).to_have_text("(2)")
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("2 jobs")
    page.get_by_label("Reason").fill("only these")
    page.get_by_role("button", name="Pause 2 jobs").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("It is done")
    paused = [job for job in few if place.ask("GET", f"/jobs/{job}")["status"] == "PAUSED"]
    assert [few[1], few[3]] == paused
    assert axe(page) == []
    page.get_by_role("link", name="Take it back…").click()
    page.get_by_role("button", name="Resume 2 jobs").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("It is done")
    assert {"SCHEDULED"} == {place.ask("GET", f"/jobs/{job}")["status"] for job in few}


def test_many_are_paused_without_javascript(here: World, context: Contexts, place: Space, few: list[str]) -> None:
    """Rows have boxes, and the page of the operation is opened again by hand."""
    page = context(java_script_enabled=False, viewport={"width": 390, "height": 844}).new_page()
    page.goto(here.url + place.at("/jobs?label=tier%3Dfew"))
    _sign_in(page, place.developer)
    page.get_by_label("Select few 2").check()
    page.get_by_role("button", name="Pause…").click()
    page.get_by_label("Reason").fill("by hand")
    page.get_by_role("button", name="Pause 1 job").click()
    expect(page).to_have_url(re.compile("/bulk/"))
    end = time.monotonic() + PATIENCE_MS / 1_000
    while not page.get_by_text("It is done").count():
        assert time.monotonic() < end, page.inner_text("main")
        page.reload()
    assert "PAUSED" == place.ask("GET", f"/jobs/{few[2]}")["status"]


@pytest.mark.takes_up_to(300)
def test_ten_thousand_jobs_are_paused_and_the_operation_is_stopped(opened: Open, place: Space, many: str) -> None:
    """They are counted first; the page follows it; what is done stays done."""
    page = opened(many)
    page.get_by_label("With").select_option("all")
    page.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("heading", level=2)).to_have_text("10\N{NARROW NO-BREAK SPACE}000 jobs")
    page.get_by_label("Reason").fill("the tier is closed")
    page.get_by_role("button", name=re.compile("Pause 10.000 jobs")).click()
    expect(page.locator(".facts .lead")).not_to_have_text("0 paused")
    expect(page.get_by_text("left", exact=False).first).to_be_visible()
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("It was stopped")
    operation = place.ask("GET", f"/operations/{page.url.split('/bulk/')[1].split('?')[0]}")
    assert ("cancelled", MANY, True) == (operation["status"], operation["matched"], 0 < operation["done"] < MANY)
    page.get_by_role("navigation").get_by_role("link", name="Operations").click()
    expect(page.locator("tbody tr").first).to_contain_text("Stopped")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_operations_fit_a_phone(opened: Open, place: Space, few: list[str], scheme: str) -> None:
    """The question, the operation and the list."""
    asked = place.ask("POST", "/jobs:pause", {"filter": {"job_ids": few[:1]}})["operation_id"]
    for path in ("/bulk", f"/bulk/{asked}", "/bulk/jobs/pause?of=all&label=tier%3Dfew", "/jobs", "/runs"):
        page = opened(place.at(path), viewport={"width": 390, "height": 844}, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert axe(page) == [], path
