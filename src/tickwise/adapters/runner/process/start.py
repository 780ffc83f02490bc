"""Starts the process of a task, in a session and a folder of its own.

An ordinary task is forked and marked, no more. One with limits starts behind a gate, so that nothing of it can be
ahead of them: a shell that waits for a word, is put into its control group, gets its walls, and becomes the task. One
of another user is forked by a starter (`task_starter`), and is that user from its first instruction. A script may be
forked from a zygote instead (`warm`): then it waits for its request, which is its gate too.

The files of a task lie in its folder, which only its user may enter: nothing of it is in an argument, for everybody
on the machine may read those.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.cgroups import Group, Places, make_group
from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.process.limits import is_counted_less, set_walls, walls, walls_in_shell
from tickwise.adapters.runner.process.task_groups import groups_of
from tickwise.adapters.runner.process.task_starter import TaskStarter
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.process.tree import Moment, Process, Tree, give_number, offer_first
from tickwise.adapters.runner.process.warm.zygote import Identity, WarmRequest, Zygote, ZygoteLost
from tickwise.adapters.runner.secret_values import unfit
from tickwise.domain.errors import Invalid
from tickwise.domain.scripts.coding import source_bytes
from tickwise.domain.scripts.files import file_content
from tickwise.ports.blobs import Blobs, read_script
from tickwise.ports.runner import Assignment, TaskLimits

SHELL: Final = "/bin/sh"
TAKE_NUMBER: Final = "{{ ulimit -Sw {number} || ulimit -Sx {number}; }} 2>/dev/null;"
"""`give_number` in shell, from inside (dash and busybox say -w, bash -x): a shell may have started much, and let go of
it, before we come to give it one."""
PYTHON_SCRIPT: Final = "task.py"
SHELL_SCRIPT: Final = "task.sh"
WORK: Final = "work"
"""The work folder of a task, in its folder."""
GATE: Final = 'read -r go && exec "$@" </dev/null'
"""Without a word, because we died meanwhile, nothing begins."""

logger = structlog.get_logger("tickwise.executor")


class WarmScript(NamedTuple):
    """A script that is forked from a zygote."""

    zygote: Zygote
    script: Path
    symptoms: Path | None
    """The file that takes the names of its exception; None: nobody reads them."""
    prefix: Path | None = None
    """The virtual environment that it goes on in; None: that of its zygote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The program to start, and its mark."""

    arguments: Sequence[str]
    work: Path
    """Its current folder."""
    environment: Mapping[str, str]
    limits: TaskLimits
    mark: bytes
    """The piece of the environment that only it has."""
    number: int
    """The limit that only it has (`tree`)."""
    places: Places
    group_name: str
    user: TaskUser | None = None
    """None: our own."""
    starter: TaskStarter | None = None
    """Starts what runs as another user."""
    has_groups: bool = False
    """True if the task gets the two groups of its number; only for another user."""
    others: Mapping[int, Process] = field(default_factory=dict)
    """The processes that lead other tasks."""
    warm: WarmScript | None = None
    """None: a cold start."""
    descriptors: Mapping[int, int] = field(default_factory=dict)
    """Those of ours that the program gets beside its output, by their numbers there. Without a starter both are the
    same."""
    is_sandboxed: bool = False
    """The program is that of a sandbox, and the task is in it."""
    opened_by: Callable[[Callable[[], subprocess.Popen[bytes]]], subprocess.Popen[bytes]] | None = None
    """Starts the process, where no starter does; None: the thread that asks does it."""

    @property
    def groups(self) -> Sequence[int]:
        """The groups of another user's task."""
        assert self.user is not None
        return (*self.user.groups, *(groups_of(self.number) if self.has_groups else ()))

    def tree_of(self, process: Process, since: Moment, *, group: Group | None = None) -> Tree:
        """The marks by which a started process tree is found again."""
        all_stopped = None
        if (
            self.user is not None
            and self.starter is not None
            and self.user.uid != os.geteuid()
            and not self.user.is_named
        ):
            all_stopped = partial(self.starter.all_stopped, self.user.uid)
        return Tree(
            process=process,
            mark=self.mark,
            number=self.number,
            since=since.checked(process.pid),
            group=group,
            has_groups=self.has_groups,
            all_stopped=all_stopped,
            others=self.others,
            is_sandboxed=self.is_sandboxed,
        )


class Spawned(NamedTuple):
    """A started process."""

    tree: Tree
    output: int
    """Our end of the pipe that its stdout and stderr go to."""
    is_warm: bool = False
    age_seconds: float = 0.0
    """Since its start."""


class TaskText(NamedTuple):
    """The contents that lie in the folder of a task."""

    source: bytes | None = None
    """The script of a python task."""
    files: Mapping[str, bytes] = {}
    """The files that travel with it, by their names in its work folder."""


def script_of(folder: Path, text: TaskText) -> Path:
    """The file of a python script: beside the files that travel with it, so that it finds them as modules, and by its
    own path."""
    return (folder / WORK if text.files else folder) / PYTHON_SCRIPT


class TaskProgram(NamedTuple):
    """The command line of a task, and the file that it reads."""

    arguments: Sequence[str]
    script: Path | None = None
    """None: it reads none."""
    source: bytes = b""
    """The content of that file."""


def program_of(
    assignment: Assignment, folder: Path, text: TaskText, *, python: Interpreter, number: int | None
) -> TaskProgram:
    """The program of a task. `number`: the one that a shell takes for itself; None: it begins with its number."""
    task = assignment.task
    if text.source is not None:
        script = script_of(folder, text)
        arguments = python.arguments(script, folder, names_errors=assignment.names_errors)
        return TaskProgram(arguments, script, text.source)
    if "command" in task:
        script = folder / SHELL_SCRIPT
        # It takes its number itself, and on its first line, so that it keeps its line numbers.
        begin = "" if number is None else f"{TAKE_NUMBER.format(number=number)} "
        return TaskProgram([SHELL, str(script)], script, f"{begin}{task['command']}\n".encode())
    argv = task["argv"]
    assert isinstance(argv, list | tuple)
    return TaskProgram(list(argv))


def arguments_of(
    assignment: Assignment, folder: Path, text: TaskText, *, number: int, python: Interpreter
) -> Sequence[str]:
    """The command line of a task with this number. Its script or its command is written to a file in its folder."""
    program = program_of(assignment, folder, text, python=python, number=number)
    if program.script is not None:
        program.script.write_bytes(program.source)
    return program.arguments


def write_files(files: Mapping[str, bytes], work: Path) -> None:
    """Lay the files that travel with a task into its work folder, which is empty."""
    for name, content in files.items():
        file = work / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def spawn(start: Start, *, stdin: int | None = None) -> Spawned:
    """Blocking: for a thread (uvloop would take 11 ms of the loop). `stdin`: of a process without limits. Raises
    `OSError` if it cannot be started."""
    since = Moment.now()
    ours, theirs = os.pipe()
    tree = None
    is_warm = False
    try:
        if start.warm is not None:
            tree = _spawn_warm(start, start.warm, theirs, since)
            is_warm = tree is not None
        if tree is not None:
            pass
        elif start.limits.is_free:
            process = _started(start, start.arguments, theirs, stdin)
            _mark(process, start)
            tree = start.tree_of(process, since)
        else:
            tree = _spawn_behind_gate(start, theirs, since)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return Spawned(tree, ours, is_warm)


def _started(start: Start, arguments: Sequence[str], output: int, stdin: int | None = None) -> Process:
    if start.user is not None and start.starter is not None:
        return start.starter.start(
            arguments,
            user=start.user,
            groups=start.groups,
            work=start.work,
            environment=start.environment,
            number=start.number,
            output=output,
            stdin=stdin,
            descriptors=start.descriptors,
            is_sandboxed=start.is_sandboxed,
        )

    def opened() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output,
            stderr=output,
            cwd=start.work,
            env=start.environment,
            pass_fds=tuple(start.descriptors.values()),
            start_new_session=True,
        )

    return opened() if start.opened_by is None else start.opened_by(opened)


def _mark(process: Process, start: Start) -> None:
    """A starter has given it its number already, before its first instruction."""
    if start.starter is None:
        give_number(process.pid, start.number)
    offer_first(process.pid)


def _spawn_behind_gate(start: Start, output: int, since: Moment) -> Tree:
    _must_be_there(start)
    group = make_group(start.places, start.group_name, start.limits)
    uid = os.getuid() if start.user is None else start.user.uid
    found = walls(start.limits, group, uid)
    theirs, ours = os.pipe()
    try:
        gate = f"{walls_in_shell(found)}{GATE}"
        process = _started(start, [SHELL, "-c", gate, "tickwise-gate", *start.arguments], output, stdin=theirs)
    except BaseException:
        os.close(ours)
        if group is not None:
            group.remove()
        raise
    finally:
        os.close(theirs)
    _mark(process, start)
    joined = _joined(group, process.pid)
    tree = start.tree_of(process, since, group=joined)
    set_walls(process.pid, walls(start.limits, joined, uid) if is_counted_less(start.limits, joined, group) else found)
    with contextlib.suppress(BrokenPipeError):  # another process has killed it
        os.write(ours, b"go\n")
    os.close(ours)
    return tree


def _spawn_warm(start: Start, warm: WarmScript, output: int, since: Moment) -> Tree | None:
    """None: it has not begun, and starts cold. Raises `OSError`."""
    try:
        child = warm.zygote.fork(output)
    except ZygoteLost as lost:
        logger.warning("zygote_lost", pid=warm.zygote.pid, detail=str(lost))
        return None
    user, group = start.user, None
    try:
        if not start.limits.is_free:
            group = _joined(make_group(start.places, start.group_name, start.limits), child.task.pid)
        tree = start.tree_of(child.task, since, group=group)
        set_walls(tree.leader, walls(start.limits, group, os.getuid() if user is None else user.uid))
        child.begin(
            WarmRequest(
                number=start.number,
                identity=None if user is None else Identity(user.uid, user.gid, start.groups),
                work=str(start.work),
                environment=start.environment,
                arguments=start.arguments,
                script=str(warm.script),
                symptoms="" if warm.symptoms is None else str(warm.symptoms),
                prefix="" if warm.prefix is None else str(warm.prefix),
            )
        )
    except BaseException as error:
        child.abandon()
        if group is not None:
            group.remove()
        if not isinstance(error, ZygoteLost):
            raise
        logger.warning("zygote_child_lost", pid=child.task.pid, detail=str(error))
        return None
    return tree


def _joined(group: Group | None, pid: int) -> Group | None:
    """The group with the process in it, as far as the kernel lets it in: what it does not count is watched."""
    if group is None:
        return None
    left = {resource: place for resource, place in group.places.items() if Group({resource: place}).add(pid)}
    return Group(left) if left else None


def _must_be_there(start: Start) -> None:
    """Raises `FileNotFoundError` for a program that a shell could not find either."""
    program = start.arguments[0]
    found: str | None
    if "/" in program:
        path = start.work / program
        found = str(path) if path.exists() else None
    else:
        found = shutil.which(program, path=start.environment.get("PATH", os.defpath))
    if found is None:
        raise FileNotFoundError(2, os.strerror(2), program)


async def text_of(assignment: Assignment, blobs: Blobs) -> TaskText:
    """The script of a python task, and the files that travel with a task. Raises `NotFound`, and `Invalid` for a script
    that an earlier release took, and for a secret that no variable can hold."""
    task = assignment.task
    lack = unfit(assignment) if assignment.secrets else None
    if lack is not None:
        raise Invalid(lack)
    source = await _source(assignment, blobs) if task["kind"] == "python" else None
    files = {}
    for name, said in task.get("files", {}).items():
        content = file_content(said)
        if content is None:
            content = await read_script(blobs, assignment.namespace, said["sha256"])
        files[name] = content
    return TaskText(source, files)


async def _source(assignment: Assignment, blobs: Blobs) -> bytes:
    task = assignment.task
    if "source" in task:
        return source_bytes(str(task["source"]))
    digest = str(task["file"]).removeprefix("sha256:")
    return await read_script(blobs, assignment.namespace, digest)
