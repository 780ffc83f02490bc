"""Chooses the tasks that start in a prepared sandbox, and makes their requests.

    ordinary task in a sandbox ──► exec holder of its namespace, or warm one of its namespace and environment ──► slot
    any other, or no holder is ready ──► None: a bubblewrap of its own (`sandboxes`)

Ordinary is a task without limits of the kernel's, files, a network, or a folder, a user or an interpreter of its own.

A warm holder runs the executor's own interpreter with nothing installed. What an environment runs at the start of an
interpreter (`.pth` files, `sitecustomize`) belongs to its namespace: it runs in the process of the script (`bare`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.context import PAYLOAD_VARIABLE_LIMIT_BYTES, context_environment
from tickwise.adapters.runner.process.interpreters import FLAGS, Interpreter
from tickwise.adapters.runner.process.parent.task_parents import ShortEnd, ShortTaskLost, Unmade, tree_of_child
from tickwise.adapters.runner.process.python_launcher import SYMPTOMS_FILE
from tickwise.adapters.runner.process.removal import remove_folder
from tickwise.adapters.runner.process.sandbox.levels import HOME
from tickwise.adapters.runner.process.sandbox.plan import Mount, SandboxPlan
from tickwise.adapters.runner.process.sandbox.prepared.holder import (
    HolderStart,
    HolderUser,
    LivingTask,
    PreparedTask,
    SandboxHolder,
    TaskNamespace,
    TaskSlot,
)
from tickwise.adapters.runner.process.sandbox.prepared.pool import HolderKey, PreparedSandboxes
from tickwise.adapters.runner.process.sandbox.sandboxes import Sandboxes, person_of
from tickwise.adapters.runner.process.start import WORK, TaskText, program_of
from tickwise.adapters.runner.process.task_marks import RESULT_VARIABLE
from tickwise.adapters.runner.process.task_places import PASSABLE
from tickwise.adapters.runner.process.task_users import TaskUser
from tickwise.adapters.runner.process.tree import Process, Tree
from tickwise.adapters.runner.process.warm.bare import BarePython, bare_python
from tickwise.adapters.runner.process.warm.starts import reason_against
from tickwise.adapters.runner.process.warm.zygote import WarmRequest
from tickwise.adapters.runner.secret_values import has_secret_files, variables_of
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.runner import Assignment

EXEC_FLAGS: Final = ("-I", "-S", "-E")
"""Of the interpreter of a holder that starts programs: it imports as little as it can."""
MAX_REMEMBERED: Final = 64
_HEADER_BYTES: Final = 8
"""Of the content of a `WarmRequest`: its length."""


class PreparedNeeds(NamedTuple):
    """The needs of a task, by which its prepared sandbox is chosen."""

    assignment: Assignment
    text: TaskText
    interpreter: Interpreter
    """Of a python task."""
    has_environment: bool
    """The interpreter is that of an environment of its namespace."""
    environment: Mapping[str, str]
    """Without the task's own variables."""
    user: TaskUser | None


class LivingTree(NamedTuple):
    """A task that lives, with all that comes of it."""

    tree: Tree
    output: int
    """Our end of the pipe of its output."""
    began: float
    """On the monotonic clock."""


@dataclass(frozen=True, slots=True)
class PreparedStart:
    """A task that has a slot in a holder. `begin` must follow."""

    holder: SandboxHolder
    slot: TaskSlot
    task: PreparedTask
    request: WarmRequest | None
    """Of a script that is forked; None: a program is executed."""

    @property
    def is_warm(self) -> bool:
        """It is a script that is forked."""
        return self.request is not None

    async def begin(
        self, number: int, hurry: asyncio.Future[Any], others: Mapping[int, Process]
    ) -> ShortEnd | LivingTree:
        """Start it under this number. `others`: the processes that lead other tasks. Raises `ShortTaskLost`, and
        `Unmade` if it has not begun and nothing of it is left: a sandbox of its own then says why, or starts it."""
        task = self.task._replace(number=number)
        if self.request is not None:
            task = task._replace(warm=self.request._replace(number=number).content()[_HEADER_BYTES:])
        try:
            found = await self.holder.start(self.slot, task, hurry)
        except ShortTaskLost:
            raise
        except (Unmade, OSError) as error:
            await asyncio.to_thread(remove_folder, self.slot.folder)
            raise Unmade from error
        return found if isinstance(found, ShortEnd) else self._tree_of(found, number, others)

    def _tree_of(self, found: LivingTask, number: int, others: Mapping[int, Process]) -> LivingTree:
        # No process has this mark: what a task has left is known by its number, and ended with its namespace.
        mark = f"{RESULT_VARIABLE}={self.slot.folder}/".encode()
        tree = tree_of_child(found.process, mark=mark, number=number, others=others)
        return LivingTree(replace(tree, group=TaskNamespace({}, found.process)), found.output, found.began)


@dataclass(slots=True)
class PreparedStarts:
    """For one runner, on its event loop."""

    sandboxes: Sandboxes
    pool: PreparedSandboxes
    own: Interpreter
    """The executor's own interpreter, as tasks reach it."""
    path: str
    """The `PATH` of an interpreter without an environment."""
    _bare: BarePython | None = None
    _making: asyncio.Future[BarePython] | None = None
    _mounts: dict[tuple[str, str | None], tuple[Mount, ...]] = field(default_factory=dict)

    def start_for(self, needs: PreparedNeeds) -> PreparedStart | None:
        """The start of a task in a prepared sandbox; None: it gets one of its own."""
        assignment, confinement = needs.assignment, needs.assignment.confinement
        if confinement.isolation is not Isolation.SANDBOX or not self.sandboxes.level.is_there:
            return None
        is_ordinary = (
            confinement.allow_network is False
            and confinement.run_as is None
            and assignment.limits.is_free
            and not needs.text.files
            and not has_secret_files(assignment)
            and len(assignment.payload) <= PAYLOAD_VARIABLE_LIMIT_BYTES
            and assignment.identity_token is None
            and assignment.task.get("directory") is None
        )
        is_named = needs.text.source is not None and not (needs.interpreter.is_own or needs.has_environment)
        if not is_ordinary or is_named:
            return None
        is_warm = needs.text.source is not None and self._can_be_warm(needs)
        key = self._key(needs, is_warm=is_warm)
        holder = self.pool.chosen(key, partial(self._holder_start, key, needs.user))
        return None if holder is None else self._in(holder, needs, is_warm=is_warm)

    async def close(self) -> None:
        """End all holders."""
        if self._making is not None:
            await asyncio.wait([self._making])
        await self.pool.close()

    def _can_be_warm(self, needs: PreparedNeeds) -> bool:
        if reason_against(needs.assignment.task) is not None:
            return False
        if not needs.has_environment:
            return True
        bare = self._bare_python()
        return bare is not None and bare.serves(needs.interpreter.program)

    def _bare_python(self) -> BarePython | None:
        """The interpreter with nothing installed; None: it is being made, or cannot be."""
        if self._bare is None and self._making is None:
            self._making = asyncio.get_running_loop().run_in_executor(None, self._made_bare)
            self._making.add_done_callback(self._take_bare)
        return self._bare

    def _made_bare(self) -> BarePython:
        self.pool.folder.mkdir(mode=PASSABLE, exist_ok=True)
        return bare_python(self.pool.folder, self.own.program)

    def _take_bare(self, making: asyncio.Future[BarePython]) -> None:
        if making.exception() is None:
            self._bare = making.result()

    def _key(self, needs: PreparedNeeds, *, is_warm: bool) -> HolderKey:
        mounts = [*self._mounts_of(self.own), *_programs_of(self.own)]
        variables: Mapping[str, str] = {"PATH": self.path, "LC_ALL": "C.UTF-8", **self.own.environment}
        program = self.own.program
        if needs.text.source is not None:
            mounts += [*self._mounts_of(needs.interpreter), *_programs_of(needs.interpreter)]
        if is_warm:
            program = self._bare.program if needs.has_environment and self._bare is not None else program
            mounts += self._mounts_of(Interpreter(program=program, launcher=""))
            variables = {**needs.environment, "HOME": HOME}
            if needs.has_environment:
                variables["PATH"] = self.path
                del variables["VIRTUAL_ENV"]
        return HolderKey(
            namespace=needs.assignment.namespace,
            uid=os.geteuid() if needs.user is None else needs.user.uid,
            program=program,
            environment=tuple(sorted(variables.items())),
            mounts=tuple(sorted(set(mounts), key=lambda mount: (len(mount.target), mount))),
            is_warm=is_warm,
        )

    def _mounts_of(self, python: Interpreter) -> tuple[Mount, ...]:
        wanted = python.program, python.environment.get("LD_LIBRARY_PATH")
        found = self._mounts.get(wanted)
        if found is None:
            if len(self._mounts) >= MAX_REMEMBERED:
                self._mounts.clear()
            try:
                found = tuple(self.sandboxes.python_mounts(python))
            except FileNotFoundError:
                return ()  # the task is told where it starts another way
            self._mounts[wanted] = found
        return found

    def _holder_start(self, key: HolderKey, user: TaskUser | None, place: Path) -> HolderStart:
        """In a thread. Raises `OSError`."""
        plan = SandboxPlan(
            work="/",
            home=HOME,
            etc=self.sandboxes.etc.of(person_of(user)),
            mounts=(*key.mounts, Mount(str(place), str(place), is_writable=True)),
            sizes=self.sandboxes.sizes,
        )
        return HolderStart(
            bubblewrap=self.sandboxes.level.program,
            plan=plan,
            place=place,
            python=[key.program, *(FLAGS if key.is_warm else EXEC_FLAGS)],
            environment=dict(key.environment),
            is_warm=key.is_warm,
            user=None if user is None else HolderUser(user.uid, user.gid, user.groups),
        )

    def _in(self, holder: SandboxHolder, needs: PreparedNeeds, *, is_warm: bool) -> PreparedStart:
        assignment, place = needs.assignment, holder.place
        program = program_of(assignment, place, needs.text, python=needs.interpreter, number=None)
        environment = {
            **needs.environment,
            "HOME": HOME,
            **variables_of(assignment, place),
            **context_environment(assignment, place),
        }
        work = f"{place}/{WORK}"
        request = None
        if is_warm:
            is_noted = assignment.names_errors or not needs.interpreter.is_own
            request = WarmRequest(
                number=0,
                identity=None,
                work=work,
                environment=environment,
                arguments=program.arguments,
                script=str(program.script),
                symptoms=str(place / SYMPTOMS_FILE) if is_noted else "",
                prefix=str(Path(needs.interpreter.program).parent.parent) if needs.has_environment else "",
            )
        script = "" if program.script is None else program.script.name
        prepared = PreparedTask(
            number=0,
            script=script,
            source=program.source,
            work=work,
            arguments=list(program.arguments),
            environment={} if is_warm else environment,
            warm=None,
        )
        return PreparedStart(holder, holder.slot(script), prepared, request)


def _programs_of(python: Interpreter) -> list[Mount]:
    """The files that scripts of an interpreter begin with."""
    return [Mount(each, each) for each in (python.launcher, python.gate) if each]
