"""`doctor` in an outage of Cassandra: an answer in time, with the cause."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tickwise.config import Settings
from tickwise.wiring.cassandra.bounded_look import LookOrder, bounded_findings
from tickwise.wiring.findings import DoctorFinding

URL = "cassandra://127.0.0.1:1/tickwise"
ONE = """import sys, time
assert "cassandra://" in sys.stdin.read()
print('["schema", "ok", "4", ""]', flush=True)
"""
LOOK = LookOrder(URL, Settings())


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
    [found] = await bounded_findings(LookOrder(f"cassandra://{silent}/tickwise", Settings()), seconds=2.0)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer within 2 s" in found.detail
    assert "no connection" not in found.detail


async def test_nodes_that_cannot_be_reached_are_named() -> None:
    """The look hangs, as where addresses lead nowhere; the connection to this one is refused."""
    [found] = await bounded_findings(LOOK, seconds=0.5, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    assert "no connection to 127.0.0.1:1" in found.detail


async def test_what_was_found_in_time_is_shown_behind_the_cause() -> None:
    """The nodes answered, and the keepers did not."""
    hangs = (sys.executable, "-c", ONE + "time.sleep(600)")
    first, second = await bounded_findings(LOOK, seconds=5.0, command=hangs)
    assert ("keepers", "error") == (first.name, first.level)
    assert DoctorFinding("schema", "ok", "4") == second


async def test_what_is_silent_beside_the_keyspace_is_not_taken_for_a_keeper() -> None:
    """It has a time of its own, which begins when the keyspace has been looked at."""
    then = 'print(flush=True)\nprint(\'["secrets", "ok", "", ""]\', flush=True)\n'
    hangs = (sys.executable, "-c", f"{ONE}time.sleep(0.5)\n{then}time.sleep(600)")
    first, *others = await bounded_findings(LOOK, seconds=60.0, beside_seconds=0.5, command=hangs)
    assert ("servers", "error", True) == (first.name, first.level, "beside it did not within 0 s" in first.detail)
    assert ["schema", "secrets"] == [each.name for each in others]


async def test_the_look_has_the_settings_of_the_one_who_asks() -> None:
    """All kinds of values: secrets, lists, paths, numbers."""
    given = Settings(
        data_dir=Path("/a/folder"), secrets_key=("a-key-of-secrets", "another"), broker_url="kafka://127.0.0.1:1",
        lease_seconds=7.5, origins={"lease_seconds": "TICKWISE_LEASE_SECONDS"},
    )  # fmt: skip
    tells = """import sys, msgspec
from tickwise.wiring.cassandra.bounded_look import LookOrder, read_order
from tickwise.wiring.findings import DoctorFinding
found = read_order(sys.stdin.buffer.read())
print(msgspec.json.encode(DoctorFinding(found.database_url, "ok", repr((
    found.settings.data_dir, found.settings.secrets_key, found.settings.broker_url, found.settings.lease_seconds
)))).decode())
"""
    [told] = await bounded_findings(LookOrder(URL, given), seconds=60.0, command=(sys.executable, "-c", tells))
    assert URL == told.name
    assert repr((given.data_dir, given.secrets_key, given.broker_url, given.lease_seconds)) == told.detail


LOGS = """import asyncio, structlog
from tickwise.wiring.cassandra import bounded_look
from tickwise.wiring.findings import DoctorFinding

async def findings(url):
    structlog.get_logger().warning("cassandra_slow")
    yield DoctorFinding("schema", "error", "4")

bounded_look.cassandra_findings = findings
asyncio.run(bounded_look.look())
"""


async def test_lines_of_a_log_are_no_findings() -> None:
    """The driver and the link write some, as where a node is slow."""
    assert [DoctorFinding("schema", "error", "4")] == await bounded_findings(
        LOOK, seconds=60.0, command=(sys.executable, "-c", LOGS)
    )


async def test_a_look_that_fails_is_told() -> None:
    """With what it had found."""
    fails = (sys.executable, "-c", ONE + "sys.exit(3)")
    first, second = await bounded_findings(LOOK, seconds=60.0, command=fails)
    assert DoctorFinding("schema", "ok", "4") == first
    assert ("database", "error", "the look at Cassandra ended with 3") == second[:3]


async def test_a_cluster_that_refuses_is_told_by_the_look_itself() -> None:
    """As the driver says it."""
    [found] = await bounded_findings(LOOK, seconds=60.0)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer: " in found.detail
