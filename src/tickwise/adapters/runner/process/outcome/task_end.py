"""The end of a task of which nothing lives, and the ending of its attempt by its result."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tickwise.adapters.runner.artefacts import LeftFiles
from tickwise.adapters.runner.process.tree import Reaped
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.observing.usage import ResourceUsage
from tickwise.ports.runner import Ending, Verdict


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
