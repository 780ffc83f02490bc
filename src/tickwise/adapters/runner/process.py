"""Runs `python` and `shell` tasks, each attempt as a process of its own, in a session and a folder of its own.

    <work root>/<executor's process>-…/<run>-<token>/
        task.py        the script of a python task
        work/          the attempt's current folder
        payload.json   a payload too large for a variable
        result.json    what the task writes as its result

The folder is removed afterwards; if the executor is killed, an undertaker ends its tasks and removes all of them. The
result file's path is in the environment of a task and nobody else's: that is how they are found.

Exit status 0 is success, 65 (EX_DATAERR of sysexits.h) means "no retry can help", any other is a failure that may be
tried again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tickwise.adapters.runner.context import context_environment, inherited_environment
from tickwise.adapters.runner.kinds import PythonKind, ShellKind
from tickwise.adapters.runner.process_tree import (
    KILL_SECONDS_MOST,
    UNKILLABLE,
    Survivors,
    exited,
    kill_tree,
    present,
    reap,
    signal_group,
)
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.adapters.runner.undertaker import Undertaker
from tickwise.domain.errors import Misconfigured, NotFound
from tickwise.ports.blobs import script_key
from tickwise.ports.runner import Assignment, Ending, Reports, Verdict

EXIT_INVALID = 65
"""EX_DATAERR: the task says that its input cannot be right, however often it is tried."""
READ_BYTES = 1 << 16
PUMP_PAUSE_SECONDS = 0.1
"""How long a pipe is not read when too much of what it brought waits to be stored."""
NUMBERS_STAY_SECONDS = 10.0
"""For so long at least, a process number that was in use is not given to another process."""
SHELL = "/bin/sh"


class _Spawned(NamedTuple):
    process: subprocess.Popen[bytes]
    output: int
    """Our end of the pipe that its stdout and stderr go to."""
    older: frozenset[str]
    """Processes that were there before it."""


class ProcessRunner(SlotRunner):
    """The runner of the kinds `python` and `shell`."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings, (PythonKind(), ShellKind()))
        self._threads = ThreadPoolExecutor(min(8, settings.slots), thread_name_prefix="process-runner")
        self._root: Path
        self._undertaker: Undertaker | None = None
        self._survivors = Survivors(self._threads, settings.clock)

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Raises `Misconfigured` if the work folders cannot be made."""
        await super().start(reports, now)
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._make_root)
        except OSError as error:
            raise Misconfigured(
                f"the folder for running tasks, {self._settings.work_root}, cannot be written: {error.strerror}"
            ) from error

    def _make_root(self) -> None:
        _private_folder(self._settings.work_root)
        self._root = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._settings.work_root))
        self._undertaker = Undertaker(_mark(self._root), self._root)

    async def release_resources(self) -> None:
        undertaker, self._undertaker = self._undertaker, None
        if undertaker is not None:
            await asyncio.get_running_loop().run_in_executor(self._threads, undertaker.dismiss)
            _remove(self._root)
        self._survivors.leave()
        self._threads.shutdown(wait=False)

    async def perform(self, attempt: Attempt) -> Ending:
        assignment = attempt.assignment
        source = await self._source(assignment)
        if isinstance(source, Ending):
            return source
        folder = self._folder(assignment)
        loop = asyncio.get_running_loop()
        try:
            try:
                spawned = await loop.run_in_executor(self._threads, self._spawn, assignment, folder, source)
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                return self._not_started(error)
            attempt.started = self._now()
            self._reports.began(assignment.run_id, attempt.started)
            reason = await self._watch(attempt, spawned)
            ended = self._now()
            if reason == UNKILLABLE:
                return _given_up(attempt, spawned.process.pid, ended)
            status = reap(spawned.process)
            if reason is not None:
                return attempt.ending_for(reason, attempt.started, ended)
            result = await loop.run_in_executor(self._threads, self._read_result, folder) if status == 0 else None
            return _judge(attempt, status, ended) if result is None else self._with_result(attempt, result, ended)
        finally:
            await loop.run_in_executor(self._threads, _remove, folder)

    def _folder(self, assignment: Assignment) -> Path:
        return self._root / f"{assignment.run_id}-{assignment.token}"

    async def _source(self, assignment: Assignment) -> bytes | Ending | None:
        """The script of a python task; None for others."""
        task = assignment.task
        if task["kind"] != "python":
            return None
        if "source" in task:
            return str(task["source"]).encode()
        try:
            return await self._settings.blobs.get(script_key(str(task["file"]).removeprefix("sha256:")))
        except NotFound:
            now = self._now()
            error = f"the script {task['file']} is not stored any more; upload it again"
            return Ending(Verdict.INVALID, now, now, "invalid", error)

    def _not_started(self, error: OSError) -> Ending:
        now = self._now()
        message = f"it could not be started: {error.strerror}: {error.filename}"
        return Ending(Verdict.FAILED, now, now, "not_started", message)

    # ---------------------------------------------------------------------------------------- start

    def _spawn(self, assignment: Assignment, folder: Path, source: bytes | None) -> _Spawned:
        """In a thread: uvloop takes 11 ms of the loop to start a process, and folders wait for the disk."""
        try:
            folder.mkdir(mode=0o700)
        except FileNotFoundError:  # whoever tidies temporary folders took ours along
            _private_folder(self._settings.work_root)
            _private_folder(self._root)
            folder.mkdir(mode=0o700)
        work = folder / "work"
        work.mkdir()
        environment = {
            **inherited_environment(self._settings.pass_environment),
            **context_environment(assignment, folder),
        }
        arguments = self._arguments(assignment.task, folder, source)
        older = present()
        ours, theirs = os.pipe()
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                cwd=work,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        return _Spawned(process, ours, older)

    def _arguments(self, task: Mapping[str, object], folder: Path, source: bytes | None) -> list[str]:
        if source is not None:
            script = folder / "task.py"
            script.write_bytes(source)
            # -u: output is seen while it is written; -s: nothing from the home folder; -B: no litter.
            return [sys.executable, "-u", "-s", "-B", str(script)]
        if "command" in task:
            return [SHELL, "-c", str(task["command"])]
        argv = task["argv"]
        assert isinstance(argv, list | tuple)
        return list(argv)

    # ---------------------------------------------------------------------------------------- watch

    async def _watch(self, attempt: Attempt, spawned: _Spawned) -> str | None:
        """Wait for its end, or bring it about; then nothing of it lives. Why it had to end, or None.

        `UNKILLABLE` if it could not be ended: then it is watched further, and must not be reaped.
        """
        process, settings = spawned.process, self._settings
        loop = asyncio.get_running_loop()
        pump = _Pump(loop, spawned.output, attempt, settings.kill_grace_seconds)
        limit = attempt.assignment.timeout_seconds
        deadline = limit and loop.call_later(limit, attempt.end_early, "timeout", settings.kill_grace_seconds)
        end = loop.create_task(exited(process))
        try:
            signs: set[asyncio.Future[Any]] = {end, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                signal_group(process.pid, signal.SIGTERM)
                patience: set[asyncio.Future[None]] = {end, attempt.hurry}
                await asyncio.wait(patience, timeout=attempt.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
            reason = None if end.done() and not attempt.trouble.done() else attempt.trouble.result()
        finally:
            if deadline:
                deadline.cancel()
            # Of this attempt alone: the same run may go on elsewhere on this machine, if we were taken for dead.
            mark = _mark(self._folder(attempt.assignment)).encode()
            # After a long run the number of an older process may be in use again: then everyone is looked at.
            older = spawned.older if self._now() - attempt.started < NUMBERS_STAY_SECONDS else frozenset()
            await kill_tree(process, mark, threads=self._threads, clock=settings.clock, older=older)
            await asyncio.wait({end}, timeout=KILL_SECONDS_MOST)
            await pump.finish()
            if end.done():
                end.result()  # an error of ours, if it could not even be waited for
            else:
                self._survivors.add(process, end, mark)
        if not end.done():
            return UNKILLABLE
        # The last output may be what passes the limit, after the process has ended by itself.
        return attempt.trouble.result() if reason is None and attempt.trouble.done() else reason

    def _read_result(self, folder: Path) -> bytes | None:
        """What it wrote to its result file, at most one byte more than is allowed; None if it wrote none."""
        try:
            descriptor = os.open(folder / "result.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            return file.read(self._settings.result_limit_bytes + 1)

    def _with_result(self, attempt: Attempt, result: bytes, ended: float) -> Ending:
        most = self._settings.result_limit_bytes
        if len(result) > most:
            message = f"the result is larger than {most} bytes; store it elsewhere and write where"
        else:
            try:
                msgspec.json.decode(result)
                return Ending(Verdict.OK, attempt.started, ended, result=result.decode().strip())
            except (UnicodeError, msgspec.DecodeError, RecursionError) as error:
                message = f"the file TICKWISE_RESULT_FILE does not hold JSON: {error}"
        return Ending(Verdict.FAILED, attempt.started, ended, "result", message)


class _Pump:
    """Moves output from the pipe to the sink; stands still while the sink has too much to store."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, attempt: Attempt, grace_seconds: float
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._attempt = attempt
        self._grace_seconds = grace_seconds
        self._paused: asyncio.TimerHandle | None = None
        loop.add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Move one piece; False if there is none now, or never again."""
        try:
            content = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if not content:
            self._loop.remove_reader(self._descriptor)
            return False
        self._attempt.write(content, grace_seconds=self._grace_seconds)
        if self._attempt.sink.is_full and self._paused is None:
            self._loop.remove_reader(self._descriptor)
            self._paused = self._loop.call_later(PUMP_PAUSE_SECONDS, self._resume)
        return True

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._descriptor, self._read)

    async def finish(self) -> None:
        """Take what is left in the pipe, at most what a pipe can hold, and close it."""
        for _ in range(64):
            if not self._read():
                break
        if self._paused is not None:
            self._paused.cancel()
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


def _private_folder(folder: Path) -> None:
    """Make it, or make sure that nobody else can write in it: who can, could run what they like as us.

    Raises `Misconfigured`, or `OSError` if it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=False, mode=0o700)
    except FileExistsError:
        found = folder.lstat()  # not what a link leads to: somebody may turn it
        if not stat.S_ISDIR(found.st_mode):
            raise Misconfigured(f"the folder for running tasks, {folder}, is no folder; remove it") from None
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Misconfigured(
                f"others can write in the folder for running tasks, {folder}; "
                "it must belong to the user of the executor alone (mode 700)"
            ) from None


def _given_up(attempt: Attempt, pid: int, ended: float) -> Ending:
    """Its process lives on. Nobody shall wait for it, and a cancelled run is not begun again."""
    cancelled = attempt.trouble.done() and attempt.trouble.result() == "cancelled"
    error = f"its process {pid} does not end although it was killed: it hangs inside the kernel"
    verdict = Verdict.CANCELLED if cancelled else Verdict.FAILED
    return Ending(verdict, attempt.started, ended, UNKILLABLE, error)


def _mark(folder: Path) -> str:
    """What only the environments of tasks below this folder hold."""
    return f"TICKWISE_RESULT_FILE={folder}/"


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _judge(attempt: Attempt, status: int, ended: float) -> Ending:
    started = attempt.started
    if status == 0:
        return Ending(Verdict.OK, started, ended)
    tail = attempt.sink.tail.strip()
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"number {-status}"
        what, reason, verdict = f"ended by signal {name}", "signal", Verdict.FAILED
    else:
        what, reason, verdict = f"exit status {status}", "exit_code", Verdict.FAILED
        if status == EXIT_INVALID:
            reason, verdict = "invalid", Verdict.INVALID
    return Ending(verdict, started, ended, reason, f"{what}: {tail}" if tail else what)
