"""The runs under each concurrency key, those that wait for a slot of it, and the taken slots of each rate.

                 ┌── take ──► RUNNING under the key ──┐
    a start ─────┤                                    ├── drop ──► in no list; a slot may be free: `wake`
                 └── wait ──► blocked ── wake ──► woken ┘

Invariant: it is an index. A run is in it exactly while its own record names the key (`RunRecord.limit_key`), and how
many run under a key is how many there are in the list: nothing is counted up and down.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from uuid import UUID

from tickwise.adapters.store.memory.records import RunRecord
from tickwise.domain.lifecycle import RunState
from tickwise.domain.rules.limits import ALL_AT_ONCE, QUOTA_KEY, Reservation, has_slot, reservation, wakes
from tickwise.domain.rules.rates import RateState, step
from tickwise.ports.store import Gate

OnHold = Callable[[str, str], bool]
"""Check whether a queue of a namespace is on hold."""


class Name(NamedTuple):
    """A concurrency or rate key of a namespace."""

    namespace: str
    key: str


class Waiting(NamedTuple):
    """A run that waits for a slot."""

    rank: int
    """The smallest goes first. It differs for the quota of a namespace alone, by priority."""
    since: float
    run_id: UUID
    run: RunRecord


@dataclass(slots=True)
class Line:
    """All that is known of one concurrency key."""

    key: str
    running: set[UUID] = field(default_factory=set)
    woken: dict[UUID, RunRecord] = field(default_factory=dict)
    """They waited, may be claimed since they are ready, and have not begun."""
    waiting: dict[tuple[int, str], list[Waiting]] = field(default_factory=dict)
    """By the limit that they wait for and their queue, in the order in which they are woken. A run that moved on is
    dropped when it comes up."""

    def first(self, limits: Callable[[int], bool], on_hold: Callable[[str], bool]) -> RunRecord | None:
        """Take out the one that waits longest among those of these limits whose queue is not on hold."""
        best: list[Waiting] | None = None
        for kind in [kind for kind in self.waiting if limits(kind[0]) and not on_hold(kind[1])]:
            heap = self.waiting[kind]
            while heap and not self.waits(heap[0]):
                heapq.heappop(heap)
            if not heap:
                del self.waiting[kind]
            elif best is None or heap[0][:3] < best[0][:3]:
                best = heap
        return None if best is None else heapq.heappop(best).run

    def on_their_way(self, now: float, on_hold: Callable[[str], bool]) -> tuple[int, int]:
        """The number of woken runs that are about to take a slot, and the number of those that no executor claims."""
        found = Counter(
            reservation(ready=run.ready, claimed=run.dispatched, on_hold=on_hold(run.lane.queue), now=now)
            for run in self.woken.values()
        )
        return found[Reservation.TAKES], found[Reservation.LATE]

    def waits(self, entry: Waiting) -> bool:
        """Check whether an entry is still valid."""
        run = entry.run
        return run.blocked and run.limit_key == self.key and run.ready_since == entry.since


@dataclass(slots=True)
class PacedKey:
    """The state of one rate."""

    key: str
    started: float | None = None
    """The last start."""
    gap_seconds: float = 0.0
    """The longest gap of all starts so far."""
    given: list[tuple[float, UUID, RunRecord]] = field(default_factory=list)
    """Slots, negated: the last one comes first. Those that are free again are dropped when they come up."""

    def give(self, run: RunRecord, slot: float) -> None:
        run.slot, run.rate_key = slot, self.key
        heapq.heappush(self.given, (-slot, run.run_id, run))

    def last(self) -> float | None:
        """The last slot that an active run has."""
        while self.given:
            slot, _, run = self.given[0]
            if run.rate_key == self.key and run.slot == -slot:
                return -slot
            heapq.heappop(self.given)
        return None


class Slots:
    """Concurrency keys and rates of all namespaces."""

    def __init__(self) -> None:
        self._lines: dict[Name, Line] = {}
        self.paces: dict[Name, PacedKey] = {}
        """The state of the rates, by key."""

    def running(self, name: Name) -> int:
        """The number of runs that are RUNNING under a key."""
        line = self._lines.get(name)
        return 0 if line is None else len(line.running)

    def running_in(self, namespace: str) -> int:
        """The number of runs of a namespace that are RUNNING under any key."""
        return sum(len(line.running) for name, line in self._lines.items() if name.namespace == namespace)

    def is_free(self, run: RunRecord, quota: int | None) -> bool:
        """Check whether the limit of a waiting run has a slot without a running run, and without a run that was woken
        for it. `quota`: of runs at once of its namespace."""
        name = name_of(run)
        line = self._lines.get(name)
        if line is None:
            return True
        taken = self._taken(name, line) + len(line.woken)
        return has_slot(_limit(name, run.limit, quota, taken), taken)

    def take(self, run: RunRecord, key: str) -> None:
        """Note that the run has a slot under this key."""
        run.limit_key = key
        self._line(run).running.add(run.run_id)

    def wait(self, run: RunRecord, key: str, limit: int) -> None:
        """Note that the run waits for a slot under this key."""
        run.limit_key, run.limit, run.blocked = key, limit, True
        line = self._line(run).waiting.setdefault((limit, run.lane.queue), [])
        rank = -run.lane.priority if key == QUOTA_KEY else 0
        heapq.heappush(line, Waiting(rank, run.ready_since, run.run_id, run))

    def drop(self, run: RunRecord) -> Name | None:
        """Remove the run from its key's line. The key, if the run had a slot or was woken for one."""
        if run.limit_key is None:
            return None
        name, line = name_of(run), self._line(run)
        had = run.run_id in line.running or run.run_id in line.woken
        line.running.discard(run.run_id)
        line.woken.pop(run.run_id, None)
        run.limit_key = None
        return name if had else None

    def wake(self, name: Name, now: float, on_hold: OnHold, *, quota: int | None, sweeping: bool) -> list[RunRecord]:
        """Take as many out of the line as there are free slots, those that wait longest first; of a queue on hold none.
        `quota`: of runs at once of the namespace; None: it has none.

        Sweeping, where a slot is free, at least as many as were woken and are claimed by nobody: their number doubles
        with each sweep, so that a thousand that nobody can take hold up the next one for ten of them.
        """
        line = self._lines.get(name)
        if line is None:
            return []
        held = partial(on_hold, name.namespace)
        soon, late = line.on_their_way(now, held)
        taken = self._taken(name, line) + soon
        woken: list[RunRecord] = []

        def may_go(limit: int) -> bool:
            return wakes(_limit(name, limit, quota, taken), taken, len(woken), late if sweeping else 0)

        while (run := line.first(may_go, held)) is not None:
            run.blocked = False
            woken.append(run)
        line.woken.update((run.run_id, run) for run in woken)
        if not (line.running or line.woken or line.waiting):
            del self._lines[name]
        return woken

    def names(self) -> Iterable[Name]:
        """The concurrency keys of running and of waiting runs."""
        return list(self._lines)

    def names_in(self, namespace: str, queue: str) -> Iterable[Name]:
        """The keys that a run of this queue may wait for."""
        return [
            name
            for name, line in self._lines.items()
            if name.namespace == namespace and any(waits == queue for _, waits in line.waiting)
        ]

    def keep_pace(self, run: RunRecord, gate: Gate, now: float) -> bool:
        """Check whether a start comes at its slot under a rate. If not, the run gets the slot that it must wait for."""
        key, gap_seconds = gate.rate_key or "", gate.rate_gap_seconds
        pace = self.paces.setdefault(Name(run.job.namespace, key), PacedKey(key))
        pace.gap_seconds = max(pace.gap_seconds, gap_seconds)
        slot, _ = step(RateState(pace.last(), pace.started), gap=gap_seconds, slot=run.slot, now=now)
        if slot > now:
            if slot != run.slot:
                pace.give(run, slot)
            return False
        run.slot = run.rate_key = None
        pace.started = now
        return True

    def trim(self, now: float) -> None:
        """Forget the rates whose next slot is now in any case."""
        for name, pace in list(self.paces.items()):
            if (pace.started is None or pace.started + pace.gap_seconds < now) and pace.last() is None:
                del self.paces[name]

    def forget(self, namespace: str) -> None:
        """Forget the keys and rates of a namespace that has no run."""
        for name in [each for each in self._lines if each.namespace == namespace]:
            del self._lines[name]
        for name in [each for each in self.paces if each.namespace == namespace]:
            del self.paces[name]

    def restore(self, runs: Iterable[RunRecord]) -> None:
        """Put active runs into the lines and among the slots that they name; there is none in them before."""
        for run in runs:
            if run.slot is not None and run.rate_key is not None:
                name = Name(run.job.namespace, run.rate_key)
                self.paces.setdefault(name, PacedKey(run.rate_key)).give(run, run.slot)
            if run.limit_key is None:
                continue
            if run.blocked:
                self.wait(run, run.limit_key, run.limit)
            elif run.state is RunState.RUNNING:
                self._line(run).running.add(run.run_id)
            else:
                self._line(run).woken[run.run_id] = run

    def contents(self) -> dict[str, object]:
        """All that is in lines and slots and still valid, as plain values."""
        lines = {
            name: (
                line.running,
                set(line.woken),
                {(kind, entry[:3]) for kind, heap in line.waiting.items() for entry in heap if line.waits(entry)},
            )
            for name, line in self._lines.items()
        }
        paces = {name: (pace.started, pace.gap_seconds, pace.last()) for name, pace in self.paces.items()}
        return {"lines": {name: line for name, line in lines.items() if any(line)}, "paces": paces}

    def _taken(self, name: Name, line: Line) -> int:
        """The slots of a key that running runs have."""
        return self.running_in(name.namespace) if name.key == QUOTA_KEY else len(line.running)

    def _line(self, run: RunRecord) -> Line:
        name = name_of(run)
        return self._lines.setdefault(name, Line(name.key))


def _limit(name: Name, limit: int, quota: int | None, taken: int) -> int:
    """The limit of a waiting run. For a quota it is that of now; without one, it lets many go on at a time."""
    if name.key != QUOTA_KEY:
        return limit
    return taken + ALL_AT_ONCE if quota is None else quota


def name_of(run: RunRecord) -> Name:
    """The concurrency key that a run has. The caller knows that it has one."""
    return Name(run.job.namespace, run.limit_key or "")
