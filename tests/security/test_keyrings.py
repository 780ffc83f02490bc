"""Probes of the kernel's keyrings: keys that the executor was started with, and keys that tasks leave to others."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.security.probes import probe
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Verdict
from tickwise.testing.contracts.runner import Listener, assignment

ADD_KEY, KEYCTL = 248, 250
JOIN_SESSION_KEYRING, SESSION_KEYRING = 1, -3
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root runs tasks as other users"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of the kernel's calls are those of x86_64"),
]

SEARCH = """
import ctypes, json, os
call = ctypes.CDLL(None, use_errno=True).syscall
long = ctypes.c_long
left = call(long(248), b"user", b"left", b"by a task", long(9), long(-3))
found = call(long(250), long(10), long(-3), b"user", b"ticket", long(0))
room = ctypes.create_string_buffer(64)
if found > 0:
    call(long(250), long(11), long(found), room, long(64))
joined = call(long(250), long(1), None)
json.dump([found > 0, room.value.decode(), left > 0, joined > 0], open(os.environ["TICKWISE_RESULT_FILE"], "w"))
"""
"""What it found of root's, whether it left a key, and whether it has a keyring of its own if it wants one."""


def _call(number: int, *given: Any) -> int:
    call = ctypes.CDLL(None).syscall
    return int(call(ctypes.c_long(number), *(ctypes.c_long(each) if isinstance(each, int) else each for each in given)))


@pytest.fixture(autouse=True)
def _ticket() -> Iterator[None]:
    """A key in the session keyring of the executor, as a sign-in with Kerberos leaves it."""
    if _call(KEYCTL, JOIN_SESSION_KEYRING, None) < 0:
        pytest.skip("this kernel gives no keyrings")
    assert 0 < _call(ADD_KEY, b"user", b"ticket", b"of root", 7, SESSION_KEYRING)
    yield
    _call(KEYCTL, JOIN_SESSION_KEYRING, None)


@probe(4, stopped_by="what starts tasks leaves root's keyring first, and has one that nobody can use")
@pytest.mark.parametrize("how", ["cold", "warm"])
async def test_a_task_finds_no_key_of_the_executor(tmp_path: Path, how: str) -> None:
    """A script searches the session keyring for a ticket of root's, and leaves a key there for tasks of others."""
    listener = Listener()
    runner = ProcessRunner(RunnerSettings(blobs=open_blobs("memory://"), clock=SystemClock(), work_root=tmp_path / "w"))
    await runner.start(listener, time.time)
    root = runner._folder.root if runner._folder is not None else None
    try:
        given = assignment({"kind": "python", "source": SEARCH, "start": how})
        runner.launch([given])
        ending = await listener.ending_of(given)
    finally:
        await runner.close()
        if root is not None and not root.is_relative_to(tmp_path):
            shutil.rmtree(root)
    assert ending.verdict is Verdict.OK, ending
    assert [False, "", False, True] == json.loads(ending.result or "")
