"""A stream of work: batches of 500 jobs handed in while they run, for as long as a case wants.

The backlog is bounded the way a client bounds it, by what came back: every ten batches wait until the batch thirty
before them has ended, so at most 20,000 runs are under way. That is looked up by a few ids, whatever else the tables
hold. What ended when is read from the history afterwards, so nothing counts rows while something is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from bench.figures import window_rates
from bench.harness import SQL, Rig
from bench.usage import Reading, read
from bench.work import jobs, store
from tickwise.domain.model import DEFAULT_NAMESPACE
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.store import NewJob, Ready, Store
from tickwise.roles.shared.hint_publisher import HintPublisher

BATCH = 500
CLIENTS = 2
"""Batches on their way at once: a client that builds the next one while the last is committed."""
LOOK_EVERY = 10
"""Batches."""
BEHIND = 30
"""Batches before the next one, of which the last must have ended."""
SAMPLED = 25
"""Every 25th run of a batch is looked up."""
WINDOW_SECONDS = 5.0


@dataclass(frozen=True)
class Through:
    """A broker between whoever hands in and whoever runs."""

    hint_publisher: HintPublisher
    settings: Mapping[str, object]
    """Of the roles."""
    recorder: bool
    """Executors tell by the broker how runs ended, and a recorder applies it."""
    pids: Mapping[str, int]
    """Of what else uses the machine, by name."""


@dataclass
class Stream:
    """Work under way. All its times are the server's, in Unix seconds."""

    rig: Rig
    connection: asyncpg.Connection[Any]
    processes: dict[str, int]
    """Process ids of the roles, by name."""
    rate: float | None = None
    """Jobs a second to hand in; None: as many as come back."""
    hint_publisher: HintPublisher | None = None
    """Executors are told of what was handed in by a broker."""
    namespace: str = DEFAULT_NAMESPACE
    beside: int = 1
    """Streams that flow at the same time, this one too: all together have as much under way as one has alone."""
    sent: int = 0
    flowing: bool = True
    feeding: int = 0
    """Clients that have not yet ended."""
    _turn: float = 0.0
    _batches: list[list[UUID]] = field(default_factory=list)

    async def now(self) -> float:
        """The server's time."""
        return float(await self.connection.fetchval(SQL["now"]))

    async def ended(self) -> tuple[int, float]:
        """How many have ended durably, and when that was so. Counts all rows: ask before and after, not in between."""
        row = await self.connection.fetchrow(SQL["progress"])
        return row["ended"], row["at"]

    async def usage(self) -> Reading:
        """What server, roles and this client have used so far."""
        return await read(self.connection, **self.processes)

    async def finish(self) -> float:
        """Hand in nothing more and wait until all has ended durably: when that was. Raises Failed if any went wrong."""
        self.flowing = False
        while self.feeding:  # a batch that is under way is sent, too
            await self.rig.clock.sleep(0.005)
        last = [run for batch in self._batches[-BEHIND:] for run in batch]
        durable = await self.rig.until_ended(self.sent, 180, last=last)
        await self.rig.outcome(self.sent)
        return durable

    async def rates(self, begin: float, end: float, window: float = WINDOW_SECONDS) -> list[float]:
        """Runs a second that ended in each whole window from `begin` to `end`; of a stream that is finished."""
        windows = int((end - begin) / window + 1e-6)
        rows = await self.connection.fetch(SQL["windows"], begin, window, begin + windows * window)
        return window_rates({row["window"]: row["ended"] for row in rows}, windows, window)

    async def feed(self, opened: Store) -> None:
        """Hand in until told to stop, one batch after the other."""
        self.feeding += 1
        looking = await self.rig.connect()
        while self.flowing:
            await self._paced()
            batch = jobs(self.rig, BATCH, namespace=self.namespace)
            await opened.jobs.add(batch)
            self.tell(batch)
            self.sent += BATCH
            self._batches.append([job.run_id for job in batch[::SAMPLED] if job.run_id is not None])
            behind = BEHIND // self.beside
            if len(self._batches) % (LOOK_EVERY // self.beside) == 0 and len(self._batches) > behind:
                await self._until_over(looking, self._batches[-behind])
        await looking.close()
        self.feeding -= 1

    def tell(self, batch: Sequence[NewJob]) -> None:
        """As control tells executors of what it has stored."""
        if self.hint_publisher is not None:
            now = self.rig.clock.now()
            self.hint_publisher.publish(
                [Ready(job.run_id, now, job.lane, job.namespace) for job in batch if job.run_id is not None]
            )

    async def _paced(self) -> None:
        """Wait for the turn of the next batch, if there is a rate."""
        if self.rate is None:
            return
        at = max(self._turn, self.rig.clock.monotonic() - 1.0)  # what was missed for longer is not made up for
        self._turn = at + BATCH / self.rate
        await self.rig.clock.sleep(at - self.rig.clock.monotonic())

    async def _until_over(self, looking: asyncpg.Connection[Any], runs: list[UUID]) -> None:
        while self.flowing and await looking.fetchval(SQL["ended_of"], runs) < len(runs):
            await self.rig.clock.sleep(0.005)


@contextlib.asynccontextmanager
async def flowing(
    rig: Rig,
    *,
    rate: float | None = None,
    warm_seconds: float = 2.0,
    through: Through | None = None,
    settings: Mapping[str, object] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> AsyncIterator[Stream]:
    """An empty store, one scheduler, one executor, and a stream that has flowed for a while: measure from here on.

    `through` a broker: executors are told by it what to claim, and with its `recorder` how it ended goes back by it.
    `settings` of the roles, beside their defaults. `namespace`: made if it is not the default one.
    """
    await rig.reset()
    given = {**({} if through is None else through.settings), **(settings or {})}
    async with contextlib.AsyncExitStack() as stack:
        opened = await stack.enter_async_context(store(rig))
        if namespace != DEFAULT_NAMESPACE:
            await opened.namespaces.add(NewNamespace(name=namespace, display_name=namespace, created_by="bench"))
        roles = ["scheduler", "executor", *(["recorder"] if through is not None and through.recorder else [])]
        running = {role: await stack.enter_async_context(rig.role(role, **given)) for role in roles}
        await rig.until_executors(1)
        connection = await rig.connect()
        stack.push_async_callback(connection.close)
        pids = {role: process.pid for role, process in running.items()}
        pids |= {} if through is None else through.pids
        hint_publisher = None if through is None else through.hint_publisher
        stream = Stream(rig, connection, pids, rate, hint_publisher, namespace)
        # The start of the worker process is not what is measured: one batch goes ahead.
        first = jobs(rig, BATCH, namespace=namespace)
        await opened.jobs.add(first)
        stream.tell(first)
        await rig.until_ended(BATCH, 30)
        stream.sent = BATCH
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(stream.feed(opened))
            try:
                await asyncio.sleep(warm_seconds)
                yield stream
            finally:
                stream.flowing = False
