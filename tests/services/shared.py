"""One Kafka, one Redis, one ElasticMQ and one Cassandra for a whole test run, shared by all of its processes.

    worker 1 ─┐                        ┌─ keeper (Kafka) ── java
              ├─ lock, record ─ starts ┤
    worker 2 ─┘                        └─ keeper (Redis) ── redis-server

Whoever needs one first starts its keeper, under a lock; the others read the record. The run is the process that pytest
was started as: workers of xdist are its children. Invariant: a keeper ends, with its server and its files, as soon as
the run has ended, even if that was killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import psutil

from tests.services.packages import Missing, locked
from tests.support.local_up import ROOT

GIVEN: Final = {
    "kafka": "TICKWISE_TEST_KAFKA", "redis": "TICKWISE_TEST_REDIS", "elasticmq": "TICKWISE_TEST_SQS",
    "docker": "TICKWISE_TEST_DOCKER", "podman": "TICKWISE_TEST_PODMAN", "cassandra": "TICKWISE_TEST_CASSANDRA",
    "kubernetes": "TICKWISE_TEST_KUBERNETES",
}  # fmt: skip
"""The variables that name a server to use instead: host:port, redis://host:port[/number], http://host:port,
unix:///…/docker.sock, cassandra://host:port, and the port of an API server of `tests.services.kubernetes`."""


def run_id() -> str:
    """Of the test run that this process belongs to: its number and when it began, for numbers are used again."""
    number = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    return f"{number}-{psutil.Process(number).create_time():.2f}"


def run_lives(run: str) -> bool:
    """Whether that process is still there."""
    number, _, begun = run.partition("-")
    try:
        process = psutil.Process(int(number))
        return f"{process.create_time():.2f}" == begun and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run_folder(run: str) -> Path:
    """Where its keepers have their files; removed by the last one."""
    folder = Path(tempfile.gettempdir()) / f"tickwise-services-{os.getuid()}-{run}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def url_of(name: str) -> str:
    """The address of this run's server, started if nobody has. Blocks. Raises `Missing`, if it cannot be had."""
    given = os.environ.get(GIVEN[name])
    if given:
        return given if "://" in given else f"{name}://{given}"
    folder = run_folder(run_id())
    with locked(folder / f"{name}.lock"):
        record = folder / f"{name}.json"
        if record.exists():
            known = json.loads(record.read_text())
            if psutil.pid_exists(known["keeper"]):
                return str(known["url"])
        return _keep(name, folder)


def _keep(name: str, folder: Path) -> str:
    """Start its keeper; the address, once the server answers."""
    log = folder / f"{name}-keeper.log"
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.services.keeper", name, run_id()],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, start_new_session=True,
        )  # fmt: skip
    assert keeper.stdout is not None
    with keeper.stdout:
        said = keeper.stdout.readline()
    if not said:
        keeper.wait(30)
        raise Missing(f"{name} could not be started:\n{log.read_text(errors='replace')[-4_000:]}")
    # Not waited for: it ends after us. Told so, or its handle would warn of that.
    keeper.returncode = 0
    return str(json.loads(said)["url"])
