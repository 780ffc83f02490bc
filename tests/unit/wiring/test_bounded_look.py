"""`doctor` in an outage of Cassandra: an answer in time, with the cause."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tickwise.wiring.cassandra.bounded_look import bounded_findings
from tickwise.wiring.findings import DoctorFinding

URL = "cassandra://127.0.0.1:1/tickwise"
ONE = """import sys, time
assert sys.stdin.read().startswith("cassandra://")
print('["schema", "ok", "4", ""]', flush=True)
"""


@pytest.fixture
def silent() -> Iterator[str]:
    """The addresses of nodes that take connections and say nothing, as frozen ones do."""
    with ExitStack() as stack:
        ports = []
        for _ in range(3):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports.append(listening.getsockname()[1])
        yield ",".join(f"127.0.0.1:{port}" for port in ports)


async def test_nodes_that_are_silent_hold_up_no_answer(silent: str) -> None:
    """The driver waits for each of them for 5 s; the look ends when its time is up, and says why."""
    [found] = await bounded_findings(f"cassandra://{silent}/tickwise", seconds=2.0)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer within 2 s" in found.detail
    assert "no connection" not in found.detail


async def test_nodes_that_cannot_be_reached_are_named() -> None:
    """The look hangs, as where addresses lead nowhere; the connection to this one is refused."""
    [found] = await bounded_findings(URL, seconds=0.5, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    assert "no connection to 127.0.0.1:1" in found.detail


async def test_what_was_found_in_time_is_shown_behind_the_cause() -> None:
    """The nodes answered, and the keepers did not."""
    hangs = (sys.executable, "-c", ONE + "time.sleep(600)")
    first, second = await bounded_findings(URL, seconds=5.0, command=hangs)
    assert ("keepers", "error") == (first.name, first.level)
    assert DoctorFinding("schema", "ok", "4") == second


LOGS = """import asyncio, structlog
from tickwise.wiring.cassandra import bounded_look
from tickwise.wiring.findings import DoctorFinding

async def findings(url):
    structlog.get_logger().warning("cassandra_slow")
    yield DoctorFinding("schema", "ok", "4")

bounded_look.cassandra_findings = findings
asyncio.run(bounded_look.look())
"""


async def test_lines_of_a_log_are_no_findings() -> None:
    """The driver and the link write some, as where a node is slow."""
    assert [DoctorFinding("schema", "ok", "4")] == await bounded_findings(
        URL, seconds=60.0, command=(sys.executable, "-c", LOGS)
    )


async def test_a_look_that_fails_is_told() -> None:
    """With what it had found."""
    fails = (sys.executable, "-c", ONE + "sys.exit(3)")
    first, second = await bounded_findings(URL, seconds=60.0, command=fails)
    assert DoctorFinding("schema", "ok", "4") == first
    assert ("database", "error", "the look at Cassandra ended with 3") == second[:3]


async def test_a_cluster_that_refuses_is_told_by_the_look_itself() -> None:
    """As the driver says it."""
    [found] = await bounded_findings(URL, seconds=60.0)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer: " in found.detail
