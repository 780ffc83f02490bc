"""Fencing tokens, and digests of sets of fenced runs.

    token = epoch << 40 | number of the claim within the epoch

Where an installation has several databases, the last six bits of each number are those of the shard that drew it: its
numbers go up by 64. So a report finds its database by its token, and no two databases draw the same one.

A store that was set back (a standby promoted before it had everything, a restored backup) begins a new epoch, so tokens
never decrease, after any loss of writes. Forty bits are 10^12 claims: a year at 35,000 a second; a fuller epoch runs
over into the next, which is then merely begun. Thirteen bits are left below 2^53, the largest integer that every JSON
reader keeps exactly: 8,191 epochs.

A store whose database cannot tell that it was set back goes by the time: each process that opens it, and each epoch,
begins no lower than the time says (`token_at`). What was drawn before, and is lost, was drawn earlier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

EPOCH_BITS: Final = 40
"""Bits of a token below its epoch."""
LOW: Final = 0xFFFF_FFFF
SHARD_BITS: Final = 6
"""Bits of a token that name its shard, where there are several. 10^10 claims of one shard are an epoch's forty bits."""
SHARD_STEP: Final = 1 << SHARD_BITS


TICK_SECONDS: Final = 64e-6
"""The time counts for a token in so many seconds: one shard draws no more for long, 15,625 a second."""
TIME_BEGINS: Final = 1_793_491_200.0
"""2026-11-01. The 47 bits of a shard's numbers are 285 years from then."""


class HeldDigest(NamedTuple):
    """A set of held runs in two numbers, independent of their order."""

    runs: int
    digest: int


def epoch_of(token: int) -> int:
    """The epoch in which a claim was made."""
    return token >> EPOCH_BITS


def shard_bits(token: int) -> int:
    """The last bits of a token; of the number of a shard, those that its tokens have."""
    return token & (SHARD_STEP - 1)


def tokens_from(first: int, shard: int | None) -> tuple[int, int]:
    """The first token from this one on, and the step to the next; of one shard, if there are several."""
    return (first, 1) if shard is None else (first - shard_bits(first) + SHARD_STEP + shard_bits(shard), SHARD_STEP)


def token_at(instant: float, shard: int | None) -> int:
    """No token that the shard has drawn before this instant is as great, unless it has drawn more than one in
    `TICK_SECONDS` for days."""
    ticks = max(0, int((instant - TIME_BEGINS) / TICK_SECONDS))
    return ticks if shard is None else ticks << SHARD_BITS


def token_in_epoch(epoch: int, instant: float, shard: int | None) -> int:
    """The token above which an epoch begins. One that was lost with all that it drew may have had the same number: they
    differ by the time, which comes again after 6 days where there are several shards, else after a year."""
    return first_token(epoch) + (token_at(instant, shard) & ((1 << EPOCH_BITS - 1) - 1))


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
