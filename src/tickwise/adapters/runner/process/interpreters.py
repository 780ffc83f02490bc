"""The interpreter of a script: the executor's own, or the one that its task names.

The executor's own runs a script at once. Any other one begins with `python_gate`, because nobody knows it: it says its
version, and which exception ended the script.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tickwise.adapters.runner.process.python_gate import VERSION_FILE
from tickwise.adapters.runner.process.python_launcher import SYMPTOMS_FILE

FLAGS: Final = ("-u", "-s", "-B")
"""-u: output is seen while it is written; -s: nothing from the home folder; -B: no litter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter of Python tasks, and the programs that scripts begin with."""

    program: str
    """A whole path, or a name to be found on the task's PATH."""
    launcher: str
    """The script that notes which exception ended a task (`python_launcher`)."""
    gate: str = ""
    """The script that every other interpreter begins with (`python_gate`)."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables that the program needs."""
    is_own: bool = True
    """It is the executor's own."""
    is_built: bool = False
    """It is that of an environment that was built for scripts: what lies beside it comes from packages of strangers."""

    def arguments(self, script: Path, folder: Path, *, names_errors: bool) -> Sequence[str]:
        """The command line that runs a script; notes about it go into `folder`."""
        symptoms = str(folder / SYMPTOMS_FILE)
        if not self.is_own:
            version = str(folder / VERSION_FILE)
            return [self.program, *FLAGS, self.gate, str(script), symptoms, version, self.launcher]
        launched = [self.launcher, str(script), symptoms] if names_errors else [str(script)]
        return [self.program, *FLAGS, *launched]


def interpreter_of(task: Mapping[str, Any], own: Interpreter) -> Interpreter:
    """The interpreter that runs the script of a task."""
    named = task.get("python")
    if named is None or _is_own(named):
        return own
    return replace(own, program=named, environment={}, is_own=False)


def _is_own(named: str) -> bool:
    """Check whether this is the Python of the executor by its path. Where tasks run as other users, these may only
    reach the copy of it that was made for them."""
    if os.path.dirname(named) != os.path.dirname(sys.executable):
        return False
    try:
        return os.path.samefile(named, sys.executable)
    except OSError:
        return False
