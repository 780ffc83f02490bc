"""AUDIT: `tickwise audit verify`, entries a second, over logs of three shapes.

A log is made, sealed by the product, and verified whole: each entry against its seal, each seal against the one before,
and the search for entries that no seal names. The value is of a busy namespace, whose seals are full. Beside it are
what cost more for each entry: small seals, as a quiet namespace has them, and many namespaces.

    entries of past days, with their marks ──seal, not timed──► seals ──verify, timed──► as many entries, no finding
"""

from __future__ import annotations

from time import perf_counter, process_time
from typing import Final, NamedTuple

from bench.harness import SQL, Case, Check, Failed, Rig, Round
from bench.usage import cpu_seconds, server_pid
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.control.audit.verification import verify

SECONDS_BETWEEN: Final = 2.0
"""Between two entries: the log of some days."""
TIMES: Final = 3
"""Of each log; the best counts, because the first one also reads the log into memory."""


class Log(NamedTuple):
    """The shape of a log."""

    name: str
    entries: int
    namespaces: int = 1
    of_seal: int = 1_000
    """Entries in a seal: as many are sealed at a time."""


def logs(*, full: bool) -> tuple[Log, ...]:
    """The first is the value."""
    size = 1_000_000 if full else 200_000
    return (
        Log("full seals", size),
        Log("seals of ten", size // 10, of_seal=10),
        Log("500 namespaces", size // 2, namespaces=500),
    )


async def filled(rig: Rig, log: Log) -> None:
    """Make the log, without seals."""
    connection = await rig.connect()
    await connection.execute(SQL["audit_empty"], timeout=600)
    await connection.execute(SQL["audit_fill"], log.entries, log.namespaces, SECONDS_BETWEEN, timeout=600)
    await connection.close()


async def verified(rig: Rig, log: Log) -> dict[str, float]:
    """The best of some checks: entries a second, and the processor's microseconds for each entry."""
    await filled(rig, log)
    store = PostgresStore(rig.dsn, clock=rig.clock)
    await store.open()
    connection = await rig.connect()
    server = await server_pid(connection)
    try:
        while await store.audit.seal(log.of_seal):
            pass
        await connection.execute(SQL["audit_tidy"], timeout=600)
        best: dict[str, float] = {}
        for _ in range(TIMES):
            used, own, begun = cpu_seconds(server) if server else 0.0, process_time(), perf_counter()
            report = await verify(store.audit)
            took = perf_counter() - begun
            if report.found or report.entries != log.entries:
                raise Failed(f"{log.name}: {report.entries} of {log.entries} entries, {report.found} findings")
            if not best or log.entries / took > best["rate"]:
                best = {
                    "rate": round(log.entries / took),
                    "program_us": round((process_time() - own) / log.entries * 1e6, 2),
                    "database_us": round((cpu_seconds(server) - used) / log.entries * 1e6, 2) if server else 0.0,
                }
        return best
    finally:
        await connection.close()
        await store.close()


async def verification(rig: Rig) -> Round:
    """The rate of full seals; the others beside it."""
    more: dict[str, float] = {}
    for log in logs(full=rig.full):
        for name, figure in (await verified(rig, log)).items():
            more[log.name if name == "rate" else f"{log.name} {name}"] = figure
    return Round(more["full seals"], more)


async def digests(rig: Rig) -> Round:
    """The digests alone, computed where the entries are."""
    log = logs(full=rig.full)[0]
    await filled(rig, log)
    connection = await rig.connect()
    await connection.execute(SQL["audit_tidy"], timeout=600)
    rates = []
    for _ in range(TIMES):
        begun = perf_counter()
        await connection.fetchval(SQL["audit_digests"], timeout=600)
        rates.append(log.entries / (perf_counter() - begun))
    await connection.close()
    return Round(max(rates))


CASE = Case(
    "AUDIT",
    "entries/s",
    100_000,
    True,
    verification,
    digests,
    "raw SQL: the digests of all entries, in one session",
    checks=(
        Check("in seals of ten", "seals of ten", 100_000, True),
        Check("500 namespaces", "500 namespaces", 100_000, True),
    ),
)
