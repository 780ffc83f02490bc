"""The files beside a script that it imports or reads, and that do not travel with it: on the server they would be
missed.

Only names are looked at, in the text of the script and of modules beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

MAX_MODULES: Final = 200
"""Modules beside the script that are read."""
MAX_BYTES: Final = 1 << 20
"""Of one of them; a larger one is not read."""

_SOURCED = re.compile(r"^[ \t]*(?:\.|source)[ \t]+([\w./-]+)[ \t]*(?:[;#&|].*)?$", re.MULTILINE)
"""A line of a shell script that reads another file."""


def left_behind(source: str, folder: Path, travelling: Collection[str]) -> list[str]:
    """The files and packages in `folder` that the script, or such a module, imports, and of which nothing travels.

    `travelling`: the names of the files that travel, as they stand in the job's folder. A package is named by its
    folder.
    """
    there = {name.split("/", 1)[0] for name in travelling}
    found: dict[str, None] = {}
    waiting = [*_imported(source)]
    seen: set[str] = set()
    while waiting and len(seen) < MAX_MODULES:
        module = waiting.pop(0)
        if module in seen:
            continue
        seen.add(module)
        place = _beside(folder, module)
        if place is None:
            continue
        if place.name not in there:
            found[place.name] = None
        for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            waiting += _imported(_text(file))
    return list(found)


def sourced(source: str, folder: Path, travelling: Collection[str]) -> list[str]:
    """The files in `folder` that a shell script reads as a part of itself (`. ./settings.sh`) and that do not travel.
    A path with variables in it, or of another folder, is nobody's to judge here."""
    read = (found[1].removeprefix("./") for found in _SOURCED.finditer(source))
    inside = (name for name in dict.fromkeys(read) if not name.startswith(("/", "../")))
    return [name for name in inside if name not in travelling and (folder / name).is_file()]


def _beside(folder: Path, module: str) -> Path | None:
    """The file or the package of this name in the folder. A folder without `__init__.py` may be anything."""
    package, file = folder / module, folder / f"{module}.py"
    if (package / "__init__.py").is_file():
        return package
    return file if file.is_file() else None


def _imported(source: str) -> Iterator[str]:
    """The first parts of the names that a text imports, without relative ones, which are of its package."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".", 1)[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".", 1)[0]


def _text(file: Path) -> str:
    """The text of a module; empty if it cannot be read. Its encoding matters for no name of a module beside it."""
    try:
        return file.read_text(encoding="utf-8", errors="replace") if file.stat().st_size <= MAX_BYTES else ""
    except OSError:
        return ""
