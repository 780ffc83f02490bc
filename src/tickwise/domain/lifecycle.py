"""The life of a run and of a job: states, events, and the one table of legal moves.

    QUEUED ──claim──► DISPATCHED ──start──► RUNNING ──► SUCCESS | FAILED | CANCELLED
      ▲  ▲               │   │                 │
      │  └──give back────┘   └──(quick runs report start and end together)
      │                                        │
      └────────── lease lost ◄─────────────────┤
    RETRYING ◄──────────── retry ──────────────┘      RETRYING ──claim──► DISPATCHED

Invariant: a final state has no way out, and the store refuses every move that is not in `MOVES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final

from tickwise.domain.errors import Bug


class RunState(StrEnum):
    """The state of a run. The numbers in `CODES` are what stores keep: never renumber."""

    QUEUED = "QUEUED"
    DISPATCHED = "DISPATCHED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class RunEvent(Enum):
    """The events in the life of a run."""

    CLAIMED = "an executor took it"
    STARTED = "its task began and that was recorded"
    SUCCEEDED = "its task ended well"
    FAILED = "its task failed for good"
    RETRIED = "its task failed and will be tried again"
    CANCELLED = "a person ended it"
    RELEASED = "its executor gave it back, without a failure of the run"
    LEASE_LOST = "its executor died or went silent"
    QUARANTINED = "it took too many executors down with it"
    UNKNOWN = "its executor was lost, and its job says not to run it again without a person"
    SKIPPED = "it will not run, for a recorded reason"


class CancelKind(StrEnum):
    """The requests to the executor that holds a run."""

    CANCEL = "cancel"
    """Stop it, begun or not; it ends CANCELLED. If its holder gives it back, wants to retry it, leaves or is lost,
    the store itself ends it so. A run that ended before the request was heard stays as it ended."""
    REVOKE = "revoke"
    """Only if it has not begun: report it SKIPPED with reason `revoked`; the store forgets it, or puts it on record as
    SKIPPED with the reason of a pause or of `RunSkip`. If its holder gives it back, leaves or is lost before a start
    was recorded, the store does the same."""
    RETURN = "return"
    """Only if it has not begun: give it back (QUEUED), for its queue is on hold or, of a postponed run, its job is
    paused. It does not outlive the holding."""


class JobStatus(StrEnum):
    """The status of a job. Only PAUSED and CANCELLED are stored; the rest follows from timers and runs."""

    SCHEDULED = "SCHEDULED"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


S, E = RunState, RunEvent

MOVES: Final[Mapping[tuple[RunState, RunEvent], RunState]] = MappingProxyType(
    {
        (S.QUEUED, E.CLAIMED): S.DISPATCHED,
        (S.QUEUED, E.CANCELLED): S.CANCELLED,
        (S.QUEUED, E.SKIPPED): S.SKIPPED,
        (S.DISPATCHED, E.STARTED): S.RUNNING,
        (S.DISPATCHED, E.SUCCEEDED): S.SUCCESS,
        (S.DISPATCHED, E.FAILED): S.FAILED,
        (S.DISPATCHED, E.RETRIED): S.RETRYING,
        (S.DISPATCHED, E.CANCELLED): S.CANCELLED,
        (S.DISPATCHED, E.RELEASED): S.QUEUED,
        (S.DISPATCHED, E.LEASE_LOST): S.QUEUED,
        (S.DISPATCHED, E.SKIPPED): S.SKIPPED,
        (S.RUNNING, E.SUCCEEDED): S.SUCCESS,
        (S.RUNNING, E.FAILED): S.FAILED,
        (S.RUNNING, E.RETRIED): S.RETRYING,
        (S.RUNNING, E.CANCELLED): S.CANCELLED,
        (S.RUNNING, E.RELEASED): S.QUEUED,
        (S.RUNNING, E.LEASE_LOST): S.QUEUED,
        (S.RUNNING, E.QUARANTINED): S.FAILED,
        (S.RUNNING, E.UNKNOWN): S.FAILED,
        (S.RETRYING, E.CLAIMED): S.DISPATCHED,
        (S.RETRYING, E.CANCELLED): S.CANCELLED,
    }
)

del S, E

FINAL: Final = frozenset(RunState) - {state for state, _ in MOVES}
HELD: Final = frozenset({RunState.DISPATCHED, RunState.RUNNING})
"""States in which an executor holds the run; in every other active state the run has no holder."""

CODES: Final[Mapping[RunState, int]] = MappingProxyType({state: number for number, state in enumerate(RunState, 1)})
STATES: Final[Mapping[int, RunState]] = MappingProxyType({number: state for state, number in CODES.items()})


def move(state: RunState, event: RunEvent) -> RunState:
    """The state after `event`. Raises `Bug` for a move that is not in the table."""
    try:
        return MOVES[state, event]
    except KeyError:
        raise Bug(f"a run that is {state} cannot be {event.name}") from None


def steps() -> frozenset[tuple[RunState, RunState]]:
    """Every legal (from, to): what the database is told to allow."""
    return frozenset((before, after) for (before, _), after in MOVES.items())
