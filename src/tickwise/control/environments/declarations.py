"""Notes the environments that stored jobs and tasks declare, so that executors build them before a run is due.

    job or task stored ──► note ──► (in the background) its task read, its script if that lies apart
                                       └──► a declaration that is new here ──► store.environments.declare ──► ring

After the write, and never a part of it: what is lost here costs a build at the first run. A million jobs with one
declaration cost one row, and each of them a look at its text. Invariant: what waits is bounded in number and bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import structlog

from tickwise.control.context import ControlContext
from tickwise.control.turns import Turns
from tickwise.documents.definition import decode_definition
from tickwise.domain.errors import Invalid, NotFound, Unavailable
from tickwise.domain.model import Lane
from tickwise.domain.rules.confinement import is_plain_lane
from tickwise.domain.schedule import ScheduleType
from tickwise.observability.tasks import end_tasks
from tickwise.ports.blobs import read_script
from tickwise.ports.environments import EnvironmentDemand
from tickwise.ports.runner import KindWithEnvironments, TaskKind
from tickwise.ports.signals import Topic
from tickwise.ports.store import JobChange, JobRow, NewJob, StoredTask
from tickwise.ports.store.environments import DeclaredEnvironment, EnvironmentFault

MAX_WAITING: Final = 2_000
MAX_WAITING_CHARACTERS: Final = 16 << 20
"""Jobs that wait to be looked at, and the length of their definitions; of more, those that wait longest are dropped."""
BATCH: Final = 100
AGAIN_SECONDS: Final = 3_600.0
"""A declaration that was noted is noted again after so long at the earliest."""
MAX_REMEMBERED: Final = 10_000

logger = structlog.get_logger("tickwise.control")


class _Waiting(NamedTuple):
    """A job or a task that was stored."""

    namespace: str
    text: str
    is_task: bool
    """The text is a task's; else the definition of a job."""
    lane: Lane
    job_id: UUID | None


class EnvironmentDeclarations:
    """The environments that stored jobs declare. For one event loop."""

    def __init__(self, context: ControlContext, kinds: Mapping[str, TaskKind]) -> None:
        self._context = context
        self._kinds = {name: kind for name, kind in kinds.items() if isinstance(kind, KindWithEnvironments)}
        self._waiting: deque[_Waiting] = deque()
        self._characters = 0
        self._working: asyncio.Task[None] | None = None
        self._demands: dict[bytes, EnvironmentDemand | None] = {}
        """By the digest of namespace and task."""
        self._noted: dict[DeclaredEnvironment, float] = {}
        """Without their jobs; the times at which they were noted, on the monotonic clock."""

    def note_jobs(self, jobs: Iterable[NewJob]) -> None:
        """Jobs that were stored. Calls no service and cannot fail."""
        for job in jobs:
            # An immediate run builds for itself: a build ahead of it would only be slower.
            if job.task_kind in self._kinds and job.schedule_type != ScheduleType.IMMEDIATE.value:
                self._put(_Waiting(job.namespace, job.definition, False, job.lane, job.job_id))

    def note_change(self, changed: JobChange | JobRow) -> None:
        """A job that was changed, or is in another namespace now. Calls no service and cannot fail."""
        if changed.task_kind in self._kinds:
            self._put(_Waiting(changed.namespace, changed.definition, False, changed.lane, changed.job_id))

    def note_task(self, stored: StoredTask) -> None:
        """A task that was stored, for jobs of the default queue. Calls no service and cannot fail."""
        self._put(_Waiting(stored.namespace, stored.task, True, Lane(), None))

    def _put(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self._characters += len(waiting.text)
        while len(self._waiting) > MAX_WAITING or self._characters > MAX_WAITING_CHARACTERS:
            self._characters -= len(self._waiting.popleft().text)
        if self._working is None:
            self._working = asyncio.get_running_loop().create_task(self._work())
            self._working.add_done_callback(self._worked)

    def _worked(self, _task: asyncio.Task[None]) -> None:
        self._working = None

    async def settle(self) -> None:
        """Wait until nothing waits."""
        while self._working is not None:
            await asyncio.wait({self._working})

    async def stop(self) -> None:
        """Drop what waits."""
        self._waiting.clear()
        if self._working is not None:
            await end_tasks([self._working])

    async def _work(self) -> None:
        turns = Turns(self._context.clock)
        while self._waiting:
            found = []
            for _ in range(min(BATCH, len(self._waiting))):
                if not self._waiting:
                    break
                waiting = self._waiting.popleft()
                self._characters -= len(waiting.text)
                declared = await self._declared(waiting)
                if declared is not None and self._is_new(declared):
                    found.append(declared)
                if turns.is_over(len(waiting.text)):
                    await turns.give()
            if found:
                await self._declare(found)

    async def _declare(self, found: Sequence[DeclaredEnvironment]) -> None:
        try:
            await self._context.store.environments.declare(found)
        except Unavailable as away:
            logger.info("environments_not_declared", count=len(found), detail=away.detail)
            return
        now = self._context.clock.monotonic()
        if len(self._noted) > MAX_REMEMBERED:
            self._noted.clear()
        self._noted.update((each._replace(job_id=None), now) for each in found)
        self._context.signals.send(Topic.ENVIRONMENTS)

    def _is_new(self, declared: DeclaredEnvironment) -> bool:
        noted = self._noted.get(declared._replace(job_id=None))
        return noted is None or self._context.clock.monotonic() - noted > AGAIN_SECONDS

    async def _declared(self, waiting: _Waiting) -> DeclaredEnvironment | None:
        text = waiting.text.encode() if waiting.is_task else bytes(decode_definition(waiting.text).task)
        demand = await self._demand(waiting.namespace, text)
        if demand is None:
            return None
        # The jobs that will name a stored task say later how they run: nothing of its packages runs before.
        demand = demand._replace(from_source=not waiting.is_task and is_plain_lane(waiting.lane.requires))
        requires = tuple(sorted(label for label in waiting.lane.requires if ":" not in label))
        return DeclaredEnvironment(demand, waiting.lane.queue, requires, waiting.job_id)

    async def _demand(self, namespace: str, text: bytes) -> EnvironmentDemand | None:
        """The environment that a checked task declares. Remembered: many jobs have one task."""
        place = sha256(namespace.encode() + b"\0" + text).digest()
        if place in self._demands:
            return self._demands[place]
        task: dict[str, Any] = msgspec.json.decode(text)
        kind = self._kinds.get(task["kind"])
        demand = None
        if kind is not None:
            try:
                script = await self._script(namespace, task)
                demand = kind.environment_of(namespace, task, script)
            except (Invalid, NotFound):
                return None  # its run says so
            except Unavailable:
                return None
        if len(self._demands) >= MAX_REMEMBERED:
            self._demands.clear()
        self._demands[place] = demand
        return demand

    async def _script(self, namespace: str, task: Mapping[str, Any]) -> str | None:
        """The script of a task that names a stored one; None: it holds it itself."""
        file = task.get("file")
        if not isinstance(file, str):
            return None
        content = await read_script(self._context.blobs, namespace, file.removeprefix("sha256:"))
        return content.decode(errors="replace")

    async def fault(self, row: JobRow) -> EnvironmentFault | None:
        """The failed build, if one is on record, of the environment that a job declares. Raises `StoreUnavailable`."""
        if row.task_kind not in self._kinds:
            return None
        demand = await self._demand(row.namespace, bytes(decode_definition(row.definition).task))
        if demand is None:
            return None
        demand = demand._replace(from_source=is_plain_lane(row.lane.requires))
        return await self._context.store.environments.fault(demand)
