"""The system users that the jobs of one executor name (`run_as`), as far as its setting allows them.

    job: run_as backup ──► allowed for its namespace? ──► account, looked up by name ──► TaskUser, its groups, its home
                                  └── no ──────────────────────┴── none ──► `RunAsRefusal`

Unlike the users that are made for namespaces (`task_users`), such a user is somebody: it owns files, is in groups, runs
services. So the executor never stops all processes of such a user for a look, as it may with a user of its own; what a
task has left is found by its marks alone. It keeps setuid programs, because its operator may have given it `sudo`. And
its scripts start cold: an interpreter that is forked for several namespaces is none of a real user's.

Invariants: the namespace of a task is checked here, at each start, for a label says nothing of it; no task becomes a
user that is made for a namespace.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tickwise.adapters.runner.process.task_starter import TaskStarter
from tickwise.adapters.runner.process.task_users import RANGE, ROOT, SMALL_RANGE, TaskUser, TaskUsers, task_users
from tickwise.adapters.runner.process.warm.starts import reason_against
from tickwise.domain.accounts.run_as import LOGIN_PATH, LOGIN_SHELL, SETTING, RunAsUsers, refusal
from tickwise.domain.rules.confinement import RUN_AS_PREFIX
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Assignment, Ending, Verdict

LOOK_SECONDS: Final = 30.0
"""Between two looks at which of the users have an account: labels are asked for before every claim."""
REFUSED: Final = "run_as_refused"
UNKNOWN_USER: Final = "run_as_unknown"

logger = structlog.get_logger("tickwise.executor")


class RunAsRefusal(NamedTuple):
    """The reason for which a task does not run as the user that its job names."""

    reason: str
    detail: str


def run_as_refused(refused: RunAsRefusal, now: float) -> Ending:
    """The end of an attempt that does not begin: no retry helps."""
    return Ending(Verdict.INVALID, now, now, refused.reason, refused.detail)


def may_be_warm(assignment: Assignment) -> bool:
    """Check whether a script may be forked from a warm interpreter: never as a user that its job names."""
    return assignment.confinement.run_as is None and reason_against(assignment.task) is None


class NamedUsers:
    """The users that jobs may name, and the starter of their tasks. Its methods may be called from any thread."""

    def __init__(self, allowed: RunAsUsers, clock: Clock, threads: Executor) -> None:
        self.allowed = allowed
        self._clock = clock
        self._threads = threads
        self._starter = TaskStarter(1, new_privileges=True)
        self._own = os.geteuid()
        self._known: dict[str, TaskUser] = {}
        """As of the last start of a task of this user."""
        self._labels: tuple[str, ...] = ()
        self._looked = 0.0

    def users_besides(self, said: str | None, work_root: Path) -> TaskUsers | None:
        """The users of all other tasks, by the setting `run_tasks_as`; and a first look at those that jobs name.
        Blocking. Raises `Misconfigured`."""
        self._look()
        return task_users(said, work_root, named=bool(self.allowed.names))

    def labels(self) -> Sequence[str]:
        """`run_as:NAME` of each allowed user that tasks could run as at the last look. It looks again in the
        background: accounts may be kept on another machine."""
        if self.allowed.names and self._clock.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = self._clock.monotonic()
            self._threads.submit(self._look)
        return self._labels

    def offered_with(self, labels: Sequence[str]) -> Sequence[str]:
        """These labels of the runner, and those of the users."""
        named = self.labels()
        return (*labels, *named) if named else labels

    async def refusal(self, assignment: Assignment) -> RunAsRefusal | None:
        """`look_up`, where the job of the task names a user; else None, at once."""
        if assignment.confinement.run_as is None:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.look_up, assignment)

    def _look(self) -> None:
        """Look which of the users have an account that tasks can run as."""
        found = {name: self._account(name) for name in self.allowed.names}
        lacking = {name: each.detail for name, each in found.items() if isinstance(each, RunAsRefusal)}
        labels = tuple(f"{RUN_AS_PREFIX}{name}" for name in self.allowed.names if name not in lacking)
        if lacking and (labels != self._labels or not self._looked):
            logger.warning("run_as_not_offered", users=sorted(lacking), detail="; ".join(lacking.values()))
        self._labels, self._looked = labels, self._clock.monotonic()

    def look_up(self, assignment: Assignment) -> RunAsRefusal | None:
        """Look up the user that the job of this task names: `of` then knows it. None: the task may run as this user.
        Blocking."""
        name = assignment.confinement.run_as
        assert name is not None
        wrong = refusal(self.allowed, assignment.namespace, name)
        if wrong is not None:
            return RunAsRefusal(REFUSED, wrong)
        found = self._account(name)
        if isinstance(found, RunAsRefusal):
            return found
        self._known[name] = found
        return None

    def of(self, assignment: Assignment) -> TaskUser | None:
        """The user that the job of this task names, as `look_up` has found it; None: it names none."""
        name = assignment.confinement.run_as
        return None if name is None else self._known[name]

    def starter_of(self, user: TaskUser | None, usual: TaskStarter | None) -> TaskStarter | None:
        """The starter of a task of this user: one of its own for a named one, whose setuid programs keep their rights.
        `usual`: that of all others; None: no task changes its user here."""
        return usual if usual is None or user is None or not user.is_named else self._starter

    def close(self) -> None:
        """Close the starter's processes. No task of them may be left."""
        self._starter.close()

    def _account(self, name: str) -> TaskUser | RunAsRefusal:
        try:
            entry = pwd.getpwnam(name)
            groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
        except KeyError:
            return RunAsRefusal(
                UNKNOWN_USER,
                f"the machine of this executor has no user {name!r}; add it there, or name another: run_as, --run-as",
            )
        if entry.pw_uid == 0 and name != ROOT:
            return RunAsRefusal(REFUSED, f"the user {name!r} is root under another name; name root itself in {SETTING}")
        if any(first <= entry.pw_uid < after for first, after in (RANGE, SMALL_RANGE)):
            return RunAsRefusal(
                REFUSED,
                f"the user {name!r} has the number {entry.pw_uid}, of a range that namespaces have their users in; "
                "give it another number",
            )
        if self._own not in (0, entry.pw_uid):
            return RunAsRefusal(
                REFUSED, f"only an executor that root starts can run tasks as {name!r}, and this one is not root's"
            )
        return TaskUser(entry.pw_uid, entry.pw_gid, groups, Path(entry.pw_dir), entry.pw_name, is_named=True)


def login_of(user: TaskUser) -> dict[str, str]:
    """The variables of a task that runs as a named user: those that cron gives to a command. Other variables that tasks
    inherit (language, time zone, certificates) stay; those of the task win."""
    return {
        "HOME": str(user.home),
        "LOGNAME": user.name,
        "USER": user.name,
        "SHELL": LOGIN_SHELL,
        "PATH": LOGIN_PATH,
    }
