"""Procrastinate: a task queue in PostgreSQL, https://github.com/procrastinate-org/procrastinate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers.environment import Environment
from bench.peers.peer import Peer
from bench.peers.program import Program

HERE = Path(__file__).parent
ENVIRONMENT = Environment(HERE)
# It does less than 1,000 a second: a tenth of the jobs that quicker ones get.
DEFAULT = Program(
    command=ENVIRONMENT.command,
    folder=HERE,
    left=(HERE / "left.sql").read_text(),
    settings="default",
    jobs=10_000,
    environment=ENVIRONMENT.variables,
)
BEST = replace(DEFAULT, settings="best")

_default = Peer(
    name="procrastinate",
    version=ENVIRONMENT.version("procrastinate"),
    language="Python",
    durability="durable: each state written and committed, one job at a time",
    stores="the job with its arguments and end, and an event row for each of its states",
    settings="default",
    link="https://procrastinate.readthedocs.io/en/stable/howto/production/concurrency.html",
    cases=DEFAULT.cases("T1", "L2"),
    install=ENVIRONMENT.install,
)
PEERS = (_default, replace(_default, settings="best", cases=BEST.cases("T1", "L2")))
