"""The table of the reference: for every zone and line, its fires in five years and a digest of them by every rule.

It pins the reference itself: a change there, or in the zone data of those years, shows as a changed row.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PLACE = Path(__file__).with_name("table.tsv")


class Row(NamedTuple):
    """One zone and line."""

    zone: str
    line: str
    fires: int
    """By Debian's rule."""
    digest: str
    """BLAKE2b, 8 bytes, over the Unix seconds of every fire by every rule of `cases.RULES`."""


def read() -> list[Row]:
    """The committed rows."""
    rows = [text.split("\t") for text in PLACE.read_text(encoding="utf-8").splitlines()[1:]]
    return [Row(zone, line, int(fires), digest) for zone, line, fires, digest in rows]


def write(rows: Iterable[Row]) -> None:
    """Replace them."""
    texts = ["\t".join(Row._fields)] + ["\t".join(str(value) for value in row) for row in rows]
    PLACE.write_text("\n".join(texts) + "\n", encoding="utf-8")
