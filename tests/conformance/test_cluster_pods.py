"""The runner of pods keeps the promises of the port, on a real Kubernetes API server with a small kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services.kubelet import Kubelet
from tests.support.clusters import ClusterSite, busy
from tickwise.testing.contracts.runner import (
    RunnerAttemptsContract,
    RunnerBlobs,
    RunnerStage,
    RunnerStopsContract,
    RunnerSuite,
    Task,
)
from tickwise.testing.contracts.runner_output import RunnerOutputContract


@pytest.mark.thorough
class Pods(RunnerSuite):
    @pytest_asyncio.fixture
    async def site(self, tmp_path: Path, blobs: RunnerBlobs, kubernetes_port: int) -> AsyncIterator[ClusterSite]:
        async with Kubelet(kubernetes_port) as node:
            made = ClusterSite(tmp_path, node, kubernetes_port)
            made.blobs = blobs
            await made.prepare()
            yield made

    @pytest.fixture
    def stage(self, site: ClusterSite) -> RunnerStage:
        return site.make(slots=1)

    @pytest.fixture
    def talking(self) -> Task:
        return busy(entrypoint=["echo", "hello"])

    @pytest.fixture
    def complaining(self) -> Task:
        return busy(command="echo no >&2; exit 3")


class TestPodAttempts(Pods, RunnerAttemptsContract):
    def test_its_labels_are_made_once(self, started: RunnerStage) -> None:
        """They are asked for before every claim."""
        assert started.runner.labels() is started.runner.labels()
        assert ["task:container", "isolation:container"] == list(started.runner.labels())


class TestPodStops(Pods, RunnerStopsContract):
    pass


class TestPodOutput(Pods, RunnerOutputContract):
    pass
