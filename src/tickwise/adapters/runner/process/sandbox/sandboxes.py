"""The sandboxes of one runner: what surrounds a task that is to be started.

    Start (as a plain process) ──entered──► Start of bubblewrap, whose process 2 becomes the task

The starters give bubblewrap two descriptors, the file of options in memory and the filter. Neither is ever a file that
a task could reach, so no task can change how another one is confined.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.process.sandbox.bubblewrap import OWN_PROCESSES, SIGNAL_STATUS, command, options
from tickwise.adapters.runner.process.sandbox.etc_folder import EtcFolders, Person
from tickwise.adapters.runner.process.sandbox.interpreter_mounts import interpreter_mounts
from tickwise.adapters.runner.process.sandbox.levels import HOME, SandboxLevel, sandbox_level
from tickwise.adapters.runner.process.sandbox.network.namespace_program import EXIT_NOT_STARTED, NOT_STARTED
from tickwise.adapters.runner.process.sandbox.network.task_networks import TaskNetwork
from tickwise.adapters.runner.process.sandbox.plan import Mount, SandboxPlan, SandboxSizes
from tickwise.adapters.runner.process.sandbox.scoped_thread import scoped
from tickwise.adapters.runner.process.sandbox.syscalls import seccomp_filter
from tickwise.adapters.runner.process.start import Start
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.process.tree import Reaped
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import Misconfigured
from tickwise.domain.rules.confinement import SANDBOX_LABEL, Isolation
from tickwise.ports.runner import Assignment, TaskLimits

FIRST_DESCRIPTOR: Final = 200
"""Of those that a starter gives: above all that it has itself."""
PLAIN_REFUSED: Final = (
    "this executor holds the token of a cluster, which a plain process could read: give the job isolation sandbox or "
    "container, let an executor without a cluster serve its queue, or set TICKWISE_KUBERNETES_PLAIN_TASKS to allowed"
)
"""The lack of an executor whose tasks are pods."""
NO_SHOW: Final = ("/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/var/run")
"""Neither these nor what is below them is ever somebody's `task.directory` in a sandbox."""
NO_SHOW_ITSELF: Final = ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/usr", "/var", "/var/lib", "/var/log")
"""As above, but what is below them may be."""
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Of the executor's variables, which tasks have too."""
NOT_SHOWN: Final = (
    "a sandbox does not show this folder; name one that belongs to the job, or let the job run with isolation process"
)
SETTING: Final = "TICKWISE_ISOLATION"
_SET_UP: Final = "bwrap: "


class SandboxNeeds(NamedTuple):
    """The needs of one task in its sandbox."""

    assignment: Assignment
    folder: Path
    """The attempt's own."""
    python: Interpreter | None
    """Of a python task."""
    network: TaskNetwork | None = None
    """Of a job with a list of destinations."""


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """The sandboxes of one runner, or why there are none. For threads."""

    level: SandboxLevel
    filter_file: Path
    etc: EtcFolders
    private: tuple[Path, ...] = ()
    """Folders of the executor: no mount shows one of them, nor a folder that one of them is in."""
    sizes: SandboxSizes = field(default=SandboxSizes())
    refuses_plain: bool = False
    """No plain process may run beside the credentials of this executor."""

    @property
    def labels(self) -> Sequence[str]:
        """The labels that they let the runner offer."""
        return (SANDBOX_LABEL,) if self.level.is_there else ()

    def refusal(self, assignment: Assignment) -> str | None:
        """The reason that this task cannot be confined here as its job says; None: it can."""
        confinement = assignment.confinement
        if confinement.isolation is not Isolation.SANDBOX:
            return PLAIN_REFUSED if self.refuses_plain else None
        if not self.level.is_there:
            return f"this executor gives no sandbox: {self.level.lack}; {self.level.cure}"
        return None

    @contextmanager
    def entered(self, start: Start, needs: SandboxNeeds) -> Iterator[Start]:
        """The start of the same task, in its sandbox if it has one. It must be started before this ends.

        Raises `OSError` with the name of the file for a program that its sandbox would not have, and for a folder that
        no sandbox shows."""
        if needs.assignment.confinement.isolation is not Isolation.SANDBOX:
            yield start
            return
        plan = self._plan(start, needs)
        if start.limits.disk_bytes is not None:
            most = plan.sizes._replace(tmp=min(plan.sizes.tmp, start.limits.disk_bytes))
            plan = replace(plan, sizes=most)
        _must_be_shown(start, plan)
        network = needs.network
        environment = {**start.environment, "HOME": plan.home, **_said(needs.assignment, start, "HOME")}
        if network is not None:
            environment |= {**network.variables, **_said(needs.assignment, start, *network.variables)}
        with ExitStack() as opened:
            filter_file = os.open(self.filter_file, os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, filter_file)
            options_file = os.memfd_create("options", os.MFD_CLOEXEC)
            opened.callback(os.close, options_file)
            ours = [filter_file, options_file, *([] if network is None else [network.descriptor])]
            theirs = ours if start.starter is None else list(range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + len(ours)))
            os.write(options_file, options(plan, environment, theirs[0]))
            os.lseek(options_file, 0, os.SEEK_SET)
            around = command(self.level.program, theirs[1], start.arguments, processes=start.limits.processes)
            yield replace(
                start,
                arguments=around if network is None else [*network.program, str(theirs[2]), *around],
                environment={} if network is None else network.environment,
                limits=with_own(start.limits),
                descriptors=dict(zip(theirs, ours, strict=True)),
                is_sandboxed=True,
                opened_by=scoped,
                warm=None,
            )

    def _plan(self, start: Start, needs: SandboxNeeds) -> SandboxPlan:
        task, folder = needs.assignment.task, str(needs.folder)
        found = [Mount(folder, folder, is_writable=True)]
        home = self._own_home(start.user)
        if home is not None:
            found.append(Mount(home, home, is_writable=True))
        directory = task.get("directory")
        if directory is not None:
            self._check_directory(directory)
            found.append(Mount(os.path.realpath(directory), directory, is_writable=True))
        if needs.python is not None:
            found += self.python_mounts(needs.python)
            found += [
                Mount(each, each) for each in (needs.python.launcher, needs.python.gate) if each in start.arguments
            ]
        if needs.assignment.confinement.allow_network is not False:
            found += [
                Mount(path, path)
                for name in CERTIFICATES
                if (path := start.environment.get(name, "")).startswith("/") and os.path.exists(path)
            ]
        if needs.network is not None:
            found += needs.network.mounts
        # An inner one after the one that it lies in; of equals the writable one last.
        found.sort(key=lambda mount: (len(mount.target), mount.is_writable))
        return SandboxPlan(
            work=str(start.work),
            home=home or HOME,
            etc=self.etc.of(person_of(start.user)._replace(home=home or HOME)),
            mounts=tuple(found),
            # With a list it shares that of the program around it, which is one of its own.
            shares_network=needs.assignment.confinement.allow_network is True or needs.network is not None,
            sizes=self.sizes,
        )

    def python_mounts(self, python: Interpreter) -> list[Mount]:
        """The mounts of an interpreter, without any that would show a folder of the executor. Raises
        `FileNotFoundError` if it is not there."""
        if "/" not in python.program:
            return []
        if not os.path.exists(python.program):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), python.program)
        libraries = python.environment.get("LD_LIBRARY_PATH")
        mounts = interpreter_mounts(python.program, libraries, is_built=python.is_built)
        return [mount for mount in mounts if not self._holds_private(mount.source)]

    def _check_directory(self, directory: str) -> None:
        """Raises `PermissionError` for a `task.directory` that would show more than a job's own files."""
        for path in {os.path.normpath(directory), os.path.realpath(directory)}:
            if (
                path in NO_SHOW_ITSELF
                or any(_is_within(path, each) for each in NO_SHOW)
                or self._holds_private(path)
                or any(_is_within(path, str(each)) for each in self.private)
            ):
                raise PermissionError(errno.EACCES, NOT_SHOWN, directory)

    def _own_home(self, user: TaskUser | None) -> str | None:
        """The home of a user that the job names, which its sandbox shows; None: one in memory, as for all others."""
        if user is None or not user.is_named or user.home is None:
            return None
        home = str(user.home)
        try:
            self._check_directory(home)
            return home if os.stat(home).st_uid == user.uid else None
        except OSError:  # it is not there, or holds more than a user's own files
            return None

    def _holds_private(self, path: str) -> bool:
        return any(_is_within(str(each), path) for each in self.private)


def open_sandboxes(settings: RunnerSettings, folder: Path, user: TaskUser | None, private: Sequence[Path]) -> Sandboxes:
    """Look whether this host gives sandboxes. `folder`: the executor's own, which the users of tasks can pass to.
    Blocking: a tenth of a second. Raises `Misconfigured` if the setting `isolation` requires what is not there,
    `OSError`."""
    said = settings.isolation
    level = SandboxLevel(lack=f"{SETTING} is process", cure=f"unset {SETTING}")
    if said != Isolation.PROCESS:
        level = sandbox_level(user)
    if said == Isolation.SANDBOX and not level.is_there:
        raise Misconfigured(f"{SETTING} is sandbox, and this host gives none: {level.lack}. To mend it: {level.cure}")
    filter_file = folder / "seccomp"
    if level.is_there:
        filter_file.write_bytes(seccomp_filter())
    real = tuple(dict.fromkeys(Path(os.path.realpath(each)) for each in private))
    refuses_plain = settings.containers is not None and settings.containers.refuses_plain_tasks
    return Sandboxes(level, filter_file, EtcFolders(folder), real, refuses_plain=refuses_plain)


def person_of(user: TaskUser | None) -> Person:
    """The user of a task, as its sandbox knows it."""
    if user is None:
        return Person(os.geteuid(), os.getegid(), "task" if os.geteuid() else "root", HOME)
    return Person(user.uid, user.gid, user.name, HOME)


def with_own(limits: TaskLimits) -> TaskLimits:
    """The limits of a task with the processes of its sandbox."""
    return limits if limits.processes is None else limits._replace(processes=limits.processes + OWN_PROCESSES)


def limits_around(assignment: Assignment) -> TaskLimits:
    """The limits that all processes of a task are held to."""
    is_sandboxed = assignment.confinement.isolation is Isolation.SANDBOX
    return with_own(assignment.limits) if is_sandboxed else assignment.limits


def reaped_within(assignment: Assignment, reaped: Reaped | None) -> Reaped | None:
    """The end of a task by that of its sandbox, which says of a signal what a shell says: 128 and its number. A command
    of a shell says the same of its own programs, as it does outside."""
    if reaped is None or assignment.confinement.isolation is not Isolation.SANDBOX or "command" in assignment.task:
        return reaped
    number = reaped.status - SIGNAL_STATUS
    return reaped._replace(status=-number) if 0 < number < 65 else reaped


def set_up_error(assignment: Assignment, status: int, tail: str) -> OSError | None:
    """The error of a sandbox that could not be built, so that its task never began; None: it was built. (A task that
    says these words itself fails with them, as it wanted to.)"""
    if assignment.confinement.isolation is not Isolation.SANDBOX:
        return None
    if (
        status == EXIT_NOT_STARTED
        and tail.startswith(NOT_STARTED)
        and isinstance(assignment.confinement.allow_network, tuple)
    ):
        return OSError(errno.EIO, tail, "bwrap")
    if status != 1:
        return None
    if not tail.startswith(_SET_UP) or "\n" in tail:
        return None
    said = tail.removeprefix(_SET_UP)
    for named in (assignment.task.get("directory"), assignment.task.get("python")):
        if named is not None and "find source path" in said:
            path = said.partition("find source path ")[2].rpartition(":")[0]
            if path and (_is_within(named, path) or _is_within(os.path.realpath(named), path)):
                return PermissionError(errno.EACCES, os.strerror(errno.EACCES), named)
    return OSError(errno.EIO, f"its sandbox cannot be built: {said}", "bwrap")


def _must_be_shown(start: Start, plan: SandboxPlan) -> None:
    """Raises `FileNotFoundError` for a program that is not there, or not in the sandbox."""
    program = start.arguments[0]
    found = program
    if "/" not in program:
        found = shutil.which(program, path=start.environment.get("PATH", os.defpath)) or ""
    path = os.path.join(start.work, found)
    if not found or not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if not plan.shows(path):
        why = "it is on this machine, and not in a sandbox, which has /usr, the job's own folders and its interpreter"
        raise FileNotFoundError(errno.ENOENT, why, program)


def _said(assignment: Assignment, start: Start, *names: str) -> dict[str, str]:
    """Those of these variables that the task sets itself."""
    said = assignment.task.get("env", {})
    return {name: start.environment[name] for name in names if name in said}


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith("/" if folder == "/" else f"{folder}/")
