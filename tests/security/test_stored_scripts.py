"""Scripts that are stored, and calendars that are made to keep a scheduler busy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.security.probes import probe
from tests.support.app import API, World, world
from tickwise.adapters.blobs import OutputBlobs, StoredBlobs, open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Bug
from tickwise.ports.blobs import script_key
from tickwise.ports.runner import Ending, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

SOURCE = b"import os\nopen(os.environ['TICKWISE_RESULT_FILE'], 'w').write('1')\n"
DIGEST = hashlib.sha256(SOURCE).hexdigest()


@pytest_asyncio.fixture
async def here() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def run(folder: Path, blobs: StoredBlobs) -> Ending:
    """What becomes of a run of the script in the namespace of assignments."""
    settings = RunnerSettings(blobs=OutputBlobs(blobs), clock=SystemClock(), work_root=folder / "attempts")
    runner, listener = ProcessRunner(settings), Listener()
    await runner.start(listener, time.time)
    given = assignment({"kind": "python", "file": f"sha256:{DIGEST}"})
    runner.launch([given])
    try:
        return await listener.ending_of(given)
    finally:
        await runner.close()


@probe(8, stopped_by="the digest is checked at each read; the run ends as invalid")
@pytest.mark.parametrize("content", [SOURCE + b"#", SOURCE[:-1], b""], ids=["longer", "shorter", "empty"])
async def test_a_script_that_was_changed_does_not_run(tmp_path: Path, content: bytes) -> None:
    """Somebody who can write to the blob storage changes a stored script."""
    blobs = open_blobs("memory://")
    await blobs.put(script_key(assignment({}).namespace, DIGEST), content)
    ending = await run(tmp_path, blobs)
    assert (Verdict.INVALID, None) == (ending.verdict, ending.result)


@probe(8, stopped_by="each namespace has a folder of its own")
async def test_a_script_of_another_namespace_does_not_run(tmp_path: Path) -> None:
    """A job names the script of another namespace, whose digest it has learned."""
    blobs = open_blobs("memory://")
    await blobs.put(script_key("another", DIGEST), SOURCE)
    ending = await run(tmp_path, blobs)
    assert (Verdict.INVALID, None) == (ending.verdict, ending.result)


@probe(8, stopped_by="422: who names a script must have stored it")
async def test_a_script_of_another_namespace_is_not_stored_by_its_digest(here: World) -> None:
    """A task is stored that names the script of another namespace, to read its source."""
    stored = await here.client.post(f"{API}/tasks", json={"taskId": "t", "script": SOURCE.decode()})
    other = await here.key("the-key-of-another-namespace-of-32", "*", namespace="other")
    task = {"taskId": "t", "task": {"kind": "python", "file": stored.json()["task"]["file"]}}
    headers = {"Authorization": f"Bearer {other}"}
    assert 422 == (await here.client.post(f"{API}/tasks", json=task, headers=headers)).status_code


@probe(8, stopped_by="an executor is handed storage that takes outputs alone")
async def test_an_executor_changes_no_script() -> None:
    """An executor writes or removes a script."""
    blobs = open_blobs("memory://")
    await blobs.put(script_key("default", DIGEST), SOURCE)
    view = OutputBlobs(blobs)
    with pytest.raises(Bug):
        await view.put(script_key("default", DIGEST), b"mine")
    with pytest.raises(Bug):
        await view.delete([script_key("default", DIGEST)])
    assert SOURCE == await blobs.get(script_key("default", DIGEST))


@probe(8, stopped_by="a budget of looks; the refusal names the calendar")
@pytest.mark.parametrize("kind", ["calendars", "windows"])
async def test_a_calendar_that_keeps_a_scheduler_busy_is_refused(here: World, kind: str) -> None:
    """A calendar of 4 kB is stored whose hundred lines cover each minute of the years to come."""
    lines = [*(f"{minute} * * * *" for minute in range(60)), *(f"{minute} 3 29 2 */7" for minute in range(40))]
    calendar = {"recurring": [{"cron": line, "duration": "61s"} for line in lines]}
    body = calendar if kind == "calendars" else {"when": calendar}
    answer = await here.client.put(f"{API}/{kind}/chain", json=body)
    assert (422, "calendar_too_much") == (answer.status_code, answer.json()["code"])
