"""Objectives for the starts of many jobs at once (`domain.observing.objectives`).

    a run ends ──(its transaction, only where an objective may concern it)──► good or late, by minute
    fold       ──► counts by minute for the short windows, by hour for 30 days
    counts     ──► those, and the runs that wait beyond their time

Runs count from the making of an objective on, so it cannot be changed: another one takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.errors import Conflict
from tickwise.domain.observing.objectives import GroupObjective, StartCount

MAX_OBJECTIVES: Final = 20
"""Objectives of one namespace: the end of a run is compared with each of them."""
MAX_WAITING_COUNTED: Final = 1_000
"""Runs of each queue and priority that are looked at for those that wait beyond their time, the oldest first."""


def check_objective_room(count: int) -> None:
    """Raise `Conflict`, code `objectives_exhausted`, if a namespace with so many objectives takes no more."""
    if count >= MAX_OBJECTIVES:
        raise Conflict(
            f"a namespace has at most {MAX_OBJECTIVES} objectives beside those of jobs: remove one first",
            code="objectives_exhausted",
        )


def objective_name_taken(name: str) -> Conflict:
    """The refusal of an objective whose name another one has."""
    return Conflict(f"there is an objective {name!r} already", pointer="/name", code="name_taken")


class ObjectiveStore(Protocol):
    """Objectives by priority or labels. Names are unique in a namespace."""

    async def add(self, objective: GroupObjective, *, audit: AuditEntry | None = None) -> GroupObjective:
        """Store an objective; one of this id that is there already is returned as it is. Raises `Conflict`, code
        `name_taken`, `objectives_exhausted` or `namespace_closing`."""
        ...

    async def remove(self, namespace: str, objective_id: UUID, *, audit: AuditEntry | None = None) -> bool:
        """Remove an objective with its counts. False: there is none."""
        ...

    async def find(
        self, namespace: str | None, *, after: UUID | None = None, limit: int = MAX_OBJECTIVES
    ) -> Sequence[GroupObjective]:
        """Up to `limit` objectives of a namespace, or of all (None), with greater ids, by id."""
        ...

    async def counts(
        self, objectives: Sequence[UUID], windows: Sequence[float]
    ) -> Mapping[UUID, Mapping[float, StartCount]]:
        """The runs that were due within each window, in seconds before now, by whether they began in time, as in
        `Searches.starts`: those that ended since the objective was made, and those that wait or run and are late, of
        which `MAX_WAITING_COUNTED` are looked at. A window begins with a whole minute, one of more than six hours
        with a whole hour. Runs that wait for an earlier run or for a slot count at their end. Unknown ids are left
        out."""
        ...

    async def fold(self) -> int:
        """Add the counts that ends left to those by minute and hour, and drop those that no window has any more. The
        number of counts that were folded; 0: nothing was left, or another client is folding."""
        ...
