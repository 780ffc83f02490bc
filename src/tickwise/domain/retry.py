"""After a failure: when again, or never.

A failure is counted per run in the store; losing an executor is a crash, counted apart and capped by
`CRASHES_MAX`. The delay before retry n (n = 1 for the first) is

    fixed         base
    exponential   base × factor^(n − 1), at most cap

and is then moved by up to ± jitter of itself, so that jobs that failed together do not return together.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CRASHES_MAX: Final = 3
"""A run whose recorded starts were lost with their executor this often is quarantined: `FAILED`, reason `poison`."""


class Backoff(StrEnum):
    """How the delay grows from one retry to the next."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"


class OnUnknown(StrEnum):
    """What becomes of a run whose executor was lost after its start was recorded: nobody can know what it has done."""

    RERUN = "rerun"
    """It runs again, elsewhere."""
    FAIL = "fail"
    """It ends FAILED, reason `executor_lost`."""
    HOLD = "hold"
    """It ends FAILED, reason `unknown_outcome`, and its dead letter waits until a person says what is true."""


EXECUTOR_LOST: Final = "executor_lost"
UNKNOWN_OUTCOME: Final = "unknown_outcome"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A job's own rule. Seconds everywhere; `jitter` is a share of the delay, 0 to 1."""

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.2


def delay_seconds(policy: RetryPolicy, *, failures: int, chance: float) -> float | None:
    """Seconds until the next attempt after the `failures`-th failure (from 1), or None: never again.

    `chance` is drawn by the caller, uniform in [0, 1).
    """
    if failures > policy.max_retries:
        return None
    delay = policy.base_seconds
    if policy.backoff is Backoff.EXPONENTIAL and 0.0 < delay < policy.cap_seconds:
        try:
            delay *= policy.factor ** (failures - 1)
        except OverflowError:  # what is beyond all floats is beyond the cap
            delay = policy.cap_seconds
    return min(delay, policy.cap_seconds) * (1.0 + policy.jitter * (2.0 * chance - 1.0))
