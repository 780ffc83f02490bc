"""Files that hold a secret: read only if nobody else may read them.

owned by this user ──► nobody else may read or write it (0600)
owned by root      ──► the group may read it (0640): how Kubernetes and administrators hand out files
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from tickwise.domain.errors import Misconfigured

BYTES_MAX: Final = 64 * 1024


def read_private(file: Path, called: str) -> bytes:
    """The content of a secret file. `called` names it in messages. Raises `Misconfigured` with what to do."""
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as stream:
            # Of the open file: a name could lead elsewhere by now.
            facts = os.fstat(stream.fileno())
            text = stream.read(BYTES_MAX)
    except OSError as failure:
        raise Misconfigured(f"{called} {file} cannot be read: {failure.strerror}") from failure
    if os.name == "posix" and stat.S_IMODE(facts.st_mode) & _forbidden(facts.st_uid):
        raise Misconfigured(f"others may read {called} {file}: chmod 600 {file}")
    return text


def _forbidden(owner: int) -> int:
    """The bits of the mode that a file of this owner must not have."""
    if owner == 0 and os.geteuid() != 0:
        return stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
    return stat.S_IRWXG | stat.S_IRWXO
