"""The tasks of these tests: each leaves a line in a file outside of the system, so that its word is not all we have."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from tickwise_sdk import Context, task


@task("tests.witness")
async def witness(context: Context, payload: dict[str, Any]) -> None:
    """Append what was run and when it began. One `write` to an O_APPEND file is whole."""
    now = time.time()
    line = f"{context.run_id} {context.job_id} {context.fencing_token} {now!r} {context.due_time.timestamp()!r}\n"
    file = os.open(payload["witness"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@task("tests.nothing_at_all")
def nothing_at_all() -> None: ...


@task("tests.hold_worker")
def hold_worker(payload: dict[str, Any]) -> None:
    """Holds its worker until the file is there; says in another one that it has begun."""
    door = Path(payload["file"])
    door.with_suffix(".begun").touch()
    while not door.exists():
        time.sleep(0.01)  # noqa: TID251 - between two looks at a file that the test writes


def _say(payload: dict[str, Any], word: str, context: Context) -> None:
    file = os.open(payload["witness"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{word} {context.run_id}\n".encode())
    finally:
        os.close(file)


@task("tests.turn")
async def turn(context: Context, payload: dict[str, Any]) -> None:
    """Says when it begins and when it ends."""
    _say(payload, "begins", context)
    _say(payload, "ends", context)


@task("tests.until_stopped")
async def until_stopped(context: Context, payload: dict[str, Any]) -> None:
    """The same, and it ends only when it is stopped."""
    _say(payload, "begins", context)
    try:
        await asyncio.Event().wait()
    finally:
        _say(payload, "ends", context)
