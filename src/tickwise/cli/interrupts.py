"""Ctrl-C in the process of a command: it ends with exit code 130 and without a traceback, wherever it comes.

before and after the command   the system ends the process, as it does with a program in C
within                         KeyboardInterrupt; where a library makes another error of it, the press is noted
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_presses: list[int] = []


def was_pressed() -> bool:
    """Check whether Ctrl-C was pressed during this command."""
    return bool(_presses)


@contextmanager
def silent_interrupts() -> Iterator[None]:
    """For the whole of a process: Ctrl-C ends it without a word. Where it is ignored, as in the background of a shell,
    it stays so."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def heed_interrupts() -> None:
    """From here on Ctrl-C is raised as KeyboardInterrupt, and noted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, _note)


def _note(number: int, frame: FrameType | None) -> None:
    _presses.append(number)
    signal.default_int_handler(number, frame)
