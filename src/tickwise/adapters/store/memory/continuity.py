"""Epochs, the runs that an executor holds on the store's record, and the loss of acknowledged writes, for the simulated
world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.dispatch import claimed
from tickwise.adapters.store.memory.records import Numbers
from tickwise.adapters.store.memory.rows import fitting
from tickwise.adapters.store.memory.state import Duty, State
from tickwise.domain.fencing import HeldDigest, digest_of, epoch_of, first_token, token_in_epoch, tokens_from
from tickwise.domain.model import Claimed
from tickwise.ports.store import Epoch, EpochCause

MAX_EPOCHS: Final = 100


class Epochs(Duty):
    """`EpochStore` of the port."""

    async def begin(self) -> int:
        return begin_epoch(self._state, EpochCause.TOLD, self._state)

    async def all(self) -> Sequence[Epoch]:
        return [self._state.epoch, *reversed(self._state.epochs_before)][:MAX_EPOCHS]


class Held(Duty):
    """`HeldRunStore` of the port."""

    async def digest(self, executor: int, token: int) -> HeldDigest:
        return digest_of(self._held_upto(executor, token).items())

    async def tokens(self, executor: int, token: int) -> Mapping[UUID, int]:
        return self._held_upto(executor, token)

    def _held_upto(self, executor: int, token: int) -> Mapping[UUID, int]:
        found = self._state.executors.get(executor)
        held = found.held.values() if found is not None else ()
        return {run.run_id: run.token for run in held if run.token <= token}

    async def take_again(self, executor: int, runs: Sequence[UUID]) -> Sequence[Claimed]:
        held = [
            run for run_id in runs if (run := self._state.runs.get(run_id)) is not None and run.executor == executor
        ]
        rows = (claimed(run, run.dispatched or self._state.now()) for run in held)
        return fitting(rows, lambda row: row.spec)

    async def differed(self, runs: int) -> None:
        self._state.epoch = replace(self._state.epoch, differed=self._state.epoch.differed + runs)


def snapshot_of(state: State) -> State:
    """Copy the present state as a standby that follows no longer."""
    return deepcopy(state, {id(state.clock): state.clock})


def set_back(state: State, snapshot: State) -> None:
    """Promote that standby: later writes are lost, acknowledged ones too."""
    lost = State(state.clock, state.near_seconds, state.shard)
    vars(lost).update(vars(state))
    vars(state).update(vars(snapshot))
    state.batches.clear()
    state.taken.clear()
    begin_epoch(state, EpochCause.PROMOTED, lost)


def begin_epoch(state: State, cause: EpochCause, lost: State) -> int:
    """Begin an epoch whose tokens and versions are above all values that were handed out in `lost`."""
    last = max(next(state.tokens), next(lost.tokens))
    number = max(state.epoch.epoch, lost.epoch.epoch, epoch_of(last)) + 1
    state.epochs_before.append(state.epoch)
    state.epoch = Epoch(
        epoch=number, began_at=state.now(), cause=cause, timeline=None, lost_tokens=state is not lost, differed=0
    )
    state.opened_at = state.now()  # leases have one more period
    state.tokens = Numbers(*tokens_from(token_in_epoch(number, state.now(), state.shard) + 1, state.shard))
    state.rules_version = max(state.rules_version, lost.rules_version, first_token(number) - 1) + 1
    return number
