"""Bad days of the whole product on Cassandra. The rows: `tests/chaos/rows/keepers.py`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = [pytest.mark.thorough, pytest.mark.takes_up_to(SECONDS)]


async def test_keepers_roles_and_a_node_may_be_killed_and_each_job_ends_once() -> None:
    """By the log of the shard: nothing acknowledged is lost, nothing ends twice, nothing runs again without a cause."""
    await holds("R2-KEEPERS")


async def test_a_frozen_owner_that_goes_on_is_refused_and_lost_tables_are_made_anew_under_load() -> None:
    """Another keeper has the shard by then; and both keepers may be gone for a while."""
    await holds("R6-KEEPERS")


async def test_a_hot_namespace_is_told_to_wait_and_another_does_not_notice() -> None:
    """429 for the one that asks for more than it may; all requests of the other are taken, and its runs begin while
    hundreds of the first wait."""
    await holds("HOT-KEEPERS")
