"""The kinds of tasks that the product brings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.builtin import RUNNERS
from tickwise.adapters.runner.function.runner import FunctionRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import TaskKind


@cache
def builtin_kinds() -> Sequence[TaskKind]:
    """All of them, from their registration. The runners are made, and not started."""
    settings = RunnerSettings(blobs=open_blobs("memory://"), clock=SystemClock(), work_root=Path("not-made"))
    runners = (FunctionRunner(settings, workers=1, modules=()), *(make(settings) for make in RUNNERS))
    return tuple(kind for runner in runners for kind in runner.kinds)
