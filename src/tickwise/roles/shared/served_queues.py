"""The runs that the active executors can take, and the warning for those that none of them can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwise.domain.model import Lane
from tickwise.domain.rules.capacities import (
    MEMORY,
    MEMORY_PREFIX,
    RESOURCE_PREFIX,
    Demand,
    amount_in_words,
    lacking,
    size_in_words,
)
from tickwise.domain.rules.confinement import CONTAINER_LABEL, RUN_AS_PREFIX, SANDBOX_LABEL, offered_labels
from tickwise.ports.store import ExecutorRow

MAX_JUDGED: Final = 1_000
"""Lanes whose answer is remembered."""


def not_offered(function: str | None, offered: frozenset[str]) -> str | None:
    """The warning for a function that no executor can run at the moment."""
    if function is None or function in offered:
        return None
    return f"no active executor offers the function {function!r}; its runs wait until one does"


def unserved(
    lane: Lane, function: str | None, active: Sequence[ExecutorRow], namespace: str, demand: Demand | None = None
) -> str | None:
    """The reason for which no active executor can take runs of this lane and namespace; None if one of them can.
    `demand`: the counted capacities that a run holds."""
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
    reason = not_given(lane, serving, where, demand)
    if reason is not None:
        return reason
    if function is not None and not any(function in executor.functions for executor in serving):
        what = f"{where} and the labels {', '.join(sorted(own))}" if own else where
        return f"no active executor offers the function {function!r} for {what}; its runs wait until one does"
    return None


def unserved_lane(lane: Lane, active: Sequence[ExecutorRow], namespace: str) -> str | None:
    """As `unserved`, where the job's task is not at hand: its function is the one that the lane names."""
    named = [label.removeprefix("function:") for label in lane.requires if label.startswith("function:")]
    function = next((name for name in named if name != "*"), None)
    return unserved(lane, function, active, namespace)


def waits_for_capacity(lane: Lane, active: Sequence[ExecutorRow], namespace: str) -> bool:
    """Check whether runs of a lane that holds counted capacities may wait for others to give them back: on each
    executor that can take them, some of what they need is held."""
    counted = [label for label in lane.requires if label.startswith((RESOURCE_PREFIX, MEMORY_PREFIX))]
    names = {MEMORY if label.startswith(MEMORY_PREFIX) else label.split(":")[1] for label in counted}
    able = [each for each in active if unserved_lane(lane, [each], namespace) is None]
    return bool(able) and all(
        any(name in each.capacities and each.capacities[name].taken for name in names) for each in able
    )


def not_given(lane: Lane, serving: Sequence[ExecutorRow], where: str, demand: Demand | None = None) -> str | None:
    """The reason for which none of these executors can surround a task as its lane says, or has as much of each
    counted capacity as one run holds; None if one can."""
    needed = offered_labels(lane.requires)
    if demand is not None:
        # First by amount: the words of a label know powers of two alone.
        short = [lacking(demand, executor.capacities, now=False) for executor in serving]
        if all(short):
            name, amount = max(min(short, key=len).items())
            return _unmet(where, f"has {amount_in_words(name, amount)}", _advice_of_amount(name, amount))
    if not needed or any(set(needed).issubset(executor.labels) for executor in serving):
        return None
    missing = [label for label in needed if not any(label in executor.labels for executor in serving)]
    if not missing:
        return _unmet(where, f"offers all of {', '.join(needed)}", "start one that does")
    return _unmet(where, *_label_in_words(missing[0]))


def _unmet(where: str, offer: str, advice: str) -> str:
    return f"no active executor of {where} {offer}; its runs wait until one does: {advice}"


def _label_in_words(label: str) -> tuple[str, str]:
    """A label that nobody offers: what an executor would have to do, and the advice."""
    if label == SANDBOX_LABEL:
        advice = "`tickwise doctor` on its machine says why; --isolation process runs the task without a sandbox"
        return f"offers {label}", advice
    if label == CONTAINER_LABEL:
        advice = "start one with TICKWISE_CONTAINER_ENGINE; where one has it, `tickwise doctor` on its machine says why"
        return f"offers {label}", advice
    if label.startswith(RUN_AS_PREFIX):
        user = label.removeprefix(RUN_AS_PREFIX)
        return f"runs tasks as the user {user!r}", "let one do that, or take run_as away"
    if label.startswith(MEMORY_PREFIX):
        most = label.removeprefix(MEMORY_PREFIX)
        offer = f"has {most.removesuffix('GiB')} GB of memory" if most.endswith("GiB") else "reserves memory"
        return offer, "start a newer or a larger one (--memory), or ask for less"
    if label.startswith(RESOURCE_PREFIX):
        name, _, amount = label.removeprefix(RESOURCE_PREFIX).partition(":")
        return f"has {amount_in_words(name, int(amount or 1))}", _advice_of_amount(name, int(amount or 1))
    return f"offers {label}", "start one that does"


def _advice_of_amount(name: str, amount: int) -> str:
    if name == MEMORY:
        return "start a larger one (--memory), or ask for less by limits.memory_bytes"
    return f"start one with --resources {name}={amount}, or ask for less"


def in_use(demand: Demand, able: Sequence[ExecutorRow]) -> str | None:
    """The capacity that none of these executors has free now, though each has it, in a sentence; None: one has all of
    them free, as of its last heartbeat."""
    short = [(lacking(demand, executor.capacities, now=True), executor) for executor in able]
    if not short or not all(found for found, _ in short):
        return None
    found, executor = min(short, key=lambda each: len(each[0]))
    name, amount = max(found.items())
    capacity = executor.capacities[name]
    if name == MEMORY:
        taken, whole = size_in_words(capacity.taken), size_in_words(capacity.whole)
        return f"it needs {amount_in_words(name, amount)}, and {taken} of {whole} are reserved on {executor.name}"
    used = f"{capacity.taken} of {capacity.whole} are in use on {executor.name}"
    return f"it needs {amount_in_words(name, amount)}, and {used}"


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

    def missing(self, lane: Lane, function: str | None, namespace: str, demand: Demand | None = None) -> str | None:
        """The warning for a function that no executor offers, or for a lane that no executor serves. While no executor
        is active there is no warning for a lane: the job is not at fault."""
        passing = not_offered(function, self.functions)
        if passing is not None or not self._active:
            return passing
        if demand is not None:
            return unserved(lane, function, self._active, namespace, demand)
        # While no executor is bound to namespaces, they share one answer.
        name = (lane, function, namespace if self._bound else "")
        if name not in self._judged:
            if len(self._judged) >= MAX_JUDGED:
                self._judged.clear()
            self._judged[name] = unserved(lane, function, self._active, namespace)
        return self._judged[name]


NOBODY: Final = Serving(())
