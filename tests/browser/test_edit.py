"""People create and edit jobs in the browser: with a keyboard, without JavaScript, on a phone, two at one job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PASSWORD, Open, World, axe
from tests.browser.spaces import Space, space
from tests.support.local_up import local_up

Contexts = Callable[..., BrowserContext]
SHELL = {"kind": "shell", "command": "true"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A Tickwise of these tests alone: others open the menu of namespaces, and count jobs."""
    with local_up(tmp_path_factory.mktemp("edit") / "data") as up:
        world = World(up)
        yield world
        world.client.close()


@pytest.fixture(scope="module")
def place(here: World) -> Iterator[Space]:
    """Where the jobs of these tests are."""
    with space(here, "edits") as made:
        yield made


@pytest.fixture
def job(place: Space) -> str:
    """A job of one test."""
    made: str = place.client.job_create({"name": "shared job", "cron": "0 3 * * *", "task": SHELL})["job_id"]
    return made


def _sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.takes_up_to(240)
def test_a_job_is_made_while_the_next_times_are_shown(opened: Open, place: Space) -> None:
    """Typing asks the server; a fault has the focus and keeps what was typed; the job runs."""
    page = opened(place.at("/jobs"), link=False, expects="422")
    _sign_in(page, place.developer)
    page.get_by_role("link", name="New job").click()
    page.get_by_label("Name", exact=True).fill("made on a page")
    page.get_by_label("Python script", exact=True).check(force=True)
    expect(page.locator("#f-task-command")).to_be_hidden()
    page.get_by_label("Script", exact=True).fill("print('made by hand')")
    page.get_by_role("textbox", name="Cron line").press_sequentially("30 2 28 3 *", delay=10)
    page.get_by_label("Time zone").fill("Europe/Berlin")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("clock change")
    expect(preview).to_contain_text("2027-03-28 03:00:00")
    page.get_by_role("textbox", name="Cron line").fill("61 * * * *")
    expect(preview).to_contain_text("Cron line:")
    page.get_by_role("button", name="Create the job").click()
    fault = page.get_by_role("textbox", name="Cron line")
    expect(fault).to_be_focused()
    expect(fault).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Script", exact=True)).to_have_value("print('made by hand')")
    assert axe(page) == []
    fault.fill("@daily")
    page.get_by_role("button", name="Create the job").click()
    expect(page.get_by_text("The job is stored.")).to_be_visible()
    page.locator("summary", has_text="Run now").click()
    page.get_by_role("button", name="Run now").click()
    expect(page.locator(".facts")).to_contain_text("Success")
    expect(page.locator(".log")).to_contain_text("made by hand")


@pytest.mark.takes_up_to(120)
def test_a_job_is_made_without_javascript(here: World, context: Contexts, place: Space) -> None:
    """All inputs are there, and a button shows the next times."""
    page = context(java_script_enabled=False).new_page()
    page.goto(here.url + place.at("/jobs/new"))
    _sign_in(page, place.developer)
    page.get_by_label("Name", exact=True).fill("made without a script")
    page.get_by_label("Command", exact=True).last.fill("true")
    page.get_by_label("Every so often").check(force=True)
    page.get_by_label("Every", exact=True).fill("often")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#f-interval_seconds-fault")).to_contain_text("Write a duration")
    page.get_by_label("Every", exact=True).fill("90m")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Every 90 minutes.")
    page.get_by_role("button", name="Create the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("made without a script")
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Every", exact=True).fill("2h")
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator("#review")).to_contain_text("every 2h")
    page.get_by_role("button", name="Save this change").click()
    expect(page.get_by_text("The change is stored.")).to_be_visible()


@pytest.mark.takes_up_to(120)
def test_two_people_edit_one_job(opened: Open, place: Space, job: str) -> None:
    """The second sees what the first changed, field by field, with the next times, and decides."""
    first, second = (opened(place.at(f"/jobs/{job}/edit"), expects="409") for _ in range(2))
    first.get_by_role("textbox", name="Cron line").fill("0 4 * * *")
    first.get_by_label("Labels").fill("by=the first")
    first.get_by_role("button", name="Review changes").click()
    first.get_by_role("button", name="Save these changes").click()
    expect(first.get_by_text("The change is stored.")).to_be_visible()
    second.get_by_role("textbox", name="Cron line").fill("0 5 * * *")
    second.get_by_label("Description").fill("of the second")
    second.get_by_role("button", name="Review changes").click()
    expect(second.get_by_role("heading", name="changed this job while you edited it")).to_be_focused()
    row = second.locator("tr", has_text="Schedule")
    expect(row).to_contain_text("0 3 * * *")
    expect(row).to_contain_text("0 4 * * *")
    expect(row).to_contain_text("0 5 * * *")
    expect(second.locator(".fires.diff ins").first).to_contain_text("05:00:00")
    expect(second.locator(".fires.diff del").first).to_contain_text("04:00:00")
    assert axe(second) == []
    second.get_by_label("Keep theirs").check(force=True)
    second.get_by_role("button", name="Save these changes").click()
    expect(second.locator("#review")).not_to_contain_text("Schedule")
    second.get_by_role("button", name="Save this change").click()
    expect(second.get_by_text("The change is stored.")).to_be_visible()
    stored = place.ask("GET", f"/jobs/{job}")
    assert ("0 4 * * *", "of the second", {"by": "the first"}) == tuple(
        stored[name] for name in ("cron_expression", "description", "labels")
    )


@pytest.mark.takes_up_to(120)
def test_a_session_that_ends_in_the_form_of_a_job_loses_nothing(opened: Open, place: Space, job: str) -> None:
    """After the sign-in the whole form is there again."""
    page = opened(place.at(f"/jobs/{job}/edit"), link=False, expects="401")
    _sign_in(page, place.developer)
    page.get_by_label("Description").fill("first line\nsecond line")
    other = opened(place.at("/"), among=page.context)
    other.locator("summary", has_text=place.developer).click()
    other.get_by_role("button", name="Sign out").click()
    expect(other).to_have_url(re.compile("/login"))
    page.get_by_role("textbox", name="Cron line").fill("0 6 * * *")
    expect(page.locator("#connection")).to_contain_text("Your session has ended")
    page.get_by_role("button", name="Review changes").click()
    page.get_by_role("button", name="Sign in here, with what I typed").click()
    _sign_in(page, place.developer)
    page.get_by_role("button", name="Go on with the form").click()
    expect(page.get_by_label("Description")).to_have_value("first line\nsecond line")
    page.get_by_role("button", name="Review changes").click()
    expect(page.locator("#review")).to_contain_text("0 6 * * *")
    page.get_by_role("button", name="Save these changes").click()
    expect(page.get_by_text("The change is stored.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_fits_a_phone(opened: Open, place: Space, job: str, scheme: str) -> None:
    """Nothing is wider than the screen, all is in reach, and axe finds nothing."""
    for path in ("/jobs/new", f"/jobs/{job}/edit"):
        page = opened(place.at(path), viewport={"width": 390, "height": 844}, color_scheme=scheme)
        for title in ("Late, overlapping", "Attempts, timeouts", "Queue, limits", "What follows"):
            page.locator("summary", has_text=title).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert axe(page) == []
