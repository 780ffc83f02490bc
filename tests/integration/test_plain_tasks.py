"""Plain processes beside the credentials of a cluster: none is started unless the operator says so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.runners import OWN_USER
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.config import Settings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Ending, Verdict
from tickwise.testing.contracts.runner import Listener, assignment, log_of
from tickwise.wiring.containers.policy import container_policy

CLUSTER = "kubernetes://"
SOCKET = "unix:///nowhere/docker.sock"
TASKS: dict[str, dict[str, Any]] = {
    "shell": {"kind": "shell", "command": "touch {file}"},
    "argv": {"kind": "shell", "argv": ["touch", "{file}"]},
    "python": {"kind": "python", "source": "open('{file}', 'w')"},
}


class Place:
    """A started runner of processes with the settings of an executor."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.blobs = open_blobs("memory://")
        self.listener = Listener()
        made = RunnerSettings(
            blobs=self.blobs, clock=SystemClock(), work_root=folder / "attempts", slots=2, run_tasks_as=OWN_USER,
            containers=container_policy(settings, None),
        )  # fmt: skip
        self.runner = ProcessRunner(made)

    async def run(self, task: dict[str, Any], isolation: Isolation = Isolation.PROCESS) -> tuple[Ending, str]:
        """The end of one attempt, and its log."""
        given = assignment(task, None, confinement=Confinement(isolation))
        self.runner.launch([given])
        return await self.listener.ending_of(given), await log_of(self.blobs, given)


@contextlib.asynccontextmanager
async def _place(folder: Path, engine: str | None, plain_tasks: str | None = None) -> AsyncIterator[Place]:
    said: dict[str, Any] = {} if plain_tasks is None else {"kubernetes_plain_tasks": plain_tasks}
    place = Place(folder, Settings(container_engine=engine, **said))
    await place.runner.start(place.listener, SystemClock().now)
    try:
        yield place
    finally:
        await place.runner.close()


def _task(name: str, file: Path) -> dict[str, Any]:
    def said(value: Any) -> Any:
        return [said(each) for each in value] if isinstance(value, list) else str(value).replace("{file}", str(file))

    return {key: said(value) for key, value in TASKS[name].items()}


@pytest.mark.parametrize("name", TASKS)
async def test_beside_a_cluster_no_plain_process_starts(tmp_path: Path, name: str) -> None:
    """With the default: the run goes back for another executor, says what helps, and nothing of it ran."""
    file = tmp_path / "ran"
    async with _place(tmp_path, CLUSTER) as place:
        ending, _ = await place.run(_task(name, file))
    assert (Verdict.UNOFFERED, "isolation_missing") == (ending.verdict, ending.reason)
    assert ending.retry_after_seconds, "it is not claimed again at once"
    assert "TICKWISE_KUBERNETES_PLAIN_TASKS" in str(ending.error)
    assert not file.exists()


@pytest.mark.parametrize(
    ("engine", "plain_tasks"), [(CLUSTER, "allowed"), (SOCKET, None), (None, None)], ids=["allowed", "docker", "none"]
)
async def test_others_start_them(tmp_path: Path, engine: str | None, plain_tasks: str | None) -> None:
    """Where the operator allows it, and on executors without a cluster, a plain process runs as ever."""
    file = tmp_path / "ran"
    async with _place(tmp_path, engine, plain_tasks) as place:
        ending, _ = await place.run(_task("shell", file))
    assert Verdict.OK is ending.verdict, ending
    assert file.exists()


async def test_a_sandbox_runs_beside_a_cluster_and_sees_no_token(tmp_path: Path) -> None:
    """The folders that a token is mounted in are empty there."""
    async with _place(tmp_path, CLUSTER) as place:
        ending, log = await place.run({"kind": "shell", "command": "ls -A /run; ls -A /var"}, Isolation.SANDBOX)
    assert Verdict.OK is ending.verdict, ending
    assert "tmp" == log.strip()
