"""Celery on Redis: the task queue that most Python programs use, https://github.com/celery/celery."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.peers.environment import Environment
from bench.peers.peer import Peer
from bench.peers.program import Program

HERE = Path(__file__).parent
ENVIRONMENT = Environment(HERE)
# Its workers are processes that report nothing until they end, so Redis is asked what is left: the queue, and what
# workers have taken and not acknowledged. It acknowledges a task as it begins, which for a no-op is the end.
DEFAULT = Program(
    command=ENVIRONMENT.command,
    folder=HERE,
    left=(("LLEN", "celery"), ("HLEN", "unacked")),
    settings="default",
    jobs=20_000,
    reports=False,
    environment=ENVIRONMENT.variables,
)
BEST = replace(DEFAULT, settings="best")

_default = Peer(
    name="celery",
    version=ENVIRONMENT.version("celery"),
    language="Python",
    durability="up to 1 s lost with the machine (Redis log every second); a task whose worker dies is lost once begun",
    stores="nothing (no result backend, its default)",
    settings="default",
    link="https://docs.celeryq.dev/en/stable/userguide/optimizing.html",
    cases=DEFAULT.cases("T1", "L2"),
    install=ENVIRONMENT.install,
    needs=("redis-server",),
)
PEERS = (_default, replace(_default, settings="best", cases=BEST.cases("T1", "L2")))
