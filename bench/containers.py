"""`python -m bench.containers [RUNS]`: the start of a task in a container, and runs a second, on an engine of its own.

cold       from the launch to the end of an empty task, the image there, one after the other; beside it the same by
           the engine's bare calls
together   RUNS tasks on 16 places

It writes results/containers.json. It needs root, and installs Debian's docker.io where it is absent.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.services.docker import Docker
from tests.support.containers import BUSY, PYTHON, EngineLook, ScriptStage, container_settings, policy
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, Task

RESULT: Final = Path(__file__).parent / "results/containers.json"
ROUNDS: Final = 15
TASKS: Final[dict[str, Task]] = {
    "container": {"kind": "container", "image": BUSY, "command": ["true"]},
    "python": {"kind": "python", "source": "pass"},
}
_clock = SystemClock()


async def _seconds(stage: ScriptStage, task: Task, count: int) -> float:
    begun = _clock.monotonic()
    batch = stage.launch(*[task] * count)
    endings = [await stage.listener.ending_of(each) for each in batch]
    assert {Verdict.OK} == {each.verdict for each in endings}, endings
    return _clock.monotonic() - begun


def _bare(look: EngineLook, image: str, number: int) -> float:
    """Create, start, wait, remove, by the engine's calls alone."""
    begun = _clock.monotonic()
    body = json.dumps({"Image": image, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", "Init": True}})
    status, answer = look.ask("POST", f"/containers/create?name=bare-{number}", body)
    assert status == 201, answer
    for method, path in (("POST", "start"), ("POST", "wait"), ("DELETE", "")):
        look.ask(method, f"/containers/bare-{number}/{path}".rstrip("/"))
    return _clock.monotonic() - begun


async def _measure(runs: int) -> dict[str, Any]:
    found: dict[str, Any] = {"case": "containers", "unit": "s", "rounds": ROUNDS, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        async with Docker() as engine:
            await engine.load_images()
            look = EngineLook(engine.url)
            settings = container_settings(Path(folder), RunnerBlobs(), policy(engine.url), slots=16)
            nothing = TASKS["container"]
            stage = ScriptStage(
                runner=IsolationRouter(settings), quick=nothing, lasting=nothing, failing=nothing, lives=lambda _: False
            )
            await stage.runner.start(stage.listener, stage.store_clock.now)
            for name, task in TASKS.items():
                await _seconds(stage, task, 1)
                taken = sorted([await _seconds(stage, task, 1) for _ in range(ROUNDS)])
                found[name] = {"median": statistics.median(taken), "low": taken[0], "high": taken[-1]}
            bare = sorted([await asyncio.to_thread(_bare, look, BUSY, number) for number in range(ROUNDS)])
            found["bare"] = {"median": statistics.median(bare), "low": bare[0], "high": bare[-1]}
            found["runs_per_second"] = runs / await _seconds(stage, TASKS["container"], runs)
            begun = _clock.monotonic()
            with ThreadPoolExecutor(settings.slots) as threads:
                for _ in threads.map(lambda number: _bare(look, BUSY, ROUNDS + number), range(runs)):
                    pass
            found["bare_per_second"] = runs / (_clock.monotonic() - begun)
            await stage.runner.close()
    found["load_after"] = os.getloadavg()[0]
    found["images"] = [BUSY, PYTHON]
    return found


def main() -> None:
    """Measure, and write the result."""
    found = asyncio.run(_measure(int(sys.argv[1]) if len(sys.argv) > 1 else 64))
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
