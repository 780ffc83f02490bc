"""BullMQ: jobs in Redis, kept when they are done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers import nodejs
from bench.peers.peer import Peer

_FOLDER = Path(__file__).parent
# Its keys; a job that is done is in `completed`.
_LEFT = (
    ("LLEN", "bull:bench:wait"),
    ("LLEN", "bull:bench:active"),
    ("ZCARD", "bull:bench:delayed"),
    ("ZCARD", "bull:bench:failed"),
)

_DEFAULT = Peer(
    name="bullmq",
    version=nodejs.version(_FOLDER, "bullmq"),
    language="Node.js",
    durability="a crash of Redis loses up to a second of what was queued or done; all of it is held in memory",
    stores="one hash a job with its data and times, for ever",
    settings="default",
    link="https://docs.bullmq.io/guide/workers",
    cases=nodejs.program(_FOLDER, _LEFT, "default", jobs=20_000).cases("T1", "T2", "L2"),
    install=nodejs.installer(_FOLDER),
    needs=("npm", "redis-server"),
)
_BEST = replace(
    _DEFAULT,
    settings="best",
    link="https://docs.bullmq.io/guide/workers/concurrency",
    cases=nodejs.program(_FOLDER, _LEFT, "best").cases("T1", "T2", "L2"),
)

PEERS = (_DEFAULT, _BEST)
