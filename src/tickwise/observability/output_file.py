"""The file that standard output and standard error of a background process go to, bounded by its own process.

    up.log, over its limit ──► becomes up.log.1, in place of the one before ──► a new up.log takes both

Nobody else could: the process writes to open files, and a file that is moved from outside grows on under its new name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "_TICKWISE_OUTPUT_FILE"
"""Set by `up --background` for the process that it starts."""
LOOK_SECONDS: Final = 30.0
MAX_BYTES: Final = 50 * 1024 * 1024
STREAMS: Final = (1, 2)


class OutputFile:
    """The file behind the standard streams of this process."""

    def __init__(self, path: Path, *, bytes_most: int = MAX_BYTES, streams: tuple[int, ...] = STREAMS) -> None:
        self._path = path
        self._bytes_most = bytes_most
        self._streams = streams

    def bound(self) -> bool:
        """Begin the file anew if it is over its limit; True if that was done. A disk that cannot take it is not the
        process's end: it is tried again at the next look."""
        try:
            state = os.fstat(self._streams[-1])
            if state.st_size <= self._bytes_most or not os.path.samestat(state, self._path.stat()):
                return False
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            return False
        for stream in self._streams:
            os.dup2(fresh, stream)
        os.close(fresh)
        return True
