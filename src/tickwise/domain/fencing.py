"""Fencing tokens, and digests of sets of fenced runs.

    token = epoch << 40 | number of the claim within the epoch

A store that was set back (a standby promoted before it had everything, a restored backup) begins a new epoch, so tokens
never decrease, after any loss of writes. Forty bits are 10^12 claims: a year at 35,000 a second; a fuller epoch runs
over into the next, which is then merely begun. Thirteen bits are left below 2^53, the largest integer that every JSON
reader keeps exactly: 8,191 epochs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

EPOCH_BITS: Final = 40
"""Bits of a token below its epoch."""
LOW: Final = 0xFFFF_FFFF


class HeldDigest(NamedTuple):
    """A set of held runs in two numbers, independent of their order."""

    runs: int
    digest: int


def epoch_of(token: int) -> int:
    """The epoch in which a claim was made."""
    return token >> EPOCH_BITS


def first_token(epoch: int) -> int:
    """No token of an earlier epoch is as great."""
    return epoch << EPOCH_BITS


def digest_of(held: Iterable[tuple[UUID, int]]) -> HeldDigest:
    """Of runs with their tokens. A run's share: the last 32 bits of its id, which are a hash, crossed with those of its
    token. Cheap on both sides: 0.2 µs a run in PostgreSQL, 0.3 µs here."""
    runs = digest = 0
    for run_id, token in held:
        runs += 1
        digest += (run_id.int ^ token) & LOW
    return HeldDigest(runs, digest)
