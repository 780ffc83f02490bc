"""The files that the style tests judge: what git tracks or would track."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED_FOLDERS = frozenset({".git", ".venv", "__pycache__", "node_modules", "build", "dist", "out"})


@cache
def committed_files() -> tuple[str, ...]:
    """Every file of the repository as a path from its root. Without git (a source archive): what lies there."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        answer = None
    if answer is not None and answer.returncode == 0 and answer.stdout:
        names = answer.stdout.splitlines()
    else:
        names = [
            path.relative_to(ROOT).as_posix()
            for path in ROOT.rglob("*")
            if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts)
        ]
    return tuple(sorted({name for name in names if (ROOT / name).is_file()}))


def read(place: str) -> str:
    return (ROOT / place).read_text(encoding="utf-8", errors="replace")


def python_files(*folders: str) -> list[str]:
    """Python sources below the given folders; all of them if none is given."""
    return [
        place
        for place in committed_files()
        if place.endswith(".py") and (not folders or place.startswith(tuple(f"{folder}/" for folder in folders)))
    ]
