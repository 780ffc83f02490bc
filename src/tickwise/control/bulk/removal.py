"""One page of the removal of a namespace: the first step of these that has something to do.

    1 cancel the jobs that have something to come          5 delete all else of it in the store
    2 stop the runs that are left, and wait for them       6 delete its scripts
    3 delete the logs of runs that ended,                  7 let its name go, if nothing came meanwhile:
    4 and then the runs                                      else begin with 1

Invariant: each step does what is left of it, so a page may be repeated at any point: after a crash, by two schedulers
at once. A log goes before the run that names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from tickwise.control.context import ControlContext
from tickwise.control.filters import UNFINISHED
from tickwise.control.jobs.moves import JobMoves
from tickwise.control.runs.cancels import cancel_run
from tickwise.documents.artefacts import artefacts_folder
from tickwise.domain.errors import NotFound, Refused
from tickwise.domain.model import Principal
from tickwise.ports.blobs import logs_folder, scripts_folder
from tickwise.ports.store import NO_TEXT, RunQuery

WAIT_SECONDS: Final = 1.0
"""Between two looks at runs that have yet to stop, and at a removal that is too young to end."""
AT_ONCE: Final = 16
"""The most cancels of a page that are under way at the same time."""
LAST_ID: Final = UUID(int=(1 << 128) - 1)
REMOVER: Final = "tickwise"
"""The name under which jobs and runs are cancelled."""


class NamespaceRemoval:
    """Carries out removals."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context
        self._moves = JobMoves(context)
        self._cancelled: dict[str, UUID] = {}
        """The jobs of a namespace up to this one are cancelled. Nothing new comes, so none is looked at twice; another
        process begins with the first."""
        self._asked: dict[str, UUID] = {}
        """The runs of a namespace from this one on were asked to stop; the next page is of earlier ones."""

    async def page(self, name: str, size: int) -> float | None:
        """Carry out the next page of up to `size` things. In how many seconds the next one is to be tried; None: the
        namespace is gone. Raises `Unavailable`: carry it out again later."""
        who, store = Principal(REMOVER, name, frozenset()), self._context.store
        if await self._cancel_jobs(who, size):
            return 0.0
        if await self._stop_runs(who, size):
            return WAIT_SECONDS
        ended = await store.searches.runs(RunQuery(namespace=name, limit=size, texts=NO_TEXT))
        if ended:
            ids = [run.run_id for run in ended]
            await self._drop_logs(ids)
            await store.removals.drop_runs(name, ids)
            return 0.0
        if await store.removals.drop(name, size):
            return 0.0
        await self._drop_folder(scripts_folder(name))
        over = await store.removals.end(name)
        self._cancelled.pop(name, None)  # what is left, if anything, may be a job
        return None if over else WAIT_SECONDS

    async def _cancel_jobs(self, who: Principal, size: int) -> bool:
        """Cancel the jobs of a page; False if none has anything to come."""
        name = who.namespace
        jobs = await self._context.store.removals.jobs(name, after=self._cancelled.get(name), limit=size)
        for first in range(0, len(jobs), AT_ONCE):
            await asyncio.gather(*(self._cancel_job(who, job_id) for job_id in jobs[first : first + AT_ONCE]))
        self._cancelled[name] = jobs[-1] if jobs else LAST_ID
        return bool(jobs)

    async def _cancel_job(self, who: Principal, job_id: UUID) -> None:
        with suppress(NotFound):  # another scheduler has dropped it
            await self._moves.cancel(who, job_id)

    async def _stop_runs(self, who: Principal, size: int) -> bool:
        """Ask a page of the runs that are left to stop, and with the next call the page after it; False if there is
        none. Those of executors that are gone end as they are found lost."""
        before = self._asked.pop(who.namespace, None)
        query = RunQuery(namespace=who.namespace, states=UNFINISHED, before=before, limit=size, texts=NO_TEXT)
        runs = await self._context.store.searches.runs(query)
        for run in runs:
            if run.cancel is None:
                with suppress(Refused):  # it ended meanwhile
                    await cancel_run(self._context, who, run.run_id)
        if len(runs) == size:
            self._asked[who.namespace] = runs[-1].run_id
        return bool(runs) or before is not None

    async def _drop_logs(self, run_ids: Sequence[UUID]) -> None:
        for run_id in run_ids:
            await self._drop_folder(logs_folder(run_id))
            await self._drop_folder(artefacts_folder(run_id))

    async def _drop_folder(self, folder: str) -> None:
        blobs = await self._context.blobs.list(folder)
        if blobs:
            await self._context.blobs.delete([blob.key for blob in blobs])
