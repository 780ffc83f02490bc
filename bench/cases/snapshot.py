"""C1: what is left of T2 while another session holds a snapshot, as a dump, a report or a stale replication slot does.

One stream, so that before, under and after are the same minutes of the same machine:

    clean ──► a REPEATABLE READ transaction is opened and left open ──► it ends ──► recovering
    FULL=1:  30 s                         120 s, of which the first 70 s are judged      40 s

No vacuum can remove a row that was dead before the snapshot ended, so every claim steps over what was claimed since.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench import raw
from bench.figures import seconds_until
from bench.harness import SQL, Case, Check, Rig, Round
from bench.stream import WINDOW_SECONDS, flowing

RECOVERED = 0.95
"""Of the clean rate."""


@dataclass(frozen=True)
class Spans:
    """Seconds, each a multiple of the window."""

    clean: float
    held: float
    judged: float
    after: float


async def under_a_snapshot(rig: Rig) -> Round:
    """The value is the rate while the snapshot is held, of the rate before."""
    spans = Spans(30.0, 120.0, 70.0, 40.0) if rig.full else Spans(15.0, 30.0, 30.0, 15.0)
    holder = await rig.connect()
    async with flowing(rig) as stream:
        begin = await stream.now()
        await rig.clock.sleep(spans.clean)
        async with holder.transaction(isolation="repeatable_read"):
            await holder.fetchval(SQL["snapshot"])
            opened = await stream.now()
            await rig.clock.sleep(spans.held)
            dead = await stream.connection.fetchval(SQL["dead"])
        released = await stream.now()
        await rig.clock.sleep(spans.after)
        await stream.finish()
        clean = statistics.fmean(await stream.rates(begin, begin + spans.clean))
        held = await stream.rates(opened, opened + spans.held)
        after = await stream.rates(released, released + spans.after)
    await holder.close()
    judged = held[: int(spans.judged / WINDOW_SECONDS)]
    return Round(
        statistics.fmean(judged) / clean,
        {
            "clean": round(clean),
            "clean_afterwards": round(max(after)),
            "held_seconds": spans.held,
            "whole_hold": round(statistics.fmean(held) / clean, 3),
            "slowest_window_held": round(min(held) / clean, 3),
            "last_15_s_judged": round(statistics.fmean(judged[-3:]) / clean, 3),
            "recovered_after_s": seconds_until(after, RECOVERED * clean, WINDOW_SECONDS),
            "dead_rows_at_the_end": dead,
            "windows_held": [round(rate) for rate in held],
            "windows_after": [round(rate) for rate in after],
        },
    )


CASE = Case(
    "C1",
    "of T2",
    0.85,
    True,
    under_a_snapshot,
    raw.pinned,
    "raw SQL: the same under the same snapshot, of itself without",
    checks=(Check("seconds until 95 % of the clean rate after the snapshot ended", "recovered_after_s", 30.0),),
)
