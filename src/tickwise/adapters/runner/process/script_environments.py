"""The interpreter of a script: the executor's own, or that of the environment that the script declares.

    perform ──► interpreter_of ──► nothing declared: the executor's own
                     └──► declared: held, and built before if need be ──► ScriptPython, until `release`
    prepare ──► the same build, while the executor holds the run until it is due

An attempt that waits for a build is stopped at once when it is cancelled; the build goes on for later runs. The timeout
of a task begins when its script starts: a build has a limit of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tickwise.adapters.runner.process.interpreters import Interpreter
from tickwise.adapters.runner.scripts.demand import ENVIRONMENT_FIELDS, demand_of, needs_build
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.errors import Invalid
from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    Environment,
    EnvironmentDemand,
    EnvironmentFailure,
    Environments,
)
from tickwise.ports.runner import Assignment

MARK: Final = "# /// script"
"""A script without it has no header."""
MAX_PREPARED: Final = 8
"""Environments that are looked for at a time before their scripts are due."""


@dataclass(frozen=True, slots=True)
class NoEnvironment:
    """The reason why a script has no interpreter."""

    reason: str
    """One of `ENVIRONMENT_REASONS`, or why the attempt had to end while it waited."""
    detail: str
    is_permanent: bool
    retry_after_seconds: float | None = None
    is_of_machine: bool = False
    """Another machine may have it."""


@dataclass(frozen=True, slots=True)
class ScriptPython:
    """The interpreter of one attempt."""

    interpreter: Interpreter
    environment: Environment | None = None

    def variables(self, path: str) -> Mapping[str, str]:
        """The variables that programs of the environment are found by. `path`: the `PATH` without it."""
        if self.environment is None:
            return {}
        folder = self.environment.program.parent
        return {"VIRTUAL_ENV": str(folder.parent), "PATH": f"{folder}:{path}"}

    def release(self) -> None:
        """Let the environment go. Once, when nothing of the attempt lives."""
        if self.environment is not None:
            self.environment.release()


class ScriptEnvironments:
    """Finds the interpreters of scripts, for one runner."""

    def __init__(self, environments: Environments | None, own: Interpreter) -> None:
        """`environments`: None, if scripts can have none here. `own`: the interpreter of all other scripts."""
        self._environments = environments
        self._own = ScriptPython(own)
        self._preparing: dict[asyncio.Task[EnvironmentFailure | None], EnvironmentDemand] = {}

    def prepare(self, assignment: Assignment) -> None:
        """Have the environment of a script built before its attempt is due. What fails is told by the attempt."""
        task = assignment.task
        source = str(task.get("source", ""))
        if self._environments is None or task.get("python") is not None or not (_declares(task) or MARK in source):
            return
        try:
            demand = demand_of(assignment.namespace, task, source, assignment.confinement.isolation)
        except Invalid:
            return
        if demand is None or demand in self._preparing.values() or len(self._preparing) >= MAX_PREPARED:
            return
        preparing = asyncio.get_running_loop().create_task(self._environments.prepare(demand))
        self._preparing[preparing] = demand
        preparing.add_done_callback(self._preparing.pop)

    async def warm(self, demand: EnvironmentDemand) -> EnvironmentFailure | None:
        """See `WarmingRunner`."""
        if self._environments is None or not needs_build(demand):
            return None
        return await self._environments.prepare(demand, ahead=True)

    def close(self) -> None:
        """Prepare nothing more."""
        for preparing in [*self._preparing]:
            preparing.cancel()

    async def interpreter_of(self, attempt: Attempt, source: bytes | None) -> ScriptPython | NoEnvironment:
        """The interpreter that this attempt runs on. `source`: its script; None: it has none."""
        task = attempt.assignment.task
        if source is None or task.get("python") is not None or not (_declares(task) or MARK.encode() in source):
            return self._own
        try:
            assignment = attempt.assignment
            isolation = assignment.confinement.isolation
            demand = demand_of(assignment.namespace, task, source.decode(errors="replace"), isolation)
        except Invalid as refused:
            return NoEnvironment(ENVIRONMENT_INVALID, refused.detail, is_permanent=True)
        if demand is None:
            return self._own
        if self._environments is None:
            return NoEnvironment(
                ENVIRONMENT_INVALID, "this executor builds no environments for scripts", is_permanent=True
            )
        held = self._environments.share(demand)
        return await self._acquired(self._environments, attempt, demand) if held is None else self._python_of(held)

    async def _acquired(
        self, environments: Environments, attempt: Attempt, demand: EnvironmentDemand
    ) -> ScriptPython | NoEnvironment:
        acquiring = asyncio.ensure_future(environments.acquire(demand, attempt.sink.write_or_drop))
        try:
            signs: set[asyncio.Future[Any]] = {acquiring, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _stop_acquiring(acquiring)
            raise
        if not acquiring.done():
            await _stop_acquiring(acquiring)
            return NoEnvironment(attempt.trouble.result(), "", is_permanent=False)
        found = acquiring.result()
        if isinstance(found, EnvironmentFailure):
            return NoEnvironment(
                found.reason, found.detail, found.is_permanent, found.retry_after_seconds, found.is_of_machine
            )
        return self._python_of(found)

    def _python_of(self, held: Environment) -> ScriptPython:
        return ScriptPython(
            replace(self._own.interpreter, program=str(held.program), is_own=False, is_built=True), held
        )


def _declares(task: Mapping[str, Any]) -> bool:
    return any(name in task for name in ENVIRONMENT_FIELDS)


async def _stop_acquiring(acquiring: asyncio.Future[Environment | EnvironmentFailure]) -> None:
    """Wait no longer; what was acquired in the last moment is released."""
    acquiring.cancel()
    found = (await asyncio.gather(acquiring, return_exceptions=True))[0]
    if not isinstance(found, EnvironmentFailure | BaseException):
        found.release()
