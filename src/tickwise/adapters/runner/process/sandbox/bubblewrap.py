"""The command line of bubblewrap, for a plan.

    bwrap --args N -- /bin/sh -c FIRST tickwise-task PROGRAM…
              └── a file in memory: all options, and the environment of the task; nothing of them is in an argument

    bwrap ──► /bin/sh, process 1 of the sandbox ──► the task, process 2

Process 1 is a shell and not bubblewrap's own: the time and memory of a task reach the caller through it, and when it
ends the kernel has ended all that is in the sandbox before bubblewrap itself ends. It ignores TERM, as a process 1
without a handler does, while a task obeys it as outside. It waits for what loses its parent.

A limit of processes is a wall by itself, also without control groups: since Linux 5.14 `RLIMIT_NPROC` counts the
processes and threads of a user in each user namespace apart (`UCOUNT_RLIMIT_NPROC` in its `kernel/ucount.c`), and
the sandbox has a user namespace of its own. Root of the machine is not counted, so nor is a task that runs as root.

Invariants: bubblewrap's own environment is empty, for process 1 would show it; no file descriptor but the output
reaches the task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from tickwise.adapters.runner.process.sandbox.plan import SandboxPlan
from tickwise.adapters.runner.process.tree import OOM_SCORE

PROGRAM: Final = "bwrap"
NEEDED_OPTIONS: Final = ("--args", "--disable-userns", "--size", "--perms", "--seccomp", "--remount-ro")
"""`--disable-userns` is the youngest of them: bubblewrap 0.8."""
FIRST: Final = (
    f'exec 9>&2 2>/dev/null; echo {OOM_SCORE.decode()} >/proc/self/oom_score_adj; (exec "$@" 2>&9 9>&-); exit $?'
)
"""Process 1. Its own words about a task that a signal ended are nobody's output. It says itself that the kernel is to
end the task before the executor: it may have begun before others said so of bubblewrap."""
WALL: Final = "ulimit -u {most} 2>/dev/null || ulimit -p {most} 2>/dev/null; "
"""Before `FIRST`: bash and ksh call it `-u`, dash and busybox `-p`."""
SPARE_PROCESSES: Final = 1
"""That a task may have above its limit, so that a look finds it passed, and the task ends for that reason."""
COUNTED_SINCE: Final = (5, 14)
"""The Linux that counts processes in each user namespace apart. An older one counts those of other tasks, too."""
SHELL: Final = "/bin/sh"
NAME: Final = "tickwise-task"
OWN_PROCESSES: Final = 2
"""bubblewrap and process 1: beside those of a task."""
SIGNAL_STATUS: Final = 128
"""A status above this means that a signal ended the task."""
ALWAYS: Final = (
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--as-pid-1",
    "--cap-drop",
    "ALL",
)


def command(
    program: str, options_descriptor: int, arguments: Sequence[str], *, processes: int | None = None
) -> list[str]:
    """The command line. `options_descriptor`: that of `options`, in the process that bubblewrap becomes; `processes`:
    the most processes and threads that the task may have, where the kernel can count them."""
    first = FIRST if processes is None or not counts_apart() else f"{wall(processes)}{FIRST}"
    return [program, "--args", str(options_descriptor), "--", SHELL, "-c", first, NAME, *arguments]


def wall(processes: int) -> str:
    """The words by which process 1 bounds itself and all below it."""
    return WALL.format(most=1 + processes + SPARE_PROCESSES)  # 1: process 1 itself


@lru_cache(maxsize=1)
def counts_apart() -> bool:
    """Check whether this kernel counts the processes of each user namespace apart."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= COUNTED_SINCE


def options(plan: SandboxPlan, environment: Mapping[str, str], filter_descriptor: int) -> bytes:
    """The content of the file of options. `filter_descriptor`: that of the seccomp filter in the same process."""
    words = [*ALWAYS, *(["--share-net"] if plan.shares_network else []), *plan.options()]
    words += ["--seccomp", str(filter_descriptor)]
    for name, value in environment.items():
        words += ["--setenv", name, value]
    return b"".join(os.fsencode(word) + b"\0" for word in words)
