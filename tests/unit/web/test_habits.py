"""What serves on every page: the palette, zone and times, commands to copy, columns, the search in an output."""

from __future__ import annotations

import ast
import shlex
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import click
import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Browser, Markup, Rig, pages
from tickwise.cli.main import root
from tickwise.domain.lifecycle import RunState
from tickwise.ports.blobs import LOG_LAST, log_prefix
from tickwise.ports.store import ClaimRequest
from tickwise.testing.factories import executor, outcome
from tickwise.web.copies import LISTINGS, Copier
from tickwise.web.display import COOKIE
from tickwise.web.navigation import DOORS

SHELL: Final = {"kind": "shell", "command": "date"}
OUTPUT: Final = b"".join(b"line %05d of many, to fill a page\n" % number for number in range(20_000)) + b"the END\n"


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        yield made


async def _job(rig: Rig, name: str, **fields: Any) -> str:
    body = {"name": name, "every": "1h", "task": SHELL, **fields}
    answer = await rig.here.client.post(f"{API}/jobs", json=body)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def _run(rig: Rig, job_id: str, result: str | None = None, output: bytes = b"", **body: Any) -> str:
    """A run that succeeded."""
    store = rig.here.store
    run_id = (await rig.here.client.post(f"{API}/jobs/{job_id}/runNow", json=body)).json()["run_id"]
    number = await store.executors.join(executor(f"one of {run_id}"))
    row = await store.jobs.get("default", UUID(job_id))
    assert row is not None
    request = ClaimRequest(
        executor=number, queues=["default"], labels=list(row.lane.requires), limit=50, ahead_seconds=1.0
    )
    for each in await store.attempts.claim(request):
        if output:
            await rig.here.control.context.blobs.put(f"{log_prefix(each.run_id, 1)}000000{LOG_LAST}", output)
        assert not await store.attempts.finish(number, [outcome(each, RunState.SUCCESS, result=result)])
    return str(run_id)


async def _shown(browser: Browser, path: str, **query: str) -> Markup:
    answer = await browser.get(f"{path}?{urlencode(query)}" if query else path)
    assert 200 == answer.status_code, answer.text
    return Markup(answer.text)


# -------------------------------------------------------------------------------------------------- columns


async def test_a_column_takes_a_value_out_of_payload_result_or_label(rig: Rig) -> None:
    """Nested fields, places in lists, names with dots; the run's own payload goes before the job's."""
    payload = {"customer": {"id": 4711}, "a.b": "dotted", "items": ["x", {"y": [1, 2]}]}
    job = await _job(rig, "columns", payload=payload, labels={"team": "shop"})
    await _run(rig, job, result='{"rows": 12}')
    await _run(rig, job, payload={"customer": {"id": 4712}})
    browser = await rig.signed_in("columns", ("viewer", "default"))
    said = "payload.customer.id, result.rows,label.team,payload.a.b,payload.items.1.y"
    page = await _shown(browser, "/runs", job_id=job, col=said)
    for text in ("4711", "4712", "12", "shop", "dotted", "[1,2]"):
        assert text in page.words, text
    assert {"payload.customer.id", "label.team"} <= {each.get("data-label") for each in page.named("td")}
    fewer = [each["href"] for each in page.named("a") if each.get("aria-label") == "Without the column result.rows"]
    rest = {each.get("data-label") for each in (await _shown(browser, fewer[0])).named("td")}
    assert "payload.customer.id" in rest
    assert "result.rows" not in rest


@pytest.mark.parametrize("name", ["token", "password", "api_key", "nested.access_token", "smtpPass"])
async def test_a_column_shows_no_secret(rig: Rig, name: str) -> None:
    """Neither by its own name nor inside of a value."""
    inner: dict[str, Any] = {name.rpartition(".")[2]: "hush"}
    payload = {"nested": inner} if "." in name else inner
    job = await _job(rig, f"secret {name}", payload={"outer": payload, **payload})
    await _run(rig, job)
    browser = await rig.signed_in(f"secret {name}", ("viewer", "default"))
    page = await _shown(browser, "/runs", job_id=job, col=f"payload.{name},payload.outer")
    assert "hush" not in page.text
    assert "***" in page.words
    assert f"payload.{name}" not in [each["value"] for each in page.named("option") if "value" in each]


@pytest.mark.parametrize("said", ["payload", "owner.x", "payload.", ",".join(f"label.l{i}" for i in range(7))])
async def test_a_column_that_cannot_be_is_refused(rig: Rig, said: str) -> None:
    """With what to write."""
    browser = await rig.signed_in(f"odd {said[:20]}", ("viewer", "default"))
    answer = await browser.get(f"/runs?{urlencode({'col': said})}")
    assert 422 == answer.status_code
    assert "column" in Markup(answer.text).words


# -------------------------------------------------------------------------------------------------- display


async def test_times_are_shown_in_the_zone_that_was_chosen(rig: Rig) -> None:
    """Without a script: the form keeps it in a cookie, and a page writes its times so."""
    job = await _job(rig, "zoned", cron="30 2 * * *", every=None, timezone="Asia/Tokyo")
    run = await _run(rig, job)
    browser = await rig.signed_in("zones", ("viewer", "default"))
    session = browser.cookie
    for zone, sign in (("Europe/Berlin", "CE"), ("job", "JST"), ("UTC", "UTC"), ("", "UTC")):
        form = {"zone": zone, "times": "absolute", "theme": "dark", "back": f"/runs/{run}"}
        answer = await browser.post("/display", form)
        assert (303, f"/runs/{run}") == (answer.status_code, answer.headers["location"])
        browser.cookie = f"{session}; {browser.cookie}"
        page = await _shown(browser, f"/runs/{run}")
        assert all(sign in text for text in page.words.split("Due ")[1:2]), (zone, page.words[:900])
        assert [{"lang": "en", "data-theme": "dark"}] == page.named("html")
        assert not [each for each in page.named("time") if "data-ago" in each]
        browser.cookie = session


@pytest.mark.parametrize("form", [{"zone": "Mars/Olympus"}, {"zone": "../etc"}, {"times": "x"}, {"theme": "x"}])
async def test_a_display_that_cannot_be_is_refused(rig: Rig, form: dict[str, str]) -> None:
    """And what a browser kept from another release does not matter."""
    browser = await rig.signed_in(f"display {form}", ("viewer", "default"))
    assert 422 == (await browser.post("/display", form)).status_code
    browser.cookie = f"{browser.cookie}; {COOKIE}={urlencode(form)}"
    assert 200 == (await browser.get("/")).status_code


async def test_the_way_back_is_one_of_ours(rig: Rig) -> None:
    """A form of a stranger is refused, and its address is not followed."""
    browser = rig.browser()
    for back in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"):
        answer = await browser.post("/display", {"back": back})
        assert (303, "/") == (answer.status_code, answer.headers["location"])
    assert 403 == (await browser.post("/display", {}, **{"Sec-Fetch-Site": "cross-site"})).status_code


# -------------------------------------------------------------------------------------------------- palette


async def test_the_palette_finds_pages_jobs_and_ids(rig: Rig) -> None:
    """What the visitor may see: nothing of another namespace, and no page that they may not open."""
    job = await _job(rig, "counts the <stock>")
    run = await _run(rig, job)
    browser = await rig.signed_in("palette", ("viewer", "default"))
    found = [each["href"] for each in (await _shown(browser, "/find", q="STOCK")).named("a")]
    assert f"/jobs/{job}" in found
    assert "/queues" in [each["href"] for each in (await _shown(browser, "/find", q="que")).named("a")]
    assert f"/runs/{run}" in [each["href"] for each in (await _shown(browser, "/find", q=run)).named("a")]
    assert f"/jobs/{job}" in [each["href"] for each in (await _shown(browser, "/find", q=job)).named("a")]
    part = await browser.get("/find?q=stock", tickwise_part="results")
    assert "<html" not in part.text
    assert "&lt;stock&gt;" in part.text.replace("<wbr>", "")
    nobody = await rig.signed_in("palette nobody")
    for text in ("stock", run, job, "audit"):
        words = Markup((await nobody.get(f"/find?q={text}", tickwise_part="results")).text).words
        assert "Nothing here has this name or id." in words


# -------------------------------------------------------------------------------------------------- copies


NASTY: Final = "a'b\"c $(touch x) `y` ; & \\ | ü\n"


def test_keys_lead_to_one_page_each() -> None:
    """Two that share keys leave one of them without."""
    assert [keys for keys, doors in Counter(door.keys for door in DOORS).items() if doors > 1] == []


def test_a_command_has_the_values_as_they_are() -> None:
    """Quoted for sh and for Python: nothing of an address is run."""
    copier = Copier("http://127.0.0.1:8470/", NASTY)
    for path, listing in LISTINGS.items():
        query = [(name, NASTY) for name in listing.options]
        copy = copier.listing(path, query)
        assert copy is not None
        words = shlex.split(copy.command)
        assert [f"{option}={NASTY}" for option in listing.options.values()] == words[
            1 + len(listing.command.split()) : -2
        ]
        assert ["--namespace", NASTY] == words[-2:]
        curl = shlex.split(copy.curl)
        assert f"Tickwise-Namespace: {NASTY}" in curl
        assert curl[-1].startswith(f"http://127.0.0.1:8470/api/v1{path}")
        texts = [each.value for each in ast.walk(ast.parse(copy.python)) if isinstance(each, ast.Constant)]
        assert 1 + len(query) == texts.count(NASTY)
    assert copier.listing("/jobs", [("key", "x")]) is None


def test_a_command_names_the_server_where_commands_would_not_find_it() -> None:
    """At another address than that of a local `up` by default."""
    assert "--url" not in Copier("http://localhost:8470/", "default").of_job("x")[0].command
    elsewhere = shlex.split(Copier("https://tickwise.example/", "default").of_job("x")[0].command)
    assert ["--url", "https://tickwise.example", "--namespace", "default"] == elsewhere[-4:]
    assert _known(elsewhere[1:3] + elsewhere[4:5])


def _known(words: list[str]) -> bool:
    """Check whether the command line has these commands and options."""
    found: Any = root
    options = {"--namespace"}
    for word in words:
        if word.startswith("--"):
            options.add(word.partition("=")[0])
        elif isinstance(found, click.Group):
            found = found.get_command(click.Context(found), word)
    known = {option for parameter in found.params for option in parameter.opts}
    return not options - known and not isinstance(found, click.Group)


def test_each_command_is_one_of_the_command_line() -> None:
    """With each option."""
    copier = Copier("http://127.0.0.1:8470/", "default")
    for path, listing in LISTINGS.items():
        copy = copier.listing(path, [(name, "x") for name in listing.options])
        assert copy is not None
        assert _known(shlex.split(copy.command)[1:]), copy.command
    for copy in (*copier.of_job("some-id"), *copier.of_run("some-id")):
        assert _known([word for word in shlex.split(copy.command)[1:] if word not in ("some-id", "default")])


async def test_each_list_has_its_commands(rig: Rig) -> None:
    """With the filters of its address."""
    browser = await rig.signed_in("copies", ("admin", "default"))
    for path in LISTINGS:
        page = await _shown(browser, path)
        assert 3 <= len([each for each in page.named("button") if "data-copy" in each]), path
    page = await _shown(browser, "/runs", status="FAILED", cursor="", col="label.x")
    texts = [each["data-copy"] for each in page.named("button") if "data-copy" in each]
    assert "/api/v1/runs?status=FAILED" in texts[0]
    assert "tickwise runs list --status=FAILED --namespace default" == texts[1]


# -------------------------------------------------------------------------------------------------- output


async def test_a_search_in_an_output_leads_to_the_line(rig: Rig) -> None:
    """Next and previous hit, from both ends, and what is said where there is none."""
    job = await _job(rig, "writes much")
    run = await _run(rig, job, output=OUTPUT)
    browser = await rig.signed_in("finds", ("viewer", "default"))

    async def goes(address: str) -> str:
        answer = await browser.get(address)
        assert 303 == answer.status_code, answer.text
        return str(answer.headers["location"])

    size = len(b"line 00000 of many, to fill a page\n")
    found = await goes(f"/runs/{run}/log/find?find=LINE+0999")
    assert found.endswith(f"at={9990 * size}#b{9990 * size}")
    page = await _shown(browser, found.partition("#")[0])
    assert f"b{9990 * size}" in {each.get("id") for each in page.named("span")}
    assert 10 == len(page.named("mark"))
    links = {each.get("rel"): each["href"] for each in page.named("a") if "rel" in each}
    assert (await goes(links["next"])).endswith(f"#b{9991 * size}")
    none = await goes(links["prev"])
    assert "This is the first hit. To the last hit" in (await _shown(browser, none.partition("#")[0])).words
    last = await goes(f"/runs/{run}/log/find?find=end&back=1")
    assert last.endswith(f"#b{20_000 * size}")
    none = await goes(f"/runs/{run}/log/find?find=nowhere")
    assert "No line has it." in (await _shown(browser, none.partition("#")[0])).words
    assert (await goes(f"/runs/{run}/log/find?find=")).endswith("#output")
    assert 422 == (await browser.get(f"/runs/{run}/log/find?find=x&from=-1")).status_code
    assert 404 == (await browser.get(f"/runs/{run}/log/find?find=x&attempt=9")).status_code


async def test_a_line_that_is_linked_is_on_its_page_with_what_was_before_it(rig: Rig) -> None:
    """Wherever it is."""
    job = await _job(rig, "links")
    run = await _run(rig, job, output=OUTPUT)
    browser = await rig.signed_in("links", ("viewer", "default"))
    size = len(b"line 00000 of many, to fill a page\n")
    for number in (0, 1, 39, 40, 41, 117, 118, 19_999, 20_000):
        page = await _shown(browser, f"/runs/{run}", at=str(number * size))
        names = [each["id"] for each in page.named("span") if each.get("id", "").startswith("b")]
        assert min(number, 40) == names.index(f"b{number * size}")


async def test_the_parts_of_an_output_are_all_of_it(rig: Rig) -> None:
    """From the end to the beginning by one link, and from the beginning to the end by the other."""
    job = await _job(rig, "parts")
    run = await _run(rig, job, output=b"".join(b"%d\n" % number for number in range(9_000)))
    browser = await rig.signed_in("parts of it", ("viewer", "default"))
    for first, word in ((f"/runs/{run}", "Earlier"), (f"/runs/{run}?at=0", "Later")):
        seen: set[str] = set()
        address, pages_read = first, 0
        while address:
            page = await _shown(browser, address)
            lines = {each["id"] for each in page.named("span") if each.get("id", "").startswith("b")}
            assert lines - seen
            seen |= lines
            links = [each["href"] for each in page.named("a") if each.get("data-part") == word]
            address, pages_read = (links[0].partition("#")[0] if links else ""), pages_read + 1
        assert (9_000, True) == (len(seen), pages_read < 12), word
