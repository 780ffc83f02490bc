"""River: jobs in PostgreSQL, run by goroutines, kept for a day when they are done."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from bench.peers.peer import INSTALLED, Peer
from bench.peers.program import Program

_FOLDER = Path(__file__).parent
_DRIVER = INSTALLED / "river" / "driver"
_LEFT = (_FOLDER / "left.sql").read_text()


def _version() -> str:
    """What `go.mod` pins."""
    found = re.search(r"riverqueue/river v(\S+)", (_FOLDER / "go.mod").read_text())
    if found is None:
        raise LookupError("go.mod does not name River")
    return found[1]


def _install() -> None:
    """The driver, built; Go itself sees whether anything has changed. Raises CalledProcessError."""
    command = ["go", "build", "-trimpath", "-o", os.fspath(_DRIVER), "."]
    subprocess.run(command, cwd=_FOLDER, check=True)


def _program(settings: str, jobs: int = 100_000) -> Program:
    return Program(command=(os.fspath(_DRIVER),), folder=_FOLDER, left=_LEFT, settings=settings, jobs=jobs)


_DEFAULT = Peer(
    name="river",
    version=_version(),
    language="Go",
    durability="what is queued and what is done survive a crash; a job of a killed process is rescued after an hour",
    stores="one row a job with its arguments, times and errors, for 24 hours",
    settings="default",
    link="https://riverqueue.com/docs",
    cases=_program("default", jobs=20_000).cases("T1", "T2", "L2"),
    install=_install,
    needs=("go",),
)
_BEST = replace(
    _DEFAULT,
    settings="best",
    link="https://riverqueue.com/docs/benchmarks",
    cases=_program("best").cases("T1", "T2", "L2"),
)

PEERS = (_DEFAULT, _BEST)
