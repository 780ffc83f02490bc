"""The shared count of requests in the database: one row a caller, moved by one statement for all that come together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tickwise.adapters.signals.pacing import COUNT_SECONDS, SharedLimits, Standing, Wanted
from tickwise.adapters.signals.postgres.link import AWAY, PostgresLink, statement

_COUNT: Final = statement("paces_count")


def postgres_limits(
    link: PostgresLink, *, api_processes: Callable[[], int] = lambda: 1, wait_seconds: float = COUNT_SECONDS
) -> SharedLimits:
    """`ports.limits.Limits` over one database; the rest as `SharedLimits` says."""

    async def count(asked: Mapping[str, Wanted]) -> Mapping[str, Standing]:
        counts = [wanted.requests for wanted in asked.values()]
        paces = [wanted.pace for wanted in asked.values()]
        measures = ([pace.interval_seconds for pace in paces], [pace.tolerance_seconds for pace in paces])
        rows = await link.ask(_COUNT, [*asked], counts, *measures)
        return {row["who"]: Standing(row["granted"], row["ahead"]) for row in rows}

    return SharedLimits(count, clock=link.clock, away=AWAY, api_processes=api_processes, wait_seconds=wait_seconds)
