"""What a process remembers of sets that were too large is bounded, and only ever says "too large"."""

from __future__ import annotations

from tickwise.adapters.store.postgres.large_sets import KEPT_SECONDS, SETS_MAX, LargeSets
from tickwise.testing.clock import VirtualClock


def test_a_set_with_more_members_has_more_than_fewer() -> None:
    """More than 1,000 are more than 250; whether they are more than 5,000 is not known."""
    known = LargeSets(VirtualClock())
    known.note(1_000, "owner")
    told = [known.has_more_than(most, "owner") for most in (250, 1_000, 5_000)]
    assert [True, True, False] == told
    assert not known.has_more_than(1, "another")


async def test_it_is_asked_again_after_some_minutes() -> None:
    """A label that few jobs have by then is found by its index."""
    clock = VirtualClock()
    known = LargeSets(clock)
    known.note(1_000, "label")
    await clock.advance(KEPT_SECONDS - 1.0)
    assert known.has_more_than(1_000, "label")
    await clock.advance(1.0)
    assert not known.has_more_than(1_000, "label")


def test_as_many_are_remembered_as_there_is_room_for() -> None:
    """The oldest goes first; one that was noted again is the newest."""
    known = LargeSets(VirtualClock())
    for number in range(SETS_MAX):
        known.note(1, number)
    known.note(1, 0)
    known.note(1, "one more")
    told = [known.has_more_than(1, of) for of in (0, 1, 2, "one more")]
    assert [True, False, True, True] == told


def test_another_epoch_of_the_store_forgets_them() -> None:
    """A store that was set back may have few."""
    known = LargeSets(VirtualClock())
    known.note(1_000, "label")
    known.forget()
    assert not known.has_more_than(1, "label")
