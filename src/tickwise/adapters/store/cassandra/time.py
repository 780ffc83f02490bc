"""The time of a cluster: the median of its nodes' clocks, which never goes back.

    offset of a node = its clock − our monotonic clock, at the middle of the quickest of some requests
    now = our monotonic clock + the median of the offsets, and at least what was told before

One node of three whose clock is an hour off changes nothing: the median is another node's. Of two nodes the earlier
one counts, so nothing is early. Invariant: `now` never goes back. Over owners it holds for each time that led to an
entry or a renewal: these store it beside the head of the log, and the next owner begins there (`begin_at`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tickwise.adapters.store.cassandra.link import CassandraLink, statement
from tickwise.domain.errors import CassandraAway, TickwiseError
from tickwise.ports.clock import Clock

SAMPLES: Final = 3
"""Requests to each node; the quickest one tells the offset best."""
PROMPT_SECONDS: Final = 0.5
"""Nodes that take longer are not waited for, once another has answered: a frozen one must not delay a takeover."""


class ClusterTime:
    """`measure` before use, and again from time to time: clocks of machines drift apart."""

    def __init__(self, link: CassandraLink) -> None:
        self._link = link
        self._offset: float | None = None
        self._told = 0.0

    def now(self) -> float:
        """Seconds since the Unix epoch. Of two calls the second answer is never the smaller one."""
        assert self._offset is not None, "measure first"
        self._told = max(self._told, self._link.clock.monotonic() + self._offset)
        return self._told

    def begin_at(self, seconds: float) -> None:
        """Tell no time before this one: an earlier owner has told it."""
        self._told = max(self._told, seconds)

    async def measure(self) -> None:
        """Ask each node for its time. Raises `StoreUnavailable` if none answers."""
        found, failure = await offsets(self._link)
        known = [offset for _, offset in found]
        if not known:
            raise failure or CassandraAway("no node of the data centre is known")
        self._offset = middle(known)


class ClusterClock:
    """The port `Clock` by the time of a cluster; all but `now` is this machine's."""

    def __init__(self, time: ClusterTime, clock: Clock) -> None:
        self.now = time.now
        self.monotonic = clock.monotonic
        self.sleep = clock.sleep
        self.random_bytes = clock.random_bytes
        self.chance = clock.chance


def middle(offsets_of_nodes: Sequence[float]) -> float:
    """The median; of an even number the lower one of the two in the middle."""
    ordered = sorted(offsets_of_nodes)
    return ordered[(len(ordered) - 1) // 2]


async def offsets(link: CassandraLink) -> tuple[list[tuple[str, float]], TickwiseError | None]:
    """Of each node that answers its address and its clock minus our monotonic one, in seconds; why another did not."""
    asked = {asyncio.ensure_future(_offset(link, host)): str(host.endpoint) for host in link.hosts()}
    try:
        done, slow = await asyncio.wait(asked, timeout=PROMPT_SECONDS)
        if not any(task.exception() is None for task in done) and slow:
            done, _ = await asyncio.wait(asked)
        failed = [error for task in done if isinstance(error := task.exception(), TickwiseError)]
        found = [(name, task.result()) for task, name in asked.items() if task in done and task.exception() is None]
        return found, failed[0] if failed else None
    finally:
        for task in asked:
            task.cancel()


async def _offset(link: CassandraLink, host: Any) -> float:
    best: tuple[float, float] | None = None
    for _ in range(SAMPLES):
        before = link.clock.monotonic()
        (row,) = await link.run(statement("clock_read"), host=host)
        after = link.clock.monotonic()
        told: datetime = row[0]
        sample = (after - before, told.replace(tzinfo=UTC).timestamp() - (before + after) / 2)
        best = min(best or sample, sample)
    assert best is not None
    return best[1]
