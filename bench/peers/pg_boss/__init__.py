"""pg-boss: jobs in PostgreSQL, kept for days when they are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers import nodejs
from bench.peers.peer import Peer

_FOLDER = Path(__file__).parent
_LEFT = (_FOLDER / "left.sql").read_text()

_DEFAULT = Peer(
    name="pg-boss",
    version=nodejs.version(_FOLDER, "pg-boss"),
    language="Node.js",
    durability="what is queued and what is done survive a crash; a job of a killed process runs again when it expires",
    stores="one row a job with its data and times, for 7 days",
    settings="default",
    link="https://github.com/timgit/pg-boss/blob/12.35.0/docs/api/workers.md",
    # One job every two seconds is what it does unless told otherwise.
    cases=replace(nodejs.program(_FOLDER, _LEFT, "default"), jobs=20, jobs_full=20).cases("T1"),
    install=nodejs.installer(_FOLDER),
    needs=("npm",),
)
_BEST = replace(
    _DEFAULT,
    settings="best",
    cases=nodejs.program(_FOLDER, _LEFT, "best").cases("T1", "T2", "L2"),
)

PEERS = (_DEFAULT, _BEST)
