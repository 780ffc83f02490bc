"""Bad days: hostile text in every field, a server that starts anew, a database that is away, a run that is gone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Open, World
from tests.browser.test_for_everybody import PHONE
from tests.services.server import free_port
from tests.support.databases import closed_at_end
from tests.support.local_up import Local, local_up
from tests.support.process_tree import family, named
from tickwise.sdk.client import Client, ProblemError
from tickwise.web.navigation import DOORS

Contexts = Callable[..., BrowserContext]

CORPUS: Final = (
    "</title></textarea></script></style><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)><svg/onload=alert(3)>",
    "javascript:alert(4)//{{7*7}}${7*7}{% raw %}<!--",
    "invoice\u202egnp.exe\u2066 and \u200fmore\u061c",
    "\u0001\u0007 control \u009b31m",
    "x" * 180,
    "🦊 Ünï 测试 الاختبار ก็็็็็็็็็็็็",
    "\" autofocus onfocus=alert(5) x='",
    "&lt;b&gt; &#60;script&#62; %3Cscript%3E \\u003cscript\\u003e",
)
CONTROL: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
"""Characters that a name is refused for."""
NEVER_RAW: Final = "\u202e\u2066\u200f\u061c\u0001\u0007\u009b"
"""Marks and control characters that no page may hold as they are."""
HELD: Final = """() => [...document.documentElement.outerHTML].filter((each) => "%s".includes(each)).length"""
OPENED: Final = "for (const each of document.querySelectorAll('main details')) each.open = true"
WIDE: Final = """() => document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
    [...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
        .map((each) => each.outerHTML.slice(0, 90)).slice(0, 4)"""
"""What is wider than the page, if anything is."""
MADE_BY_US: Final = """() => [...document.querySelectorAll("*")].filter((element) =>
    ["IMG", "IFRAME", "STYLE", "OBJECT", "EMBED", "B"].includes(element.tagName)
    || element.getAttributeNames().some((name) => name.startsWith("on") || name === "style")
    || (element.getAttribute("href") || "").trim().toLowerCase().startsWith("javascript:")).length"""


@pytest.fixture(scope="module")
def hostile(here: World) -> Iterator[list[str]]:
    """Jobs, runs and people with the corpus in each field that takes it; the paths of their pages."""
    paths, jobs = [], []
    for number, text in enumerate(CORPUS):
        command = f"printf '%s\\n' \"$TICKWISE_PAYLOAD\"; printf '%b' {_octal(text)}; exit 3"
        body: dict[str, Any] = {
            "name": CONTROL.sub("", text), "owner": text[:190], "schedule_type": "ON_DEMAND", "max_retries": 0,
            "payload": {text: [text, {text: text}]}, "labels": {"x": text[:60]},
            "task": {"kind": "shell", "command": command}, "key": f"hostile-{number}",
        }  # fmt: skip
        answer = here.client.request("POST", "/jobs", body=body)
        job = answer.body["job_id"]
        jobs.append(job)
        run = here.client.request("POST", f"/jobs/{job}/runNow", body={}).body["run_id"]
        here.ended(run)
        paths += [f"/jobs/{job}", f"/runs/{run}", f"/runs/{run}?at=0&find=script"]
    held = {"name": "of a held queue", "schedule_type": "ON_DEMAND", "task": {"kind": "shell", "command": "true"}}
    jobs.append(here.client.job_create({**held, "queue": "hostile"})["job_id"])
    here.client.request("POST", "/queues/hostile/hold", body={"reason": CORPUS[1] + CORPUS[3] + CORPUS[5]})
    for text in (CORPUS[0], CORPUS[3]):
        user = {
            "name": text[:60],
            "password": "four quiet herons wade",
            "roles": [{"role": "viewer", "namespace": "default"}],
        }
        # A name that is refused is on no page.
        with suppress(ProblemError):
            here.client.request("POST", "/users", body=user)
    yield paths
    here.client.request("POST", "/queues/hostile/resume")
    for job in jobs:
        here.client.job_cancel(job)


def _octal(text: str) -> str:
    """A word for `printf %b` that writes these bytes."""
    return "'" + "".join(f"\\0{byte:03o}" for byte in text.encode()) + "'"


@pytest.mark.takes_up_to(400)
@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desk", "phone"])
def test_no_hostile_text_does_anything(here: World, opened: Open, hostile: list[str], screen: dict[str, Any]) -> None:
    """On any page: no script runs, nothing is loaded, no element is made, the layout holds, marks of direction are
    spelled out. (The console, dialogs and reports of the policy are watched by `opened`.)"""
    page = opened("/", **screen)
    paths = [
        *(door.path for door in DOORS), *hostile, "/runs?col=payload.x,label.x", "/find?q=script",
        "/jobs?status=CANCELLED", "/dead-letters?status=open", f"/analytics?group_by=label:{CORPUS[5]}",
    ]  # fmt: skip
    wrong: dict[str, Any] = {}
    for path in paths:
        page.goto(here.url + path)
        page.evaluate(OPENED)
        found = {
            "elements": page.evaluate(MADE_BY_US), "marks": page.evaluate(HELD % NEVER_RAW),
            "wide": page.evaluate(WIDE), "violations": page.evaluate("window.violations"),
        }  # fmt: skip
        if any(found.values()):
            wrong[path] = found
    assert wrong == {}
    page.goto(here.url + "/jobs?name=gnp")
    expect(page.locator("tbody")).to_contain_text("invoice\\u202egnp.exe\\u2066")


@contextmanager
def _running(folder: Path, port: int) -> Iterator[Local]:
    with local_up(folder, "--port", str(port)) as up:
        yield up


def _signed_in(up: Local, context: Contexts, path: str) -> Page:
    with Client(up.url, up.key) as client:
        link = str(client.session_link()["link"])
    page = context().new_page()
    page.goto(up.url + link)
    page.goto(up.url + path)
    page.wait_for_function("window.htmx")
    return page


@pytest.mark.takes_up_to(300)
def test_pages_that_are_open_say_that_the_server_is_away_and_resume(tmp_path: Path, context: Contexts) -> None:
    """It starts anew on the same data: the page goes on, in the same session, with what happened meanwhile."""
    port, folder = free_port(), tmp_path / "data"
    with _running(folder, port) as up:
        page = _signed_in(up, context, "/executors")
        first = page.locator("tbody tr").first.inner_text()
    notice = page.locator("#connection")
    expect(notice).to_contain_text("The server cannot be reached")
    expect(page.locator("tbody tr").first).to_be_visible()
    with _running(folder, port):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        expect(notice).to_be_hidden(timeout=90_000)
        expect(page).to_have_url(f"http://127.0.0.1:{port}/executors")
        expect(page.locator("main")).not_to_have_text(first)


@pytest.mark.takes_up_to(300)
def test_a_database_that_is_away_is_told_and_comes_back(tmp_path: Path, context: Contexts) -> None:
    """A page that is open stays readable and says that it may be old; one that is opened then says what is away, and
    becomes the page that was asked for once it is back."""
    folder = tmp_path / "data"
    with local_up(folder) as up:
        page = _signed_in(up, context, "/queues")
        other = page.context.new_page()
        stopped = named(family(up.pid), "postgres")
        assert stopped
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            expect(page.locator("#connection")).to_contain_text("The server cannot", timeout=90_000)
            expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
            answer = other.goto(up.url + "/jobs", timeout=90_000)
            assert answer is not None
            assert 503 == answer.status
            expect(other.get_by_role("heading", level=1)).to_have_text("The database is away")
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        expect(page.locator("#connection")).to_be_hidden(timeout=90_000)
        expect(other.get_by_role("heading", level=1)).to_have_text("Jobs", timeout=90_000)
        expect(other.get_by_role("navigation")).to_be_visible()


async def _forget(up_folder: Path, run_id: str) -> None:
    """As retention takes a run."""
    facts = json.loads((up_folder / "client.json").read_text(encoding="utf-8"))
    connection = await asyncpg.connect(facts["database_url"])
    async with closed_at_end(connection):
        await connection.execute("DELETE FROM tickwise.history WHERE run_id = $1", run_id)


def test_a_run_that_is_gone_is_told_on_its_open_page(here: World, opened: Open) -> None:
    """What was on the page stays to be read."""
    run = here.run_of("reports in colour")
    page = opened(f"/runs/{run}", expects="404")
    page.wait_for_function("window.htmx")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _forget(here.up.data_dir, run)).result()
    # Again and again: a page that is at a renewal begins no other.
    page.evaluate("window.seen = setInterval(() => document.dispatchEvent(new Event('visibilitychange')), 100)")
    expect(page.locator("#connection")).to_contain_text("no longer kept")
    page.evaluate("clearInterval(window.seen)")
    expect(page.locator(".log")).to_contain_text("ready")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
