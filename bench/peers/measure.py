"""Rounds of peers, one at a time and in turn (A B C A B C), and `results/peers-CASE.json`."""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.harness import HERE, Failed, Round, commit
from bench.peers.peer import Peer
from bench.peers.rig import peer_rig

UNITS = {"T1": "jobs/s", "T2": "jobs/s", "L2": "p99 ms", "R1": "p99 ms"}


def machine() -> dict[str, Any]:
    """Where it was measured, without its name."""
    model = [line for line in _cpu_info() if line.startswith("model name")]
    return {
        "cores": len(psutil.Process().cpu_affinity() or ()) or psutil.cpu_count(),
        "processor": model[0].partition(":")[2].strip() if model else platform.processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_info() -> list[str]:
    source = Path("/proc/cpuinfo")
    return source.read_text().splitlines() if source.exists() else []


async def once(peer: Peer, case: str, *, full: bool) -> Round:
    """One round on fresh servers. Raises Failed if it is void."""
    try:
        async with peer_rig(full=full) as rig:
            return await peer.cases[case](rig)
    except TimeoutError:
        raise Failed("it did not end in time") from None


async def measure(
    case: str, peers: Sequence[Peer], *, rounds: int, full: bool, keep: bool = False, said: Any = print
) -> dict[str, Any]:
    """Measure and write; what the file then says. With `keep` the rounds are added to those that the file has.

    A peer that could not be run is in the file, too, and says why under `not_run`; a void round is not a figure, and
    is in `void` with its reason.
    """
    path = HERE / "results" / f"peers-{case}.json"
    before = json.loads(path.read_text())["peers"] if keep and path.exists() else {}
    entries: dict[str, dict[str, Any]] = {}
    ready = []
    for peer in peers:
        entry = entries[peer.title] = _entry(peer, before.get(peer.title))
        if case not in peer.cases:
            entry["not_run"] = f"the driver has no {case}"
        elif peer.missing():
            entry["not_run"] = f"no {', '.join(peer.missing())} here"
        else:
            # Not in the loop's thread for the processes that it waits for, and quick if all is there.
            await asyncio.to_thread(peer.install)
            ready.append(peer)
    for number in range(rounds):
        for peer in ready:
            entry = entries[peer.title]
            try:
                done = await once(peer, case, full=full)
            except Failed as wrong:
                entry.setdefault("void", []).append(str(wrong))
                said(f"{case} {peer.title} {number + 1}/{rounds} is void: {wrong}")
                continue
            entry["rounds"].append({"value": round(done.value, 2), **done.more})
            said(f"{case} {peer.title} {number + 1}/{rounds}: {done.value:,.1f} {UNITS[case]} {done.more}")
    for entry in entries.values():
        _summarise(entry)
    result = {
        "case": case,
        "unit": UNITS[case],
        "commit": commit(),
        "machine": machine(),
        "peers": dict(sorted({**before, **entries}.items())),
    }
    path.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _entry(peer: Peer, before: dict[str, Any] | None) -> dict[str, Any]:
    """What we say of a peer; rounds that were measured with the same version of it stay."""
    kept = before["rounds"] if before and before["version"] == peer.version else []
    return {
        "version": peer.version,
        "language": peer.language,
        "settings": peer.settings,
        "durability": peer.durability,
        "stores": peer.stores,
        "link": peer.link,
        "rounds": list(kept),
    }


def _summarise(entry: dict[str, Any]) -> None:
    values = [measured["value"] for measured in entry["rounds"]]
    if values:
        entry |= {"value": statistics.median(values), "low": min(values), "high": max(values)}
