"""Dramatiq on Redis: background tasks for Python, https://github.com/Bogdanp/dramatiq."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers.environment import Environment
from bench.peers.peer import Peer
from bench.peers.program import Program

HERE = Path(__file__).parent
ENVIRONMENT = Environment(HERE)
# Its workers are processes that report nothing until they end, so Redis is asked: a message's body stays in the hash
# until the message is acknowledged, after its end.
DEFAULT = Program(
    command=ENVIRONMENT.command,
    folder=HERE,
    left=(("HLEN", "dramatiq:default.msgs"),),
    settings="default",
    jobs=50_000,
    reports=False,
    environment=ENVIRONMENT.variables,
)
BEST = replace(DEFAULT, settings="best")

_default = Peer(
    name="dramatiq",
    version=ENVIRONMENT.version("dramatiq"),
    language="Python",
    durability="up to 1 s lost with the machine (Redis log every second); a message whose worker dies is run again",
    stores="nothing (no result backend, its default)",
    settings="default",
    link="https://dramatiq.io/advanced.html",
    cases=DEFAULT.cases("T1"),
    install=ENVIRONMENT.install,
    needs=("redis-server",),
)
PEERS = (_default, replace(_default, settings="best", cases=BEST.cases("T1")))
