"""`python -m bench T1 T2 …`: three rounds of each case, product and limit in turn, a table and a file per case.

FULL=1 takes the long windows. Exits 1 if a case is void; a missed target is shown, not hidden, and is no error.
"""

from __future__ import annotations

import os
import sys

import uvloop
from rich.console import Console
from rich.table import Table

from bench.cases import CASES
from bench.harness import Failed, Round, record, rig

ROUNDS = 3


async def measure(names: list[str]) -> int:
    """All cases named; the number of void ones."""
    console = Console(width=120)
    table = Table("case", "value", "range", "unit", "limit", "ratio", "target", "met", "beside")
    void = 0
    async with rig(full=bool(os.environ.get("FULL"))) as bench:
        for name in names:
            case = CASES[name]
            product: list[Round] = []
            limits: list[Round] = []
            try:
                for number in range(ROUNDS):
                    limits.append(await case.limit(bench))
                    product.append(await case.product(bench))
                    console.print(
                        f"{name} {number + 1}/{ROUNDS}: {product[-1].value:.3f} {case.unit} {product[-1].more}"
                    )
            except (Failed, TimeoutError) as wrong:
                console.print(f"[red]{name} is void: {wrong!r}")
                void += 1
                continue
            done = record(case, product, limits)
            span = f"{done['low']:,.1f} to {done['high']:,.1f}"
            table.add_row(
                name,
                f"{done['value']:,.1f}",
                span,
                case.unit,
                f"{done['limit']:,.1f}",
                str(done["ratio"]),
                f"{case.target:,.1f}",
                "yes" if done["met"] else "no",
                case.limit_is,
            )
    console.print(table)
    return void


def main() -> int:
    """The command."""
    names = sys.argv[1:] or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        print(f"unknown cases {', '.join(unknown)}; there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    return 1 if uvloop.run(measure(names)) else 0


if __name__ == "__main__":
    sys.exit(main())
