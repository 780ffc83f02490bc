"""Runs attempts in containers of their own: tasks of the kind `container`, and scripts whose job says so.

    image ──► create ──► put files ──► start ──► follow its output ──► end ──► result ──► remove

An engine that is away before the start costs no attempt: the run is given back, and this executor offers no containers
until it answers. One that is away later is waited for: its containers may go on.

Invariant: a run has one container on an engine, by its name. What an earlier attempt left is removed before the next
one starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from tickwise.adapters.runner.container.causes import ContainerFault, ending_of, is_engines_own, start_fault
from tickwise.adapters.runner.container.composing import (
    TOKEN,
    container_config,
    environment_of,
    handed,
    labels_of,
)
from tickwise.adapters.runner.container.engine import CONFLICT, Engine, EngineAway, EngineFacts, EngineRefused
from tickwise.adapters.runner.container.following import ContainerEnd, Following
from tickwise.adapters.runner.container.handover import ARCHIVE_BYTES, RESULT, SYMPTOMS, packed, unpacked
from tickwise.adapters.runner.container.images import Images
from tickwise.adapters.runner.container.kind import OWN_FOLDER, ContainerKind
from tickwise.adapters.runner.container.script_text import contained_text
from tickwise.adapters.runner.container.sweep import SWEEP_SECONDS, Sweep
from tickwise.adapters.runner.process.outcome.task_end import ending_with
from tickwise.adapters.runner.process.start import TaskText
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.retry import ENGINE_AWAY, ISOLATION_MISSING, OUTCOME_LOST
from tickwise.domain.rules.confinement import CONTAINER_LABEL
from tickwise.ports.runner import Assignment, Ending, Reports, Verdict

AWAY_SECONDS: Final = 5.0
"""For so long, a run is another executor's whose engine was away."""
PING_SECONDS: Final = 1.0
FIRST_ANSWER_SECONDS: Final = 5.0
MAX_KILL_SECONDS: Final = 20.0
"""After the KILL: the longest that an end is waited for, also of an engine that is away."""
SHUT_DOWN_SECONDS: Final = 3.0
"""An engine that has ended its containers is gone by then."""
SHUT_DOWN_LOOK_SECONDS: Final = 0.1
MAX_SYMPTOMS_BYTES: Final = 16 << 10
CREATE_TRIES: Final = 20
CREATE_PAUSE_SECONDS: Final = 0.1

_logger = logging.getLogger(__name__)


class ContainerRunner(SlotRunner):
    """The runner of the kind `container`, and of scripts in containers. Without an engine it offers nothing."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings, (ContainerKind(),))
        self._policy = settings.containers
        self._engine: Engine | None = None
        self._images: Images
        self._facts: EngineFacts | None = None
        self._executor = ""
        self._offered = (*self._labels, CONTAINER_LABEL)
        self._watching: asyncio.Task[None] | None = None
        self._is_up = asyncio.Event()

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Raises `Misconfigured` if the library is not installed, or the address of the engine is none."""
        await super().start(reports, now)
        if self._policy is None:
            return
        self._executor = self._settings.clock.random_bytes(10).hex()
        self._engine = Engine(self._policy.engine)
        self._images = Images(self._engine, self._policy)
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._engine))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_SECONDS):
                await self._is_up.wait()

    async def release_resources(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    def labels(self) -> Sequence[str]:
        return self._offered if self._is_up.is_set() else ()

    # ---------------------------------------------------------------------------------------- engine

    async def _watch(self, engine: Engine) -> None:
        """Ask the engine who it is, and sweep, for as long as this runner lives."""
        assert self._policy is not None
        sweep = Sweep(engine, self._policy, self._executor)
        clock = self._settings.clock
        swept = -SWEEP_SECONDS
        while True:
            try:
                self._facts = await engine.facts()
                self._is_up.set()
                if clock.monotonic() - swept >= SWEEP_SECONDS:
                    swept = clock.monotonic()
                    await sweep.once(self._own())
            except EngineAway as away:
                self._is_down(str(away))
            except Exception:  # the watch goes on after any answer
                _logger.exception("the look at the container engine failed")
            await clock.sleep(PING_SECONDS)

    def _is_down(self, why: str) -> None:
        if self._is_up.is_set():
            _logger.warning("the container engine is away: %s", why)
        self._is_up.clear()

    def _own(self) -> frozenset[tuple[UUID, int]]:
        return frozenset((each.assignment.run_id, each.assignment.token) for each in self._attempts.values())

    def _lack(self, assignment: Assignment) -> str | None:
        """The limit that this engine cannot hold a task to."""
        facts, limits = self._facts, assignment.limits
        if self._engine is None or facts is None:
            return "this executor has no container engine: TICKWISE_CONTAINER_ENGINE"
        if limits.memory_bytes is not None and not facts.limits_memory:
            return "the container engine of this executor cannot limit memory"
        if limits.processes is not None and not facts.limits_processes:
            return "the container engine of this executor cannot limit processes"
        if assignment.task.get("cpus") is not None and not facts.limits_cpu:
            return "the container engine of this executor cannot limit processors"
        return None

    # ---------------------------------------------------------------------------------------- one attempt

    async def perform(self, attempt: Attempt) -> Ending:
        lack = self._lack(attempt.assignment)
        if lack is not None:
            return self._given_back(ISOLATION_MISSING, lack)
        engine = self._engine
        assert engine is not None
        making = asyncio.get_running_loop().create_task(self._made(attempt, engine))
        signs: set[asyncio.Future[Any]] = {making, attempt.trouble}
        await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
        made: str | Ending | None = None
        try:
            if not making.done():
                making.cancel()
                await asyncio.gather(making, return_exceptions=True)
                now = self._now()
                return Ending(Verdict.RELEASED, now, now)
            made = making.result()
            return made if isinstance(made, Ending) else await self._run(attempt, engine, made)
        except EngineAway as away:
            self._is_down(str(away))
            return self._given_back(ENGINE_AWAY, f"the container engine is away: {away}")
        finally:
            await self._removed(engine, attempt.assignment, made if isinstance(made, str) else None)

    def _given_back(self, reason: str, why: str) -> Ending:
        now = self._now()
        return Ending(Verdict.UNOFFERED, now, now, reason, why, retry_after_seconds=AWAY_SECONDS)

    async def _removed(self, engine: Engine, assignment: Assignment, container: str | None) -> None:
        """Remove its own container, and never that of a later attempt, which has the same name. Where that fails, a
        sweep does it. `container`: None if it may be there, and its number is not known."""
        try:
            if container is None:
                found = await engine.found(name_of(assignment))
                if found is None or found.labels.get(TOKEN) != str(assignment.token):
                    return
                container = found.container_id
            await engine.remove(container)
        except (EngineAway, EngineRefused) as error:
            _logger.warning("the container of %s is not removed yet: %s", assignment.run_id, error)

    async def _made(self, attempt: Attempt, engine: Engine) -> str | Ending:
        """The number of its container, which has not started; or the end of the attempt. Raises `EngineAway`."""
        now = self._now()
        try:
            text = await contained_text(attempt.assignment, self._settings.blobs)
            return await self._created(attempt.assignment, engine, text)
        except ContainerFault as fault:
            return Ending(fault.verdict, now, self._now(), fault.reason, fault.error)
        except (NotFound, Invalid) as refused:
            return Ending(Verdict.INVALID, now, self._now(), "invalid", refused.detail)
        except EngineRefused as refused:
            cause = start_fault(refused.status, refused.message)
            return Ending(cause.verdict, now, self._now(), cause.reason, cause.error)

    async def _created(self, assignment: Assignment, engine: Engine, text: TaskText) -> str:
        policy = self._policy
        assert policy is not None
        task = assignment.task
        image = task["image"] if task["kind"] == "container" else assignment.confinement.container_image
        if not image:
            raise Invalid("its job says isolation container and names no image (container_image)")
        found = await self._images.image_for(image, task.get("pull", "missing"))
        given = handed(assignment, text)
        passed = {name: os.environ[name] for name in self._settings.pass_environment if name in os.environ}
        environment = environment_of(assignment, passed)
        labels = labels_of(assignment, policy, self._executor)
        config = container_config(assignment, found, given, policy, environment, labels)
        container = await self._one_of_run(assignment, engine, config)
        await engine.put(container, OWN_FOLDER, packed(given.files))
        return container

    async def _one_of_run(self, assignment: Assignment, engine: Engine, config: Any) -> str:
        """Make the only container of a run. Raises `ContainerFault` if a later attempt has one."""
        name = name_of(assignment)
        for _ in range(CREATE_TRIES):
            try:
                return await engine.create(name, config)
            except EngineRefused as refused:
                if refused.status != CONFLICT and "already in use" not in refused.message:
                    raise
            found = await engine.found(name)
            if found is not None:
                if int(found.labels.get(TOKEN, "0")) >= assignment.token:
                    raise ContainerFault("not_started", "a later attempt of its run has a container", Verdict.RELEASED)
                await engine.remove(found.container_id)
            await self._settings.clock.sleep(CREATE_PAUSE_SECONDS)
        raise ContainerFault("not_started", "the container of an earlier attempt cannot be removed", Verdict.FAILED)

    async def _run(self, attempt: Attempt, engine: Engine, container: str) -> Ending:
        """Start it, and see it to its end."""
        attempt.started = self._now()
        try:
            await engine.start(container)
        except EngineRefused as refused:
            fault = start_fault(refused.status, refused.message)
            return Ending(fault.verdict, attempt.started, self._now(), fault.reason, fault.error)
        except EngineAway as away:
            self._is_down(str(away))  # it may have started: that is found out when the engine is back
        self._reports.began(attempt.assignment.run_id, attempt.started)
        following = Following(engine, self._settings.clock, container, attempt, self._settings.kill_grace_seconds)
        end = await self._until_end(attempt, engine, container, following)
        return await self._judge(attempt, engine, container, end)

    async def _until_end(
        self, attempt: Attempt, engine: Engine, container: str, following: Following
    ) -> ContainerEnd | None:
        """Its end, by itself or as it is asked to; None: it could not be ended, for the engine does not answer."""
        loop, settings, limits = asyncio.get_running_loop(), self._settings, attempt.assignment.limits
        seconds = attempt.assignment.timeout_seconds
        deadline = seconds and loop.call_later(seconds, attempt.end_early, "timeout", settings.kill_grace_seconds)
        end = loop.create_task(following.end())
        watch = None if limits.cpu_seconds is None else loop.create_task(following.watch_processor(limits.cpu_seconds))
        try:
            signs: set[asyncio.Future[Any]] = {end, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await self._signalled(engine, container, "SIGTERM")
                signs = {end, attempt.hurry}
                await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await self._signalled(engine, container, "SIGKILL")
                await asyncio.wait({end}, timeout=MAX_KILL_SECONDS)
            return end.result() if end.done() else None
        finally:
            if deadline:
                deadline.cancel()
            for task in (end, watch):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def _signalled(self, engine: Engine, container: str, signal: str) -> None:
        """Send a signal; an engine that is away cannot pass it on."""
        try:
            async with asyncio.timeout(MAX_KILL_SECONDS):
                await engine.kill(container, signal)
        except (EngineAway, EngineRefused, TimeoutError) as error:
            _logger.warning("%s did not reach the container %s: %s", signal, container, error)

    # ---------------------------------------------------------------------------------------- judge

    async def _judge(self, attempt: Attempt, engine: Engine, container: str, end: ContainerEnd | None) -> Ending:
        ended, facts = self._now(), self._facts
        assert facts is not None
        if attempt.trouble.done():
            return attempt.ending_for(attempt.trouble.result(), attempt.started, ended)
        if end is None or end.state is None:
            why = "its container was removed by somebody else"
            return Ending(Verdict.UNKNOWN, attempt.started, ended, OUTCOME_LOST, why)
        if not end.state.has_begun:
            return self._given_back(ENGINE_AWAY, "the container engine went away before it started the container")
        if end.state.error and not attempt.sink.kept_bytes and end.state.exit_code:
            fault = start_fault(500, end.state.error)
            return Ending(fault.verdict, attempt.started, ended, fault.reason, fault.error)
        was_away = end.was_away or (is_engines_own(end.state, facts) and await self._goes_away(engine))
        ending = ending_of(attempt, end.state, facts, ended, was_away=was_away)
        if ending.verdict is Verdict.OK:
            return await self._with_result(attempt, engine, container, ending)
        if ending.reason == "exit_code" and attempt.assignment.names_errors:
            noted = await self._left(engine, container, SYMPTOMS, MAX_SYMPTOMS_BYTES)
            names = (noted or b"").decode(errors="replace").split()
            return ending._replace(symptoms=(*ending.symptoms, *names))
        return ending

    async def _goes_away(self, engine: Engine) -> bool:
        """Check whether the engine is on its way down: it ends its containers first, and answers meanwhile."""
        clock = self._settings.clock
        until = clock.monotonic() + SHUT_DOWN_SECONDS
        while clock.monotonic() < until:
            try:
                await engine.facts()
            except (EngineAway, EngineRefused):
                return True
            await clock.sleep(SHUT_DOWN_LOOK_SECONDS)
        return False

    async def _with_result(self, attempt: Attempt, engine: Engine, container: str, ending: Ending) -> Ending:
        most = self._settings.result_limit_bytes
        result = await self._left(engine, container, RESULT, most + 1)
        return ending if result is None else ending_with(attempt, result, ending.ended, most=most)

    async def _left(self, engine: Engine, container: str, path: str, most: int) -> bytes | None:
        """The begin of a file that the task has written; None: it wrote none. An engine that is away is waited for."""
        while True:
            try:
                archive = await engine.file(container, path, most + ARCHIVE_BYTES)
                break
            except EngineAway:
                if self._closing:
                    return None
                await self._settings.clock.sleep(PING_SECONDS)
        if archive is None:
            return None
        file = unpacked(archive, most)
        if file is None:
            return None
        return file.content if file.is_whole else b" " * most


def name_of(assignment: Assignment) -> str:
    """The name of the only container of a run."""
    return f"tickwise-{assignment.run_id}"
