"""The end of a process at a terminal: it says what it waits for, and goes on saying it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tickwise.wiring import processes


class Loop:
    """Runs what is called later at once."""

    def call_later(self, delay: float, callback: Callable[..., None], *args: object) -> None:
        assert 0 < delay <= processes.STOPPING_TOLD_SECONDS
        callback(*args)


def test_what_the_end_waits_for_is_told_until_it_comes(capsys: pytest.CaptureFixture[str]) -> None:
    """With the time that is left."""
    processes._say_stopping(Loop(), 12.0)  # type: ignore[arg-type]  # a loop without its other methods
    told = capsys.readouterr().err.splitlines()
    assert ["have 12 s", "have 7 s", "have 2 s", "have 0 s"] == [
        f"have {line.split(' have ')[1].split(' s ')[0]} s" for line in told
    ]
    assert all("Press Ctrl-C twice more" in line for line in told)
