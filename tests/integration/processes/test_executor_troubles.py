"""What happens to running tasks when their executor is killed, frozen, or told to stop."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.integration.processes.runtime import DOOMED, Errand, House, active, gone, runtime
from tests.support.waiting import eventually
from tickwise.adapters.store.postgres import upgrade


@pytest_asyncio.fixture(scope="module")
async def here(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    await upgrade(database_url)
    async with runtime(database_url, tmp_path_factory.mktemp("runtime")) as made:
        yield made


@pytest.fixture
def errand(tmp_path: Path) -> Errand:
    return Errand(tmp_path)


async def test_the_tasks_of_a_killed_executor_die_with_it(here: House, errand: Errand) -> None:
    """All of their processes, at once and without its help, so that no run goes on beside its own repetition."""
    first = await here.executor("killed")
    job_id = await here.submit(task=errand.task(), queue="killed", max_retries=0)
    processes = await errand.begun(1)
    await here.until(job_id, lambda run: run["status"] == "RUNNING", "its start is on record")
    assert processes == active(processes)
    work = Path(psutil.Process(processes[0]).cwd()).parent
    assert work.is_dir()
    first.kill()
    await gone(processes)
    await here.expire(first)
    await eventually(lambda: not work.exists(), what="its work folder is removed")
    await here.executor("killed")
    await errand.begun(2)
    errand.end()
    run = await here.ended(job_id)
    assert ("SUCCESS", 2, 1) == (run["status"], run["attempt_number"], run["crashes"])
    assert ["lease_lost", None] == [attempt["reason"] for attempt in run["attempts"]]


async def test_an_executor_that_was_frozen_beyond_its_lease_harms_nobody(here: House, errand: Errand) -> None:
    """Its results are refused, its tasks killed, those of the others left alone, and it works on under a new number."""
    frozen = await here.executor("frozen", TICKWISE_SLOTS="1", **DOOMED)
    number = (await frozen.event("executor_joined"))["executor"]
    job_id = await here.submit(task=errand.task(), queue="frozen", max_retries=0)
    processes = await errand.begun(1)
    await here.until(job_id, lambda run: run["status"] == "RUNNING", "its start is on record")
    frozen.signal(signal.SIGSTOP)
    other = await here.executor("frozen")
    successor = await errand.begun(2)
    frozen.signal(signal.SIGCONT)
    expired = await frozen.event("executor_expired")
    assert number == expired["executor"]
    await gone(processes)
    again = (await frozen.event("executor_joined", count=2))["executor"]
    assert again > number
    assert successor == active(successor)
    errand.end()
    run = await here.ended(job_id)
    assert ("SUCCESS", 2, 1) == (run["status"], run["attempt_number"], run["crashes"])
    assert [token for token, *_ in errand.attempts()][1:] == errand.done()

    other.signal(signal.SIGTERM)
    assert 0 == await other.ended()
    later = await here.ended(await here.submit(task={"kind": "shell", "command": "true"}, queue="frozen"))
    assert ("SUCCESS", str(again)) == (later["status"], later["executor_id"])


async def test_no_task_of_a_frozen_executor_goes_on_beside_its_second_attempt(here: House, tmp_path: Path) -> None:
    """It is stopped and stays so; when others begin its runs, all processes of its tasks are dead, those too that left
    their session. It loses nothing by it: what was killed is no failure of the task."""
    frozen = await here.executor("stopped", **DOOMED)
    folders = [tmp_path / str(number) for number in range(6)]
    for folder in folders:
        folder.mkdir()
    errands = [Errand(folder) for folder in folders]
    jobs = [await here.submit(task=errand.task(), queue="stopped", max_retries=0) for errand in errands]
    first = [pid for errand in errands for pid in await errand.begun(1)]
    for job_id in jobs:
        await here.until(job_id, lambda run: run["status"] == "RUNNING", "its start is on record")
    assert first == active(first)
    frozen.signal(signal.SIGSTOP)
    await here.executor("stopped")
    for errand in errands:
        await errand.begun(2)
        assert [] == active(errand.attempts()[0][1:])
    assert [] == active(first)
    for errand in errands:
        errand.end()
    ended = [await here.ended(job_id) for job_id in jobs]
    assert [("SUCCESS", 2)] * 6 == [(run["status"], run["attempt_number"]) for run in ended]
    frozen.signal(signal.SIGCONT)
    await frozen.event("executor_joined", count=2)


async def test_the_result_of_a_frozen_executor_is_refused(here: House, tmp_path: Path) -> None:
    """Its task ended while it was frozen and taken for dead; what counts is the attempt of its successor."""
    frozen = await here.executor("late")
    end, said = tmp_path / "end", tmp_path / "said"
    command = (
        f"echo begun >> {said}; until [ -e {end} ]; do sleep 0.02; done; "
        f'echo ended >> {said}; echo "$TICKWISE_ATTEMPT" > "$TICKWISE_RESULT_FILE"'
    )
    job_id = await here.submit(task={"kind": "shell", "command": command}, queue="late", max_retries=0)
    await eventually(said.exists, what="it begins")
    await here.until(job_id, lambda run: run["status"] == "RUNNING", "its start is on record")
    frozen.signal(signal.SIGSTOP)
    end.touch()
    await eventually(lambda: said.read_text().count("ended"), what="its task ends")
    await here.expire(frozen)
    await here.until(job_id, lambda run: run["status"] == "QUEUED", "it is taken for dead")
    frozen.signal(signal.SIGCONT)
    await frozen.event("executor_joined", count=2)
    run = await here.ended(job_id)
    assert ("SUCCESS", 2, 2) == (run["status"], run["attempt_number"], run["result"])
    assert "begun\nended\nbegun\nended\n" == said.read_text()


async def test_an_executor_that_is_told_to_stop_lets_its_tasks_end(here: House, errand: Errand) -> None:
    """It renews its lease until the last has ended, and takes nothing new."""
    draining = await here.executor("drained", TICKWISE_DRAIN_SECONDS="600")
    job_id = await here.submit(task=errand.task(), queue="drained")
    await errand.begun(1)
    draining.signal(signal.SIGTERM)
    await draining.event("stopping")
    waiting = await here.submit(task={"kind": "shell", "command": "true"}, queue="drained")

    async def renewed() -> bool:
        executors = (await here.client.get("/executors")).json()
        mine = next(each for each in executors if each["queues"] == ["drained"])
        leases.add(mine["lease_until"])
        return len(leases) > 3

    leases: set[str] = set()
    await eventually(renewed, within_seconds=60, what="its lease is renewed three times")
    assert "QUEUED" == (await here.run(waiting))["status"]
    errand.end()
    assert 0 == await draining.ended()
    run = await here.ended(job_id)
    assert ("SUCCESS", 1, 0) == (run["status"], run["attempt_number"], run["crashes"])
    await here.executor("drained")
    assert "SUCCESS" == (await here.ended(waiting))["status"]


async def test_a_task_that_outlasts_the_drain_runs_again_elsewhere(here: House, errand: Errand) -> None:
    """It is killed when the time is over, is free at once, and no crash is counted: it is not to blame."""
    draining = await here.executor("outlasted", TICKWISE_DRAIN_SECONDS="0.5")
    job_id = await here.submit(task=errand.task(), queue="outlasted", max_retries=0)
    processes = await errand.begun(1)
    await here.until(job_id, lambda run: run["status"] == "RUNNING", "its start is on record")
    draining.signal(signal.SIGTERM)
    assert 0 == await draining.ended()
    assert [] == active(processes)
    assert "QUEUED" == (await here.run(job_id))["status"]
    await here.executor("outlasted")
    await errand.begun(2)
    errand.end()
    run = await here.ended(job_id)
    assert ["executor_left", None] == [attempt["reason"] for attempt in run["attempts"]], here.fleet.logs()
    assert ("SUCCESS", 2, 0) == (run["status"], run["attempt_number"], run["crashes"])


async def test_a_run_waits_for_a_function_and_goes_on_when_it_is_offered(here: House, tmp_path: Path) -> None:
    """Accepted with a warning, which is said wherever it waits, and no longer when an executor has come that has it."""
    await here.executor("offered")
    task = {"kind": "function", "name": "tests.witness"}
    payload = {"witness": str(tmp_path / "witness")}
    job_id = await here.submit(task=task, payload=payload, queue="offered")
    run = await here.run(job_id)
    assert "QUEUED" == run["status"]
    assert "tests.witness" in run["warnings"][0]
    assert "tests.witness" in (await here.client.get(f"/jobs/{job_id}")).json()["warnings"][0]
    await here.executor("offered", TICKWISE_FUNCTION_MODULES="tests.integration.processes.tasks")
    run = await here.ended(job_id)
    assert ("SUCCESS", []) == (run["status"], run["warnings"])
    await eventually(lambda: _without_warnings(here, job_id), what="the API has seen the function")


async def _without_warnings(here: House, job_id: str) -> bool:
    return not (await here.client.get(f"/jobs/{job_id}")).json()["warnings"]
