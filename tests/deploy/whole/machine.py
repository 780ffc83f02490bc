"""A machine for a deployment: a container with nearly all rights, and no network but its own loopback.

    this machine ── Docker Engine ──► machine: dockerd and a stack, or systemd and units
                                         └── bridges, addresses and fixed ports are seen inside of it alone

Invariant: when its block ends, the machine and its volumes are gone. Images stay, for the next call.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.deploy.engine import Docker
from tests.deploy.tools import needed, said

CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
)  # fmt: skip
"""By number, as the kernel has them; older engines know no later ones."""
WITHOUT: Final = frozenset({"SYS_MODULE", "SYS_BOOT", "SYS_TIME"})
"""Of the whole machine below, and nothing here needs them."""


def _rights() -> list[str]:
    """Options that give a container what this process has: a host may lack a capability, so `--privileged` fails."""
    (line,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("CapBnd:")]
    bits = int(line.split()[1], 16)
    held = [name for number, name in enumerate(CAPABILITIES) if bits >> number & 1 and name not in WITHOUT]
    return [
        *(word for name in held for word in ("--cap-add", name)),
        "--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined",
        "--security-opt", "apparmor=unconfined", "--device-cgroup-rule", "a *:* rwm",
    ]  # fmt: skip


class Machine:
    """One that runs."""

    def __init__(self, docker: Docker, name: str) -> None:
        self._docker, self._name = docker, name

    def __call__(self, *words: str | Path, environment: Mapping[str, str] | None = None, seconds: float = 120) -> str:
        """What a command in it says. Raises AssertionError if it fails."""
        told = [word for name, value in (environment or {}).items() for word in ("--env", f"{name}={value}")]
        return self._docker("exec", *told, self._name, *words, seconds=seconds)

    def within(self) -> list[str]:
        """The beginning of a command line for a program of this machine that is to use the network of that one."""
        number = self._docker("inspect", "--format", "{{.State.Pid}}", self._name).strip()
        return [needed("nsenter", "util-linux"), f"--net=/proc/{number}/ns/net", "--"]

    def logs(self) -> str:
        """What its first process said."""
        return self._docker("logs", "--tail", "100", self._name)

    def copy(self, source: Path, target: str) -> None:
        """Put a file or a folder of this machine into it."""
        self._docker("cp", source, f"{self._name}:{target}")

    def load(self, images: Sequence[str]) -> None:
        """Give images of the engine below to the engine in it. Layers that it has are not sent to its disk again."""
        environment, command = self._docker.environment, self._docker.command
        with subprocess.Popen([*command, "save", *images], stdout=subprocess.PIPE, env=environment) as saved:
            given = [*command, "exec", "--interactive", self._name, "docker", "load", "--quiet"]
            done = subprocess.run(
                given, stdin=saved.stdout, env=environment, capture_output=True, text=True, timeout=600, check=False
            )
        assert (0, 0) == (saved.returncode, done.returncode), done.stdout + done.stderr


@contextmanager
def machine(docker: Docker, image: str, *words: str, options: Sequence[str] = ()) -> Iterator[Machine]:
    """A machine of this image, whose first process is `words`; gone at the end of the block, with its volumes."""
    name = f"tickwise-machine-{uuid.uuid4().hex[:8]}"
    docker("run", "--detach", "--name", name, "--network", "none", *_rights(), *options, image, *words)
    try:
        yield Machine(docker, name)
    finally:
        docker("rm", "--force", "--volumes", name)


def python_in(machine: Machine, *words: str, environment: Mapping[str, str], seconds: float) -> str:
    """What a program of this environment says, in the network of the machine."""
    told = {**os.environ, **environment}
    return said([*machine.within(), *words], environment=told, seconds=seconds)
