"""The durable truth, split by duty: `Definitions` (jobs, tasks), `Runs` (timers, runs, executors), `Records` (history),
`Rules` (calendars and windows), `Letters` (what failed for good, and operations over many things), `Flow` (sequences,
queues on hold, invariants), `Continuity` (what becomes of acknowledged writes that a failover loses), `Searches` (the
read model, which a replica may serve).

Rules of every method:

- It is atomic: all of its effect or none, and durable when it returns. A batch method says which of the
  batch were refused; nothing is promised across two calls.
- It may be repeated with the same ids: twice is once. So after `InDoubt` the caller repeats it.
- "now" is the store's clock, read inside the statement. No caller's clock decides anything.
- It raises `StoreUnavailable` or `InDoubt` when the store is away, `Refused` kinds as stated, and nothing else.
- Listings are keyset pages: stable while rows are added, never OFFSET.
- Text that a caller passes as JSON is kept as it is, byte for byte.

Fencing: a claim gives each run a token greater than every token before it, also of claims that a failover or a restore
has lost (`Continuity`). Every write of an executor names (executor, run, token); one that does not match what the store
holds is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tickwise.ports.store.continuity import Continuity, Epoch, EpochCause
from tickwise.ports.store.definitions import (
    LANE_IDLE_SECONDS,
    LANES_RESERVED,
    MAX_LANES,
    MAX_LANES_OF_NAMESPACE,
    Added,
    Definitions,
    EndedOperation,
    JobAction,
    JobChange,
    JobMove,
    JobQuery,
    JobRow,
    NewJob,
    NewRun,
    NewSkip,
    OccurrenceMove,
    OperationStatus,
    Receipt,
    Replan,
    Replay,
    StoredTask,
    check_newest,
    is_default_lane,
    no_lane,
)
from tickwise.ports.store.flow import (
    Check,
    Completion,
    Examined,
    Flow,
    QueueHold,
    QueueRow,
    Successor,
    Violation,
)
from tickwise.ports.store.letters import (
    LetterQuery,
    LetterResolution,
    LetterRow,
    Letters,
    LetterStatus,
    NewOperation,
    OperationRow,
    OperationStep,
    Settled,
    Settlement,
)
from tickwise.ports.store.records import (
    MAX_TALLIES,
    TALLIES_SECONDS,
    AttemptRow,
    CancelRow,
    Incident,
    Maintained,
    Records,
    Retention,
    RunQuery,
    RunRow,
    Tally,
)
from tickwise.ports.store.rules import (
    MAX_NAMESPACE,
    MAX_RULES,
    RESERVED,
    RuleKind,
    RuleRow,
    Rules,
    check_room,
    check_seen,
    is_done,
)
from tickwise.ports.store.runs import (
    BATCH_SECONDS,
    Beat,
    Began,
    CancelRequest,
    ClaimRequest,
    ExecutorRow,
    Expired,
    Fire,
    FireBatch,
    FireRequest,
    Gate,
    Handover,
    NewExecutor,
    Ready,
    Runs,
    StoreStats,
    Timer,
)
from tickwise.ports.store.searches import Searches

__all__ = [
    "BATCH_SECONDS",
    "LANES_RESERVED",
    "LANE_IDLE_SECONDS",
    "MAX_LANES",
    "MAX_LANES_OF_NAMESPACE",
    "MAX_NAMESPACE",
    "MAX_RULES",
    "MAX_TALLIES",
    "RESERVED",
    "TALLIES_SECONDS",
    "Added",
    "AttemptRow",
    "Beat",
    "Began",
    "CancelRequest",
    "CancelRow",
    "Check",
    "ClaimRequest",
    "Completion",
    "Continuity",
    "Definitions",
    "EndedOperation",
    "Epoch",
    "EpochCause",
    "Examined",
    "Executing",
    "ExecutorRow",
    "Expired",
    "Fire",
    "FireBatch",
    "FireRequest",
    "Flow",
    "Gate",
    "Handover",
    "Incident",
    "JobAction",
    "JobChange",
    "JobMove",
    "JobQuery",
    "JobRow",
    "LetterQuery",
    "LetterResolution",
    "LetterRow",
    "LetterStatus",
    "Letters",
    "Maintained",
    "NewExecutor",
    "NewJob",
    "NewOperation",
    "NewRun",
    "NewSkip",
    "OccurrenceMove",
    "OperationRow",
    "OperationStatus",
    "OperationStep",
    "QueueHold",
    "QueueRow",
    "Ready",
    "Receipt",
    "Records",
    "Replan",
    "Replay",
    "Retention",
    "RuleKind",
    "RuleRow",
    "Rules",
    "RunQuery",
    "RunRow",
    "Runs",
    "Searches",
    "Settled",
    "Settlement",
    "Store",
    "StoreStats",
    "StoredTask",
    "Successor",
    "Tally",
    "Timer",
    "Violation",
    "check_newest",
    "check_room",
    "check_seen",
    "is_default_lane",
    "is_done",
    "no_lane",
]


class Executing(Runs, Continuity, Protocol):
    """The part of an executor."""


class Store(Definitions, Runs, Records, Rules, Letters, Flow, Continuity, Searches, Protocol):
    """The whole, as wiring hands it out. Each role takes the part that it needs."""

    async def open(self) -> None:
        """Connect. Raises `Misconfigured` (a schema that is older or newer than the program, wrong settings) or
        `StoreUnavailable`."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...

    async def now(self) -> float:
        """The store's clock; also the cheapest sign that it is there."""
        ...

    async def count(self, query: JobQuery | RunQuery | LetterQuery) -> int:
        """How many a search finds, counted to its `limit` at most. Raises `Invalid` as the search does."""
        ...

    def on_handover(self, tell: Callable[[Handover], None]) -> None:
        """Call `tell` after each commit of this client by which runs that waited became claimable, or by which holders
        were asked to stop runs in favour of later ones. The last `tell` counts; it must not raise.

        News, not truth: what it would have told is lost with an answer that is lost. Then executors find the runs when
        they look, and holders hear at their next heartbeat."""
        ...
