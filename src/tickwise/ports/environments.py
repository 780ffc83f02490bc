"""Environments of scripts: an interpreter with the packages that a script declares, built once on a machine.

    runner ──demand──► acquire ──► there already: held, in less than 5 ms
                          └──► built, in a process that the runner starts as the user of its tasks ──► held
    runner ◄── program of the interpreter, until `release`

Invariants: an environment that is held is whole, and is not removed. A build that failed or was killed leaves nothing
that is ever used. The suite that adapters pass: `tickwise.testing.contracts.environments`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, Protocol

ENVIRONMENT_INVALID: Final = "environment_invalid"
"""The declaration cannot be fulfilled, however often it is tried."""
ENVIRONMENT_UNAVAILABLE: Final = "environment_unavailable"
"""The index is away, the disk is full, or the build was killed: a later try may succeed."""
ENVIRONMENT_TIMEOUT: Final = "environment_timeout"
"""The build took longer than it may."""
ENVIRONMENT_REASONS: Final = (ENVIRONMENT_INVALID, ENVIRONMENT_UNAVAILABLE, ENVIRONMENT_TIMEOUT)


class EnvironmentDemand(NamedTuple):
    """The environment that a script declares. Texts are as they were submitted; an empty one says nothing."""

    namespace: str
    requirements: str = ""
    """The text of a `requirements.txt`."""
    lock: str = ""
    """The text of a `uv.lock` or a `pylock.toml`; then there are no `requirements`."""
    python: str = ""
    """A version specifier, such as `>=3.12`."""
    exclude_newer: str = ""
    """A date or an RFC 3339 time: packages that were uploaded later are not taken."""
    from_source: bool = False
    """Packages without a wheel are built: strangers' code runs then, with the rights of a plain process. Of scripts
    that run as plain processes themselves, and of no other."""

    @property
    def facts(self) -> list[object]:
        """Facts that tell it from others. Those of one from wheels are as they were before there was another kind."""
        return [*self[:-1], *(["from source"] if self.from_source else [])]

    @property
    def digest(self) -> str:
        """The name of the declaration, 40 hexadecimal digits: the same for equal demands, on every platform."""
        return sha256(json.dumps(self.facts).encode()).hexdigest()[:40]


class EnvironmentFailure(NamedTuple):
    """The end of a demand that got no environment."""

    reason: str
    """One of `ENVIRONMENT_REASONS`."""
    detail: str
    """The fault and the way out, with the words of the tool that builds."""
    retry_after_seconds: float | None = None
    """The time until a further build; None: at once."""
    is_of_machine: bool = False
    """The fault is this machine's, such as a full disk: another one may have the environment."""

    @property
    def is_permanent(self) -> bool:
        """True if no retry can help."""
        return self.reason == ENVIRONMENT_INVALID


class BuildCommand(NamedTuple):
    """A process that builds an environment."""

    namespace: str
    arguments: Sequence[str]
    folder: Path
    """Its current folder."""
    variables: Mapping[str, str]
    timeout_seconds: float
    memory_bytes: int | None = None
    """Memory of all its processes at once. None: no limit."""


class BuildLimit(StrEnum):
    """A limit that ended a build."""

    TIME = "time"
    MEMORY = "memory"


class FolderOwner(NamedTuple):
    """The numbers of the user and the group that own a folder."""

    uid: int
    gid: int


class BuildProcesses(Protocol):
    """Starts the processes of builds, as the user that the tasks of a namespace run as."""

    def owner(self, namespace: str) -> FolderOwner | None:
        """The owner of the files of this namespace's tasks. None: this process's own user."""
        ...

    async def run(self, command: BuildCommand, output: Callable[[bytes], None]) -> int | BuildLimit:
        """Run it to its end; its exit status (negative: the signal that ended it), or the limit of the command that it
        was ended for. Nothing of it lives when this returns, also after a cancellation.

        Raises `OSError` if it cannot be started, `Unavailable` if it cannot be for now.
        """
        ...


class EnvironmentHost(NamedTuple):
    """The surroundings that a runner gives."""

    root: Path
    """The folder of the environments, which the users of tasks can pass to."""
    interpreter: Path
    """The Python that tasks run without an environment of their own."""
    variables: Mapping[str, str]
    """Variables that this interpreter needs."""
    processes: BuildProcesses


class Environment(Protocol):
    """An environment that is held: it stays as it is until it is released."""

    @property
    def program(self) -> Path:
        """Its interpreter."""
        ...

    def release(self) -> None:
        """Let it go, once. It may be removed afterwards."""
        ...


class EnvironmentTelemetry(Protocol):
    """The reports of environments to the metrics."""

    def environment_reused(self) -> None:
        """A demand found its environment."""
        ...

    def environment_built(self, seconds: float) -> None:
        """An environment was built within this time."""
        ...

    def environment_failed(self, reason: str) -> None:
        """A build ended without an environment; one of `ENVIRONMENT_REASONS`."""
        ...


class Environments(Protocol):
    """The environments of one machine, which several executors may share."""

    @property
    def root(self) -> Path:
        """The folder that they are kept in by default."""
        ...

    async def open(self, host: EnvironmentHost) -> None:
        """Make ready, and remove what killed builds left. Raises `Misconfigured` if the folder cannot be made."""
        ...

    def share(self, demand: EnvironmentDemand) -> Environment | None:
        """Hold the environment of this demand beside others of this process that began to hold it a moment ago. At
        once: it looks at no disk. None: there are none, so `acquire` it."""
        ...

    async def acquire(
        self, demand: EnvironmentDemand, output: Callable[[bytes], None]
    ) -> Environment | EnvironmentFailure:
        """Hold the environment of this demand, built if it is not there. Of equal demands at one time, one builds and
        the others wait, also those of other processes.

        `output` gets the log of the build that this call waits for, from its first line. A build goes on without the
        callers that were cancelled. For a while after a build that failed, this failure is the answer, without another
        build.
        """
        ...

    async def prepare(self, demand: EnvironmentDemand, *, ahead: bool = False) -> EnvironmentFailure | None:
        """Build it if it is not there; the reason that it is not, or None. `ahead`: no run waits for it, so it is
        built at low priority, after the others that are prepared ahead, and takes no place of other builds."""
        ...

    async def close(self) -> None:
        """End all builds. May be called again."""
        ...
