"""From a body to the job that is stored: look up what it names, then compose.

JobBody ──► scene: what the store has of what it names ──► compose, pure ──► Composed
              └── nothing is named, and what is known beside it is fresh ──► no question at all
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from tickwise.control.access import check_labels
from tickwise.control.bodies import JobBody
from tickwise.control.context import ControlContext
from tickwise.control.jobs.composing import Composed, compose
from tickwise.control.jobs.identity import make_ready
from tickwise.control.jobs.named_secrets import may_be_told, missing_secrets
from tickwise.control.jobs.rechecking import NamedReferences, is_usual, named, read, rechecked
from tickwise.control.jobs.resolving import TASK_MISSING
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.successors import NOTHING, listed, look
from tickwise.control.rules import calendars_known, channels_known
from tickwise.control.tasks import Findings, TaskCheck
from tickwise.control.turns import Turns
from tickwise.domain.errors import Invalid
from tickwise.domain.model import Principal
from tickwise.ports.store import NewJob, StoredTask
from tickwise.roles.shared.served_queues import NOBODY


class JobComposer:
    """Composes jobs from bodies, with what the store has."""

    def __init__(self, context: ControlContext, check: TaskCheck) -> None:
        """`check` refuses tasks that cannot run."""
        self._context = context
        self.check = check

    def _usual_scene(self, who: Principal, body: JobBody) -> Scene | None:
        """`scene` of a job that names nothing that is stored, while what is known beside it is fresh: asks nobody."""
        if body.task_id or body.calendars or body.then or body.on_failure or body.notify or body.identity_token:
            return None
        if body.task is not UNSET:
            task = bytes(body.task)
            if self.check.needs_look(task) or may_be_told(who, (task,)):
                return None
        now, serving = self._context.time.fresh(), self._context.executors.fresh_serving()
        floor = self._context.floors.fresh(who.namespace)
        if now is None or serving is None or floor is None:
            return None
        return Scene(now, {}, serving, sandboxes=self._context.sandboxes, floor=floor)

    async def scene(self, who: Principal, bodies: Sequence[JobBody]) -> Scene:
        """Look up the objects that the bodies name. Raises `StoreUnavailable`."""
        tasks: dict[str, StoredTask] = {}
        for task_id in {body.task_id for body in bodies if body.task_id}:
            found = None
            if "\0" not in task_id:
                found = await self._context.store.tasks.get(who.namespace, task_id)
            if found is not None:
                tasks[task_id] = found
        named = {use.name for body in bodies if body.calendars for use in body.calendars}
        calendars = await calendars_known(self._context, who.namespace, named) if named else frozenset()
        told = {name for body in bodies if body.notify for name in body.notify}
        channels = await channels_known(self._context, who.namespace) if told else frozenset()
        names = [
            name
            for body in bodies
            if body.then or body.on_failure
            for name in (*listed(body.then), *listed(body.on_failure))
        ]
        following = await look(self._context.store.jobs, who.namespace, names) if names else NOTHING
        following = following.told_to(who.within)
        await make_ready(bodies, who.namespace, self.check.issuer)
        now, serving = await self._context.time.now(), await self._context.executors.serving()
        floor = await self._context.floors.of(who.namespace)
        known = Scene(now, tasks, serving, calendars, following, channels)
        inline = [bytes(body.task) for body in bodies if isinstance(body.task, msgspec.Raw)]
        if may_be_told(who, inline):
            known = known._replace(missing_secrets=await missing_secrets(self._context, who, inline))
        return known._replace(sandboxes=self._context.sandboxes, floor=floor)

    async def scripts_of(self, bodies: Sequence[JobBody]) -> Findings:
        """The findings on the scripts in the bodies. Returns within seconds."""
        tasks = (bytes(body.task) for body in bodies if body.task is not UNSET)
        return await self.check.scripts_looked_at(tasks, Turns(self._context.clock))

    async def look_up(self, who: Principal, bodies: Sequence[JobBody]) -> Scene:
        """`scene`, with the findings on the scripts in the bodies. Raises `StoreUnavailable`."""
        scripts = await self.scripts_of(bodies)
        return (await self.scene(who, bodies))._replace(scripts=scripts)

    async def compose(self, who: Principal, body: JobBody, scene: Scene | None = None) -> Composed:
        """The job of a body; without a scene, the objects that it names are looked up. A create that is repeated after
        its time has passed is composed as it was then. Raises `Invalid`, and `StoreUnavailable` if it looks up."""
        if scene is None:
            scene = self._usual_scene(who, body) or await self.look_up(who, (body,))
        try:
            return self.compose_now(who, body, scene)
        except Invalid as refusal:
            return await self.as_it_was(who, body, scene, refusal)

    def compose_now(self, who: Principal, body: JobBody, scene: Scene) -> Composed:
        """The job of a body at the time of the scene. Raises `Invalid`, and `Forbidden` for labels that the caller may
        not give."""
        check_labels(who, body.labels or {})
        return compose(who, body, scene, self.check, self._context.clock.random_bytes(10))

    async def as_it_was(self, who: Principal, body: JobBody, scene: Scene, refusal: Invalid) -> Composed:
        """A create that is repeated after its time has passed is still the same create: compose it as it was then.

        Raises the refusal if no job of this id was ever stored.
        """
        at = body.schedule_time or body.at
        if body.job_id and refusal.code == TASK_MISSING:
            # Its function was offered then.
            if await self._context.store.jobs.get(who.namespace, body.job_id) is not None:
                return self.compose_now(who, body, scene._replace(serving=NOBODY))
        elif body.job_id and at and refusal.pointer in ("/schedule_time", "/at"):
            row = await self._context.store.jobs.get(who.namespace, body.job_id)
            if row is not None:
                then = scene._replace(now=row.created_at)
                return self.compose_now(who, body, then)
        raise refusal

    async def recheck(self, job: NewJob, accepted: float) -> NewJob:
        """A job that was composed elsewhere and accepted at this time, checked and composed as if here. Raises
        `Invalid` and `StoreUnavailable`. One that is stored by now was checked then: what it names may be gone
        meanwhile."""
        try:
            definition = read(job)
            if is_usual(job, definition, accepted, self.check):
                return job
            scene = Scene(accepted, {})
            names = named(definition)
            if names is not None:
                scene = await self._scene_named(job.namespace, names, accepted)
            return rechecked(job, definition, scene, self.check)
        except Invalid:
            if await self._context.store.jobs.get(job.namespace, job.job_id) is not None:
                return job
            raise

    async def _scene_named(self, namespace: str, names: NamedReferences, accepted: float) -> Scene:
        """The objects that a definition names, as far as they exist."""
        tasks: dict[str, StoredTask] = {}
        if names.task is not None:
            found = await self._context.store.tasks.get(namespace, *names.task) if "\0" not in names.task[0] else None
            tasks = {} if found is None else {found.task_id: found}
        calendars = await calendars_known(self._context, namespace, names.calendars) if names.calendars else frozenset()
        following = await look(self._context.store.jobs, namespace, names.successors) if names.successors else NOTHING
        channels = await channels_known(self._context, namespace) if names.channels else frozenset()
        return Scene(accepted, tasks, calendars=calendars, successors=following, channels=channels)
