"""Ends processes with everything that they started, also what ran away from its session.

A task's processes are found three ways: by the process group of its leader, by descent, and by a mark in their
environment, which a process that forks twice and calls setsid still carries (the way that build servers use).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from concurrent.futures import Executor
from pathlib import Path

from tickwise.ports.clock import Clock

_PROC = Path("/proc")
_SWEEP_SECONDS = 0.005
KILL_SECONDS_MOST = 10.0
"""A process that is there so long after its KILL hangs inside the kernel, on a dead network disk for instance. (One
with much memory takes seconds to end, and a look at thousands of processes takes one.)"""
UNKILLABLE = "unkillable"
"""The reason of an attempt that ended although its process did not."""

_logger = logging.getLogger(__name__)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a process group whose leader has not been reaped yet, so its number is still its own."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass  # nothing of it is left
    except PermissionError:
        pass  # only a zombie is left, on some systems


def present() -> frozenset[str]:
    """The numbers of the processes that there are now. Taken before a task starts, they are not looked at after it."""
    return frozenset(name for name in os.listdir(_PROC) if name.isdecimal()) if _PROC.is_dir() else frozenset()


def living_members(leader: int, mark: bytes, older: frozenset[str] = frozenset()) -> set[int]:
    """Who belongs to the task of `leader`, zombies and the leader's own zombie left out.

    `mark` is a piece of the environment that only this task has, such as its run id. `older` processes cannot belong
    to it; reading about a process costs up to 0.3 ms, and there are hundreds.
    """
    parents: dict[int, tuple[int, int]] = {}
    marked: set[int] = set()
    for name in present() - older:
        pid = int(name)
        try:
            fields = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            parents[pid] = (int(fields[1]), int(fields[3]))
            if mark in (_PROC / name / "environ").read_bytes():
                marked.add(pid)
        except OSError:
            continue  # ended meanwhile, or somebody else's
    members = marked | {pid for pid, (_, session) in parents.items() if session == leader}
    growing = True
    while growing:
        children = {pid for pid, (parent, _) in parents.items() if (parent in members or parent == leader)} - members
        members |= children
        growing = bool(children)
    if leader in parents:
        members.add(leader)
    return members - {os.getpid()}


def _kill_sweep(leader: int, mark: bytes, older: frozenset[str]) -> set[int]:
    """Kill all members that are found, and name them."""
    signal_group(leader, signal.SIGKILL)
    members = living_members(leader, mark, older)
    for pid in members:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or changed its user: out of our reach
    return members


async def kill_tree(
    process: subprocess.Popen[bytes],
    mark: bytes,
    *,
    threads: Executor,
    clock: Clock,
    older: frozenset[str] = frozenset(),
) -> None:
    """KILL all of it until a look finds nobody. The leader may be alive or a zombie, but must not be reaped yet.

    Who does not end in time is given up and logged; the KILL stands, so it does nothing more once the kernel lets go.
    """
    loop = asyncio.get_running_loop()
    found: set[int] = set()
    try:
        # Even a look may hang: at the memory of a process that hangs.
        async with asyncio.timeout(KILL_SECONDS_MOST):
            while found := await loop.run_in_executor(threads, _kill_sweep, process.pid, mark, older):
                await clock.sleep(_SWEEP_SECONDS)
    except TimeoutError:
        _logger.error("killed processes do not end: %s of the task with leader %d", sorted(found), process.pid)


class Survivors:
    """Leaders whose KILL had no effect in time. Each is waited for in the background, with all of its, and reaped."""

    def __init__(self, threads: Executor, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._watches: set[asyncio.Task[None]] = set()

    def add(self, process: subprocess.Popen[bytes], end: asyncio.Task[None], mark: bytes) -> None:
        """`end` is done when the process is: the task of its `exited`."""
        _logger.error("process %d hangs inside the kernel: its attempt is given up, it is watched", process.pid)
        watch = asyncio.get_running_loop().create_task(self._watch(process, end, mark))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, process: subprocess.Popen[bytes], end: asyncio.Task[None], mark: bytes) -> None:
        await end
        await kill_tree(process, mark, threads=self._threads, clock=self._clock)
        reap(process)
        _logger.warning("process %d, which was given up, has ended", process.pid)

    def leave(self) -> None:
        """Wait for none of them any more."""
        for watch in self._watches:
            watch.cancel()


async def exited(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended; it stays a zombie, whose number nobody else can get, until `reap`."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(process.pid)
    try:
        loop.add_reader(descriptor, _set, ended)
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def reap(process: subprocess.Popen[bytes]) -> int:
    """Take the exit status of a process that has ended: negative, the signal that ended it."""
    return process.wait()
