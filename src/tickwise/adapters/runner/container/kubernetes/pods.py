"""The account of what is read of a pod: no more than its end and its causes need, so that thousands fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

TASK: Final = "task"
"""The name of the container with the task."""
DISRUPTED: Final = "DisruptionTarget"
"""The condition of a pod that Kubernetes itself ends (v1.26)."""


class Meta(msgspec.Struct, rename="camel", frozen=True):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int = 0

    @property
    def version(self) -> int:
        """Its place in the history of the cluster: later versions are greater (promised since v1.35, true before)."""
        return int(self.resource_version or 0)

    @property
    def deleted_at(self) -> float | None:
        """The instant at which its deletion was asked for, in whole seconds; None: it was not."""
        until = instant(self.deletion_timestamp)
        return None if until is None else until - self.deletion_grace_period_seconds


class WaitingContainer(msgspec.Struct, frozen=True):
    """A container that waits."""

    reason: str = ""
    message: str = ""


class RunningContainer(msgspec.Struct, rename="camel", frozen=True):
    """A container that runs."""

    started_at: str | None = None


class Terminated(msgspec.Struct, rename="camel", frozen=True):
    """A container that has ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerPhase(msgspec.Struct, frozen=True):
    """One of the three is there."""

    waiting: WaitingContainer | None = None
    running: RunningContainer | None = None
    terminated: Terminated | None = None


class ContainerReport(msgspec.Struct, rename="camel", frozen=True):
    """The state of one container of a pod."""

    name: str = ""
    state: ContainerPhase = ContainerPhase()


class PodCondition(msgspec.Struct, rename="camel", frozen=True):
    """One condition of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """The state of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: Sequence[PodCondition] = ()
    container_statuses: Sequence[ContainerReport] = ()
    init_container_statuses: Sequence[ContainerReport] = ()


class PodPlace(msgspec.Struct, rename="camel", frozen=True):
    """Of its specification, the node alone."""

    node_name: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod, as it was last seen."""

    metadata: Meta = Meta()
    spec: PodPlace = PodPlace()
    status: PodStatus = PodStatus()

    @property
    def task(self) -> ContainerPhase:
        """The state of the container with the task."""
        for each in self.status.container_statuses:
            if each.name == TASK:
                return each.state
        return ContainerPhase()

    @property
    def end(self) -> Terminated | None:
        """The end of its task; None: it has not ended, or nobody saw how."""
        return self.task.terminated

    @property
    def started_at(self) -> float | None:
        """The begin of its task, on the cluster's clock; None: it has not begun, as far as is known."""
        phase = self.task
        if phase.running is not None:
            return instant(phase.running.started_at) or 0.0
        return None if phase.terminated is None else instant(phase.terminated.started_at)

    @property
    def is_over(self) -> bool:
        """Check whether nothing of it runs: its task has ended, or the pod as a whole."""
        return self.end is not None or self.status.phase in ("Succeeded", "Failed")

    def condition(self, name: str) -> PodCondition | None:
        """A condition that is true of it, or of `PodScheduled` one that is false."""
        wanted = "False" if name == "PodScheduled" else "True"
        return next((each for each in self.status.conditions if each.type == name and each.status == wanted), None)


class JobObject(msgspec.Struct, frozen=True):
    """A Job, by its marks."""

    metadata: Meta = Meta()


class ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """The place of a list in the history of the cluster, and the key of its next page."""

    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class PodList(msgspec.Struct, frozen=True):
    """A page of pods."""

    metadata: ListMeta = ListMeta()
    items: Sequence[Pod] = ()


class JobList(msgspec.Struct, frozen=True):
    """A page of Jobs."""

    metadata: ListMeta = ListMeta()
    items: Sequence[JobObject] = ()


class PodEvent(msgspec.Struct, rename="camel", frozen=True):
    """A word of Kubernetes about an object."""

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None


class PodEventList(msgspec.Struct, frozen=True):
    """A page of them."""

    items: Sequence[PodEvent] = ()


class WatchLine(msgspec.Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: msgspec.Raw


class ApiStatus(msgspec.Struct, frozen=True):
    """The answer of the API to what it does not do."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Any = None


def instant(text: str | None) -> float | None:
    """The seconds since 1970 of `2026-11-27T05:00:00Z`; None: it is none, or the empty one of Go."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return found if found > 0.0 else None
