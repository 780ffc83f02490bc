"""Pages that renew themselves: what changes appears, what a person does stays, and an outage is told."""

from __future__ import annotations

from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import Open, World

HIDE = """
    (hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }
"""


def _asked(page: Page) -> list[str]:
    """The addresses that the page asks for from now on to renew itself."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.headers.get("tickwise-part") == "live":
            found.append(request.url)

    page.on("request", note)
    return found


def test_what_happens_appears_without_a_reload(here: World, opened: Open) -> None:
    """What the visitor opened, and where they are, stays as it is."""
    page = opened(f"/jobs/{here.jobs['fails']}")
    page.locator("summary", has_text="Run now").click()
    field = page.get_by_label("Payload (JSON)")
    field.fill('{"half": "typed')
    page.evaluate("window.scrollTo(0, 120); window.mine = true")
    before = page.locator("table tbody tr").count()
    here.run_of("fails")
    expect(page.locator("table tbody tr")).to_have_count(before + 1)
    expect(field).to_have_value('{"half": "typed')
    expect(field).to_be_focused()
    assert page.evaluate("[window.scrollY, window.mine]") == [120, True]


def test_a_hidden_page_asks_for_nothing(opened: Open) -> None:
    """And looks at once when it is seen again."""
    page = opened("/executors")
    page.wait_for_function("window.htmx")
    page.evaluate(HIDE, True)
    asked = _asked(page)
    page.wait_for_timeout(7_000)
    assert asked == []
    with page.expect_request(lambda request: request.headers.get("tickwise-part") == "live"):
        page.evaluate(HIDE, False)


def test_a_server_that_is_away_is_told_and_comes_back(here: World, opened: Open) -> None:
    """The page stays readable, says that it may be old, and goes on by itself."""
    page = opened("/executors", expects="net::ERR_FAILED")
    page.wait_for_function("window.htmx")
    page.route("**/executors", lambda route: route.abort())
    expect(page.locator("#connection")).to_contain_text("The server cannot be reached")
    expect(page.locator("tbody tr").first).to_be_visible()
    page.unroute("**/executors")
    expect(page.locator("#connection")).to_be_hidden()


def test_times_go_on_by_themselves(here: World, opened: Open) -> None:
    """A countdown counts."""
    page = opened(f"/runs/{here.failed}")
    time = page.locator("time[data-ago]").first
    before = time.text_content()
    expect(time).not_to_have_text(before or "", timeout=90_000)
