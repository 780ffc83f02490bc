"""Tables and records: for eyes on a terminal, for `grep` and `awk` in a pipe, for programs with `--json`.

On a terminal, and wherever `COLUMNS` says how wide the output is, no line is longer than that: what matters less is
shortened with an ellipsis. In a pipe each row is one whole line, its columns aligned and two spaces apart, nothing cut
off: an id can be copied out of either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tickwise.cli.failures import safe
from tickwise.cli.terminal import cells
from tickwise.cli.terminal.columns import GAP, TableColumn, fitted

if TYPE_CHECKING:
    from tickwise.cli.session import Session

__all__ = ["STYLES", "aligned", "entries", "record", "safe", "styled", "table", "table_lines", "title", "wrapped"]

STYLES: Final[Mapping[str, str]] = {
    "SUCCESS": "green", "FAILED": "bold red", "RUNNING": "cyan", "DISPATCHED": "cyan", "RETRYING": "yellow",
    "CANCELLED": "magenta", "SKIPPED": "bright_black", "QUEUED": "blue", "SCHEDULED": "green", "PAUSED": "yellow",
    "COMPLETED": "bright_black", "ok": "green", "warning": "yellow", "error": "bold red", "open": "bold red",
    "held": "bold red",
}  # fmt: skip
"""The styles of states and statuses on a terminal."""
_LEADING: Final = frozenset({"LAST RUN"})
"""Titles of columns whose cells begin with a state and say more of it."""
_LEAST_VALUE: Final = 20
"""Cells for the value of a record's line beside its name; with less room it stands below the name."""
_INDENT: Final = 2
_LEAST_WRAPPED: Final = 2
"""A terminal of fewer cells breaks lines by itself."""

Cells = Sequence[str]
Titles = Sequence[str | TableColumn]


def table(session: Session, titles: Titles, rows: Sequence[Cells], *, empty: str, more: str | None = None) -> None:
    """Rows of cells under their titles; `empty` is said instead when there are none. `more`: there are more rows than
    these, and how to see them."""
    if not rows:
        session.note(empty)
        return
    for line in table_lines(session, titles, rows):
        click.echo(line)
    if more is not None:
        session.note(more)


def entries(session: Session, titles: Cells, rows: Sequence[Cells], *, lead: int, empty: str) -> None:
    """Rows whose sentences must be read whole. Where a line has a width, the first `lead` cells of each stand in
    columns, and the others below them, in lines that fit; elsewhere it is a table."""
    if session.width is None or not rows:
        table(session, titles, rows, empty=empty)
        return
    heads = list(table_lines(session, titles[:lead], [row[:lead] for row in rows]))
    click.echo(heads[0])
    for head, row in zip(heads[1:], rows, strict=True):
        click.echo(head)
        for cell in filter(None, row[lead:]):
            for line in wrapped(session, safe(cell), less=4):
                click.echo(f"    {line}")


def table_lines(session: Session, titles: Titles, rows: Sequence[Cells], *, indent: str = "") -> Iterator[str]:
    """The lines of a table, its titles first. Raises `click.UsageError` for `--columns` that it does not have."""
    known = [TableColumn(title) if isinstance(title, str) else title for title in titles]
    chosen = _chosen(session, known)
    columns = [known[place] for place in chosen]
    clean = [[safe(row[place]) for place in chosen] for row in rows]
    most = None if session.width is None else max(1, session.width - len(indent))
    fit = fitted(columns, clean, most)
    colour = session.colour(sys.stdout)
    for number, row in enumerate([[column.title for column in columns], *clean]):
        parts = []
        for place, wide in zip(fit.places, fit.widths, strict=True):
            shown = cells.cut(row[place], wide)
            style = _style(columns[place].title, row[place]) if number else "bold"
            blanks = " " * (wide - cells.width(shown) + GAP)
            parts.append(styled(shown, style, colour) + blanks)
        yield f"{indent}{''.join(parts).rstrip()}"


def _chosen(session: Session, columns: Sequence[TableColumn]) -> list[int]:
    """The positions of the columns that are shown, in their order."""
    if not session.columns:
        return [place for place, column in enumerate(columns) if session.is_wide or not column.is_wide]
    places = {column.name: place for place, column in enumerate(columns)}
    unknown = [name for name in session.columns if name not in places]
    if unknown:
        raise click.UsageError(f"--columns: there is no column {unknown[0]!r}; there are {', '.join(places)}.")
    return [places[name] for name in session.columns]


def _style(title: str, cell: str) -> str | None:
    return STYLES.get(cell.partition(" ")[0] if title in _LEADING else cell)


def aligned(rows: Sequence[Cells]) -> list[str]:
    """One line per row, columns two spaces apart."""
    widths = [max(cells.width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cells.padded(cell, wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def record(session: Session, fields: Mapping[str, Any]) -> None:
    """One thing, a line per field; fields without a value are left out. On a terminal a long value goes on below
    itself, and line breaks are kept."""
    shown = {name: str(value) for name, value in fields.items() if value not in (None, "", [], {})}
    names = max(map(len, shown), default=0)
    colour = session.colour(sys.stdout)
    is_below = session.width is not None and session.width - names - GAP < _LEAST_VALUE
    for name, value in shown.items():
        less = _INDENT if is_below else names + GAP
        first, *further = _value_lines(session, value, less)
        lead = f"{styled(name.ljust(names), 'bold', colour)}{' ' * GAP}"
        if is_below:
            click.echo(lead.rstrip())
            lead = " " * less
        click.echo(f"{lead}{styled(first, STYLES.get(value), colour)}".rstrip())
        for line in further:
            click.echo(f"{' ' * less}{line}".rstrip())


def _value_lines(session: Session, value: str, less: int) -> list[str]:
    if session.width is None and not session.is_wide:
        return [safe(value)]
    lines = [safe(line.expandtabs(4)) for line in value.rstrip("\n").split("\n")]
    return [part for line in lines for part in wrapped(session, line, less=less)]


def wrapped(session: Session, text: str, *, less: int = 0) -> Iterator[str]:
    """A text in lines that fit, with `less` cells for an indentation; where no width is known, in one line."""
    if session.width is None or session.width - less < _LEAST_WRAPPED:
        yield text
    else:
        yield from cells.wrapped(text, session.width - less)


def title(session: Session, text: str) -> str:
    """The title of a part."""
    shown = text if session.width is None else cells.cut(text, session.width)
    return styled(shown, "bold", session.colour(sys.stdout))


def styled(text: str, style: str | None, colour: bool) -> str:
    """The text in a style such as `bold red`."""
    if not colour or not style:
        return text
    words = style.split()
    return click.style(text, fg=next((word for word in words if word != "bold"), None), bold="bold" in words or None)
