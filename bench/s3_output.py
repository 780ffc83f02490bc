"""Output and artefacts in a bucket beside the folder: how far behind a reader is, and how much goes through.

    python -m bench.s3_output      writes bench/results/s3-output.json; TICKWISE_TEST_S3=versitygw takes that server

The sink, the spool and the reader are those of the product; the store is a real server on this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.services.s3.server import S3
from tickwise.adapters.blobs import BlobAccess, open_blobs
from tickwise.adapters.blobs.s3.bucket import S3Blobs
from tickwise.adapters.blobs.spool.delivery import spooled
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.output import OutputSink
from tickwise.control.runs.logs import read_log
from tickwise.domain.model import time_id
from tickwise.ports.blobs import Blobs

RESULT: Final = Path(__file__).parent / "results" / "s3-output.json"
LINES: Final = 40
VOLUME_BYTES: Final = 64 << 20
ATTEMPTS: Final = 8
LOOK_SECONDS: Final = 0.05
CLOCK: Final = SystemClock()


@asynccontextmanager
async def stores(folder: Path) -> AsyncIterator[dict[str, tuple[Blobs, Blobs]]]:
    """Writer and reader of each kind of store."""
    async with S3() as server:
        access = BlobAccess(access_key_id=server.access_key_id, secret_access_key=server.secret_access_key)
        bucket = open_blobs(server.blobs_url("bench"), access)
        local = open_blobs((folder / "blobs").as_uri())
        assert isinstance(bucket, S3Blobs)
        async with spooled(bucket, CLOCK, folder / "spool", 1 << 30) as spool:
            yield {"folder": (local, local), "bucket": (spool, open_blobs(server.blobs_url("bench"), access))}


async def behind(writer: Blobs, reader: Blobs) -> dict[str, float]:
    """Seconds from the write of a line by the task until a reader on another client has it."""
    run = time_id(int(CLOCK.now() * 1000), os.urandom(10))
    sink = OutputSink(writer, CLOCK, run, 1, limit_bytes=1 << 30)
    delays: list[float] = []
    for number in range(LINES):
        line = b"line %06d\n" % number
        written = CLOCK.monotonic()
        sink.write(line)
        while line not in (await read_log(reader, run, 1, offset=0, limit=1 << 20, ended=False)).content:
            await CLOCK.sleep(LOOK_SECONDS)
        delays.append(CLOCK.monotonic() - written)
        await CLOCK.sleep(0.03 * (number % 7))
    await sink.close()
    return {"median": round(statistics.median(delays), 3), "greatest": round(max(delays), 3)}


async def through(writer: Blobs) -> float:
    """Megabytes of output a second, of several attempts at once, until all is stored."""
    piece = b"x" * 65_535 + b"\n"

    async def one() -> None:
        run = time_id(int(CLOCK.now() * 1000), os.urandom(10))
        sink = OutputSink(writer, CLOCK, run, 1, limit_bytes=1 << 30)
        for _ in range(VOLUME_BYTES // ATTEMPTS // len(piece)):
            await sink.room()
            sink.write(piece)
            await asyncio.sleep(0)
        await sink.close(patient=True)
        assert sink.lost is None, sink.lost

    began = CLOCK.monotonic()
    await asyncio.gather(*(one() for _ in range(ATTEMPTS)))
    return round(VOLUME_BYTES / (CLOCK.monotonic() - began) / 1e6, 1)


async def main() -> None:
    """Measure and write."""
    with tempfile.TemporaryDirectory() as name:
        async with stores(Path(name)) as found:
            result: dict[str, object] = {
                "server": os.environ.get("TICKWISE_TEST_S3") or "s3rver",
                "load": os.getloadavg(),
            }
            for kind, (writer, reader) in found.items():
                result[kind] = {
                    "behind_seconds": await behind(writer, reader),
                    "megabytes_per_second": await through(writer),
                }
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))  # this is what the command is for


if __name__ == "__main__":
    asyncio.run(main())
