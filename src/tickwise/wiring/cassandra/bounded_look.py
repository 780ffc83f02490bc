"""`cassandra_findings` for a person who waits: within `LOOK_SECONDS`, however many nodes and keepers are silent.

    doctor ──► a process of its own that looks ──► its findings, as they come ──► until the end, or the time is up

Each step has time limits of its own, which add up; and a driver that still connects to silent nodes holds up the end of
its process. So another process looks, and is killed when the time is up. The findings that it had are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from tickwise.adapters.store.cassandra.address import read_address
from tickwise.domain.errors import TickwiseError
from tickwise.observability.logs import configure
from tickwise.wiring.cassandra.keyspace import cassandra_findings
from tickwise.wiring.findings import DoctorFinding

LOOK_SECONDS: Final = 10.0
"""A healthy cluster takes 2 s, most of which is the start of the process."""
REACH_SECONDS: Final = 1.0
LINE_BYTES: Final = 1 << 20

_finding: Final = msgspec.json.Decoder(DoctorFinding)


async def bounded_findings(
    database_url: str, *, seconds: float = LOOK_SECONDS, command: Sequence[str] = (sys.executable, "-m", __name__)
) -> list[DoctorFinding]:
    """The findings of `doctor` about a cluster and its keyspace; the first one says if `seconds` were too few.
    `command` is the process that looks: it reads the address, and writes a finding a line."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LINE_BYTES,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    found: list[DoctorFinding] = []
    try:
        # By stdin: the address may hold a password, and arguments are seen by all users of a machine.
        process.stdin.write(database_url.encode())
        process.stdin.close()
        async with asyncio.timeout(seconds):
            async for line in process.stdout:
                found.append(_finding.decode(line))  # noqa: PERF401  # what came before the time is up counts
            status = await process.wait()
    except TimeoutError:
        return [await _too_slow(database_url, found, seconds), *found]
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status:
        found.append(
            DoctorFinding("database", "error", f"the look at Cassandra ended with {status}", "tickwise db status")
        )
    return found


async def _too_slow(database_url: str, found: Sequence[DoctorFinding], seconds: float) -> DoctorFinding:
    """Say what did not answer."""
    if found:
        return DoctorFinding(
            "keepers", "error", f"the nodes answer, and not all keepers within {seconds:.0f} s",
            "look at the machines of the keepers: `tickwise db status` says who has each shard",
        )  # fmt: skip
    hosts = read_address(database_url).hosts
    closed = [f"{host}:{port}" for host, port, is_open in await asyncio.gather(*map(_reached, hosts)) if not is_open]
    text = f"Cassandra does not answer within {seconds:.0f} s: too few nodes serve requests"
    if closed:
        text += f"; no connection to {', '.join(closed)}"
    return DoctorFinding("database", "error", text, "check the address, and that a majority of the nodes run")


async def _reached(place: tuple[str, int]) -> tuple[str, int, bool]:
    try:
        async with asyncio.timeout(REACH_SECONDS):
            _, writer = await asyncio.open_connection(*place)
    except (OSError, TimeoutError):
        return *place, False
    writer.close()
    return *place, True


async def look() -> None:
    """Write the findings about the address that stdin gives, and nothing else: no line of a log is among them."""
    configure()
    url = sys.stdin.read()
    try:
        async for finding in cassandra_findings(url):
            _write(finding)
    except TickwiseError as failure:
        _write(DoctorFinding("database", "error", failure.detail))


def _write(finding: DoctorFinding) -> None:
    sys.stdout.write(msgspec.json.encode(finding).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(look())
