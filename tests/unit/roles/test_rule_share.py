"""What the calendars of one namespace cost holds up that namespace."""

from __future__ import annotations

import pytest

from tickwise.roles.scheduler.rule_budget import BURST_SECONDS, LOOKS_PER_SECOND, MAX_KEPT, RuleShare


def test_a_namespace_waits_for_what_it_spends_beyond_its_share() -> None:
    """And no other waits for it; after that time it goes on."""
    share = RuleShare()
    share.spend("greedy", int(LOOKS_PER_SECOND * (BURST_SECONDS + 5.0)), 100.0)
    assert share.wait_seconds("greedy", 100.0) == pytest.approx(5.0)
    assert share.wait_seconds("modest", 100.0) == 0.0
    assert share.wait_seconds("greedy", 103.0) == pytest.approx(2.0)
    assert share.wait_seconds("greedy", 105.1) == 0.0


def test_who_keeps_to_the_share_never_waits() -> None:
    """However long it goes on."""
    share = RuleShare()
    for second in range(1_000):
        assert share.wait_seconds("steady", float(second)) == 0.0
        share.spend("steady", LOOKS_PER_SECOND, float(second))


def test_what_is_kept_is_bounded() -> None:
    """By number, and by time: who has time left over is forgotten."""
    share = RuleShare()
    for number in range(10 * MAX_KEPT):
        share.spend(f"namespace {number}", 10, float(number))
    assert len(share._ahead_to) <= MAX_KEPT + 1
