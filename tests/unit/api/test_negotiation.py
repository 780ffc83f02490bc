"""What the caller can read: `Accept`, `Accept-Encoding`, and tags of compressed answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import create
from tickwise.api.negotiation import COMPRESSED_BYTES_MIN

GZIP = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest_asyncio.fixture(loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world() as found:
        yield found


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/json", "application/*", "text/html, */*;q=0.1", "text/html,application/json;q=0.5", "",
     "application/json; charset=utf-8", "APPLICATION/JSON"],
)  # fmt: skip
async def test_json_is_answered_to_who_takes_it(here: World, accept: str) -> None:
    answer = await here.client.get(f"{API}/jobs", headers={"Accept": accept})
    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"])


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;q=0", "image/*", "*/*;q=0", "application/xml, text/*"]
)
async def test_who_takes_no_json_is_refused_before_anything_is_done(here: World, accept: str) -> None:
    """With 406, as a problem; nothing is stored."""
    body = {"name": "unwanted", "cron": "0 3 * * *"}
    answer = await here.client.post(f"{API}/jobs", json=body, headers={"Accept": accept})
    assert (406, "not_acceptable") == (answer.status_code, answer.json()["code"])
    assert "application/problem+json" == answer.headers["content-type"]
    assert [] == (await here.client.get(f"{API}/jobs?name=unwanted")).json()


async def test_several_lines_of_accept_are_one_list(here: World) -> None:
    answer = await here.client.get(f"{API}/jobs", headers=[("Accept", "application/json"), ("Accept", "text/html")])
    assert 200 == answer.status_code


async def test_probes_are_answered_whatever_they_accept(here: World) -> None:
    assert 200 == (await here.client.get("/livez", headers={"Accept": "text/html"})).status_code


async def test_an_answer_of_more_than_a_kilobyte_is_compressed_if_that_is_acceptable(here: World) -> None:
    """`Vary` says in both forms that the header decided; the content is one."""
    job = await create(here, cron="0 3 * * *")
    packed = await here.client.get(f"{API}/jobs/{job}", headers=GZIP)
    plain = await here.client.get(f"{API}/jobs/{job}", headers=PLAIN)
    assert len(plain.content) > COMPRESSED_BYTES_MIN > 0
    assert ("gzip", "accept-encoding") == (packed.headers["content-encoding"], packed.headers["vary"])
    assert "content-encoding" not in plain.headers
    assert "accept-encoding" == plain.headers["vary"]
    assert plain.content == packed.content
    assert int(packed.headers["content-length"]) < len(plain.content)


@pytest.mark.parametrize("coding", ["gzip;q=0", "br", "gzip;q=0.1, identity;q=0.9", "*;q=0", ""])
async def test_who_does_not_want_gzip_gets_none(here: World, coding: str) -> None:
    await create(here, cron="0 3 * * *")
    answer = await here.client.get(f"{API}/jobs", headers={"Accept-Encoding": coding})
    assert (200, None) == (answer.status_code, answer.headers.get("content-encoding"))


async def test_a_small_answer_is_sent_as_it_is(here: World) -> None:
    answer = await here.client.post(f"{API}/jobs", json={"name": "a", "every": "1h"}, headers=GZIP)
    assert "content-encoding" not in answer.headers


async def test_a_large_problem_is_compressed_as_well(here: World) -> None:
    jobs = [{"name": "a", "cron": "61 * * * *"}] * 20
    answer = await here.client.post(f"{API}/jobs:batch?atomic=true", json=jobs, headers=GZIP)
    assert (422, "gzip") == (answer.status_code, answer.headers["content-encoding"])


async def test_the_tag_of_a_compressed_answer_is_its_own_and_guards_writes_as_the_other(here: World) -> None:
    """RFC 9110, section 8.8.3.3: a strong tag names one sequence of bytes. Both name one state."""
    job = await create(here, cron="0 3 * * *")
    packed = (await here.client.get(f"{API}/jobs/{job}", headers=GZIP)).headers["etag"]
    plain = (await here.client.get(f"{API}/jobs/{job}", headers=PLAIN)).headers["etag"]
    assert plain != packed
    assert plain == packed.replace("-gzip", "")
    for tag, headers in ((packed, GZIP), (plain, PLAIN)):
        again = await here.client.get(f"{API}/jobs/{job}", headers={**headers, "If-None-Match": tag})
        assert (304, tag) == (again.status_code, again.headers["etag"])
    changed = await here.client.put(f"{API}/jobs/{job}", json={"priority": 7}, headers={**GZIP, "If-Match": packed})
    assert 200 == changed.status_code, changed.text
    stale = await here.client.put(f"{API}/jobs/{job}", json={"priority": 8}, headers={**GZIP, "If-Match": packed})
    assert 412 == stale.status_code


async def test_head_has_the_headers_of_the_compressed_answer(here: World) -> None:
    job = await create(here, cron="0 3 * * *")
    got = await here.client.get(f"{API}/jobs/{job}", headers=GZIP)
    head = await here.client.head(f"{API}/jobs/{job}", headers=GZIP)
    names = ("content-encoding", "content-length", "etag", "vary")
    assert [got.headers[name] for name in names] == [head.headers[name] for name in names]
