"""The kinds of tasks that the product brings."""

from __future__ import annotations

from collections.abc import Sequence

from tickwise.adapters.runner.kinds import FunctionKind, HttpKind, PythonKind, ShellKind
from tickwise.ports.runner import TaskKind


def builtin_kinds() -> Sequence[TaskKind]:
    """All of them."""
    return (FunctionKind(), PythonKind(), ShellKind(), HttpKind())
