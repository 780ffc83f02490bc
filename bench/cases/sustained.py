"""T2: how much can be submitted and run at the same time, for as long as one likes."""

from __future__ import annotations

from bench import raw
from bench.figures import slowest_share
from bench.harness import Case, Check, Rig, Round
from bench.stream import flowing
from tickwise.domain.model import DEFAULT_NAMESPACE


async def sustained(rig: Rig, namespace: str = DEFAULT_NAMESPACE) -> Round:
    """Batches of 500 submitted while they run, the backlog bounded at 20k. The value is what ended durably a second."""
    seconds = 60.0 if rig.full else 20.0
    async with flowing(rig, namespace=namespace) as stream:
        used = await stream.usage()
        before, begin = await stream.ended()
        await rig.clock.sleep(seconds)
        after, end = await stream.ended()
        sent = stream.sent
        spent = await stream.usage()
        await stream.finish()
        windows = await stream.rates(begin, end)
    return Round(
        (after - before) / (end - begin),
        {
            "seconds": round(end - begin, 1),
            "runs": after - before,
            "under_way_at_end": sent - after,
            "slowest_window": round(slowest_share(windows), 3),
            "windows": [round(rate) for rate in windows],
            **spent.cost(used, after - before),
        },
    )


CASE = Case(
    "T2",
    "jobs/s",
    25_000,
    True,
    sustained,
    raw.sustained,
    "raw SQL: submit, claim and finish with history",
    checks=(Check("slowest 5 s window, of the median one", "slowest_window", 0.8, higher=True),),
    times_peers={"river": 1.5},
)
