"""`python -m bench.costs [PART or PART.ITEM …]`: measure, keep the figures, and write the book of all that are kept.

    whole.T1 whole.T2 whole.functions     stages.submit … stages.retire     api.future     features.submit …

Without names everything is measured, in some minutes. Figures that are not named stay as they were kept in
`bench/results/COSTS.json`, each with its own commit.
"""

from __future__ import annotations

import gc
import sys

import uvloop

from bench.costs.book import write
from bench.costs.figures import keep, kept
from bench.costs.meter import Meter
from bench.costs.parts import ITEMS
from bench.costs.server import counting_rig
from tickwise.wiring.processes import GC_THRESHOLDS


def chosen(names: list[str]) -> list[tuple[str, str]]:
    """The items that these names mean. Raises ValueError for one that means none."""
    found = []
    for name in names or list(ITEMS):
        part, _, item = name.partition(".")
        if part not in ITEMS or (item and item not in ITEMS[part]):
            there = ", ".join(f"{part}.{item}" for part, items in ITEMS.items() for item in items)
            raise ValueError(f"there is no {name!r} to measure; there are {there}")
        found += [(part, each) for each in ([item] if item else ITEMS[part])]
    return found


async def measure(items: list[tuple[str, str]]) -> None:
    """One after another, on one server, with the garbage collector set as roles set it."""
    gc.set_threshold(*GC_THRESHOLDS)
    async with counting_rig() as rig:
        meter = await Meter.open(rig.dsn)
        server = await rig.postgresql()
        try:
            for part, item in items:
                keep(part, item, await ITEMS[part][item](rig, meter), server)
        finally:
            await meter.close()
    write(kept())


def main() -> int:
    """The command."""
    try:
        items = chosen(sys.argv[1:])
    except ValueError as unknown:
        print(unknown, file=sys.stderr)
        return 2
    uvloop.run(measure(items))
    return 0


if __name__ == "__main__":
    sys.exit(main())
