"""`tickwise up` and roles that are forked from an interpreter that has read the product already: a start takes 0.1 s of
a core in place of 1.1 s, and the tests start hundreds.

    process of pytest ──(arguments, environment, log)──► forker ──fork, fork──► the role
           ▲                                                                     │
           └── its parent, as soon as the process between the two has ended ◄────┘

The role is a process of its own with a session, an environment, an output and a command line of its own; it runs
`python -m tickwise` from there on. A variable that the start of Python depends on, such as a library to be loaded
first, makes it begin at the beginning (`may_fork`). How a start from the beginning goes is shown by the tests of the
command line, of the imports, and of what a service manager starts.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Final

ROLES: Final = frozenset({"api", "executor", "recorder", "scheduler", "up"})
OURS: Final = ("TICKWISE_", "CHAOS_", "PYTEST_")
"""The beginnings of names of variables that nothing reads before the product runs; pytest writes one for each test."""
READ: Final = (
    "uvloop",
    "tickwise.cli.main",
    "tickwise.wiring.processes",
    "tickwise.wiring.api_port",
    "tickwise.wiring.pages",
    "tickwise.wiring.serving",
    "tickwise.adapters.store.postgres",
)
ROOT: Final = Path(__file__).resolve().parents[2]
MESSAGE_BYTES: Final = 1 << 17
SET_PARENT_DEATH_SIGNAL: Final = 1
SET_CHILD_SUBREAPER: Final = 36
COMMAND_LINE_BYTES: Final = 2_000
"""The room for the command line of what is forked."""
_ARGUMENTS: Final = slice(45, 47)
"""Of the fields of `/proc/self/stat` after the name: where the arguments begin and end in memory."""


def may_fork(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Check whether a process with this environment would start as the forker did."""
    if not sys.platform.startswith("linux") or arguments[0] not in ROLES:
        return False
    known = _forker().environment
    differing = {name for name in {*known, *environment} if known.get(name) != environment.get(name)}
    # The folder of the repository is the first on the path of the forker, with and without that variable.
    is_usual = environment.get("PYTHONPATH") in {None, known["PYTHONPATH"]}
    return is_usual and all(name.startswith(OURS) for name in differing - {"PYTHONPATH"})


def fork(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes]) -> Forked:
    """`python -m tickwise ARGUMENTS` in a session of its own, which is killed when this process ends."""
    return _forker().fork(arguments, environment, output)


def _control(option: int, value: int) -> None:
    """`prctl`."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


class _Forker:
    """The interpreter that is forked, as this process sees it."""

    def __init__(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("_TICKWISE", *OURS))}
        kept.pop("COLUMNS", None)
        self.environment = {**kept, "TZ": "UTC", "PYTHONPATH": str(ROOT)}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.roles", str(theirs.fileno()), " " * COMMAND_LINE_BYTES],
                pass_fds=[theirs.fileno()], env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait(60)

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes]) -> Forked:
        """See the function."""
        request = json.dumps([[*arguments], {**environment}, os.getpid()]).encode()
        _control(SET_CHILD_SUBREAPER, 1)  # for this moment alone: other orphans are none of ours
        try:
            socket.send_fds(self._socket, [request], [output.fileno()])
            pid = int(self._socket.recv(MESSAGE_BYTES) or b"0")
        except BaseException:
            _forker.cache_clear()  # its answer may come yet, and would be taken for that to the next request
            self._end()
            raise
        finally:
            _control(SET_CHILD_SUBREAPER, 0)
        if not pid:
            raise AssertionError(f"the forker has ended with {self._process.wait(10)}")
        return Forked(pid)


class Forked:
    """A child that was forked; what `subprocess.Popen` says of one and does to one, in the same words."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        if self.returncode is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises `subprocess.TimeoutExpired`."""
        if self.poll() is None:
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], timeout)
            finally:
                os.close(ended)
        if (found := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return found

    def send_signal(self, number: int) -> None:
        """If it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


@cache
def _forker() -> _Forker:
    return _Forker()


# ------------------------------------------------------------------ in the forker


def _serve(own: socket.socket) -> list[str] | None:
    """Fork for each request. Returns in each process that was forked, with its arguments; None: the process that asks
    is gone."""
    while True:
        request, files, _, _ = socket.recv_fds(own, MESSAGE_BYTES, 1)
        if not request:
            return None
        arguments: list[str]
        arguments, environment, parent = json.loads(request)
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                _become(own, environment, parent, files[0])
                _say([sys.executable, "-m", "tickwise", *arguments])
                return arguments
            os._exit(0)
        os.waitpid(between, 0)
        os.close(files[0])


def _become(own: socket.socket, environment: Mapping[str, str], parent: int, output: int) -> None:
    """Be a child of the process that asked, as if that had started this one."""
    while os.getppid() != parent:
        time.sleep(0.0005)  # noqa: TID251 - nothing tells a process that it has another parent
    _control(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.setsid()
    own.send(str(os.getpid()).encode())
    own.close()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


def _say(words: Sequence[str]) -> None:
    """Let this be the command line that others see: `tickwise down` looks at it."""
    with open("/proc/self/stat", "rb") as file:
        begin, end = map(int, file.read().rpartition(b")")[2].split()[_ARGUMENTS])
    text = b"\0".join(os.fsencode(word) for word in words)
    ctypes.memmove(begin, text[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)


def _main() -> None:
    own = socket.socket(fileno=int(sys.argv[1]))
    for name in READ:
        importlib.import_module(name)
    gc.freeze()
    arguments = _serve(own)
    if arguments is not None:
        sys.argv[:] = ["tickwise", *arguments]
        runpy.run_module("tickwise", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
