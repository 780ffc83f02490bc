"""What people do with the pages, from the sign-in to the output of a run."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import HOSTILE, PASSWORD, Open, World, axe

Contexts = Callable[..., BrowserContext]


def _sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name or e-mail").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


@pytest.mark.takes_up_to(300)
def test_from_the_sign_in_to_the_output_of_a_run(here: World, opened: Open) -> None:
    """The page that was asked for follows the sign-in; each page leads to the next."""
    page = opened("/jobs", link=False)
    expect(page).to_have_url(re.compile("/login"))
    _sign_in(page, "ada")
    expect(page).to_have_url(here.url + "/jobs")
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("Everything runs.")).to_be_visible()
    expect(page.locator("section", has_text="What failed last")).to_contain_text("no disk left")
    page.get_by_role("link", name="Jobs").first.click()
    page.get_by_role("link", name="reports in colour").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("reports in colour")
    expect(page.get_by_text("Every hour").or_(page.get_by_text("every hour")).first).to_be_visible()
    page.locator("summary", has_text="Run now").click()
    page.get_by_label("Payload (JSON)").fill('{"for": "everybody"}')
    page.get_by_role("button", name="Run now").click()
    expect(page).to_have_url(re.compile("/runs/"))
    expect(page.locator(".facts")).to_contain_text("Success")
    expect(page.locator(".log")).to_contain_text("everybody")
    expect(page.locator(".log .a-green")).to_have_text("ready")
    expect(page.locator(".log")).to_contain_text("<script>alert(3)</script>")
    page.locator("summary", has_text="ada").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(here.url + "/login")
    page.go_back()
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_link_signs_in_and_the_address_does_not_keep_it(here: World, opened: Open) -> None:
    """What `tickwise open` opens."""
    page = opened()
    assert page.url == here.url + "/"
    cookie = page.context.cookies()[0]
    assert cookie["name"].startswith("__Host-")
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Lax")
    assert page.evaluate("document.cookie") == ""


def test_the_command_line_prints_a_link(here: World, opened: Open) -> None:
    """`tickwise open` would open it."""
    printed = here.up.tickwise("open", "--print")
    assert printed.code == 0, printed.err
    page = opened("/", link=False, expects="401")
    page.goto(printed.out.strip())
    expect(page.get_by_text("Everything runs.")).to_be_visible()
    page.goto(printed.out.strip())
    expect(page.get_by_role("alert")).to_contain_text("This link was used")


def test_a_search_answers_while_one_types(opened: Open) -> None:
    """The address follows, the field keeps the focus, and the address shows the same again."""
    page = opened("/jobs")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(6)
    field = page.get_by_label("A part of the name", exact=True)
    field.press_sequentially("book", delay=20)
    expect(rows).to_have_count(1)
    expect(field).to_be_focused()
    expect(page).to_have_url(re.compile(r"/jobs\?name=book$"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(field).to_have_value("book")
    field.fill("there is none of this name")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_role("link", name="Show all jobs.").click()
    expect(rows).to_have_count(6)


def test_a_job_is_paused_with_a_reason_and_goes_on(here: World, opened: Open) -> None:
    """And its page says who paused it, and why."""
    page = opened(f"/jobs/{here.jobs['closes the books']}")
    page.locator("summary", has_text="Pause").click()
    page.locator("details[open]").get_by_label("Reason").fill("the disk is <full>")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("The job is paused.")).to_be_visible()
    expect(page.get_by_text("the disk is <full>").first).to_be_visible()
    assert "PAUSED" == here.client.request("GET", f"/jobs/{here.jobs['closes the books']}").body["status"]
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("The job goes on by its schedule.")).to_be_visible()
    page.locator("summary", has_text="Skip next").click()
    page.locator("details[open]").get_by_label("Reason").fill("a holiday")
    page.get_by_role("button", name="Skip it").click()
    expect(page.locator(".fires li").first).to_contain_text("skipped")


def test_a_run_that_goes_on_is_cancelled(here: World, opened: Open) -> None:
    """The page follows it to its end."""
    made = here.client.request("POST", f"/jobs/{here.jobs['waits for a word']}/runNow", body={}).body
    page = opened(f"/runs/{made['run_id']}")
    expect(page.locator(".facts")).to_contain_text("Running")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".facts")).to_contain_text("Cancelled")


def test_a_long_output_is_shown_in_parts(here: World, opened: Open) -> None:
    """The end first; a line has an address of its own."""
    page = opened(f"/runs/{here.long}")
    log = page.locator(".log")
    expect(log).to_contain_text("line 19999")
    expect(log).not_to_contain_text("line 1000\n")
    page.get_by_role("link", name="From the beginning").click()
    expect(log).to_contain_text("line 0\n")
    page.get_by_role("link", name="Later").click()
    first = log.locator(".line").first
    name = first.get_attribute("id")
    page.goto(page.url.split("#")[0] + f"#{name}")
    expect(first).to_be_in_viewport()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes().count(b"\n") == 20_000


def test_a_viewer_is_offered_nothing_to_do(here: World, opened: Open) -> None:
    """What they may not do is not on the page."""
    page = opened(f"/jobs/{here.jobs['fails']}", link=False)
    _sign_in(page, "vera")
    expect(page.get_by_role("heading", level=1)).to_have_text("fails")
    expect(page.locator("summary", has_text="Run now")).to_have_count(0)
    expect(page.locator("main form[method=post]")).to_have_count(0)
    expect(page.get_by_role("navigation").get_by_role("link", name="Audit")).to_have_count(0)


def test_a_hostile_name_is_text_everywhere(here: World, opened: Open) -> None:
    """In titles, tables, forms and fields. (A dialog or an error of the console fails the test.)"""
    page = opened("/jobs")
    page.locator("tbody tr", has_text="alert(1)").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(page).to_have_title(f"{HOSTILE} · Tickwise")
    page.locator("summary", has_text="Run now").click()
    expect(page.get_by_label("Payload (JSON)")).to_have_value(re.compile(r"<script>alert\(1\)</script>"))


def test_a_session_that_ends_in_a_form_loses_nothing(here: World, opened: Open) -> None:
    """The page says that it is no longer live, and after the sign-in the form comes back."""
    page = opened(f"/jobs/{here.jobs['fails']}", link=False, expects="401")
    _sign_in(page, "ada")
    page.locator("summary", has_text="Pause").click()
    page.locator("details[open]").get_by_label("Reason").fill("a long thought that nobody wants to type twice")
    other = opened("/", among=page.context)
    other.locator("summary", has_text="ada").click()
    other.get_by_role("button", name="Sign out").click()
    expect(other).to_have_url(re.compile("/login"))
    expect(page.locator("#connection")).to_contain_text("Your session has ended")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Sign in here, with what I typed").click()
    expect(page.get_by_text("Nothing that you typed is lost")).to_be_visible()
    _sign_in(page, "ada")
    expect(page.get_by_label("Reason")).to_have_value("a long thought that nobody wants to type twice")
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_text("The job is paused.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    # The page is asked about its state when the test ends, which a page on its way to the next one cannot answer.
    expect(page.get_by_text("The job goes on by its schedule.")).to_be_visible()


def test_pages_work_without_javascript(here: World, context: Contexts) -> None:
    """Sign-in, lists, search, forms."""
    page = context(java_script_enabled=False).new_page()
    page.goto(here.url + "/jobs")
    _sign_in(page, "ada")
    expect(page.locator("tbody tr")).to_have_count(6)
    page.get_by_label("A part of the name", exact=True).fill("fails")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="fails").click()
    page.locator("summary", has_text="Run now").click()
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run of fails")


def test_everything_of_a_customer_is_stopped_for_an_hour(here: World, opened: Open) -> None:
    """Chosen, looked at, confirmed; each page says so; lifted with one click."""
    page = opened("/stops")
    page.get_by_label("Which").fill("team=books")
    page.get_by_label("Reason").fill("their database moves")
    page.get_by_role("button", name="See what it would hold back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Stop the jobs with the label team=books?")
    expect(page.get_by_text("Nothing is stopped yet.")).to_be_visible()
    assert here.client.stops_list() == []
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator(".stop")).to_contain_text("The jobs with the label team=books")
    page.get_by_role("link", name="Runs").first.click()
    expect(page.locator(".stop-banner")).to_contain_text("their database moves")
    page.get_by_role("link", name="Look at the stops").click()
    page.get_by_role("button", name="Lift now").click()
    expect(page.get_by_text("Nothing is stopped in default.")).to_be_visible()
    expect(page.locator(".stop-banner")).to_have_count(0)


def test_the_overview_leads_with_what_is_wrong_and_from_there_to_it(here: World, opened: Open) -> None:
    """A critical alert first, then a stop and a queue on hold; when they are over, everything runs."""
    ask = here.client.request
    ask("POST", "/channels", body={"name": "nobody", "kind": "webhook", "url": "https://hooks.invalid/x"})
    rule = {"name": "broken", "on": ["failure"], "channels": ["nobody"], "severity": "critical"}
    made = ask("POST", "/notification-rules", body=rule).body
    ask("POST", "/queues/reports/hold", body={"reason": "the printer is away"})
    here.run_of("fails")
    page = opened()
    lead = page.locator(".verdict .lead")
    expect(lead).to_have_text("One critical alert is open: fails.")
    expect(page.locator(".verdict")).to_have_class("verdict bad")
    expect(page.locator(".verdict")).to_contain_text("The queue reports is on hold.")
    expect(page.get_by_text("Everything runs.")).to_have_count(0)
    assert [] == axe(page)
    lead.get_by_role("link").click()
    expect(page.locator(".alert-card")).to_contain_text("A run failed: exit status 3: no disk left")
    page.get_by_role("button", name="Close fails").click()
    ask("DELETE", f"/notification-rules/{made['rule_id']}")
    page.get_by_role("link", name="Overview").click()
    expect(lead).to_have_text("The queue reports is on hold.")
    expect(page.locator(".verdict")).to_have_class("verdict warn")
    ask("POST", "/queues/reports/resume", body={})
    expect(lead).to_have_text("Everything runs.")
