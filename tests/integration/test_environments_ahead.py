"""The environment of a job is there before its first run: a job is stored, an executor hears of it and builds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.app import API, World, world
from tests.support.packages import add_wheel
from tests.support.runners import OWN_USER
from tests.support.waiting import eventually
from tests.unit.roles.rig import Silent
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.environments.environments import EnvironmentSettings, UvEnvironments
from tickwise.adapters.environments.folder import EnvironmentFolder
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.signals.local import LocalSignals
from tickwise.observability.metrics import Metrics
from tickwise.roles.executor.capacity import RunnerConfig
from tickwise.roles.executor.role import Executor
from tickwise.roles.executor.settings import ExecutorSettings

REPORT = {"kind": "python", "source": "import tickle", "requirements": "tickle"}


@pytest.fixture
def links(tmp_path: Path) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    add_wheel(folder, "tickle")
    return folder


@asynccontextmanager
async def executor_of(here: World, root: Path, links: Path, **settings: Any) -> AsyncIterator[EnvironmentFolder]:
    """An executor of the same store, whose rings come from the API; the folder of its environments."""
    signals, clock, blobs = LocalSignals(), SystemClock(), open_blobs("memory://")
    here.control.context.signals = signals
    environments = UvEnvironments(
        EnvironmentSettings(root=root / "environments", find_links=str(links), is_offline=True), clock, Metrics()
    )
    runner = ProcessRunner(
        RunnerSettings(
            blobs=blobs, clock=clock, work_root=root / "work", run_tasks_as=OWN_USER, environments=environments
        )
    )
    executor = Executor(
        store=here.store,
        runner_configs=[RunnerConfig(runner)],
        signals=signals,
        clock=clock,
        settings=ExecutorSettings(name="host:1", **settings),
        telemetry=Silent(),
    )
    await executor.start()
    try:
        yield EnvironmentFolder(root / "environments")
    finally:
        await executor.stop()


async def create(here: World, **body: Any) -> str:
    """A stored job, years before its first run."""
    job = {"name": "report", "task": REPORT, "cron": "0 0 29 2 *", **body}
    answer = await here.client.post(f"{API}/jobs", json=job)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["job_id"])


async def test_the_environment_of_a_job_is_built_when_it_is_stored(tmp_path: Path, links: Path) -> None:
    """Also by an executor that starts later; not by one that is never given its runs."""
    async with world() as here:
        async with executor_of(here, tmp_path / "one", links) as folder:
            await create(here)
            await eventually(lambda: [each.facts.declared for each in folder.stored()] == ["tickle"])
        async with executor_of(here, tmp_path / "two", links) as folder:
            await eventually(lambda: [each.facts.declared for each in folder.stored()] == ["tickle"])
        async with executor_of(here, tmp_path / "three", links, queues=("other",)) as folder:
            add_wheel(links, "other")
            await create(here, queue="other", task={**REPORT, "requirements": "other"})
            await eventually(lambda: [each.facts.declared for each in folder.stored()] == ["other"])


async def test_a_build_ahead_that_fails_is_explained(tmp_path: Path, links: Path) -> None:
    """In the words of uv, before the job has ever run."""
    async with world() as here, executor_of(here, tmp_path, links) as folder:
        job_id = await create(here, task={**REPORT, "requirements": "tickle>=2"})

        async def explained() -> bool:
            answer = await here.client.get(f"{API}/jobs/{job_id}/explain")
            said = answer.json()
            return "environment" in said["data"] and "No solution found" in said["sentence"]

        await eventually(explained)
        assert [] == folder.stored()
