"""The room of a task on the disk of its work folder, counted and held to its limits.

    <its folder>/work     its work folder       ┐  counted from time to time while it runs, and once at its end;
    <its folder>/tmp      its TMPDIR            ┘  nothing of it lives when it is judged by what it has left
    removed and open      found by the descriptors of its processes

A look finds what is there at that moment. Between two looks the wall is `RLIMIT_FSIZE`: no file that a process of the
task writes, wherever it lies, grows beyond the limit by more than a page. A task that writes many files at once can
pass its limit by what it writes within one look, a tenth of a second of an idle machine.

The task writes its folders as it likes. Invariants: no link is followed, no other file system is entered, a look ends
as soon as a limit is passed, and folders below `MAX_DEPTH` others count as passed, so nothing is hidden in the depth.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.artefacts import BLOCK_BYTES
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Assignment, TaskLimits

DISK_LIMIT: Final = "disk_limit"
FILE_LIMIT: Final = "file_limit"
TEMPORARY: Final = "tmp"
"""The folder for temporary files of a task with such a limit, in its folder."""
MAX_DEPTH: Final = 64
LOOK_SHARE: Final = 20
"""A look is followed by a pause so many times as long."""
MAX_PAUSE_SECONDS: Final = 10.0
_PROC: Final = Path("/proc")
_PAGE_BYTES: Final = resource.getpagesize()
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def is_counted(limits: TaskLimits) -> bool:
    """Check whether the room of a task is limited."""
    return limits.disk_bytes is not None or limits.files is not None


def bounded(assignment: Assignment, disk_bytes: int | None) -> Assignment:
    """The attempt with the limit of its executor, where its job says none."""
    limits = assignment.limits
    if disk_bytes is None or limits.disk_bytes is not None:
        return assignment
    return assignment._replace(limits=limits._replace(disk_bytes=disk_bytes))


def file_wall(limits: TaskLimits) -> int | None:
    """The largest file that a process of the task may write: it passes the limit, so that the last look finds it."""
    return None if limits.disk_bytes is None else limits.disk_bytes + _PAGE_BYTES


def temporary_folder(folder: Path, limits: TaskLimits) -> dict[str, str]:
    """The variable that leads a task to a counted folder for temporary files, which is made; empty without limits."""
    if not is_counted(limits):
        return {}
    place = folder / TEMPORARY
    place.mkdir()
    return {"TMPDIR": str(place)}


def space_of(folder: Path, work: str, limits: TaskLimits, clock: Clock) -> WorkSpace | None:
    """The room of a task with this folder, in which its work folder has the name `work`; None: it has no limit."""
    return WorkSpace((folder / work, folder / TEMPORARY), limits, clock) if is_counted(limits) else None


class _Passed(Exception):
    """A limit is passed: the count need not go on."""


class WorkSpace:
    """The room of one task. Its methods block: they are for a thread."""

    def __init__(self, folders: Sequence[Path], limits: TaskLimits, clock: Clock) -> None:
        self._folders = folders
        self._limits = limits
        self._clock = clock
        self._due = 0.0
        self.peak_bytes = 0
        """The most that a look has found."""

    def look(self, members: Iterable[int]) -> str | None:
        """The limit that is passed now, with what these processes of the task hold open; None: none, or the last look
        was just now."""
        now = self._clock.monotonic()
        if now < self._due:
            return None
        passed = self._passed(members)
        took = self._clock.monotonic() - now
        self._due = now + min(LOOK_SHARE * took, MAX_PAUSE_SECONDS)
        return passed

    def last_look(self, status: int | None) -> str | None:
        """The limit that the task has passed, by what it has left and by its exit status; None: none. Nothing of it may
        live."""
        passed = self._passed(())
        if passed is None and self._limits.disk_bytes is not None and status == -signal.SIGXFSZ:
            return DISK_LIMIT
        return passed

    def _passed(self, members: Iterable[int]) -> str | None:
        count = _Count(self._limits)
        try:
            for folder in self._folders:
                count.add_folder(folder)
            count.add_open(members)
        except _Passed:
            pass
        self.peak_bytes = max(self.peak_bytes, count.bytes)
        return count.passed


class _Count:
    """The count of one look."""

    def __init__(self, limits: TaskLimits) -> None:
        self._limits = limits
        self._seen: set[tuple[int, int]] = set()
        """The files with several names, which take their room once."""
        self._device: int | None = None
        self.bytes = 0
        self.files = 0
        self.passed: str | None = None

    def add_folder(self, folder: Path) -> None:
        """All below a folder of the task. Raises `_Passed`."""
        try:
            descriptor = os.open(folder, _FOLDER)
        except OSError:  # the task has removed it
            return
        try:
            self._device = os.fstat(descriptor).st_dev
            self._add_below(descriptor, 0)
        finally:
            os.close(descriptor)

    def _add_below(self, folder: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.passed = FILE_LIMIT if self._limits.disk_bytes is None else DISK_LIMIT
            raise _Passed
        inner = []
        for name in _names(folder):
            with contextlib.suppress(OSError):  # it has gone meanwhile
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if found.st_dev == self._device:
                    self._add(found)
                    if stat.S_ISDIR(found.st_mode):
                        inner.append(name)
        for name in inner:
            try:
                descriptor = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:  # it has gone, or is a link by now
                continue
            try:
                self._add_below(descriptor, depth + 1)
            finally:
                os.close(descriptor)

    def add_open(self, members: Iterable[int]) -> None:
        """The files that these processes have open and that have no name any more. Raises `_Passed`."""
        for pid in members:
            place = _PROC / str(pid) / "fd"
            with contextlib.suppress(OSError):  # it has ended, or is another user's by now
                for name in os.listdir(place):
                    with contextlib.suppress(OSError):
                        found = os.stat(place / name)
                        if found.st_nlink == 0 and found.st_dev == self._device and stat.S_ISREG(found.st_mode):
                            self._add(found)

    def _add(self, found: os.stat_result) -> None:
        if not stat.S_ISDIR(found.st_mode) and found.st_nlink != 1:
            identity = found.st_dev, found.st_ino
            if identity in self._seen:
                return
            self._seen.add(identity)
        self.bytes += found.st_blocks * BLOCK_BYTES
        self.files += 1
        limits = self._limits
        if limits.disk_bytes is not None and self.bytes > limits.disk_bytes:
            self.passed = DISK_LIMIT
        elif limits.files is not None and self.files > limits.files:
            self.passed = FILE_LIMIT
        if self.passed is not None:
            raise _Passed


def _names(folder: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name
    except OSError:
        return
