"""Ports of this machine: a free one, and whether somebody listens."""

from __future__ import annotations

import asyncio
import socket


def free_port() -> int:
    """One that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def until_open(port: int) -> None:
    """Wait until somebody listens there."""
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return
