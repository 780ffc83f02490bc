"""The settings of every runner. Plugins receive it too, so it names only ports and plain values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tickwise.adapters.runner.containers import ContainerPolicy
from tickwise.domain.accounts.run_as import NO_USERS, RunAsUsers
from tickwise.ports.blobs import Blobs
from tickwise.ports.clock import Clock
from tickwise.ports.environments import Environments


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactLimits:
    """The files of one attempt that are kept as artefacts."""

    count: int = 100
    file_bytes: int = 16 << 20
    """Of each: it is held in memory while it is stored."""
    attempt_bytes: int = 64 << 20
    """Of all together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """The surroundings of a runner."""

    blobs: Blobs
    clock: Clock
    work_root: Path
    """The folder that holds the work folders of attempts; made if it is not there."""
    slots: int = 16
    """Most attempts of this runner at once."""
    result_limit_bytes: int = 64 << 10
    kill_grace_seconds: float = 5.0
    """Between TERM and KILL for an attempt that went over a limit."""
    pass_environment: tuple[str, ...] = ()
    """Names of further variables of the executor's environment that tasks may see."""
    run_tasks_as: str | None = None
    """The user that tasks with a process of their own run as. None: the executor's own; where that is root, a user for
    each namespace."""
    run_as_users: RunAsUsers = NO_USERS
    """The system users that jobs may name, by namespace."""
    task_disk_bytes: int | None = None
    """The most that a task may keep in its work folder whose job says nothing of it. None: no limit."""
    lease_file: int | None = None
    """The descriptor of a file whose first 8 bytes, a double, say until when tasks may run, on the monotonic clock. For
    the processes that watch the tasks, also while the executor stands still. None: no lease bounds the tasks."""
    http_allow: tuple[str, ...] = ()
    """Networks and hosts that http tasks may reach although they are not public."""
    http_per_host: int | None = None
    """The http tasks of one namespace that call one host at once. None: as many as there are slots."""
    http_tls_folder: Path | None = None
    """A folder for each namespace, with the certificates and keys that its http tasks may name."""
    artefacts: ArtefactLimits = ArtefactLimits()
    isolation: str = "auto"
    """`auto`: sandboxes are offered where this host gives them; `process`: none; `sandbox`: no start without them."""
    private_folders: tuple[Path, ...] = ()
    """Folders of the executor that no sandbox shows, beside that of its tasks."""
    environments: Environments | None = None
    """Builds and keeps the environments that scripts declare. None: a script that declares one cannot run here."""
    containers: ContainerPolicy | None = None
    """The container engine. None: no task runs in a container here."""
