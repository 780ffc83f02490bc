"""The folder of one runner's tasks, and the end of what killed executors left behind.

    <work root>/<process>-<host>-<random>/      locked (flock) for as long as its executor lives

A killed executor cannot end its tasks. Its orphan reaper does, at once; if that was killed too, the next start on the
host does: a folder of this host that nobody locks belonged to a dead executor. Its tasks are found by what only they
have: the folder's name in their environment, and a number that follows from that name in a resource limit
(`tree`).

Invariant: nothing is begun in a folder before the tasks of every dead executor of its work root have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.process import python_gate, python_launcher
from tickwise.adapters.runner.process.cgroups import Places, find_places, left_behind
from tickwise.adapters.runner.process.orphan_reaper import OrphanReaper
from tickwise.adapters.runner.process.orphan_reaper_program import ATTEMPTS, executor_group
from tickwise.adapters.runner.process.removal import remove_folder
from tickwise.adapters.runner.process.task_groups import credentials_of
from tickwise.adapters.runner.process.task_marks import Marks
from tickwise.adapters.runner.process.task_places import PASSABLE
from tickwise.adapters.runner.process.tree import number_of, present, signal_each, stats
from tickwise.domain.errors import Misconfigured
from tickwise.ports.clock import Clock

MAX_ORPHAN_SECONDS: Final = 10.0
"""A process that does not end in so long hangs inside the kernel."""
ORPHAN_LOOKS: Final = 3
"""The number of looks in a row that must find no process: one may miss a process that is just being forked."""

ORPHAN_PAUSE_SECONDS: Final = 0.02

_logger = logging.getLogger(__name__)
_PROC: Final = Path("/proc")


class WorkFolder:
    """The folder of one runner. Its methods block: they are for a thread."""

    def __init__(self, root: Path, lease_file: int | None = None) -> None:
        if "\n" in str(root):
            # Each line of the variable would count as a mark, and such a line may be the mark of another executor.
            raise Misconfigured(f"the folder for running tasks, {root}, has a line break in its name; choose another")
        self._root = root
        private_folder(root)
        with _locked(root):
            host = re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:64]
            self.dead = _dead_siblings(root, host)
            self.path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-{host}-", dir=root))
            self._lock = _lock(self.path)
        self._is_passable = False
        self.marks = Marks(self.path)
        self.places: Places = find_places(self.marks.name)
        self._reaper: OrphanReaper | None = OrphanReaper(self.marks, self.places, lease_file=lease_file)

    @classmethod
    async def open(cls, root: Path, *, threads: Executor, clock: Clock, lease_file: int | None = None) -> WorkFolder:
        """Make the folder below `root`, and end the tasks of all whose executor is dead.

        `lease_file` says until when its own tasks may run (`lease_beacon`); None: nobody says.

        Raises `Misconfigured` if others can write there, or it cannot be made.
        """
        loop = asyncio.get_running_loop()
        try:
            made = await loop.run_in_executor(threads, cls, root, lease_file)
        except OSError as error:
            raise Misconfigured(f"the folder for running tasks, {root}, cannot be written: {error.strerror}") from error
        dead = [Marks(folder) for folder, _ in made.dead]
        if dead:
            gone = await end_orphans(dead, made.places, threads=threads, clock=clock)
            await loop.run_in_executor(threads, made.clean_up, gone)
        return made

    def clean_up(self, gone: bool) -> None:
        """The folders of the dead. Where something hangs inside the kernel, the next start looks again."""
        for folder, lock in self.dead:
            if gone:
                remove_folder(folder)
            _unlock(lock)
        self.dead = ()

    def make_again(self) -> None:
        """A cleaner of temporary folders removed ours."""
        private_folder(self._root)
        with _locked(self._root):
            private_folder(self.path)
            if self._is_passable:
                self._root.chmod(PASSABLE)
                self.let_others_pass()
            _unlock(self._lock)
            self._lock = _lock(self.path)

    @property
    def root(self) -> Path:
        """The folder that holds the folders of all runners."""
        return self._root

    def let_others_pass(self) -> tuple[Path, Path]:
        """Let tasks of other users get to their own folders, which they must know by name. Where they find the launcher
        and the gate of Python tasks."""
        self._is_passable = True
        found = []
        for module in (python_launcher, python_gate):
            found.append(self.path / Path(str(module.__file__)).name)
            shutil.copyfile(str(module.__file__), found[-1])
            found[-1].chmod(0o644)
        self.path.chmod(PASSABLE)
        launcher, gate = found
        return launcher, gate

    def close(self) -> None:
        """Remove the folder; no process of its tasks may live any more."""
        reaper, self._reaper = self._reaper, None
        if reaper is not None:
            reaper.dismiss()
            for group in left_behind(self.places, self.marks.name):
                group.remove()
            remove_folder(self.path)
            _unlock(self._lock)


def private_folder(folder: Path) -> None:
    """Make the folder, or make sure that no other user can write in it: such a user could run programs as us.

    Raises `Misconfigured`, or `OSError` if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=False, mode=0o700)
    except FileExistsError:
        found = folder.lstat()  # not the target of a link: another user may redirect the link
        if not stat.S_ISDIR(found.st_mode):
            raise Misconfigured(f"the folder for running tasks, {folder}, is no folder; remove it") from None
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Misconfigured(
                f"others can write in the folder for running tasks, {folder}; "
                "it must belong to the user of the executor alone (mode 700)"
            ) from None


# ------------------------------------------------------------------------------------------ locks


def _lock(folder: Path) -> int | None:
    """A lock that the kernel takes back when we die, by its descriptor; None if another process has it, or if locking
    fails.

    (A program that tidies temporary folders may respect the lock: systemd does.)
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of `root`, under which folders are made and looked for: a folder that is made and not yet locked
    seems dead."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a disk without locks: then nothing seems dead either
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _dead_siblings(root: Path, host: str) -> Sequence[tuple[Path, int | None]]:
    """The folders of dead executors of this host, with our locks of them."""
    pattern = re.compile(rf"\d+-{re.escape(host)}-.+")
    found = []
    for folder in root.iterdir():
        if pattern.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
            lock = _lock(folder)
            if lock is not None:
                found.append((folder, lock))
    return found


# ------------------------------------------------------------------------------------------ orphans


def orphans(of: Collection[Marks], places: Places) -> set[int]:
    """The active processes that belong to tasks of these executors, wherever they have gone."""
    numbers = {marks.number for marks in of}
    groups = {executor_group(number) for number in numbers}
    environment = [begin.encode(errors="surrogateescape") for marks in of for begin in marks.environment]
    found = {pid for marks in of for group in left_behind(places, marks.name) for pid in group.members()}
    for name in present():
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if number_of(name) // ATTEMPTS in numbers or credentials_of(name).groups & groups:
                found.add(int(name))
            else:
                content = (_PROC / name / "environ").read_bytes()
                if any(variable.startswith(tuple(environment)) for variable in content.split(b"\0")):
                    found.add(int(name))
    return set(stats(map(str, found))) - {os.getpid()}


async def end_orphans(of: Collection[Marks], places: Places, *, threads: Executor, clock: Clock) -> bool:
    """KILL orphans until a look finds none; False if some do not end in ten seconds."""
    loop = asyncio.get_running_loop()
    ended: set[int] = set()
    quiet = 0
    end = clock.monotonic() + MAX_ORPHAN_SECONDS
    while quiet < ORPHAN_LOOKS:
        found = await loop.run_in_executor(threads, _kill_orphans, of, places)
        quiet = 0 if found else quiet + 1
        ended |= found
        if found and clock.monotonic() > end:
            _logger.error("tasks of a dead executor do not end although they were killed: %s", sorted(found))
            return False
        await clock.sleep(ORPHAN_PAUSE_SECONDS)
    if ended:
        _logger.warning("ended %d processes that a dead executor had left running", len(ended))
    return True


def _kill_orphans(of: Collection[Marks], places: Places) -> set[int]:
    """Kill all orphans that a look finds, and return them. Without any, remove their control groups."""
    found = orphans(of, places)
    signal_each(found, signal.SIGKILL)
    if not found:
        for marks in of:
            for group in left_behind(places, marks.name):
                group.remove()
    return found
