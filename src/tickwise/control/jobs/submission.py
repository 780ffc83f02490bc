"""Taking jobs in: one at a time through the group commit, or many in one transaction.

With a receipt (an Idempotency-Key), the answer is stored with the effect. So it is foretold: the jobs are written
only if every one of them will be taken; where one is not, the answer is made anew without it and the write repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import JobBody
from tickwise.control.context import Core, ReceiptFor, ring_for
from tickwise.control.jobs.composing import Composed, Scene, compose
from tickwise.control.jobs.rechecking import Named, is_usual, named, read, rechecked
from tickwise.control.jobs.successors import NOTHING, listed, look
from tickwise.control.tasks import Findings, TaskCheck
from tickwise.control.turns import Turns
from tickwise.domain.errors import Busy, Conflict, Invalid, Refused
from tickwise.domain.model import Principal
from tickwise.ports.store import Added, NewJob, Replay, StoredTask, no_lane

FORETELLINGS_MAX: Final = 5


class Submitted(NamedTuple):
    """A job that is stored."""

    job_id: UUID
    warnings: tuple[str, ...] = ()


Verdict = Submitted | Refused


class Submits(Core):
    """`submit` and `submit_many`."""

    _check_task: TaskCheck

    async def submit(
        self, who: Principal, body: JobBody, receipt_for: ReceiptFor[Submitted] | None = None
    ) -> Submitted | Replay:
        """Store one job; returns when it is durable. Raises `Refused` kinds, `Busy`, `StoreUnavailable`, `InDoubt`."""
        scene = self._usual_scene(body)
        if scene is None:
            scripts = await self._scripts_of((body,))
            scene = (await self._scene(who, (body,)))._replace(scripts=scripts)
        try:
            composed = compose(who, body, scene, self._check_task, self._clock.noise(10))
        except Invalid as refusal:
            composed = await self._repeated(who, body, scene, refusal)
        job = composed.job
        submitted = Submitted(job.job_id, composed.warnings)
        if receipt_for is None:
            added = await self._gatherer.put(job)
        else:
            receipt = receipt_for(submitted)
            with self._gatherer.room.taken((job,)):
                results = await self._surely(lambda: self._store.jobs_add_all((job,), receipt))
            if isinstance(results, Replay):
                return results
            added = results[0]
            self._stored((job,))
        refused = refusal_of(added, job)
        if refused is not None:
            raise refused
        return submitted

    async def submit_many(
        self,
        who: Principal,
        bodies: Sequence[JobBody | Refused],
        *,
        atomic: bool = False,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None = None,
    ) -> Sequence[Verdict] | Replay:
        """Store all that can be stored in one transaction; with `atomic`, all or none.

        Bodies that could not even be read are handed in as their refusals, so that the answer keeps their places.
        An atomic batch with a refusal in it stores nothing; its answer tells what is wrong with which.
        """
        verdicts, jobs = await self._composed(who, bodies)
        if atomic and len(jobs) < len(verdicts):
            return verdicts
        if atomic or receipt_for is not None:
            return await self._all_or_told(verdicts, jobs, atomic=atomic, receipt_for=receipt_for)
        places = list(jobs)
        if places:
            chosen = [jobs[place] for place in places]
            with self._gatherer.room.taken(chosen):
                results = await self._surely(lambda: self._store.jobs_add(chosen))
            if not isinstance(results, Replay):
                _tell(verdicts, jobs, zip(places, results, strict=True))
            self._stored(chosen)
        return verdicts

    async def _composed(
        self, who: Principal, bodies: Sequence[JobBody | Refused]
    ) -> tuple[list[Verdict], dict[int, NewJob]]:
        """A verdict for each body, and the jobs to store by their place."""
        readable = [body for body in bodies if isinstance(body, JobBody)]
        scripts = await self._scripts_of(readable)
        scene = (await self._scene(who, readable))._replace(scripts=scripts)
        verdicts: list[Verdict] = []
        jobs: dict[int, NewJob] = {}
        turns = Turns(self._clock)
        for place, body in enumerate(bodies):
            if turns.is_over(size_of(body)):
                await turns.give()
            if isinstance(body, Refused):
                verdicts.append(body)
                continue
            try:
                try:
                    composed = compose(who, body, scene, self._check_task, self._clock.noise(10))
                except Invalid as refusal:
                    composed = await self._repeated(who, body, scene, refusal)
            except Refused as refusal:
                verdicts.append(refusal)
                continue
            jobs[place] = composed.job
            verdicts.append(Submitted(composed.job.job_id, composed.warnings))
        return verdicts, jobs

    async def _all_or_told(
        self,
        verdicts: list[Verdict],
        jobs: dict[int, NewJob],
        *,
        atomic: bool,
        receipt_for: ReceiptFor[Sequence[Verdict]] | None,
    ) -> Sequence[Verdict] | Replay:
        for _ in range(FORETELLINGS_MAX):
            chosen = list(jobs.values())
            receipt = receipt_for(verdicts) if receipt_for is not None else None
            with self._gatherer.room.taken(chosen):
                results = await self._surely(lambda: self._store.jobs_add_all(chosen, receipt))  # noqa: B023 - awaited within the turn
            if isinstance(results, Replay):
                return results
            taken = {place for place, result in zip(jobs, results, strict=True) if refusal_of(result, jobs[place])}
            if not taken:
                self._stored(chosen)
                return verdicts
            _tell(verdicts, jobs, zip(list(jobs), results, strict=True))
            if atomic:
                return verdicts
            jobs = {place: job for place, job in jobs.items() if place not in taken}
        raise Busy("others took the keys or ids of this batch while it was written; send it again")

    def _usual_scene(self, body: JobBody) -> Scene | None:
        """`_scene` of a job that names nothing that is stored, while what is known beside it is fresh: asks nobody."""
        if body.task_id or body.calendars or body.then or body.on_failure:
            return None
        if body.task is not UNSET and self._check_task.needs_look(bytes(body.task)):
            return None
        now, offered = self._time.fresh(), self._living.fresh_functions()
        return None if now is None or offered is None else Scene(now, {}, offered, serving=self._living.serving())

    async def _scene(self, who: Principal, bodies: Sequence[JobBody]) -> Scene:
        tasks: dict[str, StoredTask] = {}
        for task_id in {body.task_id for body in bodies if body.task_id}:
            found = None
            if "\0" not in task_id:
                found = await self._store.task_get(who.namespace, task_id)
            if found is not None:
                tasks[task_id] = found
        named = {use.name for body in bodies if body.calendars for use in body.calendars}
        calendars = await self._calendars_known(who.namespace, named) if named else frozenset()
        names = [
            name
            for body in bodies
            if body.then or body.on_failure
            for name in (*listed(body.then), *listed(body.on_failure))
        ]
        following = await look(self._store, who.namespace, names) if names else NOTHING
        now, offered = await self._time.now(), await self._living.functions()
        return Scene(now, tasks, offered, calendars, following, serving=self._living.serving())

    async def _scripts_of(self, bodies: Sequence[JobBody]) -> Findings:
        """What a look at the scripts in the bodies came to. Returns within seconds."""
        tasks = (bytes(body.task) for body in bodies if body.task is not UNSET)
        return await self._check_task.scripts_looked_at(tasks, Turns(self._clock))

    async def _repeated(self, who: Principal, body: JobBody, scene: Scene, refusal: Invalid) -> Composed:
        """A create that is repeated after its time has passed is still the same create: compose it as it was then.

        Raises the refusal if no job of this id was ever stored.
        """
        at = body.schedule_time or body.at
        if body.job_id and at and refusal.pointer in ("/schedule_time", "/at"):
            row = await self._store.job_get(who.namespace, body.job_id)
            if row is not None:
                then = scene._replace(now=row.created_at)
                return compose(who, body, then, self._check_task, self._clock.noise(10))
        raise refusal

    async def recheck(self, job: NewJob, accepted: float) -> NewJob:
        """A job that was composed elsewhere and accepted at this time, checked and composed as if here. Raises
        `Invalid` and `StoreUnavailable`. One that is stored by now was checked then: what it names may be gone
        meanwhile."""
        try:
            definition = read(job)
            if is_usual(job, definition, accepted, self._check_task):
                return job
            scene = Scene(accepted, {}, frozenset())
            names = named(definition)
            if names is not None:
                scene = await self._scene_named(job.namespace, names, accepted)
            return rechecked(job, definition, scene, self._check_task)
        except Invalid:
            if await self._store.job_get(job.namespace, job.job_id) is not None:
                return job
            raise

    async def _scene_named(self, namespace: str, names: Named, accepted: float) -> Scene:
        """What a definition names, as far as it is there."""
        tasks: dict[str, StoredTask] = {}
        if names.task is not None:
            found = await self._store.task_get(namespace, *names.task) if "\0" not in names.task[0] else None
            tasks = {} if found is None else {found.task_id: found}
        calendars = await self._calendars_known(namespace, names.calendars) if names.calendars else frozenset()
        following = await look(self._store, namespace, names.successors) if names.successors else NOTHING
        return Scene(accepted, tasks, frozenset(), calendars, following)

    async def store_accepted(self, jobs: Sequence[NewJob]) -> Sequence[Added]:
        """Store what was composed and accepted before, as far as it can be. Raises `Unavailable` kinds; `Conflict` if
        one of them cannot be stored in any way, and then none is."""
        await self._time.now()  # what follows the commit goes by it, and asks nobody
        added = await self._surely(lambda: self._store.jobs_add(jobs))
        if isinstance(added, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        self._stored([job for job, result in zip(jobs, added, strict=True) if result is Added.CREATED])
        return added

    def _stored(self, jobs: Sequence[NewJob]) -> None:
        """Tell of what is committed. Asks nobody and cannot fail: it would make a failure of a success."""
        ring_for(self._signals, jobs, self._time.known(), self._near_seconds, self._announcer)
        if self._counters is not None:
            self._counters.submitted(len(jobs))


def size_of(body: JobBody | Refused) -> int:
    """The bytes in a body that take time: what its author may make long."""
    if isinstance(body, Refused):
        return 0
    return sum(len(bytes(part)) for part in (body.task, body.payload, body.params) if isinstance(part, msgspec.Raw))


def _tell(verdicts: list[Verdict], jobs: dict[int, NewJob], results: Iterable[tuple[int, Added]]) -> None:
    """Write what the store refused into the answer."""
    for place, added in results:
        refused = refusal_of(added, jobs[place])
        if refused is not None:
            verdicts[place] = refused


def refusal_of(added: Added, job: NewJob) -> Conflict | None:
    """Why the store did not take a job; None: it did."""
    if added is Added.ID_TAKEN:
        return id_taken(job.job_id)
    if added is Added.NO_LANE:
        return no_lane(job.namespace)
    return key_taken(str(job.key)) if added is Added.KEY_TAKEN else None


def id_taken(job_id: UUID) -> Conflict:
    """The refusal of an id that stands for another body."""
    return Conflict(
        f"job_id {job_id} was used for another job before; choose another",
        pointer="/job_id",
        code=Added.ID_TAKEN.value,
    )


def key_taken(key: str) -> Conflict:
    """The refusal of a key that another job has."""
    return Conflict(
        f"the key {key!r} belongs to another job; change that one with PUT /api/v1/jobs/by-key/…",
        pointer="/key",
        code=Added.KEY_TAKEN.value,
    )
