"""The end of a process is bounded: one that hangs says on what, and then ends all the same.

    signal ──► drain ──► stop ──► exit
                          │ not over `REPORT_SECONDS` after the drain may last: each task and thread, and where it waits
                          └ nor `EXIT_SECONDS` after it: exit at once, as `kill -9` does, with a trace of each thread

Nothing is lost by such an exit: every role is written for `kill -9`. Without it, a supervisor would wait for its own
time-out, and nobody would know what the process waited for.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import threading
import traceback
from typing import Any, Final

import structlog

REPORT_SECONDS: Final = 10.0
"""A stop takes well under a second; one that waits for an absent store or broker, up to 10."""
EXIT_SECONDS: Final = 60.0
FRAMES_SHOWN: Final = 4
"""Of each thread and task, from the innermost."""

logger = structlog.get_logger("tickwise.wiring")


def bound_end(
    drain_seconds: float, *, report_seconds: float = REPORT_SECONDS, exit_seconds: float = EXIT_SECONDS
) -> None:
    """From now on this process ends within `drain_seconds + exit_seconds`. Asked by the loop that is to end."""
    asyncio.get_running_loop().call_later(drain_seconds + report_seconds, _report)
    # A thread of the interpreter's own: it also ends a process whose loop stands still.
    faulthandler.dump_traceback_later(drain_seconds + exit_seconds, exit=True)


def _report() -> None:
    tasks = {task.get_name(): _waits(task.get_coro()) for task in asyncio.all_tasks()}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = {
        names.get(ident, str(ident)): [_place(each) for each in traceback.extract_stack(frame)[-FRAMES_SHOWN:]]
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - documented, for this very use
    }
    logger.error("stop_overdue", tasks=tasks, threads=threads)


def _waits(coroutine: Any) -> list[str]:
    """The frames in which a task waits, the innermost last."""
    places: list[str] = []
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        places.append(_place(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)))
        coroutine = coroutine.cr_await
    return places[-FRAMES_SHOWN:]


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
