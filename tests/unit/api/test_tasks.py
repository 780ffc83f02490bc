"""Stored tasks: uploaded as files, listed by version, read back; and the payload that a run received."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, create, get, pass_time, post, put
from tickwise.adapters.clock import VirtualClock
from tickwise.control.runs.payloads import PAYLOAD_BYTES_SHOWN

SCRIPT = "print('über')\r\n".encode()
PYTHON = {"Content-Type": "text/x-python"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def upload(here: World, script: bytes, status: int, path: str = "/tasks/report", **headers: str) -> Any:
    answer = await here.client.put(API + path, content=script, headers=PYTHON | headers)
    assert status == answer.status_code, answer.text
    return answer.json()


async def test_a_script_is_uploaded_as_it_lies_in_a_file_and_read_back(here: World) -> None:
    """Byte for byte, with the type of a script; each content is a version, the newest content again is none."""
    first = await upload(here, SCRIPT, 201)
    assert ("report", "report", 1) == (first["taskId"], first["name"], first["version"])
    assert first == await upload(here, SCRIPT, 200)
    assert 2 == (await upload(here, b"print(2)", 200))["version"]
    for version, content in ((1, SCRIPT), (2, b"print(2)")):
        answer = await here.client.get(f"{API}/tasks/report/versions/{version}/source")
        assert (200, content) == (answer.status_code, answer.content)
        assert ("text/x-python; charset=utf-8", "nosniff") == (
            answer.headers["content-type"], answer.headers["x-content-type-options"],
        )  # fmt: skip
        again = await here.client.get(answer.request.url, headers={"If-None-Match": answer.headers["etag"]})
        assert 304 == again.status_code


async def test_a_script_keeps_its_name_until_another_is_given(here: World) -> None:
    """The name is what people call it; the id is what jobs name."""
    await upload(here, SCRIPT, 201, "/tasks/report?name=Nightly%20report")
    assert "Nightly report" == (await upload(here, b"print(2)", 200))["name"]
    assert "Weekly" == (await upload(here, b"print(2)", 200, "/tasks/report?name=Weekly"))["name"]
    made = await post(here, "/jobs", 201, taskId="report", every="1h")
    job = await get(here, f"/jobs/{made['job_id']}")
    assert ("report", 3) == (job["taskId"], job["task_version"])


@pytest.mark.parametrize(
    ("script", "headers", "status"),
    [
        (b"\xff\xfe", {}, 400),
        (b"", {}, 400),
        (b"print(", {}, 422),
        (b"a\0", {}, 422),
        (SCRIPT, {"Content-Type": "application/json"}, 415),
        (SCRIPT, {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
async def test_what_is_no_script_is_refused(here: World, script: bytes, headers: dict[str, str], status: int) -> None:
    """Nothing is stored of it."""
    await upload(here, script, status, **headers)
    await get_refused(here, "/tasks/report")


async def get_refused(here: World, path: str) -> None:
    answer = await here.client.get(API + path)
    assert (404, "not_found") == (answer.status_code, answer.json()["code"]), path


async def test_versions_are_listed_newest_first_in_pages(here: World) -> None:
    """Of one task; what is not there is 404."""
    for number in range(3):
        await upload(here, b"print(%d)" % number, 200 if number else 201)
    first = await here.client.get(f"{API}/tasks/report/versions?limit=2")
    following = first.headers["link"].partition(">")[0].removeprefix("<")
    rest = await here.client.get(following)
    assert [3, 2, 1] == [each["version"] for each in first.json() + rest.json()]
    assert "link" not in rest.headers
    await post(here, "/tasks", 201, taskId="shell", task={"kind": "shell", "command": "date"})
    for path in (
        "/tasks/none/versions", "/tasks/none/versions/1/source", "/tasks/report/versions/4/source",
        "/tasks/report/versions/0/source", "/tasks/report/versions/x/source", "/tasks/shell/versions/1/source",
    ):  # fmt: skip
        await get_refused(here, path)


async def test_another_namespace_reads_no_script_of_this_one(here: World) -> None:
    """Neither versions nor text."""
    await upload(here, SCRIPT, 201)
    other = await here.key("another-namespace-altogether", "*", namespace="other")
    headers = {"Authorization": f"Bearer {other}"}
    for path in ("/tasks/report/versions", "/tasks/report/versions/1/source"):
        assert 404 == (await here.client.get(API + path, headers=headers)).status_code


# ------------------------------------------------------------------------------------------ payloads of runs


async def test_a_run_shows_the_payload_that_it_received(here: World) -> None:
    """Its own, or its job's; what its job has by now is told from what it had."""
    job_id = await create(here, every="1h", payload={"a": 1})
    of_job = (await post(here, f"/jobs/{job_id}/runNow", 202))["run_id"]
    own = (await post(here, f"/jobs/{job_id}/runNow", 202, payload={"b": 2}))["run_id"]

    async def shown(run_id: str) -> tuple[Any, Any, Any]:
        run = await get(here, f"/runs/{run_id}")
        return run["payload"], run["payload_bytes"], run["payload_from"]

    assert ({"a": 1}, 7, "job") == await shown(of_job)
    assert ({"b": 2}, 7, "run") == await shown(own)
    await post(here, f"/runs/{of_job}/cancel")
    await pass_time(here, 1.0)
    await post(here, f"/jobs/{job_id}/pause")
    await put(here, job_id, labels={"team": "data"}, payload={"a": 1}, every="2h")
    assert ({"a": 1}, 7, "job") == await shown(of_job)
    await put(here, job_id, payload={"a": 2})
    assert ({"a": 2}, 7, "job_changed") == await shown(of_job)
    assert ({"b": 2}, 7, "run") == await shown(own)


async def test_a_payload_that_is_long_is_not_shown_with_its_run(here: World) -> None:
    """Its length is."""
    payload = "x" * PAYLOAD_BYTES_SHOWN
    job_id = await create(here, every="1h", payload=payload)
    run = await get(here, f"/runs/{(await post(here, f'/jobs/{job_id}/runNow', 202))['run_id']}")
    assert (None, len(payload) + 2, "job") == (run["payload"], run["payload_bytes"], run["payload_from"])
