"""The figures as they are kept between runs: one file, a part each, with the commit and the machine that it is of."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from bench.record import HERE, commit, machine

FILE = HERE / "results" / "COSTS.json"


def kept() -> dict[str, Any]:
    """All parts that were ever measured here; none yet is an empty book."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def keep(part: str, figures: dict[str, Any], server: dict[str, str]) -> None:
    """Replace one part."""
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    head = {"commit": commit(), "at": at, "machine": machine(), "postgresql": server}
    FILE.write_text(json.dumps({**kept(), part: {"head": head, **figures}}, indent=1) + "\n")
