"""The end of a task, and endings of attempts by more than its exit status, or which never began."""

from __future__ import annotations

import signal
from typing import Final, NamedTuple

import msgspec

from tickwise.adapters.runner.artefacts import LeftFiles
from tickwise.adapters.runner.process.tree import UNKILLABLE, Reaped
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.observing.usage import ResourceUsage
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


class TaskEnd(NamedTuple):
    """The end of a task of which nothing lives."""

    reaped: Reaped | None
    """None: its exit status is lost."""
    usage: ResourceUsage | None
    result: bytes | None
    """The content of its files, as far as they matter; None: it wrote none."""
    is_foreign: bool
    """Its interpreter is one that the task names."""
    version: bytes | None
    is_noted: bool
    """The names of an exception would have been noted."""
    symptoms: bytes | None
    found: LeftFiles | None
    """The files that are to be kept; None: there are none."""
    is_tidy: bool = False
    """Its folder is removed."""
    is_warm: bool = False
    ended: float = 0.0
    reason: str | None = None
    """The reason of an early end; None: it ended by itself."""


def ending_with(attempt: Attempt, result: bytes, ended: float, *, most: int) -> Ending:
    """End an attempt that has written a result. `most`: bytes of it."""
    if len(result) > most:
        message = f"the result is larger than {most} bytes; store it elsewhere and write where"
    else:
        try:
            msgspec.json.decode(result)
            return Ending(Verdict.OK, attempt.started, ended, result=result.decode().strip())
        except (UnicodeError, msgspec.DecodeError, RecursionError) as error:
            message = f"the file TICKWISE_RESULT_FILE does not hold JSON: {error}"
    return Ending(Verdict.FAILED, attempt.started, ended, "result", message)
