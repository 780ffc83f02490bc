"""The usage of one attempt, from the end of its process and from its watch."""

from __future__ import annotations

from tickwise.adapters.runner.artefacts import LeftFiles
from tickwise.adapters.runner.process.limits import Watched
from tickwise.adapters.runner.process.tree import Reaped
from tickwise.domain.observing.usage import NOT_MEASURED, ResourceUsage


def usage_of(
    reaped: Reaped | None, watched: Watched | None = None, left: LeftFiles | None = None
) -> ResourceUsage | None:
    """The usage of a task by its end, by its control group and its watch if it has them, and by the files that it has
    left; None: nothing of it is known."""
    cpu, memory, disk = (None, None, None) if reaped is None else reaped[1:]
    work = None if left is None else left.seen_bytes
    if watched is not None:
        cpu = max(cpu or 0.0, watched.cpu_seconds) if cpu is not None or watched.cpu_seconds else None
        memory = memory if watched.memory_bytes is None else watched.memory_bytes
        work = work if watched.space is None else watched.space.peak_bytes
    read, written = (None, None) if disk is None else disk
    found = ResourceUsage(cpu, memory, read_bytes=read, written_bytes=written, work_bytes=work)
    return None if found == NOT_MEASURED else found
