"""Landlock: rights that a process gives up for itself and for all that it starts. The wall behind the namespaces.

    restrict(readable, writable)   files, by folder; then no mount is possible any more, so it comes after bubblewrap
    restrict_scope()               no signal to a process outside, no abstract socket of one: it may come before

Needs no right and no library: three calls of the kernel. It holds the thread that calls it and what that thread starts.
UDP and sockets with a path are not covered by the kernel.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

CREATE_RULESET: Final = 444
ADD_RULE: Final = 445
RESTRICT_SELF: Final = 446
VERSION_FLAG: Final = 1
RULE_PATH_BENEATH: Final = 1
PR_SET_NO_NEW_PRIVS: Final = 38

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_FOLDER: Final = 1 << 3
REFER: Final = 1 << 13
"""To link or rename between folders; since ABI 2."""
TRUNCATE: Final = 1 << 14
"""Since ABI 3."""
DEVICE_IOCTL: Final = 1 << 15
"""Since ABI 5."""
FIRST_RIGHTS: Final = (1 << 13) - 1
OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_IOCTL
"""The rights that a rule about a file may have; the others are about folders."""
READ: Final = EXECUTE | READ_FILE | READ_FOLDER
TCP: Final = 1 << 0 | 1 << 1
"""To bind and to connect; since ABI 4."""
SCOPES: Final = 1 << 0 | 1 << 1
"""Abstract sockets and signals; since ABI 6."""
TCP_SINCE: Final = 4
SCOPES_SINCE: Final = 6


def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0: it has none, or it is turned off."""
    with suppress(OSError):
        return _call(CREATE_RULESET, None, 0, VERSION_FLAG)
    return 0


def restrict(readable: Iterable[Path], writable: Iterable[Path], *, tcp: bool = True) -> int:
    """Let this thread, and what it starts, read and execute only below `readable`, and do anything only below
    `writable`; and, where the kernel can, signal nothing outside, reach no abstract socket outside and, without `tcp`,
    open no TCP connection. A path that is not there is left out. Returns the ABI; 0: nothing is restricted, for the
    kernel cannot. Raises `OSError`."""
    abi = landlock_abi()
    if abi == 0:
        return 0
    files = FIRST_RIGHTS | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0)
    files |= DEVICE_IOCTL if abi >= 5 else 0
    rules = _ruleset(abi, files, tcp=tcp)
    try:
        for path in readable:
            _allow(rules, path, READ & files)
        for path in writable:
            _allow(rules, path, files)
        _restrict_self(rules)
    finally:
        os.close(rules)
    return abi


def restrict_scope() -> int:
    """Let this thread, and what it starts, signal no process and reach no abstract socket outside of it. Returns the
    ABI; below `SCOPES_SINCE` nothing is restricted. Raises `OSError`."""
    abi = landlock_abi()
    if abi >= SCOPES_SINCE:
        rules = _ruleset(abi, 0, tcp=True)
        try:
            _restrict_self(rules)
        finally:
            os.close(rules)
    return abi


def _ruleset(abi: int, files: int, *, tcp: bool) -> int:
    fields = [files]
    if abi >= TCP_SINCE:
        fields.append(0 if tcp else TCP)
    if abi >= SCOPES_SINCE:
        fields.append(SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _call(CREATE_RULESET, attributes, len(attributes), 0)


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= OF_FILES
        _call(ADD_RULE, rules, RULE_PATH_BENEATH, struct.pack("=Qi", rights, opened), 0)
    finally:
        os.close(opened)


def _restrict_self(rules: int) -> None:
    none = ctypes.c_ulong(0)
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), none, none, none) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    _call(RESTRICT_SELF, rules, 0)


def _call(number: int, *arguments: int | bytes | None) -> int:
    """One call of the kernel. Raises `OSError`."""
    given = [each if each is None or isinstance(each, bytes) else ctypes.c_long(each) for each in arguments]
    found: int = _libc.syscall(ctypes.c_long(number), *given)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
