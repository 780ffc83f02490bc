"""The networks of one runner's tasks: that of an attempt whose job has a list is open around it, and nothing otherwise.

around ──open──► the attempt is carried out ──close──► its ending
                      └── `of`: what its sandbox is started with
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.faults import unconfined
from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.process.sandbox.network import namespace_program
from tickwise.adapters.runner.process.sandbox.network.gate import (
    ENVIRONMENT,
    FILES,
    NetworkGate,
    NetworkOpening,
    NetworkTraffic,
    command,
)
from tickwise.adapters.runner.process.sandbox.plan import Mount
from tickwise.adapters.runner.process.task_users import TRIAL_SECONDS, TaskUser
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.observing.usage import NOT_MEASURED
from tickwise.ports.runner import Assignment, Ending

PREFIX: Final = "network-"
"""Of the files of ours in the executor's folder."""
PUBLIC: Final = 0o644
"""The users of tasks read them."""


class TaskNetwork(NamedTuple):
    """The surroundings of a sandbox with a list, for its start."""

    descriptor: int
    """The process inherits it."""
    program: Sequence[str]
    """The beginning of the command line; the number of the descriptor there comes next, then the sandbox's."""
    environment: Mapping[str, str]
    """Of the program that makes the namespace; nothing of it reaches the sandbox."""
    mounts: Sequence[Mount]
    variables: Mapping[str, str]
    """Of the task, unless it sets them itself."""


class TaskNetworks:
    """The networks of one runner. For one event loop, but for `of`."""

    def __init__(self, allow: Sequence[str]) -> None:
        """`allow`: the setting `http_allow`."""
        self._gate = NetworkGate(allow)
        self._open: dict[tuple[str, int], NetworkOpening] = {}
        self._folder = Path()
        self._python: Interpreter | None = None
        self._user: TaskUser | None = None
        self._lack: str | None = None
        self._is_tried = False
        self._trying = threading.Lock()
        """The first runs may begin at one moment."""

    def be_ready(self, folder: Path, python: Interpreter, user: TaskUser | None) -> None:
        """`folder`: the executor's own, which the users of tasks can pass to; `python`: one that they can run; `user`:
        one of them, None if that is the executor's own."""
        self._folder, self._python, self._user = folder, python, user

    async def close(self) -> None:
        """End the proxy. No attempt goes on."""
        await self._gate.stop()

    async def around(self, attempt: Attempt, perform: Callable[[], Awaitable[Ending]]) -> Ending:
        """Carry an attempt out, with the network of its job's list if it has one."""
        assignment, now = attempt.assignment, attempt.started
        allowed = assignment.confinement.allow_network
        if not isinstance(allowed, tuple):
            return await perform()
        key = _key(assignment)
        try:
            lack = await asyncio.to_thread(self._reason_against)
            if lack is not None:
                return unconfined(f"this executor cannot hold a sandbox to a list of destinations: {lack}", now)
            opening = await self._gate.open(
                f"{key[0]}-{key[1]}", allowed, lambda line: _note(attempt, line), namespace=assignment.namespace
            )
        except OSError as error:
            return unconfined(f"the proxy for its network cannot be started: {error.strerror or error}", now)
        self._open[key] = opening
        traffic: NetworkTraffic | None = None
        try:
            ending = await perform()
        finally:
            del self._open[key]
            traffic = await self._gate.close(opening)
        return ending if traffic is None else _with_traffic(ending, traffic)

    def of(self, assignment: Assignment) -> TaskNetwork | None:
        """The network that is open around an attempt; None: its job has no list."""
        opening = self._open.get(_key(assignment))
        if opening is None:
            return None
        assert self._python is not None
        program = command(self._python.program, self._file(namespace_program.__file__))
        mounts = [Mount(str(self._file(path)), path) for path in FILES]
        return TaskNetwork(opening.descriptor, program, self._python.environment, mounts, ENVIRONMENT)

    def _reason_against(self) -> str | None:
        """Lay the files of ours, and try once whether the users of tasks can make such a namespace. Blocking; in any
        thread. Raises `OSError`."""
        with self._trying:
            return self._tried()

    def _tried(self) -> str | None:
        self._lay_files()
        if not self._is_tried:
            assert self._python is not None
            program = command(self._python.program, self._file(namespace_program.__file__))
            further = {} if self._user is None else self._user.arguments()
            done = subprocess.run(
                [*program, namespace_program.TRIAL],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=dict(self._python.environment),
                cwd="/",
                timeout=TRIAL_SECONDS,
                check=False,
                **further,
            )
            self._lack = done.stderr.decode(errors="replace").strip() or None if done.returncode else None
            self._is_tried = True
        return self._lack

    def _file(self, path: str) -> Path:
        return self._folder / f"{PREFIX}{Path(path).name}"

    def _lay_files(self) -> None:
        program = self._file(namespace_program.__file__)
        if program.exists():
            return
        for path, content in FILES.items():
            self._file(path).write_bytes(content)
            self._file(path).chmod(PUBLIC)
        made = program.with_name(f"{program.name}.new")
        shutil.copyfile(namespace_program.__file__, made)
        made.chmod(PUBLIC)
        made.rename(program)


def _with_traffic(ending: Ending, traffic: NetworkTraffic) -> Ending:
    """With the bytes of its network on record."""
    carried = traffic.sent_bytes + traffic.received_bytes
    return ending._replace(usage=(ending.usage or NOT_MEASURED)._replace(network_bytes=carried))


def _key(assignment: Assignment) -> tuple[str, int]:
    return str(assignment.run_id), assignment.token


def _note(attempt: Attempt, line: str) -> None:
    """A line of ours in the log of an attempt, on a line of its own."""
    attempt.sink.write_own(f"network: {line}")
