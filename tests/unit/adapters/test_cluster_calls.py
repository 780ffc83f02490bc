"""Calls to a cluster that many runs make at one instant: a bound on connections, no queue behind an API that hangs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.waiting import eventually
from tickwise.adapters.clock import SystemClock
from tickwise.adapters.runner.container.kubernetes import cluster as module
from tickwise.adapters.runner.container.kubernetes.cluster import CALLS_AT_ONCE, ClusterAway, JobCluster

MANY = 300


class Api:
    """Answers each call when it is told to, and counts those that are on their way."""

    def __init__(self, cluster: JobCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = self.most = self.calls = 0
        self.answers = asyncio.Event()
        monkeypatch.setattr(cluster, "_asked", self._asked)

    @contextlib.asynccontextmanager
    async def _asked(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.calls += 1
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await self.answers.wait()
            yield self
        finally:
            self.open -= 1

    async def read(self) -> bytes:
        """The body of each answer."""
        return b"{}"


@pytest.fixture
def cluster() -> JobCluster:
    return JobCluster("kubernetes://", None, SystemClock())


async def test_a_thousand_calls_take_a_bounded_number_of_connections(
    cluster: JobCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for their turn, and all are made; one that is given up leaves its turn to the next."""
    api = Api(cluster, monkeypatch)
    calls = [asyncio.create_task(cluster.ask("GET", "/version")) for _ in range(MANY)]
    await eventually(lambda: api.open == CALLS_AT_ONCE, what="as many as may be are on their way")
    for call in calls[CALLS_AT_ONCE - 10 : CALLS_AT_ONCE + 10]:
        call.cancel()
    await eventually(lambda: api.calls == CALLS_AT_ONCE + 10, what="the next ones are")
    api.answers.set()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert MANY - 20 == done.count(b"{}")
    assert (CALLS_AT_ONCE, 0) == (api.most, api.open)


async def test_nobody_waits_behind_an_api_that_hangs(cluster: JobCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers without a turn give up together, not one batch after the other."""
    monkeypatch.setattr(module, "CALL_SECONDS", 0.05)
    api = Api(cluster, monkeypatch)
    calls = [asyncio.create_task(cluster.ask("GET", "/version")) for _ in range(MANY)]
    await asyncio.wait(calls[CALLS_AT_ONCE:], timeout=60)
    assert {ClusterAway} == {type(call.exception()) for call in calls[CALLS_AT_ONCE:]}
    assert CALLS_AT_ONCE == api.calls
    api.answers.set()
    await asyncio.gather(*calls[:CALLS_AT_ONCE])
