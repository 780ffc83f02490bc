"""Explains output that is not where it should be: it waits on an executor, or its store is away.

Of an attempt that is over the missing bytes are known exactly (`runs/waiting_output.py`). Of one that runs its executor
knows what waits of all its runs, and says so among the active roles.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from tickwise.control.context import ControlContext
from tickwise.control.explain.explanations import Explanation, sentence
from tickwise.control.runs.logs import LogReader
from tickwise.control.runs.waiting_output import waiting_output
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.shared_state import SharedState
from tickwise.ports.store import RunRow
from tickwise.roles.shared.membership import active_roles

LOOK_SECONDS: Final = 2.0
"""The longest that an explanation waits for the store of outputs."""


class OutputExplanations:
    """Adds to the explanation of a run what is to say of its output."""

    def __init__(self, context: ControlContext, membership: SharedState | None) -> None:
        self._context = context
        self._membership = membership

    async def told(self, found: Explanation, row: RunRow) -> Explanation:
        """The explanation, with a sentence about output that is missing; as it is where outputs never wait."""
        if self._context.outputs_kept_seconds is None or not row.attempt:
            return found
        try:
            if row.state is RunState.RUNNING:
                return await self._of_running(found, row)
            async with asyncio.timeout(LOOK_SECONDS):
                log = await LogReader.open(self._context.blobs, row.run_id, row.attempt)
        except (Unavailable, TimeoutError):
            words = sentence("the store of outputs does not answer, so its output cannot be read now")
            return replace(
                found, sentence=f"{found.sentence} {words}", data={**found.data, "output": {"readable": False}}
            )
        waiting = None if log.is_closed else await waiting_output(self._context, row, row.attempt, log.size)
        if waiting is None:
            return found
        said = {"waiting_bytes": waiting.size_bytes, "executor": waiting.executor, "executor_gone": waiting.is_gone}
        words = sentence(waiting.sentence)
        return replace(found, sentence=f"{found.sentence} {words}", data={**found.data, "output": said})

    async def _of_running(self, found: Explanation, row: RunRow) -> Explanation:
        if self._membership is None:
            return found
        rows = await self._context.store.executors.all()
        names = [each.name for each in rows if each.executor == row.executor]
        facts = [
            role
            for role in await active_roles(self._membership)
            if role.role == "executor" and role.name in names and role.output_waiting_bytes
        ]
        if not facts:
            return found
        said = {"waiting_bytes_of_executor": facts[0].output_waiting_bytes, "executor": facts[0].name}
        words = sentence(
            f"{facts[0].output_waiting_bytes} bytes of output wait on the executor {facts[0].name}, of this run or of "
            f"others that it has: {facts[0].output_failure or 'they are being delivered'}"
        )
        return replace(found, sentence=f"{found.sentence} {words}", data={**found.data, "output": said})
