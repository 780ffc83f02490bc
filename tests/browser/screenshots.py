"""Pictures of every page for the documentation: `make screenshots`, or `python -m tests.browser.screenshots [FOLDER]`.

A shop of a day (`shop`), on a Tickwise of its own; the pages of the navigation, and the ones behind them. A picture may
have `BYTES_MAX`: each clone of the repository has all of them.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.shop import Shop
from tests.services.packages import program
from tests.support.local_up import ROOT, local_up
from tickwise.web.navigation import DOORS

FOLDER: Final = ROOT / "docs" / "screenshots"
BYTES_MAX: Final = 120_000
QUALITY: Final = 82
DESK: Final[dict[str, Any]] = {"viewport": {"width": 1280, "height": 860}}
PHONE: Final[dict[str, Any]] = {
    "viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 1.5,
}  # fmt: skip
RULE: Final = "name=first+tier&on_failure=yes&on_recovery=yes&channels=on-call&labels=tier%3D1&severity=critical"
STOP: Final = "what=labels&which=team%3Dmarketing&reason=the+shop+moves&for=60&meanwhile=hold"
Prepare = Callable[[Page], object]


def _nothing(page: Page) -> object:
    return page


class Photographer:
    """Takes the pictures of one shop."""

    def __init__(self, browser: Browser, shop: Shop, folder: Path) -> None:
        self._shop = shop
        self._folder = folder
        self._taken: dict[str, int] = {}
        self._pages = {name: self._page(browser, **options) for name, options in (
            ("desk", DESK), ("dark", {**DESK, "color_scheme": "dark"}), ("phone", PHONE))}  # fmt: skip

    def _page(self, browser: Browser, **options: Any) -> Page:
        page = browser.new_context(reduced_motion="reduce", **options).new_page()
        page.goto(self._shop.up.url + str(self._shop.client.session_link()["link"]))
        return page

    def take(self, name: str, path: str, on: str = "desk", prepare: Prepare = _nothing) -> None:
        """A picture of a page, without what lies below its first screen."""
        page = self._pages[on]
        page.goto(self._shop.up.url + path)
        page.wait_for_load_state("networkidle")
        prepare(page)
        session = page.context.new_cdp_session(page)
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        content = base64.b64decode(taken["data"])
        (self._folder / f"{name}.webp").write_bytes(content)
        if os.environ.get("PNG"):
            page.screenshot(path=self._folder / f"{name}.png")
        self._taken[name] = len(content)

    def finish(self) -> int:
        """Print what was taken. 1: a picture is too large."""
        for name, size in self._taken.items():
            sys.stdout.write(f"{size / 1000:7.1f} kB  {name}\n")
        large = [name for name, size in self._taken.items() if size > BYTES_MAX]
        if large:
            sys.stdout.write(f"larger than {BYTES_MAX / 1000:.0f} kB: {', '.join(large)}\n")
        return 1 if large else 0


def take_all(camera: Photographer, shop: Shop) -> None:
    """The pages of the navigation, the ones behind them, and some in the dark and on a phone."""
    failed, good = shop.run("settle payments"), shop.run("orders to the warehouse")
    going = shop.run("stock of all branches", states=("RUNNING",))
    job = f"/jobs/{shop.jobs['orders to the warehouse']}"
    camera.take("job", job)
    camera.take("run", f"/runs/{failed}")
    camera.take("run-output", f"/runs/{good}/log/find?find=voucher", prepare=_to_output)
    camera.take("outputs-found", "/logs?find=voucher")
    camera.take("run-going-on", f"/runs/{going}")
    columns = "payload.customer.tier,result.rows,label.team"
    camera.take("runs-columns", f"/runs?job_name=orders&col={columns}")
    camera.take("palette", "/jobs", prepare=_palette)
    camera.take("keyboard", "/jobs", prepare=lambda page: page.keyboard.press("?"))
    camera.take("display", "/jobs", prepare=lambda page: page.locator("summary", has_text="admin").click())
    alert = shop.alert()
    notice = shop.client.request("GET", "/notices").body[0]["notice_id"]
    group = shop.client.request("GET", "/errors").body[0]["error_id"]
    for door in DOORS:
        camera.take(re.sub(r"[^a-z]+", "-", door.title.lower()), door.path)
    camera.take("secret", "/secrets/bank-token")
    camera.take("alert", f"/alerts/{alert}")
    camera.take("notice", f"/notices/{notice}")
    camera.take("rule-new", f"/notification-rules/new?{RULE}")
    camera.take("error", f"/errors/{group}")
    camera.take("job-new", "/jobs/new")
    camera.take("job-edit", f"{job}/edit")
    camera.take("timeline-week", "/timeline?view=week")
    camera.take("calendar", "/calendars/public-holidays")
    camera.take("window", "/windows/stocktaking")
    camera.take("namespace", "/namespaces/default")
    camera.take("stop-new", f"/stops/new?{STOP}")
    camera.take("jobs-by-name", "/jobs?name=or")
    for name, path in (("jobs", "/jobs"), ("timeline", "/timeline"), ("analytics", "/analytics"),
                       ("alerts", "/alerts"), ("errors", "/errors")):  # fmt: skip
        camera.take(f"{name}-dark", path, "dark")
    for name, path in (("alert", f"/alerts/{alert}"), ("analytics", "/analytics"), ("timeline", "/timeline"),
                       ("rules", "/notification-rules"), ("channels", "/channels"), ("errors", "/errors")):  # fmt: skip
        camera.take(f"{name}-phone", path, "phone")
    camera.take("overview-dark", "/", "dark")
    camera.take("run-dark", f"/runs/{failed}", "dark")
    camera.take("overview-phone", "/", "phone")
    camera.take("jobs-phone", "/jobs", "phone")
    camera.take("run-phone", f"/runs/{failed}", "phone")
    camera.take("secret-phone", "/secrets/bank-token", "phone")


def _to_output(page: Page) -> None:
    page.locator("#output").scroll_into_view_if_needed()
    page.evaluate("document.getElementById('output').scrollIntoView()")


def _palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.locator("#palette input").press_sequentially("or")
    page.locator("#palette [data-goals] a").first.wait_for()
    page.wait_for_timeout(400)


class Taker(BaseHTTPRequestHandler):
    """Takes what channels send."""

    def do_POST(self) -> None:
        """Answer that it came."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def listening() -> Iterator[int]:
    """A server for the channels of the shop; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()


def main(folder: Path) -> int:
    """Take all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = [] if os.geteuid() else ["--no-sandbox"]
    with (
        tempfile.TemporaryDirectory() as data, listening() as port,
        local_up(Path(data) / "data", TICKWISE_HTTP_ALLOW="127.0.0.1") as up, sync_playwright() as made,
    ):  # fmt: skip
        shop = Shop(up)
        shop.set_up(port)
        # In a thread of its own: the loop of Playwright runs in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, shop.remember_a_day()).result()
        browser = made.chromium.launch(executable_path=program("chromium"), args=flags)
        camera = Photographer(browser, shop, folder)
        take_all(camera, shop)
        browser.close()
        shop.client.close()
        return camera.finish()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
