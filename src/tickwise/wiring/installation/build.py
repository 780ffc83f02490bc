"""The files of a program, as one short text: whether they were changed since a process has read them."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
COMPILED = "__pycache__"


def build_of(package: Path = PACKAGE) -> str:
    """A digest of the names, sizes and times of all files of the program."""
    digest = blake2b(digest_size=12)
    for place in sorted(package.rglob("*")):
        if COMPILED in place.parts:
            continue
        state = place.stat()
        if place.is_file():
            digest.update(f"{place.relative_to(package).as_posix()}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return digest.hexdigest()
