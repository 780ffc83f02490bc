"""Log files that rotate, and never stop the process that writes them.

    FOLDER/tickwise-executor.log      the newest lines; held by one process (…-2.log is the second of that role)
    FOLDER/tickwise-executor.log.1    before them, and so on, up to the number that is kept
    FOLDER/tickwise-executor.lock     locked while that process lives

Each process writes a file of its own: two that rotate one file would take lines from each other. A file that was moved
away (logrotate) or removed is opened anew, at the next line or at SIGHUP.

Invariant: a line that cannot be written (disk full, folder gone) is counted and dropped, and no caller hears of it. The
console is told once, and once more when lines are written again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from tickwise.domain.errors import Misconfigured

PROCESSES_MAX: Final = 100
"""Processes of one role that write to one folder."""
_MODE: Final = 0o640


def claimed_file(folder: Path, name: str) -> tuple[Path, TextIO | None]:
    """A log file in this folder that no other process writes to, and the lock on it, which is held while it is open.
    Raises `Misconfigured` if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, PROCESSES_MAX + 1):
            stem = name if number == 1 else f"{name}-{number}"
            lock = (folder / f"{stem}.lock").open("a", encoding="utf-8")
            if _locked(lock):
                return folder / f"{stem}.log", lock
            lock.close()
    except OSError as failure:
        raise Misconfigured(
            f"the folder {folder} for log files cannot be written: {failure.strerror or failure}; "
            "set TICKWISE_LOG_DIR to one that can, or unset it"
        ) from failure
    raise Misconfigured(f"{PROCESSES_MAX} processes write logs named {name} to {folder}; give each host a folder")


def _locked(lock: TextIO) -> bool:
    """Take the lock, unless another process has it."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class LogLosses:
    """Counts lines that could not be written, by where to."""

    def __init__(self) -> None:
        self.lost: dict[str, int] = {"file": 0, "console": 0}


class RotatingLog(logging.Handler):
    """Writes to one file. The lock of `logging.Handler` makes it safe for threads."""

    def __init__(
        self,
        file: Path,
        *,
        bytes_most: int,
        kept: int,
        losses: LogLosses,
        failed: Callable[[OSError], None],
        recovered: Callable[[int], None],
        lock: TextIO | None = None,
    ) -> None:
        """`bytes_most`: of one file, 0 for any size (logrotate moves it). `kept`: earlier files. `failed` is called
        when lines begin to be lost, `recovered` with their number when they are written again. Both may log."""
        super().__init__()
        self._file = file
        self._bytes_most = bytes_most
        self._kept = kept
        self._losses = losses
        self._failed = failed
        self._recovered = recovered
        self._claim = lock
        self._stream: TextIOWrapper | None = None
        self._size = 0
        self._place: tuple[int, int] | None = None
        """Device and inode of the open file."""
        self._lost = 0
        """Lines since the last one that was written."""
        try:
            self._open()
        except OSError as failure:
            raise Misconfigured(f"the log file {file} cannot be written: {failure.strerror or failure}") from failure

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001  # what a library put into its record is not ours
            line = f'{{"event": "a line of {record.name} that cannot be formatted"}}\n'
        try:
            self._write(line)
        except OSError as failure:
            self._lose(failure)
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            self._recovered(lost)

    def reopen(self) -> None:
        """Open the file by its name, as after a rotation by another program."""
        with self.lock or contextlib.nullcontext():
            self._close_stream()

    def close(self) -> None:
        with self.lock or contextlib.nullcontext():
            self._close_stream()
            if self._claim is not None:
                self._claim.close()
                self._claim = None
        super().close()

    def _write(self, line: str) -> None:
        """Raises `OSError`."""
        size = len(line.encode(errors="backslashreplace"))
        if self._stream is None or self._was_moved():
            self._close_stream()
            self._open()
        elif self._bytes_most and self._size and self._size + size > self._bytes_most:
            self._rotate()
        assert self._stream is not None
        self._stream.write(line)
        self._stream.flush()
        self._size += size

    def _was_moved(self) -> bool:
        """Check whether the name stands for another file by now, or for none."""
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return True
        return (found.st_dev, found.st_ino) != self._place

    def _open(self) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
        found = os.fstat(descriptor)
        self._place, self._size = (found.st_dev, found.st_ino), found.st_size
        self._stream = os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def _rotate(self) -> None:
        """The newest becomes `.1`; the oldest is removed. Raises `OSError`."""
        self._close_stream()
        if self._kept:
            for number in range(self._kept - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(self._numbered(number), self._numbered(number + 1))
            os.replace(self._file, self._numbered(1))
        else:
            self._file.unlink()
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            # What it could not write when the disk was full, it cannot write now either.
            with contextlib.suppress(OSError):
                stream.close()

    def _lose(self, failure: OSError) -> None:
        self._close_stream()
        self._losses.lost["file"] += 1
        self._lost += 1
        if self._lost == 1:
            self._failed(failure)


class ConsoleLog(logging.StreamHandler[TextIO]):
    """Writes to the console. A console that cannot be written (a file on a full disk, a closed pipe) stops nothing."""

    def __init__(self, stream: TextIO, losses: LogLosses) -> None:
        super().__init__(stream)
        self._losses = losses

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802  # the library's name
        """Count the line."""
        self._losses.lost["console"] += 1
