"""A server as the product starts it, and with every statement counted: `pg_stat_statements`, from the same wheel."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from bench.harness import SQL, Rig, install
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.adapters.embedded.cluster import Wanted, prepare
from tickwise.adapters.embedded.programs import run

COUNTING = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "2000",
    "pg_stat_statements.track_planning": "on",
}


def _let_count(folder: Path) -> None:
    """Make the cluster, and the extension in it: only its superuser may, whose password nobody knows."""
    clock = SystemClock()
    folder.mkdir(mode=0o711)
    cluster, _ = prepare(Wanted(data_dir=folder, minimum_free_bytes=0, random_bytes=clock.random_bytes, binaries=None))
    options = [part for name, value in COUNTING.items() for part in ("-c", f"{name}={value}")]
    command: list[str | Path] = [
        cluster.program("postgres"),
        "--single",
        "-j",
        "-D",
        cluster.data,
        "-c",
        "exit_on_error=on",
    ]
    done = run([*command, *options, "tickwise"], account=cluster.account, standard_input=SQL["costs_setup"])
    if done.returncode:
        raise RuntimeError(f"the server cannot be made to count its statements: {done.stdout}")


@contextlib.asynccontextmanager
async def counting_rig() -> AsyncIterator[Rig]:
    """A fresh server with shipped settings, ready for the product."""
    with tempfile.TemporaryDirectory(prefix="tickwise-costs-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        _let_count(folder / "server")
        server = EmbeddedPostgres(folder / "server", clock=SystemClock(), settings=COUNTING)
        try:
            dsn = await server.start()
            await install(dsn)
            yield Rig(dsn, folder, full=False)
        finally:
            await server.stop()
