"""Blobs that wait on the disk of an executor, oldest first.

    spool/<name>/lock                              held for as long as its executor lives
    spool/<name>/<number>!<key with ! for />       one blob each, numbers in the order of the writes

A file appears complete or not at all, and its name alone says what it is: after `kill -9` the next executor on this
folder finds all that was written, takes it over by renaming, and delivers it. Written files are left to the kernel, so
a power cut can cost those of its last seconds. Everything here blocks: call it in a thread.

Invariant: the files of a live executor are touched by that executor alone, for only one process can hold the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO, Final, NamedTuple

from tickwise.ports.blobs import is_key

LOCK: Final = "lock"
_PART: Final = ".part"


class SpooledFile(NamedTuple):
    """One blob that waits."""

    number: int
    key: str
    size_bytes: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.number:016d}!{self.key.replace('/', '!')}"

    @property
    def folder(self) -> str:
        """The folder of its key: blobs of one folder are delivered in their order."""
        return self.key.rpartition("/")[0]


class SpoolFiles:
    """The files of one executor."""

    def __init__(self, root: Path) -> None:
        """Make a folder of its own below `root` and lock it. Raises `OSError`."""
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._root = root
        self._folder = _made_below(root)
        lock = _locked(self._folder)
        assert lock is not None, "nobody else knows this folder"
        self._lock = lock
        self._next = 0

    def number(self) -> int:
        """The number of the next file."""
        self._next += 1
        return self._next

    def write(self, file: SpooledFile, content: bytes) -> None:
        """Keep a blob. Raises `OSError`, and then nothing of it is left."""
        part = self._folder / f"{file.number:016d}{_PART}"
        try:
            part.write_bytes(content)
            part.rename(self._folder / file.name)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def read(self, file: SpooledFile) -> bytes:
        """The content of a blob that waits."""
        return (self._folder / file.name).read_bytes()

    def remove(self, file: SpooledFile) -> None:
        """Forget a blob that was delivered."""
        (self._folder / file.name).unlink(missing_ok=True)

    def adopt(self) -> list[SpooledFile]:
        """Take over the files of executors that are gone, in their order."""
        adopted: list[SpooledFile] = []
        for folder in sorted(self._root.iterdir()):
            if folder == self._folder or not folder.is_dir():
                continue
            lock = _locked(folder)
            if lock is None:
                continue
            with lock:
                adopted += self._take_over(folder)
        return adopted

    def _take_over(self, folder: Path) -> Iterator[SpooledFile]:
        for path in sorted(folder.iterdir()):
            number, _, name = path.name.partition("!")
            key = name.replace("!", "/")
            if number.isdigit() and is_key(key):
                file = SpooledFile(self.number(), key, path.stat().st_size)
                path.rename(self._folder / file.name)
                yield file
            elif path.name == LOCK or path.suffix == _PART:
                path.unlink()
        with contextlib.suppress(OSError):  # something of others lies in it
            folder.rmdir()

    def close(self) -> None:
        """Free the folder; remove it if nothing waits in it."""
        if not any(path.name != LOCK for path in self._folder.iterdir()):
            (self._folder / LOCK).unlink(missing_ok=True)
            self._folder.rmdir()
        self._lock.close()


def _made_below(root: Path) -> Path:
    """A new folder: in a container each executor has the number of the one before."""
    for number in count():
        folder = root / f"{os.getpid()}-{number}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return folder
    raise AssertionError("numbers do not end")


def _locked(folder: Path) -> IO[bytes] | None:
    """The lock of a folder; None: a live executor has it, or the folder is just gone."""
    try:
        lock = (folder / LOCK).open("ab")
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    try:
        is_there = os.path.samestat(os.fstat(lock.fileno()), (folder / LOCK).stat())
    except FileNotFoundError:
        is_there = False
    if not is_there:
        lock.close()  # removed by its holder between our open and our lock
        return None
    return lock
