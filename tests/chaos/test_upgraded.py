"""The release before this one and this one on one database. The row: `tests/chaos/rows/upgrades.py`."""

from __future__ import annotations

import pytest

from tests.chaos.short import SECONDS, holds


@pytest.mark.takes_up_to(SECONDS)
async def test_two_releases_work_on_one_database_forwards_and_back() -> None:
    """Under load: the schema is upgraded while the older roles work, the newer ones take their places one by one, and
    the older ones come back. Nothing is lost, nothing runs twice. Skipped in a copy without the history, such as a
    source archive."""
    try:
        await holds("R21")
    except NotImplementedError as reason:
        pytest.skip(str(reason))
