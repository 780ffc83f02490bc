"""`Control`: the services of the layer, put together over one context, with their life."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tickwise.control.buffered.ingest import BufferedIngest
from tickwise.control.buffered.reads import PendingReads
from tickwise.control.buffered.service import BufferedService
from tickwise.control.bulk.operations import OperationService
from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.control.context import ControlContext
from tickwise.control.explain.service import ExplainService
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.jobs.service import JobService
from tickwise.control.jobs.submission import Counters, GroupCommit, Submissions
from tickwise.control.keys.service import KeyService
from tickwise.control.receipts import ReceiptService
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.queues import QueueService
from tickwise.control.runs.service import RunService
from tickwise.control.schedules.calendars import CalendarService
from tickwise.control.schedules.service import ScheduleService
from tickwise.control.tasks import MAX_SOURCE_BYTES, TaskCheck, TaskService
from tickwise.observability.buffers import Buffer
from tickwise.ports.board import Board
from tickwise.ports.broker import REQUESTS, Broker
from tickwise.ports.calendars import CalendarReader
from tickwise.ports.identity import Keys
from tickwise.ports.runner import ScriptCheck, TaskKind
from tickwise.ports.signing import Signer
from tickwise.roles.shared.group_send import Sender
from tickwise.roles.shared.membership import RoleFacts, roll_of


class Control:
    """Everything that people and programs ask of Tickwise, as services: `control.jobs.pause(...)`. Start it before the
    first submit, stop it after the last."""

    name = "control"

    def __init__(
        self,
        context: ControlContext,
        *,
        keys: Keys,
        kinds: Mapping[str, TaskKind],
        calendars: CalendarReader,
        counters: Counters | None = None,
        broker: Broker | None = None,
        signer: Signer | None = None,
        board: Board | None = None,
        roll: Board | None = None,
        group_commit: GroupCommit | None = None,
        scripts: ScriptCheck | None = None,
        source_bytes_most: int = MAX_SOURCE_BYTES,
    ) -> None:
        """`kinds` by their name. With `broker`, requests are buffered: a request that goes through it is answered once
        the broker has it; `signer` signs requests, and `board` tells other processes of them. `roll` is the board on
        which roles say that they are active. `scripts` looks at the syntax of scripts; None: nothing does.
        `source_bytes_most`: how long a script in a job may be."""
        self.context = context
        self.clock = context.clock
        self._kinds = kinds
        self._roll = roll
        self._scripts = scripts
        check = TaskCheck(kinds, scripts=scripts, source_bytes_most=source_bytes_most)
        composer = JobComposer(context, check)
        submissions = Submissions(context, composer, counters=counters, group_commit=group_commit)
        breaker = None if broker is None else StoreCircuitBreaker(context.clock)
        self.jobs = JobService(context, composer, submissions)
        self.schedules = ScheduleService(context)
        self.calendars = CalendarService(context, calendars)
        self.letters = LetterService(context)
        self.runs = RunService(context, self.letters)
        self.queues = QueueService(context)
        self.explain = ExplainService(context)
        self.bulk = OperationService(context)
        self.tasks = TaskService(context, check)
        self.keys = KeyService(context, keys, breaker)
        self.receipts = ReceiptService(context)
        self.buffered = BufferedService(self.bulk)
        if broker is not None and breaker is not None:
            ingest = BufferedIngest(
                context,
                composer=composer,
                jobs=self.jobs,
                breaker=breaker,
                sender=Sender(broker, REQUESTS, context.clock, room=submissions.room),
                broker=broker,
                signer=signer,
                board=board,
            )
            reads = PendingReads(context, ingest=ingest, operations=self.bulk, breaker=breaker)
            self.buffered = BufferedService(self.bulk, ingest, reads)

    @property
    def task_kinds(self) -> Collection[TaskKind]:
        """The kinds of tasks that are known here, for the description of the API."""
        return self._kinds.values()

    async def start(self) -> None:
        """Begin to take jobs."""
        await self.jobs.start()
        await self.buffered.start()

    async def roles(self) -> Sequence[RoleFacts]:
        """The roles that are active, as they say. Raises `Unavailable` if that cannot be read."""
        return [] if self._roll is None else await roll_of(self._roll)

    def buffers(self) -> Mapping[str, Buffer]:
        """What waits to be written, for the metrics."""
        return {**self.jobs.buffers(), **self.buffered.buffers()}

    async def drain(self) -> None:
        """Write what waits."""
        try:
            await self.buffered.stop()
        finally:
            await self.jobs.stop()
            await self.keys.stop()

    async def stop(self) -> None:
        """Write what waits, take nothing more."""
        try:
            await self.drain()
        finally:
            if self._scripts is not None:
                await self._scripts.close()
