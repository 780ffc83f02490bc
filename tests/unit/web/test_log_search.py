"""The page that searches the outputs of runs: what it finds, what it costs, and who may see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.control.runs import log_search
from tickwise.control.runs.log_search import LOG_BYTES_MOST, OutputSearch
from tickwise.documents.log_origin import own_key, ranges_content
from tickwise.domain.errors import Busy, Unavailable
from tickwise.ports.blobs import log_chunk_key
from tickwise.ports.store import ClaimRequest, NewExecutor


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def _written(rig: Rig, outputs: Sequence[tuple[str, bytes]]) -> list[UUID]:
    """Runs of these jobs that wrote this, the oldest first. The label `team` of each is its name."""
    runs = []
    for name, _ in outputs:
        task = {"kind": "shell", "command": "x"}
        body = {"name": name, "task": task, "schedule_type": "IMMEDIATE", "labels": {"team": name}}
        job = (await rig.here.client.post(f"{API}/jobs", json=body)).json()["job_id"]
        runs.append(UUID((await rig.here.client.get(f"{API}/jobs/{job}/runs")).json()[0]["run_id"]))
    store, blobs = rig.here.store, rig.here.control.context.blobs
    executor = await store.executors.join(
        NewExecutor(number=2, name="e", queues=["default"], labels=[], functions=[], slots=9, lease_seconds=60)
    )
    request = ClaimRequest(executor=executor, queues=["default"], labels=["task:shell"], limit=99, ahead_seconds=0)
    assert len(runs) == len(await store.attempts.claim(request))
    for run, (_, content) in zip(runs, outputs, strict=True):
        await blobs.put(log_chunk_key(run, 1, 0, last=True), content)
    return runs


async def test_each_line_leads_to_its_place_in_the_output(rig: Rig) -> None:
    """With the job's name; the place shows the line. Colours and markup of an output are text."""
    first = b"begins\nvoucher \x1b[31m<b>4711</b>\x1b[0m\nends\n"
    runs = await _written(rig, [("orders", first), ("prices", b"nothing"), ("stock", b"no VOUCHER\n")])
    ada = await rig.signed_in("ada", ("viewer", "default"))
    answer = await ada.get("/logs?find=voucher")
    page = Markup(answer.text)
    assert "2 lines in 2 runs." in page.words
    assert "3 runs searched, 59 Bytes read in " in page.words
    assert "These are all runs that match." in page.words
    assert "voucher <b>4711</b>" in page.text
    assert "b" not in page.tags()
    lines = [each["href"] for each in page.named("a") if "#b" in each["href"]]
    assert [str(runs[2]), str(runs[0])] == [urlsplit(each).path.rpartition("/")[2] for each in lines]
    assert {"attempt": ["1"], "find": ["voucher"], "at": ["7"]} == parse_qs(urlsplit(lines[1]).query)
    shown = Markup((await ada.get(lines[1].partition("#")[0])).text)
    assert lines[1].partition("#")[2] in [each.get("id") for each in shown.named("span")]


async def test_nothing_is_searched_before_a_text_is_sent(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says what a search costs and where it ends; it has no script that searches as somebody types."""

    async def searched(*_: Any) -> None:
        raise AssertionError("it was searched")

    monkeypatch.setattr(rig.here.control.runs._output_searches, "search", searched)
    ada = await rig.signed_in("ada", ("viewer", "default"))
    for path in ("/logs", "/logs?find=", "/logs?find=+&job_name=a"):
        page = Markup((await ada.get(path)).text)
        assert "reads 64.0 MiB at most; it takes about 5.0 s" in page.words
        [form] = [each for each in page.named("form") if each.get("action") == "/logs"]
        assert "data-search" not in form


async def test_a_search_that_stopped_at_a_bound_says_so_and_leads_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a page without a hit; the filters stay, and no run comes twice."""
    await _written(rig, [(f"job-{number}", b"needle\n" * (number % 2)) for number in range(5)])
    monkeypatch.setattr(log_search, "RUNS_MOST", 2)
    ada = await rig.signed_in("ada", ("viewer", "default"))
    address, found, sentences = "/logs?find=needle&job_name=job", [], []
    while address:
        page = Markup((await ada.get(address)).text)
        found += [each["href"] for each in page.named("a") if "#b" in each["href"]]
        sentences.append("Older runs were not searched yet." in page.words)
        [address] = [each["href"] for each in page.named("a") if each.get("rel") == "next"] or [""]
        assert not address or parse_qs(urlsplit(address).query).keys() == {"find", "job_name", "before"}
    assert ([True, True, False], 2) == (sentences, len(set(found)))
    assert len(found) == len(set(found))


async def test_a_filter_narrows_the_search(rig: Rig) -> None:
    """By job, name, state and time, as in the API."""
    runs = await _written(rig, [("orders", b"needle"), ("prices", b"needle")])
    ada = await rig.signed_in("ada", ("viewer", "default"))
    job = (await rig.here.client.get(f"{API}/runs/{runs[0]}")).json()["job_id"]
    for query, count in (
        ("job_name=ORD", 1), (f"job_id={job}", 1), ("status=FAILED", 0), ("status=DISPATCHED", 2),
        ("due_before=2001-01-01T00:00", 0), ("due_after=2001-01-01T00:00", 2),
    ):  # fmt: skip
        page = Markup((await ada.get(f"/logs?find=needle&{query}")).text)
        assert count == len([each for each in page.named("a") if "#b" in each["href"]]), query


async def test_outputs_that_were_searched_in_part_are_counted(rig: Rig) -> None:
    """A hit behind the bound of one output is not found, and the page says that there may be some."""
    await _written(rig, [("large", b"x" * LOG_BYTES_MOST + b"\nneedle\n")])
    ada = await rig.signed_in("ada", ("viewer", "default"))
    page = Markup((await ada.get("/logs?find=needle")).text)
    assert "No line has it." in page.words
    assert "1 output was searched in part." in page.words


async def test_the_page_shows_what_the_api_shows(rig: Rig) -> None:
    """Runs of other labels and of other namespaces are left out; without a role it is 403."""
    red, _ = await _written(rig, [("red", b"needle"), ("blue", b"needle")])
    person = {"name": "Red", "password": "four quiet herons wade", "roles": [
        {"role": "viewer", "namespace": "default", "labels": {"team": "red"}}]}  # fmt: skip
    assert 201 == (await rig.here.client.post(f"{API}/users", json=person)).status_code
    browser = rig.browser()
    assert 303 == (await browser.sign_in("Red")).status_code
    page = Markup((await browser.get("/logs?find=needle")).text)
    assert [str(red)] == [
        urlsplit(each["href"]).path.rpartition("/")[2] for each in page.named("a") if "#b" in each["href"]
    ]
    nobody = await rig.signed_in("nobody")
    assert 403 == (await nobody.get("/logs?find=needle")).status_code
    await rig.here.key("elsewhere", "runs:read", namespace="team-a")
    other = await rig.signed_in("other", ("viewer", "team-a"))
    assert "No line has it." in Markup((await other.get("/logs?find=needle&namespace=team-a")).text).words


@pytest.mark.parametrize(
    ("failure", "status"), [(Busy("other searches are at work"), 429), (Unavailable("the bucket is away"), 503)]
)
async def test_a_search_that_cannot_be_made_keeps_what_was_typed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, failure: Exception, status: int
) -> None:
    """And says why."""

    async def searched(_query: Any, _search: OutputSearch) -> None:
        raise failure

    monkeypatch.setattr(rig.here.control.runs._output_searches, "search", searched)
    ada = await rig.signed_in("ada", ("viewer", "default"))
    answer = await ada.get("/logs?find=needle&job_name=orders")
    page = Markup(answer.text)
    assert status == answer.status_code
    assert str(failure)[1:] in page.words
    assert {"needle", "orders"} <= {each.get("value") for each in page.named("input")}


async def test_a_line_of_tickwise_has_a_label_on_the_page_and_one_that_a_task_prints_has_none(rig: Rig) -> None:
    """The same text; the label is a text, so that it is read out as well. A line of the task that says so itself is
    plain."""
    line = b"[kept as artefacts: a]\n"
    content = b"Tickwise " + line + line + b"\x1b[1mend\x1b[0m\n"
    [run] = await _written(rig, [("orders", content)])
    own = ranges_content(((9 + len(line), 9 + 2 * len(line)),))
    await rig.here.control.context.blobs.put(own_key(run, 1), own)
    ada = await rig.signed_in("ada", ("viewer", "default"))
    text = (await ada.get(f"/runs/{run}")).text
    begin = text.index('<pre class="log"')
    shown = text[begin : text.index("</pre>", begin)]
    counted = [shown.count(text) for text in ('class="line own"', ">Tickwise</span>", "[kept as artefacts: a]")]
    assert [1, 1, 2] == counted
    assert f'class="line own" id="b{9 + len(line)}"' in shown
    raw = await rig.here.client.get(f"{API}/runs/{run}/logs")
    assert content == raw.content
    asked = await rig.here.client.get(f"{API}/runs/{run}/logs", headers={"accept": "application/json"})
    assert ["task", "tickwise", "task"] == [each["origin"] for each in asked.json()["parts"]]


async def test_a_line_of_tickwise_is_told_apart_where_it_is_found(rig: Rig) -> None:
    """On the page by a label that no task can print, in the API by its origin; a task's own words have neither."""
    ours = b"[kept as artefacts: a.csv (1 byte)]"
    content = ours + b"\n" + ours + b"\n"
    (run,) = await _written(rig, [("orders", content)])
    blobs = rig.here.control.context.blobs
    await blobs.put(own_key(run, 1), ranges_content(((len(ours) + 1, len(content)),)))
    ada = await rig.signed_in("ada", ("viewer", "default"))
    page = Markup((await ada.get("/logs?find=artefacts")).text)
    assert 1 == len([each for each in page.named("li") if each.get("class") == "own"])
    assert 1 == page.words.count("Tickwise [kept as")
    found = (await rig.here.client.get(f"{API}/logs?find=artefacts")).json()["hits"]
    assert [(0, "task"), (len(ours) + 1, "tickwise")] == [(each["offset"], each["origin"]) for each in found]
