"""`make chaos`: rows of the scorecard at length, each with its faults, its bound, its figures and a result file.

ROWS="R1 R2 …" chooses, SEED=… repeats, SHORT=1 plays what `make test` plays, HISTORIES=folder keeps what was judged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.chaos.row import record, run_row
from tests.chaos.rows import ROWS
from tickwise.adapters.clock import SystemClock

ELSEWHERE = {"R11": "`make reference`: clock changes of seven zones beside a slow, obvious implementation"}


async def play(name: str, seed: int, *, short: bool, histories: Path | None) -> bool:
    """One row: whether it is good. One that cannot be played here says so."""
    row = ROWS[name]
    size = row.short if short else row.long
    try:
        result = await run_row(row, size, seed=seed, strict=not short, histories=histories)
    except NotImplementedError as reason:
        print(f"{name}: not played here: {reason}", flush=True)
        return True
    except AssertionError as failure:
        print(failure, flush=True)
        return False
    print(result.as_text(), flush=True)
    if not short:
        record(result)
    return result.good


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("rows", nargs="*", default=[*ROWS], metavar="ROW")
    wanted = parser.parse_args().rows
    # What ends us ends what we started: asyncio unwinds after Ctrl-C, and knows nothing of TERM.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    seed = int(os.environ.get("SEED") or int.from_bytes(SystemClock().random_bytes(4), "big"))
    histories = Path(os.environ["HISTORIES"]) if os.environ.get("HISTORIES") else None
    bad = []
    for name in wanted:
        if name in ELSEWHERE:
            print(f"{name}: {ELSEWHERE[name]}")
            continue
        if name not in ROWS:
            parser.error(f"there is no row {name}; there are {', '.join([*ROWS, *ELSEWHERE])}")
        if not asyncio.run(play(name, seed, short=bool(os.environ.get("SHORT")), histories=histories)):
            bad.append(name)
    if bad:
        print(f'failed: {", ".join(bad)}; again with: make chaos ROWS="{" ".join(bad)}" SEED={seed}', file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
