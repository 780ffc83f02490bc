"""Runs `python` and `shell` tasks, each attempt as a process of its own, in a session and a folder of its own.

    <work root>/<executor's process>-…/<run>-<token>/
        task.py        the script of a python task; task.sh: the command of a shell task
        work/          the attempt's own folder, and its current one unless the task names another; the files that
                       travel with a script lie there, and then the script itself
        payload.json   a payload too large for a variable
        result.json    what the task writes as its result
        symptoms       the names of the exception that ended a python task
        version        that of an interpreter which is not the executor's own

The folder belongs to the user that the task runs as (`task_users`), and nobody else may enter it. It is removed
afterwards; if the executor is killed, an orphan reaper or the next start ends its tasks and
removes all of them (`work_folder`).

Exit status 0 is success, 65 (EX_DATAERR of sysexits.h) means "no retry can help", any other is a failure that may be
tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from tickwise.adapters.runner.artefacts import ArtefactKeeper, LeftFiles, look
from tickwise.adapters.runner.context import PAYLOAD_VARIABLE_LIMIT_BYTES, context_environment, inherited_environment
from tickwise.adapters.runner.kinds import PythonKind, ShellKind
from tickwise.adapters.runner.process import python_gate, python_launcher
from tickwise.adapters.runner.process.accounts.identity_renewal import FolderRunner
from tickwise.adapters.runner.process.accounts.run_as import NamedUsers, login_of, may_be_warm, run_as_refused
from tickwise.adapters.runner.process.builds import TaskProcesses, ZygotePrograms
from tickwise.adapters.runner.process.faults import (
    given_up,
    interpreter_fault,
    missing_module,
    not_started,
    signal_name,
    unconfined,
    unknown_ending,
)
from tickwise.adapters.runner.process.interpreters import Interpreter, interpreter_of
from tickwise.adapters.runner.process.limits import LimitsWatch, Watched
from tickwise.adapters.runner.process.outcome.task_end import TaskEnd, ending_with
from tickwise.adapters.runner.process.outcome.task_usage import usage_of
from tickwise.adapters.runner.process.parent.task_parents import (
    LongTask,
    LostTask,
    NotWarm,
    ShortEnd,
    ShortTask,
    ShortTaskLost,
    TaskParents,
    TaskPlace,
    Unmade,
    WarmTask,
    tree_of_child,
)
from tickwise.adapters.runner.process.python_gate import VERSION_FILE
from tickwise.adapters.runner.process.python_launcher import SYMPTOMS_FILE
from tickwise.adapters.runner.process.removal import remove_folder
from tickwise.adapters.runner.process.sandbox.network.task_networks import TaskNetworks
from tickwise.adapters.runner.process.sandbox.prepared.pool import PreparedSandboxes
from tickwise.adapters.runner.process.sandbox.prepared.starts import PreparedNeeds, PreparedStart, PreparedStarts
from tickwise.adapters.runner.process.sandbox.sandboxes import (
    Sandboxes,
    SandboxNeeds,
    limits_around,
    open_sandboxes,
    reaped_within,
    set_up_error,
)
from tickwise.adapters.runner.process.script_environments import NoEnvironment, ScriptEnvironments, ScriptPython
from tickwise.adapters.runner.process.space.work_space import bounded, space_of, temporary_folder
from tickwise.adapters.runner.process.start import (
    PYTHON_SCRIPT,
    WORK,
    Spawned,
    Start,
    TaskText,
    WarmScript,
    arguments_of,
    program_of,
    script_of,
    spawn,
    text_of,
    write_files,
)
from tickwise.adapters.runner.process.task_groups import can_be_given
from tickwise.adapters.runner.process.task_marks import mark_of
from tickwise.adapters.runner.process.task_places import (
    STANDARD_PATH,
    TaskPython,
    environment_of,
    give_folder,
    home_of,
    path_for,
    python_for,
    work_root_for,
)
from tickwise.adapters.runner.process.task_starter import StarterLost, StartPauses, TaskStarter
from tickwise.adapters.runner.process.task_users import TaskUser, TaskUsers
from tickwise.adapters.runner.process.tree import (
    MAX_KILL_SECONDS,
    Process,
    Reaped,
    Survivors,
    Tree,
    ask_tree,
    exited,
    is_gone,
    kill_tree,
    reap,
)
from tickwise.adapters.runner.process.warm.bare import BarePython, bare_python
from tickwise.adapters.runner.process.warm.starts import WARM, WarmStarts, ZygoteKey
from tickwise.adapters.runner.process.warm.zygote import WarmRequest, Zygote
from tickwise.adapters.runner.process.warm.zygote_program import AS_ROOT, NO_NEW_PRIVILEGES
from tickwise.adapters.runner.process.work_folder import WorkFolder
from tickwise.adapters.runner.pump import OutputPump, read_plain, rest_of
from tickwise.adapters.runner.secret_values import has_secret_files, variables_of, write_secret_files
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.errors import Invalid, Misconfigured, NotFound
from tickwise.domain.retry import STARTER_LOST
from tickwise.domain.rules.confinement import Isolation
from tickwise.ports.environments import EnvironmentDemand, EnvironmentFailure, EnvironmentHost
from tickwise.ports.runner import Assignment, Ending, Reports, Verdict

EXIT_INVALID: Final = 65
"""EX_DATAERR: the task says that its input cannot be right, however often it is tried."""
NUMBERS_STAY_SECONDS: Final = 10.0
"""For so long at least, a process number that was in use is not given to another process."""
MAX_SYMPTOMS_BYTES: Final = 16 << 10
MAX_VERSION_BYTES: Final = 64
STARTERS: Final = max(1, min(4, (os.cpu_count() or 1)))
"""Processes that start tasks as other users: a start keeps one busy for a millisecond."""
GROUP_TRIES: Final = 20
"""The number of attempts to remove the control group of an ended task: its last process may be on its way."""


class ProcessRunner(FolderRunner):
    """The runner of the kinds `python` and `shell`."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings, (PythonKind(), ShellKind()))
        self._threads = ThreadPoolExecutor(min(8, settings.slots), thread_name_prefix="process-runner")
        self._folder: WorkFolder | None = None
        self._counts = count(1)
        self._leaders: dict[int, Process] = {}
        self._warm: WarmStarts | None = None
        self._inherited: Mapping[str, str] = {}
        self._bare: BarePython | None = None
        self._survivors = Survivors(self._threads, settings.clock)
        self._watch = LimitsWatch(self._threads, settings.clock)
        self._users: TaskUsers | None = None
        self._named = NamedUsers(settings.run_as_users, settings.clock, self._threads)
        self._starter: TaskStarter | None = None
        self._starts = StartPauses(settings.clock)
        self._parents = TaskParents(self._threads, settings.clock)
        self._has_groups = False
        self._path = ""
        self._python = Interpreter(program=sys.executable, launcher=python_launcher.__file__, gate=python_gate.__file__)
        self._task_python: TaskPython | None = None
        self._sandboxes: Sandboxes
        self._prepared: PreparedStarts | None = None
        self._networks = TaskNetworks(settings.http_allow)
        self._script_environments = ScriptEnvironments(None, self._python)

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Raises `Misconfigured` if the work folders cannot be made, or tasks cannot run as the user that is said."""
        await super().start(reports, now)
        settings = self._settings
        self._inherited = inherited_environment(settings.pass_environment)
        root = settings.work_root
        self._users = await self._in_thread(self._named.users_besides, settings.run_tasks_as, root)
        if self._users is not None:
            try:
                root = await self._in_thread(work_root_for, self._users.least_of_them(), root)
                self._task_python = python = await self._in_thread(python_for, self._users.least_of_them())
            except OSError as error:
                raise Misconfigured(f"the folders of tasks that run as other users cannot be made: {error}") from error
        self._folder = await WorkFolder.open(
            root, threads=self._threads, clock=settings.clock, lease_file=settings.lease_file
        )
        if self._users is not None:
            path = os.environ.get("PATH", STANDARD_PATH)
            self._path = await self._in_thread(path_for, self._users.any_of_them(), path)
            self._has_groups = await self._in_thread(can_be_given)
            self._starter = TaskStarter(STARTERS, new_privileges=self._users.are_of_operator)
            launcher, gate = await self._in_thread(self._folder.let_others_pass)
            self._python = Interpreter(
                program=str(python.program),
                launcher=str(launcher),
                gate=str(gate),
                environment=environment_of(python),
            )
            self._bare = await self._in_thread(bare_python, self._folder.path, str(python.program))
        user = None if self._users is None else self._users.any_of_them()
        private = (*settings.private_folders, self._folder.root)
        self._sandboxes = await self._in_thread(open_sandboxes, settings, self._folder.path, user, private)
        self._networks.be_ready(self._folder.path, self._python, user)
        self._labels = (*self._labels, *self._sandboxes.labels)
        pool = PreparedSandboxes(self._folder.path / "prepared", settings.clock)
        path = self._path or self._inherited["PATH"]
        self._prepared = PreparedStarts(self._sandboxes, pool, self._python, path)
        options = [] if self._users is None else [AS_ROOT]
        if self._users is not None and not self._users.are_of_operator:
            options.append(NO_NEW_PRIVILEGES)
        zygotes = ZygotePrograms(folder=self._folder, counts=self._counts, options=options)
        self._warm = WarmStarts(settings.clock, zygotes.spawn)
        await self._open_environments(self._folder)
        self._script_environments = ScriptEnvironments(settings.environments, self._python)

    async def _open_environments(self, folder: WorkFolder) -> None:
        """Raises `Misconfigured` if their folder cannot be made."""
        environments = self._settings.environments
        if environments is None:
            return
        root = environments.root
        if self._users is not None:
            root = await self._in_thread(work_root_for, self._users.least_of_them(), root)
        processes = TaskProcesses(
            folder=folder,
            threads=self._threads,
            clock=self._settings.clock,
            counts=self._counts,
            users=self._users,
            starter=self._starter,
            has_groups=self._has_groups,
            watch=self._watch,
        )
        program = Path(self._python.program)
        await environments.open(EnvironmentHost(root, program, self._python.environment, processes))

    async def release_resources(self) -> None:
        self._watch.close()
        self._script_environments.close()
        if self._settings.environments is not None:
            await self._settings.environments.close()
        warm, self._warm = self._warm, None
        if warm is not None:
            await self._in_thread(warm.close)
        await self._parents.close()
        if self._prepared is not None:
            await self._prepared.close()
        await self._networks.close()
        folder, self._folder = self._folder, None
        starter, self._starter = self._starter, None
        if starter is not None:
            await self._in_thread(starter.close)
        if folder is not None:
            await self._in_thread(self._named.close)
            await self._in_thread(folder.close)
        python, self._task_python = self._task_python, None
        if python is not None:
            python.release()
        self._survivors.leave()
        self._threads.shutdown(wait=False)

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def labels(self) -> Sequence[str]:
        if self._starts.pause_left_seconds() > 0.0:
            return ()
        return self._named.offered_with(self._labels)

    def launch(self, assignments: Sequence[Assignment]) -> None:
        most = self._settings.task_disk_bytes
        super().launch(assignments if most is None else [bounded(each, most) for each in assignments])

    def prepare(self, assignment: Assignment) -> None:
        """See `PreparingRunner`: build the environment that a script declares. A stored script is prepared if the task
        says so itself, for nothing is read ahead."""
        self._script_environments.prepare(assignment)

    async def warm(self, demand: EnvironmentDemand) -> EnvironmentFailure | None:
        """See `WarmingRunner`."""
        return await self._script_environments.warm(demand)

    async def perform(self, attempt: Attempt) -> Ending:
        assignment = attempt.assignment
        if self._starts.pause_left_seconds() > 0.0:
            return self._given_back(f"no task can be started here for now: {self._starts.detail}")
        lack = self._sandboxes.refusal(assignment)
        if lack is not None:
            return unconfined(lack, self._now())
        if (refused := await self._named.refusal(assignment)) is not None:
            return run_as_refused(refused, self._now())
        text = await self._text(assignment)
        if isinstance(text, Ending):
            return text
        python = await self._script_environments.interpreter_of(attempt, text.source)
        if isinstance(python, NoEnvironment):
            return self._no_environment(attempt, python)
        attempt.sink.begin_task()
        try:
            return await self._networks.around(attempt, partial(self._perform_with, attempt, text, python))
        finally:
            python.release()

    async def _perform_with(self, attempt: Attempt, text: TaskText, python: ScriptPython) -> Ending:
        """Carry out one attempt on this interpreter."""
        assignment = attempt.assignment
        assert self._folder is not None
        prepared = self._prepared_start(assignment, text, python)
        own = self._folder.path / f"{assignment.run_id}-{assignment.token}"
        folder = own if prepared is None else prepared.slot.folder
        remains: Path | None = folder
        attempt.folder = folder
        try:
            try:
                begun = None if prepared is None else await self._begin_prepared(attempt, prepared, text)
                if begun is None:
                    begun = await self._begin(attempt, folder, text, python)
            except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
                return self._not_started(assignment, error)
            except StarterLost as lost:
                return self._no_starter(lost)
            self._starts.succeeded()
            if isinstance(begun, Spawned):
                self._reports.began(assignment.run_id, attempt.started)
                end = await self._until_gone(attempt, begun, folder, text)
                if end is None:
                    return given_up(attempt, begun.tree.leader, self._now())
            else:
                end = begun
            if end.is_tidy:
                remains = None
            ending = self._judge(attempt, end)
            if end.found is not None:
                await self._keep(attempt, folder, end.found)
            return ending
        finally:
            if remains is not None:
                await self._in_thread(partial(remove_folder, folder))

    def _looked_at(self, attempt: Attempt, folder: Path, reaped: Reaped | None, text: TaskText) -> TaskEnd:
        """The end of a task of which nothing lives, with what it has left. In a thread: files wait for the disk."""
        uid, end = self._uid_of(attempt), self._without_files(attempt, reaped)
        status = -1 if end.reaped is None else end.reaped.status
        most = self._settings.result_limit_bytes + 1
        given = {**text.files, PYTHON_SCRIPT: text.source} if text.files and text.source is not None else text.files
        return end._replace(
            result=read_plain(folder / "result.json", most, uid=uid) if status == 0 else None,
            version=read_plain(folder / VERSION_FILE, MAX_VERSION_BYTES, uid=uid)
            if end.is_foreign and status >= 0
            else None,
            symptoms=read_plain(folder / SYMPTOMS_FILE, MAX_SYMPTOMS_BYTES, uid=uid)
            if end.is_noted and status > 0
            else None,
            found=look(folder / WORK, uid, given, self._settings.artefacts),
        )

    def _without_files(self, attempt: Attempt, reaped: Reaped | None) -> TaskEnd:
        """The end of a task that has left no file."""
        task = attempt.assignment.task
        is_foreign = task["kind"] == "python" and not interpreter_of(task, self._python).is_own
        return TaskEnd(
            reaped=reaped_within(attempt.assignment, reaped),
            usage=usage_of(reaped),
            result=None,
            is_foreign=is_foreign,
            version=None,
            is_noted=is_foreign or attempt.assignment.names_errors,
            symptoms=None,
            found=None,
        )

    def _tidied(
        self, attempt: Attempt, spawned: Spawned, folder: Path, text: TaskText
    ) -> tuple[Sequence[bytes], TaskEnd | Exception] | None:
        """The usual end in one go: nothing of the task is left, its last output, its exit status, its files; without
        any that are to be kept, its folder is removed. None: something was left, and is killed. In a thread.

        An error comes back as a value: the process is reaped by then."""
        tree = spawned.tree
        if not is_gone(tree):
            return None
        output = rest_of(spawned.output)
        self._leaders.pop(tree.leader, None)
        reaped = reap(tree.process)
        try:
            end = self._looked_at(attempt, folder, reaped, text)
            if end.found is None:
                remove_folder(folder)
                end = end._replace(is_tidy=True)
            else:
                end = end._replace(usage=usage_of(reaped, left=end.found))
        except Exception as error:  # noqa: BLE001  # raised in the loop
            return output, error
        return output, end

    async def _keep(self, attempt: Attempt, folder: Path, found: LeftFiles) -> None:
        """Store the files that a task left, and say so at the end of its output."""
        run_id, number = attempt.assignment.run_id, attempt.assignment.attempt
        keeper = ArtefactKeeper(self._settings.blobs, run_id, number, self._in_thread, attempt.sink.forms)
        note = await keeper.keep(folder / WORK, found, self._uid_of(attempt), attempt.hurry)
        attempt.sink.end_output()
        attempt.sink.write_own(*note.splitlines())

    async def _text(self, assignment: Assignment) -> TaskText | Ending:
        """The contents of a task, or its end."""
        try:
            return await text_of(assignment, self._settings.blobs)
        except (NotFound, Invalid) as refused:
            now = self._now()
            return Ending(Verdict.INVALID, now, now, "invalid", refused.detail)

    def _not_started(self, assignment: Assignment, error: OSError) -> Ending:
        now = self._now()
        user = self.user_of(assignment)
        fault = not_started(assignment.task, error, user=None if user is None else user.name)
        return Ending(fault.verdict, now, now, fault.reason, fault.error)

    def _no_environment(self, attempt: Attempt, failure: NoEnvironment) -> Ending:
        now = self._now()
        if attempt.trouble.done():
            return attempt.ending_for(attempt.trouble.result(), now, now)
        wait = failure.retry_after_seconds
        if failure.is_of_machine:
            return Ending(Verdict.UNOFFERED, now, now, failure.reason, failure.detail, retry_after_seconds=wait)
        verdict = Verdict.INVALID if failure.is_permanent else Verdict.FAILED
        return Ending(verdict, attempt.started, now, failure.reason, failure.detail, retry_after_seconds=wait)

    def _no_starter(self, lost: StarterLost) -> Ending:
        """Give back a run that never began, and start nothing for a while: its starters ended one after the other."""
        if self._starts.pause_left_seconds() <= 0.0:
            self._starts.failed(lost.detail)
        return self._given_back(lost.detail)

    def _given_back(self, error: str) -> Ending:
        now, wait = self._now(), self._starts.pause_left_seconds()
        return Ending(Verdict.UNOFFERED, now, now, STARTER_LOST, error, retry_after_seconds=wait)

    # ---------------------------------------------------------------------------------------- start

    def _spawn(self, assignment: Assignment, folder: Path, text: TaskText, python: ScriptPython) -> Spawned:
        """In a thread: folders wait for the disk."""
        assert self._folder is not None
        try:
            folder.mkdir(mode=0o700)
        except FileNotFoundError:
            self._folder.make_again()
            folder.mkdir(mode=0o700)
        work = folder / WORK
        work.mkdir()
        write_files(text.files, work)
        write_secret_files(assignment, folder)
        marks = self._folder.marks
        number = marks.attempt(next(self._counts))
        task = assignment.task
        interpreter = interpreter_of(task, python.interpreter)
        arguments = arguments_of(assignment, folder, text, number=number, python=interpreter)
        environment = self._environment(assignment, text, interpreter, python)
        user = self.user_of(assignment)
        warm = None
        if text.source is not None:
            symptoms = folder / SYMPTOMS_FILE if assignment.names_errors or not interpreter.is_own else None
            if assignment.confinement.isolation is Isolation.PROCESS:
                warm = self._warm_script(assignment, interpreter, python, environment)
            warm = warm and warm._replace(script=script_of(folder, text), symptoms=symptoms)
        environment |= temporary_folder(folder, assignment.limits) | variables_of(assignment, folder)
        environment |= context_environment(assignment, folder)
        if user is not None:
            give_folder(folder, user.uid, user.gid)
        start = Start(
            arguments=arguments,
            work=Path(task.get("directory") or work),
            environment=environment,
            limits=assignment.limits,
            mark=mark_of(folder),
            number=number,
            places=self._folder.places,
            group_name=f"{marks.name}-{number}",
            user=user,
            starter=self._named.starter_of(user, self._starter),
            has_groups=self._has_groups,
            others=self._leaders,
            warm=warm,
        )
        python_of = None if text.source is None else interpreter
        needs = SandboxNeeds(assignment, folder, python_of, self._networks.of(assignment))
        with self._sandboxes.entered(start, needs) as around:
            spawned = spawn(around)
        self._leaders[spawned.tree.leader] = spawned.tree.process
        return spawned

    def _environment(
        self, assignment: Assignment, text: TaskText, interpreter: Interpreter, python: ScriptPython
    ) -> dict[str, str]:
        """The variables around a task, without its own."""
        assert self._folder is not None
        environment = dict(self._inherited)
        user = self.user_of(assignment)
        if user is not None:
            environment |= interpreter.environment if text.source is not None else {}
            environment |= {"HOME": str(home_of(user, self._folder.root)), "USER": user.name, "LOGNAME": user.name}
            environment |= login_of(user) if user.is_named else {"PATH": self._path}
        environment |= python.variables(environment["PATH"])
        return environment

    def user_of(self, assignment: Assignment) -> TaskUser | None:
        named = self._named.of(assignment)
        return named if named is not None or self._users is None else self._users.of(assignment.namespace)

    # ---------------------------------------------------------------------------------------- short tasks

    async def _begin(self, attempt: Attempt, folder: Path, text: TaskText, python: ScriptPython) -> Spawned | TaskEnd:
        """Start the process of an attempt. One that was short has ended when this returns."""
        with contextlib.suppress(NotWarm, Unmade, StarterLost):  # nothing of it has begun
            begun = await self._begin_short(attempt, folder, text, python)
            if begun is not None:
                return begun
        spawned: Spawned = await self._in_thread(self._spawn, attempt.assignment, folder, text, python)
        attempt.started = self._now()
        return spawned

    def _prepared_start(self, assignment: Assignment, text: TaskText, python: ScriptPython) -> PreparedStart | None:
        """The start of a task in a prepared sandbox; None: it starts in another way."""
        if self._prepared is None or assignment.confinement.isolation is not Isolation.SANDBOX:
            return None
        interpreter, user = interpreter_of(assignment.task, python.interpreter), self.user_of(assignment)
        environment = self._environment(assignment, text, interpreter, python)
        return self._prepared.start_for(
            PreparedNeeds(assignment, text, interpreter, python.environment is not None, environment, user)
        )

    async def _begin_prepared(
        self, attempt: Attempt, prepared: PreparedStart, text: TaskText
    ) -> Spawned | TaskEnd | None:
        """None: nothing of it has begun, and it starts in another way."""
        assert self._folder is not None
        folder, number = prepared.slot.folder, self._folder.marks.attempt(next(self._counts))
        try:
            found = await prepared.begin(number, attempt.trouble, self._leaders)
        except Unmade:
            return None
        except ShortTaskLost:
            return await self._lost(attempt, folder, number, text)
        age = self._settings.clock.monotonic() - found.began
        attempt.started = self._now() - age
        if isinstance(found, ShortEnd):
            return (await self._short_end(attempt, found, folder, text))._replace(is_warm=prepared.is_warm)
        self._leaders[found.tree.leader] = found.tree.process
        return Spawned(found.tree, found.output, prepared.is_warm, age)

    async def _lost(self, attempt: Attempt, folder: Path, number: int, text: TaskText) -> TaskEnd:
        """The end of a task whose parent was killed before it was shown: what there is of it is killed."""
        tree = Tree(process=LostTask(), mark=mark_of(folder), number=number, others=self._leaders)
        await kill_tree(tree, threads=self._threads, clock=self._settings.clock)
        end: TaskEnd = await self._in_thread(self._looked_at, attempt, folder, None, text)
        return end._replace(ended=self._now())

    async def _begin_short(
        self, attempt: Attempt, folder: Path, text: TaskText, python: ScriptPython
    ) -> Spawned | TaskEnd | None:
        """By a parent, if the task needs no more than a start: no other user, no limits, no files. None: by itself."""
        assignment, task = attempt.assignment, attempt.assignment.task
        if self._users is not None or not assignment.limits.is_free or text.files or has_secret_files(assignment):
            return None
        if assignment.confinement.isolation is not Isolation.PROCESS:
            return None
        if len(assignment.payload) > PAYLOAD_VARIABLE_LIMIT_BYTES or assignment.identity_token is not None:
            return None  # both lie in files
        assert self._folder is not None
        interpreter = interpreter_of(task, python.interpreter)
        environment = self._environment(assignment, text, interpreter, python)
        zygote = None
        if text.source is not None and may_be_warm(assignment):
            zygote = self._ready_zygote(interpreter, python, environment)
            if zygote is None:
                return None  # one is to be made, perhaps, and perhaps this script waits for it
        parent = self._parents.chosen() if zygote is None else self._parents.chosen_for(zygote)
        if parent is None:
            return None
        number = self._folder.marks.attempt(next(self._counts))
        program = program_of(assignment, folder, text, python=interpreter, number=None)
        work = task.get("directory") or f"{folder}/{WORK}"
        environment = {**environment, **variables_of(assignment, folder), **context_environment(assignment, folder)}
        place = TaskPlace(str(folder), str(program.script or ""), work, number)
        try:
            if zygote is None:
                found = await parent.start(
                    ShortTask(place, program.source, list(program.arguments), environment), attempt.trouble
                )
            else:
                symptoms = folder / SYMPTOMS_FILE if assignment.names_errors or not interpreter.is_own else ""
                request = WarmRequest(
                    number, None, work, environment, program.arguments, str(program.script), str(symptoms)
                )
                found = await parent.start_warm(WarmTask(place, program.source, zygote, request), attempt.trouble)
        except ShortTaskLost:
            return await self._lost(attempt, folder, number, text)
        age = self._settings.clock.monotonic() - found.began
        attempt.started = self._now() - age
        if isinstance(found, LongTask):
            tree = tree_of_child(found.task, mark=mark_of(folder), number=number, others=self._leaders)
            self._leaders[tree.leader] = tree.process
            return Spawned(tree, found.output, zygote is not None, age)
        end = await self._short_end(attempt, found, folder, text)
        return end._replace(is_warm=zygote is not None)

    def _ready_zygote(
        self, interpreter: Interpreter, python: ScriptPython, environment: Mapping[str, str]
    ) -> Zygote | None:
        """The zygote of a script, where a look at its interpreter does not wait for a disk that is away."""
        if self._warm is None or not (interpreter.is_own or python.environment is not None):
            return None
        found = shutil.which(interpreter.program, path=environment["PATH"])
        return None if found is None else self._warm.ready(ZygoteKey(found, os.geteuid()))

    async def _short_end(self, attempt: Attempt, found: ShortEnd, folder: Path, text: TaskText) -> TaskEnd:
        if found.output:
            attempt.write(found.output, grace_seconds=self._settings.kill_grace_seconds)
        took, limit = found.ended - found.began, attempt.assignment.timeout_seconds
        reason = "timeout" if limit and took > limit else None
        reason = attempt.trouble.result() if attempt.trouble.done() else reason
        if found.is_tidy:
            end = self._without_files(attempt, found.reaped)
        else:
            end = await self._in_thread(self._looked_at, attempt, folder, found.reaped, text)
        return end._replace(ended=attempt.started + took, reason=reason, is_tidy=found.is_tidy)

    def _warm_script(
        self, assignment: Assignment, interpreter: Interpreter, python: ScriptPython, environment: Mapping[str, str]
    ) -> WarmScript | None:
        """The zygote that a script is forked from; None: it starts cold. `environment`: without the task's own."""
        task, warm = assignment.task, self._warm
        assert warm is not None
        if not may_be_warm(assignment):
            return None
        uid, prefix = os.geteuid(), None
        program = interpreter.program
        if self._users is not None:
            # Root runs no interpreter of somebody else: their scripts go on from its own, with nothing installed.
            uid = self._users.of(assignment.namespace).uid
            if python.environment is not None and self._bare is not None and self._bare.serves(program):
                program, prefix = self._bare.program, Path(program).parent.parent
            elif not interpreter.is_own:
                return None
        found = shutil.which(program, path=environment["PATH"])
        if found is None:
            return None
        if prefix is not None:
            environment = {**environment, "PATH": self._path}
        zygote = warm.zygote_for(ZygoteKey(found, uid), environment, waits=task.get("start") == WARM)
        return None if zygote is None else WarmScript(zygote, Path(), None, prefix)

    # ---------------------------------------------------------------------------------------- watch

    def _watched(self, attempt: Attempt, tree: Tree, folder: Path) -> Watched | None:
        limits = limits_around(attempt.assignment)
        if limits.is_free:
            return None
        grace = self._settings.kill_grace_seconds
        space = space_of(folder, WORK, limits, self._settings.clock)
        return Watched(tree, limits, lambda reason: attempt.end_early(reason, grace), space)

    async def _until_gone(self, attempt: Attempt, spawned: Spawned, folder: Path, text: TaskText) -> TaskEnd | None:
        """Wait for its end, or bring it about; then nothing of it lives, and it is reaped.

        None if it could not be ended: then it is watched further, and must not be reaped.
        """
        tree, settings = spawned.tree, self._settings
        loop = asyncio.get_running_loop()
        watched = self._watched(attempt, tree, folder)
        pump = OutputPump(loop, spawned.output, attempt, settings.kill_grace_seconds)
        limit = attempt.assignment.timeout_seconds
        left = limit and max(0.0, limit - spawned.age_seconds)
        deadline = left is not None and loop.call_later(left, attempt.end_early, "timeout", settings.kill_grace_seconds)
        end = loop.create_task(exited(tree.process))
        tidied = None
        if watched is not None:
            self._watch.add(watched)
        try:
            signs: set[asyncio.Future[Any]] = {end, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                obeys = loop.create_task(ask_tree(tree, end, threads=self._threads, clock=settings.clock))
                await asyncio.wait({obeys, attempt.hurry}, return_when=asyncio.FIRST_COMPLETED)
                obeys.cancel()
                await asyncio.gather(obeys, return_exceptions=True)  # after any failure the KILL comes next
            reason = None if end.done() and not attempt.trouble.done() else attempt.trouble.result()
            if reason is None and watched is None and self._is_young(attempt):
                pump.stop()
                end.result()  # an error of ours, if it could not even be waited for
                tidied = await self._in_thread(self._tidied, attempt, spawned, folder, text)
        finally:
            if deadline:
                deadline.cancel()
            if watched is not None:
                self._watch.remove(watched)
            if tidied is None:
                await self._killed(attempt, tree, end, pump)
            self._leaders.pop(tree.leader, None)
        ended = self._now()
        if tidied is not None:
            output, found = tidied
            for piece in output:
                pump.take(piece)
            pump.close()
            if isinstance(found, Exception):
                raise found
        elif end.done():
            reaped = await self._in_thread(reap, tree.process)
            if watched is not None:
                reason = await self._last_look(watched, reaped, reason)
            found = await self._in_thread(self._looked_at, attempt, folder, reaped, text)
            found = found._replace(usage=usage_of(reaped, watched, found.found))
        else:
            return None
        # The last output may be what passes the limit, after the process has ended by itself.
        reason = attempt.trouble.result() if reason is None and attempt.trouble.done() else reason
        return found._replace(ended=ended, reason=reason, is_warm=spawned.is_warm)  # type: ignore[no-any-return]  # threads give Any

    def _is_young(self, attempt: Attempt) -> bool:
        """Check that the number of no process that was older than the attempt can be in use again."""
        return self._now() - attempt.started < NUMBERS_STAY_SECONDS

    async def _killed(self, attempt: Attempt, tree: Tree, end: asyncio.Task[None], pump: OutputPump) -> None:
        """End all of a task, or give it up to the survivors."""
        if not self._is_young(attempt):
            tree = tree.among_all()
        await kill_tree(tree, threads=self._threads, clock=self._settings.clock)
        await asyncio.wait({end}, timeout=MAX_KILL_SECONDS)
        pump.finish()
        if end.done():
            end.result()  # an error of ours, if it could not even be waited for
        else:
            self._survivors.add(tree, end)

    async def _last_look(self, watched: Watched, reaped: Reaped | None, reason: str | None) -> str | None:
        """The reason of the end by the final counts: a limit counts as exceeded even if the process was quicker than
        its watcher."""
        seconds = 0.0 if reaped is None else reaped.cpu_seconds or 0.0
        status = None if reaped is None else reaped.status
        exceeded = await self._in_thread(watched.last_verdict, seconds, status)
        reason = exceeded if reason is None else reason
        group = watched.tree.group
        for _ in range(GROUP_TRIES):
            if group is None or await self._in_thread(group.remove):
                break
            await self._settings.clock.sleep(0.01)
        return reason

    # ---------------------------------------------------------------------------------------- judge

    def _judge(self, attempt: Attempt, end: TaskEnd) -> Ending:
        """The ending of an attempt that has come to this end."""
        if end.reason is not None:
            ending = attempt.ending_for(end.reason, attempt.started, end.ended)
        elif end.reaped is None:
            ending = unknown_ending(attempt, end.ended)
        else:
            ending = self._judge_status(attempt, end, end.reaped.status)
        return ending if end.usage is None else ending._replace(usage=end.usage)

    def _judge_status(self, attempt: Attempt, end: TaskEnd, status: int) -> Ending:
        """The ending by an exit status and the files of the task."""
        task, ended = attempt.assignment.task, end.ended
        tail = attempt.sink.tail.strip()
        unbuilt = set_up_error(attempt.assignment, status, tail)
        if unbuilt is not None:
            return self._not_started(attempt.assignment, unbuilt)
        if end.is_foreign and not end.is_warm and status >= 0:
            fault = interpreter_fault(task, end.version, tail)
            if fault is not None:
                return Ending(fault.verdict, attempt.started, ended, fault.reason, fault.error)
        if status == 0:
            if end.result is not None:
                return ending_with(attempt, end.result, ended, most=self._settings.result_limit_bytes)
            return Ending(Verdict.OK, attempt.started, ended)
        what, reason, verdict = f"exit status {status}", "exit_code", Verdict.FAILED
        symptoms: tuple[str, ...] = ()
        if status < 0:
            what, reason = f"ended by signal {signal_name(-status)}", "signal"
        else:
            symptoms = (str(status), *(end.symptoms or b"").decode(errors="replace").split())
            if status == EXIT_INVALID:
                verdict = Verdict.INVALID
        error = f"{what}: {tail}" if tail else what
        if task["kind"] == "python" and status == 1:
            fault = missing_module(tail, symptoms if end.is_noted else None)
            if fault is not None:
                verdict, reason, error = fault.verdict, fault.reason, f"{fault.error}\n{error}"
        return Ending(verdict, attempt.started, ended, reason, error, symptoms=symptoms)

    def _uid_of(self, attempt: Attempt) -> int:
        user = self.user_of(attempt.assignment)
        return os.geteuid() if user is None else user.uid
