"""The servers of the tests keep to their own rules: one for a whole run, gone with it, the same after each death."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.services import packages, shared
from tests.services.redis import Redis
from tests.support.local_up import ROOT
from tests.support.waiting import eventually

ASKS = "import sys; from tests.services import shared; print(shared.url_of('redis'), flush=True); sys.stdin.read()"
STARTS = """
import asyncio, sys
from pathlib import Path
from tests.services.redis import Redis
async def main():
    redis = await Redis(Path(sys.argv[1])).start()
    print(redis.pid, flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


def program(text: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A process that goes on until its input ends; it is no part of this run of the tests unless it is told so."""
    known = {
        name: value for name, value in os.environ.items() if name not in {"PYTEST_XDIST_WORKER", *shared.GIVEN.values()}
    }
    return subprocess.Popen(
        [sys.executable, "-c", text, *arguments], cwd=ROOT, env={**known, **environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    """Its one line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def close(*processes: subprocess.Popen[str]) -> None:
    """End them."""
    for process in processes:
        process.kill()
        process.communicate(timeout=60)


async def test_all_processes_of_a_run_share_one_server() -> None:
    """Also if they ask for it at the same moment: here two workers of one run, this process."""
    workers = [program(ASKS, PYTEST_XDIST_WORKER=f"gw{number}") for number in range(2)]
    try:
        first, second = await asyncio.gather(*(asyncio.to_thread(said, worker) for worker in workers))
    finally:
        close(*workers)
    assert first.startswith("redis://127.0.0.1:")
    assert first == second


async def test_a_shared_server_ends_with_its_run_even_if_that_is_killed() -> None:
    """And its files are gone."""
    run = program(ASKS)
    folder = shared.run_folder(f"{run.pid}-{psutil.Process(run.pid).create_time():.2f}")
    assert (await asyncio.to_thread(said, run)).startswith("redis://")
    assert (folder / "redis.json").exists()
    close(run)
    await eventually(lambda: not folder.exists(), what="the keeper has gone")


async def test_a_server_of_a_test_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """The kernel sees to it."""
    starter = program(STARTS, str(tmp_path))
    pid = int(await asyncio.to_thread(said, starter))
    assert psutil.pid_exists(pid)
    close(starter)

    def gone() -> bool:
        return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    await eventually(gone, what="the server has ended")


async def test_a_server_comes_back_on_its_port_after_each_death() -> None:
    """Killed, stopped, or frozen and killed."""
    async with Redis() as redis:
        url, first = redis.url, redis.pid
        redis.kill()
        await redis.start()
        await redis.stop()
        await redis.start()
        redis.freeze()
        redis.kill()
        await redis.start()
        assert (url, b"+PONG\r\n") == (redis.url, redis.says("PING"))
        assert first != redis.pid


def test_a_program_that_is_absent_and_may_not_be_installed_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error says what to type."""
    monkeypatch.setitem(packages.PROGRAMS, "no-such-server", "its-package")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(packages.Missing, match="apt-get install its-package"):
        packages.program("no-such-server")
