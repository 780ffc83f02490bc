"""A Tickwise with jobs of every kind, and Debian's Chromium in front of it.

Each page of a test is watched: an error in its console, a violation of the policy, a dialog or a script that fails
makes the test fail.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.services.packages import program
from tests.support.local_up import ROOT, Local, local_up
from tickwise.sdk.client import Client

PASSWORD: Final = "four quiet herons wade"
HOSTILE: Final = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
COLOURED: Final = (
    "import json, os\n"
    "print('\\x1b[32mready\\x1b[0m', '<script>alert(3)</script>')\n"
    "print(os.environ.get('TICKWISE_PAYLOAD', ''))\n"
)
WATCH: Final = """
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => {
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
    });
"""
AXE: Final = ROOT / "requirements" / "browser" / "node_modules" / "axe-core" / "axe.min.js"

PATIENCE_MS: Final = 60_000
"""As shipped, an expectation waits for 5 s; a machine that does much else stands still for longer."""
expect.set_options(timeout=PATIENCE_MS)

Open = Callable[..., Page]


class World:
    """The running Tickwise, and what is in it."""

    def __init__(self, up: Local) -> None:
        self.up = up
        self.url = up.url
        self.client = Client(up.url, up.key)
        self.jobs: dict[str, str] = {}
        for name, fields in _jobs().items():
            self.jobs[name] = self.client.job_create({"name": name, **fields})["job_id"]
        self.client.request("POST", "/users", body=_user("ada", "operator"))
        self.client.request("POST", "/users", body=_user("vera", "viewer"))
        self.failed = self.run_of("fails")
        self.long = self.run_of("writes much")

    def link(self) -> str:
        """A link that signs in once."""
        return self.url + str(self.client.session_link()["link"])

    def run_of(self, name: str) -> str:
        """A run of a job that has ended."""
        run_id: str = self.client.request("POST", f"/jobs/{self.jobs[name]}/runNow", body={}).body["run_id"]
        self.ended(run_id)
        return run_id

    def ended(self, run_id: str) -> dict[str, Any]:
        """The run, once it has ended."""
        pause, end = threading.Event(), time.monotonic() + 100
        while time.monotonic() < end:
            run: dict[str, Any] = self.client.run_get(run_id)
            if run["status"] in ("SUCCESS", "FAILED", "CANCELLED"):
                return run
            pause.wait(0.1)
        raise AssertionError(f"the run {run_id} did not end: {run}")


def _user(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "password": PASSWORD, "roles": [{"role": role, "namespace": "default"}]}


def _jobs() -> dict[str, dict[str, Any]]:
    def shell(command: str) -> dict[str, Any]:
        return {"kind": "shell", "command": command}

    return {
        "reports in colour": {
            "every": "1h", "task": {"kind": "python", "source": COLOURED}, "payload": {"for": "nobody"},
            "labels": {"team": "data"},
        },
        "closes the books": {
            "cron": "30 2 * * *", "timezone": "Europe/Berlin", "task": shell("true"), "labels": {"team": "finance"},
        },
        "fails": {"every": "12h", "max_retries": 0, "task": shell("echo no disk left >&2; exit 3")},
        "writes much": {
            "schedule_type": "ON_DEMAND",
            "task": shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"),
        },
        "waits for a word": {"schedule_type": "ON_DEMAND", "task": shell("sleep 60")},
        HOSTILE: {"every": "1h", "task": shell("true"), "owner": HOSTILE, "payload": {HOSTILE: HOSTILE}},
    }  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A Tickwise of these tests."""
    with local_up(tmp_path_factory.mktemp("pages") / "data") as up:
        world = World(up)
        yield world
        world.client.close()


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Playwright, which drives the browser; it brings none. Its loop runs as long as it is there, and while a loop runs
    no test of the process can have another one: it is there for one file."""
    with sync_playwright() as made:
        yield made


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium. It refuses to run as root in its sandbox."""
    flags = [] if os.geteuid() else ["--no-sandbox"]
    browser = playwright.chromium.launch(executable_path=program("chromium"), args=flags)
    yield browser
    browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes contexts: each has cookies of its own."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        found = chromium.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **options}
        )
        found.set_default_timeout(PATIENCE_MS)
        found.add_init_script(WATCH)
        made.append(found)
        return found

    yield make
    for each in made:
        each.close()


@pytest.fixture
def opened(here: World, context: Callable[..., BrowserContext]) -> Iterator[Open]:
    """Opens a path, signed in by a link unless it is told otherwise; in the end nothing may have gone wrong."""
    watched: list[tuple[Page, list[str]]] = []

    def open_page(
        path: str = "/", *, among: BrowserContext | None = None, link: bool = True, expects: str = "", **options: Any
    ) -> Page:
        """`expects`: a part of what Chromium writes into the console about answers that the test provokes."""
        found = among or context(**options)
        page, wrong = found.new_page(), list[str]()

        def said(message: ConsoleMessage) -> None:
            if message.type == "error" and not (expects and expects in message.text):
                wrong.append(message.text)

        def asked(dialog: Dialog) -> None:
            wrong.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", asked)
        watched.append((page, wrong))
        if link and among is None:
            page.goto(here.link())
        page.goto(here.url + path)
        return page

    yield open_page
    for page, wrong in watched:
        if not page.is_closed():
            wrong += _violations(page)
        assert wrong == [], page.url


def _violations(page: Page) -> list[str]:
    """What the policy was violated by. A page on its way to the next one cannot answer: it is asked again there."""
    for _ in range(3):
        page.wait_for_load_state()
        try:
            found: list[str] = page.evaluate("window.violations || []")
            return found
        except Error as failure:
            if "navigation" not in failure.message:
                raise
    raise AssertionError(f"the page at {page.url} does not come to rest")


COLOURS: Final = ("color-contrast", "link-in-text-block")
"""The rules of axe that look at colours; all others look at what is there."""


def axe(page: Page, *rules: str) -> list[str]:
    """What axe finds wrong with a page, for people who do not see it as we do: by these rules, or by all of them."""
    assert AXE.exists(), "axe-core is not here: install npm (on Debian: apt-get install npm), and call make setup"
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found["violations"]
    ]
