"""graphile-worker: jobs in PostgreSQL, deleted when they are done. `graphile-worker-2` is two processes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers import nodejs
from bench.peers.peer import Peer

_FOLDER = Path(__file__).parent
_LEFT = (_FOLDER / "left.sql").read_text()

_DEFAULT = Peer(
    name="graphile-worker",
    version=nodejs.version(_FOLDER, "graphile-worker"),
    language="Node.js",
    durability="what is queued and what is done survive a crash; a job of a killed process waits for four hours",
    stores="nothing of a job that is done",
    settings="default",
    link="https://worker.graphile.org/docs/config",
    cases=nodejs.program(_FOLDER, _LEFT, "default", jobs=20_000).cases("T1", "T2", "L2"),
    install=nodejs.installer(_FOLDER),
    needs=("npm",),
)
_BEST = replace(
    _DEFAULT,
    settings="best",
    link="https://worker.graphile.org/docs/performance#quick-stats",
    cases=nodejs.program(_FOLDER, _LEFT, "best").cases("T1", "T2", "L2"),
)
_TWO = replace(
    _BEST, name="graphile-worker-2", cases=nodejs.program(_FOLDER, _LEFT, "best", workers=2).cases("T1", "T2")
)

PEERS = (_DEFAULT, _BEST, _TWO)
