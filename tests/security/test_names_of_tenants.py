"""Names that sandboxes look up, and servers of names that a tenant keeps from answering."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.probes import probe
from tests.support.waiting import eventually
from tickwise.adapters.outgoing import lookups
from tickwise.adapters.outgoing.access import HttpAccess
from tickwise.adapters.outgoing.lookups import SHARE_THREADS, THREADS, Lookups
from tickwise.adapters.runner.process.sandbox.network.destinations import AllowedDestinations
from tickwise.adapters.runner.process.sandbox.network.run_network import RunNetwork, Unreachable

INSIDE = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names below `example.com` for which an answer is awaited: their server gives none before the end."""
    asked: list[str] = []
    end = threading.Event()

    def look_up(host: str, _port: int, _family: int) -> Any:
        if host.endswith(".example.com"):
            asked.append(host)
            assert end.wait(600)
        return INSIDE

    monkeypatch.setattr(lookups, "_look_up", look_up)
    yield asked
    end.set()


@probe(6, stopped_by="the names of one namespace have at most a quarter of the threads, until they are answered")
async def test_names_without_an_answer_leave_threads_to_other_namespaces(hanging: list[str]) -> None:
    """Short runs that each ask for names below a wildcard, whose server never answers, and end at once."""
    shared = Lookups()
    access = HttpAccess.of(["other.test"])
    for number in range(THREADS):
        run = RunNetwork(AllowedDestinations.of(["*.example.com:443"], access), shared.share_of("a"), print)
        asking = [asyncio.create_task(run._connect(f"{each}-{number}.example.com", 443)) for each in range(2)]
        await asyncio.wait(asking, timeout=0.001)
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await run.close()
    await eventually(lambda: len(hanging) >= SHARE_THREADS)
    assert SHARE_THREADS == len(hanging)
    other = RunNetwork(AllowedDestinations.of(["other.test:1"], access), shared.share_of("b"), print)
    async with asyncio.timeout(60):
        with pytest.raises(Unreachable, match=r"other\.test:1 cannot be reached: connect"):
            await other._connect("other.test", 1)
    await other.close()
    shared.close()
