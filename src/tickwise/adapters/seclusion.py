"""Keeps other processes of the same user from the memory of a process, and the memory of tasks off the disk.

`/proc/PID/environ`, `mem`, `maps`, `fd` and a debugger are open to every process of one's own user, unless the process
says that it is not to be dumped. Then they are root's alone, and no core dump with keys in it is ever written.

A program that it executes can be dumped again, so tasks have a limit: their memory holds the values of secrets, and a
core dump in their folder would be kept as an artefact.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4
CORE_BYTES: Final = 1
"""The limit of core dumps. None is so small. Linux pipes a dump to a program of the machine under each limit but this
one (`fs/coredump.c`), also under 0."""


def seclude() -> bool:
    """From now on nobody but root looks into this process; False where the kernel knows no such thing. What it executes
    is open again."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def without_core_dumps() -> None:
    """Limit the core dumps of this process, and of all that it starts from now on, to none. Each may raise its own
    limit again."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    most = CORE_BYTES if hard == resource.RLIM_INFINITY else min(CORE_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (most, hard))
