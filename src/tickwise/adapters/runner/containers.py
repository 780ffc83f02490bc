"""The settings of containers, and the reasons of their failures. Light: the API loads it without any runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

IMAGE_REFUSED: Final = "image_refused"
"""The policy of the executor does not allow the image."""
IMAGE_MISSING: Final = "image_missing"
"""The image is not there: not on the engine and not to be pulled, or not in its registry."""
IMAGE_DENIED: Final = "image_denied"
"""The registry refuses the credentials, or asks for some."""
IMAGE_DIGEST_DIFFERS: Final = "image_digest_differs"
IMAGE_PULL_FAILED: Final = "image_pull_failed"
"""The registry is away, the store of images is full, or the pull took too long. Another attempt may succeed."""
COMMAND_MISSING: Final = "command_missing"
COMMAND_NOT_EXECUTABLE: Final = "command_not_executable"
CONTAINER_REFUSED: Final = "container_refused"
"""The engine cannot make such a container: an unknown user, a folder that is not there."""
MOUNT_REFUSED: Final = "mount_refused"
"""The policy of the executor does not allow the mount."""
CONTAINER_REASONS: Final[Collection[str]] = (
    IMAGE_REFUSED, IMAGE_MISSING, IMAGE_DENIED, IMAGE_DIGEST_DIFFERS, IMAGE_PULL_FAILED, COMMAND_MISSING,
    COMMAND_NOT_EXECUTABLE, CONTAINER_REFUSED, MOUNT_REFUSED,
)  # fmt: skip
"""The reasons of failures that only tasks in containers have."""

CONTAINER_LIMITS: Final = ("output_bytes", "cpu_seconds", "memory_bytes", "processes")
"""The limits that hold in a container. An engine cannot bound what a container keeps on its disk."""

IsHeld = Callable[[str, UUID, int], Awaitable[bool]]
"""Namespace, run, token: check whether the store says that an executor holds this attempt. Raises `Unavailable`."""


WarmImages = Mapping[str, int]
"""The number of warm containers of each image, by the name that tasks use."""


class WarmWatch(Protocol):
    """Told about the warm containers of an executor."""

    def warm_container(self, event: str) -> None:
        """One was `made`, `taken` by an attempt or `removed` unused; or an attempt found none, `missed`."""
        ...

    def warm_containers(self, ready: int) -> None:
        """Hear the number of containers that are ready now."""
        ...


class AttemptFate(StrEnum):
    """The account of what the store says of an attempt."""

    HELD = "held"
    """By an executor, as far as the store knows."""
    LOST = "lost"
    """With its executor: nobody reported its end, so what runs of it may be adopted."""
    SETTLED = "settled"
    """It was reported as ended, or the run is over: nothing of it may run on."""


FateOf = Callable[[UUID, int], Awaitable[AttemptFate]]
"""Run, token. Raises `Unavailable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesPolicy:
    """The cluster of an executor, and the rules for pods there."""

    config: Path | None = None
    """A kubeconfig; None: that of the surroundings, if it runs in no pod."""
    places: tuple[str, ...] = ()
    """`namespace=namespace-of-Kubernetes[/service-account]`, `*=…`. Empty: the namespace of the credentials."""
    template: Path | None = None
    pending_seconds: float = 300.0
    """The patience with a pod that no node takes."""
    plain_tasks: bool = False
    """The executor also runs tasks that are plain processes, which can read its credentials of the cluster."""
    fate_of: FateOf | None = None
    """None: Jobs of other executors are neither adopted nor removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPolicy:
    """The engine of an executor, and the rules for containers there."""

    engine: str
    """`unix:///var/run/docker.sock`, `tcp://host:port`; `kubernetes://`, `kubernetes://context`."""
    installation: str = ""
    """Marks the containers of this installation, so that the sweep leaves those of others alone."""
    images: tuple[str, ...] = ()
    """Patterns of images that tasks may name. Empty: none."""
    needs_digest: bool = False
    """An image must be named with its digest."""
    mounts: tuple[str, ...] = ()
    """Folders of the engine's host that tasks may mount, each exactly; with `:ro` to be read alone."""
    network: str = "bridge"
    """The engine's network of tasks that may use one."""
    registry_file: Path | None = None
    """Credentials of registries, in the form of Docker's config.json."""
    pull_seconds: float = 600.0
    processes: int = 512
    """The most processes of a container whose job says nothing of them."""
    warm: WarmImages = field(default_factory=dict)
    """Containers that are made before a task needs one."""
    warm_watch: WarmWatch | None = None
    is_held: IsHeld | None = None
    """None: containers of other executors are left alone."""
    kubernetes: KubernetesPolicy = KubernetesPolicy()
    """Counts where the engine is a cluster."""

    @property
    def is_cluster(self) -> bool:
        """Check whether the engine is a cluster of Kubernetes."""
        return self.engine.startswith("kubernetes:")

    @property
    def refuses_plain_tasks(self) -> bool:
        """Check whether this executor starts no plain process, because one could read its credentials."""
        return self.is_cluster and not self.kubernetes.plain_tasks
