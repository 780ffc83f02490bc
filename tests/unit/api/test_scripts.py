"""Scripts with their surroundings, from a request to the store: what is kept, shown, stored apart and on record."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API, World, world
from tests.unit.api.rig import START, get, post
from tickwise.adapters.clock import VirtualClock
from tickwise.control.tasks import MAX_SOURCE_BYTES
from tickwise.ports.blobs import read_script

TASK: dict[str, Any] = {
    "kind": "python", "source": "import helpers", "python": "/srv/venv/bin/python", "directory": "/srv/reports",
    "files": {"helpers.py": "A = 1\n"}, "env": {"REGION": "eu", "API_TOKEN": "hunter2"},
}  # fmt: skip


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world(clock=VirtualClock(START)) as made:
        yield made


async def test_a_job_keeps_its_surroundings(here: World) -> None:
    """As they were sent; another schedule changes nothing of them."""
    made = await post(here, "/jobs", 201, name="report", task=TASK, every="1h")
    path = f"/jobs/{made['job_id']}"
    assert TASK == (await get(here, path))["task"]
    answer = await here.client.put(API + path, json={"every": "2h"})
    assert answer.status_code == 200
    assert TASK == (await get(here, path))["task"]


async def test_the_audit_log_shows_that_they_changed_and_no_value(here: World) -> None:
    """A reader of the log needs no permission to read jobs: names alone, and digests of files."""
    made = await post(here, "/jobs", 201, name="report", task=TASK, every="1h")
    changed = TASK | {"env": {"REGION": "us", "API_TOKEN": "hunter3"}, "files": {"helpers.py": "hunter4"}}
    answer = await here.client.put(f"{API}/jobs/{made['job_id']}", json={"task": changed})
    assert answer.status_code == 200, answer.text
    log = await here.client.get(f"{API}/audit?target={made['job_id']}")
    entry = log.json()[0]
    assert "hunter" not in log.text
    assert entry["after"]["task"]["env"] == {"REGION": "***", "API_TOKEN": "***"}
    assert entry["after"]["task"]["files"] == {
        "helpers.py": {"sha256": hashlib.sha256(b"hunter4").hexdigest(), "bytes": 7}
    }
    assert entry["after"]["task"]["python"] == "/srv/venv/bin/python"


async def test_files_of_a_stored_task_are_kept_once_and_named_by_their_digests(here: World) -> None:
    """So no run's row carries them. What is answered can be sent again."""
    files = {"helpers.py": "A = 1\n", "logo.png": {"base64": base64.b64encode(b"\x89\xff").decode()}}
    stored = await post(here, "/tasks", 201, taskId="report", task=TASK | {"files": files})
    for name, content in (("helpers.py", b"A = 1\n"), ("logo.png", b"\x89\xff")):
        digest = hashlib.sha256(content).hexdigest()
        assert {"sha256": digest} == stored["task"]["files"][name]
        assert content == await read_script(here.control.context.blobs, "default", digest)
    again = await post(here, "/tasks", 201, taskId="report", task=stored["task"])
    assert again["version"] == stored["version"]
    made = (await post(here, "/jobs", 201, name="a", taskId="report", every="1h"))["job_id"]
    assert stored["task"] == (await get(here, f"/jobs/{made}"))["task"]


async def test_a_file_that_the_namespace_has_not_stored_is_refused(here: World) -> None:
    """With its place."""
    task = TASK | {"files": {"a": {"sha256": "0" * 64}}}
    refused = await post(here, "/tasks", 422, taskId="report", task=task)
    assert refused["pointer"] == "/task/files"


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"files": {"a": "x" * MAX_SOURCE_BYTES + "x"}}, "/task/files"),
        ({"files": {"a": "x" * (MAX_SOURCE_BYTES // 2)}, "source": "#" * (MAX_SOURCE_BYTES // 2 + 1)}, "/task/source"),
    ],
)
async def test_a_job_holds_a_script_with_its_files_up_to_one_size(
    here: World, fields: dict[str, Any], pointer: str
) -> None:
    """A stored task holds more: each content lies apart."""
    refused = await post(here, "/jobs", 422, name="report", task=TASK | fields, every="1h")
    assert (refused["code"], refused["pointer"]) == ("script_too_large", pointer)
    await post(here, "/tasks", 201, taskId="report", task=TASK | fields)


async def test_a_script_of_another_coding_is_kept_byte_for_byte(here: World) -> None:
    """It is checked, stored and read back as Python reads it."""
    content = b"# coding: latin-1\nprint('\xfc')\n"
    stored = await here.client.put(f"{API}/tasks/report", content=content, headers={"Content-Type": "text/x-python"})
    assert stored.status_code == 201, stored.text
    assert content == (await here.client.get(f"{API}/tasks/report/versions/1/source")).content
    refused = await post(
        here, "/jobs", 422, name="a", every="1h", task={"kind": "python", "source": "# coding: latin-1\n'€'"}
    )
    assert (refused["code"], refused["pointer"]) == ("script_invalid", "/task/source")


async def test_a_reference_to_a_secret_is_answered_as_it_is(here: World) -> None:
    """It is none itself; one that cannot be read is refused with its place."""
    env = {"PASSWORD": "secret:db", "KEY": "secret-file:vault:app#key"}
    made = await post(here, "/jobs", 201, name="a", every="1h", task=TASK | {"env": env})
    assert env == (await get(here, f"/jobs/{made['job_id']}"))["task"]["env"]
    refused = await post(here, "/jobs", 422, name="b", every="1h", task=TASK | {"env": {"PASSWORD": "secret:-"}})
    assert "/task/env/PASSWORD" == refused["pointer"]
