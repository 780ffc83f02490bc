"""Processes are killed, at any time and at every point that matters. The rows: `tests/chaos/rows`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = pytest.mark.takes_up_to(SECONDS)


async def test_with_no_fault_each_job_is_executed_exactly_once() -> None:
    """And the journal shows nothing but legal moves, and every slot can be used afterwards."""
    await holds("R1")


async def test_any_process_may_be_killed_no_job_is_lost_and_each_ends_once() -> None:
    """API, scheduler or executor: what runs a second time was held by an executor that was killed."""
    await holds("R2")


async def test_a_role_that_dies_between_any_two_of_its_steps_loses_nothing() -> None:
    """Before and after each thing that it tells the store: claims, starts, ends, beats, fires, expiries, submits."""
    await holds("R3")
