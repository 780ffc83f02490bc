"""The SQLite file of a process for what it has outside of memory. It has no name, so it ends with the process."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tickwise.domain.errors import StoreUnavailable

CACHE_KIB: Final = 8 << 10
"""Of the file, in memory."""
SETTINGS: Final = (
    "PRAGMA journal_mode = MEMORY",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA cache_size = -{CACHE_KIB}",
)


class SpillLost(StoreUnavailable):
    """The file of ended runs or of jobs at rest cannot be read: the state is built again from the log."""


def open_spill(folder: Path, layout: Iterable[str]) -> sqlite3.Connection:
    """Make a file with this layout, and take its name away."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix="ended-", suffix=".spill", dir=folder)  # of mode 0600
    os.close(handle)
    try:
        file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for each in (*SETTINGS, *layout):
            file.execute(each)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return file
