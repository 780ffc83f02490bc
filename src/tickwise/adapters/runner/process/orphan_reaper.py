"""Ends the tasks of an executor that was killed, and those that still run when its lease is over.

    executor ──pipe──► reaper: reads ──"farewell"──► ends                          (an orderly end: nothing is left)
        ├ killed: the pipe closes ──────► kills all that carry a mark, until looks find none; removes the folder
        └ frozen: no heartbeat moves the time in the shared file ──► kills them at that time, and goes on watching

The kernel tells a task nothing of its executor's death, and an executor that is stopped (SIGSTOP, a frozen group, a
debugger) cannot end its tasks before its lease ends: without a watcher they would go on beside their second attempts.
The marks are what only tasks of this executor have (`task_marks`). The reaper is a process in a session of its own, so
a signal to the executor's group does not reach it. Where it is killed too, the next start of an executor does what it
would have done. Its program is `orphan_reaper_program`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from tickwise.adapters.runner.process import orphan_reaper_program
from tickwise.adapters.runner.process.cgroups import PREFIX, Places
from tickwise.adapters.runner.process.task_marks import Marks


class OrphanReaper:
    """One for each work folder. Blocking calls of a millisecond or two: for a thread."""

    def __init__(self, marks: Marks, places: Places, *, lease_file: int | None) -> None:
        """The folder of the marks goes with the tasks. `lease_file`: the descriptor of a file whose first 8 bytes say
        until when tasks may run (`lease_beacon`); None: no lease bounds the tasks."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", "-E", orphan_reaper_program.__file__),
                *(str(-1 if lease_file is None else lease_file), str(os.getpid()), str(marks.number)),
                *(str(marks.folder), *marks.environment, f"{PREFIX}{marks.name}-"),
                *sorted({str(place.folder) for place in places.values()}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=() if lease_file is None else (lease_file,),
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the orphan reaper, which has no task left to watch."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(orphan_reaper_program.FAREWELL)
            self._process.stdin.flush()
        self._process.stdin.close()
        self._process.wait()
