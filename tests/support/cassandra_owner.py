"""The owner of a shard as a process of its own: appends numbered entries and prints the position of each that it was
told of, until it is refused. `python -m tests.support.cassandra_owner URL SHARD LEASE_SECONDS`."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.support.cassandras import PATIENT_SECONDS, linked
from tickwise.adapters.store.cassandra.log import CassandraLog
from tickwise.adapters.store.keeper.log import OwnershipLost

REFUSED = "refused"


async def main(url: str, shard: int, lease_seconds: float) -> None:
    """Print `position body` for each entry, then `refused`."""
    async with linked(url, answer_seconds=PATIENT_SECONDS) as link:
        log = CassandraLog(link, shard, lease_seconds=lease_seconds)
        await log.acquire(f"process {os.getpid()}", "")
        number = 0
        try:
            while True:
                body = f"{os.getpid()}.{number}"
                print(await log.append(body.encode()), body, flush=True)  # noqa: T201  # this is how the test knows
                number += 1
        except OwnershipLost:
            print(REFUSED, flush=True)  # noqa: T201  # this is how the test knows


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
