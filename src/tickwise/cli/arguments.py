"""Secrets on the command line: every user of a machine can read the arguments of every process, so secrets in them are
overwritten.

The kernel shows the arguments as they are in the memory of the process; what is written over there is shown no more.
There is a moment before, as long as the start of Python takes: an address in the environment has none.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

import click

API_KEY: Final = re.compile(r"tw[a-z]?_[0-9A-Za-z_-]{40,}")
"""The form of the secrets that a server gives out (`control/keys/forms.py`)."""
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


def job_key_option(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """The callback of `--key`, the key of a job. Raises `click.UsageError` for an API key: as a job's key it would be
    stored, and shown in lists."""
    own = {os.environ.get(name) for name in ("TICKWISE_API_KEY", "TICKWISE_BOOTSTRAP_KEY")}
    if value and (API_KEY.fullmatch(value) or value in own):
        blot_out(value)
        raise click.UsageError(
            "--key is the key of the job, and what follows it looks like an API key: give that with --api-key, or in "
            "TICKWISE_API_KEY. Nothing was sent."
        )
    return value
