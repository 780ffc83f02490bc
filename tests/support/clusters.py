"""Runners of pods for tests, on a real control plane with a small kubelet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import yaml

from tests.services.kubelet import Kubelet, RunningPod
from tests.services.kubernetes import TOKEN, kubeconfig
from tests.support.runners import OWN_USER
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.kubernetes.runner import NETWORK_POLICY, KubernetesRunner
from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.adapters.runner.containers import AttemptFate, ContainerPolicy, KubernetesPolicy
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Confinement, Isolation
from tickwise.ports.runner import Assignment, Ending
from tickwise.testing.contracts.runner import RunnerBlobs, RunnerStage, Task, log_of

BUSY: Final = "localhost/busy:1"
PYTHON: Final = "localhost/python:1"
READY: Final = b"ready"
_SHUT: Final = {
    "metadata": {"name": NETWORK_POLICY},
    "spec": {"podSelector": {"matchLabels": {"tickwise.network": "none"}}, "policyTypes": ["Ingress", "Egress"]},
}


def busy(**said: Any) -> Task:
    """A task of the kind container."""
    return {"kind": "container", "image": BUSY, **said}


class PodStage(RunnerStage):
    """Scripts are in pods, too."""

    def assign(self, task: Task, **changes: Any) -> Assignment:
        if task["kind"] != "container":
            changes = {"confinement": Confinement(Isolation.CONTAINER, container_image=PYTHON), **changes}
        return super().assign(task, **changes)


class ClusterSite:
    """Executors of one installation on one cluster, each a stage."""

    def __init__(self, folder: Path, node: Kubelet, port: int) -> None:
        self.folder = folder
        self.node = node
        self.port = port
        self.blobs = RunnerBlobs()
        self.installation = uuid4().hex
        self.fates: dict[tuple[UUID, int], AttemptFate] = {}
        self.config = folder / "kubeconfig"
        self.template = folder / "template.yaml"
        self.stages: list[PodStage] = []

    async def prepare(self) -> None:
        """Shut pods off from the network, as the how-to says."""
        path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
        await self.node.ask("POST", path, _SHUT)
        await asyncio.to_thread(self.write)

    def write(self, token: str = TOKEN, **spec: Any) -> None:
        """Its kubeconfig and its pod template."""
        self.config.write_text(kubeconfig(self.port, token=token))
        said = {"spec": {**self.node.template["spec"], **spec}}
        self.template.write_text(yaml.safe_dump(said))

    async def fate_of(self, run_id: UUID, token: int) -> AttemptFate:
        """The fate in the store of the test; held, unless the test says otherwise."""
        return self.fates.get((run_id, token), AttemptFate.HELD)

    def settings(self, *, slots: int = 4, pull_seconds: float = 600.0, **changes: Any) -> RunnerSettings:
        """Those of an executor."""
        said = {"config": self.config, "template": self.template, "fate_of": self.fate_of, **changes}
        containers = ContainerPolicy(
            engine="kubernetes://", installation=self.installation, images=("localhost/*",),
            pull_seconds=pull_seconds,
            kubernetes=KubernetesPolicy(**said),
        )  # fmt: skip
        return RunnerSettings(
            blobs=self.blobs, clock=SystemClock(), work_root=self.folder / "work", slots=slots,
            kill_grace_seconds=0.5, run_tasks_as=OWN_USER, containers=containers,
        )  # fmt: skip

    def make(self, *, routed: bool = False, **changes: Any) -> PodStage:
        """An executor, not started. `routed`: it runs scripts, too."""
        settings = self.settings(**changes)
        stage = PodStage(
            runner=IsolationRouter(settings) if routed else KubernetesRunner(settings),
            quick=busy(entrypoint=["true"]),
            lasting=busy(command="echo ready; exec sleep 600"),
            stubborn=busy(command="trap '' TERM; echo ready; while :; do sleep 0.2; done"),
            failing=busy(command="exit 3"),
            lives=self.lives,
        )
        self.stages.append(stage)
        return stage

    async def stage(self, **changes: Any) -> PodStage:
        """An executor that has started."""
        made = self.make(**changes)
        await made.runner.start(made.listener, made.store_clock.now)
        return made

    async def run(self, stage: PodStage, task: Task, **changes: Any) -> tuple[Ending, str]:
        """The end of a run of this task, and its log."""
        [given] = stage.launch(task, **changes)
        ending = await stage.listener.ending_of(given)
        return ending, await log_of(self.blobs, given)

    def pod(self, run_id: UUID) -> RunningPod | None:
        """The pod of a run on this node."""
        return self.node.of_job(f"tickwise-{run_id}")

    def lives(self, run_id: UUID) -> bool:
        """Check whether the task of a run runs, has said `ready`, and is known to the API server to run."""
        here = self.pod(run_id)
        if here is None or here.process is None or here.process.returncode is not None or not here.is_reported:
            return False
        return any(READY in line for _, line in here.log.lines)

    async def objects(self, kind: str) -> list[Any]:
        """All Jobs, pods or Secrets of the installation."""
        group = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
        query = f"labelSelector=tickwise.installation%3D{self.installation}"
        found: list[Any] = (await self.node.ask("GET", f"{group}/namespaces/default/{kind}?{query}"))["items"]
        return found

    async def close(self) -> None:
        """End all executors."""
        for stage in self.stages:
            await stage.runner.close()
