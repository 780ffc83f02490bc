"""Many want the same at the same time, and one row stands in the way of others. The rows: `tests/chaos/rows`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = pytest.mark.takes_up_to(SECONDS)


async def test_a_run_ends_once_by_the_first_that_ends_it() -> None:
    """Success, failure, time-out, cancel and retry at once; what was answered to be cancelled stays so."""
    await holds("R13")


async def test_one_key_is_one_job_however_many_ask_and_how_often() -> None:
    """At once, by way of two APIs, and again after the answer."""
    await holds("R18")


async def test_runs_that_cannot_be_freed_hold_up_no_other() -> None:
    """Their rows are locked by somebody; the run of an executor that died after theirs goes on elsewhere."""
    await holds("R19")
