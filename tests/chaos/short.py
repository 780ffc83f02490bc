"""Rows as tests play them: small, always with the same seed, and judged by what is true, not by how long it took."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.chaos.row import run_row
from tests.chaos.rows import ROWS
from tests.chaos.scene import DEFAULT, PATIENT

SEED: Final = 5
SECONDS: Final = 300.0
"""Most that one may take: they take 5 to 30 on two idle cores, and this one may be busy."""


async def holds(name: str) -> None:
    """Play it; fail with all that was found."""
    row = ROWS[name]
    if row.pace == DEFAULT:
        row = replace(row, pace=PATIENT)
    result = await run_row(row, row.short, seed=SEED, strict=False)
    assert result.good, result.as_text()
