"""A form that cannot be sent stays as it is: the server is away, or the session has ended."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Open, World

REASON = "the disk is changed, as ada wrote on the board"


def _job(here: World, name: str) -> str:
    return str(
        here.client.job_create({"name": name, "every": "9h", "task": {"kind": "shell", "command": "true"}})["job_id"]
    )


def _typed(page: Page) -> None:
    """A pause with its reason, sent."""
    page.locator("summary", has_text="Pause").click()
    page.get_by_label("Reason").first.fill(REASON)
    page.get_by_role("button", name="Pause", exact=True).click()


def test_a_form_waits_for_a_server_that_is_away(
    here: World, opened: Open, context: Callable[..., BrowserContext]
) -> None:
    """What was typed stays, the page says so, and the form is sent by itself when the server answers."""
    browser = context()
    job = _job(here, "paused while it is away")
    page = opened("/", among=browser, expects="net::ERR")
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{job}")
    browser.set_offline(True)
    _typed(page)
    expect(page.locator(".unsent")).to_contain_text("The server is away, so nothing was sent yet")
    expect(page.get_by_label("Reason").first).to_have_value(REASON)
    assert "SCHEDULED" == here.client.job_get(job)["status"]
    browser.set_offline(False)
    expect(page.locator("#live")).to_contain_text(REASON)
    assert "PAUSED" == here.client.job_get(job)["status"]


def test_a_form_that_waits_can_be_taken_back(here: World, opened: Open, context: Callable[..., BrowserContext]) -> None:
    """Then it is not sent, and what was typed is still there."""
    browser = context()
    job = _job(here, "not paused after all")
    page = opened("/", among=browser, expects="net::ERR")
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{job}")
    browser.set_offline(True)
    _typed(page)
    page.get_by_role("button", name="Do not send it").click()
    browser.set_offline(False)
    expect(page.locator(".unsent")).to_have_count(0)
    expect(page.get_by_label("Reason").first).to_have_value(REASON)
    page.wait_for_timeout(2_500)
    assert "SCHEDULED" == here.client.job_get(job)["status"]


def test_a_session_that_ends_in_mid_form_loses_nothing(
    here: World, opened: Open, context: Callable[..., BrowserContext]
) -> None:
    """Signed in again by the link of `tickwise open` in another tab, the form of this one is sent from here."""
    browser = context()
    job = _job(here, "paused in the next session")
    page = opened("/", among=browser, expects="401")
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{job}")
    other = opened("/", among=browser)
    other.locator("header details.menu").last.locator("summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect(other).to_have_title("Sign in · Tickwise")
    _typed(page)
    expect(page.locator(".unsent")).to_contain_text("Your session has ended, so nothing was sent")
    other.goto(here.link())
    expect(page.locator(".unsent")).to_contain_text("You are signed in again")
    expect(page.get_by_label("Reason").first).to_have_value(REASON)
    assert "SCHEDULED" == here.client.job_get(job)["status"]
    page.get_by_role("button", name="Send it now").click()
    expect(page.locator("#live")).to_contain_text(REASON)
    assert "PAUSED" == here.client.job_get(job)["status"]


def test_a_session_that_ended_can_be_begun_with_what_was_typed(
    here: World, opened: Open, context: Callable[..., BrowserContext]
) -> None:
    """By a password, in the same tab."""
    browser = context()
    job = _job(here, "paused by ada in the end")
    page = opened("/", among=browser, expects="401")
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{job}")
    other = opened("/", among=browser)
    other.locator("header details.menu").last.locator("summary").click()
    other.get_by_role("button", name="Sign out").click()
    expect(other).to_have_title("Sign in · Tickwise")
    _typed(page)
    page.get_by_role("button", name="Sign in here, with what I typed").click()
    expect(page.locator("main")).to_contain_text("Nothing that you typed is lost")
    page.get_by_label("Name or e-mail").fill("ada")
    page.get_by_label("Password").fill("four quiet herons wade")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Reason")).to_have_value(REASON)
    page.get_by_role("button", name="Send it").click()
    expect(page.locator("#live")).to_contain_text(REASON)
    assert "PAUSED" == here.client.job_get(job)["status"]
