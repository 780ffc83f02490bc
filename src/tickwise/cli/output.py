"""Tables and records: for eyes on a terminal, for `grep` and `awk` in a pipe, for programs with `--json`.

On a terminal rich draws them, fitted to its width and in colour. In a pipe each row is one whole line, its columns
aligned and two spaces apart, nothing cut off: an id can be copied out of either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tickwise.cli.failures import safe

if TYPE_CHECKING:
    from tickwise.cli.session import Session

__all__ = ["STYLES", "aligned", "record", "safe", "styled", "table"]

STYLES: Final[Mapping[str, str]] = {
    "SUCCESS": "green", "FAILED": "bold red", "RUNNING": "cyan", "DISPATCHED": "cyan", "RETRYING": "yellow",
    "CANCELLED": "magenta", "SKIPPED": "bright_black", "QUEUED": "blue", "SCHEDULED": "green", "PAUSED": "yellow",
    "COMPLETED": "bright_black", "ok": "green", "warning": "yellow", "error": "bold red", "open": "bold red",
    "held": "bold red",
}  # fmt: skip
"""The styles of states and statuses on a terminal."""

Cells = Sequence[str]


def table(session: Session, titles: Cells, rows: Sequence[Cells], *, empty: str) -> None:
    """Rows of cells under their titles; `empty` is said instead when there are none."""
    clean = [[safe(cell) for cell in row] for row in rows]
    if not clean:
        session.note(empty)
    elif sys.stdout.isatty():
        _draw(session, titles, clean)
    else:
        for line in aligned([titles, *clean]):
            click.echo(line)


def aligned(rows: Sequence[Cells]) -> list[str]:
    """One line per row, columns two spaces apart."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def record(session: Session, fields: Mapping[str, Any]) -> None:
    """One thing, a line per field; fields without a value are left out."""
    shown = {name: safe(value) for name, value in fields.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    colour = session.colour(sys.stdout)
    for name, value in shown.items():
        click.echo(f"{styled(name.ljust(width), 'bold', colour)}  {styled(value, STYLES.get(value), colour)}")


def styled(text: str, style: str | None, colour: bool) -> str:
    """The text in a style such as `bold red`."""
    if not colour or not style:
        return text
    words = style.split()
    return click.style(text, fg=next((word for word in words if word != "bold"), None), bold="bold" in words or None)


def _draw(session: Session, titles: Cells, rows: Sequence[Cells]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(no_color=not session.colour(sys.stdout), highlight=False)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        # Folded, not cut: an id that does not fit is still whole.
        drawn.add_column(title, overflow="fold", no_wrap=title in {"JOB", "RUN"})
    for row in rows:
        drawn.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console.print(drawn)
