"""Output that an attempt wrote and the store of outputs does not have yet: how much, and on which executor it waits.

Nothing counts it. An attempt that ended says how long its log is, and the store says how much of the log is there.
While the last part is missing, the difference waits on the disk of the executor that ran the attempt.
"""

from __future__ import annotations

from typing import NamedTuple

from tickwise.control.context import ControlContext
from tickwise.ports.store import RunRow


class WaitingOutput(NamedTuple):
    """The part of a log that has not come."""

    size_bytes: int
    executor: str
    """The name of the executor that has it."""
    is_gone: bool
    """That executor does not run. The next one on its data folder delivers what it left."""

    @property
    def sentence(self) -> str:
        """For people."""
        where = f"{self.size_bytes} bytes of its output wait on the executor {self.executor}"
        if self.is_gone:
            return f"{where}, which is gone. Start an executor on its data folder: it delivers them"
        return f"{where}, for the store of outputs is away or slow. They are delivered when it answers"


async def waiting_output(context: ControlContext, row: RunRow, attempt: int, stored_bytes: int) -> WaitingOutput | None:
    """The missing part of the log of an attempt that is over and whose last part is not stored. None: none is missing,
    or the outputs of this installation never wait, or retention took them."""
    kept_seconds = context.outputs_kept_seconds
    if kept_seconds is None or not attempt:
        return None
    found = next((each for each in await context.store.runs.attempts(row.run_id) if each.attempt == attempt), None)
    if found is None or found.ended_at is None or not found.output_bytes:
        return None
    missing = found.output_bytes - stored_bytes
    now = await context.time.now()
    if missing <= 0 or now - found.ended_at >= kept_seconds:
        return None
    rows = await context.store.executors.all(between=(found.ended_at, now))
    known = next((each for each in rows if each.executor == found.executor), None)
    if known is None:
        return WaitingOutput(missing, str(found.executor), is_gone=True)
    return WaitingOutput(missing, known.name, is_gone=known.gone_at is not None or known.lease_until <= now)
