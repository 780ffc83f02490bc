"""Stops of a namespace, of labels, of a queue or of a job. The package states the rules of every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from tickwise.domain.audit import AuditEntry
from tickwise.domain.decision import TimerState
from tickwise.domain.errors import Conflict
from tickwise.domain.stops import MAX_STOPS, STOPS_KEPT_SECONDS, Stop, StopScope

MAX_KNOWN: Final = 100_000
"""The most stops of one answer: those of a thousand namespaces."""
KNOWN_SECONDS: Final = 86_400.0
"""Stops that ended so recently are still given to schedulers: what they held back is decided by them."""


def check_stops(standing: int) -> None:
    """Raise `Conflict`, code `stops_exhausted`, if the namespace has as many stops as it may have."""
    if standing >= MAX_STOPS:
        raise Conflict(
            f"the namespace has {standing} stops that are in force or to come, and may have no more: lift one, or stop "
            "more with one stop",
            code="stops_exhausted",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopQuery:
    """Stops; everything given must match."""

    namespace: str | None
    """None: of all."""
    stop_id: UUID | None = None
    over_seconds: float = STOPS_KEPT_SECONDS
    """Those that are over since less than so long are among them; 0: only those that are in force or to come."""
    before: UUID | None = None
    """Stops with a smaller id only: the last one of the page before."""
    limit: int = MAX_KNOWN


class DueJob(NamedTuple):
    """A job of a scope, and where its schedule stands."""

    job_id: UUID
    name: str
    definition: str
    timer: TimerState


class StopStore(Protocol):
    """Stops, and what is to know of them."""

    async def add(self, stop: Stop, *, audit: AuditEntry | None = None) -> Stop:
        """Stop what is in its scope, from its begin on: then nothing of it is claimed, and a start that is recorded
        first is refused. What is held and has not begun is asked back (`CancelKind.RETURN`). A begin that has passed
        is now. Timers that a rule holds back in the namespace are decided anew.

        A stop of this id that is there already is returned as it is. Raises `Conflict`, code `stops_exhausted`, beyond
        `MAX_STOPS` of the namespace."""
        ...

    async def lift(self, namespace: str, stop_id: UUID, *, by: str, audit: AuditEntry | None = None) -> Stop | None:
        """End a stop now; one that is over stays as it is, and makes no entry. Timers as in `add`. None: there is none
        of this id in the namespace."""
        ...

    async def find(self, query: StopQuery) -> Sequence[Stop]:
        """Stops, the newest first by id. A scheduler reads those that it has to know again when
        `FireBatch.rules_version` has changed."""
        ...

    async def due(self, namespace: str, scope: StopScope, *, until: float, limit: int) -> Sequence[DueJob]:
        """Jobs of a scope whose timer is due before an instant, the earliest first. Those that a pause holds back
        without an end are none."""
        ...
