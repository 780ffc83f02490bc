"""The true cause of an end, from the status of a pod; and of a pod that does not begin, from its status and events.

    began?  disrupted?
    no      yes         RELEASED   it goes back, as if it had never been claimed
    yes     yes         UNKNOWN    the job's `on_unknown` decides; no retry is used up
    yes     no          by the end of its program: status, signal, memory, its own room on the disk

A disruption is what Kubernetes or a person does to a pod whose program was not to blame: eviction by a full node,
preemption, a lost node, a deletion. A pod that passes its own limit of ephemeral storage is evicted, too, and without
the condition `DisruptionTarget`: that is its own failure.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwise.adapters.runner.container.causes import BY_SIGNAL, EXIT_INVALID, FATAL_SIGNALS, ContainerFault
from tickwise.adapters.runner.container.kubernetes.pods import (
    DISRUPTED,
    Pod,
    PodEvent,
    Terminated,
    WaitingContainer,
    instant,
)
from tickwise.adapters.runner.containers import (
    COMMAND_MISSING,
    COMMAND_NOT_EXECUTABLE,
    CONTAINER_REFUSED,
    IMAGE_DENIED,
    IMAGE_MISSING,
    IMAGE_PULL_FAILED,
)
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.retry import OUTCOME_LOST, POD_DISRUPTED, POD_PENDING
from tickwise.ports.runner import Ending, Verdict

SETTLE_SECONDS: Final = 15.0
"""A container that cannot be made for so long cannot be made: its Secret comes a moment after its Job."""
ENDED_BY_KUBELET: Final = (BY_SIGNAL + signal.SIGTERM, BY_SIGNAL + signal.SIGKILL)
SKEW_SECONDS: Final = 2.0
"""The most that the clocks of a node and of the API server are taken to differ."""
OUT_OF_MEMORY: Final = "OOMKilled"
_PULLS: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
_CONFIGS: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_STARTS: Final = frozenset({"StartError", "ContainerCannotRun"})
_DENIED: Final = re.compile(r"(?i)unauthorized|denied|authentication required|no basic auth credentials|forbidden")
_MISSING: Final = re.compile(r"(?i)not found|manifest unknown|does not exist|name unknown|ErrImageNeverPull")
_NO_PROGRAM: Final = re.compile(r"(?i)executable file not found|no such file or directory|not found in \$PATH")
_NO_EXECUTION: Final = re.compile(r"(?i)permission denied|exec format error|is a directory")
_FINAL: Final = frozenset({"Evicted", "DeadlineExceeded"})
"""The reasons of a kubelet for an end of its own making, of pods that nobody had deleted until then."""
_WORDS: Final = {
    "PreemptionByScheduler": "preempted by a pod of a higher priority",
    "DeletionByTaintManager": "removed from a node that is not fit for it any more",
    "EvictionByEvictionAPI": "evicted by a request, as a drain of its node makes",
    "DeletionByPodGC": "removed with a node that is gone",
    "TerminationByKubelet": "evicted by its node",
}


class PodEnd(NamedTuple):
    """The end of an attempt's pod."""

    pod: Pod
    """As it was last seen."""
    is_gone: bool
    """It was there and is not any more."""


def pending_fault(
    pod: Pod | None, events: Sequence[PodEvent], seconds: float, *, pull_seconds: float, place_seconds: float
) -> ContainerFault | None:
    """The reason for which a pod will not begin; None: it may. `seconds`: since its Job was made. The two others: the
    patience with a pod on a node, and with one that has none."""
    most = pull_seconds if pod is not None and pod.spec.node_name else place_seconds
    waiting = None if pod is None else _waiting(pod)
    fault = None if waiting is None else _waiting_fault(waiting, seconds, most)
    if fault is not None or seconds < most:
        return fault
    sentence = pending_sentence(pod, events)
    said = f"its pod did not begin within {most:g} s: {sentence or 'nothing is known of it'}"
    return ContainerFault(POD_PENDING, said, Verdict.UNOFFERED)


def _waiting(pod: Pod) -> WaitingContainer | None:
    """The first of its containers that waits for something other than its turn."""
    for each in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = each.state.waiting
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            return waiting
    return None


def _waiting_fault(waiting: WaitingContainer, seconds: float, most: float) -> ContainerFault | None:
    said = f"{waiting.reason}: {waiting.message.strip()[:700]}"
    if waiting.reason == "InvalidImageName":
        return ContainerFault(CONTAINER_REFUSED, f"the name of its image is none for this cluster: {said}")
    if waiting.reason == "ErrImageNeverPull":
        return ContainerFault(
            IMAGE_MISSING, f"the node has not got its image, and its task says not to pull it: {said}"
        )
    if waiting.reason in _PULLS:
        if _DENIED.search(waiting.message):
            return ContainerFault(IMAGE_DENIED, f"its image cannot be pulled: {said}")
        if _MISSING.search(waiting.message):
            return ContainerFault(IMAGE_MISSING, f"its image cannot be pulled: {said}")
        if seconds >= most:
            return ContainerFault(
                IMAGE_PULL_FAILED, f"its image was not pulled within {most:g} s: {said}", Verdict.FAILED
            )
        return None
    if waiting.reason in _CONFIGS:
        start = _start_fault(waiting.message, said)
        if start is not None:
            return start
        if "non-root" in waiting.message or "runAsNonRoot" in waiting.message:
            return ContainerFault(CONTAINER_REFUSED, f"its image runs as root, and may not: name a `user`. {said}")
        if seconds >= SETTLE_SECONDS:
            return ContainerFault(CONTAINER_REFUSED, f"the cluster cannot make its container: {said}")
    return None


def _start_fault(message: str, said: str) -> ContainerFault | None:
    if _NO_PROGRAM.search(message) and ("exec" in message or "stat " in message):
        return ContainerFault(COMMAND_MISSING, f"the image has no such program: {said}")
    if _NO_EXECUTION.search(message) and "exec" in message:
        return ContainerFault(COMMAND_NOT_EXECUTABLE, f"the program of the image cannot be executed: {said}")
    return None


def pending_sentence(pod: Pod | None, events: Sequence[PodEvent]) -> str:
    """The account of what a pod waits for, in the words of Kubernetes; empty: nothing is known."""
    if pod is not None:
        unplaced = pod.condition("PodScheduled")
        if unplaced is not None:
            return f"{unplaced.reason}: {unplaced.message}"
        waiting = _waiting(pod)
        if waiting is not None:
            return f"{waiting.reason}: {waiting.message}"
    told = [each for each in events if each.reason.startswith("Failed") or "Error" in each.reason]
    return f"{told[-1].reason}: {told[-1].message}" if told else ""


def disruption(end: PodEnd) -> str | None:
    """The account of what was done to a pod from outside, for people; None: nothing, as far as is known."""
    pod, finished = end.pod, None if end.pod.end is None else instant(end.pod.end.finished_at)
    target = pod.condition(DISRUPTED)
    deleted = pod.metadata.deleted_at
    if target is not None:
        at = instant(target.last_transition_time)
        if _ended_before(pod.end, finished, at):
            return None
        how = _WORDS.get(target.reason, target.reason)
        node = f" (node {pod.spec.node_name})" if pod.spec.node_name else ""
        return f"its pod was {how}{node}: {target.message or pod.status.message}".rstrip(": ")
    if pod.status.reason in _FINAL:
        return None  # a pod is deleted at some time after its end
    if deleted is not None and not _ended_before(pod.end, finished, deleted):
        return "its pod was deleted by somebody else"
    if pod.status.reason == "NodeLost" or (end.is_gone and pod.end is None):
        return "its pod is gone, with its node or by somebody else's hand, and nobody saw its end"
    return None


def _ended_before(end: Terminated | None, finished: float | None, at: float | None) -> bool:
    """Check whether a program had ended by itself.

    Instants are whole seconds, so within one its status decides. The node and the API server each have a clock of
    their own: a program that was ended as a kubelet ends one may seem to have ended a little before it was told to.
    """
    if end is None or finished is None or at is None:
        return False
    if end.exit_code in ENDED_BY_KUBELET and end.reason != OUT_OF_MEMORY:
        return finished < at - SKEW_SECONDS
    return finished <= at


def unbegun_end(end: PodEnd, now: float) -> Ending:
    """The end of an attempt whose pod is over and never began."""
    why = disruption(end)
    if why is not None:
        return Ending(Verdict.RELEASED, now, now, POD_DISRUPTED, f"{why}, before it began")
    said = f"{end.pod.status.reason}: {end.pod.status.message}".strip(": ") or "it gave no reason"
    if end.pod.status.reason == "DeadlineExceeded":
        return Ending(Verdict.UNOFFERED, now, now, POD_PENDING, f"its pod did not begin in time: {said}")
    # A node that admits no such pod (OutOfcpu, NodeAffinity, …): another try may meet another node.
    return Ending(Verdict.UNOFFERED, now, now, POD_PENDING, f"its node did not take its pod: {said}")


def ending_of(attempt: Attempt, end: PodEnd, ended: float) -> Ending:
    """The ending of an attempt whose pod has begun and is over by itself, without a result."""
    started, pod, terminated = attempt.started, end.pod, end.pod.end
    why = disruption(end)
    if why is not None:
        return Ending(Verdict.UNKNOWN, started, ended, OUTCOME_LOST, why)
    if pod.status.reason == "Evicted":
        # Without the condition of a disruption: it passed a limit of its own.
        return Ending(Verdict.FAILED, started, ended, "disk_limit", f"its pod was evicted: {pod.status.message}")
    if pod.status.reason == "DeadlineExceeded":
        return Ending(Verdict.FAILED, started, ended, "timeout", f"its cluster ended it: {pod.status.message}")
    if terminated is None:
        said = f"{pod.status.phase} {pod.status.reason} {pod.status.message}".strip()
        return Ending(Verdict.UNKNOWN, started, ended, OUTCOME_LOST, f"nobody saw the end of its program: {said}")
    return _program_end(attempt, terminated, ended)


def _program_end(attempt: Attempt, terminated: Terminated, ended: float) -> Ending:
    started, code, limit = attempt.started, terminated.exit_code, attempt.assignment.limits.memory_bytes
    tail = attempt.sink.tail.strip()
    if code == 0:
        return Ending(Verdict.OK, started, ended)
    if terminated.reason == OUT_OF_MEMORY:
        if limit is not None:
            return attempt.ending_for("memory_limit", started, ended)
        error = "the kernel of its node killed it for its memory (OOMKilled); its job sets no limit of its own"
        return Ending(Verdict.FAILED, started, ended, "memory_limit", error)
    if terminated.reason in _STARTS:
        said = f"{terminated.reason}: {terminated.message.strip()[:700]}"
        fault = _start_fault(terminated.message, said)
        if fault is None:
            return Ending(Verdict.INVALID, started, ended, CONTAINER_REFUSED, f"its program was not started: {said}")
        return Ending(fault.verdict, started, ended, fault.reason, fault.error)
    what, reason, number = f"exit status {code}", "exit_code", code - BY_SIGNAL
    if number in FATAL_SIGNALS:
        what, reason = f"ended by signal {signal.Signals(number).name}", "signal"
    verdict = Verdict.INVALID if code == EXIT_INVALID else Verdict.FAILED
    error = f"{what}: {tail}" if tail else what
    return Ending(verdict, started, ended, reason, error, symptoms=(str(code),))
