"""The figures as they are kept between runs: one file, each item with the commit and the machine that it is of."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from bench.record import HERE, commit, machine

FILE = HERE / "results" / "COSTS.json"


def kept() -> dict[str, Any]:
    """All parts that were ever measured here; none yet is an empty book."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def keep(part: str, item: str, figures: dict[str, Any], server: dict[str, str]) -> None:
    """Replace one item of a part."""
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    head = {"commit": commit(), "at": at, "machine": machine(), "postgresql": server}
    parts = kept()
    parts[part] = {**parts.get(part, {}), item: {"head": head, **figures}}
    FILE.write_text(json.dumps(parts, indent=1) + "\n")
