"""Builds that failed lately, so that not every run of a script repeats one.

    for good (a package that there is not)    the answer counts for `seconds`
    for now (an index that is away)           for 1, 2, 4, … s, at most `MAX_BACKOFF_SECONDS`
    too long                                  for `seconds`: each try takes a place of a build all that time

Pure but for the clock. A restart of the executor forgets them: its settings may be others then.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwise.ports.clock import Clock
from tickwise.ports.environments import ENVIRONMENT_TIMEOUT, EnvironmentFailure

FIRST_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 60.0
MAX_KEPT: Final = 1_000


class _Failed(NamedTuple):
    failure: EnvironmentFailure
    until: float
    """Of the monotonic clock."""
    times: int


class RecentFailures:
    """The failed builds of one executor, by the key of the environment."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._failed: dict[str, _Failed] = {}

    def of(self, key: str) -> EnvironmentFailure | None:
        """The failure that still counts, with the time until a further build; None: build."""
        found = self._failed.get(key)
        left = 0.0 if found is None else found.until - self._clock.monotonic()
        return None if found is None or left <= 0.0 else found.failure._replace(retry_after_seconds=left)

    def note(self, key: str, failure: EnvironmentFailure) -> EnvironmentFailure:
        """Note a failed build; the failure with the time until a further one."""
        before = self._failed.pop(key, None)
        count = 1 if before is None else before.times + 1
        seconds = self._seconds
        if not failure.is_permanent and failure.reason != ENVIRONMENT_TIMEOUT:
            seconds = min(FIRST_BACKOFF_SECONDS * 2.0 ** min(count - 1, 20), MAX_BACKOFF_SECONDS, seconds)
        while len(self._failed) >= MAX_KEPT:
            del self._failed[next(iter(self._failed))]
        self._failed[key] = _Failed(failure, self._clock.monotonic() + seconds, count)
        return failure._replace(retry_after_seconds=seconds)

    def forget(self, key: str) -> None:
        """It is built."""
        self._failed.pop(key, None)
