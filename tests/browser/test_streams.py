"""Pages that follow by a stream: what changes is there at once, an output as it is written, and breaks are got over."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, Open, World
from tests.browser.test_live import HIDE
from tests.support.local_up import local_up
from tickwise.sdk.client import Client

SOON_MS: Final = 1_500
NO_CLOCK: Final = """
    const later = window.setTimeout.bind(window);
    window.setTimeout = (act, wait, ...more) => wait > 2000 ? 0 : later(act, wait, ...more);
"""
"""The clock of a page, which looks every 5 s or more, is out of order: what comes, the stream has told."""
WATCHED: Final = """
    () => {
      window.seen = {};
      const look = () => {
        for (const link of document.querySelectorAll("#live a[href*='/runs/']")) {
          window.seen[link.getAttribute("href").split("/").pop()] ??= Date.now();
        }
      };
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true });
    }
"""
WRITES: Final = """
import os, time
print('\\x1b[31mred', flush=True)
for number in range(1, 40):
    while number == 12 and not os.path.exists({sign!r}):
        time.sleep(0.1)
    print('<b>line', number, flush=True)
    time.sleep(0.25)
"""
"""It has not ended before somebody has seen it go on, and says so by a file."""


def metrics(here: World) -> float:
    """The number of open streams of the server."""
    answer = httpx2.get(f"{here.url}/metrics", headers={"Authorization": f"Bearer {here.up.key}"})
    [found] = re.findall(r"^tickwise_live_streams (\S+)$", answer.text, re.MULTILINE)
    return float(found)


def until_streams(here: World, page: Page, count: int) -> None:
    """Wait until so many streams are open."""
    end = time.monotonic() + PATIENCE_MS / 1_000
    while metrics(here) != count:
        assert time.monotonic() < end, f"{metrics(here)} in place of {count}"
        page.wait_for_timeout(100)


def submitted(client: Client, source: str) -> str:
    """A run of a new job that has begun."""
    job = client.job_create(
        {"name": "writes", "schedule_type": "ON_DEMAND", "task": {"kind": "python", "source": source}}
    )
    answer = client.request("POST", f"/jobs/{job['job_id']}/runNow", body={})
    return str(answer.body["run_id"])


def test_a_change_is_on_the_screen_at_once(here: World, opened: Open, context: Callable[..., BrowserContext]) -> None:
    """From the commit, as the server says when it was, to the row in the page. Of several changes one is told while
    nothing holds up this machine."""
    alone = context()
    alone.add_init_script(NO_CLOCK)
    page = opened("/", among=alone, link=False)
    page.goto(here.link())
    page.goto(f"{here.url}/jobs/{here.jobs['fails']}")
    until_streams(here, page, 1)
    page.evaluate(WATCHED)
    took = []
    for _ in range(5):
        run = here.run_of("fails")
        page.wait_for_function("(run) => window.seen[run]", arg=run)
        queued = here.client.run_get(run)["due_time"]
        took.append(page.evaluate("([run, queued]) => window.seen[run] - Date.parse(queued)", [run, queued]))
        page.wait_for_timeout(2_000)
    assert min(took) < SOON_MS, took


def test_an_output_is_followed_as_it_is_written(here: World, opened: Open) -> None:
    """Line by line, in its colours, as text; the reader stays at the end; the rest of the page is renewed beside it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the task is another user
        sign = Path(folder) / "seen"
        run = submitted(here.client, WRITES.format(sign=str(sign)))
        page = opened(f"/runs/{run}")
        lines = page.locator("pre.log .line")
        expect(lines.nth(8)).to_contain_text("<b>line 8")
        expect(page.locator(".badge").first).to_have_text("Running")
        expect(lines.nth(8).locator("span.a-red")).to_have_count(1)
        sign.touch()
        # As it is written: further lines come before it has ended.
        expect(lines.nth(14)).to_contain_text("<b>line 14")
        here.ended(run)
    expect(page.locator(".badge").first).to_have_text("Success")
    expect(lines).to_have_count(40)
    expect(lines.last).to_contain_text("<b>line 39")
    assert [f"b{each}" for each in offsets(page)] == page.locator("pre.log .line").evaluate_all(
        "all => all.map(e => e.id)"
    )
    expect(page.locator("#output")).not_to_have_attribute("data-follow", re.compile("."))


def offsets(page: Page) -> list[int]:
    """The offset of each line that the page shows, from the texts of those before it."""
    found, at = [], 0
    for number, text in enumerate(page.locator("pre.log .line").all_text_contents()):
        found.append(at)
        at += len(text.removesuffix("\n").encode()) + 1 + (len("\x1b[31m") if number == 0 else 0)
    return found


def test_a_hidden_page_has_no_stream(here: World, opened: Open) -> None:
    """A browser has few connections to a server. The stream is back with the page."""
    page = opened("/jobs")
    until_streams(here, page, 1)
    page.evaluate(HIDE, True)
    until_streams(here, page, 0)
    page.evaluate(HIDE, False)
    until_streams(here, page, 1)


def test_a_page_hears_that_its_session_has_ended(
    here: World, opened: Open, context: Callable[..., BrowserContext]
) -> None:
    """Signed out in another tab: within seconds, and what was shown stays."""
    tabs = context()
    page = opened("/jobs", among=tabs, link=False, expects="401")
    page.goto(here.link())
    page.goto(f"{here.url}/jobs")
    until_streams(here, page, 1)
    other = tabs.new_page()
    other.goto(f"{here.url}/jobs")
    other.locator("summary", has_text="admin").click()
    other.get_by_role("button", name="Sign out").click()
    expect(page.locator("#connection")).to_contain_text("Your session has ended")
    expect(page.locator("tbody tr").first).to_be_visible()
    until_streams(here, page, 0)


def test_a_page_goes_on_after_a_restart(tmp_path: Path, chromium: Browser) -> None:
    """The server is killed and started again: the page says so, comes back by itself, and shows what it missed."""
    page = chromium.new_page()
    with local_up(tmp_path / "data") as up, Client(up.url, up.key) as client:
        port = str(urlsplit(up.url).port)
        job = client.job_create(
            {"name": "goes on", "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}}
        )
        page.goto(up.url + str(client.session_link()["link"]))
        page.goto(f"{up.url}/jobs/{job['job_id']}")
        page.evaluate("window.mine = true")
        client.request("POST", f"/jobs/{job['job_id']}/runNow", body={})
        expect(page.locator("table[data-rows] tbody tr")).to_have_count(1)
    expect(page.locator("#connection")).to_contain_text("cannot be reached")
    with local_up(tmp_path / "data", "--port", port) as up, Client(up.url, up.key) as client:
        client.request("POST", f"/jobs/{job['job_id']}/runNow", body={})
        expect(page.locator("#connection")).to_be_hidden()
        expect(page.locator("table[data-rows] tbody tr")).to_have_count(2)
        assert page.evaluate("window.mine"), "the page was not loaded anew"
    page.close()
