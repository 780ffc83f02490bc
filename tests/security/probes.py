"""What a probe is: a test that attacks, whose docstring says what is tried and whose marker says what stops it.

    @probe(1, stopped_by="the body is read although an upgrade is asked for")
    async def test_an_upgrade_header_loses_no_body() -> None:
        '''A POST with `Upgrade: h2c` and a body, sent as raw bytes.'''

The first paragraph of the docstring is the column "tried" of the table that `make security` prints. Parametrized tests
are one row, with the count of their cases. `conftest.py` refuses a test in this folder that is no probe.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pytest

MARKER: Final = "probe"

POINTS: Final = {
    1: "the connection stays in step",
    2: "one job stops no process",
    3: "limits before a key is checked",
    4: "a task owns nothing but itself",
    5: "keys can be taken back",
    6: "one tenant stops no other",
    7: "addresses that http tasks may reach",
    8: "stored scripts and calendars",
    9: "deployments and messages",
    10: "people, roles and tokens",
    11: "what travels between machines",
}
"""The headings of the table."""


def probe(point: int, *, stopped_by: str) -> pytest.MarkDecorator:
    """Mark a test as a probe of this heading."""
    if point not in POINTS:
        raise ValueError(f"there is no heading {point}; there are {', '.join(map(str, POINTS))}")
    return pytest.mark.probe(point, stopped_by=stopped_by)


@dataclass(slots=True)
class Row:
    """One line of the table: a test function with all its cases."""

    point: int
    tried: str
    stopped_by: str
    cases: int = 0
    passed: int = 0

    @property
    def held(self) -> bool:
        """Every case of it ran and passed."""
        return self.cases > 0 and self.passed == self.cases


def row_of(item: pytest.Item) -> Row:
    """What a test says of itself. Raises `pytest.UsageError` if that is not a probe."""
    marker = item.get_closest_marker(MARKER)
    function = getattr(item, "function", None)
    tried = inspect.getdoc(function) if function is not None else None
    if marker is None or not tried:
        raise pytest.UsageError(f"{item.nodeid} is no probe: give it a docstring and @probe (tests/security/probes.py)")
    return Row(marker.args[0], " ".join(tried.split("\n\n")[0].split()), marker.kwargs["stopped_by"])


def table(rows: Iterable[Row]) -> str:
    """The rows under their headings, as Markdown."""
    ordered = sorted(rows, key=lambda row: row.point)
    lines = []
    for point in dict.fromkeys(row.point for row in ordered):
        lines += [
            "",
            f"## {point}. {POINTS[point]}",
            "",
            "| tried | stopped by | cases | |",
            "| --- | --- | --- | --- |",
        ]
        for row in (row for row in ordered if row.point == point):
            verdict = "held" if row.held else "**NOT STOPPED**"
            lines.append(f"| {row.tried} | {row.stopped_by} | {row.passed}/{row.cases} | {verdict} |")
    return "\n".join(lines)
