"""The rows, by what is done to the system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.chaos.row import Row
from tests.chaos.rows import (
    brokers,
    failovers,
    figures,
    keeper_loads,
    keepers,
    kills,
    messages,
    outages,
    outputs,
    pauses,
    points,
    races,
    signals,
    sqs,
    times,
    upgrades,
)

ROWS: Final[Mapping[str, Row]] = {
    row.name: row
    for module in (
        kills,
        points,
        pauses,
        races,
        outages,
        failovers,
        times,
        outputs,
        brokers,
        messages,
        sqs,
        signals,
        upgrades,
        figures,
        keepers,
        keeper_loads,
    )
    for row in module.ROWS
}
