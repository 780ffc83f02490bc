"""A small `up`: starts the embedded server, says so in one line of JSON, stops it on Ctrl-C or SIGTERM.

    python embedded_up.py DATA_DIR [TABLE]

It asks a last query before the stop. With TABLE it makes a table of that name, or finds it already there. A refusal is
one line of JSON as well.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import asyncpg

from tickwise.adapters.clock import SystemClock
from tickwise.adapters.embedded import EmbeddedPostgres
from tickwise.domain.errors import TickwiseError


async def up(data_dir: Path, table: str | None) -> None:
    server = EmbeddedPostgres(data_dir, clock=SystemClock(), api_port=8470)
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
    dsn = await server.start()
    if table is not None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (value int)")
        await connection.close()
    tell(dsn=dsn, pid=server.pid)
    await asked_to_stop.wait()
    connection = await asyncpg.connect(dsn)
    tell(answered=await connection.fetchval("SELECT 1"))
    await connection.close()
    await server.stop()


def tell(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        asyncio.run(up(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
    except TickwiseError as error:
        tell(error=type(error).__name__, detail=error.detail)
        sys.exit(1)
