"""The pages for people with other eyes, hands and screens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import COLOURS, Open, World, axe
from tickwise.web.navigation import DOORS

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DARK: dict[str, Any] = {"color_scheme": "dark"}
GROUND = "getComputedStyle(document.body).backgroundColor"


def _paths(here: World) -> list[str]:
    return [
        *(door.path for door in DOORS), f"/jobs/{here.jobs['reports in colour']}",
        f"/jobs/{here.jobs['closes the books']}", f"/jobs/{here.jobs['fails']}", f"/runs/{here.failed}",
        f"/runs/{here.long}",
        f"/runs/{here.long}?at=5000&find=line+4", "/runs?col=payload.for,label.team", "/find?q=o", "/logs?find=line",
        "/timeline?view=week", "/namespaces/default", "/jobs?name=nothing", "/nothing",
    ]  # fmt: skip


@pytest.mark.takes_up_to(400)
@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing(here: World, opened: Open, screen: dict[str, Any]) -> None:
    """On any page: contrast, names, order, roles (WCAG 2.2 AA). In the dark its elements have other colours."""
    page = opened("/", expects="404", **screen)
    found = {}
    for path in _paths(here):
        page.emulate_media(color_scheme="light")
        page.goto(here.url + path)
        # Not by clicks: an open menu covers what is below it.
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        problems = axe(page)
        light = page.evaluate(GROUND)
        page.emulate_media(color_scheme="dark")
        assert light != page.evaluate(GROUND)
        if problems := [*problems, *(f"dark: {each}" for each in axe(page, *COLOURS))]:
            found[path] = problems
    assert found == {}


def test_axe_finds_nothing_at_the_sign_in(here: World, opened: Open) -> None:
    """Nor after a wrong password."""
    page = opened("/login", link=False)
    assert axe(page) == []


def test_a_phone_scrolls_down_and_not_aside(here: World, opened: Open) -> None:
    """Tables scroll within themselves."""
    page = opened("/", **PHONE)
    for path in _paths(here)[:-1]:
        page.goto(here.url + path)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path


def test_a_long_name_takes_two_lines_of_a_list(here: World, opened: Open) -> None:
    """A name without a place to break it hides no other row; the page of the job has all of it."""
    name = "W" * 200
    body = {"name": name, "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}}
    job = here.client.job_create(body)["job_id"]
    page = opened("/jobs?name=" + "W" * 20)
    lines = "(link) => link.getBoundingClientRect().height / parseFloat(getComputedStyle(link).lineHeight)"
    assert 2 == round(page.locator(f"td.name a[href*='{job}']").first.evaluate(lines))
    page.goto(f"{here.url}/jobs/{job}")
    assert name == "".join((page.locator("h1").text_content() or "").replace("\u200b", "").split())


def test_the_keyboard_is_enough(here: World, opened: Open) -> None:
    """`/` finds, `g j` goes, `j` and `k` walk, `?` tells. In a field they are letters."""
    page = opened("/")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(here.url + "/jobs")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("[data-row]").nth(1)
    expect(second).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("/")
    field = page.get_by_label("A part of the name", exact=True)
    expect(field).to_be_focused()
    page.keyboard.type("g j?")
    expect(field).to_have_value("g j?")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.goto(here.url + "/")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()


def test_light_and_dark_are_a_choice_that_stays(here: World, opened: Open) -> None:
    """The system's at first; then the visitor's, on each page from the first moment on."""
    page = opened("/", **DARK)
    dark = page.evaluate(GROUND)
    page.locator("summary", has_text="admin").click()
    page.get_by_label("Colours").select_option("light")
    page.get_by_role("button", name="Show it so").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(GROUND) != dark
    page.goto(here.url + "/jobs")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.evaluate(GROUND) != dark


def test_times_say_both_what_and_how_long_ago(here: World, opened: Open) -> None:
    """In `<time>`, for programs too."""
    page = opened("/runs")
    time = page.locator("tbody time").first
    expect(time).to_have_attribute("datetime", re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$"))
    expect(time).to_have_attribute("title", re.compile(r"UTC$"))
    expect(time).to_have_text(re.compile("ago|now"))


@pytest.mark.parametrize("screen", [{}, {**PHONE, **DARK}], ids=["light", "dark phone"])
def test_axe_finds_nothing_in_what_opens_over_a_page(here: World, opened: Open, screen: dict[str, Any]) -> None:
    """The palette with what it found, the list of keys, and the menus."""
    page = opened("/jobs", **screen)
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.locator("#palette input").press_sequentially("o")
    page.locator("#palette [data-goals] a").first.wait_for()
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert axe(page) == []
    page.keyboard.press("Escape")
    for menu in page.locator("summary", has_text=re.compile("admin|default")).all():
        menu.click()
        assert axe(page) == []
