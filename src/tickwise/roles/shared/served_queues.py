"""The runs that the active executors can take, and the warning for those that none of them can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.domain.confinement import SANDBOX_LABEL, offered_labels
from tickwise.domain.model import Lane
from tickwise.ports.store import ExecutorRow

MAX_JUDGED: Final = 1_000
"""Lanes whose answer is remembered."""


def not_offered(function: str | None, offered: frozenset[str]) -> str | None:
    """The warning for a function that no executor can run at the moment."""
    if function is None or function in offered:
        return None
    return f"no active executor offers the function {function!r}; its runs wait until one does"


def unserved(lane: Lane, function: str | None, active: Sequence[ExecutorRow], namespace: str) -> str | None:
    """The reason for which no active executor can take runs of this lane and namespace; None if one of them can."""
    where = f"the queue {lane.queue!r}"
    serving = [executor for executor in active if lane.queue in executor.queues]
    if not serving:
        return f"no active executor serves {where}; its runs wait until one does"
    serving = [executor for executor in serving if executor.takes(namespace)]
    if not serving:
        return f"no active executor of {where} serves the namespace {namespace!r}; its runs wait until one does"
    own = {label for label in lane.requires if ":" not in label}
    serving = [executor for executor in serving if own.issubset(executor.labels)]
    if not serving:
        return f"no active executor of {where} has the labels {', '.join(sorted(own))}; its runs wait until one has"
    lacking = not_given(lane, serving, where)
    if lacking is not None:
        return lacking
    if function is not None and not any(function in executor.functions for executor in serving):
        what = f"{where} and the labels {', '.join(sorted(own))}" if own else where
        return f"no active executor offers the function {function!r} for {what}; its runs wait until one does"
    return None


def unserved_lane(lane: Lane, active: Sequence[ExecutorRow], namespace: str) -> str | None:
    """As `unserved`, where the job's task is not at hand: its function is the one that the lane names."""
    named = [label.removeprefix("function:") for label in lane.requires if label.startswith("function:")]
    function = next((name for name in named if name != "*"), None)
    return unserved(lane, function, active, namespace)


def not_given(lane: Lane, serving: Sequence[ExecutorRow], where: str) -> str | None:
    """The reason for which none of these executors can surround a task as its lane says; None if one can."""
    needed = offered_labels(lane.requires)
    if not needed or any(set(needed).issubset(executor.labels) for executor in serving):
        return None
    return f"no active executor of {where} offers {', '.join(needed)}; its runs wait until one does"


class Serving:
    """The functions and the lanes that the executors of one moment serve. A lane is judged once: submits share the
    answer."""

    def __init__(self, active: Sequence[ExecutorRow]) -> None:
        self.functions = frozenset(name for executor in active for name in executor.functions)
        self.is_known = bool(active)
        """False: no executor is active, so nobody can say what will be served."""
        self._active = active
        self._bound = any(executor.namespaces is not None for executor in active)
        self._judged: dict[tuple[Lane, str | None, str], str | None] = {}

    def offers_sandbox(self, queue: str, namespace: str) -> bool | None:
        """Check whether an executor that serves this queue and namespace offers the isolation sandbox; None: no active
        one serves them."""
        serving = [each for each in self._active if queue in each.queues and each.takes(namespace)]
        return any(SANDBOX_LABEL in each.labels for each in serving) if serving else None

    def missing(self, lane: Lane, function: str | None, namespace: str) -> str | None:
        """The warning for a function that no executor offers, or for a lane that no executor serves. While no executor
        is active there is no warning for a lane: the job is not at fault."""
        passing = not_offered(function, self.functions)
        if passing is not None or not self._active:
            return passing
        # While no executor is bound to namespaces, they share one answer.
        name = (lane, function, namespace if self._bound else "")
        if name not in self._judged:
            if len(self._judged) >= MAX_JUDGED:
                self._judged.clear()
            self._judged[name] = unserved(lane, function, self._active, namespace)
        return self._judged[name]


NOBODY: Final = Serving(())
