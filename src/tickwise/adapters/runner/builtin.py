"""The runners that the product brings, registered here once.

    RUNNERS ──► wiring: one runner each ──► control: their kinds, with checks, limits and reasons
                                        ──► the executor: starts them
                                        ──► the description of the API, its pages

Each entry is a callable that takes `RunnerSettings` and returns a `Runner`, as an entry point of a plugin does. The
runner of functions is not among them, because it takes settings of its own and reports spare places:
`wiring/runtime.py` makes it. docs/how-to/add-a-task-kind.md shows the steps for a new kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickwise.adapters.runner.container.router import IsolationRouter
from tickwise.adapters.runner.http.runner import HttpRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Runner

RUNNERS: Final[tuple[Callable[[RunnerSettings], Runner], ...]] = (
    IsolationRouter,
    HttpRunner,
)
