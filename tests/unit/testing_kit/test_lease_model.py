"""The lease and fencing protocol, searched whole: safe and live as it is, and broken without any one of its guards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tickwise.domain.lifecycle import MOVES
from tickwise.testing.lease_model import STUCK, TICKWISE, Fence, Protocol, SearchResult, search

pytestmark = pytest.mark.thorough

STALE = "a stale result was accepted"
AGAIN = "what must not run twice began again"
UNCANCELLED = "what was to be cancelled was claimed again"
SMALL = replace(TICKWISE, tokens=1, registrations=2)

BROKEN: dict[str, tuple[Protocol, str]] = {
    "fence on the state alone": (replace(TICKWISE, fence=Fence.STATE), STALE),
    "fence on the executor's name": (replace(TICKWISE, fence=Fence.NAME), STALE),
    "fence on the executor's number": (replace(TICKWISE, fence=Fence.NUMBER), STALE),
    "lease judged by a node's clock": (replace(TICKWISE, fence=Fence.NODE_CLOCK), STALE),
    "no fence": (replace(TICKWISE, fence=Fence.NOTHING), STALE),
    "leases never expire": (replace(SMALL, leases_expire=False), STUCK),
    "the expired may claim": (replace(SMALL, active_claim=False), STUCK),
    "a claim's lost answer is forgotten": (replace(SMALL, claims_kept=False), STUCK),
    "a report is sent once": (replace(SMALL, reports_repeated=False), STUCK),
    "starts are not recorded first": (replace(TICKWISE, starts_recorded=False), AGAIN),
    "a refused start begins": (replace(TICKWISE, refusals_heeded=False), AGAIN),
    "a repeated start is refused": (replace(SMALL, starts_repeatable=False), STUCK),
    "what must not run twice is freed": (replace(TICKWISE, unknown_held=False), AGAIN),
    "a cancel dies with the attempt": (replace(TICKWISE, cancels_kept=False), UNCANCELLED),
    "an executor comes back under its number": (
        replace(TICKWISE, reborn_under_new_number=False, tokens=1),
        STUCK,
    ),
}


@pytest.fixture(scope="module")
def whole() -> Sequence[SearchResult]:
    """Three tokens between two executors of which either may die; and two tokens, and either may come back."""
    return [search(replace(TICKWISE, tokens=3, registrations=2)), search(replace(TICKWISE, tokens=2, registrations=3))]


@pytest.mark.takes_up_to(300)
def test_the_protocol_is_safe_and_live(whole: Sequence[SearchResult]) -> None:
    """In every state that crashes, pauses, lost, late and doubled writes and cancels can lead to."""
    for found in whole:
        assert found.violation is None, str(found)
        assert found.states > 10_000, "so few states that the search has shown nothing"
        assert f"{found.states} states, safe and live" == str(found)


@pytest.mark.takes_up_to(300)
def test_the_model_makes_every_legal_move_of_the_product_and_no_other(whole: Sequence[SearchResult]) -> None:
    """A move that is added to the table and not to the model, or the other way round, is seen here."""
    assert set(MOVES) == frozenset().union(*(found.moves for found in whole))


@pytest.mark.parametrize(("protocol", "violation"), BROKEN.values(), ids=BROKEN)
def test_without_any_one_guard_the_search_finds_what_goes_wrong(protocol: Protocol, violation: str) -> None:
    """And tells the shortest way there."""
    found = search(protocol)
    assert violation == found.violation, str(found)
    assert 2 <= len(found.trace) <= 6, str(found)
    print(found)  # noqa: T201  # what `pytest -s` is run for


def test_a_trace_can_be_read_from_its_first_line_to_its_last() -> None:
    """The field's oldest fault: an executor that holds a run for the second time answers for the first."""
    expected = """\
a stale result was accepted
  1. A1 claims it with token 1
  2. A1 says of token 1: RELEASED: QUEUED, and the answer is lost
  3. A1 claims it with token 2
  4. A1 says of token 1: RELEASED is accepted"""
    assert expected == str(search(replace(TICKWISE, fence=Fence.NAME)))


def test_every_guard_of_the_model_is_taken_out_once() -> None:
    """A guard that nothing goes wrong without is none."""
    sizes = {"tokens", "registrations", "late_most", "crashes_most"}
    guards = {name for name in Protocol.__dataclass_fields__ if name not in sizes}
    taken = {
        name for protocol, _ in BROKEN.values() for name in guards if getattr(protocol, name) != getattr(TICKWISE, name)
    }
    assert guards == taken
    assert set(Fence) == {protocol.fence for protocol, _ in BROKEN.values()}
