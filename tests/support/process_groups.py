"""The end of what a child has started, and of nothing else.

A test that starts processes by the ten thousand makes the kernel give all numbers out again within seconds. A number
that is signalled after its process was reaped may be that of a database's session by then: each is the leader of a
group of its own, and a server of which one is killed closes the connections of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess

import psutil

from tests.support.roles import Forked

Child = subprocess.Popen[bytes] | Forked | asyncio.subprocess.Process


def kill_group(child: Child) -> None:
    """SIGKILL to all of the group that this child was made the leader of, also after the child itself was reaped.

    The kernel keeps a number back while it is that of a process, of a group or of a session (`__change_pid` in
    kernel/pid.c). So once the child was reaped, a process of its number means that nothing of its group is left, and
    that this process is a stranger.
    """
    if child.returncode is not None and psutil.pid_exists(child.pid):
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
