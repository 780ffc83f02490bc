"""The frame of runners whose attempts are few and long: a place for each, a queue before them, one way out.

launch ──► waiting ──slot free──► perform(attempt) ──► ended
              └──stop──► RELEASED     └──stop──► the attempt's `trouble` is set, `perform` sees to it
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from tickwise.adapters.runner.output import OutputSink
from tickwise.adapters.runner.secret_values import forms_for, masked_ending, notes_on
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.domain.errors import TickwiseError
from tickwise.domain.observing.usage import NOT_MEASURED
from tickwise.domain.retry import OUTPUT_LOST
from tickwise.domain.rules.capacities import size_in_words
from tickwise.ports.runner import Assignment, Ending, Reports, TaskKind, Verdict

_logger = logging.getLogger(__name__)


class Attempt:
    """One assignment that has, or waits for, a slot."""

    def __init__(self, assignment: Assignment, sink: OutputSink) -> None:
        self.assignment = assignment
        self.sink = sink
        self.started = 0.0
        self.trouble: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when it must end before its time; why: `cancelled`, or the limit that it passed."""
        self.hurry: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when its end must not take any longer."""
        self._patience: asyncio.TimerHandle | None = None
        self._patience_until = math.inf
        """On the loop's clock. (Not every loop's handles can tell.)"""
        self.task: asyncio.Task[None] | None = None
        self.folder: Path | None = None
        """Its own, once that is known; only of processes."""

    def end_early(self, reason: str, grace_seconds: float) -> None:
        """Ask it to end. Only the first reason counts, and of all graces the one that is over first."""
        if not self.trouble.done():
            self.trouble.set_result(reason)
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_seconds
        if grace_seconds <= 0.0:
            self._hurry()
        elif until < self._patience_until:
            self.forget_patience()
            self._patience_until = until
            self._patience = loop.call_later(grace_seconds, self._hurry)

    @property
    def patience_seconds(self) -> float:
        """The time that is left to it, once it was asked to end; before that, without an end."""
        return 0.0 if self.hurry.done() else max(0.0, self._patience_until - asyncio.get_running_loop().time())

    def _hurry(self) -> None:
        if not self.hurry.done():
            self.hurry.set_result(None)
        self.sink.hurry()

    def forget_patience(self) -> None:
        """Cancel the timer that ends the patience with a stopped run."""
        if self._patience is not None:
            self._patience.cancel()

    def write(self, content: bytes, *, grace_seconds: float) -> None:
        """Keep output; over the limit, the attempt has to end."""
        if not self.sink.write(content):
            self.end_early("output_limit", grace_seconds)

    def ending_for(self, reason: str, started: float, ended: float) -> Ending:
        """The verdict of an early end for `reason`."""
        if reason == "cancelled":
            return Ending(Verdict.CANCELLED, started, ended, "cancelled")
        return Ending(Verdict.FAILED, started, ended, reason, _over(reason, self.assignment))


def _over(reason: str, assignment: Assignment) -> str:
    """The limit that it passed, for people."""
    limits = assignment.limits
    match reason:
        case "timeout":
            return f"it ran longer than its {assignment.timeout_seconds:g} s"
        case "cpu_limit":
            return f"it took more processor time than the {limits.cpu_seconds:g} s that the job allows"
        case "memory_limit":
            return f"it needed more memory than the {size_in_words(limits.memory_bytes or 0)} that the job allows"
        case "disk_limit":
            return f"it kept more in its work folder than the {size_in_words(limits.disk_bytes or 0)} that are allowed"
        case "file_limit":
            return f"it kept more files in its work folder than the {limits.files} that the job allows"
        case "process_limit":
            return f"it wanted more processes and threads at once than the {limits.processes} that the job allows"
        case _:
            return f"it wrote more output than the {size_in_words(limits.output_bytes)} that the job allows"


def with_log(ending: Ending, sink: OutputSink) -> Ending:
    """Change an ending when its log is closed: no attempt ends well whose output was lost, and of one that began the
    size of its output is known, unless that was lost."""
    if sink.lost is None:
        if ending.verdict in (Verdict.RELEASED, Verdict.UNOFFERED):
            return ending
        return ending._replace(usage=(ending.usage or NOT_MEASURED)._replace(output_bytes=sink.kept_bytes))
    if ending.verdict is not Verdict.OK:
        return ending
    error = f"it ended well, but its output could not be stored: {sink.lost}"
    return Ending(Verdict.FAILED, ending.started, ending.ended, OUTPUT_LOST, error, usage=ending.usage)


class SlotRunner:
    """Base of runners that give each attempt a slot. A subclass says how to `perform` one."""

    def __init__(self, settings: RunnerSettings, kinds: Sequence[TaskKind]) -> None:
        self._settings = settings
        self._kinds = kinds
        self._labels = tuple(f"task:{kind.name}" for kind in kinds)
        self._waiting: deque[Attempt] = deque()
        self._attempts: dict[UUID, Attempt] = {}
        self._busy = 0
        self._closing = False
        self._reports: Reports
        self._now: Callable[[], float]

    @property
    def kinds(self) -> Sequence[TaskKind]:
        return self._kinds

    def offers(self) -> Sequence[str]:
        return ()

    def labels(self) -> Sequence[str]:
        return self._labels

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        self._reports, self._now = reports, now

    async def perform(self, attempt: Attempt) -> Ending:
        """Carry out one attempt; see to its `trouble` and its timeout. Nothing of it lives when this returns."""
        raise NotImplementedError

    def admit(self, _attempt: Attempt) -> bool:
        """Say whether an attempt may begin now. If not, those behind it are asked, and it again when one has ended."""
        return True

    async def release_resources(self) -> None:
        """Free the runner's own resources; no attempt is left."""

    def launch(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            sink = OutputSink(
                self._settings.blobs,
                self._settings.clock,
                assignment.run_id,
                assignment.attempt,
                limit_bytes=assignment.limits.output_bytes,
                forms=forms_for(assignment),
            )
            attempt = Attempt(assignment, sink)
            self._attempts[assignment.run_id] = attempt
            self._waiting.append(attempt)
        if self._closing:
            self.release_waiting()
        self._fill()

    def stop(self, run_id: UUID, *, grace_seconds: float) -> None:
        attempt = self._attempts.get(run_id)
        if attempt is None:
            return
        if attempt.task is None:
            self._waiting.remove(attempt)
            self._release(attempt)
        else:
            attempt.end_early("cancelled", grace_seconds)

    def renew_identity_token(self, run_id: UUID, token: str) -> None:
        """See `RenewingRunner`. An attempt that still waits begins with this one."""
        attempt = self._attempts.get(run_id)
        if attempt is not None:
            attempt.assignment = attempt.assignment._replace(identity_token=token)
            if attempt.sink.forms is not None:
                attempt.sink.forms.add(token.encode())
            self.hand_over_token(attempt, token)

    def hand_over_token(self, attempt: Attempt, token: str) -> None:
        """Let the task of an attempt find this token, if it has begun and can find another one."""

    def release_waiting(self) -> None:
        while self._waiting:
            self._release(self._waiting.popleft())

    async def close(self) -> None:
        self._closing = True
        self.release_waiting()
        running = [attempt.task for attempt in self._attempts.values() if attempt.task is not None]
        for attempt in self._attempts.values():
            attempt.end_early("cancelled", 0.0)
        if running:
            await asyncio.wait(running)
        await self.release_resources()

    def _release(self, attempt: Attempt) -> None:
        now = self._now()
        self._end(attempt, Ending(Verdict.RELEASED, now, now))

    def _fill(self) -> None:
        while self._busy < self._settings.slots and (attempt := self._next()) is not None:
            self._busy += 1
            attempt.task = asyncio.get_running_loop().create_task(self._carry(attempt))

    def _next(self) -> Attempt | None:
        """The first one that may begin, taken from the queue."""
        for place, attempt in enumerate(self._waiting):
            if self.admit(attempt):
                del self._waiting[place]
                return attempt
        return None

    async def _carry(self, attempt: Attempt) -> None:
        attempt.started = self._now()
        if attempt.assignment.secrets and (notes := notes_on(attempt.assignment)):
            attempt.sink.write_own(*notes)
        try:
            ending = await self.perform(attempt)
        except TickwiseError as error:
            ending = self._not_carried_out(attempt, error.detail)
        except Exception as error:  # after any failure the attempt must end, once
            _logger.exception("run %s attempt %d", attempt.assignment.run_id, attempt.assignment.attempt)
            ending = self._not_carried_out(attempt, f"{type(error).__name__}: {error}")
        ending = masked_ending(ending, attempt.sink.forms)
        attempt.forget_patience()
        await attempt.sink.close(patient=ending.verdict is Verdict.OK)
        ending = with_log(ending, attempt.sink)
        self._busy -= 1
        self._end(attempt, ending)
        self._fill()

    def _not_carried_out(self, attempt: Attempt, why: str) -> Ending:
        return Ending(Verdict.FAILED, attempt.started, self._now(), "error", f"the executor could not run it: {why}")

    def _end(self, attempt: Attempt, ending: Ending) -> None:
        if self._attempts.get(attempt.assignment.run_id) is attempt:
            del self._attempts[attempt.assignment.run_id]
        self._reports.ended(attempt.assignment.run_id, ending)
