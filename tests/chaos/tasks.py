"""The jobs of the scenes. Each writes down when it begins and when it ends, in a file outside of the system.

A line of the witness: what (`b`egan, `t`icks, `e`nded, `s`topped from outside), run, token, attempt, CLOCK_MONOTONIC in
seconds, the process. One `write` to a file that was opened with O_APPEND is whole, whoever else writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

from tickwise_sdk import Context, task

_files: dict[str, int] = {}


def _say(context: Context, payload: dict[str, Any], what: str) -> None:
    place = payload["witness"]
    file = _files.get(place)
    if file is None:
        file = _files[place] = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    line = f"{what} {context.run_id} {context.fencing_token} {context.attempt} {time.monotonic():.6f} {os.getpid()}\n"
    os.write(file, line.encode())


@task("chaos.brief")
async def brief(context: Context, payload: dict[str, Any]) -> None:
    """Over at once."""
    _say(context, payload, "b")
    _say(context, payload, "e")


@task("chaos.lasting")
async def lasting(context: Context, payload: dict[str, Any]) -> int:
    """Takes `seconds`; any number at once in one worker. Its result is its token."""
    _say(context, payload, "b")
    try:
        await asyncio.sleep(payload["seconds"])  # noqa: TID251 - a length that the row chooses
    except BaseException:
        _say(context, payload, "s")
        raise
    _say(context, payload, "e")
    return context.fencing_token


@task("chaos.failing")
async def failing(context: Context, payload: dict[str, Any]) -> None:
    """Fails in its first `failures` attempts."""
    _say(context, payload, "b")
    if context.attempt <= payload["failures"]:
        _say(context, payload, "s")
        raise ValueError("as the row wants it")
    _say(context, payload, "e")


@task("chaos.following")
async def following(context: Context, payload: Any) -> None:
    """Follows another job: its payload is that one's, so the witness is known by another way."""
    del payload
    _say(context, {"witness": os.environ["CHAOS_WITNESS"]}, "b")
    _say(context, {"witness": os.environ["CHAOS_WITNESS"]}, "e")


@task("chaos.poison")
def poison(context: Context, payload: dict[str, Any]) -> None:
    """Takes its executor along, as a job that uses up the memory of its machine does."""
    _say(context, payload, "b")
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
