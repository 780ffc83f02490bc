"""The statements, read once from `sql/*.sql`. Their purpose and their parameters stand on top of each file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("sql")


@cache
def statement(name: str) -> str:
    """The text of `sql/<name>.sql` without the comment on top, which the server need not read each time it prepares."""
    lines = (_FOLDER / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines).strip()
