"""PostgreSQL, Kafka, Redis and nginx for a developer: `make services-up`, `make services-down`.

    python -m tests.services up [--data-dir DIR]     in the background; prints TICKWISE_… lines for a shell
    python -m tests.services down [--data-dir DIR]
    python -m tests.services install                 only what they need on this machine

They live until `down`, and their data as long as the folder. Invariant: `up` twice is `up` once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import psutil

from tests.services.kafka import Kafka
from tests.services.nginx import Nginx
from tests.services.packages import PROGRAMS, Missing, cache, cassandra_home, kafka_home, locked, program
from tests.services.redis import Redis
from tests.services.server import free_port
from tests.support.local_up import ROOT
from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres

END_SECONDS: Final = 60.0
GATEWAY: Final = """
upstream api { server 127.0.0.1:%(api)d; }
server {
    listen 127.0.0.1:{port};
    location / { proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Host $host; }
}
"""


async def hold(folder: Path) -> None:
    """Start all, say their addresses into `record.json`, and keep them until TERM."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    ports = _ports(folder)
    kafka = Kafka(_made(folder / "kafka"), port=ports["kafka"])
    kafka.archives = True
    redis = Redis(_made(folder / "redis"), port=ports["redis"])
    nginx = Nginx(GATEWAY % ports, _made(folder / "nginx"), port=ports["nginx"])
    postgres = EmbeddedPostgres(folder / "postgres", clock=SystemClock())
    async with AsyncExitStack() as stack:
        database = await postgres.start()
        stack.push_async_callback(postgres.stop)
        for server in (kafka, redis, nginx):
            stack.push_async_callback(server.stop)
            await server.start()
        _record(folder).write_text(
            json.dumps(
                {
                    "TICKWISE_DATABASE_URL": database,
                    "TICKWISE_BROKER_URL": kafka.url,
                    "TICKWISE_SIGNALS_URL": redis.url,
                    "TICKWISE_TEST_KAFKA": kafka.address,
                    "TICKWISE_TEST_REDIS": redis.url,
                    "# nginx": f"{nginx.url} before an API that you start with --port {ports['api']}",
                }
            )
        )
        await told.wait()
    if kafka.archives:
        kafka.keep_archive()


def _ports(folder: Path) -> dict[str, int]:
    """The same at each start, so that what was noted down goes on to hold."""
    file = folder / "ports.json"
    if not file.exists():
        file.write_text(json.dumps({name: free_port() for name in ("kafka", "redis", "nginx", "api")}))
    ports: dict[str, int] = json.loads(file.read_text())
    return ports


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _record(folder: Path) -> Path:
    return folder / "record.json"


def _holder(folder: Path) -> psutil.Process | None:
    """Who holds the servers of this folder, if anybody does."""
    try:
        process = psutil.Process(int((folder / "holder.pid").read_text()))
        return process if "tests.services" in process.cmdline() else None
    except (FileNotFoundError, ValueError, psutil.Error):
        return None


async def up(folder: Path) -> None:
    """Start the holder, unless there is one, and print what it says."""
    with locked(folder / "lock"):
        if _holder(folder) is None:
            _record(folder).unlink(missing_ok=True)
            with (folder / "holder.log").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.services", "hold", "--data-dir", str(folder)],
                    cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            (folder / "holder.pid").write_text(str(process.pid))

            def answers() -> bool:
                if process.poll() is not None:
                    raise AssertionError(f"the servers did not start:\n{(folder / 'holder.log').read_text()[-4_000:]}")
                return _record(folder).exists()

            await eventually(answers, within_seconds=600, what="the servers answer")
            process.returncode = 0  # it stays
    for name, value in json.loads(_record(folder).read_text()).items():
        print(f"{name}={value}")  # noqa: T201  # this is what the command is for


async def down(folder: Path) -> None:
    """End the holder; the data stays."""
    holder = _holder(folder)
    if holder is None:
        print("No servers run from here.")  # noqa: T201  # a command prints
        return
    holder.terminate()
    await eventually(lambda: _holder(folder) is None, within_seconds=END_SECONDS, what="the servers end")
    _record(folder).unlink(missing_ok=True)
    print("The servers are down; their data stays.")  # noqa: T201  # a command prints


def install() -> None:
    """Everything that a start needs."""
    for name in PROGRAMS:
        program(name)
    kafka_home()
    cassandra_home()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    parser.add_argument("what", choices=["up", "down", "hold", "install"])
    parser.add_argument("--data-dir", type=Path, default=cache() / "services")
    asked = parser.parse_args()
    folder = asked.data_dir.resolve()
    os.umask(0o022)  # the database's user must get through
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if asked.what == "install":
            install()
        else:
            asyncio.run({"up": up, "down": down, "hold": hold}[asked.what](folder))
    except (Missing, AssertionError) as why:
        print(why, file=sys.stderr)  # noqa: T201  # a command prints
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
