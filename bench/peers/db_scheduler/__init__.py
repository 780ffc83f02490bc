"""db-scheduler: a table of due times in PostgreSQL, run by Java threads, deleted when they are done."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from bench.peers.peer import INSTALLED, Peer
from bench.peers.program import Program

_FOLDER = Path(__file__).parent
_PLACE = INSTALLED / "db_scheduler"
_LEFT = (_FOLDER / "left.sql").read_text()


def _sources() -> str:
    """All that the driver is made from."""
    return (_FOLDER / "pom.xml").read_text() + (_FOLDER / "src" / "main" / "java" / "Driver.java").read_text()


def _version() -> str:
    """What `pom.xml` pins."""
    found = re.search(r"<artifactId>db-scheduler</artifactId>\s*<version>(.+)</version>", _sources())
    if found is None:
        raise LookupError("pom.xml does not name db-scheduler")
    return found[1]


def _install() -> None:
    """The driver and its libraries, unless they were built from the same sources before. Raises CalledProcessError."""
    stamp = _PLACE / "installed.txt"
    if stamp.exists() and stamp.read_text() == _sources():
        return
    command = ["mvn", "-q", "-B", "-ntp", f"-Dplace={_PLACE}", "package"]
    subprocess.run(command, cwd=_FOLDER, check=True)
    stamp.write_text(_sources())


def _program(settings: str, jobs: int) -> Program:
    return Program(
        command=("java", "-cp", os.pathsep.join((f"{_PLACE}/classes", f"{_PLACE}/lib/*")), "Driver"),
        folder=_FOLDER,
        left=_LEFT,
        settings=settings,
        jobs=jobs,
    )


_DEFAULT = Peer(
    name="db-scheduler",
    version=_version(),
    language="Java",
    durability="what is queued and what is done survive a crash; a job of a killed process waits for missed heartbeats",
    stores="nothing of a job that is done",
    settings="default",
    link="https://github.com/kagkarlsson/db-scheduler#configuration",
    cases=_program("default", 20_000).cases("T1", "L2"),
    install=_install,
    needs=("java", "mvn"),
)
_BEST = replace(
    _DEFAULT,
    settings="best",
    link="https://github.com/kagkarlsson/db-scheduler/blob/master/docs/performance.md",
    cases=_program("best", 50_000).cases("T1", "T2", "L2"),
)

PEERS = (_DEFAULT, _BEST)
