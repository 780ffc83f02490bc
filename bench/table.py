"""How results are shown: a table in the terminal, the same as Markdown in README.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

HEADINGS = ("case", "value", "range", "unit", "limit", "ratio", "target", "met", "beside")


def show(results: Sequence[dict[str, Any]]) -> Table:
    """One row a case, and one for each of its further demands."""
    table = Table(*HEADINGS)
    for said in results:
        table.add_row(
            said["case"],
            number(said["value"]),
            f"{number(said['low'])} to {number(said['high'])}",
            said["unit"],
            number(said["limit"]),
            number(said["ratio"]),
            number(said["target"]),
            "yes" if said["met"] else "no",
            said["limit_is"],
        )
        for name, check in said["checks"].items():
            figure, bound = number(check["figure"]), number(check["bound"])
            table.add_row("", figure, "", "", "", "", bound, "yes" if check["met"] else "no", name)
    return table


def number(value: float | None) -> str:
    """As many digits as a noisy machine is worth: three, or all of those before the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
