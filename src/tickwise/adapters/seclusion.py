"""Keeps other processes of the same user from the memory of a process.

`/proc/PID/environ`, `mem`, `maps`, `fd` and a debugger are open to every process of one's own user, unless the process
says that it is not to be dumped. Then they are root's alone, and no core dump with keys in it is ever written.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def seclude() -> bool:
    """From now on nobody but root looks into this process; False where the kernel knows no such thing. What it executes
    is open again."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
