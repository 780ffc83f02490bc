"""A wall clock of one process that a test moves: `shift.c`, compiled when it is needed."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
from pathlib import Path

from tests.services.packages import program

SOURCE = Path(__file__).with_name("shift.c")


class ShiftedClock:
    """Hand `environment` to a process; from then on `shift` moves its wall clock, and no other."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises `Missing` where there is no C compiler, and none can be installed."""
        self._file = folder / f"{name}.clock"
        self._file.write_bytes(struct.pack("d", 0.0))
        library = folder / "shift.so"
        if not library.exists():
            command = [program("cc"), "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
            subprocess.run(command, check=True, capture_output=True)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._file)}

    def shift(self, seconds: float) -> None:
        """So far from the machine's clock, at once."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as page:
            page[:8] = struct.pack("d", seconds)


def own_time(environment: dict[str, str]) -> float:
    """What a process of that environment takes for the time."""
    done = subprocess.run(
        ["python3", "-c", "import time; print(time.time())"],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)
