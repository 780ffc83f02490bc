"""The reason why a call of the store has no answer yet, for a caller that waits no longer.

    caller ──► `answered` ──► the call, which tries again and again, and notes each failure (`note_wait`)
                   └── its time is up ──► the latest failure is raised

A store waits longer for an owner, or for a database, than a probe or a person does. The caller that gives up would know
nothing but the time that it waited.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Final, TypeVar

from tickwise.domain.errors import StoreUnavailable, TickwiseError

Value = TypeVar("Value")

AGAIN_SECONDS: Final = 0.1
"""Between two looks whether a call that is waited for longer has met a failure."""


class WaitNote:
    """The failure that calls met last while they waited."""

    def __init__(self) -> None:
        self.failure: StoreUnavailable | None = None
        """None: they met none."""

    def take(self, failure: TickwiseError) -> None:
        """Keep this one in place of the one before; without its traceback, whose frames hold what was to be written."""
        kind = type(failure) if isinstance(failure, StoreUnavailable) else StoreUnavailable
        self.failure = kind(failure.detail)


_noted: ContextVar[WaitNote | None] = ContextVar("the note of the caller", default=None)


@contextlib.contextmanager
def noting(note: WaitNote) -> Iterator[WaitNote]:
    """Calls inside of the block, and the tasks that they begin, note there why they wait."""
    token = _noted.set(note)
    try:
        yield note
    finally:
        _noted.reset(token)


def note_wait(failure: TickwiseError, *, is_guess: bool = False) -> None:
    """Tell the caller, if one asks, why its call goes on to wait. `is_guess`: nothing has failed, so a failure that was
    noted before says more."""
    note = _noted.get()
    if note is not None and not (is_guess and note.failure is not None):
        note.take(failure)


class _CutShort:
    """Ends the wait for a call that has met a failure, from some time on."""

    def __init__(self, limit: asyncio.Timeout, note: WaitNote, after_seconds: float) -> None:
        self._limit, self._note = limit, note
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(after_seconds, self._look)

    def _look(self) -> None:
        if self._limit.expired():
            return  # both were due in one turn of the loop
        if self._note.failure is not None:
            self._limit.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_later(AGAIN_SECONDS, self._look)

    def cancel(self) -> None:
        """The call has ended."""
        self._timer.cancel()


async def answered(
    call: Callable[[], Awaitable[Value]], seconds: float, *, silent_seconds: float | None = None
) -> Value:
    """The answer of a call. Raises the failure that it met last if there is no answer within `seconds`, and
    `StoreUnavailable` if it met none. `silent_seconds`: a call that has met none is waited for so long."""
    longest = seconds if silent_seconds is None else silent_seconds
    with noting(WaitNote()) as note:
        try:
            async with asyncio.timeout(longest) as limit:
                looking = _CutShort(limit, note, seconds)
                try:
                    return await call()
                finally:
                    looking.cancel()
        except TimeoutError:
            raise note.failure or StoreUnavailable(f"the store did not answer within {longest:g} s") from None
