"""What every page has, and what no page ever shows."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest
import pytest_asyncio

import tickwise.web
from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.domain.errors import StoreUnavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.blobs import LOG_LAST, log_prefix
from tickwise.ports.store import ClaimRequest
from tickwise.testing.factories import executor, outcome
from tickwise.web.assets import Assets
from tickwise.web.navigation import DOORS
from tickwise.web.templating import Templates

WEB = Path(tickwise.web.__file__).parent
SHELL = {"kind": "shell", "command": "date"}
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "</title></textarea></script><svg/onload=alert(3)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(4)",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b]0;title\x07\x1b[0m",
    "🦊 Ünï" + "x" * 150,
    "&lt;b&gt;",
)


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


OURS = {
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "form", "input", "kbd", "div", "details",
    "summary", "span", "p", "button", "nav", "main", "h1", "h2", "h3", "section", "table", "thead", "tbody", "tr",
    "th", "td", "time", "svg", "rect", "circle", "path", "g", "line", "polygon", "ul", "ol", "li", "dl", "dt",
    "dd", "pre", "code",
    "label", "select", "option", "textarea", "dialog", "strong", "wbr", "br", "figure", "figcaption",
    "fieldset", "legend", "datalist", "ins", "del", "mark",
}  # fmt: skip
"""The elements that our templates have. The corpus has others: `img`."""


def _inert(page: Markup) -> None:
    """No element or attribute of a page runs anything but our own files."""
    assert page.tags() <= OURS, page.tags() - OURS
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert "javascript:" not in attributes.get("href", "").lower().lstrip()[:20], attributes
        if tag == "script":
            assert attributes["src"].startswith("/static/"), attributes


async def _failed_run(rig: Rig, job_id: str, output: bytes, error: str) -> str:
    """A run of a job that failed, with output."""
    store = rig.here.store
    run_id = (await rig.here.client.post(f"{API}/jobs/{job_id}/runNow", json={})).json()["run_id"]
    row = await store.jobs.get("default", UUID(job_id))
    assert row is not None
    number = await store.executors.join(executor(f"one of {run_id}"))
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=50, ahead_seconds=1.0
    )
    for each in await store.attempts.claim(request):
        await rig.here.control.context.blobs.put(f"{log_prefix(each.run_id, 1)}000000{LOG_LAST}", output)
        ended = outcome(each, RunState.FAILED, reason="exit_code", error=error)
        assert not await store.attempts.finish(number, [ended])
    return str(run_id)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_output_or_error_becomes_markup(rig: Rig, text: str) -> None:
    """On the page of the run, in the lists, and as a file, which is text and nothing else."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "writes", "every": "1h", "task": SHELL})).json()
    run = await _failed_run(rig, job["job_id"], f"{text}\n{text}".encode(), text.replace("\x07", ""))
    browser = await rig.signed_in(f"runs {HOSTILE.index(text)}", ("viewer", "default"))
    for path in (f"/runs/{run}", "/", "/runs", "/dead-letters", f"/jobs/{job['job_id']}", f"/runs/{run}?at=0"):
        answer = await browser.get(path)
        assert 200 == answer.status_code, path
        _inert(Markup(answer.text))
        assert not {"\x1b", "\u202e", "\x07"} & set(answer.text), path
    file = await browser.get(f"/runs/{run}/log?attempt=1")
    assert file.content == f"{text}\n{text}".encode()
    assert "text/plain; charset=utf-8" == file.headers["content-type"]
    assert file.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_text_from_outside_becomes_markup(rig: Rig, text: str) -> None:
    """In names, labels, owners, payloads, reasons, errors and output, on every page that shows them."""
    shown = text.replace("\x1b", "").replace("\x07", "")[:190]
    body = {
        "name": shown, "owner": shown, "every": "1h", "payload": {shown: [shown]}, "labels": {"x": shown[:60]},
        "task": {"kind": "shell", "command": shown},
    }  # fmt: skip
    made = await rig.here.client.post(f"{API}/jobs", json=body)
    assert 201 == made.status_code, made.text
    job = made.json()["job_id"]
    browser = await rig.signed_in(f"reader {HOSTILE.index(text)}", ("admin", "default"))
    paused = await browser.post(f"/jobs/{job}/pause", {"reason": shown})
    assert 303 == paused.status_code
    paths = [f"/jobs/{job}", f"/jobs/{job}/edit", f"/jobs/new?copy={job}", *(door.path for door in DOORS)]
    paths += [
        "/bulk/jobs/pause?of=all",
        f"/bulk/jobs/pause?of=rows&job_id={job}",
        f"/bulk/runs/retry?of=all&job_id={job}",
    ]
    paths += [f"/bulk/jobs/cancel?of=all&{query}={quote(text, safe='')}" for query in ("name", "label", "owner")]
    queries = ("name", "owner", "label", "status", "cursor", "namespace", "schedule_type")
    paths += [f"/jobs?{query}={quote(text, safe='')}" for query in queries]
    for path in [*paths, f"/nothing/{quote(text, safe='')}", f"/login?next={quote(text, safe='')}"]:
        answer = await browser.get(path)
        assert answer.status_code < 500, path
        if answer.text:
            _inert(Markup(answer.text))
            assert "\u202e" not in answer.text
    page = Markup((await browser.get(f"/jobs/{job}")).text)
    if text.isascii() and "\x1b" not in text:
        assert shown in page.text


async def test_every_answer_has_the_headers_that_protect_browsers(rig: Rig) -> None:
    """Pages, refusals, files and redirects."""
    browser = await rig.signed_in("headers", ("viewer", "default"))
    asset = Assets().url("app.css")
    stranger = rig.browser()
    answers = [
        await browser.get("/"), await browser.get("/jobs?status=x"), await browser.get("/nothing"),
        await browser.get("/audit"), await stranger.get("/"), await stranger.get("/login"),
        await stranger.get(str(asset)), await browser.post("/jobs", {}),
    ]  # fmt: skip
    assert [200, 422, 404, 403, 303, 200, 200, 404] == [answer.status_code for answer in answers]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert "nosniff" == answer.headers["x-content-type-options"]
        assert ("x-request-id" in answer.headers) == (answer is not answers[6])
    assert {"no-store"} == {answer.headers["cache-control"] for answer in answers[:6]}


def test_no_template_has_a_script_or_a_style_of_its_own() -> None:
    """The policy would refuse them, and the page would be broken."""
    for path in sorted((WEB / "templates").glob("*.html")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|\|\s*safe\b|autoescape", text), path.name
        assert all('src="{{ asset(' in tag for tag in re.findall(r"<script[^>]*>", text)), path.name


def test_every_template_can_be_read() -> None:
    """Also those that no test asks for."""
    templates = Templates(Assets())
    assert len(templates.names()) > 10
    for name in templates.names():
        templates._environment.get_template(name)


async def test_a_part_of_a_page_is_the_block_of_the_page(rig: Rig) -> None:
    """So a part that is renewed cannot differ from the page."""
    browser = await rig.signed_in("parts", ("viewer", "default"))
    for path, part in (("/", "live"), ("/jobs", "live"), ("/jobs", "results"), ("/runs", "live"), ("/queues", "live")):
        whole = (await browser.get(path)).text
        found = (await browser.get(path, tickwise_part=part)).text
        assert "<html" not in found
        assert _timeless(found).strip() in _timeless(whole), (path, part)
    assert "<html" in (await browser.get("/", tickwise_part="body")).text


def _timeless(text: str) -> str:
    return re.sub(r"<time[^>]*>[^<]*</time>", "", text)


async def test_a_file_is_kept_for_a_year_under_the_name_of_its_content(tmp_path: Path, rig: Rig) -> None:
    """Compressed once; a name of other content is not served."""
    (tmp_path / "a.css").write_text("body { color: red }" * 50)
    first = Assets(tmp_path).url("a.css")
    (tmp_path / "a.css").write_text("body { color: blue }" * 50)
    assert first != Assets(tmp_path).url("a.css")
    answer = await rig.browser().get(str(Assets().url("app.css")), accept_encoding="gzip")
    assert "public, max-age=31536000, immutable" == answer.headers["cache-control"]
    assert ("gzip", "accept-encoding") == (answer.headers["content-encoding"], answer.headers["vary"])
    assert answer.text == (WEB / "static" / "app.css").read_text(encoding="utf-8")
    for path in ("/static/app.css", "/static/app.000000000000.css", "/static/%2e%2e/app.py", "/static/..%2fapp.py"):
        assert 404 == (await rig.browser().get(path)).status_code


async def test_a_page_is_small(rig: Rig) -> None:
    """With all files that it loads, compressed: it is read on a phone in a train."""
    browser = await rig.signed_in("small", ("admin", "default"))
    for door in DOORS:
        answer = await browser.get(door.path)
        weight = len(gzip.compress(answer.content))
        files = re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text)
        assert len(files) >= 4
        for file in files:
            weight += len(gzip.compress((await browser.get(file)).content))
        assert weight < 150_000, (door.path, weight)


async def test_a_database_that_is_away_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a page that looks again by itself; what the error says of the network stays in the log."""
    browser = await rig.signed_in("away", ("viewer", "default"))
    await browser.get("/jobs")

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(rig.here.store.searches, "jobs", away)
    answer = await browser.get("/jobs")
    page = Markup(answer.text)
    assert 503 == answer.status_code
    assert "The database is away" in page.words
    assert ["5"] == [each["data-live"] for each in page.named("div") if "data-live" in each]
    monkeypatch.undo()
    assert 200 == (await browser.get("/jobs")).status_code


async def test_an_error_of_ours_tells_nothing_of_itself(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the id of the request, which finds it in the log."""
    browser = await rig.signed_in("broken", ("viewer", "default"))

    async def broken(*_: object, **__: object) -> object:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(rig.here.store.searches, "jobs", broken)
    answer = await browser.get("/jobs")
    assert 500 == answer.status_code
    assert "secret of the house" not in answer.text
    assert answer.headers["x-request-id"] in answer.text


async def test_a_form_that_is_refused_comes_back_with_what_was_typed(rig: Rig) -> None:
    """And with the fault at its field."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "form", "every": "1h", "task": SHELL})).json()[
        "job_id"
    ]
    browser = await rig.signed_in("typing", ("operator", "default"))
    answer = await browser.post(f"/jobs/{job}/run-now", {"payload": '{"a": 1,}'})
    page = Markup(answer.text)
    assert 422 == answer.status_code
    assert '{"a": 1,}' in page.text
    assert "this is no JSON" in page.words
    past = await browser.post(f"/jobs/{job}/pause", {"reason": "long enough", "until": "2001-01-01T00:00"})
    assert 422 == past.status_code
    assert "long enough" in [each.get("value") for each in Markup(past.text).named("input")]


async def test_the_second_of_two_people_sees_what_changed(rig: Rig) -> None:
    """A form that was opened before another person's change does not undo it."""
    job = (await rig.here.client.post(f"{API}/jobs", json={"name": "two", "every": "1h", "task": SHELL})).json()[
        "job_id"
    ]
    browser = await rig.signed_in("second", ("operator", "default"))
    fields = Markup((await browser.get(f"/jobs/{job}")).text).named("input")
    version = next(each["value"] for each in fields if each.get("name") == "version")
    changed = await rig.here.client.put(f"{API}/jobs/{job}", json={"every": "2h"})
    assert 200 == changed.status_code
    answer = await browser.post(f"/jobs/{job}/pause", {"reason": "mine", "version": version})
    assert 409 == answer.status_code
    page = Markup(answer.text)
    assert "every 2 hours" in page.words.lower()
    assert "mine" in [each.get("value") for each in page.named("input")]


async def test_a_form_is_bounded(rig: Rig) -> None:
    """Its bytes, its fields and its kind."""
    browser = await rig.signed_in("large", ("operator", "default"))
    assert 413 == (await browser.post("/logout", {"x": "y" * (2 << 20)})).status_code
    assert 400 == (await browser.post("/logout", {f"f{place}": "" for place in range(300)})).status_code
    assert 400 == (await browser.post("/logout", {"x": "y"}, content_type="text/plain")).status_code
