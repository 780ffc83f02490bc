"""Secrets on the command line: every user of a machine can read the arguments of every process, so secrets in them are
overwritten.

The kernel shows the arguments as they are in the memory of the process; what is written over there is shown no more.
There is a moment before, as long as the start of Python takes: an address in the environment has none.
"""

from __future__ import annotations

from typing import Any

import click

_ARGUMENTS_BEGIN = 47
"""Of the fields of `/proc/self/stat`, counted from 0: where the arguments are in memory."""


def blot_out(secret: str) -> None:
    """Write over this text in the arguments of this process, wherever it stands there. Elsewhere than on Linux nothing
    is done."""
    import ctypes

    try:
        with open("/proc/self/cmdline", "rb") as file:
            arguments = file.read()
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return
    wanted = secret.encode(errors="surrogateescape")
    begin = int(fields[_ARGUMENTS_BEGIN - 2])
    place = arguments.find(wanted) if wanted else -1
    while place >= 0 and begin > 0:
        ctypes.memset(begin + place, ord("*"), len(wanted))
        place = arguments.find(wanted, place + len(wanted))


def secret_option(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """The callback of an option whose value is a secret."""
    if isinstance(value, str):
        blot_out(value)
    return value
