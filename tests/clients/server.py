"""A real API for foreign programs: `tickwise api` on a PostgreSQL of its own, without executors, so nothing is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

from tests.services.server import free_port
from tests.support.databases import server
from tests.support.local_up import environment
from tests.support.waiting import eventually

KEY = f"key-of-foreign-clients-{uuid4()}"


@dataclass(frozen=True)
class RunningApi:
    """Where it is, and with which key to ask it."""

    url: str
    key: str

    def get(self, path: str) -> Any:
        """A JSON answer."""
        with urlopen(Request(self.url + path, headers={"Authorization": f"Bearer {self.key}"}), timeout=30) as answer:
            return json.load(answer)

    def environment(self, **more: str) -> dict[str, str]:
        """What the programs are told."""
        return {**os.environ, "CLIENT_URL": self.url, "CLIENT_KEY": self.key, **more}


@asynccontextmanager
async def running_api(log: Path) -> AsyncIterator[RunningApi]:
    """One that is ready; it is stopped at the end. What it says is in `log`."""
    async with server() as database:
        port = free_port()
        api = RunningApi(f"http://127.0.0.1:{port}", KEY)
        env = environment(TICKWISE_BOOTSTRAP_KEY=KEY, TICKWISE_DATABASE_URL=database)
        subprocess.run([sys.executable, "-m", "tickwise", "db", "upgrade"], env=env, check=True, capture_output=True)
        command = [sys.executable, "-m", "tickwise", "api", "--port", str(port)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            await eventually(lambda: _answers(process, api, log))
            yield api
        finally:
            process.terminate()
            process.wait(30)


async def _answers(process: subprocess.Popen[bytes], api: RunningApi, log: Path) -> bool:
    assert process.poll() is None, f"the API ended:\n{log.read_text(errors='replace')}"
    try:
        return bool(api.get("/readyz"))
    except OSError:
        return False
