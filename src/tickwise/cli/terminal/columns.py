"""Columns that fit a terminal: the widest are shortened, and what matters least is left out if that is not enough.

    natural widths ──► too wide? ──► the widest column is shortened, cell by cell, none below its least width
                             └────► not even so: the column of the highest rank is left out, and so on

Invariant: no line is longer than the terminal is wide, and no cell goes over two lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tickwise.cli.terminal.cells import width

GAP: Final = 2
LEAST: Final = 12
"""Cells to which a column is shortened unless it says otherwise: most states, numbers and short ids fit in."""


class TableColumn(NamedTuple):
    """A column of a table."""

    title: str
    rank: int | None = None
    """The higher, the sooner it is left out; None: its place in the row."""
    least: int = LEAST
    """The cells to which it is shortened at most."""
    is_wide: bool = False
    """Shown with `-o wide`, or if `--columns` names it."""

    @property
    def name(self) -> str:
        """The name for `--columns`: `LAST RUN` is `last_run`."""
        return self.title.lower().replace(" ", "_").replace("-", "_")


class Fitted(NamedTuple):
    """The columns that are shown."""

    places: Sequence[int]
    """Of the row, in its order."""
    widths: Sequence[int]
    """Cells of each."""


def fitted(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], most: int | None) -> Fitted:
    """Choose columns and widths for lines of `most` cells; None: as wide as they are."""
    natural = [max([width(column.title), *(width(row[place]) for row in rows)]) for place, column in enumerate(columns)]
    kept = list(range(len(columns)))
    if most is None:
        return Fitted(kept, natural)
    least = [min(natural[place], column.least) for place, column in enumerate(columns)]
    by_rank = sorted(kept, key=lambda place: (_rank(columns[place], place), place), reverse=True)
    for place in by_rank:
        if len(kept) == 1 or _sum(kept, least) <= most:
            break
        kept.remove(place)
    widths = [min(cells, most) for cells in natural]
    while _sum(kept, widths) > most:
        longer = [place for place in kept if widths[place] > least[place]] or kept
        widest = max(longer, key=lambda place: (widths[place], _rank(columns[place], place)))
        widths[widest] -= 1
    return Fitted(kept, [widths[place] for place in kept])


def _rank(column: TableColumn, place: int) -> int:
    return place if column.rank is None else column.rank


def _sum(places: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[place] for place in places) + GAP * (len(places) - 1)
