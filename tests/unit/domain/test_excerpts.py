"""The one line of an error that is shown where there is room for one."""

from __future__ import annotations

import pytest

from tickwise.domain.excerpts import main_line

TRACEBACK = """Traceback (most recent call last):
  File "task.py", line 4, in <module>
    load(3)
  File "task.py", line 2, in load
    raise ValueError("row 17 has no price")
ValueError: row 17 has no price
"""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ""),
        ("exit status 3", "exit status 3"),
        ("ended by signal SIGKILL: half\ndone\n\n", "ended by signal SIGKILL: done"),
        (f"exit status 1: starting\n{TRACEBACK}", "exit status 1: ValueError: row 17 has no price"),
        ("exit status 1: Exception in thread main\n\tat Main.java:3\n", "exit status 1: Exception in thread main"),
        (TRACEBACK, "ValueError: row 17 has no price"),
        ("disk full\nat line 3", "disk full"),
        ("exit status 1:   indented", "exit status 1: indented"),
    ],
)
def test_the_line_that_says_most_is_taken(error: str | None, expected: str) -> None:
    """Of a process the last one that is no part of a stack, with how it ended; of what was said in a sentence the
    first."""
    assert main_line(error) == expected
