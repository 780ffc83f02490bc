"""An executor is killed at each step of a container's life: nothing is left, and nothing runs twice at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import pytest
import pytest_asyncio

from tests.services import images
from tests.services.docker import Docker
from tests.support.container_victim import victims_task
from tests.support.containers import EngineLook, container_settings, policy
from tests.support.engine_proxy import EngineProxy, EngineStep
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.runner import ContainerRunner
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage

CREATE, RENAME, FILES = r"POST /containers/create\?name=tickwise\.", r"POST /containers/\w+/rename", "PUT /containers/"
START, LOG, WAIT = r"POST /containers/\w+/start", r"GET /containers/\w+/logs\?.*follow=1", r"POST /containers/\w+/wait"
REMOVE: Final = r"DELETE /containers/\w{64}"
QUICK, LASTING = "0.2", "600"
STEPS: Final = {
    "before it is made": (EngineStep(CREATE, is_done=False), 0, QUICK, 0),
    "made": (EngineStep(CREATE, is_done=True), 0, QUICK, 0),
    "a warm one, before it is renamed": (EngineStep(RENAME, is_done=False), 1, QUICK, 0),
    "a warm one, renamed": (EngineStep(RENAME, is_done=True), 1, QUICK, 0),
    "before it gets its files": (EngineStep(FILES, is_done=False), 1, QUICK, 0),
    "with its files": (EngineStep(FILES, is_done=True), 1, QUICK, 0),
    "before it starts": (EngineStep(START, is_done=False), 0, QUICK, 0),
    "started": (EngineStep(START, is_done=True), 0, LASTING, 1),
    "running": (EngineStep(LOG, is_done=True), 0, LASTING, 1),
    "ended": (EngineStep(WAIT, is_done=True), 0, QUICK, 1),
    "before it is removed": (EngineStep(REMOVE, is_done=False), 0, QUICK, 1),
    "removed": (EngineStep(REMOVE, is_done=True), 0, QUICK, 1),
}
"""The step; the warm containers; how long the task runs; how often its first attempt has started by then."""
RUNS = {name: UUID(int=(0x01A2 << 112) | (7 << 76) | (8 << 60) | number) for number, name in enumerate(STEPS, 1)}
pytestmark = [pytest.mark.takes_up_to(300), pytest.mark.thorough]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Docker]:
    """An engine whose calls are the tests' own, so that nothing else sweeps there."""
    async with Docker() as started:
        started.load("localhost/busy", "1", images.busy())
        yield started


def _history(look: EngineLook, run_id: UUID) -> list[tuple[str, str]]:
    """The starts and ends of the containers of a run, in their order: the event, and the token of the attempt."""
    filters = quote(json.dumps({"type": ["container"], "event": ["start", "die"]}))
    lines = look.ask("GET", f"/events?since=0&until={SystemClock().now():.9f}&filters={filters}")[1].decode()
    found, decoder = [], json.JSONDecoder()
    while lines.strip():
        event, end = decoder.raw_decode(lines.lstrip())
        lines = lines.lstrip()[end:]
        name = event["Actor"]["Attributes"]["name"]
        if str(run_id) in name:
            found.append((event["Action"], name.rpartition(".")[2]))
    return found


@pytest.mark.parametrize("name", STEPS)
async def test_an_executor_killed_at_any_step_leaves_nothing(
    tmp_path: Path, engine: Docker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt runs, alone and once; no container is left, of either, nor of the warm pool."""
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.SWEEP_SECONDS", 0.05)
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.PING_SECONDS", 0.05)
    step, warm, seconds, starts = STEPS[name]
    run_id, look = RUNS[name], EngineLook(engine.url)
    victims: list[subprocess.Popen[bytes]] = []
    proxy = EngineProxy(engine.socket, step, lambda: victims[0].kill())
    async with proxy.serving(tmp_path / "proxy.sock") as url:
        command = [sys.executable, "-m", "tests.support.container_victim"]
        arguments = [url, str(tmp_path / "victim"), str(run_id), seconds, str(warm)]
        victims.append(subprocess.Popen([*command, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL))
        try:
            await eventually(proxy.acted.is_set, within_seconds=90, what=name)
        finally:
            victims[0].kill()
            victims[0].wait(90)

    async def is_held(_namespace: str, _run_id: UUID, token: int) -> bool:
        return token == 2  # the lease of the killed executor is over

    containers: Any = policy(engine.url, is_held=is_held)
    runner = ContainerRunner(container_settings(tmp_path / "next", RunnerBlobs(), containers))
    task = victims_task(QUICK)
    stage = RunnerStage(runner=runner, quick=task, lasting=task, failing=task, lives=look.lives)
    await runner.start(stage.listener, stage.store_clock.now)
    second = stage.assign(task, token=2, attempt=2, run_id=run_id, secrets={"secret-file:key": b"k"})
    stage.given.append(second)
    runner.launch([second])
    assert Verdict.OK is await stage.verdict_of(second)
    await eventually(lambda: [] == look.all(), within_seconds=60, what="no container is left")
    await runner.close()
    first = [("start", "1"), ("die", "1")] * starts
    assert [*first, ("start", "2"), ("die", "2")] == _history(look, run_id)
