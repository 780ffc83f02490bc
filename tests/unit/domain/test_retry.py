"""When again, or never: bounded, growing as promised, and spread."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tickwise.domain.errors import Invalid
from tickwise.domain.retry import (
    MAX_RULES,
    RETRY_AFTER_MOST_SECONDS,
    After,
    AttemptFailure,
    Backoff,
    Resolution,
    RetryPolicy,
    RetryRules,
    check_rules,
    delay_seconds,
    named_after,
    resolve,
)

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
    delays_seconds=st.lists(seconds, min_size=1, max_size=20).map(tuple),
    deadline_seconds=st.none() | seconds,
)
answers = st.sampled_from(After)


@given(policies, st.integers(1, 20_000), chances)
def test_there_are_exactly_as_many_retries_as_allowed(policy: RetryPolicy, failures: int, chance: float) -> None:
    """The first failure uses the first one."""
    assert (delay_seconds(policy, failures=failures, chance=chance) is None) == (failures > policy.max_retries)


@given(policies, st.integers(1, 10_000), chances)
def test_a_delay_is_finite_and_within_cap_and_jitter(policy: RetryPolicy, failures: int, chance: float) -> None:
    """For any policy, after any number of failures; never negative. A list is its own cap."""
    delay = delay_seconds(policy, failures=failures, chance=chance)
    if delay is not None:
        cap = max(policy.delays_seconds) if policy.backoff is Backoff.LIST else policy.cap_seconds
        assert math.isfinite(delay)
        assert 0.0 <= delay <= cap * (1.0 + policy.jitter)


@given(policies, st.integers(1, 9_999))
def test_delays_never_shrink(policy: RetryPolicy, failures: int) -> None:
    """Jitter aside, and but for a list, which goes as it is written."""
    assume(policy.backoff is not Backoff.LIST)
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


def test_linear_delays_grow_by_their_base() -> None:
    """Base, twice the base, three times …, at most the cap."""
    policy = RetryPolicy(max_retries=5, backoff=Backoff.LINEAR, base_seconds=30.0, cap_seconds=100.0, jitter=0.0)
    assert [30.0, 60.0, 90.0, 100.0, 100.0] == [
        delay_seconds(policy, failures=failures, chance=0.0) for failures in range(1, 6)
    ]


def test_a_list_is_followed_and_then_its_last_is_repeated() -> None:
    """As it was written, whatever the cap."""
    policy = RetryPolicy(max_retries=4, backoff=Backoff.LIST, delays_seconds=(5.0, 600.0, 60.0), jitter=0.0)
    assert [5.0, 600.0, 60.0, 60.0, None] == [
        delay_seconds(policy, failures=failures, chance=0.0) for failures in range(1, 6)
    ]


@pytest.mark.parametrize("backoff", [each for each in Backoff if each is not Backoff.LIST])
def test_a_number_of_failures_beyond_all_floats_is_still_the_cap(backoff: Backoff) -> None:
    """What grows beyond every number stops at the cap."""
    policy = RetryPolicy(max_retries=10**400, backoff=backoff, base_seconds=7.0, cap_seconds=7.5, jitter=0.0)
    expected = 7.0 if backoff is Backoff.FIXED else 7.5
    assert expected == delay_seconds(policy, failures=10**400, chance=0.0)


# ------------------------------------------------------------------------------------------------ what follows

instants = st.floats(0.0, 4e9)
failures_of_any_kind = st.builds(
    AttemptFailure,
    failures=st.integers(1, 20_000),
    due=instants,
    at=instants,
    reason=st.sampled_from([None, "exit_code", "http_status", "error", "timeout"]),
    symptoms=st.lists(st.sampled_from(["2", "503", "ValueError", "not a number"]), max_size=3).map(tuple),
    permanent=st.booleans(),
    retry_after_seconds=st.none() | st.floats(0.0, 1e9),
)


def failed(failures: int = 1, **more: object) -> AttemptFailure:
    """A failure at 1000 of a run that was due then."""
    given = {"failures": failures, "due": 1000.0, "at": 1000.0, "reason": "error"}
    return AttemptFailure(**{**given, **more})  # type: ignore[arg-type]  # what a test names has its type


@given(policies, failures_of_any_kind, chances)
def test_no_attempt_is_planned_after_the_deadline_nor_before_its_delay(
    policy: RetryPolicy, failure: AttemptFailure, chance: float
) -> None:
    """Whatever failed, and whatever the task asked for."""
    resolution = resolve(policy, failure, chance)
    if resolution.retry_at is None:
        return
    assert resolution.why is None
    assert failure.failures <= policy.max_retries
    assert failure.at <= resolution.retry_at
    if policy.deadline_seconds is not None:
        assert resolution.retry_at <= failure.due + policy.deadline_seconds


@given(policies, failures_of_any_kind, chances)
def test_a_retry_after_is_obeyed_up_to_a_day(policy: RetryPolicy, failure: AttemptFailure, chance: float) -> None:
    """It makes a delay longer, never shorter."""
    plain = resolve(policy, failure._replace(retry_after_seconds=None), chance)
    asked = resolve(policy, failure, chance)
    if asked.retry_at is not None and plain.retry_at is not None:
        least = failure.at + min(failure.retry_after_seconds or 0.0, RETRY_AFTER_MOST_SECONDS)
        assert max(plain.retry_at, least) == asked.retry_at


def test_a_run_without_retries_left_ends_without_a_further_word() -> None:
    """Its error says what failed, and how often is on record."""
    assert Resolution(None) == resolve(RetryPolicy(max_retries=2), failed(3), 0.5)


def test_an_attempt_that_would_begin_after_the_deadline_is_not_made_and_that_is_said() -> None:
    """Counted from the time that the run was due, not from the failure."""
    policy = RetryPolicy(backoff=Backoff.FIXED, base_seconds=10.0, jitter=0.0, deadline_seconds=60.0)
    assert Resolution(1060.0) == resolve(policy, failed(at=1050.0), 0.5)
    late = resolve(policy, failed(at=1050.5), 0.5)
    assert late.retry_at is None
    assert "more than 60 s after the run was due" in (late.why or "")


def test_what_cannot_succeed_is_not_tried_again_unless_a_rule_names_it() -> None:
    """A 404 is permanent, except for a job that says otherwise."""
    missing = failed(reason="http_status", symptoms=("404",), permanent=True)
    assert Resolution(None) == resolve(RetryPolicy(jitter=0.0), missing, 0.5)
    for rules in (RetryRules(status={"404": After.RETRY}), RetryRules(reason={"http_status": After.RETRY})):
        assert Resolution(1001.0) == resolve(RetryPolicy(jitter=0.0, on=rules), missing, 0.5)


def test_too_much_output_is_not_tried_again_unless_a_rule_asks() -> None:
    """The next attempt would write as much. The error says how to ask for it, unless no retry was left anyway."""
    ended = AttemptFailure(failures=1, due=0.0, at=10.0, reason="output_limit")
    found = resolve(RetryPolicy(), ended, MIDDLE)
    asked = RetryPolicy(on=RetryRules(reason={"output_limit": After.RETRY}))
    assert found.retry_at is None
    assert found.why is not None
    assert 'retry.on.reason {"output_limit": "retry"}' in found.why
    assert Resolution(None) == resolve(RetryPolicy(max_retries=0), ended, MIDDLE)
    assert Resolution(11.0) == resolve(asked, ended, MIDDLE)


def test_a_rule_against_a_retry_says_so() -> None:
    """People read why three retries were left and not one was made."""
    policy = RetryPolicy(on=RetryRules(exit_code={"64-78": After.FAIL}))
    resolution = resolve(policy, failed(reason="exit_code", symptoms=("65",)), 0.5)
    assert Resolution(None, "Its job says not to try again after exit code 65 (64-78).") == resolution


def test_a_rule_for_a_retry_adds_none_to_their_number() -> None:
    """`retry` means: as often as `max_retries` says."""
    policy = RetryPolicy(max_retries=1, on=RetryRules(reason={"error": After.RETRY}))
    assert resolve(policy, failed(2), 0.5).retry_at is None


# ------------------------------------------------------------------------------------------------------- rules

EXIT = RetryRules(
    exit_code={"1-255": After.FAIL, "70-79": After.RETRY, "75": After.FAIL},
    reason={"exit_code": After.RETRY, "timeout": After.FAIL},
)
SCRIPT = RetryRules(exit_code={"1": After.FAIL}, error={"OSError": After.RETRY})
STATUS = RetryRules(status={"5xx": After.RETRY, "500-503": After.FAIL, "502": After.RETRY})
ERRORS = RetryRules(error={"Exception": After.RETRY, "LookupError": After.FAIL, "shop.Gone": After.RETRY})
GONE = ("shop.Gone", "Gone", "builtins.KeyError", "KeyError", "builtins.LookupError", "LookupError", "Exception")


@pytest.mark.parametrize(
    ("rules", "reason", "symptoms", "after"),
    [
        (EXIT, "exit_code", ("75",), After.FAIL),
        (EXIT, "exit_code", ("74",), After.RETRY),
        (EXIT, "exit_code", ("2",), After.FAIL),
        (EXIT, "exit_code", (), After.RETRY),
        (SCRIPT, "exit_code", ("1", "__main__.Later", "Later", "builtins.OSError", "OSError"), After.RETRY),
        (SCRIPT, "exit_code", ("1", "builtins.KeyError", "KeyError"), After.FAIL),
        (EXIT, "timeout", (), After.FAIL),
        (EXIT, "signal", ("75",), None),
        (STATUS, "http_status", ("502",), After.RETRY),
        (STATUS, "http_status", ("503",), After.FAIL),
        (STATUS, "http_status", ("504",), After.RETRY),
        (STATUS, "http_status", ("404",), None),
        (ERRORS, "error", GONE, After.RETRY),
        (ERRORS, "error", GONE[2:], After.FAIL),
        (ERRORS, "error", ("ValueError", "Exception"), After.RETRY),
        (ERRORS, "error", ("SystemExit", "BaseException"), None),
    ],
)
def test_the_most_special_rule_wins(
    rules: RetryRules, reason: str, symptoms: tuple[str, ...], after: After | None
) -> None:
    """A number before a range, a narrow one before a wide one, before `5xx`; a class before its bases; all before the
    reason."""
    named = named_after(rules, reason, symptoms)
    assert after == (None if named is None else named.after)


@given(st.dictionaries(st.text(max_size=12), answers, max_size=8), st.text(max_size=12))
def test_no_text_of_a_rule_or_a_symptom_breaks_anything(rules: dict[str, After], symptom: str) -> None:
    """A rule that cannot be read is met by nothing; one that was not refused can be."""
    everything = RetryRules(exit_code=rules, error=rules, status=rules, reason=rules)
    for reason in ("exit_code", "http_status", "error", symptom):
        named_after(everything, reason, (symptom,))
    for kind in ("exit_code", "error", "status", "reason"):
        with contextlib.suppress(Invalid):
            check_rules(RetryRules(**{kind: rules}))


@given(st.sets(st.integers(1, 255)), st.integers(1, 255))
def test_an_exit_code_meets_its_own_number_and_no_other(codes: set[int], code: int) -> None:
    """Numbers are compared as numbers."""
    rules = RetryRules(exit_code={str(each): After.FAIL for each in codes})
    check_rules(rules)
    assert (code in codes) == (named_after(rules, "exit_code", (str(code),)) is not None)


@pytest.mark.parametrize(
    ("rules", "pointer", "said"),
    [
        ({"exit_code": {"0": After.RETRY}}, "/exit_code/0", "0 is success"),
        ({"exit_code": {"256": After.RETRY}}, "/exit_code/256", "from 1 to 255"),
        ({"exit_code": {"78-64": After.RETRY}}, "/exit_code/78-64", "write 64-78"),
        ({"exit_code": {"5xx": After.RETRY}}, "/exit_code/5xx", "such as 75 or 64-78"),
        ({"exit_code": {"-1": After.RETRY}}, "/exit_code/-1", "is no exit code"),
        ({"exit_code": {"\u0664": After.RETRY}}, "/exit_code/\u0664", "is no exit code"),
        ({"exit_code": {"1-9": After.RETRY, "5-20": After.FAIL}}, "/exit_code/5-20", "make them disjoint"),
        ({"status": {"9xx": After.RETRY}}, "/status/9xx", "5xx"),
        ({"status": {"600": After.RETRY}}, "/status/600", "from 100 to 599"),
        ({"status": {"9" * 400: After.RETRY}}, "/status/" + "9" * 300, "is no status"),
        ({"error": {"not a name": After.RETRY}}, "/error/not a name", "as in Python"),
        ({"error": {"a/b~c": After.RETRY}}, "/error/a~1b~0c", "as in Python"),
        ({"reason": {"Timeout": After.RETRY}}, "/reason/Timeout", "as runs show it"),
        ({"reason": {"poison": After.RETRY}}, "/reason/poison", "no failure of an attempt"),
        ({"reason": {f"r{number}": After.FAIL for number in range(MAX_RULES + 1)}}, "/reason", "at most 100"),
    ],
)
def test_a_rule_that_cannot_be_met_is_refused_with_its_place(
    rules: dict[str, dict[str, After]], pointer: str, said: str
) -> None:
    """And with what to write instead."""
    with pytest.raises(Invalid) as refused:
        check_rules(RetryRules(**rules))
    assert "/retry/on" + pointer == refused.value.pointer
    assert said in refused.value.detail


def test_rules_that_are_written_well_are_taken() -> None:
    """Nested ranges, classes, names of every form."""
    names = ["ValueError", "shop.orders.Transient", "shop.tests.<locals>.Gone", "Öffnung"]
    check_rules(EXIT)
    check_rules(STATUS)
    check_rules(RetryRules(error=dict.fromkeys(names, After.RETRY)))
