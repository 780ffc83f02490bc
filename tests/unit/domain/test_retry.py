"""When again, or never: bounded, growing as promised, and spread."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain.retry import Backoff, RetryPolicy, delay_seconds

MIDDLE = 0.5
"""The chance at which jitter moves nothing."""

seconds = st.floats(0.0, 1e9)
chances = st.floats(0.0, 1.0, exclude_max=True)
policies = st.builds(
    RetryPolicy,
    max_retries=st.integers(0, 10_000),
    backoff=st.sampled_from(Backoff),
    base_seconds=seconds,
    factor=st.floats(1.0, 1e300),
    cap_seconds=seconds,
    jitter=st.floats(0.0, 1.0),
)


@given(policies, st.integers(1, 20_000), chances)
def test_there_are_exactly_as_many_retries_as_allowed(policy: RetryPolicy, failures: int, chance: float) -> None:
    """The first failure uses the first one."""
    assert (delay_seconds(policy, failures=failures, chance=chance) is None) == (failures > policy.max_retries)


@given(policies, st.integers(1, 10_000), chances)
def test_a_delay_is_finite_and_within_cap_and_jitter(policy: RetryPolicy, failures: int, chance: float) -> None:
    """For any policy, after any number of failures; never negative."""
    delay = delay_seconds(policy, failures=failures, chance=chance)
    if delay is not None:
        assert math.isfinite(delay)
        assert 0.0 <= delay <= policy.cap_seconds * (1.0 + policy.jitter)


@given(policies, st.integers(1, 9_999))
def test_delays_never_shrink(policy: RetryPolicy, failures: int) -> None:
    """Jitter aside."""
    first = delay_seconds(policy, failures=failures, chance=MIDDLE)
    second = delay_seconds(policy, failures=failures + 1, chance=MIDDLE)
    if first is not None and second is not None:
        assert first <= second


@given(policies, st.integers(1, 10_000), chances)
def test_jitter_moves_a_delay_by_no_more_than_its_share(policy: RetryPolicy, failures: int, chance: float) -> None:
    """Up to ± jitter of the delay itself."""
    plain = delay_seconds(policy, failures=failures, chance=MIDDLE)
    moved = delay_seconds(policy, failures=failures, chance=chance)
    if plain is not None and moved is not None:
        assert abs(moved - plain) <= plain * policy.jitter * (1.0 + 1e-9)


def test_exponential_delays_double_until_their_cap() -> None:
    """The defaults: 1 s, 2 s, 4 s … 300 s."""
    policy = RetryPolicy(max_retries=12, jitter=0.0)
    delays = [delay_seconds(policy, failures=failures, chance=0.0) for failures in range(1, 13)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0, 300.0]


def test_fixed_delays_stay_as_they_are() -> None:
    """Every time the base."""
    policy = RetryPolicy(max_retries=5, backoff=Backoff.FIXED, base_seconds=7.0, jitter=0.0)
    assert {delay_seconds(policy, failures=failures, chance=0.0) for failures in range(1, 6)} == {7.0}


def test_jitter_spreads_over_its_whole_width() -> None:
    """Jobs that failed together do not return together."""
    policy = RetryPolicy(max_retries=1, base_seconds=10.0, jitter=0.2)
    delays = [delay_seconds(policy, failures=1, chance=chance) for chance in (0.0, 0.25, 0.5, 0.75)]
    assert delays == [8.0, 9.0, 10.0, 11.0]


def test_a_policy_without_retries_never_tries_again() -> None:
    """`max_retries` 0."""
    assert delay_seconds(RetryPolicy(max_retries=0), failures=1, chance=0.0) is None


def test_a_slow_growth_reaches_its_cap_too() -> None:
    """The formula holds for every number of failures."""
    policy = RetryPolicy(max_retries=1_000, factor=1.01, cap_seconds=300.0, jitter=0.0)
    assert delay_seconds(policy, failures=101, chance=0.0) == 1.01**100
    assert delay_seconds(policy, failures=1_000, chance=0.0) == 300.0
