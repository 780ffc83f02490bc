"""The output of a process on its way to the sink of its attempt, and the files that the process wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tickwise.adapters.runner.slots import Attempt

READ_BYTES: Final = 1 << 16
MAX_READS: Final = 64
"""Of the rest of a pipe: at most the capacity of one."""
PUMP_PAUSE_SECONDS: Final = 0.1
"""The pause of a pipe's reader when too much of its output waits to be stored."""


class OutputPump:
    """Moves output from the pipe to the sink; stands still while the sink has too much to store."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, attempt: Attempt, grace_seconds: float
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._attempt = attempt
        self._grace_seconds = grace_seconds
        self._paused: asyncio.TimerHandle | None = None
        loop.add_reader(descriptor, self._read)

    def _read(self) -> None:
        """Move one piece."""
        try:
            content = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        if not content:
            self._loop.remove_reader(self._descriptor)
            return
        self.take(content)
        if self._attempt.sink.is_full and self._paused is None:
            self._loop.remove_reader(self._descriptor)
            self._paused = self._loop.call_later(PUMP_PAUSE_SECONDS, self._resume)

    def take(self, content: bytes) -> None:
        """Write a piece to the sink."""
        self._attempt.write(content, grace_seconds=self._grace_seconds)

    def _resume(self) -> None:
        self._paused = None
        self._loop.add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        """Read no more."""
        if self._paused is not None:
            self._paused.cancel()
            self._paused = None
        self._loop.remove_reader(self._descriptor)

    def finish(self) -> None:
        """Take the rest of the pipe, at most the capacity of a pipe, and close it."""
        self.stop()
        for piece in rest_of(self._descriptor):
            self.take(piece)
        self.close()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


def rest_of(descriptor: int) -> Sequence[bytes]:
    """The rest of a pipe whose writers are gone, at most its capacity."""
    pieces: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while len(pieces) < MAX_READS and (piece := os.read(descriptor, READ_BYTES)):
            pieces.append(piece)
    return pieces


def read_plain(file: Path, most: int, *, uid: int) -> bytes | None:
    """The beginning of a plain file that a task of this user has written; None if it wrote none. A link to another
    user's file, which we might read and the task might not, does not count."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != uid:
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as opened:
        return opened.read(most)
