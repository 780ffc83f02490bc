"""Long work has a bar on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from tickwise.cli.terminal.progress import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize(
    ("stream", "quiet", "is_shown"),
    [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)],
)
def test_a_bar_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool, is_shown: bool
) -> None:
    """With what is done of how much; it is gone at the end."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("jobs", quiet=quiet) as tell:
        tell(3, 10)
        tell(10)
    assert is_shown == ("3/10" in stream.getvalue())
    assert is_shown == stream.getvalue().endswith("\x1b[2K")
