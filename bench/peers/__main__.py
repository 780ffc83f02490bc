"""`python -m bench.peers [--case T1] [--rounds 3] [--full] [--keep] [--install] [NAME …]`: measure peers.

A NAME is a peer (`river`, both settings) or one of its settings (`river-best`); without names, all. Writes
`bench/results/peers-CASE.json`. Exits 1 if a round is void.
"""

from __future__ import annotations

import argparse
import sys

import uvloop

from bench.peers import PEERS, Peer
from bench.peers.measure import UNITS, measure


def wanted(names: list[str]) -> list[Peer]:
    """Those named, in the order of the names; SystemExit if one is unknown."""
    found = [peer for name in names for peer in PEERS if name in (peer.name, peer.title)]
    unknown = [name for name in names if not any(name in (peer.name, peer.title) for peer in PEERS)]
    if unknown:
        sys.exit(f"unknown peers {', '.join(unknown)}; there are {', '.join(peer.title for peer in PEERS)}")
    return found or list(PEERS)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure peers.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--case", choices=sorted(UNITS), default="T1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="long windows, and 100 000 jobs however slow")
    parser.add_argument("--keep", action="store_true", help="add the rounds to those of the result file")
    parser.add_argument("--install", action="store_true", help="put the packages there, and measure nothing")
    given = parser.parse_args()
    peers = wanted(given.names)
    if given.install:
        for peer in peers:
            missing = peer.missing()
            print(f"{peer.title}: {'no ' + ', '.join(missing) + ' here' if missing else peer.version}")
            if not missing:
                peer.install()
        return 0
    result = uvloop.run(measure(given.case, peers, rounds=given.rounds, full=given.full, keep=given.keep))
    return 1 if any("void" in result["peers"][peer.title] for peer in peers) else 0


if __name__ == "__main__":
    sys.exit(main())
