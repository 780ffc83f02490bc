"""The places of all that a task in a sandbox finds: the plan that bubblewrap carries out.

    /usr                   the machine's, read-only; /bin, /sbin, /lib… as the machine has them
    /etc                   a folder of ours with the few files that programs need (`etc_folder`), read-only
    /proc, /dev            of its own: its processes alone; no device but null, zero, full, random, urandom, tty, ptmx
    /tmp, /dev/shm, HOME   its own, in memory, bounded, gone with it
    the task's folder      at its path outside, writable: payload, result and artefacts go that way
    task.directory         at its path outside, writable
    its interpreter        at its path outside, read-only (`interpreter_mounts`)

Invariant: nothing else of the machine is there: no data folder, no configuration, no socket, no home. The root folder
itself is read-only, so all that a task can write is bounded or on the disk of its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

SYSTEM: Final = "/usr"
SYSTEM_LINKS: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Links into /usr, or folders of their own on older machines."""
TMP: Final = "/tmp"  # a folder in memory that only this sandbox has
SHARED_MEMORY: Final = "/dev/shm"  # as above
NETWORK_FILES: Final = (
    "/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted",
)  # fmt: skip
"""The files by which programs find hosts and trust them: the machine's own, for they change while it runs."""


class Mount(NamedTuple):
    """A file or folder of the machine that is in a sandbox."""

    source: str
    target: str
    is_writable: bool = False


class SandboxSizes(NamedTuple):
    """The bounds of the folders in memory, in bytes."""

    tmp: int = 256 << 20
    home: int = 64 << 20
    shared_memory: int = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """One sandbox. `options` are those of bubblewrap, without what is the same for all."""

    work: str
    """The current folder of its task; in one of its mounts."""
    home: str
    """The path of its home."""
    etc: Path
    """The folder that it has as /etc."""
    mounts: tuple[Mount, ...] = ()
    """In their order, after the system's: a later one may lie in an earlier one."""
    shares_network: bool = False
    """True: it has the network of the executor; False: nothing but its own loopback."""
    sizes: SandboxSizes = field(default=SandboxSizes())

    def options(self) -> list[str]:
        """The options that build it."""
        found = [*_system(), "--ro-bind", str(self.etc), "/etc"]
        if self.shares_network:
            found += _read_only(path for path in NETWORK_FILES if os.path.exists(path))
        found += ["--proc", "/proc", "--dev", "/dev"]
        found += _in_memory(self.sizes.tmp, TMP, "1777")
        found += _in_memory(self.sizes.shared_memory, SHARED_MEMORY, "1777")
        found += _in_memory(self.sizes.home, self.home, "0700")
        for mount in self.mounts:
            found += ["--bind" if mount.is_writable else "--ro-bind", mount.source, mount.target]
        return [*found, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", self.work]

    def shows(self, path: str) -> bool:
        """Check whether a file of the machine is there at the same path, as far as names tell."""
        real = os.path.realpath(path)
        return all(any(_is_within(each, shown) for shown in self._shown()) for each in (os.path.dirname(path), real))

    def _shown(self) -> Iterable[str]:
        yield SYSTEM
        yield from SYSTEM_LINKS
        for mount in self.mounts:
            yield mount.target
            yield mount.source


@lru_cache(maxsize=1)
def _system() -> tuple[str, ...]:
    found = ["--ro-bind", SYSTEM, SYSTEM]
    for path in SYSTEM_LINKS:
        if os.path.islink(path):
            found += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            found += ["--ro-bind", path, path]
    return (*found, "--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp")


def _in_memory(size: int, path: str, mode: str) -> list[str]:
    return ["--perms", mode, "--size", str(size), "--tmpfs", path]


def _read_only(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", os.path.realpath(path), path)]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
