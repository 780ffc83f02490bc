"""A plugin of pytest that keeps each failure to its test.

The frames of a failed test hold what it had open, such as connections, until the garbage collector meets them. That is
in a later test, where an end that nobody awaited would be one more failure, of a test that has nothing to do with it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

_HAS_FAILED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Note that the test has failed, in any of its phases."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Free what a failed test has left once it is over, and let nobody hear of it."""
    try:
        return (yield)
    finally:
        if item.stash.get(_HAS_FAILED, False):
            for name in ("last_exc", "last_type", "last_value", "last_traceback"):
                vars(sys).pop(name, None)
            told, sys.unraisablehook = sys.unraisablehook, lambda _: None
            try:
                gc.collect()
            finally:
                sys.unraisablehook = told
