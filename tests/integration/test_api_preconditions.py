"""Preconditions by the table of RFC 9110 (section 13.2.2), for each resource that has an ETag, on either store.

Each case is made from parts: what a header says, whether the thing is there, and the method. What must come of it is
told by `verdict`, which is written from the RFC's text and knows nothing of the product.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.support.overriding import override
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.memory.store import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore, upgrade
from tickwise.ports.store import JobMove, JobRow

SHELL = {"kind": "shell", "command": "date"}
JOB = {"name": "a", "task": SHELL, "cron": "0 0 1 1 *", "timezone": "UTC"}
OTHER = '"another"'
SAFE = ("GET", "HEAD")


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def here(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[World]:
    store: Any = MemoryStore(SystemClock())
    if request.param == "postgres":
        await upgrade(database_url)
        store = PostgresStore(database_url, clock=SystemClock())
    async with world(store=store) as made:
        # The database is shared by the tests of this module, the namespace is not.
        secret = await made.key(f"a key of {uuid4()}", "*", namespace=f"n{uuid4().hex}")
        made.client.headers["Authorization"] = f"Bearer {secret}"
        made.client.headers["Accept-Encoding"] = "identity"  # each encoding has a tag of its own
        yield made


# ------------------------------------------------------------------------------------------ the table


@dataclass(frozen=True)
class Said:
    """What a header says, `{etag}` for the tag of what is there; and whether it lists that, by either comparison."""

    text: str | None
    strongly: bool = False
    weakly: bool = False
    anything: bool = False


NOTHING = Said(None)
SAID = (
    NOTHING,
    Said("*", anything=True),
    Said("{etag}", strongly=True, weakly=True),
    Said("W/{etag}", weakly=True),
    Said(OTHER),
    Said('"a,b", "", {etag}', strongly=True, weakly=True),
    Said('"a" ,, W/"b",W/{etag} ,', weakly=True),
    Said('"a", W/"b"'),
)
FEW = (SAID[1], SAID[2], SAID[4])
MALFORMED = ("3", '"a', 'a"', 'w/"a"', 'W"a"', '"a" "b"', '*, "a"', '"a", *', "'a'", 'W/ "a"', '"a";"b"', '"a b"')


def cases() -> Iterator[tuple[Said, Said]]:
    """If-Match and If-None-Match: each by itself, and some together."""
    yield from ((said, NOTHING) for said in SAID)
    yield from ((NOTHING, said) for said in SAID[1:])
    yield from itertools.product(FEW, FEW)


def verdict(method: str, *, exists: bool, match: Said, none_match: Said) -> str:
    """`go`, `known` (304) or `failed` (412), as section 13.2.2 has it."""
    if match.text is not None and not (exists and (match.anything or match.strongly)):
        return "failed"
    if none_match.text is not None and exists and (none_match.anything or none_match.weakly):
        return "known" if method in SAFE else "failed"
    return "go"


# ------------------------------------------------------------------------------------------ what has an ETag


@dataclass(frozen=True)
class Resource:
    """Where it is, and how it is made and changed."""

    path: str
    body: dict[str, Any]
    writes: tuple[tuple[str, str], ...]
    """Method, and what comes after the path."""
    creates: bool = False
    """A PUT makes one where there is none."""
    scripts: bool = False
    """A PUT sends the text of a script."""


RESOURCES = {
    "job": Resource("/jobs/{id}", JOB, (("PUT", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"))),
    "key": Resource("/jobs/by-key/{id}", JOB, (("PUT", ""),), creates=True),
    "calendar": Resource("/calendars/{id}", {"dates": ["2027-02-01"]}, (("PUT", ""), ("DELETE", "")), creates=True),
    "window": Resource(
        "/windows/{id}", {"when": {"dates": ["2027-02-01"]}}, (("PUT", ""), ("DELETE", "")), creates=True
    ),
    "task": Resource("/tasks/{id}", {"name": "print(1)"}, (("PUT", ""),), creates=True, scripts=True),
}
PLACES = [
    (kind, method, below)
    for kind, resource in RESOURCES.items()
    for method, below in (("GET", ""), ("HEAD", ""), *resource.writes)
]


async def make(here: World, kind: str, number: int, *, exists: bool) -> str:
    """The path of a thing, which is there or not."""
    resource = RESOURCES[kind]
    job_id = uuid5(NAMESPACE_OID, f"{here.client.headers['Authorization']} {number}")
    path = API + resource.path.format(id=job_id if kind == "job" else f"n{number}")
    if exists and kind == "job":
        made = await here.client.post(f"{API}/jobs", json={**resource.body, "job_id": str(job_id)})
        assert 201 == made.status_code, made.text
    elif exists:
        assert 201 == (await here.client.put(path, **sent(resource, "PUT", resource.body))).status_code
    return path


def sent(resource: Resource, method: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a request sends, as the client is told of it."""
    if method != "PUT":
        return {"json": {}} if method == "POST" else {}
    if resource.scripts:
        return {"content": body["name"].encode(), "headers": {"Content-Type": "text/x-python"}}
    return {"json": body}


def changed(resource: Resource) -> dict[str, Any]:
    return {**resource.body, "reason": "b"} if "when" in resource.body else (
        {"dates": ["2027-03-01"]} if "dates" in resource.body else {**resource.body, "name": "b"}
    )  # fmt: skip


async def request(here: World, method: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
    return await here.client.request(method, path, **{**body, "headers": body.get("headers", {}) | headers})


def headers_of(match: Said, none_match: Said, etag: str) -> dict[str, str]:
    named = {"If-Match": match.text, "If-None-Match": none_match.text}
    return {name: text.replace("{etag}", etag) for name, text in named.items() if text is not None}


@pytest.mark.parametrize(("kind", "method", "below"), PLACES)
async def test_preconditions_are_judged_by_the_table(here: World, kind: str, method: str, below: str) -> None:
    """Each case of the table, where the thing is there and where it is not; what is refused changes nothing."""
    resource = RESOURCES[kind]
    for number, (exists, (match, none_match)) in enumerate(itertools.product((True, False), cases()), 1):
        path = await make(here, kind, number, exists=exists)
        before = await here.client.get(path)
        etag = before.headers.get("etag", OTHER)
        if exists:
            assert (200, False) == (before.status_code, etag.startswith("W/")), before.text
        headers = headers_of(match, none_match, etag)
        answer = await request(here, method, path + below, sent(resource, method, changed(resource)), headers)
        told = (kind, method + below, "there" if exists else "not there", headers, answer.status_code, answer.text)
        if not exists and not (method == "PUT" and resource.creates):
            assert 404 == answer.status_code, told
            continue
        expected = verdict(method, exists=exists, match=match, none_match=none_match)
        if expected == "go":
            assert (200 if exists else 201) == answer.status_code, told
        else:
            assert {"known": 304, "failed": 412}[expected] == answer.status_code, told
            after = await here.client.get(path)
            assert before.status_code == after.status_code, told
            assert not exists or before.text == after.text, told
        if expected == "known":
            assert (b"", etag) == (answer.content, answer.headers["etag"]), told


@pytest.mark.parametrize(("kind", "method", "below"), PLACES)
async def test_tags_that_cannot_be_read_are_refused(here: World, kind: str, method: str, below: str) -> None:
    """400 names the header, and nothing is done."""
    path = await make(here, kind, 1, exists=True)
    before = await here.client.get(path)
    for name, text in itertools.product(("If-Match", "If-None-Match"), MALFORMED):
        body = sent(RESOURCES[kind], method, changed(RESOURCES[kind]))
        answer = await request(here, method, path + below, body, {name: text})
        assert 400 == answer.status_code, (name, text, answer.text)
        if method != "HEAD":
            assert ("header_malformed", name) == (answer.json()["code"], answer.json()["parameter"])
    assert before.text == (await here.client.get(path)).text


async def test_a_header_in_several_lines_is_one_list(here: World) -> None:
    """RFC 9110, section 5.3."""
    path = await make(here, "job", 1, exists=True)
    etag = (await here.client.get(path)).headers["etag"]
    lines = [("If-Match", OTHER), ("If-Match", etag), ("If-None-Match", OTHER), ("If-None-Match", etag)]
    assert 200 == (await here.client.put(path, json={"name": "b"}, headers=lines[:2])).status_code
    assert 412 == (await here.client.put(path, json={"name": "c"}, headers=lines[:2])).status_code
    assert 200 == (await here.client.get(path, headers=lines[2:])).status_code


# ------------------------------------------------------------------------------------------ what a tag covers


async def test_each_change_of_a_job_gives_it_another_tag(here: World) -> None:
    """A change, a pause, a resume, a run by request, a skipped occurrence, a cancel: none leaves the tag as it was."""
    path = await make(here, "job", 1, exists=True)
    tags = [(await here.client.get(path)).headers["etag"]]
    for method, below, body in (
        ("PUT", "", {"description": "b"}),
        ("POST", "/pause", {"reason": "why"}),
        ("POST", "/pause", {"reason": "another"}),
        ("POST", "/resume", {}),
        ("POST", "/skipNext", {}),
        ("POST", "/runNow", {}),
        ("DELETE", "", None),
    ):
        answer = await here.client.request(method, path + below, json=body)
        assert answer.is_success, answer.text
        read = await here.client.get(path)
        tags.append(read.headers["etag"])
        if "etag" in answer.headers:
            assert (tags[-1], path) == (answer.headers["etag"], answer.headers["content-location"]), below
    assert len(tags) == len(set(tags))


async def test_the_tag_of_what_was_deleted_is_not_that_of_what_came_after(here: World) -> None:
    """Versions begin again; a write that minds what was read before does not touch the new one."""
    for kind in ("calendar", "window"):
        path = await make(here, kind, 1, exists=True)
        old = (await here.client.get(path)).headers["etag"]
        await here.client.delete(path)
        await make(here, kind, 1, exists=True)
        assert 412 == (await here.client.delete(path, headers={"If-Match": old})).status_code


async def test_of_many_writes_by_one_tag_one_is_made(here: World) -> None:
    """Changes, pauses and cancels that read the same: the first goes through, the others hear of it.

    After a cancel, the other cancel is a repeat of it, and a cancelled job is changed no more."""
    path = await make(here, "job", 1, exists=True)
    headers = {"If-Match": (await here.client.get(path)).headers["etag"]}
    writes = [
        *(here.client.put(path, json={"name": f"n{number}"}, headers=headers) for number in range(4)),
        *(here.client.post(f"{path}/pause", json={"reason": str(number)}, headers=headers) for number in range(4)),
        *(here.client.delete(path, headers=headers) for _ in range(2)),
    ]
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*writes))
    cancelled = "CANCELLED" == (await here.client.get(path)).json()["status"]
    assert ([200, 200, *[409] * 8] if cancelled else [200, *[412] * 9]) == statuses


async def test_of_many_who_only_create_one_does(here: World) -> None:
    """Under a key, a calendar's name, a window's, a task's id: 201 for one, 412 for the others; one thing is there."""
    for kind in ("key", "calendar", "window", "task"):
        path = await make(here, kind, 7, exists=False)
        body = sent(RESOURCES[kind], "PUT", RESOURCES[kind].body)
        puts = [request(here, "PUT", path, body, {"If-None-Match": "*"}) for _ in range(6)]
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*puts))
        assert [201, *[412] * 5] == statuses, kind
    assert 1 == len((await here.client.get(f"{API}/jobs")).json())


async def test_a_job_whose_key_changed_hands_is_not_changed_by_the_tag_of_the_one_before(here: World) -> None:
    """The tag is that of a job, not of its key."""
    path = await make(here, "key", 1, exists=True)
    read = await here.client.get(path)
    await here.client.delete(f"{API}/jobs/{read.json()['job_id']}")
    await make(here, "key", 1, exists=True)
    answer = await here.client.put(path, json={"name": "b"}, headers={"If-Match": read.headers["etag"]})
    assert 412 == answer.status_code
    assert 201 == (await here.client.put(f"{path}-free", json=JOB, headers={"If-None-Match": '"a"'})).status_code


class ChangedJustBefore(MemoryStore):
    """Somebody else writes between the look and the write of a request."""

    meanwhile: Any = None

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock)
        override(self, "jobs.move", self._move)

    async def _move(self, call: Callable[..., Awaitable[JobRow]], move: JobMove, **said: Any) -> JobRow:
        if self.meanwhile is not None:
            other, self.meanwhile = self.meanwhile, None
            await other()
        return await call(move, **said)


@pytest.mark.parametrize(("text", "status"), [("{etag}", 412), ("*", 200)])
async def test_a_write_that_came_between_is_seen(text: str, status: int) -> None:
    """The version that the precondition was judged by is compared in the write's own transaction; a precondition that
    holds for what is there now is met all the same."""
    store = ChangedJustBefore(SystemClock())
    async with world(store=store) as here:
        path = await make(here, "job", 1, exists=True)
        etag = (await here.client.get(path)).headers["etag"]
        store.meanwhile = lambda: here.client.put(path, json={"name": "changed"})
        answer = await here.client.post(f"{path}/pause", headers={"If-Match": text.replace("{etag}", etag)})
        found = (await here.client.get(path)).json()
        assert (status, "changed") == (answer.status_code, found["name"])
        assert ("PAUSED" if status == 200 else "SCHEDULED") == found["status"]


async def test_a_change_may_mind_the_version_alone(here: World) -> None:
    """Its runs come and go while somebody writes: `if_version` minds what people changed, and nothing else."""
    path = await make(here, "job", 1, exists=True)
    read = await here.client.get(path)
    await here.client.post(f"{path}/runNow")
    version = read.json()["version"]
    by_tag = await here.client.put(path, json={"name": "b"}, headers={"If-Match": read.headers["etag"]})
    by_version = await here.client.put(f"{path}?if_version={version}", json={"name": "b"})
    again = await here.client.put(f"{path}?if_version={version}", json={"name": "c"})
    both = await here.client.put(f"{path}?if_version={version}", json={"name": "c"}, headers={"If-Match": "*"})
    assert (412, 200, 412, 412) == tuple(each.status_code for each in (by_tag, by_version, again, both))


async def test_a_precondition_is_judged_before_the_body(here: World) -> None:
    """RFC 9110, section 13.2.1: just before the content is processed."""
    path = await make(here, "job", 1, exists=True)
    answer = await here.client.put(path, json={"nonsense": 1}, headers={"If-Match": OTHER})
    assert 412 == answer.status_code


async def test_head_answers_as_get_does_without_the_body(here: World) -> None:
    """The same status and headers, wherever there is a GET."""
    job = await make(here, "job", 1, exists=True)
    await make(here, "calendar", 1, exists=True)
    run = (await here.client.post(f"{job}/runNow")).json()["run_id"]
    paths = [job, f"{API}/jobs", f"{API}/jobs?limit=0", f"{API}/runs", f"{API}/runs/{run}", f"{API}/calendars/n1",
             f"{API}/jobs/{UUID(int=9)}", "/livez", "/metrics", "/nothing", f"{API}/openapi.json"]  # fmt: skip
    for path in paths:
        get, head = await here.client.get(path), await here.client.head(path)
        assert b"" == head.content, path
        told = [
            (answer.status_code, {name: value for name, value in answer.headers.items() if name != "x-request-id"})
            for answer in (get, head)
        ]
        if path != "/metrics" and get.is_success:  # each look at the metrics is counted in them
            assert told[0] == told[1]
        assert told[0][0] == told[1][0], path
