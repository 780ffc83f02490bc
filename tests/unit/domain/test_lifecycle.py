"""The life of a run is one table, and nothing else is possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.domain import lifecycle
from tickwise.domain.errors import Bug
from tickwise.domain.lifecycle import CODES, FINAL, HELD, MOVES, STATES, RunEvent, RunState, move, steps

EVERY_PAIR = [(state, event) for state in RunState for event in RunEvent]


@pytest.mark.parametrize(("state", "event"), EVERY_PAIR, ids=lambda value: value.name)
def test_every_pair_of_state_and_event_is_in_the_table_or_refused(state: RunState, event: RunEvent) -> None:
    """There is no third answer."""
    if (state, event) in MOVES:
        assert move(state, event) is MOVES[state, event]
    else:
        with pytest.raises(Bug, match=f"{state} cannot be {event.name}"):
            move(state, event)


def test_the_final_states_are_the_four_that_the_words_name() -> None:
    """SPEC, "Words": exactly one of them ends a run."""
    assert {RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED} == FINAL


def test_only_dispatched_and_running_runs_are_held() -> None:
    """And each held state is left when its holder dies."""
    assert {RunState.DISPATCHED, RunState.RUNNING} == HELD
    assert {state for state, event in MOVES if event is RunEvent.LEASE_LOST} == HELD


@given(st.lists(st.sampled_from(RunEvent), max_size=30))
def test_whatever_happens_a_final_state_stays(events: list[RunEvent]) -> None:
    """Any order of events: those that are refused change nothing, and after the end all are refused."""
    state = RunState.QUEUED
    for event in events:
        before = state
        try:
            state = move(state, event)
        except Bug:
            continue
        assert before not in FINAL
        assert (before, state) in steps()


def test_every_state_can_be_reached_and_every_run_can_end() -> None:
    """From QUEUED to everywhere, and from everywhere to an end."""
    assert reached_from(RunState.QUEUED) == set(RunState)
    for state in RunState:
        assert reached_from(state) & FINAL, state


def test_an_attempt_begins_only_by_a_claim() -> None:
    """No other event leads to a holder."""
    into_held = {(before, event) for (before, event), after in MOVES.items() if after in HELD and before not in HELD}
    assert into_held == {(RunState.QUEUED, RunEvent.CLAIMED), (RunState.RETRYING, RunEvent.CLAIMED)}


def test_what_began_is_never_skipped_or_begun_again() -> None:
    """Once RUNNING, a run ends, is retried, goes back with its attempt on record, or loses its holder."""
    events = {event for state, event in MOVES if state is RunState.RUNNING}
    assert not events & {RunEvent.SKIPPED, RunEvent.CLAIMED, RunEvent.STARTED}


def test_stored_numbers_of_states_never_change() -> None:
    """Databases hold them."""
    expected = {
        "QUEUED": 1,
        "DISPATCHED": 2,
        "RUNNING": 3,
        "RETRYING": 4,
        "SUCCESS": 5,
        "FAILED": 6,
        "CANCELLED": 7,
        "SKIPPED": 8,
    }
    assert expected == {state.name: code for state, code in CODES.items()}
    assert {state: STATES[code] for state, code in CODES.items()} == {state: state for state in RunState}


def test_the_table_cannot_be_changed_by_accident() -> None:
    """It is read-only, and its shorthands are gone."""
    with pytest.raises(TypeError):
        MOVES[RunState.SUCCESS, RunEvent.CLAIMED] = RunState.QUEUED  # type: ignore[index]  # that is what is tested
    assert not hasattr(lifecycle, "S")


def reached_from(start: RunState) -> set[RunState]:
    """Every state that some order of events leads to, the start included."""
    found, open_ends = {start}, [start]
    while open_ends:
        state = open_ends.pop()
        for before, after in steps():
            if before is state and after not in found:
                found.add(after)
                open_ends.append(after)
    return found
