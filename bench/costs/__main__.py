"""`python -m bench.costs [whole stages api features]`: measure these parts, keep their figures, write the book anew.

Figures of parts that are not named stay as they were kept in `bench/results/COSTS.json`, with their own commit.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import uvloop

from bench.costs import parts
from bench.costs.book import write
from bench.costs.figures import keep, kept
from bench.costs.meter import Meter
from bench.costs.server import counting_rig
from bench.harness import Rig

PARTS: dict[str, Callable[[Rig, Meter], Awaitable[parts.Figures]]] = {
    "whole": parts.whole,
    "stages": parts.stages,
    "api": parts.api,
    "features": parts.features,
}


async def measure(names: list[str]) -> None:
    """One part after another, each on a server of its own."""
    for name in names:
        async with counting_rig() as rig:
            meter = await Meter.open(rig.dsn)
            try:
                keep(name, await PARTS[name](rig, meter), await rig.postgresql())
            finally:
                await meter.close()
    write(kept())


def main() -> int:
    """The command."""
    names = sys.argv[1:] or list(PARTS)
    unknown = [name for name in names if name not in PARTS and name != "book"]
    if unknown:
        print(f"unknown parts {', '.join(unknown)}; there are {', '.join(PARTS)}, and book", file=sys.stderr)
        return 2
    uvloop.run(measure([name for name in names if name in PARTS]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
