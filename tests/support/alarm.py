"""The alarm that ends a test which hangs (`tests/conftest.py`), where a test may rightly take longer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def more_time(seconds: float) -> Iterator[None]:
    """Give the block an alarm of its own; the test's time stands still in the block. For an installation that happens
    once on a machine, in the first test that needs it. Without an alarm the function does nothing."""
    left, again = signal.getitimer(signal.ITIMER_REAL)
    if not left:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)
