"""The marks by which the tasks of one executor are known, also to others, after the executor was killed.

    the folder's name ──► the beginning of a variable in the environment of each task
                     └──► a number: those of its attempts begin with it, and the names of its control groups hold it

Invariant: both follow from the name alone, so the next executor of the host finds the tasks by the folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.process.orphan_reaper_program import ATTEMPTS

RESULT_VARIABLE: Final = "TICKWISE_RESULT_FILE"
"""In the environment of each process task; its value lies in the folder."""
WORKER_VARIABLE: Final = "TICKWISE_WORKER"
"""In the environment of each function worker; its value holds the folder's name."""
EXECUTORS: Final = 90_000_000_000
"""With the attempts, 18 digits: a limit has room for them."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of all tasks of the executor with this folder."""

    folder: Path

    @property
    def number(self) -> int:
        """Eleven digits from the folder's name; those of its attempts begin with them."""
        return _number_of(self.folder.name)

    @property
    def name(self) -> str:
        """The executor's part in the names of control groups."""
        return str(self.number)

    @property
    def environment(self) -> Sequence[str]:
        """Beginnings of what only its tasks have in their environments."""
        return f"{RESULT_VARIABLE}={self.folder}/", f"{WORKER_VARIABLE}={self.worker}"

    @property
    def worker(self) -> str:
        """The beginning of the value of a worker's variable: with the executor's process."""
        return f"{self.folder.name}-"

    def attempt(self, count: int) -> int:
        """The number of its attempt `count`."""
        return self.number * ATTEMPTS + count % ATTEMPTS


@lru_cache(maxsize=64)
def _number_of(name: str) -> int:
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") % EXECUTORS + EXECUTORS // 9


def mark_of(folder: Path) -> bytes:
    """The mark of one attempt alone: the same run may go on elsewhere on this machine, if we were taken for dead."""
    return f"{RESULT_VARIABLE}={folder}/".encode()
