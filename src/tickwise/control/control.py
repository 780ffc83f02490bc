"""`Control`: all parts in one, with the life of the group commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from tickwise.control.buffered.pending_reads import Awaited
from tickwise.control.context import DEAD_LETTER_SECONDS, Counters, Parts
from tickwise.control.explain.service import Explains
from tickwise.control.keys.service import ApiKeys, KeyUses
from tickwise.control.runs.queues import Queues
from tickwise.control.schedules.backfills import Backfills
from tickwise.control.schedules.calendars import Calendars
from tickwise.control.schedules.fires import Fires
from tickwise.control.schedules.occurrences import Occurrences
from tickwise.control.schedules.previews import Previews
from tickwise.control.tasks import SOURCE_BYTES_MOST, TaskCheck, Tasks
from tickwise.observability.buffers import Buffer
from tickwise.ports.blobs import Blobs
from tickwise.ports.board import Board
from tickwise.ports.broker import Broker
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.clock import Clock
from tickwise.ports.identity import FoundKey, Keys
from tickwise.ports.runner import ScriptCheck, TaskKind
from tickwise.ports.signals import Signals, Topic
from tickwise.ports.signing import Signer
from tickwise.ports.store import Added, NewJob, Receipt, Replay, Store
from tickwise.roles.announcing import Announcer
from tickwise.roles.gather import Gatherer
from tickwise.roles.roll import RoleFacts, roll_of
from tickwise.roles.searching import Searches


class Control(Awaited, Fires, Backfills, Previews, Occurrences, Explains, Calendars, Queues, Tasks, ApiKeys):
    """Everything that people and programs ask of Tickwise. Start it before the first submit, stop it after the last."""

    name = "control"

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        blobs: Blobs,
        signals: Signals,
        clock: Clock,
        kinds: Mapping[str, TaskKind],
        calendars: CalendarReader,
        searches: Searches | None = None,
        counters: Counters | None = None,
        near_seconds: float = 2.0,
        runs_kept_seconds: float | None = None,
        dead_letter_seconds: float = DEAD_LETTER_SECONDS,
        announcer: Announcer | None = None,
        broker: Broker | None = None,
        signer: Signer | None = None,
        board: Board | None = None,
        roll: Board | None = None,
        group_commit_seconds: float = 0.003,
        group_commit_limit: int = 500,
        waiting_max: int = 20_000,
        scripts: ScriptCheck | None = None,
        source_bytes_most: int = SOURCE_BYTES_MOST,
    ) -> None:
        """`kinds` by their name; `near_seconds` is the store's. `group_commit_seconds`: how long a submit may wait
        for others under load. `dead_letter_seconds`: how long a dead letter waits for a person. `announcer` tells
        executors by a broker what they can claim. With `broker`, requests are buffered: what goes through it is
        answered once it has it; `signer` signs them, and `board` tells other processes so. `roll` is the board on which
        roles say that they are alive. `scripts` looks at the syntax of scripts; None: nobody does. `source_bytes_most`:
        how long a script in a job may be."""
        parts = Parts(
            store=store,
            keys=keys,
            blobs=blobs,
            signals=signals,
            clock=clock,
            kinds=kinds,
            calendars=calendars,
            searches=searches,
            counters=counters,
            near_seconds=near_seconds,
            runs_kept_seconds=runs_kept_seconds,
            dead_letter_seconds=dead_letter_seconds,
            announcer=announcer,
            broker=broker,
            signer=signer,
            board=board,
        )
        gatherer = Gatherer(
            self._write,
            clock,
            wait_seconds=group_commit_seconds,
            limit=group_commit_limit,
            waiting_max=waiting_max,
            wrote=self._stored,
        )
        super().__init__(parts, gatherer)
        self.clock = clock
        self._roll = roll
        self._scripts = scripts
        self._check_task = TaskCheck(kinds, scripts=scripts, source_bytes_most=source_bytes_most)
        self._uses = KeyUses(keys, clock)

    @property
    def task_kinds(self) -> Collection[TaskKind]:
        """The kinds of tasks that are known here, for the description of the API."""
        return self._kinds.values()

    async def start(self) -> None:
        """Begin to take jobs."""
        await self._gatherer.start()
        await self.ingest_start()

    async def roles(self) -> Sequence[RoleFacts]:
        """Who is alive, as they say. Raises `Unavailable` if that cannot be read."""
        return [] if self._roll is None else await roll_of(self._roll)

    def buffers(self) -> Mapping[str, Buffer]:
        """What waits to be written, for the metrics."""
        sender = self.sender
        return {**self._gatherer.buffers(), **({} if sender is None else sender.buffers())}

    async def drain(self) -> None:
        """Write what waits."""
        try:
            await self.ingest_stop()
        finally:
            await self._gatherer.stop()
            await self._uses.stop()

    async def stop(self) -> None:
        """Write what waits, take nothing more."""
        try:
            await self.drain()
        finally:
            if self._scripts is not None:
                await self._scripts.close()

    async def key_find(self, digest: bytes) -> FoundKey | None:
        """The good key with this digest. Raises `StoreUnavailable`."""
        if self.sender is None:
            return self._uses.note(await self._keys.key_find(digest))
        return self._uses.note(await self._reach.ask(lambda: self._keys.key_find(digest)))

    def key_news(self, concerns: Callable[[UUID], bool]) -> asyncio.Event:
        """An event that is set when a key that `concerns` the listener may be good no longer."""
        return self._signals.listen(Topic.KEYS, concerns)

    async def receipt_find(self, principal: str, route: str, key: str) -> Replay | None:
        """The answer that was given under an Idempotency-Key."""
        return await self._store.receipt_find(principal, route, key)

    async def receipt_keep(self, receipt: Receipt) -> Replay | None:
        """Keep an answer whose effect is the same however often it is asked for; or the one that was kept before."""
        return await self._surely(lambda: self._store.receipt_keep(receipt))

    async def _write(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        added = await self._store.jobs_add(jobs)
        if isinstance(added, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        return added
