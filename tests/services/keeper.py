"""Holds one server for a test run: `python -m tests.services.keeper NAME RUN`, of kafka, redis, elasticmq, docker,
podman, kubernetes, cassandra.

It says the record as one line once the server answers, and ends with the run. A server that dies meanwhile is not
started again: a test that kills one starts its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from typing import Final

from tests.services.cassandra import Cassandra
from tests.services.docker import Docker
from tests.services.elasticmq import ElasticMq
from tests.services.kafka import Kafka
from tests.services.kubernetes import Kubernetes
from tests.services.podman import Podman
from tests.services.redis import Redis
from tests.services.server import Server
from tests.services.shared import run_folder, run_lives
from tickwise.adapters.clock import SystemClock

LOOK_SECONDS: Final = 0.5
PATIENT: Final = {"broker.session.timeout.ms": "18000", "group.consumer.session.timeout.ms": "45000"}
"""Nobody kills this one, and on a busy machine everybody stands still for seconds: no reason to give anybody up."""
PATIENT_NODE: Final = {"TIMEOUT": "20s"}
"""A write that its disk holds up for 2 s would be in doubt, and no test of this node is about that."""


async def keep(name: str, run: str) -> None:
    """Until the run ends, or somebody says TERM."""
    clock = SystemClock()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    folder = run_folder(run)
    server: Server
    match name:
        case "kafka":
            server = Kafka(properties=PATIENT)
        case "docker":
            server = Docker()
        case "podman":
            server = Podman()
        case "kubernetes":
            server = Kubernetes()
        case "elasticmq":
            server = ElasticMq()
        case "cassandra":
            server = Cassandra(settings=PATIENT_NODE)
        case _:
            server = Redis()
    if isinstance(server, Kafka | Cassandra):
        server.archives = True
    async with server:
        if isinstance(server, Docker):
            await server.load_images()
        record = json.dumps({"url": server.url, "pid": server.pid, "keeper": os.getpid(), "log": str(server.log)})
        part = folder / f"{name}.part"
        part.write_text(record)
        part.rename(folder / f"{name}.json")
        print(record, flush=True)  # noqa: T201  # this is how the starter knows
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        while run_lives(run) and server.runs and not told.is_set():
            await clock.sleep(LOOK_SECONDS)
        if isinstance(server, Kafka | Cassandra) and server.archives:
            # In order, this once: the next run starts in half the time.
            await server.stop()
            server.keep_archive()
    (folder / f"{name}.json").unlink(missing_ok=True)
    if not list(folder.glob("*.json")):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(keep(sys.argv[1], sys.argv[2]))
