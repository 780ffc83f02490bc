"""The worlds find what they are there for: each guard of the product is taken out in turn, and some world notices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from tickwise.adapters.store.memory.dispatch import Attempts
from tickwise.adapters.store.memory.executors import Executors
from tickwise.adapters.store.memory.state import State
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Trigger
from tickwise.ports.store import Expired, NewRun, RunQuery
from tickwise.roles.executor.answered_claims import AnsweredClaims
from tickwise.roles.executor.departure import Departure
from tickwise.roles.executor.held_runs import HeldRuns
from tickwise.roles.executor.lease import Lease
from tickwise.roles.executor.reconciliation import Reconciliation
from tickwise.roles.scheduler import invariant_repair
from tickwise.testing.world import Swarm, draw, played
from tickwise.testing.world.swarm import FAILOVER

Patch = pytest.MonkeyPatch
ATTEMPTED = RunState.DISPATCHED, RunState.RUNNING


def fence_on_state_alone(patch: Patch) -> None:
    """Whoever reports of a run that somebody holds is believed."""

    def held(self: Attempts, _executor: int, run: Any, _token: int) -> Any:
        found = self._state.runs.get(run)
        return found if found is not None and found.state in ATTEMPTED else None

    patch.setattr(Attempts, "_held", held)


def lease_is_not_looked_at(patch: Patch) -> None:
    """An executor begins what it holds, and goes on with it, however long ago it was heard."""
    patch.setattr(Lease, "stands", lambda _self: True)
    patch.setattr(Lease, "left_seconds", lambda _self: 3600.0)


def leases_never_end(patch: Patch) -> None:
    """Nobody takes over from the dead."""

    async def expire(_self: Executors, _crashes_max: int) -> Expired:
        return Expired()

    patch.setattr(Executors, "expire", expire)


def names_are_not_unique(patch: Patch) -> None:
    """A run that is made twice is two runs."""
    make = State.make

    def made(self: State, job: Any, new: NewRun, **more: Any) -> bool:
        while new.run_id in self.runs or new.run_id in self.ended:
            new = new._replace(run_id=type(new.run_id)(int=new.run_id.int + 1))
        return make(self, job, new, **more)

    patch.setattr(State, "make", made)


def receipts_are_forgotten(patch: Patch) -> None:
    """A request that is repeated under its key is another request."""
    patch.setattr(State, "replay_of", lambda _self, _name: None)


def claims_in_doubt_are_forgotten(patch: Patch) -> None:
    """What the store gave and nobody heard of stays given."""

    async def keep(_self: Executors, _executor: int, _tokens: Any, _asked: float) -> int:
        return 0

    patch.setattr(Executors, "release_unknown", keep)


def limits_are_not_asked(patch: Patch) -> None:
    """As many begin as want to."""
    patch.setattr("tickwise.adapters.store.memory.dispatch.admit", lambda _state, _run, _gate: True)


def trees_are_not_killed(patch: Patch) -> None:
    """What an executor gives up is left running."""
    patch.setattr(HeldRuns, "abandon", HeldRuns.forget)


def what_ended_is_not_told_at_the_end(patch: Patch) -> None:
    """An executor that leaves says nothing of what began and ended there."""

    async def leave(self: Departure) -> None:
        await self._registration.leave()

    patch.setattr(Departure, "leave", leave)


def healing_plans_what_was_made_up_for(patch: Patch) -> None:
    """Runs that made up for a pause do not count as record of their occurrences."""

    def query(**said: Any) -> RunQuery:
        return RunQuery(**{**said, "triggers": (Trigger.SCHEDULE,)})

    patch.setattr(invariant_repair, "RunQuery", query)


def what_is_held_is_not_compared(patch: Patch) -> None:
    """An executor does not notice that the store lost an end, or a claim."""

    async def compare(self: Reconciliation) -> float:
        return self._pause_seconds

    patch.setattr(Reconciliation, "compare", compare)


def claims_that_ended_are_not_named(patch: Patch) -> None:
    """After a claim in doubt, what has ended and was lost is taken for what never came."""
    patch.setattr(AnsweredClaims, "tokens", lambda _self: iter(()))


def what_was_lost_is_not_told_at_the_end(patch: Patch) -> None:
    """An executor that leaves a store that was set back does not look at what that believes it to hold."""

    async def settle(_self: Reconciliation) -> None:
        return

    patch.setattr(Reconciliation, "settle", settle)


def tokens_go_back(patch: Patch) -> None:
    """They go on from where the promoted standby stands."""
    patch.setattr("tickwise.adapters.store.memory.continuity.token_in_epoch", lambda *_: 0)


def any_world(seed: int) -> Swarm:
    """As it is drawn."""
    return draw(seed)


def world_of_zombies(seed: int) -> Swarm:
    """Executors with short leases stand still and are cut off, with long tasks in hand."""
    return replace(
        draw(seed),
        faults=frozenset({"pause", "partition", "freezes after a call"}),
        features=frozenset({"once", "long", "quick", "interval"}),
        executors=3,
        places=4,
        lease_seconds=3.0,
        ask_gap_seconds=0.7,
        fault_gap_seconds=3.0,
        call_fault_share=0.01,
    )


def world_of_cuts(seed: int) -> Swarm:
    """Executors with short leases are cut off, with much in hand that is not yet due."""
    return replace(
        draw(seed),
        faults=frozenset({"partition", "store away"}),
        features=frozenset({"once", "future", "long", "quick", "interval"}),
        executors=3,
        places=4,
        lease_seconds=3.0,
        ask_gap_seconds=0.7,
        fault_gap_seconds=3.0,
    )


def world_of_doubt(seed: int) -> Swarm:
    """Answers are lost, and people ask for much."""
    return replace(
        draw(seed),
        faults=frozenset({"answer lost", "request lost", "hang"}),
        features=frozenset({"once", "quick", "run now", "retry", "interval", "overlap", "hold", "leave"}),
        places=4,
        ask_gap_seconds=0.7,
        call_fault_share=0.05,
    )


def world_of_lost_claims(seed: int) -> Swarm:
    """Many answers are lost, and nearly all calls are claims and what follows them."""
    return replace(
        world_of_doubt(seed),
        faults=frozenset({"answer lost", "hang"}),
        features=frozenset({"once", "quick", "interval", "leave"}),
        executors=4,
        call_fault_share=0.15,
    )


def world_of_pauses(seed: int) -> Swarm:
    """Schedules are held back until they are over, and made up for."""
    return replace(draw(seed), faults=frozenset({"latency"}), features=frozenset({"interval", "pause"}))


def world_of_failovers(seed: int) -> Swarm:
    """Standbys take over that lack the last seconds."""
    return replace(
        draw(seed),
        faults=frozenset({FAILOVER, "answer lost"}),
        features=frozenset({"once", "quick", "interval", "overlap", "limit", "leave", "cancel run"}),
        lease_seconds=10.0,
        ask_gap_seconds=0.7,
        fault_gap_seconds=8.0,
    )


def world_of_departures(seed: int) -> Swarm:
    """Executors with long tasks in hand leave, and standbys take over often."""
    return replace(
        world_of_failovers(seed),
        features=frozenset({"once", "quick", "interval", "leave", "long"}),
        fault_gap_seconds=3.0,
    )


WORLDS = 120
"""So many at most are looked at."""


class Guard(NamedTuple):
    """What is taken out, and in which kind of world that is looked for."""

    take_out: Callable[[Patch], None]
    drawn: Callable[[int], Swarm] = any_world
    first: int = 0
    """The seed that is looked at first: the one that missed the guard last time."""


GUARDS = [
    Guard(fence_on_state_alone, world_of_zombies, first=2),
    Guard(lease_is_not_looked_at, world_of_cuts, first=2),
    Guard(leases_never_end),
    Guard(names_are_not_unique, world_of_doubt, first=8),
    Guard(receipts_are_forgotten, first=3),
    Guard(claims_in_doubt_are_forgotten, world_of_lost_claims, first=5),
    Guard(limits_are_not_asked),
    Guard(trees_are_not_killed, world_of_zombies, first=2),
    Guard(what_ended_is_not_told_at_the_end, world_of_doubt),
    Guard(healing_plans_what_was_made_up_for, world_of_pauses, first=9),
    Guard(what_is_held_is_not_compared, world_of_failovers),
    Guard(claims_that_ended_are_not_named, world_of_failovers),
    Guard(what_was_lost_is_not_told_at_the_end, world_of_departures, first=6),
    Guard(tokens_go_back, world_of_failovers),
]


@pytest.mark.takes_up_to(390)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.take_out.__name__)
def test_a_world_notices_a_guard_that_is_missing(guard: Guard, monkeypatch: Patch) -> None:
    """One of the first worlds has findings. With the guard, none of them has: see the test below."""
    guard.take_out(monkeypatch)
    seeds = [*range(guard.first, WORLDS), *range(guard.first)]
    assert any(played(guard.drawn(seed)).findings for seed in seeds)


@pytest.mark.takes_up_to(390)
@pytest.mark.parametrize(
    "drawn",
    [
        world_of_zombies,
        world_of_cuts,
        world_of_doubt,
        world_of_lost_claims,
        world_of_pauses,
        world_of_failovers,
        world_of_departures,
    ],
)
def test_with_every_guard_in_its_place_nothing_is_found(drawn: Callable[[int], Swarm]) -> None:
    """In the worlds that miss a guard, and in one more of their kind."""
    seeds = {1, *(guard.first for guard in GUARDS if guard.drawn is drawn)}
    assert "" == "\n".join(report.as_text() for seed in sorted(seeds) if (report := played(drawn(seed))).findings)
