"""PATCH of a job: as PUT does, and by the rules of a merge patch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import create, get, stored
from tickwise.api.merging import merged

MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest_asyncio.fixture(loop_scope="session")
async def here() -> AsyncIterator[World]:
    async with world() as found:
        yield found


async def patch(here: World, job: str, body: Any, **headers: str) -> dict[str, Any]:
    answer = await here.client.patch(f"{API}/jobs/{job}", content=json.dumps(body), headers={**MERGE, **headers})
    assert 200 == answer.status_code, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_patch_changes_the_fields_that_are_sent(here: World) -> None:
    """As JSON it does what PUT does: a field is replaced as a whole, null is the default, the rest stays."""
    job = await create(here, cron="0 3 * * *", labels={"a": "1", "b": "2"}, max_retries=7, priority=8)
    answer = await here.client.patch(f"{API}/jobs/{job}", json={"labels": {"c": "3"}, "max_retries": None})
    assert 200 == answer.status_code, answer.text
    found = answer.json()
    assert ({"c": "3"}, 3, 8, "0 3 * * *") == (
        found["labels"], found["max_retries"], found["priority"], found["cron_expression"],
    )  # fmt: skip
    assert found["version"] == (await get(here, f"/jobs/{job}"))["version"]


async def test_a_merge_patch_changes_members_of_objects(here: World) -> None:
    """What it does not name stays, at any depth; null takes a member away. Nobody's masks are written back."""
    http = {"kind": "http", "url": "https://example.com/", "headers": {"authorization": "secret"}}
    job = await create(
        here, cron="0 3 * * *", labels={"a": "1", "b": "2"}, retry={"base_seconds": 5, "factor": 3}, task=http,
        payload={"deep": {"x": 1, "y": 12345678901234567890}, "list": [1, 2]},
    )  # fmt: skip
    body = {
        "labels": {"b": None, "c": "3"},
        "retry": {"factor": None, "jitter": 0.5},
        "payload": {"deep": {"x": 2}, "list": [3]},
        "task": {"url": "https://example.com/other"},
    }
    found = await patch(here, job, body)
    assert {"a": "1", "c": "3"} == found["labels"]
    assert (5, 2, 0.5) == tuple(found["retry"][name] for name in ("base_seconds", "factor", "jitter"))
    assert {"deep": {"x": 2, "y": 12345678901234567890}, "list": [3]} == found["payload"]
    task = json.loads((await stored(here, job)).definition)["task"]
    assert ("https://example.com/other", {"authorization": "secret"}) == (task["url"], task["headers"])


async def test_a_merge_patch_takes_both_spellings_and_points_at_the_one_that_was_sent(here: World) -> None:
    job = await create(here, cron="0 3 * * *", retry={"base_seconds": 5})
    found = await patch(here, job, {"retry": {"capSeconds": 60}, "maxRetries": 2})
    assert (5, 60, 2) == (found["retry"]["base_seconds"], found["retry"]["cap_seconds"], found["max_retries"])
    answer = await here.client.patch(f"{API}/jobs/{job}", content='{"retry": {"capSeconds": -1}}', headers=MERGE)
    assert (422, "/retry/capSeconds") == (answer.status_code, answer.json()["pointer"])


async def test_a_merge_patch_is_held_to_preconditions(here: World) -> None:
    """By If-Match, by `if_version`, and without either by what it was merged with."""
    job = await create(here, cron="0 3 * * *", labels={"a": "1"})
    tag = (await here.client.get(f"{API}/jobs/{job}")).headers["etag"]
    assert {"a": "1", "b": "2"} == (await patch(here, job, {"labels": {"b": "2"}}, **{"If-Match": tag}))["labels"]
    late = await here.client.patch(
        f"{API}/jobs/{job}", content='{"labels": {"c": "3"}}', headers={**MERGE, "If-Match": tag}
    )
    assert 412 == late.status_code
    version = (await get(here, f"/jobs/{job}"))["version"]
    late = await here.client.patch(
        f"{API}/jobs/{job}?if_version={version - 1}", content='{"labels": {"c": "3"}}', headers=MERGE
    )
    assert 412 == late.status_code
    assert {"a": "1", "b": "2"} == (await get(here, f"/jobs/{job}"))["labels"]


async def test_what_is_no_object_is_no_patch_and_an_unknown_type_is_refused(here: World) -> None:
    job = await create(here, cron="0 3 * * *")
    for content in ("[]", "1", '"a"'):
        answer = await here.client.patch(f"{API}/jobs/{job}", content=content, headers=MERGE)
        assert (422, "") == (answer.status_code, answer.json()["pointer"])
    answer = await here.client.patch(
        f"{API}/jobs/{job}", content="[]", headers={"Content-Type": "application/json-patch+json"}
    )
    assert 415 == answer.status_code


@pytest.mark.parametrize(
    ("target", "change", "result"),
    [
        ('{"a":"b"}', '{"a":"c"}', {"a": "c"}),
        ('{"a":"b"}', '{"b":"c"}', {"a": "b", "b": "c"}),
        ('{"a":"b"}', '{"a":null}', {}),
        ('{"a":"b","b":"c"}', '{"a":null}', {"b": "c"}),
        ('{"a":["b"]}', '{"a":"c"}', {"a": "c"}),
        ('{"a":"c"}', '{"a":["b"]}', {"a": ["b"]}),
        ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', {"a": {"b": "d"}}),
        ('{"a":[{"b":"c"}]}', '{"a":[1]}', {"a": [1]}),
        ('["a","b"]', '["c","d"]', ["c", "d"]),
        ('{"a":"b"}', '["c"]', ["c"]),
        ('{"a":"foo"}', "null", None),
        ('{"a":"foo"}', '"bar"', "bar"),
        ('{"e":null}', '{"a":1}', {"e": None, "a": 1}),
        ("[1,2]", '{"a":"b","c":null}', {"a": "b"}),
        ("{}", '{"a":{"bb":{"ccc":null}}}', {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(target: str, change: str, result: Any) -> None:
    """RFC 7396, appendix A."""
    found = merged(msgspec.Raw(target.encode()), msgspec.Raw(change.encode()))
    assert result == json.loads(msgspec.json.encode(found))
