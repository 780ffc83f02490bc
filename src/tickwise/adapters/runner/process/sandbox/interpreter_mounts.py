"""The files of an interpreter that a sandbox needs: its virtual environment, and the Python that this stands on.

    program ──► venv (pyvenv.cfg above it) ──home──► base
       └── where its links lead ────────────────────► base: PREFIX/bin and PREFIX/lib/pythonX.Y, or PREFIX as a whole

A prefix that is somebody's home or a folder of the system is never shown as a whole. Of an environment that was built
for a script, only the links count: its `pyvenv.cfg` and `.pth` files may be a package's, which could name any folder.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.process.sandbox.plan import SYSTEM, Mount

NEVER_WHOLE: Final = frozenset(
    map(
        Path,
        (
            "/", "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv",
            "/sys", "/tmp", "/var", "/var/lib",
        ),
    )
)  # fmt: skip
NEVER_BELOW: Final = ("/boot/", "/dev/", "/etc/", "/proc/", "/run/", "/sys/")
"""Folders below which no Python is: they have sockets of services, and the kernel's own files."""
MAX_CONFIGURATION_BYTES: Final = 16 << 10
MAX_PATH_FILES: Final = 64
_LIBRARY: Final = re.compile(r"python[23]\.\d+t?")


def interpreter_mounts(program: str, libraries: str | None = None, *, is_built: bool = False) -> tuple[Mount, ...]:
    """The mounts for an interpreter by its path. `libraries`: the folder of its shared library, if it is elsewhere.
    `is_built`: it is that of an environment that was built for a script.

    Blocking: some 100 µs. One that is no Python gets itself alone. A path below /usr needs none.
    """
    found: dict[str, None] = {}
    path = Path(os.path.abspath(program))
    venv = path.parent.parent
    home = None if is_built else _home_of(venv)
    if is_built or home is not None:
        found[str(venv)] = None
    if home is not None:
        found |= dict.fromkeys(_added(venv))
        found |= dict.fromkeys(_base(home / path.name, home.parent))
    for step in _steps(path):
        if (home is None and not is_built) or step != path:
            found |= dict.fromkeys(_base(step, step.parent.parent))
    if libraries is not None:
        found[libraries] = None
    return tuple(Mount(each, each) for each in _outermost(found))


def _steps(path: Path) -> Iterator[Path]:
    """The path, and where its links lead, one after the other."""
    for _ in range(16):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / os.readlink(path)))


def _home_of(venv: Path) -> Path | None:
    """The folder of the program that a virtual environment stands on; None: it is none."""
    try:
        with (venv / "pyvenv.cfg").open("rb") as file:
            lines = file.read(MAX_CONFIGURATION_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip().lower() == "home":
            return Path(value.strip())
    return None


def _added(venv: Path) -> Iterator[str]:
    """The folders that its `.pth` files add, such as the source of a package that is installed as editable."""
    for folder in venv.glob("lib/python*/site-packages"):
        for file in sorted(folder.glob("*.pth"))[:MAX_PATH_FILES]:
            try:
                lines = file.read_text(errors="replace").splitlines()
            except OSError:
                continue
            for line in lines:
                added = Path(line.strip())
                if added.is_absolute() and added.is_dir() and may_be_whole(added):
                    yield str(added)


def _base(program: Path, prefix: Path) -> Iterator[str]:
    library = _library(prefix)
    if library is not None and may_be_whole(prefix):
        yield str(prefix)
        return
    if os.path.lexists(program):
        yield str(program)
    if library is not None:
        yield str(library)
        yield from (str(each) for each in library.parent.glob("libpython*.so*"))


@lru_cache(maxsize=64)
def _library(prefix: Path) -> Path | None:
    """The folder of Python's own modules below a prefix."""
    for name in ("lib", "lib64"):
        try:
            names = os.listdir(prefix / name)
        except OSError:
            continue
        for each in names:
            if _LIBRARY.fullmatch(each) and (prefix / name / each / "os.py").exists():
                return prefix / name / each
    return None


def may_be_whole(folder: Path) -> bool:
    """Check that a folder is neither one of the system, also under another name, nor somebody's home."""
    real = Path(os.path.realpath(folder))
    named = {real, folder}
    return not (named & (NEVER_WHOLE | _homes())) and not any(str(each).startswith(NEVER_BELOW) for each in named)


@lru_cache(maxsize=1)
def _homes() -> frozenset[Path]:
    return frozenset(Path(entry.pw_dir) for entry in pwd.getpwall())


def _outermost(paths: dict[str, None]) -> list[str]:
    """Those that lie in no other one, nor in the system's folder, from the outside to the inside."""
    shown = [SYSTEM]
    for path in sorted(paths, key=len):
        if not any(path == each or path.startswith(f"{each}/") for each in shown):
            shown.append(path)
    return shown[1:]
