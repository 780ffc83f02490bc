"""A process that was told to end, and does not."""

from __future__ import annotations

import asyncio
import sys

import pytest

HANGS = """
import asyncio
from tickwise.wiring.overdue import bound_end

async def never_ending_stop():
    await asyncio.Event().wait()

async def life():
    bound_end(0.0, report_seconds={report}, exit_seconds={exit})
    asyncio.create_task(never_ending_stop(), name="the stop")
    {waits}

asyncio.run(life())
"""


@pytest.mark.parametrize(
    ("waits", "said"),
    [
        ("await never_ending_stop()", ("stop_overdue", "the stop", "never_ending_stop", "locks.py", "MainThread")),
        ("import time; time.sleep(600)", ("Timeout", "life")),
    ],
    ids=["in a task", "in the loop itself"],
)
async def test_a_process_that_does_not_end_says_where_it_waits_and_ends(waits: str, said: tuple[str, ...]) -> None:
    """Also when its loop stands still."""
    # A process that stands still for longer is ended before it can say anything: then with more time.
    for exit_seconds in (1.5, 30.0):
        program = HANGS.format(report=0.05, exit=exit_seconds, waits=waits)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        text = (await process.communicate())[0].decode()
        assert 1 == process.returncode
        missing = [part for part in said if part not in text]
        if not missing:
            break
    assert [] == missing, text
