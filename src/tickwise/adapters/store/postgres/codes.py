"""The numbers that small columns hold in place of names.

    statement: state = {RunState.RUNNING}  ──loader──►  state = 3, as the server gets it
    parameter: OVERLAPS[run.overlap]       ──driver──►  smallint

A number never changes its meaning, because rows hold it. A migration writes plain numbers, because it never changes
after its release.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from tickwise.domain.decision import Overlap
from tickwise.domain.lifecycle import CODES, RunState
from tickwise.domain.model import Trigger
from tickwise.domain.retry import OnUnknown


class JobStanding(IntEnum):
    """A person's decision on a job: `jobs.standing`."""

    PLANNED = 0
    PAUSED = 1
    CANCELLED = 2


OVERLAPS: Final[Mapping[Overlap, int]] = MappingProxyType(
    {
        Overlap.ALLOW: 0,
        Overlap.SKIP: 1,
        Overlap.QUEUE_ONE: 2,
        Overlap.QUEUE_ALL: 3,
        Overlap.CANCEL_RUNNING: 4,
    }
)
"""`runs.overlap`. Its negative: the run is settled, it may start."""

ON_UNKNOWN: Final[Mapping[OnUnknown, int]] = MappingProxyType(
    {OnUnknown.RERUN: 0, OnUnknown.FAIL: 1, OnUnknown.HOLD: 2}
)
"""`runs.on_unknown`."""

COLUMNS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "state": RunState,
        "before": RunState,
        "target": RunState,
        "trigger": Trigger,
        "standing": JobStanding,
        "overlap": Overlap,
        "on_unknown": OnUnknown,
    }
)
"""The columns, of tables and of parameters, that hold the number of a member. A statement names the member."""

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        f"{type(member).__name__}.{member.name}": number
        for numbers in (
            CODES,
            OVERLAPS,
            ON_UNKNOWN,
            {each: each.value for each in Trigger},
            {each: each.value for each in JobStanding},
        )
        for member, number in numbers.items()
    }
)
"""The names that a statement may have in braces, such as `RunState.RUNNING`."""
