"""Runs the builds of environments as tasks run: as the user of a namespace, in a session of their own, with its marks.

So a build has no more rights than a script of its namespace, its whole tree ends with it, and an orphan reaper ends it
if the executor is killed. A zygote has such marks too, but it is the executor's user: where children of it become
other users, it is root.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tickwise.adapters.runner.process.interpreters import FLAGS
from tickwise.adapters.runner.process.limits import LimitsWatch, Watched
from tickwise.adapters.runner.process.start import Spawned, Start, spawn
from tickwise.adapters.runner.process.task_marks import RESULT_VARIABLE
from tickwise.adapters.runner.process.task_starter import StarterLost, TaskStarter
from tickwise.adapters.runner.process.task_users import TaskUsers
from tickwise.adapters.runner.process.tree import MAX_KILL_SECONDS, Reaped, exited, kill_tree, reap
from tickwise.adapters.runner.process.warm import subreaper_program, zygote_program
from tickwise.adapters.runner.process.warm.starts import ZygoteKey
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.domain.errors import Unavailable
from tickwise.ports.clock import Clock
from tickwise.ports.environments import BuildCommand, BuildLimit, FolderOwner
from tickwise.ports.runner import TaskLimits

READ_BYTES: Final = 1 << 16
MAX_READS: Final = 64
"""Of the rest of a pipe: at most its capacity."""
GROUP_TRIES: Final = 20
"""The number of attempts to remove the control group of an ended build: its last process may be on its way."""
NO_LIMITS: Final = TaskLimits(0)
CONTROL: Final = 3
"""The descriptor of a zygote's socket. It begins with the input that tasks have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygotePrograms:
    """Starts the zygotes of one runner."""

    folder: WorkFolder
    counts: Iterator[int]
    """The numbers of attempts, which a zygote has one of too."""
    options: Sequence[str]
    """Of the program."""

    def spawn(self, key: ZygoteKey, environment: Mapping[str, str], control: int) -> Spawned:
        """Start the program in an interpreter. Blocking. Raises `OSError`."""
        number = self.folder.marks.attempt(next(self.counts))
        mark = f"{self.folder.path}/zygote-{number}/"
        program = [key.program, *FLAGS, zygote_program.__file__, str(CONTROL), *self.options]
        start = Start(
            arguments=[sys.executable, "-I", "-S", "-E", subreaper_program.__file__, str(CONTROL), *program],
            work=Path("/"),
            environment={**environment, RESULT_VARIABLE: f"{mark}result.json"},
            limits=NO_LIMITS,
            mark=f"{RESULT_VARIABLE}={mark}".encode(),
            number=number,
            places=self.folder.places,
            group_name=f"{self.folder.marks.name}-{number}",
        )
        return spawn(start, stdin=control)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProcesses:
    """`BuildProcesses` of one runner."""

    folder: WorkFolder
    threads: Executor
    clock: Clock
    counts: Iterator[int]
    """The numbers of attempts, which a build has one of too."""
    users: TaskUsers | None
    starter: TaskStarter | None
    has_groups: bool
    watch: LimitsWatch

    def owner(self, namespace: str) -> FolderOwner | None:
        """See `BuildProcesses`."""
        if self.users is None:
            return None
        user = self.users.of(namespace)
        return FolderOwner(user.uid, user.gid)

    async def run(self, command: BuildCommand, output: Callable[[bytes], None]) -> int | BuildLimit:
        """See `BuildProcesses`."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[str] = loop.create_future()
        try:
            spawned: Spawned = await loop.run_in_executor(self.threads, self._spawn, command)
        except StarterLost as lost:
            raise Unavailable(lost.detail) from lost
        end = loop.create_task(exited(spawned.tree.process))
        loop.add_reader(spawned.output, _read, loop, spawned.output, output)
        watched = self._watched(spawned, command, over)
        is_in_time = False
        try:
            signs: set[asyncio.Future[Any]] = {end, over}
            await asyncio.wait(signs, timeout=command.timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
            is_in_time = end.done() or over.done()
        finally:
            reaped, exceeded = await asyncio.shield(self._ended(spawned, end, output, watched))
        if over.done() or exceeded:
            return BuildLimit.MEMORY
        if not is_in_time:
            return BuildLimit.TIME
        if reaped is None:
            raise Unavailable("the build's exit status is lost: the process that had started it was killed")
        return reaped.status

    def _watched(self, spawned: Spawned, command: BuildCommand, over: asyncio.Future[str]) -> Watched | None:
        """The watch over the memory of a build; None: that has no limit."""
        if command.memory_bytes is None:
            return None
        watched = Watched(spawned.tree, _limits(command), over.set_result)
        self.watch.add(watched)
        return watched

    async def _ended(
        self, spawned: Spawned, end: asyncio.Task[None], output: Callable[[bytes], None], watched: Watched | None
    ) -> tuple[Reaped | None, bool]:
        """Bring the whole tree to its end, and take the exit status, None if that is lost; and whether the kernel ended
        it for its memory."""
        loop = asyncio.get_running_loop()
        if watched is not None:
            self.watch.remove(watched)
        # A build may last until the numbers of processes come again: everyone is looked at.
        await kill_tree(spawned.tree.among_all(), threads=self.threads, clock=self.clock)
        await asyncio.wait({end}, timeout=MAX_KILL_SECONDS)
        for _ in range(MAX_READS):
            if not _read(loop, spawned.output, output):
                break
        loop.remove_reader(spawned.output)
        os.close(spawned.output)
        exceeded = watched is not None and await loop.run_in_executor(self.threads, watched.verdict) is not None
        group = spawned.tree.group
        for _ in range(GROUP_TRIES):
            if group is None or await loop.run_in_executor(self.threads, group.remove):
                break
            await self.clock.sleep(0.01)
        if not end.done():
            end.cancel()
            return None, exceeded
        return await loop.run_in_executor(self.threads, reap, spawned.tree.process), exceeded

    def _spawn(self, command: BuildCommand) -> Spawned:
        number = self.folder.marks.attempt(next(self.counts))
        mark = f"{self.folder.path}/build-{number}/"
        return spawn(
            Start(
                arguments=command.arguments,
                work=command.folder,
                environment={**command.variables, RESULT_VARIABLE: f"{mark}result.json"},
                limits=_limits(command),
                mark=f"{RESULT_VARIABLE}={mark}".encode(),
                number=number,
                places=self.folder.places,
                group_name=f"{self.folder.marks.name}-{number}",
                user=None if self.users is None else self.users.of(command.namespace),
                starter=self.starter,
                has_groups=self.has_groups,
            )
        )


def _limits(command: BuildCommand) -> TaskLimits:
    return TaskLimits(0, memory_bytes=command.memory_bytes)


def _read(loop: Any, descriptor: int, output: Callable[[bytes], None]) -> bool:
    """Move one piece; False if there is none now, or never again."""
    try:
        content = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return False
    if not content:
        loop.remove_reader(descriptor)
        return False
    output(content)
    return True
