"""The alarm that ends a test which hangs (`tests/conftest.py`), where a test may rightly take longer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def more_time(seconds: float) -> Iterator[None]:
    """So long for what is done inside, and none of it is taken from the test: something is installed here, once on a
    machine, for whichever test asks first. Nothing happens where no alarm is set."""
    left, again = signal.getitimer(signal.ITIMER_REAL)
    if not left:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, again)
