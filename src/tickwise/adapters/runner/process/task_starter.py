"""Starts tasks as other users, through a small process of root's (`task_starter_program`), and reaps them there.

A fork of the executor itself would copy the tables of all its memory: 1.3 ms of its processor time and as much of
the task's, more than a task of 2 ms can bear. `vfork`, which copies nothing, cannot change the user.

Blocking, for threads: one request at a time, 1 ms each; a start in the executor itself holds the interpreter as long.
"""

from __future__ import annotations

import array
import contextlib
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
from typing import Any, Final

from tickwise.adapters.runner.process import task_starter_program
from tickwise.adapters.runner.process.task_groups import credentials
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.process.tree import Reaped

STOP_TRIES: Final = 10


class StarterLost(OSError):
    """The process that starts tasks has ended: the task was not started, or its start is unknown."""

    def __init__(self) -> None:
        super().__init__(0, "the process that starts tasks as other users has ended")


class StartedTask:
    """A task that is the child of a starter."""

    def __init__(self, pid: int, program: _Program) -> None:
        self.pid = pid
        self._program = program

    def reap(self) -> Reaped | None:
        """Take its exit status after its end; None if the starter is gone, and the process with it."""
        try:
            _, status, cpu_seconds = self._program.ask(("reap", self.pid))
        except OSError:
            return None
        return Reaped(status, cpu_seconds)


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
    ) -> StartedTask:
        """Raises `OSError` if it cannot be started, as `subprocess` does."""
        program = self._next()
        request = (
            "start",
            list(arguments),
            str(work),
            dict(environment),
            user.uid,
            user.gid,
            list(groups),
            number,
        )
        _, pid = program.ask(request, [output] if stdin is None else [output, stdin])
        return StartedTask(pid, program)

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
        """Each in turn."""
        with self._lock:
            program = self._programs[0]
            if program is None or program.has_ended:
                program = self._programs[0] = _Program(self._options)
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
            answer = self._answer(len(text).to_bytes(4, "big") + text, descriptors)
        if answer[0] != "error":
            return answer
        _, number, name = answer
        raise OSError(number, os.strerror(number), os.fsdecode(name))

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
        self._process.wait()

    def close(self) -> None:
        """Close the connection, at whose end the process ends, and wait for the process."""
        with self._lock:
            self.has_ended = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        self._process.wait()
