"""Executors stand still, are restarted, and the database goes away under all of them. The rows: `tests/chaos/rows`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = pytest.mark.takes_up_to(SECONDS)


async def test_what_a_paused_executor_held_goes_on_elsewhere_and_its_own_word_is_refused() -> None:
    """It is told that it was expired, and its tasks are killed with all their processes."""
    await holds("R4")


async def test_a_database_that_fails_loses_nothing_that_was_acknowledged_and_runs_nothing_twice() -> None:
    """Killed, stopped, restarted, frozen, read-only, out of connections, its sessions cut."""
    await holds("R6")


async def test_a_rolling_restart_runs_nothing_again() -> None:
    """Who is told to stop takes nothing new, lets its tasks end, and is heard of until the last has."""
    await holds("R14")
