"""A probe of the room that a task keeps on the disk of its work folder, hidden from the watch."""

from __future__ import annotations

import time
from pathlib import Path

from tests.security.probes import probe
from tests.support.runners import OWN_USER
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.process.runner import ProcessRunner
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.ports.runner import Assignment, TaskLimits, Verdict
from tickwise.testing.contracts.runner import Listener, assignment

LIMIT = 4 << 20
HIDING = f"""
import array, os, socket, time
kept = []
for number in range(4):
    file = os.open(str(number), os.O_RDWR | os.O_CREAT)
    os.write(file, bytes({LIMIT} // 2))
    os.unlink(str(number))
    HIDE
    time.sleep(0.3)
"""
"""Twice the limit in all, half of it at a time."""
UNTIL_SEEN = "time.sleep(60)\n"
"""What is held open is counted at the next look, also where that comes late."""
IN_A_SOCKET = """
    ends = socket.socketpair()
    ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    os.close(file)
    kept.append(ends)
"""


@probe(
    12,
    stopped_by="nothing but a quota of the file system: no process has such a file open, and no folder",
    is_open=True,
)
async def test_room_is_hidden_in_open_files_on_their_way_through_a_socket(tmp_path: Path) -> None:
    """Files without a name, whose descriptors a task has sent into a socket of its own and received by nobody."""
    listener = Listener()
    settings = RunnerSettings(
        blobs=open_blobs("memory://"), clock=SystemClock(), work_root=tmp_path / "work", run_tasks_as=OWN_USER
    )
    runner = ProcessRunner(settings)
    await runner.start(listener, time.time)
    try:
        given = {"open": _given("kept.append(file)", UNTIL_SEEN), "sent": _given(IN_A_SOCKET.strip())}
        runner.launch(list(given.values()))
        ends = {how: await listener.ending_of(each) for how, each in given.items()}
    finally:
        await runner.close()
    assert "disk_limit" == ends["open"].reason, "files that a process holds open are counted"
    assert ends["sent"].verdict is Verdict.OK, ends["sent"]


def _given(hide: str, then: str = "") -> Assignment:
    source = HIDING.replace("HIDE", hide) + then
    return assignment({"kind": "python", "source": source}, limits=TaskLimits(1 << 20, disk_bytes=LIMIT))
