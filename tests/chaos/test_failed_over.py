"""A standby is promoted that has not got everything. The row: `tests/chaos/rows/failovers.py`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds

pytestmark = pytest.mark.takes_up_to(SECONDS)


async def test_after_an_asynchronous_failover_every_recurring_job_goes_on() -> None:
    """No run stays RUNNING for ever, no slot is lost, and tokens go on growing."""
    await holds("FAILOVER")
