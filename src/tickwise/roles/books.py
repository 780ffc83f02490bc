"""What an executor holds: every claimed run from its claim until its outcome is queued for the store.

    claimed ──► HOLDING ──► (STARTING) ──► LAUNCHED ──► settled: an outcome
                                              └──────► abandoned: a ghost, until its task is dead

Invariant: a run is in the books once, and its place in its runner's intake is given back exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tickwise.domain.model import Claimed
from tickwise.domain.retry import OnUnknown
from tickwise.ports.runner import Assignment, Runner
from tickwise.ports.store import Gate
from tickwise.roles.definition import Work
from tickwise.roles.intake import Intake


class Seat(NamedTuple):
    """A runner and how it is fed."""

    runner: Runner
    spare: Callable[[], int] | None = None
    """Of a quick runner, which works off batches of short tasks: how many more could begin there now. The others take
    one run a slot."""


class Stage(Enum):
    """How far a claimed run has come here."""

    HOLDING = 1
    """It waits for its due time."""
    STARTING = 2
    """It is due, guarded, and its start is being recorded."""
    LAUNCHED = 3
    """Its runner has it."""


class Held:
    """One claimed run, from claim to outcome."""

    __slots__ = ("cancelling", "claimed", "guarded", "intake", "letting_go", "stage", "work")

    def __init__(self, claimed: Claimed, work: Work, intake: Intake) -> None:
        self.claimed = claimed
        self.work = work
        self.intake = intake
        self.stage = Stage.HOLDING
        self.guarded = (
            claimed.guarded
            or work.on_unknown is not OnUnknown.RERUN
            or work.concurrency is not None
            or work.rate is not None
        )
        """Its start is recorded before it begins."""
        self.cancelling = False
        """Somebody wants it stopped."""
        self.letting_go = False
        """It is being stopped because our lease ends."""

    def gate(self) -> Gate | None:
        """What its start has to pass besides its fence."""
        limit, rate, own = self.work.concurrency, self.work.rate, f"job:{self.claimed.job_id}"
        if limit is None and rate is None:
            return None
        return Gate(
            limit_key=None if limit is None else self.work.limit_key or own,
            limit=0 if limit is None else limit.limit,
            rate_key=None if rate is None else self.work.rate_key or own,
            rate_gap_seconds=0.0 if rate is None else rate.per_seconds / rate.limit,
        )

    def assignment(self) -> Assignment:
        """As its runner takes it."""
        claimed, work = self.claimed, self.work
        return Assignment(
            claimed.run_id,
            claimed.token,
            claimed.job_id,
            claimed.namespace,
            claimed.attempt,
            claimed.due,
            claimed.nominal,
            work.task,
            bytes(work.payload),
            work.timeout_seconds,
            work.limits.of_task(),
            bool(work.retry.on.error),
        )


class Books:
    """One executor's. `live` is open to its parts: reading it is on the hot path."""

    def __init__(self) -> None:
        self.live: dict[UUID, Held] = {}
        self.ghosts: dict[UUID, Intake] = {}
        """Abandoned tasks that are not yet dead: each keeps its place, and its run must not begin here again."""
        self.idle = asyncio.Event()
        """Set whenever something came to its end."""

    def holds(self, held: Held) -> bool:
        """Whether this very claim is still ours to care for."""
        return self.live.get(held.claimed.run_id) is held

    def forget(self, held: Held) -> None:
        """It is out of our hands, and its place is free."""
        if self.live.pop(held.claimed.run_id, None) is None:
            return
        intake = held.intake
        if held.stage is Stage.HOLDING:
            intake.held -= 1
        else:
            intake.launched -= 1
        intake.freed()

    def abandon(self, held: Held) -> None:
        """Kill it and report nothing. While its task still dies, it is a ghost."""
        self.forget(held)
        if held.stage is Stage.LAUNCHED:
            held.intake.launched += 1
            self.ghosts[held.claimed.run_id] = held.intake
            held.intake.runner.stop(held.claimed.run_id, grace_seconds=0.0)

    def bury(self, run_id: UUID) -> None:
        """A ghost is dead."""
        intake = self.ghosts.pop(run_id, None)
        if intake is not None:
            intake.launched -= 1
            intake.freed()
            self.idle.set()
