"""One warmed interpreter that scripts are forked from (`zygote_program`), as the executor sees it.

    fork(output) ──► WarmChild: waits, its number is known ──begin(request)──► it runs, or `OSError`
                        └── abandon: it ends, and nothing has begun

A zygote may be killed, stopped or slow at any moment. Invariant: `ZygoteLost` is raised only of a script that has not
begun and never will, so it may be started cold. A task goes on when its zygote is gone; its exit status is then lost.

Blocking, for threads.
"""

from __future__ import annotations

import array
import contextlib
import errno
import marshal
import math
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.task_starter import StartedTask
from tickwise.adapters.runner.process.tree import Reaped, Tree, stats
from tickwise.adapters.runner.process.warm.zygote_program import FORK, JOIN, NUMBER, READY, REAP, REAPED, REPORT

READY_SECONDS: Final = 10.0
"""For an interpreter to begin and to import: 0.1 s on an idle machine."""
FORK_SECONDS: Final = 2.0
"""For the number of a child. A zygote that takes longer is stopped or starved: the script starts cold."""
BEGIN_SECONDS: Final = 10.0
"""For a child that has its request. Then it counts as begun, for it may have."""
REAP_SECONDS: Final = 5.0
END_SECONDS: Final = 1.0
MAX_PACKET: Final = 64 << 10
MARSHAL_VERSION: Final = 2
"""Every Python since 2.5 reads it."""
MACHINE_FULL: Final = frozenset({errno.EAGAIN, errno.ENOMEM})
"""Errors of a fork that a cold start would meet too."""


class ZygoteLost(Exception):
    """The script has not begun, and never will by this zygote."""


class Identity(NamedTuple):
    """The user that a child becomes."""

    uid: int
    gid: int
    groups: Sequence[int]


class WarmRequest(NamedTuple):
    """The task that a child becomes."""

    number: int
    identity: Identity | None
    """None: it stays the user of its zygote."""
    work: str
    environment: Mapping[str, str]
    arguments: Sequence[str]
    """The command line of a cold start."""
    script: str
    symptoms: str
    """The file that takes the names of an exception; empty: none does."""
    prefix: str = ""
    """The virtual environment that it goes on in; empty: it stays in that of its zygote."""

    def content(self) -> bytes:
        """The bytes that a child reads."""
        variables = {os.fsencode(name): os.fsencode(value) for name, value in self.environment.items()}
        identity = None if self.identity is None else (*self.identity[:2], tuple(self.identity.groups))
        names = [os.fsencode(one) for one in (self.work, self.script, self.symptoms, self.prefix)]
        arguments = [os.fsencode(one) for one in self.arguments]
        text = marshal.dumps((self.number, identity, variables, arguments, *names), MARSHAL_VERSION)
        return NUMBER.pack(len(text)) + text


class Zygote:
    """One process of the program."""

    def __init__(self, tree: Tree, output: int, control: socket.socket) -> None:
        """Wait until it is ready. `output`: our end of the pipe of its output; `control`: of its socket. Raises
        `ZygoteLost`, with its last words, if it does not become so."""
        self._tree = tree
        self._output = output
        self._control = control
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self.is_lost = False
        """It forks no more."""
        self._is_deaf = False
        """It answers no more."""
        self.forks = 0
        self.tasks = 0
        """Of its children that were not reaped yet, also those on their way."""
        control.settimeout(READY_SECONDS)
        try:
            said = control.recv(MAX_PACKET)
        except OSError as error:
            said = str(error).encode()
        name, *self.path = (os.fsdecode(piece) for piece in said.removeprefix(READY).split(b"\0"))
        """`path`: the folders that it imports from."""
        if not said.startswith(READY) or name != "cpython":
            raise ZygoteLost(f"{self._end()} {name}"[-500:].strip())
        control.settimeout(REAP_SECONDS)

    @property
    def forks_no_more(self) -> bool:
        """It is lost, or has ended."""
        process = self._tree.process
        return self.is_lost or (isinstance(process, subprocess.Popen) and process.poll() is not None)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._tree.leader

    @property
    def number(self) -> int:
        """The limit that only it has, and its children until they have their request."""
        return self._tree.number

    def join(self) -> int:
        """Let another process ask it: the descriptor of the socket for that. Raises `OSError` if it takes none now."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
            try:
                self._control.sendmsg([JOIN], rights, socket.MSG_DONTWAIT)
            except OSError:
                ours.close()
                raise
        return ours.detach()

    def fork(self, output: int) -> WarmChild:
        """Fork a child whose stdout and stderr is `output`; it waits. Raises `ZygoteLost`, and `OSError` where the
        machine has no room for another process."""
        ours, theirs = socket.socketpair()
        self.count(1)
        try:
            with theirs:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno(), output]))]
                self._control.sendmsg([FORK], rights, socket.MSG_DONTWAIT)
            ours.settimeout(FORK_SECONDS)
            said = ours.recv(REPORT.size)
            number = REPORT.unpack(said)[0] if len(said) == REPORT.size else 0
            if 0 < -number in MACHINE_FULL:
                raise OSError(-number, os.strerror(-number))
            self._check(number)
            return WarmChild(StartedTask(number, os.pidfd_open(number), self), ours)
        except OSError as error:
            ours.close()
            self.count(-1)
            if error.errno in MACHINE_FULL and not isinstance(error, BlockingIOError):
                raise
            self.is_lost = True
            raise ZygoteLost(str(error)) from error

    def count(self, more: int) -> None:
        """Note that children came, or went if `more` is negative."""
        with self._counting:
            self.tasks += more
            self.forks += more > 0

    def _check(self, number: int) -> None:
        """Raises `ProcessLookupError` for a number that is none of its children's."""
        found = stats([str(number)]).get(number)
        if found is None or found.parent != self.pid:
            raise ProcessLookupError(errno.ESRCH, "it named no child of its own")

    def reap(self, pid: int) -> Reaped:
        """Take the exit status of an ended child, once. Raises `OSError` if it is lost."""
        self.count(-1)
        with self._lock:
            if self._is_deaf:
                raise ProcessLookupError(errno.ESRCH, "")
            try:
                failure, status, seconds, peak = self._asked(pid)
            except OSError:
                self.is_lost = self._is_deaf = True
                raise
        if failure or not (-128 < status < 256 and math.isfinite(seconds) and seconds >= 0.0 <= peak):
            raise ProcessLookupError(failure or errno.EBADMSG, "")
        return Reaped(status, seconds, peak * 1024)

    def _asked(self, pid: int) -> tuple[int, int, float, int]:
        self._control.send(REAP + NUMBER.pack(pid))
        try:
            said = self._control.recv(MAX_PACKET)
        except TimeoutError:
            # Somebody may have stopped it, and it holds what the outcome of a task depends on.
            self._tree.process.send_signal(signal.SIGCONT)  # type: ignore[union-attr]  # a zygote is our own child
            said = self._control.recv(MAX_PACKET)
        if len(said) != REAPED.size:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        found: tuple[int, int, float, int] = REAPED.unpack(said)
        return found

    def close(self) -> None:
        """End it. None of its children may be left."""
        with self._lock:
            self.is_lost = self._is_deaf = True
        self._end()

    def _end(self) -> str:
        """Its last words."""
        self._control.close()
        process = self._tree.process
        assert isinstance(process, subprocess.Popen)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        said = b""
        with contextlib.suppress(BlockingIOError):
            said = os.read(self._output, MAX_PACKET)
        os.close(self._output)
        return said.decode(errors="replace")


class WarmChild:
    """A child that waits for its request."""

    def __init__(self, task: StartedTask, report: socket.socket) -> None:
        self.task = task
        self._report = report

    def begin(self, request: WarmRequest) -> None:
        """Let it become the task; it may have, when this returns. Raises `OSError` if it cannot, `ZygoteLost` if it has
        ended before it had its request."""
        with self._report as report:
            report.settimeout(BEGIN_SECONDS)
            try:
                report.sendall(request.content())
            except TimeoutError:
                raise ZygoteLost("a child does not take its request") from None
            except OSError as error:
                raise ZygoteLost(str(error)) from error
            try:
                said = report.recv(REPORT.size)
            except OSError:
                return  # it is slow: it is watched like any task
        if len(said) == REPORT.size:
            number = -REPORT.unpack(said)[0]
            raise OSError(number, os.strerror(number), request.work)

    def abandon(self) -> None:
        """Let it end: nothing of the task has begun."""
        self._report.close()
        with contextlib.suppress(OSError):
            os.kill(self.task.pid, signal.SIGKILL)
        self.task.reap()
