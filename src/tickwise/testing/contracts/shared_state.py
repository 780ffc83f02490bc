"""The shared state: notes that several processes see, until their time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tickwise.adapters.clock import SystemClock
from tickwise.ports.shared_state import (
    MAX_FACTS_BYTES,
    MAX_LOOK,
    MAX_NAME_LENGTH,
    MAX_TTL_SECONDS,
    Facts,
    Note,
    SharedState,
)
from tickwise.testing.contracts.base import Contract

LONG_SECONDS = 600.0
WITHIN_SECONDS = 60.0
_CLOCK = SystemClock()


class SharedStateContract(Contract):
    """The promises of each shared state. The adapter's class provides the fixture `shared_states`: two that see the
    same, not started, and empty. Where only one can be, it is the same object twice."""

    @pytest_asyncio.fixture
    async def started(
        self, shared_states: tuple[SharedState, SharedState]
    ) -> AsyncIterator[tuple[SharedState, SharedState]]:
        """Both, at work."""
        for shared_state in shared_states:
            await shared_state.start()
        yield shared_states
        for shared_state in shared_states:
            await shared_state.stop()

    async def test_what_is_told_is_seen_by_all_of_its_kind_or_by_name(
        self, started: tuple[SharedState, SharedState]
    ) -> None:
        """Many at once; other kinds and other names are not there."""
        here, there = started
        notes = [Note("role", name, {"since": number}) for number, name in enumerate(("a", "b", "c"))]
        assert await here.put([*notes, Note("other", "a", {})], LONG_SECONDS)
        assert {"a": {"since": 0}, "b": {"since": 1}, "c": {"since": 2}} == await there.look("role")
        assert {"b": {"since": 1}} == await there.look("role", ["b", "nobody"])
        assert {} == await there.look("role", [])
        assert {} == await there.look("nothing")

    async def test_the_same_name_again_takes_the_place_of_the_one_before(
        self, started: tuple[SharedState, SharedState]
    ) -> None:
        """In one call the last one counts."""
        here, there = started
        await here.put([Note("role", "a", {"n": 1})], LONG_SECONDS)
        await there.put([Note("role", "a", {"n": 2}), Note("role", "a", {"n": 3})], LONG_SECONDS)
        assert {"a": {"n": 3}} == await here.look("role")

    async def test_a_note_goes_when_its_time_is_over(self, started: tuple[SharedState, SharedState]) -> None:
        """The others stay."""
        here, there = started
        await here.put([Note("role", "stays", {})], LONG_SECONDS)
        await here.put([Note("role", "goes", {})], 0.05)

        async def gone() -> None:
            while await there.look("role") != {"stays": {}}:
                await _CLOCK.sleep(0.02)

        await asyncio.wait_for(gone(), WITHIN_SECONDS)
        assert {} == await there.look("role", ["goes"])

    async def test_a_note_that_is_told_again_lives_on(self, started: tuple[SharedState, SharedState]) -> None:
        """Its time begins anew, whichever process tells."""
        here, there = started
        await here.put([Note("role", "a", {})], 0.2)
        await there.put([Note("role", "a", {})], LONG_SECONDS)
        await _CLOCK.sleep(0.4)
        assert {"a": {}} == await here.look("role")

    async def test_what_is_taken_down_is_gone(self, started: tuple[SharedState, SharedState]) -> None:
        """Any process may remove a note; the removal of an absent note is no error."""
        here, there = started
        await here.put([Note("role", name, {}) for name in "abc"], LONG_SECONDS)
        await there.take_down("role", ["a", "c", "nobody"])
        await there.take_down("role", [])
        assert {"b": {}} == await here.look("role")

    @pytest.mark.parametrize(
        "facts",
        [{}, {"text": "\N{SNOWMAN} ' \" \\ : *", "none": None, "list": [1, 2.5, True]}, {"x": "y" * 3_900}],
    )
    async def test_facts_come_back_as_they_were_told(
        self, started: tuple[SharedState, SharedState], facts: Facts
    ) -> None:
        """Under any name."""
        here, there = started
        name = "a name: with %, *, ' and \N{SNOWMAN}"
        assert await here.put([Note(name, name, facts)], LONG_SECONDS)
        assert {name: facts} == await there.look(name)

    async def test_very_many_notes_are_bounded_where_all_are_looked_at(
        self, started: tuple[SharedState, SharedState]
    ) -> None:
        """And each of them is found by its name."""
        here, there = started
        notes = [Note("many", f"{number}", {"n": number}) for number in range(3 * MAX_LOOK)]
        assert await here.put(notes, LONG_SECONDS)
        found = await there.look("many")
        assert found is not None
        assert len(found) == MAX_LOOK
        assert {"0": {"n": 0}, "2999": {"n": 2999}} == await there.look("many", ["0", "2999"])

    @pytest.mark.parametrize(
        ("kind", "name", "facts"),
        [
            ("", "a", {}),
            ("k", "", {}),
            ("k", "x" * (MAX_NAME_LENGTH + 1), {}),
            ("k", "a\0b", {}),
            ("k", "\ud800", {}),
            ("k", "a", {"x": "y" * MAX_FACTS_BYTES}),
            ("k", "a", {"x": "\0"}),
            ("k", "a", {"x": object()}),
        ],
    )
    async def test_what_breaks_a_limit_is_refused(
        self, started: tuple[SharedState, SharedState], kind: str, name: str, facts: dict[str, Any]
    ) -> None:
        """And nothing of that call is put up."""
        here, _ = started
        with pytest.raises(ValueError, match=r"."):
            await here.put([Note("k", "good", {}), Note(kind, name, facts)], LONG_SECONDS)
        assert {} == await here.look("k")

    @pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), MAX_TTL_SECONDS + 1])
    async def test_a_time_that_no_note_can_have_is_refused(
        self, started: tuple[SharedState, SharedState], seconds: float
    ) -> None:
        """Each note ends some day."""
        here, _ = started
        with pytest.raises(ValueError, match="kept for"):
            await here.put([Note("k", "a", {})], seconds)

    async def test_many_who_tell_at_once_do_not_hinder_each_other(
        self, started: tuple[SharedState, SharedState]
    ) -> None:
        """Of the same names, in different orders."""
        here, there = started
        names = [f"{number}" for number in range(50)]
        calls = [
            shared_state.put([Note("role", name, {"by": by}) for name in order], LONG_SECONDS)
            for by in range(10)
            for shared_state, order in ((here, names), (there, names[::-1]))
        ]
        assert [True] * len(calls) == await asyncio.gather(*calls)
        found = await here.look("role")
        assert set(names) == set(found or {})
