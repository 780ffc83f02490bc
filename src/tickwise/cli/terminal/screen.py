"""A screen of its own on a terminal, for a view that is drawn again and again.

The terminal shows its former content again when the view ends: by a key, Ctrl-C, SIGTERM or an error.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENTER: Final = "\x1b[?1049h\x1b[?25l"
"""The other screen, without a cursor."""
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
QUIT: Final = frozenset({"q", "Q", "\x1b", "\x04", ""})
"""Keys that end a view beside Ctrl-C: q, Escape, Ctrl-D; and the end of the input."""


class Screen:
    """The terminal of stdin and stdout while a view has it."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._keys)

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines at this moment."""
        size = os.get_terminal_size(sys.stdout.fileno())
        return size if size.columns and size.lines else os.terminal_size((80, 24))

    def enter(self) -> None:
        """Take the terminal: the other screen, and each key at once."""
        tty.setcbreak(self._keys)
        _write(_ENTER)

    def leave(self) -> None:
        """Give it back as it was."""
        _write(_LEAVE)
        termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, which are no longer than the screen is wide; those that do not fit below are left out."""
        shown = lines[: self.size.lines]
        _write(_HOME + "\r\n".join(f"{line}{_CLEAR_LINE}" for line in shown) + _CLEAR_BELOW)

    def key(self, seconds: float) -> str | None:
        """The key that is pressed within this time; None: none."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if not ready:
            return None
        text = os.read(self._keys, 32).decode(errors="replace")
        return text if text.startswith("\x1b") else text[:1]  # an arrow is several characters, and no Escape

    def suspend(self) -> None:
        """Ctrl-Z: the shell has the terminal until it lets this process go on."""
        self.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.enter()


@contextmanager
def screen() -> Iterator[Screen]:
    """Take the terminal for a view."""
    found = Screen()
    handlers = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, _terminated),
        signal.SIGHUP: signal.signal(signal.SIGHUP, _terminated),
        signal.SIGTSTP: signal.signal(signal.SIGTSTP, lambda *_: found.suspend()),
    }
    try:
        found.enter()
        yield found
    finally:
        found.leave()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _terminated(number: int, _frame: FrameType | None) -> None:
    """End as the signal would, after the terminal was given back."""
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
