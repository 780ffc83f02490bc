"""Tables fit any terminal: cells are shortened, columns are left out, and no line is too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwise.cli import output
from tickwise.cli.session import Session
from tickwise.cli.terminal import cells
from tickwise.cli.terminal.columns import TableColumn

COLUMNS = (
    TableColumn("JOB", 0),
    TableColumn("NAME", 1, 10),
    TableColumn("STATUS", 3),
    TableColumn("NEXT", 2, 20),
    TableColumn("WHEN", 9, 10),
)
ROW = ("1a2b3c4d", "nightly report of all shops", "SCHEDULED", "in 4m", "*/5 9-17 * * MON-FRI (Europe/Berlin)")
TEXT = st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp")), max_size=40)


def lines(width: int | None, *rows: tuple[str, ...], **fields: object) -> list[str]:
    """The table on a terminal of this width."""
    environ = {} if width is None else {"COLUMNS": str(width)}
    return list(output.table_lines(Session(environ=environ, **fields), COLUMNS, rows))  # type: ignore[arg-type]  # each test names fields of a session


def test_what_fits_is_whole() -> None:
    """Two blanks between the columns, none at the end."""
    assert [
        "JOB       NAME                         STATUS     NEXT   WHEN",
        "1a2b3c4d  nightly report of all shops  SCHEDULED  in 4m  */5 9-17 * * MON-FRI (Europe/Berlin)",
    ] == lines(120, ROW)


def test_the_widest_cells_are_shortened_first() -> None:
    """Ids, states and times stay whole as long as there is room."""
    assert "1a2b3c4d  nightly report of all…   SCHEDULED  in 4m  */5 9-17 * * MON-FRI…" == lines(75, ROW)[1]


@pytest.mark.parametrize(
    ("width", "expected"),
    [(40, "1a2b3c4d  nightly rep…  SCHEDULED  in 4m"), (20, "1a2b3c4d  nightly r…"), (8, "1a2b3c4d"), (5, "1a2b…")],
)
def test_columns_that_matter_least_are_left_out(width: int, expected: str) -> None:
    """By their rank; the id goes last, and is cut where even that has no room."""
    assert expected == lines(width, ROW)[1]


def test_without_a_width_nothing_is_cut() -> None:
    """As in a pipe, and with `-o wide`."""
    assert lines(None, ROW) == lines(20, ROW, is_wide=True)
    assert ROW[1] in lines(None, ROW)[1]


@given(st.lists(st.tuples(*[TEXT] * len(COLUMNS)), min_size=1, max_size=4), st.integers(1, 140))
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[str, ...]], width: int) -> None:
    """With cells of any text, at each width from 1 to 140."""
    assert all(cells.width(line) <= width for line in lines(width, *rows))


def test_columns_are_chosen_by_their_names() -> None:
    """In the order of the option."""
    assert ["NEXT   NAME", f"in 4m  {ROW[1]}"] == lines(80, ROW, columns=("next", "name"))
