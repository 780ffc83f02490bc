"""pgqueuer: a queue in PostgreSQL for asyncio, https://github.com/janbjorge/pgqueuer."""

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
BEST = replace(DEFAULT, settings="best", jobs=100_000, workers=2)

_default = Peer(
    name="pgqueuer",
    version=ENVIRONMENT.version("pgqueuer"),
    language="Python",
    durability="durable: logged tables, each state written and committed",
    stores="two log rows a job (queued and picked, then its end), rolled up into statistics; the job itself is deleted",
    settings="default",
    link="https://pgqueuer.readthedocs.io/en/latest/guides/performance-tuning/",
    cases=DEFAULT.cases("T1", "T2", "L2"),
    install=ENVIRONMENT.install,
)
PEERS = (_default, replace(_default, settings="best", cases=BEST.cases("T1", "T2", "L2")))
