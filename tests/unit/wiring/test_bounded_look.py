"""`doctor` in an outage of Cassandra: an answer in time, with the cause."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tickwise.config import Settings
from tickwise.wiring.cassandra import bounded_look
from tickwise.wiring.cassandra.bounded_look import LookOrder, bounded_findings
from tickwise.wiring.findings import DoctorFinding

URL = "cassandra://127.0.0.1:1/tickwise"
ONE = """import sys, time
assert "cassandra://" in sys.stdin.read()
print('["schema", "ok", "4", ""]', flush=True)
"""
LOOK = LookOrder(URL, Settings())
SECONDS_OF_A_LOOK = (1.5, 10.0, 30.0)
"""For a process that shows by a file that it has said its findings: a machine that stood still while it started shows
nothing, and the next one has more time."""


@pytest.fixture
def silent() -> Iterator[str]:
    """The addresses of nodes that take connections and say nothing, as frozen ones do."""
    with ExitStack() as stack:
        ports = []
        for _ in range(3):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports.append(listening.getsockname()[1])
        yield ",".join(f"127.0.0.1:{port}" for port in ports)


async def test_nodes_that_are_silent_hold_up_no_answer(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver waits for each of them for 5 s; the look ends when its time is up, and says why."""
    monkeypatch.setattr(bounded_look, "REACH_SECONDS", 60.0)
    [found] = await bounded_findings(LookOrder(f"cassandra://{silent}/tickwise", Settings()), seconds=2.0)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer within 2 s" in found.detail
    assert "no connection" not in found.detail


async def test_nodes_that_cannot_be_reached_are_named() -> None:
    """The look hangs, as where addresses lead nowhere; the connection to this one is refused."""
    [found] = await bounded_findings(LOOK, seconds=0.5, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    assert "no connection to 127.0.0.1:1" in found.detail


async def test_what_was_found_in_time_is_shown_behind_the_cause(tmp_path: Path) -> None:
    """The nodes answered, and the keepers did not."""
    said = tmp_path / "said"
    hangs = (sys.executable, "-c", f"{ONE}open({str(said)!r}, 'w').close()\ntime.sleep(600)")
    for seconds in SECONDS_OF_A_LOOK:
        found = await bounded_findings(LOOK, seconds=seconds, command=hangs)
        if said.exists():
            break
    first, second = found
    assert ("keepers", "error") == (first.name, first.level)
    assert DoctorFinding("schema", "ok", "4") == second


async def test_what_is_silent_beside_the_keyspace_is_not_taken_for_a_keeper() -> None:
    """It has a time of its own, which begins when the keyspace has been looked at."""
    then = 'print(\'\\n["secrets", "ok", "", ""]\', flush=True)\n'  # at once: nothing may come between the two
    hangs = (sys.executable, "-c", f"{ONE}time.sleep(0.5)\n{then}time.sleep(600)")
    async with asyncio.timeout(30.0):  # half the time of the keyspace
        first, *others = await bounded_findings(LOOK, seconds=60.0, beside_seconds=0.5, command=hangs)
    assert ("servers", "error") == (first.name, first.level)
    assert "not all that is named beside it did within 0 s" in first.detail
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


async def test_what_is_beside_the_keyspace_has_its_own_time(tmp_path: Path) -> None:
    """That of the keyspace was over long before."""
    said = tmp_path / "said"
    for seconds in SECONDS_OF_A_LOOK:
        then = f"""print(flush=True)
open({str(said)!r}, 'w').close()
time.sleep({seconds + 0.5})
print('["secrets", "ok", "", ""]', flush=True)
"""
        looks = (sys.executable, "-c", ONE + then)
        found = await bounded_findings(LOOK, seconds=seconds, beside_seconds=60.0, command=looks)
        if said.exists():
            break
    assert ["schema", "secrets"] == [each.name for each in found]


PATCHED = """import asyncio, pathlib, structlog
from tickwise.wiring.cassandra import bounded_look
from tickwise.wiring.findings import DoctorFinding

async def findings(url):
    structlog.get_logger().warning("cassandra_slow")
    yield DoctorFinding({name!r}, "error", "of the keyspace")

async def beside(ordered):
    try:
        {first}
        yield DoctorFinding("secrets", "ok", "")
    finally:
        pathlib.Path({end!r}).touch()

bounded_look.cassandra_findings = findings
bounded_look._beside = beside
asyncio.run(bounded_look.look())
"""


def patched(name: str, first: str, end: Path) -> list[str]:
    """The real look, with these findings on the keyspace, and this before the first one on what is beside it. Its
    output has a buffer, as where nobody asks Python for none."""
    program = PATCHED.format(name=name, first=first, end=str(end))
    return ["env", "-u", "PYTHONUNBUFFERED", sys.executable, "-c", program]


async def test_a_look_that_hangs_beside_the_keyspace_is_told_so_and_ends_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first finding there. It may have started the command of the secrets' key."""
    monkeypatch.setattr(bounded_look, "GRACE_SECONDS", 60.0)
    end = tmp_path / "end"
    first, second = await bounded_findings(
        LOOK, seconds=60.0, beside_seconds=0.5, command=patched("lateness", "await asyncio.sleep(600)", end)
    )
    assert ("servers", "error") == (first.name, first.level)
    assert "lateness" == second.name
    assert end.exists()


@pytest.mark.parametrize(("name", "beside"), [("lateness", "secrets"), ("copies", "secrets"), ("keepers", "servers")])
async def test_what_is_beside_a_keyspace_is_looked_at_if_a_store_answers(
    tmp_path: Path, name: str, beside: str
) -> None:
    """Timers are late after a restore, or since the broker is away: who asks then wants to know the rest."""
    found = await bounded_findings(LOOK, seconds=60.0, command=patched(name, "", tmp_path / "end"))
    assert [name, beside] == [each.name for each in found]


async def test_a_fault_of_the_look_is_told_by_its_kind(tmp_path: Path) -> None:
    """Its words may be secret."""
    fault = "raise RuntimeError('a password')"
    _, told = await bounded_findings(LOOK, seconds=60.0, command=patched("lateness", fault, tmp_path / "end"))
    assert ("database", "error", "the look failed: RuntimeError") == told[:3]


async def test_lines_of_a_log_are_no_findings(tmp_path: Path) -> None:
    """The driver and the link write some, as where a node is slow."""
    found = await bounded_findings(LOOK, seconds=60.0, command=patched("keepers", "", tmp_path / "end"))
    assert DoctorFinding("keepers", "error", "of the keyspace") == found[0]


async def test_a_look_that_fails_is_told() -> None:
    """With what it had found."""
    fails = (sys.executable, "-c", ONE + "sys.exit(3)")
    first, second = await bounded_findings(LOOK, seconds=60.0, command=fails)
    assert DoctorFinding("schema", "ok", "4") == first
    assert ("database", "error", "the look at Cassandra ended with 3") == second[:3]


async def test_a_cluster_that_refuses_is_told_by_the_look_itself() -> None:
    """As the driver says it; and that nothing else was looked at."""
    found, beside = await bounded_findings(LOOK, seconds=60.0)
    assert ("servers", "warning") == (beside.name, beside.level)
    assert ("database", "error") == (found.name, found.level)
    assert "Cassandra does not answer: " in found.detail
