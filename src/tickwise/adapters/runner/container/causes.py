"""The true cause of an end: from the engine's words, a container's state and the end of its output.

it could not be made or started   start_fault   unknown user, program not there, folder not there, engine's fault
it ended                          ending_of     status, signal, memory, a program that its init could not start
"""

from __future__ import annotations

import re
import signal
from typing import Final

from tickwise.adapters.runner.container.engine import ContainerState, EngineFacts
from tickwise.adapters.runner.containers import COMMAND_MISSING, COMMAND_NOT_EXECUTABLE, CONTAINER_REFUSED
from tickwise.adapters.runner.slots import Attempt
from tickwise.domain.retry import OUTCOME_LOST
from tickwise.ports.runner import Ending, Verdict

EXIT_INVALID: Final = 65
"""EX_DATAERR, as of all scripts."""
NOT_EXECUTABLE: Final = 126
NOT_THERE: Final = 127
LOST: Final = 255
"""The status of a container whose end the engine did not see."""
BY_SIGNAL: Final = 128
FATAL_SIGNALS: Final = frozenset({
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS,
    signal.SIGFPE, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGALRM, signal.SIGTERM, signal.SIGSYS,
})  # fmt: skip
_INIT: Final = re.compile(r"\[FATAL tini|catatonit|docker-init|failed to exec pid1|^/bin/sh: .*exec: ", re.MULTILINE)
"""The words of an init, or of the shell that starts a task (`start_script`), about a program that it cannot execute."""
_MISSING: Final = re.compile(
    r"executable file not found|no such file or directory.*(exec|unknown)|exec: .*no such file"
)
_MISSING_FOLDER: Final = re.compile(
    r"bind source path does not exist|invalid mount config|mountpoint|statfs .*no such file"
)
_NOT_EXECUTABLE: Final = re.compile(r"permission denied|exec format error|is a directory")
_NO_NETWORK: Final = re.compile(r"network .*not found|unable to find network")


class ContainerFault(Exception):
    """The attempt cannot begin: the reason, and the sentence for people."""

    def __init__(self, reason: str, error: str, verdict: Verdict = Verdict.INVALID) -> None:
        super().__init__(error)
        self.reason = reason
        self.error = error
        self.verdict = verdict


def start_fault(status: int, message: str) -> ContainerFault:
    """The failure of a container that the engine would not make or start."""
    said = message.strip()[:1_000]
    lower = said.lower()
    if _NO_NETWORK.search(lower):
        return ContainerFault(
            CONTAINER_REFUSED,
            f"the engine has no such network; the executor's setting is TICKWISE_CONTAINER_NETWORK: {said}",
        )
    if _MISSING_FOLDER.search(lower) or "unable to find user" in lower or "no matching entries" in lower:
        return ContainerFault(CONTAINER_REFUSED, f"the engine cannot make its container: {said}")
    if _MISSING.search(lower):
        return ContainerFault(COMMAND_MISSING, f"the image has no such program: {said}")
    if _NOT_EXECUTABLE.search(lower):
        return ContainerFault(COMMAND_NOT_EXECUTABLE, f"the program of the image cannot be executed: {said}")
    if 400 <= status < 500:
        return ContainerFault(CONTAINER_REFUSED, f"the engine cannot make its container: {said}")
    return ContainerFault("not_started", f"the engine could not start its container: {said}", Verdict.FAILED)


def is_engines_own(state: ContainerState, facts: EngineFacts) -> bool:
    """Check whether an engine that ends its containers before itself leaves them in this state."""
    is_ended = state.exit_code - BY_SIGNAL in (signal.SIGKILL, signal.SIGTERM) and not state.memory_killed
    return is_ended and not facts.survives_restarts


def ending_of(attempt: Attempt, state: ContainerState, facts: EngineFacts, ended: float, *, was_away: bool) -> Ending:
    """The ending of an attempt whose container has ended by itself, without a result. `was_away`: the engine was away
    in the meantime."""
    started, code = attempt.started, state.exit_code
    tail = attempt.sink.tail.strip()
    if code == 0:
        return Ending(Verdict.OK, started, ended)
    if state.memory_killed:
        return attempt.ending_for("memory_limit", started, ended)
    number = code - BY_SIGNAL
    if was_away and (code == LOST or is_engines_own(state, facts)):
        error = f"the engine was away and ended its container meanwhile, with the status {code}"
        return Ending(Verdict.UNKNOWN, started, ended, OUTCOME_LOST, error)
    if code in (NOT_THERE, NOT_EXECUTABLE) and _INIT.search(tail):
        reason = COMMAND_MISSING if code == NOT_THERE or "No such file" in tail else COMMAND_NOT_EXECUTABLE
        return Ending(Verdict.INVALID, started, ended, reason, f"its program cannot be executed: {tail[-500:]}")
    what, reason = f"exit status {code}", "exit_code"
    if number in FATAL_SIGNALS:
        what, reason = f"ended by signal {signal.Signals(number).name}", "signal"
        limit = attempt.assignment.limits.memory_bytes
        if number == signal.SIGKILL and limit is not None and not facts.tells_memory_kills:
            what += f" (perhaps for its memory, of which it may use {limit} bytes: this engine does not tell)"
    verdict = Verdict.INVALID if code == EXIT_INVALID else Verdict.FAILED
    error = f"{what}: {tail}" if tail else what
    return Ending(verdict, started, ended, reason, error, symptoms=(str(code),))
