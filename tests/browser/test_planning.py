"""What people do with the time line, calendars, namespaces, people and keys."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import PASSWORD, Open, World, axe

Contexts = Callable[..., BrowserContext]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def test_the_time_line_shows_what_ran_and_what_comes(here: World, opened: Open) -> None:
    """By hour, day and week; a part of it has an address; a job's row leads to the job."""
    page = opened("/timeline")
    expect(page.locator(".tl-lane", has_text="reports in colour")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("planned")
    page.get_by_role("link", name="Week", exact=True).click()
    expect(page).to_have_url(re.compile(r"/timeline\?view=week$"))
    page.get_by_label("A part of the job's name").fill("closes the books")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".tl-lane")).to_have_count(1)
    page.get_by_role("link", name="Later →").click()
    expect(page).to_have_url(re.compile(r"name=closes\+the\+books.*at=|at=.*name=closes"))
    expect(page.locator(".tl-lane")).to_have_count(1)
    page.locator("summary", has_text="The same as a table").click()
    expect(page.get_by_role("region", name="Starts and load").locator("tbody tr").first).to_be_visible()
    page.locator(".tl-lane a").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("closes the books")


def test_a_calendar_is_written_looked_at_and_kept(here: World, opened: Open) -> None:
    """Line by line; a preview shows its times; a fault stands at its line."""
    page = opened("/calendars", expects="422")
    page.locator("summary", has_text="New calendar").click()
    form = page.locator("details.adding[open] form")
    form.locator("[name=name]").fill("quarter end <freeze>")
    form.get_by_label("Days, one a line").fill("soon")
    form.get_by_role("button", name="Store it").click()
    expect(page.locator(".fault")).to_contain_text("Line 1: write a line such as")
    form = page.locator("details.adding[open] form")
    expect(form.get_by_label("Days, one a line")).to_have_value("soon")
    form.get_by_label("Days, one a line").fill("2027-03-31 quarter end")
    form.get_by_role("button", name="Preview").click()
    expect(page.locator("details.adding[open] table")).to_contain_text("2027-03-31 quarter end")
    page.locator("details.adding[open] form").get_by_role("button", name="Store it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("quarter end <freeze>")
    expect(page.get_by_text("It is stored.")).to_be_visible()
    page.locator("summary", has_text="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator(".fault")).to_contain_text("tick the box")
    page.get_by_label("No job can go by it").check()
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("It is deleted.")).to_be_visible()


def test_a_window_closes_a_part_of_the_time_line(here: World, opened: Open) -> None:
    """It is on the axis, and its starts are told as skipped."""
    page = opened("/calendars")
    page.locator("summary", has_text="New window").click()
    form = page.locator("details.adding[open] form")
    form.locator("[name=name]").fill("disks")
    form.get_by_label("Reason").fill("new disks")
    form.get_by_label("Recurring").fill("*/30 * * * * for 29m")
    form.get_by_role("button", name="Store it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("disks")
    page.get_by_role("navigation").get_by_role("link", name="Timeline").click()
    expect(page.locator(".tl-thin", has_text="disks")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("will be skipped")
    here.client.request("DELETE", "/windows/disks")


def test_somebody_is_invited_and_comes_in(here: World, opened: Open, context: Contexts) -> None:
    """The link is on the page once; the person chooses a password and signs in; then they are deactivated."""
    page = opened("/users")
    page.locator("summary", has_text="Invite somebody").click()
    form = page.locator("details.adding[open] form")
    form.locator("[name=name]").fill("mallory")
    form.locator("[name=role]").select_option("viewer")
    form.get_by_role("button", name="Add").click()
    link = page.locator(".secret pre").inner_text()
    assert axe(page) == []
    guest = context().new_page()
    guest.goto(link)
    assert axe(guest) == []
    for field in ("[name=password]", "[name=password_again]"):
        guest.locator(field).fill(PASSWORD)
    guest.get_by_role("button", name="Choose it").click()
    expect(guest).to_have_url(here.url + "/login?done=password")
    guest.get_by_label("Name or e-mail").fill("mallory")
    guest.get_by_label("Password").fill(PASSWORD)
    guest.get_by_role("button", name="Sign in").click()
    expect(guest.get_by_role("heading", name="What failed last")).to_be_visible()
    page.goto(here.url + "/users")
    page.get_by_role("link", name="mallory").click()
    expect(page.locator(".secret")).to_have_count(0)
    page.locator("summary", has_text="Deactivate").click()
    page.get_by_label("The person is signed out everywhere").check()
    page.get_by_role("button", name="Deactivate").click()
    expect(page.get_by_text("The account is deactivated")).to_be_visible()


def test_a_key_is_made_and_revoked(here: World, opened: Open) -> None:
    """Its secret is on the page once."""
    page = opened("/keys")
    page.locator("summary", has_text="New key").click()
    form = page.locator("details.adding[open] form")
    form.locator("[name=name]").fill("from a page")
    form.get_by_label("Or these permissions alone").fill("jobs:read")
    form.get_by_role("button", name="Make it").click()
    secret = page.locator(".secret pre").inner_text()
    assert secret.startswith("tw_")
    assert axe(page) == []
    page.goto(here.url + "/keys")
    expect(page.get_by_text(secret)).to_have_count(0)
    row = page.locator("tbody tr", has_text="from a page")
    row.get_by_label("Revoke from a page").click()
    row.get_by_label("What uses it is refused at once").check()
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("The key is revoked")).to_be_visible()


def test_a_namespace_is_added_bounded_and_removed(here: World, opened: Open) -> None:
    """In steps; the last one asks for its name."""
    page = opened("/namespaces")
    page.locator("summary", has_text="New namespace").click()
    page.locator("details.adding[open] [name=name]").fill("trial")
    page.get_by_role("button", name="Add it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("trial")
    page.locator("summary", has_text="Quotas").click()
    page.get_by_label("Active jobs that last").fill("12")
    page.get_by_role("button", name="Set the quotas").click()
    expect(page.get_by_role("region", name="Quotas", exact=True)).to_contain_text("12")
    page.locator("summary", has_text="Close").click()
    page.get_by_role("button", name="Close it").click()
    expect(page.get_by_text("The namespace takes nothing new: no job")).to_be_visible()
    assert axe(page) == []
    page.locator("summary", has_text="Remove").click()
    page.get_by_label("Type its name").fill("trial")
    page.get_by_role("button", name="Remove it").click()
    expect(
        page.get_by_text("It is being removed, which cannot be undone").or_(page.get_by_text("Not found"))
    ).to_be_visible()


def test_settings_are_found_by_a_word(here: World, opened: Open) -> None:
    """While one types; the port is not the default."""
    page = opened("/settings")
    page.get_by_label("A word of name or meaning").press_sequentially("lease", delay=20)
    expect(page.locator("tbody tr", has_text="lease_seconds")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/settings\?q=lease$"))
    expect(page.locator("tbody tr", has_text="log_format")).to_have_count(0)


def test_the_time_line_fits_a_phone_and_needs_no_script(here: World, opened: Open, context: Contexts) -> None:
    """It is drawn by the server."""
    page = opened("/timeline", **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    plain = context(java_script_enabled=False).new_page()
    plain.goto(here.url + "/timeline")
    plain.get_by_label("Name or e-mail").fill("vera")
    plain.get_by_label("Password").fill(PASSWORD)
    plain.get_by_role("button", name="Sign in").click()
    expect(plain.locator(".tl-lane").first).to_be_visible()
