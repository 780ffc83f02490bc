"""`python -m bench.peers [--case T1] [--rounds 1] [--full] [--install] [NAME …]`: a look at peers alone.

A NAME is a peer (`river`, at both settings) or one of its settings (`river-best`); without names, all. Prints what it
measures and keeps nothing: the figures that are kept come from `make bench PEERS=1`, where each round of a peer stands
beside one of ours. Exits 1 if a round is void.
"""

from __future__ import annotations

import argparse
import sys

import uvloop

from bench.harness import Failed, Round
from bench.peers import PEERS, Peer
from bench.peers.rig import peer_rig

CASES = ("T1", "T2", "L2", "R1")


def wanted(names: list[str]) -> list[Peer]:
    """Those named, in the order of the names; SystemExit if one is unknown."""
    found = [peer for name in names for peer in PEERS if name in (peer.name, peer.title)]
    unknown = [name for name in names if not any(name in (peer.name, peer.title) for peer in PEERS)]
    if unknown:
        sys.exit(f"unknown peers {', '.join(unknown)}; there are {', '.join(peer.title for peer in PEERS)}")
    return found or list(PEERS)


async def once(peer: Peer, case: str, *, full: bool) -> Round | str:
    """One round on fresh servers, or why it is void."""
    try:
        async with peer_rig(full=full) as rig:
            return await peer.cases[case](rig)
    except (Failed, TimeoutError) as wrong:
        return f"void: {wrong!r}"


async def measure(peers: list[Peer], case: str, *, rounds: int, full: bool) -> int:
    """All rounds, A B C A B C; the number of void ones."""
    void = 0
    for number in range(rounds):
        for peer in peers:
            done = await once(peer, case, full=full)
            void += isinstance(done, str)
            said = done if isinstance(done, str) else f"{done.value:,.1f} {done.more}"
            print(f"{case} {peer.title} {number + 1}/{rounds}: {said}", flush=True)
    return void


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure peers alone.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a peer, or a peer at one setting")
    parser.add_argument("--case", choices=CASES, default="T1")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="long windows, and 100 000 jobs however slow")
    parser.add_argument("--install", action="store_true", help="put the packages there, and measure nothing")
    given = parser.parse_args()
    ready = []
    for peer in wanted(given.names):
        if peer.missing():
            print(f"{peer.title} is not run: no {', '.join(peer.missing())}")
            continue
        peer.install()
        if given.case in peer.cases:
            ready.append(peer)
        else:
            print(f"{peer.title} has no {given.case}")
    if given.install:
        print("\n".join(f"{peer.title} {peer.version} is there" for peer in ready))
        return 0
    return 1 if uvloop.run(measure(ready, given.case, rounds=given.rounds, full=given.full)) else 0


if __name__ == "__main__":
    sys.exit(main())
