"""What a probe is: a test that attacks, whose docstring says what is tried and whose marker says what stops it.

    @probe(1, stopped_by="the body is read although an upgrade is asked for")
    async def test_an_upgrade_header_loses_no_body() -> None:
        '''A POST with `Upgrade: h2c` and a body, sent as raw bytes.'''

The first paragraph of the docstring is the column "tried" of the table that `make security` prints. Parametrized tests
are one row, with the count of their cases; those whose markers say themselves what is tried are a row for each text.
`conftest.py` refuses a test in this folder that is no probe.

`is_open` says of an attack that it gets what it wants, by design: its test fails once that is no longer so.
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
    12: "a task as a process of its own",
    13: "a task in a sandbox",
    14: "values of secrets",
}
"""The headings of the table."""


def probe(point: int, *, stopped_by: str, tried: str | None = None, is_open: bool = False) -> pytest.MarkDecorator:
    """Mark a test as a probe of this heading. `tried`: in place of its docstring."""
    if point not in POINTS:
        raise ValueError(f"there is no heading {point}; there are {', '.join(map(str, POINTS))}")
    return pytest.mark.probe(point, stopped_by=stopped_by, tried=tried, is_open=is_open)


@dataclass(slots=True)
class Row:
    """One line of the table: a test function with all its cases."""

    point: int
    tried: str
    stopped_by: str
    is_open: bool = False
    cases: int = 0
    passed: int = 0

    @property
    def held(self) -> bool:
        """Every case of it ran and passed."""
        return self.cases > 0 and self.passed == self.cases

    @property
    def verdict(self) -> str:
        """In a word."""
        if not self.held:
            return "**NOT AS STATED**" if self.is_open else "**NOT STOPPED**"
        return "open, as stated" if self.is_open else "held"


def row_of(item: pytest.Item) -> Row:
    """What a test says of itself. Raises `pytest.UsageError` if that is not a probe."""
    marker = item.get_closest_marker(MARKER)
    function = getattr(item, "function", None)
    tried = inspect.getdoc(function) if function is not None else None
    if marker is not None:
        tried = marker.kwargs.get("tried") or tried
    if marker is None or not tried:
        raise pytest.UsageError(f"{item.nodeid} is no probe: give it a docstring and @probe (tests/security/probes.py)")
    said = marker.kwargs
    text = " ".join(tried.split("\n\n")[0].split())
    return Row(marker.args[0], text, said["stopped_by"], is_open=said.get("is_open", False))


def name_of(item: pytest.Item) -> str:
    """Of its row: that of the test function, with what its marker says is tried."""
    row = row_of(item)
    name = item.nodeid.split("[")[0]
    marker = item.get_closest_marker(MARKER)
    return f"{name} {row.point} {row.tried}" if marker is not None and marker.kwargs.get("tried") else name


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
            lines.append(f"| {row.tried} | {row.stopped_by} | {row.passed}/{row.cases} | {row.verdict} |")
    return "\n".join(lines)
