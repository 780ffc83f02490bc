"""Who runs under each concurrency key, who waits for a slot of it, and which slots a rate has given out.

                 ┌── take ──► RUNNING under the key ──┐
    a start ─────┤                                    ├── drop ──► in no list; a slot may be free: `wake`
                 └── wait ──► blocked ── wake ──► woken ┘

Invariant: it is an index. A run is in it exactly while its own record names the key (`RunRecord.limit_key`), and how
many run under a key is how many there are in the list: nothing is counted up and down.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.ports.store import Gate

PATIENCE_SECONDS: Final = 5.0
"""A slot is kept free for so long for a run that was woken. After that, whoever else waits may be quicker: its queue
may be on hold, or no executor there that could take it."""


class Name(NamedTuple):
    """A concurrency or rate key of a namespace."""

    namespace: str
    key: str


@dataclass(slots=True)
class Line:
    """All that is known of one concurrency key."""

    key: str
    running: set[UUID] = field(default_factory=set)
    woken: dict[UUID, float] = field(default_factory=dict)
    """They waited, may be claimed since then, and have not begun."""
    waiting: dict[int, list[tuple[float, UUID, RunRecord]]] = field(default_factory=dict)
    """By the limit that they wait for, in the order in which they are woken. Whoever moved on is dropped when it
    comes up."""

    def first(self, taken: int) -> RunRecord | None:
        """Take out the one that waits longest among those that may start while so many slots are taken."""
        best: list[tuple[float, UUID, RunRecord]] | None = None
        for limit in [limit for limit in self.waiting if limit > taken]:
            heap = self.waiting[limit]
            while heap and not self._waits(*heap[0]):
                heapq.heappop(heap)
            if not heap:
                del self.waiting[limit]
            elif best is None or heap[0][:2] < best[0][:2]:
                best = heap
        return None if best is None else heapq.heappop(best)[2]

    def _waits(self, ready: float, _: UUID, run: RunRecord) -> bool:
        """Whether an entry still says what is so."""
        return run.blocked and run.limit_key == self.key and run.ready == ready


class Pace(NamedTuple):
    """What is known of one rate."""

    given: float = -math.inf
    """The last slot that was given."""
    started: float = -math.inf
    """The last start."""
    gap_seconds: float = 0.0


class Slots:
    """Concurrency keys and rates of all namespaces."""

    def __init__(self) -> None:
        self._lines: dict[Name, Line] = {}
        self._paces: dict[Name, Pace] = {}

    def running(self, name: Name) -> int:
        """How many runs are RUNNING under a key."""
        line = self._lines.get(name)
        return 0 if line is None else len(line.running)

    def is_free(self, run: RunRecord) -> bool:
        """Whether a run that waits for a slot could have one that nobody runs in or is on the way to."""
        line = self._lines.get(name_of(run))
        return line is None or len(line.running) + len(line.woken) < run.limit

    def take(self, run: RunRecord, key: str) -> None:
        """It runs under this key from now on."""
        run.limit_key = key
        self._line(run).running.add(run.run_id)

    def wait(self, run: RunRecord, key: str, limit: int) -> None:
        """It waits for a slot under this key."""
        run.limit_key, run.limit, run.blocked = key, limit, True
        heapq.heappush(self._line(run).waiting.setdefault(limit, []), (run.ready, run.run_id, run))

    def drop(self, run: RunRecord) -> Name | None:
        """It neither runs under its key nor waits any more. The key, if it had a slot or was on its way to one."""
        if run.limit_key is None:
            return None
        name, line = name_of(run), self._line(run)
        had = run.run_id in line.running or run.run_id in line.woken
        line.running.discard(run.run_id)
        line.woken.pop(run.run_id, None)
        run.limit_key = None
        return name if had else None

    def wake(self, name: Name, now: float) -> list[RunRecord]:
        """Take as many out of the line as there are free slots, those that wait longest first."""
        line = self._lines.get(name)
        if line is None:
            return []
        on_their_way = sum(since + PATIENCE_SECONDS > now for since in line.woken.values())
        woken: list[RunRecord] = []
        while (run := line.first(len(line.running) + on_their_way + len(woken))) is not None:
            run.blocked = False
            woken.append(run)
        line.woken.update((run.run_id, now) for run in woken)
        if not (line.running or line.woken or line.waiting):
            del self._lines[name]
        return woken

    def names(self) -> Iterable[Name]:
        """The concurrency keys that anybody runs under or waits for."""
        return list(self._lines)

    def keep_pace(self, run: RunRecord, gate: Gate, now: float) -> bool:
        """Whether a start comes at its slot under a rate. It is given one if it has none, or has missed its own.

        A late slot does no harm if no other start came meanwhile. Were it void even so, then nothing would ever start
        under a rate whose gap is shorter than a claim takes.
        """
        name, gap_seconds = Name(run.job.namespace, gate.rate_key or ""), gate.rate_gap_seconds
        pace = self._paces.get(name, Pace())
        if run.slot is not None and run.slot + gap_seconds < now < pace.started + gap_seconds:
            run.slot = None
        given = pace.given
        if run.slot is None:
            run.slot = given = max(now, given + gap_seconds)
        starts = run.slot <= now
        if starts:
            run.slot, given = None, max(given, now)
        self._paces[name] = Pace(given, now if starts else pace.started, gap_seconds)
        return starts

    def start_over(self, name: Name, kept: float) -> None:
        """Give all slots of a rate anew that come after its last start, and after the last one that is `kept`."""
        pace = self._paces.get(name)
        if pace is not None:
            self._paces[name] = pace._replace(given=max(pace.started, kept))

    def trim(self, now: float) -> None:
        """Forget the rates whose next slot is now in any case."""
        for name, pace in list(self._paces.items()):
            if pace.given + pace.gap_seconds < now:
                del self._paces[name]

    def _line(self, run: RunRecord) -> Line:
        name = name_of(run)
        return self._lines.setdefault(name, Line(name.key))


def name_of(run: RunRecord) -> Name:
    """The concurrency key that a run has. Whoever asks knows that it has one."""
    return Name(run.job.namespace, run.limit_key or "")
