"""awa around no-op jobs, on its queue storage. A job carries its number.

Best: what its configuration and benchmark notes name for a hot queue: many handlers, larger claims, two claimers. Its
default in the text is 50 handlers for a queue.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import awa
import speak

DEFAULT_QUEUE = {"name": "noops", "max_workers": 50}
BEST_QUEUE = {"name": "noops", "max_workers": 1024, "claim_batch_size": 512, "claimers": 2}


@dataclass
class Noop:
    """The job."""

    number: int


def client() -> awa.AsyncClient:
    """It wants a host in the address, also where a socket's folder follows."""
    url = urlsplit(os.environ["PEER_DATABASE_URL"])
    if url.netloc.endswith("@"):
        url = url._replace(netloc=f"{url.netloc}localhost")
    return awa.AsyncClient(urlunsplit(url), max_connections=20 if speak.BEST else 10)


async def setup() -> None:
    """Its tables, with the storage that a fresh installation uses."""
    its = client()
    await its.migrate()
    await its.install_queue_storage()
    await its.close()


@asynccontextmanager
async def queue() -> AsyncIterator[speak.Queue]:
    """The bulk call: COPY."""
    its = client()

    async def add(numbers: range, due: Sequence[float] | None) -> None:
        assert due is None, "due times are not measured for awa"
        await its.enqueue_many_copy([Noop(number) for number in numbers], queue="noops")

    yield add
    await its.close()


async def work() -> None:
    """A worker with asynchronous handlers."""
    its, record, ended = client(), speak.Record(), asyncio.Event()

    async def noop(job: awa.Job[Noop]) -> None:
        record.ran(job.args.number)

    its.task(Noop, queue="noops")(noop)
    async with speak.working(record, ended.set):
        await its.start([BEST_QUEUE if speak.BEST else DEFAULT_QUEUE])
        await ended.wait()
        await its.shutdown()
    await its.close()


if __name__ == "__main__":
    asyncio.run(speak.main(speak.Program(setup, queue, work)))
