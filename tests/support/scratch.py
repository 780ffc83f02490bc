"""A place for the clusters of tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tickwise.adapters.embedded.settings import GB


def scratch() -> str:
    """Memory, if there is enough: a busy disk makes each new cluster take seconds. Short, for the socket's path."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > GB and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
        return str(memory)
    return "/tmp"
