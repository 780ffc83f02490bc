"""One call of a task, made as a worker makes it: its payload has been JSON, and so has its result."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from typing import Any, Final
from uuid import UUID, uuid4

from tickwise_sdk.context import Context, hooks
from tickwise_sdk.submitting import BoundCall
from tickwise_sdk.tasks import Registration, registry
from tickwise_sdk.testing.clock import BEGIN


@dataclass
class TaskRun:
    """The outcome of a call of a task."""

    result: Any = None
    """The result of its run: JSON values."""
    output: str = ""
    """The text that it printed and logged."""
    progress: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Each share that it said is done, with its text."""


_cancelled: Final[set[UUID]] = set()


def context_for(
    *,
    at: datetime = BEGIN,
    attempt: int = 1,
    namespace: str = "default",
    job_id: UUID | None = None,
    run_id: UUID | None = None,
    cancelled: bool = False,
) -> Context:
    """A context for a test: of a run that is due `at` a time. `cancelled`: it was asked to stop."""
    context = Context(job_id or uuid4(), run_id or uuid4(), attempt, at, at, attempt, namespace)
    if cancelled:
        _cancelled.add(context.run_id)
    return context


def run_task(call: BoundCall[Any], context: Context | None = None) -> TaskRun:
    """Call a task as a worker does, with middleware: `run_task(nightly.bind(day))`. What it raises comes out as it
    is."""
    return run_payload(call.task, call.payload, context)


async def run_task_async(call: BoundCall[Any], context: Context | None = None) -> TaskRun:
    """As `run_task`, of an asynchronous task, on the loop of the caller."""
    task, done = _registered(call.task), TaskRun()
    with _surroundings(done):
        value = task.function(*_arguments(task, call.payload, context or context_for()))
        done.result = _as_json(await value if task.is_async else value)
    return done


def run_payload(name: str, payload: Any, context: Context | None = None) -> TaskRun:
    """Call the task of this name with a payload: as the server has it, which a client may have sent long ago."""
    done = TaskRun()
    run_into(done, name, payload, context or context_for())
    return done


def run_into(done: TaskRun, name: str, payload: Any, context: Context) -> None:
    """As `run_payload`; what the task said is in `done` also if it raises."""
    task = _registered(name)
    with _surroundings(done):
        value = task.function(*_arguments(task, payload, context))
        done.result = _as_json(_awaited(value) if task.is_async else value)


def _registered(name: str) -> Registration:
    if name not in registry:
        raise LookupError(f"no task is registered as {name!r}; import the module that declares it")
    return registry[name].__tickwise_task__


def _arguments(task: Registration, payload: Any, context: Context) -> tuple[Any, ...]:
    received = _as_json(payload)
    return ((), (received,), (context, received))[task.parameters]


def _as_json(value: Any) -> Any:
    """A value after its journey. Raises `TypeError` for one that is not JSON."""
    return json.loads(json.dumps(value, allow_nan=False))


def _awaited(coroutine: Any) -> Any:
    """The value of a coroutine, also where a loop is running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, asyncio.run, coroutine).result()


@contextmanager
def _surroundings(done: TaskRun) -> Generator[None, None, None]:
    """The surroundings that a worker gives a task: its output is kept, its progress is heard, it can be asked to
    stop."""
    output = StringIO()
    before = hooks.is_cancelled, hooks.tell_progress
    hooks.is_cancelled = _cancelled.__contains__
    hooks.tell_progress = lambda _context, share, text: done.progress.append((share, text))
    try:
        with redirect_stdout(output), redirect_stderr(output):
            yield
    finally:
        hooks.is_cancelled, hooks.tell_progress = before
        done.output = output.getvalue()
