"""Endings of attempts whose exit status tells nothing, or which never began."""

from __future__ import annotations

import signal
from typing import Final

from tickwise.adapters.runner.process.tree import UNKILLABLE
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.retry import ISOLATION_MISSING, OUTCOME_LOST
from tickwise.ports.runner import Ending, Verdict

UNCONFINED_SECONDS: Final = 60.0
"""For so long, a run that cannot be confined here is another executor's."""


def signal_name(number: int) -> str:
    """The name of a signal, for people."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"number {number}"


def unknown_ending(attempt: Attempt, ended: float) -> Ending:
    """The end of a task whose starter was killed meanwhile: its exit status is not known."""
    error = "it ended, and its exit status is lost: the process that had started it was killed"
    return Ending(Verdict.UNKNOWN, attempt.started, ended, OUTCOME_LOST, error)


def given_up(attempt: Attempt, pid: int, ended: float) -> Ending:
    """End an attempt whose process could not be killed. No caller waits for the process, and a cancelled run is not
    begun again."""
    cancelled = attempt.trouble.done() and attempt.trouble.result() == "cancelled"
    error = f"its process {pid} does not end although it was killed: it hangs inside the kernel"
    verdict = Verdict.CANCELLED if cancelled else Verdict.FAILED
    return Ending(verdict, attempt.started, ended, UNKILLABLE, error)


def unconfined(why: str, now: float) -> Ending:
    """Give back a run whose job says how it is confined, where it cannot be: it never runs with less around it."""
    return Ending(Verdict.UNOFFERED, now, now, ISOLATION_MISSING, why, retry_after_seconds=UNCONFINED_SECONDS)
