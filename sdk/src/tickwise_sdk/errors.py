"""The errors of this package, by what a program should do.

ClientError
  Unreachable      wait and repeat: the server is away, or cannot serve for now
    Untrusted      its certificate is not trusted
    Pending        the request is accepted and not carried out yet
  ProblemError     fix the request: the server refused it
  TaskFailed       a run that was waited for did not succeed
  StreamEnded      the server ended a stream of events for good
PermanentError     raised by a task: no retry can help
  PayloadError     the payload does not fit the task that is here
RetryLater         raised by a task: try again, no earlier than in so many seconds
RegistrationError  a task, a payload type or a schedule that cannot work is refused where it is declared
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ClientError(Exception):
    """The root of the errors of clients. `detail` is a sentence for people."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class Unreachable(ClientError):
    """The server did not answer, or cannot serve for now. The same call may succeed later."""

    def __init__(self, detail: str, *, status: int | None = None, request_id: str | None = None) -> None:
        """`status` is the last HTTP status, None if there was no answer at all; `request_id` finds it in the logs."""
        super().__init__(detail)
        self.status = status
        self.request_id = request_id
        self.retry_after_seconds: float | None = None
        """The time that the server asked to wait; None: it asked for none."""
        self.idempotency_key: str | None = None
        """The key that a POST was sent with. It may have been carried out: the same call with this `idempotency_key`
        does nothing twice. None: it was no POST."""


class Untrusted(Unreachable):
    """Something answers, and its certificate is not trusted."""


class Pending(Unreachable):
    """The server accepted the request and has not carried it out yet."""


class ProblemError(ClientError):
    """The server refused: an RFC 9457 problem."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"the server answered {status}"))
        self.status = status
        self.problem = problem
        self.code: str = str(problem.get("code") or "")
        self.pointer: str | None = problem.get("pointer")
        self.position: int | None = problem.get("position")
        self.request_id: str | None = problem.get("request_id")


class TaskFailed(ClientError):
    """A run that was waited for ended, and did not succeed."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        """`run` is the run as the server answers it."""
        said = run.get("error_message") or run.get("reason") or "no reason is on record"
        super().__init__(f"run {run['run_id']} is {run['status']}: {said}")
        self.run = run


class StreamEnded(ClientError):
    """The server ended the stream, and would refuse another one: the key was revoked, the thing is gone."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the server ended the stream: {reason}")
        self.reason = reason


class ClearTextWarning(UserWarning):
    """A key travels to another machine without encryption."""


class PermanentError(Exception):
    """Raise it in a task when no retry can help: the run fails at once, also with retries left."""

    __tickwise_permanent__ = True


class PayloadError(PermanentError):
    """The payload does not fit the task: it was submitted for another version of the function, or by hand."""


class RetryLater(Exception):
    """Raise it in a task to be tried again no earlier than in `retry_after_seconds`."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class RegistrationError(ValueError):
    """A task, a payload type or a schedule that cannot work, refused where it is declared."""
