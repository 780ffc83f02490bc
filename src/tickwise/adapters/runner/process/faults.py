"""Failures of the surroundings of a task: no retry helps before a person has changed something, and each says what.

the program or the folder is not there   not_started        before the task begins
the program is no Python, or too old     interpreter_fault  from what `python_gate` wrote
a module is not installed                missing_module     from the exception, else from the last line of the output

Beside them, endings of attempts whose exit status tells nothing, or which never began.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tickwise.adapters.runner.process.python_gate import OLDEST
from tickwise.adapters.runner.process.tree import UNKILLABLE
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.retry import ISOLATION_MISSING, OUTCOME_LOST
from tickwise.ports.runner import Ending, Verdict

MODULE_ERROR: Final = "ModuleNotFoundError"
UNCONFINED_SECONDS: Final = 60.0
"""For so long, a run that cannot be confined here is another executor's."""
_MISSING: Final = re.compile(rf"{MODULE_ERROR}: No module named '([\w.]{{1,200}})'.{{0,300}}")
_VERSION: Final = re.compile(rb"(\d{1,3})\.(\d{1,3})\.\d{1,3}")
_OLDEST: Final = ".".join(map(str, OLDEST))


class Fault(NamedTuple):
    """The end of an attempt whose surroundings are not as its task needs them."""

    reason: str
    error: str
    verdict: Verdict = Verdict.INVALID


def not_started(task: Mapping[str, Any], error: OSError, *, user: str | None) -> Fault:
    """The failure of a task that the system could not start. `user`: as which it runs, if that is not the executor's
    own."""
    named, folder = os.fsdecode(error.filename or ""), task.get("directory")
    why = f"{error.strerror} (tasks run as the user {user} here)" if user is not None else f"{error.strerror}"
    # The starter names no file for a folder that it cannot enter, and always names a program.
    if folder is not None and named in (folder, ""):
        return Fault(
            "directory_missing",
            f"its folder {folder} cannot be entered on this executor: {why}. Make it there, or name another: "
            "task.directory, --dir",
        )
    python = task.get("python")
    if python is not None and named == python:
        return Fault(
            "interpreter_missing",
            f"its interpreter {python} cannot be started on this executor: {why}. It was removed or never there, or "
            "that user cannot reach it; make it again, or name another: task.python, --python",
        )
    return Fault("not_started", f"it could not be started: {error.strerror}: {named}", Verdict.FAILED)


def interpreter_fault(task: Mapping[str, Any], version: bytes | None, tail: str) -> Fault | None:
    """The failure of an interpreter that could not run the script; None: it could. `version`: what it wrote of itself;
    `tail`: the end of its output."""
    python = task.get("python", "the interpreter")
    found = _VERSION.fullmatch(version or b"")
    if found is None:
        said = f": {tail}" if tail else ""
        return Fault(
            "interpreter_unusable",
            f"{python} did not run the script: it is no Python, or a broken one; name another (task.python, --python)"
            f"{said}",
        )
    if (int(found[1]), int(found[2])) < OLDEST:
        return Fault(
            "python_too_old",
            f"{python} is Python {found[0].decode()}, and scripts need {_OLDEST} or newer; name another (task.python, "
            "--python)",
        )
    return None


def missing_module(tail: str, symptoms: Sequence[str] | None) -> Fault | None:
    """The failure of a script that imports what is not installed; None: it failed otherwise. `symptoms`: the names of
    its exception, where they were noted; None: the last line of its output tells."""
    if symptoms is not None and MODULE_ERROR not in symptoms:
        return None
    found = _MISSING.fullmatch(tail.rpartition("\n")[2])
    if found is None and symptoms is None:
        return None
    name = "a module that it imports" if found is None else f"the module {found[1]}"
    return Fault(
        "module_missing",
        f"{name} is not installed for its Python. Name a Python that has it (--python PATH, task.python), declare the "
        "package (a header in the script, or --requirements FILE), let a module of your own travel with the script "
        "(--file, task.files), or install it where executors run.",
    )


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
