"""Ends what a killed executor left running, so that a run never goes on beside its own repetition.

    executor ──pipe──► undertaker: reads ──"farewell"──► ends                      (an orderly end: nothing is left)
        └ killed: the pipe closes ──────► kills whoever carries a mark, until a look finds nobody; removes the folder

The kernel tells a task nothing of its executor's death: it is in a session of its own, and what it has started in turn
would not hear it either. The marks are what only tasks of this executor have (`work_folder`). The undertaker is a shell
of 1 MB in a session of its own, so a signal to the executor's group does not reach it. Where it is killed too, the next
start of an executor does what it would have done.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Final

from tickwise.adapters.runner.cgroups import PREFIX, Places

if TYPE_CHECKING:
    from tickwise.adapters.runner.work_folder import Marks

SCRIPT: Final = """
read -r farewell && exit 0
result=$1 worker=$2 limit=$3 folder=$4 groups=$5
shift 5
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  found=$(
    grep -lsF -e "$result" -e "$worker" /proc/[0-9]*/environ
    grep -lsE -e "$limit" /proc/[0-9]*/limits
    for place; do cat "$place/$groups"*/cgroup.procs 2>/dev/null; done
  )
  living=
  for file in $found; do
    pid=${file#/proc/}
    pid=${pid%/*}
    [ "$pid" -gt 1 ] || continue
    grep -qsE '^State:[[:space:]]*[ZX]' "/proc/$pid/status" && continue
    living=yes
    kill -s KILL -- "-$pid" 2>/dev/null
    kill -s KILL "$pid" 2>/dev/null
  done
  [ -n "$living" ] || [ $round -lt 3 ] || break
  sleep 0.05 2>/dev/null || sleep 1
done
rm -rf -- "$folder"
for place; do rmdir -- "$place/$groups"* 2>/dev/null; done
"""
"""Each look kills what the one before could not see yet because it was just being forked; so one that finds nobody
proves nothing at first. What twenty looks do not end hangs inside the kernel. (grep's exit status says nothing here: it
is that of an error whenever a process ended while it was looked at.)"""
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Undertaker:
    """One for each work folder. Blocking calls of a millisecond or two: for a thread."""

    def __init__(self, marks: Marks, places: Places) -> None:
        """The folder of the marks goes with the tasks."""
        self._process = subprocess.Popen(
            [
                *("/bin/sh", "-c", SCRIPT, "tickwise-undertaker"),
                *marks.environment,
                *(marks.limit_line, str(marks.folder), f"{PREFIX}{marks.name}-"),
                *sorted({str(place.folder) for place in places.values()}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Nothing is left for it to do."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"farewell\n")
            self._process.stdin.flush()
        self._process.stdin.close()
        self._process.wait()
