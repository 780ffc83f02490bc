"""`python -m bench T1 T2 …`: rounds of each case, limit and product (and peers) in turn, a table and a file per case.

FULL=1 takes the long windows, ROUNDS=n other than three rounds, PEERS=1 measures other queues in the same rounds.
Exits 1 if a case of ours is void; a missed target is shown, not hidden, and is no error.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import uvloop
from rich.console import Console

from bench import record
from bench.cases import CASES, UNUSABLE
from bench.harness import Case, Failed, Rig, Round, rig
from bench.table import show


async def measure(names: list[str]) -> int:
    """All cases named; the number of void ones."""
    console = Console(width=140)
    done: list[dict[str, Any]] = []
    void = 0
    async with rig(full=bool(os.environ.get("FULL"))) as bench:
        for name in names:
            try:
                done.append(await rounds(bench, CASES[name], console))
            except (Failed, TimeoutError) as wrong:
                console.print(f"[red]{name} is void: {wrong!r}")
                void += 1
    console.print(show(done))
    return void


async def rounds(bench: Rig, case: Case, console: Console) -> dict[str, Any]:
    """All rounds of a case, and its result file. Raises Failed for a void one."""
    number = int(os.environ.get("ROUNDS") or case.rounds)
    product: list[Round] = []
    limits: list[Round] = []
    for at in range(number):
        limits.append(await case.limit(bench))
        product.append(await case.product(bench))
        console.print(f"{case.name} {at + 1}/{number}: {product[-1].value:.3f} {case.unit} {product[-1].more}")
    around = record.surroundings(postgresql=await bench.postgresql(), full=bench.full)
    said = record.result(case, product, limits, surroundings=around)
    record.write(record.folder(case, number) / f"{case.name}.json", said)
    return said


def main() -> int:
    """The command."""
    names = sys.argv[1:] or list(CASES)
    unknown = [name for name in names if name not in CASES]
    for module, why in UNUSABLE.items():
        print(f"bench/cases/{module}.py cannot be used: {why}", file=sys.stderr)
    if unknown:
        print(f"unknown cases {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    return 1 if uvloop.run(measure(names)) else 0


if __name__ == "__main__":
    sys.exit(main())
