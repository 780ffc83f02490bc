"""growth: what one run costs with 10^5, 10^6 and 10^7 jobs ahead and as many finished runs stored.

Cost is CPU of the server and of the roles for each run of T2, and bytes written ahead; the three are measured one after
the other, each on its server, in the same minutes.
"""

from __future__ import annotations

from bench import raw
from bench.cases.stored import beside, flow
from bench.data import SIZES
from bench.harness import Case, Check, Rig, Round


async def growing(rig: Rig) -> Round:
    """The value is the dearest of the three, of the cheapest, by CPU for each run."""
    seconds = 30.0 if rig.full else 10.0
    flows = {}
    for size in SIZES["growth"]:
        async with beside(rig, size) as stored:
            flows[size] = await flow(stored, seconds)
    cpu = {size: one.database_us + one.product_us for size, one in flows.items()}
    wal = {size: one.wal_bytes for size, one in flows.items()}
    return Round(
        max(cpu.values()) / min(cpu.values()),
        {
            "cpu_us_a_run": {f"{size:,}": round(value, 1) for size, value in cpu.items()},
            "database_us_a_run": {f"{size:,}": round(one.database_us, 1) for size, one in flows.items()},
            "wal_bytes_a_run": {f"{size:,}": round(value) for size, value in wal.items()},
            "wal_spread": round(max(wal.values()) / min(wal.values()), 3),
            "jobs_a_second": {f"{size:,}": round(one.rate) for size, one in flows.items()},
        },
    )


CASE = Case(
    "growth",
    "times the cheapest",
    1.1,
    False,
    growing,
    raw.sustained,
    "raw SQL: submit, claim and finish on an empty database",
    checks=(Check("bytes written ahead for each run, of the least", "wal_spread", 1.1),),
)
