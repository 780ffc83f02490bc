"""Holds processes to the limits of their tasks: processor time, memory, and the number of processes of the whole tree;
and the room that they take on a disk (`space`).

    control group   counts exactly and, for memory and processes, is the wall itself (`cgroups`, where there are any)
    the watch       looks at all limited tasks at a modest pace; without a group, sums up what it finds in /proc
    rlimits         bound each process in what it can do between two looks

A task without such limits is not looked at, and is started as if this module were not there.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.artefacts import BLOCK_BYTES
from tickwise.adapters.runner.process.cgroups import Group, Resource
from tickwise.adapters.runner.process.space.work_space import WorkSpace, file_wall
from tickwise.adapters.runner.process.tree import Stat, Tree, members_of, present, stats
from tickwise.ports.clock import Clock
from tickwise.ports.runner import TaskLimits

LOOK_SECONDS: Final = 0.1
"""Between two looks."""
LOOK_SHARE: Final = 20
"""A look that takes long, among thousands of processes, is followed by a pause so many times as long: 5 % of a core."""
MAX_LOOK_SECONDS: Final = 1.0
"""But by no longer one: what is looked for may grow."""
MEMORY_WALL_FACTOR: Final = 4
MEMORY_WALL_BYTES: Final = 1 << 30
"""The wall for one process, over its share of the tree's limit: what it may reserve is far more than what it uses, and
beyond this nothing can get within one look."""
CPU_WALL_SECONDS: Final = 2
"""The processor time that one process may take beyond that of its tree: the watch comes first and lets it clean up."""
PROCESSES_WALL: Final = 128
"""Processes of the same user that may be added beside the task before its own forks are refused: the kernel counts by
user, and what a task makes between two looks stays below this."""

CPU_LIMIT: Final = "cpu_limit"
MEMORY_LIMIT: Final = "memory_limit"
PROCESS_LIMIT: Final = "process_limit"

_IN_SHELL: Final = {
    resource.RLIMIT_FSIZE: ("f", BLOCK_BYTES),
    resource.RLIMIT_CPU: ("t", 1),
    resource.RLIMIT_DATA: ("d", 1 << 10),
    resource.RLIMIT_NPROC: ("up", 1),
}
"""The options of `ulimit`, of which a shell knows one, and their units."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")


@dataclass(slots=True, eq=False)
class Watched:
    """A limited task, as the watch knows it."""

    tree: Tree
    limits: TaskLimits
    exceeded: Callable[[str], None]
    """Told once, on the event loop, which limit was passed: the reason."""
    space: WorkSpace | None = None
    """Its room on a disk; None: that has no limit."""
    cpu_seconds: float = 0.0
    """The most that a look has found."""
    memory_bytes: int | None = None
    """The peak that its group has counted."""
    strangers: set[tuple[int, int]] = field(default_factory=set)
    """Processes that were looked at and do not belong to it, by number and beginning."""

    def verdict(self, cpu_seconds: float = 0.0) -> str | None:
        """The limit that it passed by the word of its group, or the processor time that it took; None: none."""
        limits, group = self.limits, self.tree.group
        if group is not None:
            usage = group.usage()
            if usage.memory_exceeded:
                return MEMORY_LIMIT
            if usage.processes_exceeded:
                return PROCESS_LIMIT
            cpu_seconds = max(cpu_seconds, usage.cpu_seconds or 0.0)
            self.memory_bytes = usage.memory_bytes
        self.cpu_seconds = max(self.cpu_seconds, cpu_seconds)
        if limits.cpu_seconds is not None and self.cpu_seconds > limits.cpu_seconds:
            return CPU_LIMIT
        return None

    @property
    def needs_look(self) -> bool:
        """Some of its limits are counted by no group."""
        return self.space is not None or bool(_uncounted(self.limits, self.tree.group))

    def last_verdict(self, cpu_seconds: float, status: int | None) -> str | None:
        """The limit that it has passed, when nothing of it lives. `status`: None is a lost one. Blocking."""
        found = None if self.space is None else self.space.last_look(status)
        return self.verdict(cpu_seconds) or found

    def look(self, known: Mapping[int, Stat]) -> str | None:
        """Sum up the tree. Blocking."""
        strangers = {pid for pid, one in known.items() if (pid, one.began) in self.strangers}
        members = members_of(self.tree, known, strangers)
        self.strangers = {(pid, one.began) for pid, one in known.items() if pid not in members}
        limits = self.limits
        found = [known[pid] for pid in members]
        if limits.processes is not None and sum(one.threads for one in found) > limits.processes:
            return PROCESS_LIMIT
        if limits.memory_bytes is not None:
            resident = sum(one.resident_pages for one in found) * _PAGE_BYTES
            # Pages that a parent shares with its forks are counted once for each; the exact sum takes longer.
            shares = {pid: known[pid].resident_pages * _PAGE_BYTES for pid in members}
            if resident > limits.memory_bytes and _proportional_bytes(shares) > limits.memory_bytes:
                return MEMORY_LIMIT
        passed = None if self.space is None else self.space.look(members)
        return passed or self.verdict(sum(one.cpu_ticks for one in found) / _TICKS_A_SECOND)


def _proportional_bytes(resident: Mapping[int, int]) -> int:
    """Memory of processes, where each page counts once however many of them share it. One that cannot be looked into,
    because it is another user's and we have no right to, counts with all that is `resident`."""
    total = 0
    for pid, most in resident.items():
        try:
            lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
        except PermissionError:
            total += most
        except OSError:
            continue  # it has ended
        else:
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


class LimitsWatch:
    """Looks at all limited tasks of one runner, while there are any. For one event loop."""

    def __init__(self, threads: Executor, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._watched: set[Watched] = set()
        self._looking: asyncio.Task[None] | None = None

    def add(self, watched: Watched) -> None:
        """Look at it from now on."""
        self._watched.add(watched)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_again_and_again())

    def remove(self, watched: Watched) -> None:
        """Its leader has ended: look at it no more."""
        self._watched.discard(watched)

    async def _look_again_and_again(self) -> None:
        loop = asyncio.get_running_loop()
        pause = LOOK_SECONDS
        while True:
            await self._clock.sleep(pause)
            if not self._watched:
                self._looking = None
                return
            began = self._clock.monotonic()
            found = await loop.run_in_executor(self._threads, _look_at, list(self._watched))
            took = self._clock.monotonic() - began
            pause = min(max(LOOK_SECONDS, LOOK_SHARE * took), MAX_LOOK_SECONDS)
            for watched, reason in found:
                if watched in self._watched:
                    self._watched.discard(watched)
                    watched.exceeded(reason)

    def close(self) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()


def _look_at(watched: Sequence[Watched]) -> Sequence[tuple[Watched, str]]:
    """The tasks that have passed a limit, each with the limit. Blocking."""
    found = []
    closely = [one for one in watched if one.needs_look]
    known = stats(present()) if closely else {}
    for one in watched:
        reason = one.look(known) if one in closely else one.verdict()
        if reason is not None:
            found.append((one, reason))
    return found


class Wall(NamedTuple):
    """A limit of the kernel's for each process of a task."""

    which: int
    soft: int
    hard: int


def walls(limits: TaskLimits, group: Group | None, uid: int) -> Sequence[Wall]:
    """The walls of a task of this user, who starts nothing of it yet. They never raise what this process has, which the
    task inherits. Blocking: 20 µs for each process of the machine, if the number of processes is limited and no group
    counts it."""
    uncounted, found = _uncounted(limits, group), []
    largest = file_wall(limits)
    if largest is not None:
        found.append(Wall(resource.RLIMIT_FSIZE, largest, largest))
    if limits.cpu_seconds is not None:
        seconds = math.ceil(limits.cpu_seconds) + CPU_WALL_SECONDS
        found.append(Wall(resource.RLIMIT_CPU, seconds, seconds + 1))
    if Resource.MEMORY in uncounted and limits.memory_bytes is not None:
        most = MEMORY_WALL_FACTOR * limits.memory_bytes + MEMORY_WALL_BYTES
        found.append(Wall(resource.RLIMIT_DATA, most, most))
    if Resource.PIDS in uncounted and limits.processes is not None:
        most = _threads_of(uid) + limits.processes + PROCESSES_WALL
        found.append(Wall(resource.RLIMIT_NPROC, most, most))
    return [_lowered(wall, *resource.getrlimit(wall.which)) for wall in found]


def walls_in_shell(found: Sequence[Wall]) -> str:
    """The words by which a shell sets these walls for itself and what it becomes. Root of a container, or of a unit
    with few capabilities, has no right to set them for a process of another user (CAP_SYS_RESOURCE)."""
    words = []
    for which, *both in found:
        names, unit = _IN_SHELL[which]
        for kind, most in zip("SH", both, strict=True):  # a hard one below the soft one is refused
            tried = [f"ulimit -{kind} -{name} {-(-most // unit)} 2>/dev/null" for name in names]
            words.append(" || ".join(tried) + "; ")
    return "".join(words)


def set_walls(pid: int, found: Sequence[Wall]) -> None:
    """Bound a process that has just been started and has done nothing yet, if this process may."""
    for wall in found:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or runs as another user
            resource.prlimit(pid, wall.which, _lowered(wall, *resource.prlimit(pid, wall.which))[1:])


def is_counted_less(limits: TaskLimits, joined: Group | None, made: Group | None) -> bool:
    """Check whether a group that a task has joined counts less of it than the one that was made."""
    return _uncounted(limits, joined) != _uncounted(limits, made)


def _uncounted(limits: TaskLimits, group: Group | None) -> frozenset[Resource]:
    """The limited resources that no group counts."""
    limited = {
        Resource.CPU: limits.cpu_seconds,
        Resource.MEMORY: limits.memory_bytes,
        Resource.PIDS: limits.processes,
    }
    counted = group.places if group is not None else {}
    return frozenset(one for one, most in limited.items() if most is not None and one not in counted)


def _lowered(wall: Wall, soft: int, hard: int) -> Wall:
    return Wall(wall.which, _lower(wall.soft, soft), _lower(wall.hard, hard))


def _lower(new: int, old: int) -> int:
    return new if old == resource.RLIM_INFINITY else min(new, old)


def _threads_of(uid: int) -> int:
    """The number of processes and threads of this user, as the kernel counts them."""
    count = 0
    for name in present():
        with contextlib.suppress(OSError):
            if (_PROC / name).stat().st_uid == uid:
                count += sum(one.threads for one in stats([name]).values())
    return count
