"""The warm pool: containers that wait are given once, with the walls of their attempt, and none is left behind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.containers import BUSY, PYTHON, ContainerBench, started_bench
from tests.support.waiting import eventually
from tickwise.config import Settings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import TaskLimits, Verdict
from tickwise.testing.contracts.runner import OUTPUT_BYTES, RunnerBlobs
from tickwise.wiring.containers.policy import container_finding

POOL = "pool"
"""An installation of these tests alone: what others have on the engine is left alone."""
SHOWS = {
    "kind": "container",
    "image": BUSY,
    "command": "hostname=$(cat /etc/hostname); echo $hostname; ls /tmp | wc -l",
}


class Watch:
    """Keeps what is told of warm containers."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.ready = 0

    def warm_container(self, event: str) -> None:
        self.events[event] += 1

    def warm_containers(self, ready: int) -> None:
        self.ready = ready


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def policies(watch: Watch) -> dict[str, Any]:
    return {"installation": POOL, "warm": {BUSY: 2}, "warm_watch": watch}


@pytest_asyncio.fixture
async def bench(
    tmp_path: Path, docker_url: str, policies: dict[str, Any], watch: Watch
) -> AsyncIterator[ContainerBench]:
    async with started_bench(tmp_path, RunnerBlobs(), docker_url, **policies) as started:
        await eventually(lambda: watch.ready == 2, within_seconds=60, what="two wait")
        yield started
    assert [] == started.look.all(POOL)
    assert 0 == watch.ready


def _waiting(bench: ContainerBench) -> set[str]:
    return {each["Id"] for each in bench.look.all(POOL) if each["Names"][0].startswith("/tickwise-warm.")}


async def test_a_container_is_given_once(bench: ContainerBench, watch: Watch) -> None:
    """Each run has one of its own, which waited for it; others take their places, never more than the setting says."""
    before = _waiting(bench)
    ran = []
    for _ in range(5):
        ending, log = await bench.run(SHOWS)
        assert Verdict.OK is ending.verdict, ending
        assert "0" == log.splitlines()[1]
        ran.append(log.splitlines()[0])
        assert len(_waiting(bench)) <= 2
        await eventually(lambda: watch.ready == 2, within_seconds=60, what="two wait")
    assert 5 == len(set(ran))
    assert {each[:12] for each in before} <= set(ran), "those that waited first are given first"
    assert (5, 0) == (watch.events["taken"], watch.events["missed"])
    assert not before & _waiting(bench)


async def test_one_of_another_shape_is_not_given(bench: ContainerBench, watch: Watch) -> None:
    """A limit, a network, a user: the first such run has a container of its own, and then some of its shape wait."""
    walls = {
        "limits": TaskLimits(OUTPUT_BYTES, memory_bytes=48 << 20, processes=7),
        "confinement": Confinement(Isolation.CONTAINER, allow_network=True),
    }
    task = {"kind": "container", "image": BUSY, "command": "echo ready; sleep 600", "user": "1000"}
    for counted in ("missed", "taken"):
        [given] = bench.stage.launch(task, **walls)
        await bench.stage.until_lives(given)
        assert 1 == watch.events[counted]
        shown = bench.look.container(given.run_id)
        host = shown["HostConfig"]
        assert (48 << 20, 7, "host", "1000", True) == (
            host["Memory"], host["PidsLimit"], host["NetworkMode"], shown["Config"]["User"], host["ReadonlyRootfs"]
        )  # fmt: skip
        bench.stage.runner.stop(given.run_id, grace_seconds=0.1)
        assert Verdict.CANCELLED is await bench.stage.verdict_of(given)
        await eventually(lambda: any(_memory(bench)), within_seconds=60, what="one of this shape waits")
        assert len(_waiting(bench)) <= 2


def _memory(bench: ContainerBench) -> list[int]:
    shown = [json.loads(bench.look.ask("GET", f"/containers/{each}/json")[1]) for each in _waiting(bench)]
    return [each["HostConfig"]["Memory"] for each in shown if "HostConfig" in each]


async def test_one_that_somebody_removed_is_not_missed(bench: ContainerBench, watch: Watch) -> None:
    """The run has another one."""
    for each in _waiting(bench):
        bench.look.ask("DELETE", f"/containers/{each}?force=1&v=1")
    ending, _ = await bench.run(SHOWS)
    assert Verdict.OK is ending.verdict, ending
    await eventually(lambda: 2 == len(_waiting(bench)), within_seconds=60, what="two wait again")


async def test_those_of_a_dead_executor_are_removed_and_those_of_a_living_one_stay(
    bench: ContainerBench, tmp_path: Path, docker_url: str, policies: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others see by their names that an executor lives."""
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.SWEEP_SECONDS", 1.0)
    monkeypatch.setattr("tickwise.adapters.runner.container.runner.PING_SECONDS", 0.05)
    body = {"Image": BUSY, "Cmd": ["true"], "Labels": {"tickwise.installation": POOL, "tickwise.executor": "dead"}}
    status, answer = bench.look.ask("POST", "/containers/create?name=tickwise-warm.dead.1", json.dumps(body))
    assert 201 == status, answer
    dead = json.loads(answer)["Id"]
    said = {**policies, "warm": {PYTHON: 1}, "warm_watch": None}
    ours = _waiting(bench) - {dead}
    async with started_bench(tmp_path / "other", RunnerBlobs(), docker_url, **said):
        await eventually(lambda: dead not in _waiting(bench), within_seconds=60, what="that of the dead one is gone")
        assert ours <= _waiting(bench)


async def test_doctor_shows_how_many_wait(bench: ContainerBench, docker_url: str) -> None:
    """And says of a warm image that it is not allowed."""
    allowed: dict[str, Any] = {
        "container_engine": docker_url,
        "container_images": ("localhost/*",),
        "container_warm": (f"{BUSY}=2",),
    }
    found = await container_finding(Settings(**allowed))
    assert "warm: 2 of 2 localhost/busy:1" in found.detail, found
    found = await container_finding(Settings(**{**allowed, "container_warm": ("python:3.12=1",)}))
    assert ("warning", True) == (found.level, "not allowed: docker.io/library/python:3.12" in found.detail), found
