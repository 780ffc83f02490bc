"""`python -m bench.containers [RUNS]`: the start of a task in a container, and runs a second, on an engine of its own.

cold       from the launch to the end of an empty task, the image there, one after the other; beside it the same by
           the engine's bare calls
warm       the same with containers that wait (`container_warm`)
together   RUNS tasks on 16 places, without and with containers that wait

It writes results/containers.json. It needs root, and installs Debian's docker.io where it is absent.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.services.docker import Docker
from tests.support.containers import BUSY, PYTHON, EngineLook, ScriptStage, container_settings, policy
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import RunnerBlobs, Task

RESULT: Final = Path(__file__).parent / "results/containers.json"
ROUNDS: Final = 15
PLACES: Final = 16
TURNS: Final = 3
WARM: Final = {BUSY: 16, PYTHON: 4}
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


async def _stage(folder: Path, url: str, warm: Mapping[str, int]) -> ScriptStage:
    """A started runner with so many warm containers."""
    settings = container_settings(folder, RunnerBlobs(), policy(url, warm=warm), slots=PLACES)
    nothing = TASKS["container"]
    runner = IsolationRouter(settings)
    stage = ScriptStage(runner=runner, quick=nothing, lasting=nothing, failing=nothing, lives=lambda _: False)
    await stage.runner.start(stage.listener, stage.store_clock.now)
    return stage


def _bare_together(look: EngineLook, numbers: range) -> float:
    begun = _clock.monotonic()
    with ThreadPoolExecutor(PLACES) as threads:
        for _ in threads.map(lambda number: _bare(look, BUSY, number), numbers):
            pass
    return _clock.monotonic() - begun


async def _measure(runs: int) -> dict[str, Any]:
    found: dict[str, Any] = {"case": "containers", "unit": "s", "rounds": ROUNDS, "load_before": os.getloadavg()[0]}
    taken: dict[str, list[float]] = defaultdict(list)
    together: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        async with Docker() as engine:
            await engine.load_images()
            look = EngineLook(engine.url)
            stages = {
                kind: await _stage(Path(folder, kind or "cold"), engine.url, warm)
                for kind, warm in (("", {}), ("warm_", WARM))
            }
            for stage in stages.values():
                for task in TASKS.values():
                    await _seconds(stage, task, 1)
            # In turns, for others may use the machine: each round meets the same load.
            for number in range(ROUNDS):
                for kind, stage in stages.items():
                    for name, task in TASKS.items():
                        await eventually(lambda: len(look.all()) == sum(WARM.values()), within_seconds=60, what="full")
                        taken[f"{kind}{name}"].append(await _seconds(stage, task, 1))
                taken["bare"].append(await asyncio.to_thread(_bare, look, BUSY, number))
            part = runs // TURNS
            for turn in range(TURNS):
                for kind, stage in stages.items():
                    await eventually(lambda: len(look.all()) == sum(WARM.values()), within_seconds=60, what="full")
                    together[f"{kind}runs_per_second"] += await _seconds(stage, TASKS["container"], part)
                numbers = range(ROUNDS + turn * part, ROUNDS + (turn + 1) * part)
                together["bare_per_second"] += await asyncio.to_thread(_bare_together, look, numbers)
            for stage in stages.values():
                await stage.runner.close()
    for name, seconds in taken.items():
        found[name] = {"median": statistics.median(seconds), "low": min(seconds), "high": max(seconds)}
    found |= {name: part * TURNS / seconds for name, seconds in together.items()}
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
