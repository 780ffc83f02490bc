"""The facts of a run for its function, and what a function may say while it runs."""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

LOGGER: Final = "tickwise.task"


class Context(NamedTuple):
    """The facts of a run for its function. A NamedTuple, because one is made for every run."""

    job_id: UUID
    run_id: UUID
    attempt: int
    """1 at first; counts up with every retry."""
    nominal_time: datetime
    """The time of the occurrence by the schedule: the period to report on. UTC."""
    due_time: datetime
    """The time at which it was to start. UTC."""
    fencing_token: int
    """Greater for every later attempt: lets another system refuse an attempt that was given up."""
    namespace: str
    traceparent: str | None = None
    """The trace that the function goes on in, in the form of W3C Trace Context; None: there is none."""
    tracestate: str | None = None
    """The notes of systems on the way of the trace; None: there are none."""

    @property
    def idempotency_key(self) -> str:
        """One key for all attempts of a run: hand it to systems that must do a thing once."""
        return str(self.run_id)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records have `run_id`, `job_id` and `attempt`. They go to the run's output, unless the program
        has set up logging itself: then they go where it says."""
        facts = {"run_id": str(self.run_id), "job_id": str(self.job_id), "attempt": self.attempt}
        return _RunLogger(_task_logger(), facts)

    @property
    def cancelled(self) -> bool:
        """Check whether the run was asked to stop. A function in a worker is also interrupted, so ask where it cleans
        up, or in a thread of its own."""
        return hooks.is_cancelled(self.run_id)

    def progress(self, share: float, text: str = "") -> None:
        """Say how much is done, from 0 to 1, and of what. It is the progress of the run as long as that goes on, and a
        line of its output; the same percentage twice in a row is passed over."""
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"progress is a share from 0 to 1, not {share!r}")
        hooks.progress(self, share, text)

    @staticmethod
    def connect(is_cancelled: Callable[[UUID], bool]) -> None:
        """Called by a worker, which need not import this module: how to ask whether a run was asked to stop."""
        hooks.is_cancelled = is_cancelled

    @staticmethod
    def connect_progress(tell: Callable[[UUID, float, str, str], None]) -> None:
        """Called by a worker: how to tell the progress of a run, and its line of output, from any thread."""
        hooks.tell_progress = lambda context, share, text: tell(context.run_id, share, text, _line(share, text))


def _never(_run_id: UUID) -> bool:
    return False


def _line(share: float, text: str) -> str:
    return f"progress {share:.0%}{f' {text}' if text else ''}"


def _print_progress(_context: Context, share: float, text: str) -> None:
    print(_line(share, text), flush=True)  # noqa: T201 - printing makes the output


class Hooks:
    """The surroundings of running tasks. A worker, and the testing kit, say here how a run is known to be cancelled,
    and where progress goes."""

    def __init__(self) -> None:
        self.is_cancelled: Callable[[UUID], bool] = _never
        self.tell_progress: Callable[[Context, float, str], None] = _print_progress
        self._last: tuple[UUID, int, str] | None = None

    def progress(self, context: Context, share: float, text: str) -> None:
        """Tell progress, unless the last word was the same."""
        said = (context.run_id, round(share * 100), text)
        if said != self._last:
            self._last = said
            self.tell_progress(context, share, text)


hooks: Final = Hooks()
current: contextvars.ContextVar[Context | None] = contextvars.ContextVar("tickwise_context", default=None)
"""The run in which this code runs."""


def current_context() -> Context:
    """The context of the run in which this is called, at any depth. Raises `LookupError` outside of a run; functions
    whose only parameter is the payload, as it is, run without one."""
    found = current.get()
    if found is None:
        raise LookupError("there is no run here; current_context() is for code that a task calls")
    return found


class _RunLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # not generic at run time before Python 3.11
    """Adds the facts of the run, and keeps what a caller adds."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


class _ToOutput(logging.Handler):
    """Writes to the output of the run that logs, while no handler of the program does."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            sys.stdout.write(f"{self.format(record)}\n")


def _task_logger() -> logging.Logger:
    logger = logging.getLogger(LOGGER)
    if not any(isinstance(handler, _ToOutput) for handler in logger.handlers):
        handler = _ToOutput()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
    return logger
