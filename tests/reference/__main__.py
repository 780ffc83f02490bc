"""`make reference`: five years of seven zones, every line by every rule, product beside the slow reference.

About five minutes on two idle cores. Exits 1 at any difference, of the fires or of the committed table; WRITE=1 writes
that table anew.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from hashlib import blake2b
from itertools import chain
from zoneinfo import ZoneInfo

from tests.reference import cases, table
from tests.reference.slow_cron import SlowCron, watch
from tickwise.domain.cron.expression import parse

# Lines with more fires a year than this are walked by their own rule only, and counted by the other ones.
DENSE = 20_000


def compare(zone_name: str) -> tuple[list[table.Row], list[str]]:
    """A zone: its rows, and where the product differs."""
    zone, wrong = ZoneInfo(zone_name), []
    fires = dict.fromkeys(cases.LINES, 0)
    digests = {line: blake2b(digest_size=8) for line in cases.LINES}
    for begin, end in cases.years_of(zone_name):
        film = watch(zone, begin, end)
        for line in cases.LINES:
            cron, named = parse(line), SlowCron(line).named(film)
            for dst in cases.RULES:
                expected = cases.expected_of(named, dst)
                same = cases.counted(cron, begin, end, zone, dst) == len(expected)
                if dst == cases.RULES[0] or len(expected) <= DENSE:
                    same = same and cases.forwards(cron, begin, end, zone, dst) == expected
                if not same:
                    wrong.append(f"{zone_name} {begin.year}: {line} with {dst}")
                if dst == cases.RULES[0]:
                    fires[line] += len(expected)
                digests[line].update(repr(expected).encode())
    rows = [table.Row(zone_name, line, fires[line], digests[line].hexdigest()) for line in cases.LINES]
    return rows, wrong


def main() -> int:
    """The command."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = []
        for zone_name, one in zip(cases.ZONES, pool.map(compare, cases.ZONES), strict=True):
            print(f"{zone_name}: {sum(row.fires for row in one[0]):,} fires, {len(one[1])} differences", flush=True)
            found.append(one)
    rows = list(chain.from_iterable(one[0] for one in found))
    wrong = list(chain.from_iterable(one[1] for one in found))
    for difference in wrong:
        print(f"differs from the reference: {difference}", file=sys.stderr)
    if os.environ.get("WRITE") and not wrong:
        table.write(rows)
    changed = [row for row in rows if row not in table.read()]
    for row in changed:
        print(f"differs from the committed table: {row.zone} {row.line}", file=sys.stderr)
    return 1 if wrong or changed else 0


if __name__ == "__main__":
    sys.exit(main())
