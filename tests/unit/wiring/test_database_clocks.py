"""What `tickwise doctor` says of the clocks of several databases: what the readings show, however long one took."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tickwise.testing.clock import VirtualClock
from tickwise.wiring.storage.database_findings import clocks_apart


class ReadClock:
    """A database whose clock is off, and whose answers take their time on their way here."""

    def __init__(self, clock: VirtualClock, ahead: float, ways: Sequence[float]) -> None:
        self._clock, self._ahead, self._ways = clock, ahead, [*ways]

    async def now(self) -> float:
        """The time there, when the question comes; the last way holds for all further answers."""
        said = self._clock.now() + self._ahead
        await self._clock.advance(self._ways.pop(0) if len(self._ways) > 1 else self._ways[0])
        return said


@pytest.mark.parametrize(
    ("ahead", "ways", "level"),
    [
        (0.0, [0.01], "ok"),
        (0.0, [3.0, 0.01], "ok"),
        (0.3, [3.0, 0.01], "ok"),
        (0.0, [3.0], "ok"),
        (2.0, [0.01], "warning"),
        (2.0, [3.0, 0.01], "warning"),
        (-2.0, [3.0, 0.01], "warning"),
        (10.0, [3.0], "warning"),
    ],
)
async def test_clocks_that_differ_are_told_and_slow_answers_are_not(
    ahead: float, ways: list[float], level: str
) -> None:
    """A machine that stands still while an answer comes makes no clock wrong, and hides none for long."""
    clock = VirtualClock()
    opened = {1: ReadClock(clock, 0.0, [0.01]), 2: ReadClock(clock, ahead, ways)}
    [finding] = await clocks_apart(opened, clock)
    assert ("database clocks", level) == (finding.name, finding.level)
    if ways[-1] < 1.0 and level == "warning":
        first, behind = (2, 1) if ahead > 0 else (1, 2)
        assert f"database {first} is 2.0 s ahead of database {behind}" == finding.detail
    if ways[-1] > 1.0 and level == "ok":
        assert "answers are slow" in finding.detail


async def test_the_two_databases_that_differ_for_sure_are_named() -> None:
    """And not one whose clock is not known, for its answers are slow."""
    clock = VirtualClock()
    opened = {1: ReadClock(clock, 0.0, [0.01]), 2: ReadClock(clock, 0.8, [0.01]), 3: ReadClock(clock, 1.0, [10.0])}
    [finding] = await clocks_apart(opened, clock)
    assert ("warning", "database 2 is 0.8 s ahead of database 1") == (finding.level, finding.detail)
