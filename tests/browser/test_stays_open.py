"""A page that renews itself leaves alone what a person opened, marked, scrolled or has the focus on."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, World


def _renewed(page: Page) -> None:
    """Have the live part renewed twice, as when the page is seen again. The second time shows that the first one is
    done: a page that is still at a renewal begins no other, so it is told until it does."""
    for _ in range(2):
        with page.expect_response(lambda answer: answer.request.headers.get("tickwise-part") == "live") as answer:
            page.evaluate("window.seen = setInterval(() => document.dispatchEvent(new Event('visibilitychange')), 100)")
        page.evaluate("clearInterval(window.seen)")
        assert 200 == answer.value.status
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_the_panel_of_conditions_stays_open_with_its_focus_and_scroll(here: World, opened: Open) -> None:
    """Through the renewals of a page of a job; closed again, it stays closed."""
    page = opened(f"/jobs/{here.jobs['closes the books']}", viewport={"width": 420, "height": 800})
    summary = page.locator("#conditions > summary")
    summary.focus()
    page.keyboard.press("Enter")
    region = page.locator("#conditions .scroll")
    region.evaluate("(element) => { element.scrollLeft = 40; }")
    moved = region.evaluate("(element) => element.scrollLeft")
    assert moved > 0
    _renewed(page)
    expect(page.locator("#conditions")).to_have_attribute("open", "")
    expect(summary).to_be_focused()
    assert moved == region.evaluate("(element) => element.scrollLeft")
    page.keyboard.press("Enter")
    _renewed(page)
    assert page.locator("#conditions").get_attribute("open") is None


def test_a_panel_of_a_run_stays_open_while_it_is_renewed_every_other_second(here: World, opened: Open) -> None:
    """The run waits for a queue that nobody serves; its page changes all the time."""
    task = {"kind": "shell", "command": "true"}
    body = {"name": "nobody serves it", "schedule_type": "ON_DEMAND", "queue": "nowhere", "task": task}
    job = here.client.job_create(body)["job_id"]
    run = here.client.request("POST", f"/jobs/{job}/runNow", body={}).body["run_id"]
    page = opened(f"/runs/{run}")
    page.locator("#conditions > summary").click()
    _renewed(page)
    expect(page.locator("#conditions table")).to_be_visible()


def test_marked_text_stays_marked(here: World, opened: Open) -> None:
    """And what the page shows is renewed again afterwards."""
    page = opened(f"/jobs/{here.jobs['fails']}")
    page.evaluate("document.getSelection().selectAllChildren(document.querySelector('.explain .lead'))")
    marked = page.evaluate("document.getSelection().toString()")
    assert marked
    _renewed(page)
    assert marked == page.evaluate("document.getSelection().toString()")
