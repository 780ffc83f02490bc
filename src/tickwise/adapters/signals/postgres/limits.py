"""The shared count of requests in the database: one row a caller, moved by one statement for all that come together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tickwise.adapters.signals.pacing import COUNT_SECONDS, SharedLimits, Standing
from tickwise.adapters.signals.postgres.link import AWAY, PostgresLink, statement
from tickwise.ports.limits import Pace

_COUNT: Final = statement("paces_count")


def postgres_limits(
    link: PostgresLink, pace: Pace, *, api_processes: Callable[[], int] = lambda: 1, wait_seconds: float = COUNT_SECONDS
) -> SharedLimits:
    """`ports.limits.Limits` over one database; the rest as `SharedLimits` says."""

    async def count(asked: Mapping[str, int]) -> Mapping[str, Standing]:
        measures = (pace.interval_seconds, pace.tolerance_seconds)
        rows = await link.ask(_COUNT, [*asked], [*asked.values()], *measures)
        return {row["who"]: Standing(row["granted"], row["ahead"]) for row in rows}

    return SharedLimits(
        count, pace=pace, clock=link.clock, away=AWAY, api_processes=api_processes, wait_seconds=wait_seconds
    )
