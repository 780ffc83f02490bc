"""Ends what a killed executor left running, so that a run never goes on beside its own repetition.

    executor ──pipe──► undertaker: reads ──"farewell"──► ends                      (an orderly end: nothing is left)
        └ killed: the pipe closes ──────► kills whoever carries the mark, until a look finds nobody; removes the folder

Nobody else can: a task is in a session of its own, the kernel tells it nothing of its executor's death, and what it
has started in turn would not hear it either. The mark is a piece of the environment that only tasks of this executor
have. The undertaker is a shell of 1 MB in a session of its own, so a signal to the executor's group does not reach it.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import Final

from tickwise.domain.errors import Misconfigured

SCRIPT: Final = """
read -r farewell && exit 0
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  found=$(grep -lsF -e "$1" /proc/[0-9]*/environ)
  [ -n "$found" ] || [ $round -lt 3 ] || break
  for file in $found; do
    pid=${file#/proc/}
    pid=${pid%/environ}
    [ "$pid" -gt 1 ] || continue
    kill -s KILL -- "-$pid" 2>/dev/null
    kill -s KILL "$pid" 2>/dev/null
  done
  sleep 0.05 2>/dev/null || sleep 1
done
rm -rf -- "$2"
"""
"""Each look kills what the one before could not see yet because it was just being forked; so one that finds nobody
proves nothing at first. What twenty looks do not end hangs inside the kernel. (grep's exit status says nothing here: it
is that of an error whenever a process ended while it was looked at.)"""
ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Undertaker:
    """One for each runner of processes. Blocking calls of a millisecond or two: for a thread."""

    def __init__(self, mark: str, folder: Path) -> None:
        """`folder` goes with the tasks: it holds the work folders of them all."""
        if "\n" in mark:
            # Each line would be a mark of its own, and one of them may be anybody's.
            raise Misconfigured(f"the folder for running tasks, {folder}, has a line break in its name")
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "tickwise-undertaker", mark, str(folder)],
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
