"""The runner of containers keeps the promises of the port, on a real Docker Engine and on podman; so does its kind of
task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.containers import BUSY, EngineLook, ScriptStage, container_settings, policy
from tickwise.adapters.runner.container.kind import ContainerKind
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.adapters.runner.container.runner import ContainerRunner
from tickwise.ports.runner import TaskKind, TaskLimits
from tickwise.testing.contracts.runner import (
    OUTPUT_BYTES,
    RunnerAttemptsContract,
    RunnerBlobs,
    RunnerStage,
    RunnerStopsContract,
    RunnerSuite,
    Task,
)
from tickwise.testing.contracts.runner_kinds import TaskKindContract
from tickwise.testing.contracts.runner_output import RunnerOutputContract

WHOLE: Final = "TICKWISE_TEST_WHOLE_CONTAINERS"
"""With it, the suites of a runner that the kind `container` passes run with scripts, too (`make test-containers`)."""


@pytest.mark.thorough
class Containers(RunnerSuite):
    @pytest.fixture
    def engine_url(self, docker_url: str) -> str:
        """The engine."""
        return docker_url

    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs, engine_url: str) -> RunnerStage:
        def busy(**said: Any) -> Task:
            return {"kind": "container", "image": BUSY, **said}

        return RunnerStage(
            runner=ContainerRunner(container_settings(tmp_path, blobs, policy(engine_url))),
            quick=busy(command=["true"]),
            lasting=busy(command="echo ready; exec sleep 600"),
            stubborn=busy(command="trap '' TERM; echo ready; while :; do sleep 1; done"),
            failing=busy(command="exit 3"),
            lives=EngineLook(engine_url).lives,
        )

    @pytest.fixture
    def talking(self) -> Task:
        return {"kind": "container", "image": BUSY, "command": ["echo", "hello"]}

    @pytest.fixture
    def complaining(self) -> Task:
        return {"kind": "container", "image": BUSY, "command": "echo no >&2; exit 3"}


class TestContainerAttempts(Containers, RunnerAttemptsContract):
    def test_its_labels_are_made_once(self, started: RunnerStage) -> None:
        """They are asked for before every claim."""
        assert started.runner.labels() is started.runner.labels()
        assert ["task:container", "isolation:container"] == list(started.runner.labels())


class TestContainerStops(Containers, RunnerStopsContract):
    pass


class TestContainerOutput(Containers, RunnerOutputContract):
    pass


class Podman(Containers):
    """The same on podman's API that speaks Docker's words."""

    @pytest.fixture
    def engine_url(self, podman_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("tickwise.adapters.runner.container.runner.FIRST_ANSWER_SECONDS", 60.0)  # podman is slow
        return podman_url


class TestPodmanAttempts(Podman, RunnerAttemptsContract):
    @pytest.mark.xfail(strict=True, reason="podman does not say that the kernel killed a container for its memory")
    async def test_a_memory_limit_is_named(self, started: RunnerStage) -> None:
        """A gap: the reason is `signal`, and the words say what it may have been."""
        hungry = {"kind": "container", "image": BUSY, "command": "x=x; while :; do x=$x$x; done"}
        [given] = started.launch(hungry, limits=TaskLimits(OUTPUT_BYTES, memory_bytes=32 << 20))
        ending = await started.listener.ending_of(given)
        assert "may use 33554432 bytes" in (ending.error or "memory"), ending
        assert "memory_limit" == ending.reason


class TestPodmanStops(Podman, RunnerStopsContract):
    pass


class TestPodmanOutput(Podman, RunnerOutputContract):
    pass


@pytest.mark.thorough
class Scripts(RunnerSuite):
    """Python scripts in containers, by the runner that routes each attempt to its isolation."""

    @pytest.fixture
    def stage(self, tmp_path: Path, blobs: RunnerBlobs, docker_url: str) -> RunnerStage:
        lasting = "import signal, time\nif STUBBORN: signal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\n"
        lasting += "time.sleep(600)\n"

        def script(source: str) -> Task:
            return {"kind": "python", "source": source}

        return ScriptStage(
            runner=IsolationRouter(container_settings(tmp_path, blobs, policy(docker_url))),
            quick=script("pass"),
            lasting=script(lasting.replace("STUBBORN", "False")),
            stubborn=script(lasting.replace("STUBBORN", "True")),
            failing=script("raise ValueError('no')"),
            lives=EngineLook(docker_url).lives,
        )

    @pytest.fixture
    def talking(self) -> Task:
        return {"kind": "python", "source": "print('hello')"}

    @pytest.fixture
    def complaining(self) -> Task:
        return {"kind": "python", "source": "raise ValueError('no')"}


class TestContainedScriptOutput(Scripts, RunnerOutputContract):
    pass


if os.environ.get(WHOLE):

    class TestContainedScriptAttempts(Scripts, RunnerAttemptsContract):
        pass

    class TestContainedScriptStops(Scripts, RunnerStopsContract):
        pass


class TestContainerKind(TaskKindContract):
    @pytest.fixture
    def kind(self) -> TaskKind:
        return ContainerKind()

    @pytest.fixture
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        mounts = [{"source": "/srv/data", "target": "/data"}, {"source": "/srv/x", "target": "/x", "read_only": False}]
        surroundings = {"env": {"REGION": "eu"}, "working_dir": "/srv", "user": "1000:1000", "mounts": mounts}
        return [
            {"kind": "container", "image": "python:3.12"},
            {"kind": "container", "image": "ghcr.io/acme/etl", "command": "echo $REGION", "pull": "always"},
            {"kind": "container", "image": f"etl@sha256:{'a' * 64}", "command": ["load"], "entrypoint": ["/bin/etl"],
             "cpus": 0.5, **surroundings},
        ]  # fmt: skip
