"""The counted capacities of one executor: what there is, what its runs hold, and the runs that wait for more.

    claim ──► admit ──► HELD ─────── release, when its task is dead ──► wake, if somebody waits
                 ├────► REMEMBERED: given back; nothing else gets what it waits for
                 ├────► LATER: given back for a moment
                 └────► NEVER: it needs more than there is here; given back for a while

A run takes all that it needs at once or nothing, on one executor, so no two runs wait for each other. A run that does
not fit stays in the store, where another executor may take it; this one only keeps its name. While it does, it offers
none of the labels of what that run needs, so that smaller runs do not go past it for ever, and asks for that run by
name when enough is free, or every `LOOK_SECONDS`, because it may be cancelled or at another executor by then.

Resources that an executor declares are claimed one run at a time (`counted_labels`). Memory is claimed in batches as
all else, until a run did not fit; then one at a time until half is free again.

Invariant: what is held is at most what there is, also while abandoned tasks die.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.domain.rules.capacities import MEMORY, Capacity, Demand, lacking, offered_of
from tickwise.ports.clock import Clock

LOOK_SECONDS: Final = 10.0
"""The interval at which it is asked whether a remembered run still waits: what it waits for stays unused meanwhile."""
RETURN_SECONDS: Final = 1.0
"""The time that a run may take to be back in the store after it was given back."""


class AdmissionVerdict(Enum):
    """The answer to a run that needs counted capacities."""

    HELD = 1
    """It has them until `release`."""
    REMEMBERED = 2
    """Not now; it is asked for by name when enough is free."""
    LATER = 3
    """Not now: others are before it, or it came again though nothing of the kind was offered."""
    NEVER = 4
    """Not on this executor."""


class AwaitedRun(NamedTuple):
    """A run that did not fit."""

    run_id: UUID
    demand: Demand
    given_back_at: float
    look_at: float
    """The time at which it is asked for by name, though too little is free; monotonic seconds, as the one above."""


class CapacityLedger:
    """The counted capacities of one executor."""

    def __init__(self, whole: Mapping[str, int], *, clock: Clock, wake: asyncio.Event) -> None:
        """`whole`: amounts by name; memory in bytes under `MEMORY`, which is not counted if it is not there. `wake` is
        set when something that a run waits for became free."""
        self._whole = dict(whole)
        self._clock = clock
        self._wake = wake
        self._taken = dict.fromkeys(whole, 0)
        self._held: dict[UUID, Demand] = {}
        self._awaited: dict[UUID, AwaitedRun] = {}
        self._declared = {name: offered_of(name, amount) for name, amount in whole.items() if name != MEMORY}
        self._memory = offered_of(MEMORY, whole.get(MEMORY))
        self.is_tight = False
        """A run did not fit into the memory lately."""

    @property
    def is_counting(self) -> bool:
        """False: no run is claimed by itself, and none is remembered. Every claim asks."""
        return bool(self._declared) or self.is_tight or bool(self._awaited)

    def capacities(self) -> dict[str, Capacity]:
        """The whole and the taken amounts, by name."""
        return {name: Capacity(whole, self._taken[name]) for name, whole in self._whole.items()}

    def offered(self) -> tuple[str, ...]:
        """All labels that this executor offers at times, for its record."""
        return (*self._memory, *(label for labels in self._declared.values() for label in labels))

    # ------------------------------------------------------------------------------------------- claims

    def labels(self) -> tuple[str, ...]:
        """The labels for claims of many runs."""
        return () if self.is_tight or self._is_awaited(MEMORY) else self._memory

    def counted_labels(self) -> tuple[str, ...]:
        """The labels for claims of one run at a time: of each capacity of which some is free and which no remembered
        run waits for. Empty: there is nothing to claim by itself."""
        found = [label for name, labels in self._declared.items() if self._is_open(name) for label in labels]
        if self.is_tight and self._is_open(MEMORY):
            found += self._memory
        return tuple(found)

    def to_look_for(self) -> Iterator[AwaitedRun]:
        """The remembered runs to ask for by name now. Each is admitted or forgotten by the answer."""
        now = self._clock.monotonic()
        for awaited in [*self._awaited.values()]:
            if awaited.look_at <= now or self._fits(awaited.demand):
                self._awaited[awaited.run_id] = awaited._replace(look_at=now + LOOK_SECONDS)
                yield awaited

    def not_found(self, run_id: UUID) -> None:
        """The store does not give a remembered run: it has ended, another executor has it, or it has just been given
        back. It is forgotten but in the last case."""
        awaited = self._awaited.get(run_id)
        if awaited is not None and self._clock.monotonic() - awaited.given_back_at >= RETURN_SECONDS:
            del self._awaited[run_id]

    # ------------------------------------------------------------------------------------------- runs

    def admit(self, run_id: UUID, demand: Demand, *, by_name: bool = False) -> AdmissionVerdict:
        """Take what a run needs, or remember it. `by_name`: the claim asked for it because it is remembered."""
        if lacking(demand, self.capacities(), now=False):
            self._awaited.pop(run_id, None)
            return AdmissionVerdict.NEVER
        # What it waits for itself is its own.
        known = self._awaited.pop(run_id, None)
        is_behind = any(self._is_awaited(name) for name in demand)
        short = lacking(demand, self.capacities(), now=True)
        if not is_behind and not short:
            self.hold(run_id, demand)
            return AdmissionVerdict.HELD
        if not is_behind:
            now = self._clock.monotonic()
            self._awaited[run_id] = AwaitedRun(run_id, demand, now, now + LOOK_SECONDS)
        if MEMORY in short:
            self.is_tight = True
        is_new = known is None or by_name
        return AdmissionVerdict.REMEMBERED if is_new and not is_behind else AdmissionVerdict.LATER

    def hold(self, run_id: UUID, demand: Demand) -> None:
        """Count what a run holds without asking: a task that was abandoned and is not dead."""
        self.release(run_id)
        self._held[run_id] = demand
        for name, amount in demand.items():
            if name in self._taken:
                self._taken[name] += amount

    def release(self, run_id: UUID) -> None:
        """Free the amounts that a run held. May be called for any run."""
        demand = self._held.pop(run_id, None)
        if demand is None:
            return
        for name, amount in demand.items():
            if name in self._taken:
                self._taken[name] -= amount
        if self.is_tight and not self._is_awaited(MEMORY) and 2 * self._taken[MEMORY] <= self._whole[MEMORY]:
            self.is_tight = False
            self._wake.set()
        if self.is_counting:
            self._wake.set()

    def _fits(self, demand: Demand) -> bool:
        return not lacking(demand, self.capacities(), now=True)

    def _is_open(self, name: str) -> bool:
        return self._taken[name] < self._whole[name] and not self._is_awaited(name)

    def _is_awaited(self, name: str) -> bool:
        return any(name in awaited.demand for awaited in self._awaited.values())
