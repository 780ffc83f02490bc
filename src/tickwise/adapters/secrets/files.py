"""Secrets from files, as Kubernetes and Docker mount them: a folder for each namespace, a file for each secret.

    <secrets_files>/billing/db-password     `secret:files:db-password` of billing

Kubernetes puts a link in the place of each file (`db-password` ──► `..data/db-password`, `..data` ──► `..2026_11_…`),
to replace all of them at once. So links are followed, but only within the folder of the namespace: each step is taken
from the descriptor of the folder before it, and no step leads up or to an absolute path.

Invariant: no name and no link opens a file outside of the folder of its namespace.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tickwise.domain.errors import Invalid
from tickwise.domain.secrets.references import clean_secret_name
from tickwise.ports.secrets import SecretFault, WantedSecret

VALUE_BYTES_MOST: Final = 1 << 20
STEPS_MOST: Final = 20
"""Links and folders on the way to one file."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A named pipe must not hold the executor up.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class FileSecrets:
    """`SecretProvider` of the port."""

    name = "files"

    def __init__(self, root: Path) -> None:
        self._root = root

    async def values(self, wanted: Sequence[WantedSecret]) -> Mapping[WantedSecret, bytes | SecretFault]:
        """See the port."""
        return await asyncio.to_thread(lambda: {each: self._value(each) for each in wanted})

    def _value(self, wanted: WantedSecret) -> bytes | SecretFault:
        try:
            clean_secret_name(wanted.name)
            clean_secret_name(wanted.namespace)
        except Invalid as wrong:
            return SecretFault(wrong.detail, is_passing=False)
        shown = f"{wanted.namespace}/{wanted.name}"
        try:
            return self._read(wanted)
        except _Refused as refused:
            return SecretFault(f"{shown} in the folder of secrets {refused}", is_passing=False)
        except FileNotFoundError:
            return SecretFault(f"the folder of secrets has no file {shown}", is_passing=False)
        except OSError as error:
            # A disk that is away comes back; rights and kinds of files stay as they are.
            stays = error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)
            return SecretFault(f"{shown} in the folder of secrets cannot be read: {error.strerror}", not stays)

    def _read(self, wanted: WantedSecret) -> bytes:
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            place = os.open(wanted.namespace, _FOLDER, dir_fd=root)
        finally:
            os.close(root)
        descriptor = _opened_within(place, wanted.name)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise _Refused("is no file")
            value = file.read(VALUE_BYTES_MOST + 1)
        if len(value) > VALUE_BYTES_MOST:
            raise _Refused(f"has more than {VALUE_BYTES_MOST} bytes")
        return value

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


class _Refused(Exception):
    """The way to a file, or the file, is none that is taken. Its text goes on from the name of the file."""


def _opened_within(place: int, name: str) -> int:
    """Open a file below a folder; `place` is closed. Raises `_Refused` for a way that leaves it, `OSError`."""
    steps, taken = [name], 0
    try:
        while True:
            step = steps.pop(0)
            taken += 1
            if taken > STEPS_MOST:
                raise _Refused("has too many links on its way")
            target = _link(place, step)
            if target is not None:
                parts = target.split("/")
                if target.startswith("/") or ".." in parts:
                    raise _Refused("is a link that leads out of its folder")
                steps = [part for part in parts if part not in ("", ".")] + steps
                if not steps:
                    raise _Refused("is no file")
            elif not steps:
                return os.open(step, _FILE, dir_fd=place)
            else:
                below = os.open(step, _FOLDER, dir_fd=place)
                os.close(place)
                place = below
    finally:
        os.close(place)


def _link(place: int, name: str) -> str | None:
    """The target of a link; None: it is none."""
    try:
        return os.readlink(name, dir_fd=place)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
