"""One runner of scripts and containers: each attempt goes to the runner of its isolation.

    python, shell in a process or a sandbox ──► ProcessRunner
    python, shell in a container            ──► ContainerRunner, or KubernetesRunner where the engine is a cluster
    container                               ──► the same

Both share the slots of the executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from tickwise.adapters.runner.container.kubernetes.runner import KubernetesRunner
from tickwise.adapters.runner.container.runner import ContainerRunner
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure
from tickwise.ports.runner import Assignment, Reports, TaskKind


class IsolationRouter:
    """The runner of the kinds `python`, `shell` and `container`."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._processes = ProcessRunner(settings)
        self._containers: ContainerRunner | KubernetesRunner
        if settings.containers is not None and settings.containers.is_cluster:
            self._containers = KubernetesRunner(settings)
        else:
            self._containers = ContainerRunner(settings)
        self._kinds = (*self._processes.kinds, *self._containers.kinds)
        self._joined: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ())

    @property
    def kinds(self) -> Sequence[TaskKind]:
        return self._kinds

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        await self._processes.start(reports, now)
        await self._containers.start(reports, now)

    def launch(self, assignments: Sequence[Assignment]) -> None:
        """In their order: those in a row that go to one runner go together."""
        batch: list[Assignment] = []
        for assignment in assignments:
            if batch and is_contained(batch[-1]) != is_contained(assignment):
                self._of(batch[0]).launch(batch)
                batch = []
            batch.append(assignment)
        if batch:
            self._of(batch[0]).launch(batch)

    def _of(self, assignment: Assignment) -> ProcessRunner | ContainerRunner | KubernetesRunner:
        return self._containers if is_contained(assignment) else self._processes

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        self._processes.stop(run_id, grace_seconds=grace_seconds)
        self._containers.stop(run_id, grace_seconds=grace_seconds)

    def offers(self) -> Sequence[str]:
        return ()

    def labels(self) -> Sequence[str]:
        processes, containers = self._processes.labels(), self._containers.labels()
        if processes is not self._joined[0] or containers is not self._joined[1]:
            kinds = [label for label in (*processes, *containers) if label.startswith("task:")]
            others = [label for label in (*processes, *containers) if not label.startswith("task:")]
            self._joined = (processes, containers, (*kinds, *others))
        return self._joined[2]

    def release_waiting(self) -> None:
        self._processes.release_waiting()
        self._containers.release_waiting()

    def prepare(self, assignment: Assignment) -> None:
        """See `PreparingRunner`."""
        if not is_contained(assignment):
            self._processes.prepare(assignment)

    def renew_identity_token(self, run_id: UUID, token: str) -> None:
        """See `RenewingRunner`."""
        self._processes.renew_identity_token(run_id, token)
        self._containers.renew_identity_token(run_id, token)

    async def warm(self, demand: EnvironmentDemand) -> EnvironmentFailure | None:
        """See `WarmingRunner`."""
        return await self._processes.warm(demand)

    async def close(self) -> None:
        await self._containers.close()
        await self._processes.close()


def is_contained(assignment: Assignment) -> bool:
    """Check whether an attempt runs in a container."""
    return assignment.task["kind"] == "container" or assignment.confinement.isolation is Isolation.CONTAINER
