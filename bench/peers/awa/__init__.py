"""awa: a job queue in PostgreSQL with a core in Rust, here through its Python package, https://github.com/hardbyte/awa."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers.environment import Environment
from bench.peers.peer import Peer
from bench.peers.program import Program

HERE = Path(__file__).parent
ENVIRONMENT = Environment(HERE)
DEFAULT = Program(
    command=ENVIRONMENT.command,
    folder=HERE,
    left=(HERE / "left.sql").read_text(),
    settings="default",
    jobs=50_000,
    environment=ENVIRONMENT.variables,
)
BEST = replace(DEFAULT, settings="best")

_default = Peer(
    name="awa-pg",
    version=ENVIRONMENT.version("awa-pg"),
    language="Python (core in Rust)",
    durability="durable: claims and ends appended in batches and committed",
    stores="the job and its end, in tables that are emptied in turn once their time is over",
    settings="default",
    link="https://github.com/hardbyte/awa/blob/main/docs/configuration.md",
    cases=DEFAULT.cases("T1", "T2"),
    install=ENVIRONMENT.install,
)
PEERS = (_default, replace(_default, settings="best", cases=BEST.cases("T1", "T2")))
