"""Other queues measured in the same rounds as a case of ours: A B C, A B C, A B C, each on a fresh server.

A peer of which a tool is missing, or whose packages cannot be installed, is said to be `not run` and why. One whose
measurement is void, because it lost a job, is said to be `void` and why.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.figures import meets
from bench.harness import Case, Failed, Round
from bench.peers import PEERS, Peer
from bench.peers.rig import peer_rig


@dataclass
class Beside:
    """One peer in one case: what was measured, or why it was not."""

    peer: Peer
    case: str
    rounds: list[Round] = field(default_factory=list)
    not_run: str | None = None
    void: str | None = None

    async def measure(self, *, full: bool) -> None:
        """One more round. Whatever goes wrong is the peer's result, and ends nobody else's."""
        if self.not_run or self.void:
            return
        try:
            async with peer_rig(full=full) as rig:
                self.rounds.append(await self.peer.cases[self.case](rig))
        except (Failed, TimeoutError, OSError) as wrong:
            self.void = f"{type(wrong).__name__}: {wrong}"

    def said(self, case: Case, ours: Round) -> dict[str, Any]:
        """What the result file says of it. `ratio`: how many times as fast ours is, whichever way better lies."""
        peer = self.peer
        about = {
            "title": peer.title,
            "name": peer.name,
            "version": peer.version,
            "language": peer.language,
            "settings": peer.settings,
            "durability": peer.durability,
            "stores": peer.stores,
            "link": peer.link,
        }
        if self.not_run or self.void:
            return about | ({"not_run": self.not_run} if self.not_run else {"void": self.void})
        values = [measured.value for measured in self.rounds]
        value = statistics.median(values)
        ratio = ours.value / value if case.higher else value / ours.value
        nearest = min(self.rounds, key=lambda measured: abs(measured.value - value))
        return about | {
            "value": round(value, 3),
            "low": round(min(values), 3),
            "high": round(max(values), 3),
            "rounds": [round(one, 3) for one in values],
            "ratio": round(ratio, 2),
            "more": nearest.more,
        }


def prepared(peer: Peer, case: Case) -> Beside:
    """A peer with its packages there, or the reason why it is not run."""
    missing = peer.missing()
    if missing:
        return Beside(peer, case.name, not_run=f"no {', '.join(missing)}")
    try:
        peer.install()
    except (subprocess.CalledProcessError, OSError) as wrong:
        return Beside(peer, case.name, not_run=f"its packages cannot be installed: {wrong}")
    return Beside(peer, case.name)


def chosen(case: Case, wanted: Sequence[str]) -> list[Beside]:
    """The peers that have this case. `wanted`: parts of their titles; none: all."""
    return [
        prepared(peer, case)
        for peer in PEERS
        if case.name in peer.cases and (not wanted or any(part in peer.title for part in wanted))
    ]


def demands(case: Case, peers: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the case must be beside peers, as `record.judged` says it; of those that ran."""
    found = {}
    for name, times in case.times_peers.items():
        ran = [peer for peer in peers if "ratio" in peer and name in ("", peer["name"])]
        if ran:
            best = min(ran, key=lambda peer: float(peer["ratio"]))
            of = f"{best['title']}, the best of {len(ran)} settings of peers" if name == "" else best["title"]
            met = meets(best["ratio"], times, higher=True)
            found[f"times {of}"] = {"figure": best["ratio"], "bound": times, "met": met}
    return found
