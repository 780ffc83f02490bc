"""The findings of `doctor` on Cassandra, for a person who waits: in time, however many servers are silent.

    doctor ──► a process of its own that looks ──► its findings, as they come ──► until the end, or the time is up
                 1. the cluster, the keyspace, its keepers                          `LOOK_SECONDS`
                 2. if a store answers there: secrets, clocks, broker, Redis        `BESIDE_SECONDS`

Each step has time limits of its own, which add up; and a driver that still connects to silent nodes holds up the end of
its process. So another process looks, and is ended when the time is up: told to, that it may end what it has started,
and killed a moment later. The findings that it had are shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.store.cassandra.address import read_address
from tickwise.config import Settings
from tickwise.domain.errors import TickwiseError
from tickwise.observability.logs import configure
from tickwise.wiring.cassandra.keyspace import cassandra_findings, cassandra_store
from tickwise.wiring.findings import DoctorFinding, clocks, findings_apart
from tickwise.wiring.secret_keys.secrets_check import secret_findings

LOOK_SECONDS: Final = 10.0
"""A healthy cluster takes 2 s, most of which is the start of the process."""
BESIDE_SECONDS: Final = 20.0
"""For what is beside the keyspace: the client of a broker that is away gives up after some seconds."""
GRACE_SECONDS: Final = 1.0
REACH_SECONDS: Final = 1.0
LINE_BYTES: Final = 1 << 20

BESIDE: Final = b"\n"
"""Stands between the findings on the keyspace and those on what is beside it."""
UNREACHABLE: Final = frozenset({"database", "schema", "keepers"})
"""An error of these: no store answers. Those of others, as that timers are late, may have their cause beside it."""


class LookOrder(msgspec.Struct, frozen=True):
    """The order to the process that looks. It may hold passwords and keys, so it goes through a pipe: arguments are
    seen by all users of a machine."""

    database_url: str
    settings: Settings


_finding: Final = msgspec.json.Decoder(DoctorFinding)


def _written_path(path: Any) -> str:
    """The only values of the settings that JSON does not know; a path may have bytes that are no text."""
    return str(path).encode(errors="replace").decode()


def read_order(content: bytes) -> LookOrder:
    """The order as `bounded_findings` writes it."""

    def decoded(kind: type, value: Any) -> Any:
        """A value that JSON does not know: the path of a file or folder."""
        return kind(value)

    return msgspec.json.decode(content, type=LookOrder, dec_hook=decoded)


async def bounded_findings(
    look: LookOrder,
    *,
    seconds: float = LOOK_SECONDS,
    beside_seconds: float = BESIDE_SECONDS,
    command: Sequence[str] = (sys.executable, "-m", __name__),
) -> list[DoctorFinding]:
    """The findings of `doctor` about a cluster, its keyspace, and what is beside them; the first one says if `seconds`,
    or then `beside_seconds`, were too few. `command` is the process that looks: it writes a finding a line."""
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
    is_beside = False
    try:
        process.stdin.write(msgspec.json.encode(look, enc_hook=_written_path))
        process.stdin.close()
        async with asyncio.timeout(seconds) as limit:
            async for line in process.stdout:
                if line == BESIDE:
                    is_beside = True
                    limit.reschedule(asyncio.get_running_loop().time() + beside_seconds)
                else:
                    found.append(_finding.decode(line))
            status = await process.wait()
    except TimeoutError:
        if is_beside:
            return [_silent_beside(beside_seconds), *found]
        return [await _too_slow(look.database_url, found, seconds), *found]
    finally:
        await _end(process)
    if status:
        found.append(
            DoctorFinding("database", "error", f"the look at Cassandra ended with {status}", "tickwise db status")
        )
    return found


async def _end(process: asyncio.subprocess.Process) -> None:
    """It may have started a command of its own, which nobody else ends."""
    for end, seconds in ((process.terminate, GRACE_SECONDS), (process.kill, None)):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                end()
                async with asyncio.timeout(seconds):
                    await process.wait()


def _silent_beside(seconds: float) -> DoctorFinding:
    """The keyspace is well, and something that the settings name beside it does not answer."""
    return DoctorFinding(
        "servers", "error", f"the keyspace answers; not all that is named beside it did within {seconds:.0f} s",
        "what has no line here: secrets_key_command, Redis, the broker; check that they run, and their addresses",
    )  # fmt: skip


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
    """Write the findings about the order that stdin gives, and nothing else: no line of a log is among them."""
    configure()
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    ordered = read_order(sys.stdin.buffer.read())
    try:
        if await _keyspace_answers(ordered.database_url):
            _write(BESIDE)
            async for finding in _beside(ordered):
                _write_finding(finding)
        else:
            text = "secrets, the broker and clocks were not looked at: the keyspace does not answer"
            _write_finding(DoctorFinding("servers", "warning", text))
    except TickwiseError as failure:
        _write_finding(DoctorFinding("database", "error", failure.detail))
    except Exception as fault:  # noqa: BLE001  # told by its kind: its words may hold values that are secret
        _write_finding(DoctorFinding("database", "error", f"the look failed: {type(fault).__name__}", "report this"))


async def _keyspace_answers(database_url: str) -> bool:
    """Write the findings on the keyspace; whether a store can be opened there."""
    answers = True
    async for finding in cassandra_findings(database_url):
        answers = answers and not (finding.level == "error" and finding.name in UNREACHABLE)
        _write_finding(finding)
    return answers


async def _beside(ordered: LookOrder) -> AsyncIterator[DoctorFinding]:
    """The findings on what only a store that answers can say. Where there are several shards, to open it gives a
    namespace without a shard its place, as the start of each role does."""
    settings, clock = ordered.settings, SystemClock()
    store = cassandra_store(ordered.database_url, clock)
    try:
        await store.open()
        async for finding in secret_findings(settings, store, clock):
            yield finding
        if settings.signals_url is not None:
            yield await clocks(settings.signals_url, store)
        async for finding in findings_apart(settings, store):
            yield finding
    finally:
        await store.close()


def _write_finding(finding: DoctorFinding) -> None:
    _write(msgspec.json.encode(finding) + b"\n")


def _write(line: bytes) -> None:
    """At once: the one who waits goes by it."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(look())
