"""The program of an orphan reaper.

    orphan_reaper_program.py LEASE_FILE EXECUTOR NUMBER FOLDER RESULT WORKER GROUP PLACE…

It stands alone, without `site` and without a package, so that it is small, starts in 12 ms and works on when files of
the product are changed below it. Invariant: it ends no process without a mark of its executor's tasks, and of those
with one, neither the executor nor itself.
"""

import os
import select
import signal
import struct
import sys
import time

FAREWELL = b"farewell\n"
ATTEMPTS = 10_000_000
"""The number of attempts whose numbers begin with that of one executor (`task_marks`)."""
MAX_ROUNDS = 20
"""A process that survives so many looks hangs inside the kernel."""
QUIET_ROUNDS = 3
"""The number of looks in a row that must find nothing: one may miss a process that is just being forked."""
PAUSE_SECONDS = 0.02
WATCH_SECONDS = 1.0
"""Between two looks at an executor that has no lease yet, or no longer."""
LIMIT_LINE = b"\nMax file locks"
GROUPS_LINE = b"\nGroups:"
EXECUTOR_GROUPS = 0x9000_0000
"""With the 28 bits above it: see `task_groups`."""


def executor_group(number: int) -> int:
    """The group that all tasks of the executor with this number are in, if they run as other users."""
    return EXECUTOR_GROUPS + number % (1 << 28)


class Orphans:
    """The processes with marks of one executor's tasks."""

    def __init__(self, arguments: "list[str]") -> None:
        executor, number, folder, result, worker, self._group, *self._places = arguments
        self.folder = folder
        self._spared = {os.getpid(), int(executor), 1}
        self._number = int(number)
        self._in_group = str(executor_group(self._number)).encode()
        self._marks = (os.fsencode(result), os.fsencode(worker))

    def kill(self) -> bool:
        """Kill all that a look finds; whether it found any."""
        found = {pid for pid in self._all() if pid not in self._spared and self._is_marked(pid)}
        found |= {pid for group in self.groups() for pid in _members(group)} - self._spared
        active = {pid for pid in found if _lives(pid)}
        for pid in active:
            for target in (-pid, pid):
                try:
                    os.kill(target, signal.SIGKILL)
                except OSError:
                    continue  # it leads no group, or has ended
        return bool(active)

    def kill_all(self) -> None:
        """Until looks find none."""
        quiet = 0
        for _ in range(MAX_ROUNDS):
            quiet = 0 if self.kill() else quiet + 1
            if quiet == QUIET_ROUNDS:
                return
            time.sleep(PAUSE_SECONDS)  # noqa: TID251  # it stands alone

    def groups(self) -> "list[str]":
        """The control groups of its tasks."""
        found = []
        for place in self._places:
            try:
                found += [f"{place}/{name}" for name in os.listdir(place) if name.startswith(self._group)]
            except OSError:
                continue
        return found

    def _all(self) -> "list[int]":
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def _is_marked(self, pid: int) -> bool:
        groups = _content(f"/proc/{pid}/status").partition(GROUPS_LINE)[2].partition(b"\n")[0]
        if self._in_group in groups.split():
            return True
        limit = _content(f"/proc/{pid}/limits").partition(LIMIT_LINE)[2].split(None, 1)[:1]
        if limit and limit[0].isdigit() and int(limit[0]) // ATTEMPTS == self._number:
            return True
        environment = b"\0" + _content(f"/proc/{pid}/environ")
        return any(b"\0" + mark in environment for mark in self._marks)


def _content(path: str) -> bytes:
    """The content of a file of `/proc`; empty for a process that has ended or belongs to another user."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _members(group: str) -> "list[int]":
    return [int(pid) for pid in _content(f"{group}/cgroup.procs").split()]


def _lives(pid: int) -> bool:
    return _content(f"/proc/{pid}/stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def _held_until(lease_file: int) -> float:
    """On the monotonic clock, which all processes share; 0.0: there is no lease yet."""
    moment: float = struct.unpack("d", os.pread(lease_file, 8, 0))[0]
    return moment


def watch(orphans: Orphans, lease_file: int) -> None:
    """Returns when the executor says farewell or is dead. Keeps its tasks within its lease meanwhile."""
    while True:
        pause = None
        if lease_file >= 0:
            until = _held_until(lease_file)
            left = until - time.monotonic()  # noqa: TID251  # it stands alone
            if until > 0.0 and left <= 0.0:
                orphans.kill()
            pause = left if left > 0.0 else PAUSE_SECONDS if -left < WATCH_SECONDS else WATCH_SECONDS
        if select.select([0], [], [], pause)[0]:
            return


def main() -> None:
    """Until the executor has gone."""
    orphans = Orphans(sys.argv[2:])
    watch(orphans, int(sys.argv[1]))
    if os.read(0, len(FAREWELL)):
        return
    import shutil  # 10 ms that few of us need

    orphans.kill_all()
    shutil.rmtree(orphans.folder, ignore_errors=True)
    for group in orphans.groups():
        try:
            os.rmdir(group)
        except OSError:
            continue


if __name__ == "__main__":
    main()
