"""Starts tasks as other users, through a small process of root's (`task_starter_program`), and reaps them there.

A fork of the executor itself would copy the tables of all its memory: 1.3 ms of its processor time and as much of
the task's, more than a task of 2 ms can bear. `vfork`, which copies nothing, cannot change the user.

Blocking, for threads: one request at a time, 1 ms each; a start in the executor itself holds the interpreter as long.

    start ──► starter ──forks──► process ──executes──► task
      ▲          └── its number      └── report: it begins, or the error
      └── StarterLost, answer lost: the report tells whether the task began

A starter can be killed at any moment, by the kernel for want of memory or by a person. Its tasks go on: they are found
by their marks and watched through a descriptor, whose process cannot be confused with a later one of that number. Only
their exit status is lost. Invariant: `StarterLost` is raised only of a task that has not begun and never will.
"""

from __future__ import annotations

import array
import contextlib
import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import structlog

from tickwise.adapters.runner.process import task_starter_program
from tickwise.adapters.runner.process.task_groups import credentials
from tickwise.adapters.runner.process.task_starter_program import REPORT_BYTES, peak_bytes
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.process.tree import Reaped
from tickwise.ports.clock import Clock

STOP_TRIES: Final = 10
START_TRIES: Final = 3
"""The number of starters that one start is asked of, each at once after the loss of the one before."""
PAUSES_SECONDS: Final = (1.0, 5.0, 30.0)
"""Before the next start, after one that failed with so many starters."""
_DESCRIPTOR: Final = array.array("i")

logger = structlog.get_logger("tickwise.executor")


class StarterLost(OSError):
    """The task was not started: the process that starts tasks, or the one that was to become the task, was killed."""

    def __init__(self, detail: str = "the process that starts tasks as other users was killed") -> None:
        super().__init__(0, detail)
        self.detail = detail


class StartPauses:
    """The pauses of one executor after starters that kept ending; longer with each. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.detail = ""
        """The cause of the present pause."""

    def pause_left_seconds(self) -> float:
        """Seconds until a task may be started again; 0.0: now."""
        return max(0.0, self._until - self._clock.monotonic())

    def failed(self, detail: str) -> None:
        """Begin a pause: a start has failed with several starters."""
        pause = PAUSES_SECONDS[min(self._failures, len(PAUSES_SECONDS) - 1)]
        self._failures += 1
        self._until, self.detail = self._clock.monotonic() + pause, detail
        logger.error("task_starter_failing", pause_seconds=pause, detail=detail)

    def succeeded(self) -> None:
        """A task was started: the next pause is the shortest again."""
        self._failures, self._until = 0, 0.0


class Reaper(Protocol):
    """The process that tasks are children of."""

    def reap(self, pid: int) -> Reaped:
        """Take the exit status of an ended child. Raises `OSError` if it is lost."""
        ...


class StartedTask:
    """A task that is the child of a starter, or of a zygote."""

    def __init__(self, pid: int, descriptor: int, program: Reaper) -> None:
        """`descriptor`: that of its process (`pidfd_open`). Closed by `reap`."""
        self.pid = pid
        self._descriptor = descriptor
        self._program = program

    def under(self, program: Reaper) -> StartedTask:
        """This task, reaped by another one. Takes its descriptor over."""
        descriptor, self._descriptor = self._descriptor, -1
        return StartedTask(self.pid, descriptor, program)

    def watch(self) -> int:
        """Return a new descriptor that is readable when the process has ended."""
        return os.dup(self._descriptor)

    def holds_number(self) -> bool:
        """Check whether the process, alive or a zombie, is there, so that no other process can have its number. After
        the loss of its starter an ended process is reaped by the init process."""
        try:
            signal.pidfd_send_signal(self._descriptor, 0)
        except OSError as error:
            # We may lack the right to signal it. A look in another thread may still go on after `reap`.
            return error.errno not in (errno.ESRCH, errno.EBADF)
        return True

    def reap(self) -> Reaped | None:
        """Take its exit status after its end; None if it is lost with the starter."""
        descriptor, self._descriptor = self._descriptor, -1
        try:
            return self._program.reap(self.pid)
        except OSError:
            return _reaped_as_init(descriptor)
        finally:
            os.close(descriptor)


def _reaped_as_init(descriptor: int) -> Reaped | None:
    """Take the exit status where this process is the init process of its container, and inherits orphans."""
    try:
        found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
    except ChildProcessError:
        return None
    if found is None:
        return None
    status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    return Reaped(status)


class _Report(NamedTuple):
    """The report of a process that was to become a task."""

    pid: int = 0
    descriptor: int | None = None
    """Of the process, if it came so far that its program was to be executed next."""
    error: tuple[int, bytes] | None = None
    """The number of the error and a name, if its program could not be executed."""


def _read_report(reader: socket.socket) -> _Report:
    """Read until no process has the other end: the program is executed, or its process has ended."""
    report = _Report()
    space = socket.CMSG_SPACE(_DESCRIPTOR.itemsize)
    while True:
        content, ancillary, _, _ = reader.recvmsg(REPORT_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        if not content:
            return report
        what, *said = marshal.loads(content)
        if what == "begins":
            received = array.array("i")
            for _, _, data in ancillary:
                received.frombytes(data)
            report = report._replace(pid=said[0], descriptor=received[0])
        else:
            report = report._replace(error=(said[0], said[1]))


class TaskStarter:
    """The starter of one executor's tasks as other users. Its processes are started with the first tasks, and again if
    they were killed."""

    def __init__(self, programs: int, *, new_privileges: bool) -> None:
        """Make a starter that starts up to `programs` tasks at once. Without `new_privileges` no setuid program gives a
        task any."""
        self._lock = threading.Lock()
        self._stops = threading.Lock()
        self._options = [] if new_privileges else [task_starter_program.NO_NEW_PRIVILEGES]
        self._programs: deque[_Program | None] = deque([None] * programs)

    def start(
        self,
        arguments: Sequence[str],
        *,
        user: TaskUser,
        groups: Sequence[int],
        work: Path,
        environment: Mapping[str, str],
        number: int,
        output: int,
        stdin: int | None = None,
        descriptors: Mapping[int, int] | None = None,
        is_sandboxed: bool = False,
    ) -> StartedTask:
        """Start a task, with a new starter at once if one is lost. Raises `OSError` if it cannot be started, as
        `subprocess` does; `StarterLost` if the starters keep ending.

        `descriptors`: further ones of ours, by the numbers that they have there, above 100: the starter
        has none of its own there.
        `is_sandboxed`: it signals nothing outside, and reaches no abstract socket there, where the kernel can."""
        further = descriptors or {}
        request = (
            "start",
            list(arguments),
            str(work),
            dict(environment),
            user.uid,
            user.gid,
            list(groups),
            number,
            list(further),
            is_sandboxed,
        )
        given = [output, *([] if stdin is None else [stdin]), *further.values()]
        for tries_left in reversed(range(START_TRIES)):
            try:
                return self._start(request, given)
            except StarterLost:
                if tries_left == 0:
                    raise
        raise AssertionError("unreachable")

    def _start(self, request: tuple[Any, ...], descriptors: Sequence[int]) -> StartedTask:
        program = self._next()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = None
        with ours:
            with theirs, contextlib.suppress(StarterLost):
                _, child = program.ask(request, [theirs.fileno(), *descriptors])
            # Also if the starter is lost: its end of the report is open as long as something of it may yet begin.
            report = _read_report(ours)
        if report.error is None and report.descriptor is not None:
            return StartedTask(report.pid, report.descriptor, program)
        if report.descriptor is not None:
            os.close(report.descriptor)
        if child is not None:
            with contextlib.suppress(OSError):
                program.ask(("reap", child))
        if report.error is None:
            raise StarterLost
        number, name = report.error
        raise OSError(number, os.strerror(number), os.fsdecode(name))

    @contextlib.contextmanager
    def all_stopped(self, uid: int) -> Iterator[None]:
        """All processes of this user stand still meanwhile; those that did so before stay as they were.

        One at a time, or one would let go on what another one holds. Raises `OSError` if they cannot be stopped.
        """
        with self._stops:
            before = {name for name, one in credentials().items() if one.uid == uid and one.is_stopped}
            try:
                self._stop(uid)
                yield
            finally:
                for name, one in credentials().items():
                    if one.uid == uid and name not in before:
                        with contextlib.suppress(OSError):  # it has ended
                            os.kill(int(name), signal.SIGCONT)

    def _stop(self, uid: int) -> None:
        """The process that stops them is theirs for a moment, and they may kill it."""
        for tries_left in reversed(range(STOP_TRIES)):
            try:
                self._next().ask(("stop", uid))
            except OSError:
                if tries_left == 0:
                    raise
            else:
                return

    def close(self) -> None:
        """Close the starter's processes. No task may be left that one of them would have to reap."""
        with self._lock:
            programs = [program for program in self._programs if program is not None]
            self._programs = deque([None])
        for program in programs:
            program.close()

    def _next(self) -> _Program:
        """Each in turn. Raises `StarterLost` if it cannot be started."""
        with self._lock:
            program = self._programs[0]
            if program is None or program.has_ended:
                try:
                    program = self._programs[0] = _Program(self._options)
                except OSError as error:
                    detail = f"the process that starts tasks as other users cannot be started: {error.strerror}"
                    raise StarterLost(detail) from error
            self._programs.rotate(1)
            return program


class _Program:
    """One process of the program."""

    def __init__(self, options: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair()
        self.has_ended = False
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", task_starter_program.__file__, str(theirs.fileno()), *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd="/",
                env={"LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )

    def ask(self, request: tuple[Any, ...], descriptors: Sequence[int] = ()) -> tuple[Any, ...]:
        """Its answer. Raises `OSError` for what it could not do, `StarterLost` if it has ended."""
        text = marshal.dumps(request)
        with self._lock:
            if self.has_ended:
                raise StarterLost
            answer = self._answer(len(text).to_bytes(4, "big") + text, descriptors)
        if answer[0] != "error":
            return answer
        _, number, name = answer
        raise OSError(number, os.strerror(number), os.fsdecode(name))

    def reap(self, pid: int) -> Reaped:
        """See `Reaper`."""
        _, status, cpu_seconds, peak, starters_peak = self.ask(("reap", pid))
        return Reaped(status, cpu_seconds, peak_bytes(peak, starters_peak))

    def _answer(self, message: bytes, descriptors: Sequence[int]) -> tuple[Any, ...]:
        try:
            if descriptors:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                message = message[self._socket.sendmsg([message], rights) :]
            self._socket.sendall(message)
            found: tuple[Any, ...] = marshal.loads(self._read(int.from_bytes(self._read(4), "big")))
        except OSError:
            self._lose()
            raise StarterLost from None
        return found

    def _read(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            piece = self._socket.recv(length - len(found))
            if not piece:
                raise ConnectionResetError
            found += piece
        return found

    def _lose(self) -> None:
        self.has_ended = True
        self._socket.close()
        self._process.kill()
        status = self._process.wait()
        logger.warning("task_starter_lost", pid=self._process.pid, status=status)

    def close(self) -> None:
        """Close the connection, at whose end the process ends, and wait for the process."""
        with self._lock:
            self.has_ended = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        self._process.wait()
