"""Scenes that the store gave lately, for bodies that arrive while it is away.

    the store answers ──► keep: each task, calendar, channel and graph of successors that the bodies name
    the store is away ──► find: the scene of the bodies, if each object that they name was seen

Invariant: a body whose objects were never seen is refused with 503, not accepted unchecked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.control.bodies import JobBody
from tickwise.control.circuit_breaker import Remembered
from tickwise.control.context import ControlContext
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.successors import NOTHING, Graph, listed
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.store import StoredTask

MAX_GRAPHS: Final = 1_000


class SeenScenes:
    """The tasks, calendars, channels and successors of each namespace that were seen lately, bounded in number and
    size."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._tasks = Remembered[tuple[str, str], StoredTask](context.clock)
        self._calendars = Remembered[tuple[str, str], str](context.clock)
        self._channels = Remembered[tuple[str, str], str](context.clock)
        self._graphs = Remembered[tuple[str, frozenset[str]], Graph](context.clock, most=MAX_GRAPHS)

    def keep(self, namespace: str, bodies: Sequence[JobBody], scene: Scene) -> None:
        """Remember the objects of a scene that the store gave for these bodies."""
        for task in scene.tasks.values():
            self._tasks.keep((namespace, task.task_id), task, len(task.task))
        for name in scene.calendars:
            self._calendars.keep((namespace, name), name)
        for name in scene.channels:
            self._channels.keep((namespace, name), name)
        names = _successors_named(bodies)
        if names:
            self._graphs.keep((namespace, names), scene.successors)

    def find(self, namespace: str, bodies: Sequence[JobBody]) -> Scene:
        """The scene of the bodies as it was seen lately, at the best known time. Raises `StoreUnavailable` if an object
        that they name was not seen."""
        tasks: dict[str, StoredTask] = {}
        for task_id in {body.task_id for body in bodies if body.task_id}:
            task = self._tasks.find((namespace, task_id))
            if task is None:
                raise _not_seen("task")
            tasks[task_id] = task
        calendars = frozenset(use.name for body in bodies if body.calendars for use in body.calendars)
        if any(self._calendars.find((namespace, name)) is None for name in calendars):
            raise _not_seen("calendar")
        channels = frozenset(name for body in bodies if body.notify for name in body.notify)
        if any(self._channels.find((namespace, name)) is None for name in channels):
            raise _not_seen("channel")
        names = _successors_named(bodies)
        graph = self._graphs.find((namespace, names)) if names else NOTHING
        if graph is None:
            raise _not_seen("successor")
        now, serving = self._context.time.at_best(), self._context.executors.known_serving()
        return Scene(now, tasks, serving, calendars, graph, channels)


def _successors_named(bodies: Sequence[JobBody]) -> frozenset[str]:
    return frozenset(name for body in bodies for name in (*listed(body.then), *listed(body.on_failure)))


def _not_seen(kind: str) -> StoreUnavailable:
    return StoreUnavailable(f"the store is away, and this {kind} was not seen lately; try again when the store is back")
