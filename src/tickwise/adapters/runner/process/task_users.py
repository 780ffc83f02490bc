"""The users that tasks run as, so that a task owns its own folder and no file of the installation.

    executor is root    run_tasks_as unset   each namespace is a user of its own, of a range that nothing else uses
                        run_tasks_as NAME    all tasks are that user
                        run_tasks_as root    all tasks are root, as the operator says
    it is not           all tasks are the user of the executor: an ordinary user can become no other one

A user of a namespace has no name and no rights but those of everybody, and no setuid program gives it more. Its number
follows from the work root and the namespace. Where two namespaces would have the same one, the second has the next; a
note in the work root says whose a number is:

    <work root>/users/<number>    the name of the namespace

So it is the same after each start and on each machine with that folder, whichever namespace comes first, and what its
tasks keep in their home stays theirs.

Invariant: a task that shall be another user is that user from its first instruction, or it is not started.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from tickwise.domain.errors import Misconfigured

RANGE: Final = (0x7000_0000, 0x7FFE_0000)
"""268 million numbers: above those of systemd's containers, below its foreign images, within 31 bits."""
SMALL_RANGE: Final = (61_184, 65_520)
"""Systemd's for services without a user: where a container maps 65,536 numbers, no more."""
TRIAL_SECONDS: Final = 60.0
SHELL: Final = "/bin/sh"
ROOT: Final = "root"
USERS: Final = "users"
SETTING: Final = "TICKWISE_RUN_TASKS_AS"


class UserArguments(TypedDict, total=False):
    """The arguments of `subprocess` that change the user of a child."""

    user: int
    group: int
    extra_groups: Sequence[int]


class TaskUser(NamedTuple):
    """The user of a task."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    home: Path | None
    """None: the operator gave it none; the runner makes one."""
    name: str
    is_named: bool = False
    """An account that a job names: it may run more than tasks, and its home may not be there."""

    def arguments(self) -> UserArguments:
        """For `subprocess`."""
        return {"user": self.uid, "group": self.gid, "extra_groups": self.groups}


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A range of user numbers."""

    first: int
    after: int

    def nth(self, place: int) -> int:
        return self.first + place % (self.after - self.first)


class TaskUsers:
    """The users of one executor's tasks; only where they are not its own."""

    def __init__(self, fixed: TaskUser | None, numbers: _Numbers, work_root: Path, *, named: bool = False) -> None:
        """`named`: jobs may name other users besides."""
        self._fixed = fixed
        self._named = named
        self._numbers = numbers
        self._work_root = work_root
        self._by_namespace: dict[str, TaskUser] = {}

    def of(self, namespace: str) -> TaskUser:
        """The user of the tasks of this namespace. The first time it looks into the work root. Raises `OSError`."""
        if self._fixed is not None:
            return self._fixed
        known = self._by_namespace.get(namespace)
        return self._made(namespace) if known is None else known

    @property
    def are_of_operator(self) -> bool:
        """True if the operator named the user, and may have given it rights, as in `sudoers`."""
        return self._fixed is not None

    def any_of_them(self) -> TaskUser:
        """One to try with what all of them must be able to do, but those that jobs name."""
        return self._fixed or self._user(self._numbers.nth(0))

    def least_of_them(self) -> TaskUser:
        """One that can do no more than any of them: where jobs name users, one that owns nothing."""
        return self._user(self._numbers.nth(0)) if self._named else self.any_of_them()

    def _made(self, namespace: str) -> TaskUser:
        salt = os.fsencode(self._work_root)
        place = int.from_bytes(hashlib.sha256(salt + b"\0" + namespace.encode()).digest()[:8], "big")
        # The first of the range is for trials, of any executor.
        while (uid := self._numbers.nth(place)) == self._numbers.first or not self._note(uid, namespace):
            place += 1
        user = self._by_namespace[namespace] = self._user(uid)
        return user

    def _note(self, uid: int, namespace: str) -> bool:
        """Note that this number is of this namespace; False: it is of another one."""
        folder = self._work_root / USERS
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="new-") as file:
            file.write(namespace.encode())
            file.flush()
            try:
                os.link(file.name, folder / str(uid))  # whole, and by one executor alone
            except FileExistsError:
                return (folder / str(uid)).read_bytes() == namespace.encode()
        return True

    def _user(self, uid: int) -> TaskUser:
        return TaskUser(uid, uid, (), None, f"tickwise-{uid}")


def task_users(said: str | None, work_root: Path, *, named: bool = False) -> TaskUsers | None:
    """The users that tasks run as; None: the executor's own user. `said` is the setting `run_tasks_as`. `named`: jobs
    may name users besides, so an executor that is root must be able to change the user.

    Blocking: it tries. Raises `Misconfigured` if tasks cannot be run as the setting says, or if that would be root
    without the operator's word.
    """
    own = os.geteuid()
    if said is not None and (said == ROOT or _is_own(said, own)):
        if said == ROOT and own != 0:
            raise Misconfigured(f"run_tasks_as is root, and this executor is not; unset {SETTING}")
        if own != 0 or not named:
            return None
        said = ROOT
    if own != 0:
        if said is None:
            return None
        raise Misconfigured(
            f"run_tasks_as is {said}, and only an executor that is started by root can run tasks as another user; "
            f"start the executor as {said} itself, or unset {SETTING}"
        )
    fixed = None if said is None else _account(said)
    users = TaskUsers(fixed, _numbers(), work_root, named=named)
    wrong = _failure(users.least_of_them())
    if wrong is not None:
        raise Misconfigured(
            f"tasks are not run as root, and this executor cannot run them as another user ({wrong}). Give it the "
            "right to (CAP_SETUID and CAP_SETGID), start it as an ordinary user, or say that tasks may own everything: "
            f"{SETTING}=root"
        )
    return users


def can_do(user: TaskUser, command: Sequence[str | Path], environment: dict[str, str] | None = None) -> bool:
    """Check by a trial that the user can run the command: file modes alone do not show access lists, mounts and missing
    libraries."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment or {},
            timeout=TRIAL_SECONDS,
            check=False,
            start_new_session=True,
            **user.arguments(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def can_enter(user: TaskUser, folder: Path) -> bool:
    """Check whether the user can enter the folder through all folders above it."""
    return can_do(user, [SHELL, "-c", 'cd "$1"', "sh", folder])


def enterable(user: TaskUser, folders: Sequence[str]) -> list[str]:
    """Those of the absolute paths that the user can enter, in their order. One process tries them all: each process of
    another user is a whole fork of this one, 20 ms where it has a gigabyte. Blocking."""
    try:
        done = subprocess.run(
            [SHELL, "-c", 'for each; do (cd "$each") && printf 1 || printf 0; done', "sh", *folders],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            timeout=TRIAL_SECONDS,
            check=False,
            start_new_session=True,
            **user.arguments(),
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [folder for folder, answer in zip(folders, done.stdout, strict=False) if answer == ord("1")]


def _is_own(said: str, own: int) -> bool:
    try:
        return _uid(said) == own
    except Misconfigured:
        return False


def _uid(said: str) -> int:
    if said.isdecimal():
        return int(said)
    try:
        return pwd.getpwnam(said).pw_uid
    except KeyError:
        raise Misconfigured(
            f"run_tasks_as is {said}, and there is no such user; add it (useradd --system {said}), or unset {SETTING}"
        ) from None


def _account(said: str) -> TaskUser:
    uid = _uid(said)
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return TaskUser(uid, uid, (), None, f"tickwise-{uid}")
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    home = Path(entry.pw_dir)
    return TaskUser(uid, entry.pw_gid, groups, home if home.is_dir() else None, entry.pw_name)


def _numbers() -> _Numbers:
    """The range that the user namespace of this process has: in a container without root's rights it may be small."""
    try:
        rows = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except (OSError, ValueError):
        return _Numbers(*RANGE)
    for first, after in (RANGE, SMALL_RANGE):
        if any(inside <= first and after <= inside + count for inside, _, count in rows):
            return _Numbers(first, after)
    return _Numbers(*SMALL_RANGE)


def _failure(user: TaskUser) -> str | None:
    """The reason why nothing can be run as this user; None: it can."""
    try:
        subprocess.run(["/bin/sh", "-c", ":"], cwd="/", env={}, check=True, timeout=TRIAL_SECONDS, **user.arguments())
    except OSError as error:
        return error.strerror or str(error)
    except subprocess.SubprocessError as error:
        return str(error)
    return None
