"""Shows the end of the lease to the processes that watch an executor's tasks: in shared memory, without a message."""

from __future__ import annotations

import mmap
import struct
import tempfile


class LeaseBeacon:
    """A moment on the monotonic clock, in the first 8 bytes of a file in memory. Moving it is one store instruction, so
    an executor that is stopped at any point leaves the old moment or the new one."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the executor is
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)

    @property
    def descriptor(self) -> int:
        """The descriptor of the lease file, for processes that watch the lease."""
        return self._file.fileno()

    def hold_until(self, moment: float) -> None:
        """Tasks may run until then, and no longer unless this is called again."""
        self._memory[:8] = struct.pack("d", moment)
