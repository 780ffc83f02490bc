"""A build that failed is not repeated by each run: for good for minutes, for now with growing pauses."""

from __future__ import annotations

import pytest

from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.environments.failures import MAX_BACKOFF_SECONDS, MAX_KEPT, RecentFailures
from tickwise.ports.environments import (
    ENVIRONMENT_INVALID,
    ENVIRONMENT_TIMEOUT,
    ENVIRONMENT_UNAVAILABLE,
    EnvironmentFailure,
)

INVALID = EnvironmentFailure(ENVIRONMENT_INVALID, "there is no such package")
AWAY = EnvironmentFailure(ENVIRONMENT_UNAVAILABLE, "the index is away")
SLOW = EnvironmentFailure(ENVIRONMENT_TIMEOUT, "not built within 300 s")


@pytest.mark.parametrize("failure", [INVALID, SLOW])
async def test_what_fails_for_good_or_takes_long_is_answered_for_the_whole_time(failure: EnvironmentFailure) -> None:
    """With the seconds that are left; then it is built again."""
    clock = VirtualClock()
    failures = RecentFailures(clock, 300.0)
    assert failures.of("a") is None
    assert failures.note("a", failure) == failure._replace(retry_after_seconds=300.0)
    await clock.advance(100.0)
    assert failures.of("a") == failure._replace(retry_after_seconds=200.0)
    assert failures.of("b") is None
    await clock.advance(200.0)
    assert failures.of("a") is None


async def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    """Until it is built; then they begin anew."""
    clock = VirtualClock()
    failures = RecentFailures(clock, 300.0)
    pauses = []
    for _ in range(8):
        pauses.append(failures.note("a", AWAY).retry_after_seconds)
        await clock.advance(pauses[-1] or 0.0)
        assert failures.of("a") is None
    assert [1, 2, 4, 8, 16, 32, MAX_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS] == pauses
    failures.forget("a")
    assert 1.0 == failures.note("a", AWAY).retry_after_seconds


async def test_nothing_is_remembered_where_that_is_asked_for() -> None:
    """With 0 seconds each run builds."""
    failures = RecentFailures(VirtualClock(), 0.0)
    for failure in (INVALID, AWAY):
        failures.note("a", failure)
        assert failures.of("a") is None


async def test_the_number_of_remembered_failures_is_bounded() -> None:
    """The oldest go."""
    failures = RecentFailures(VirtualClock(), 300.0)
    for number in range(MAX_KEPT + 1):
        failures.note(str(number), INVALID)
    assert failures.of("0") is None
    assert failures.of("1") is not None
