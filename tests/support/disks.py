"""A disk of a few megabytes, for tests of one that is full. Linux lets root alone mount one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int, *, mode: str = "1777") -> Iterator[Path]:
    """A file system of that size in memory, in the place of an empty folder, with these rights. Raises
    `PermissionError` where none may be mounted."""
    options = f"size={megabytes}m,mode={mode}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tickwise-test", str(folder)]
    made = subprocess.run(mount, capture_output=True, text=True, check=False)
    if made.returncode:
        raise PermissionError(made.stderr.strip() or "no file system could be mounted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


@contextlib.contextmanager
def small_disk_of_test(folder: Path, megabytes: int, *, mode: str = "1777") -> Iterator[Path]:
    """Mount one for a fixture. Its test is skipped for a developer who may mount nothing."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(small_disk(folder, megabytes, mode=mode))
        except PermissionError as reason:
            pytest.skip(f"only root may mount a small disk: {reason}")
        yield folder
