"""The processor time and the memory of the place that an executor and its tasks run in, as metrics tell of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class HostUsage(NamedTuple):
    """The resources of a host, or of the control group that bounds this process, and their use."""

    cpu_seconds: float
    """Processor time used since the host or the group began: it only grows."""
    cpu_cores: float
    """Cores that may be used at once, such as 2 or 0.5."""
    memory_bytes: int
    """Memory that cannot be taken back from what runs, so without caches of files."""
    memory_limit_bytes: int
    """The most that may be used: what lies beyond is killed by the kernel."""


ReadHost = Callable[[], HostUsage]
"""Reads it anew: some small files of the kernel, less than a millisecond. Raises `OSError`."""
