"""Names in two spellings, members that are written twice, and the places that problems point at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.app import API, World, world
from tests.unit.api.rig import SHELL, create, get, put
from tickwise.api.repeats import POINTED_BYTES_MAX, refuse_repeated, refuse_repeated_in_job
from tickwise.api.spelling import as_spelled, respelled, spellings
from tickwise.control.bodies import JobBody
from tickwise.domain.errors import Invalid

JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture(loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world() as found:
        yield found


async def refused(here: World, method: str, path: str, body: str) -> dict[str, Any]:
    answer = await here.client.request(method, API + path, content=body, headers=JSON)
    assert 422 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_each_name_has_one_other_spelling_or_none() -> None:
    assert ("task_id",) == spellings("taskId")
    assert ("jobId",) == spellings("job_id")
    assert ("viewerTimezone",) == spellings("viewer_timezone")
    assert () == spellings("cron")


async def test_a_field_of_a_body_is_read_in_both_spellings(here: World) -> None:
    """At any depth, in creates, changes and filters; the answer has the one spelling that is described."""
    await here.client.post(f"{API}/tasks", json={"taskId": "report", "script": "1"})
    body = {"name": "a", "scheduleType": "INTERVAL", "intervalSeconds": 60, "task_id": "report", "maxRetries": 7}
    made = await create_raw(here, {**body, "retry": {"baseSeconds": 3}, "misfire": {"maxCatchup": 2}})
    job = await get(here, f"/jobs/{made}")
    assert (60, "report", 7) == (job["interval_seconds"], job["taskId"], job["max_retries"])
    assert (3, 2) == (job["retry"]["base_seconds"], job["misfire"]["max_catchup"])
    assert "maxRetries" not in job
    assert 2 == (await put(here, made, maxRetries=2))["max_retries"]
    found = await here.client.post(f"{API}/runs:cancel", json={"filter": {"jobId": made}, "dryRun": True})
    assert (200, 0) == (found.status_code, found.json()["matches"])


async def create_raw(here: World, body: dict[str, Any]) -> str:
    answer = await here.client.post(f"{API}/jobs", json=body)
    assert 201 == answer.status_code, answer.text
    return str(answer.json()["job_id"])


async def test_a_parameter_of_a_query_is_read_in_both_spellings(here: World) -> None:
    """Both at once are refused if they differ, by the name of the one that came second."""
    made = await create(here, cron="0 3 * * *")
    for query in ("taskKind=shell&scheduleType=CRON", "task_kind=shell&taskKind=shell"):
        answer = await here.client.get(f"{API}/jobs?{query}")
        assert [made] == [job["job_id"] for job in answer.json()], query
    answer = await here.client.get(f"{API}/jobs?task_kind=shell&taskKind=http")
    assert (422, "taskKind") == (answer.status_code, answer.json()["parameter"])
    answer = await here.client.get(f"{API}/jobs?nextRunAfter=yesterday")
    assert (422, "nextRunAfter") == (answer.status_code, answer.json()["parameter"])


async def test_a_payload_is_left_as_it_is(here: World) -> None:
    """What a task gets has names of its own, in whatever spelling."""
    made = await create_raw(
        here, {"name": "a", "cron": "0 3 * * *", "maxRetries": 1, "payload": {"jobId": 1, "job_id": 2}}
    )
    assert {"jobId": 1, "job_id": 2} == (await get(here, f"/jobs/{made}"))["payload"]


async def test_a_field_in_two_spellings_with_two_values_is_refused(here: World) -> None:
    problem = await refused(
        here, "POST", "/jobs", '{"name": "a", "cron": "0 3 * * *", "max_retries": 1, "maxRetries": 2}'
    )
    assert "/maxRetries" == problem["pointer"]
    assert (
        201
        == (
            await here.client.post(f"{API}/jobs", json={"name": "a", "every": "1h", "max_retries": 1, "maxRetries": 1})
        ).status_code
    )


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"name": "a", "cron": "0 3 * * *", "maxRetries": -1}, "/maxRetries"),
        ({"name": "a", "cronExpression": "61 * * * *"}, "/cronExpression"),
        ({"name": "a", "cron_expression": "61 * * * *"}, "/cron_expression"),
        ({"name": "a", "cron": "0 3 * * *", "task_id": "nothing"}, "/task_id"),
        ({"name": "a", "cron": "0 3 * * *", "taskId": "nothing"}, "/taskId"),
        ({"name": "a", "cron": "0 3 * * *", "retry": {"baseSeconds": -1}}, "/retry/baseSeconds"),
        ({"name": "a", "cron": "0 3 * * *", "onFailure": ["nothing"]}, "/onFailure/0"),
    ],
)
async def test_a_problem_points_at_the_spelling_of_the_caller(here: World, sent: dict[str, Any], pointer: str) -> None:
    """Whether the field cannot be read, or is found wrong later; alone and in a batch."""
    problem = await refused(here, "POST", "/jobs", json.dumps(sent))
    assert pointer == problem["pointer"]
    batch = (await here.client.post(f"{API}/jobs:batch", json=[{"name": "b", "every": "1h"}, sent])).json()
    assert pointer == batch["results"][1]["problem"]["pointer"]


async def test_one_status_and_a_list_of_one_are_alike(here: World) -> None:
    """Of runs and of jobs; a filter takes several of both."""
    await create(here, cron="0 3 * * *")
    one = await here.client.post(f"{API}/runs:cancel", json={"filter": {"status": "QUEUED"}, "dry_run": True})
    assert (200, 0) == (one.status_code, one.json()["matches"])
    for status in ("SCHEDULED", ["SCHEDULED"], ["SCHEDULED", "PAUSED"]):
        said = {"filter": {"status": status}, "dry_run": True}
        assert 1 == (await here.client.post(f"{API}/jobs:pause", json=said)).json()["matches"]
    problem = await refused(here, "POST", "/runs:cancel", '{"filter": {"status": "NOTHING"}, "dry_run": true}')
    assert "/filter/status" == problem["pointer"]


# ------------------------------------------------------------------------------------------ written twice


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("POST", "/jobs", '{"name": "a", "cron": "0 3 * * *", "name": "b"}', "/name"),
        ("POST", "/jobs", '{"name":"a","cron":"0 3 * * *","name":"b"}', "/name"),
        ("POST", "/jobs", '{"name" :"a","cron":"0 3 * * *","name":"b"}', "/name"),
        ("POST", "/jobs", '{"name":"a","cron":"0 3 * * *","n\\u0061me":"b"}', "/name"),
        ("POST", "/jobs", '{"name":"a","cron":"0 3 * * *","payload":{"x":[{"a/b":1,"a/b":2}]}}', "/payload/x/0/a~1b"),
        (
            "POST",
            "/jobs",
            '{"name":"a","cron":"0 3 * * *","task":{"kind":"shell","kind":"shell","command":"1"}}',
            "/task/kind",
        ),
        ("POST", "/jobs", '{"name":"a","cron":"0 3 * * *","labels":{"a":"b","a":"c"}}', "/labels/a"),
        ("POST", "/jobs", '{"name":"a","cron":"0 3 * * *","retry":{"factor":2,"factor":3}}', "/retry/factor"),
        ("POST", "/jobs:batch", '{"jobs":[{"name":"a","every":"1h"}],"jobs":[{"name":"b","every":"1h"}]}', "/jobs"),
        ("PUT", "/calendars/c", '{"timezone":"UTC","timezone":"Europe/Berlin"}', "/timezone"),
        ("POST", "/jobs:preview", '{"cron":"0 3 * * *","count":1,"count":2}', "/count"),
    ],
)
async def test_a_member_that_is_written_twice_is_refused(
    here: World, method: str, path: str, body: str, pointer: str
) -> None:
    """Readers disagree about which one counts, so neither is taken."""
    problem = await refused(here, method, path, body)
    assert ("field_repeated", pointer) == (problem["code"], problem["pointer"])


async def test_a_job_of_a_batch_with_a_member_written_twice_spoils_no_other(here: World) -> None:
    lines = '{"name":"a","every":"1h"}\n{"name":"b","every":"1h","every":"2h"}\n'
    answer = await here.client.post(
        f"{API}/jobs:batch", content=lines, headers={"Content-Type": "application/x-ndjson"}
    )
    results = answer.json()["results"]
    assert (201, "field_repeated", "/every") == (
        results[0]["status"], results[1]["problem"]["code"], results[1]["problem"]["pointer"],
    )  # fmt: skip


async def test_a_body_that_only_looks_as_if_is_taken(here: World) -> None:
    """The same name in two objects, and texts that hold quotes and colons."""
    task = {"kind": "python", "source": 'x = {"a":1}\nprint({"a":2, "b": "\\":"})'}
    body = {
        "name": "name",
        "cron": "0 3 * * *",
        "task": task,
        "payload": {"name": {"name": '":'}, "l": [{"a": 1}, {"a": 2}]},
    }
    for text in (json.dumps(body), json.dumps(body, separators=(",", ":")), json.dumps(body, indent=2)):
        answer = await here.client.post(f"{API}/jobs", content=text, headers=JSON)
        assert 201 == answer.status_code, answer.text
    assert 201 == (await here.client.post(f"{API}/jobs", json={"name": "f", "every": "1h", "task": SHELL})).status_code


NAMES = st.sampled_from(["a", "b", ":", '":', "a b", "é"])
VALUES = st.recursive(
    st.none() | st.integers(0, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=12,
)
BLANKS = st.sampled_from(["", " ", "\n", "\t"])


def written(value: Any, blank: str) -> str:
    """JSON, with objects as tuples of pairs, which may name a member twice."""
    if isinstance(value, tuple):
        return (
            "{" + ",".join(f"{json.dumps(name)}{blank}:{blank}{written(below, blank)}" for name, below in value) + "}"
        )
    if isinstance(value, list):
        return f"[{blank}" + ",".join(written(below, blank) for below in value) + "]"
    return json.dumps(value) + blank


def repeats(value: Any) -> bool:
    if isinstance(value, tuple):
        return len({name for name, _ in value}) < len(value) or any(repeats(below) for _, below in value)
    return isinstance(value, list) and any(repeats(below) for below in value)


@given(value=VALUES, blank=BLANKS)
def test_counting_finds_what_reading_finds(value: Any, blank: str) -> None:
    """Of any JSON: it is refused exactly if one of its objects names a member twice."""
    body = written(value, blank).encode()
    try:
        refuse_repeated(body)
        found = False
    except Invalid:
        found = True
    assert repeats(value) == found


@pytest.mark.parametrize("body", [b'{"a" :1,"b" :{"a" :2}}', b'{"a":"\\"b\\":1"}', b'[{"a":":"},{"a":"\\\\"}]'])
def test_a_body_without_a_repeated_member_is_cleared_by_counting(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks before a colon, and JSON within a text, are usual: they cost no careful reading."""
    monkeypatch.setattr("tickwise.api.repeats._repeated", None)
    refuse_repeated(body)
    with pytest.raises(TypeError):
        refuse_repeated(b'{"a":1,"a":2}')


@pytest.mark.parametrize(("size", "pointer"), [(10, "/1/a~1b"), (POINTED_BYTES_MAX, "")])
def test_a_repeated_member_is_named_in_any_body_and_pointed_at_in_a_small_one(size: int, pointer: str) -> None:
    """To find the place in a large one would take too long."""
    body = b'["' + b"x" * size + b'",{"a/b":1,"a/b":2}]'
    with pytest.raises(Invalid, match="'a/b' is written twice") as refused:
        refuse_repeated(body)
    assert pointer == refused.value.pointer


@given(payload=VALUES, labels=st.lists(st.tuples(NAMES, st.just("x")), max_size=2), twice=st.booleans(), blank=BLANKS)
def test_counting_finds_it_in_a_job(payload: Any, labels: list[tuple[str, str]], twice: bool, blank: str) -> None:
    """The quick count of the hottest body says the same as the careful reading."""
    members: list[tuple[str, Any]] = [
        ("name", 'a":b'), ("cron", "0 3 * * *"), ("payload", payload), ("labels", tuple(labels)),
    ]  # fmt: skip
    body = written(tuple([*members, ("name", "b")] if twice else members), blank).encode()
    job = msgspec.json.decode(body, type=JobBody)
    try:
        refuse_repeated_in_job(body, job)
        found = False
    except Invalid:
        found = True
    assert repeats((*members, ("name", "b")) if twice else tuple(members)) == found


def test_what_cannot_be_read_is_not_respelled() -> None:
    assert respelled(JobBody, b'{"jobId":') is None
    assert respelled(JobBody, b'{"name": "a"}') is None
    assert "/name" == as_spelled(JobBody, b'{"name": "a"}', "/name")
