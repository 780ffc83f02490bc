"""A broker that loses, repeats, dies; what nobody can read; a store that is away. The rows: `tests/chaos/rows`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = pytest.mark.takes_up_to(SECONDS)


async def test_a_broker_that_loses_repeats_reorders_and_dies_costs_time_and_no_run() -> None:
    """What a hint does not tell, the store does."""
    await holds("R7")


async def test_what_nobody_can_read_is_parked_with_its_bytes_and_all_else_goes_on() -> None:
    """In the topics of requests, of results, and of hints: each such message, and no role ends."""
    await holds("R7-POISON")


async def test_jobs_are_accepted_while_the_store_is_away_and_all_of_them_exist_once_afterwards() -> None:
    """With buffered ingest; a cancel of that time holds, too."""
    await holds("R7-BUFFERED")
