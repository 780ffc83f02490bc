"""`python -m bench T1 T2 …`: rounds of each case, limit and product (and peers) in turn, a table and a file per case.

FULL=1 takes the long windows; ROUNDS=n another number of rounds; PEERS=1 measures other queues in the same rounds
(PEERS="river pgqueuer-best": those whose titles have such a part), and writes the table into README.md.
Exits 1 if a case of ours is void; a missed target is shown, not hidden, and is no error.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import uvloop
from rich.console import Console

from bench import record, table
from bench.cases import CASES, UNUSABLE
from bench.harness import Case, Failed, Rig, Round, rig

if TYPE_CHECKING:
    from bench.beside import Beside

DURABILITY = "durable: every submit and every end is committed before it counts"
STORES = "the job with its definition; of each run one row of history: times, executor, fence, state, result"


async def measure(names: list[str]) -> int:
    """All cases named; the number of void ones."""
    console = Console(width=140)
    done: list[dict[str, Any]] = []
    void = 0
    wanted = os.environ.get("PEERS", "").split()
    async with rig(full=bool(os.environ.get("FULL"))) as bench:
        for name in names:
            peers = _peers(CASES[name], wanted) if wanted else []
            try:
                done.append(await rounds(bench, CASES[name], console, peers))
            except (Failed, TimeoutError) as wrong:
                console.print(f"{name} is void: {wrong!r}", style="red", markup=False)
                void += 1
    console.print(table.show(done))
    if wanted:
        table.write()
    return void


def _peers(case: Case, wanted: Sequence[str]) -> Sequence[Beside]:
    """The peers to measure beside this case."""
    # Here and not above: whatever is wrong with a peer must not stop our own cases.
    from bench.beside import chosen

    return chosen(case, [part for part in wanted if part != "1"])


async def rounds(bench: Rig, case: Case, console: Console, peers: Sequence[Beside]) -> dict[str, Any]:
    """All rounds of a case, and its result file. Raises Failed for a void one."""
    number = int(os.environ.get("ROUNDS") or case.rounds)
    product: list[Round] = []
    limits: list[Round] = []
    for at in range(number):
        limits.append(await case.limit(bench))
        product.append(await case.product(bench))
        console.print(
            f"{case.name} {at + 1}/{number}: {product[-1].value:.3f} {case.unit} {product[-1].more}", markup=False
        )
        for beside in peers:
            await beside.measure(full=bench.full)
            value = beside.not_run or beside.void or f"{beside.rounds[-1].value:.3f} {case.unit}"
            console.print(f"{case.name} {at + 1}/{number}: {beside.peer.title} {value}", markup=False)
    around = record.surroundings(postgresql=await bench.postgresql(), full=bench.full)
    said = record.result(case, product, limits, surroundings=around)
    place = record.folder(case, number)
    if peers:
        from bench.beside import demands  # as in `_peers`

        others = _others(case, said, _comparable(case, product), peers) | around
        said["checks"] |= demands(case, others["peers"])
        record.write(place / f"peers-{case.name}.json", others)
        console.print(table.show_peers(others))
    record.write(place / f"{case.name}.json", said)
    return said


def _comparable(case: Case, product: Sequence[Round]) -> Round:
    """The median of ours at the work that peers do: a case may measure more than they can be asked for."""
    figures = [measured.more[case.peers_compare] if case.peers_compare else measured.value for measured in product]
    return Round(statistics.median(figures))


def _others(case: Case, said: dict[str, Any], ours: Round, peers: Sequence[Beside]) -> dict[str, Any]:
    """What `peers-CASE.json` says, but for its surroundings."""
    value = said if case.peers_compare is None else {"value": ours.value, "low": ours.value, "high": ours.value}
    unit = case.unit if case.peers_compare is None else f"{case.unit} ({case.peers_compare})"
    return {
        "case": case.name,
        "unit": unit,
        "higher": case.higher,
        "about": f"{unit}; ours at its defaults, ratio: how many times better ours is.",
        "headings": ["who", "version", "setting", f"{unit}, median [range]", "ratio", "durability", "keeps"],
        "ours": {name: value[name] for name in ("value", "low", "high")},
        "durability": DURABILITY,
        "stores": STORES,
        "peers": [beside.said(case, ours) for beside in peers],
    }


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
