"""Runs attempts in containers of their own: tasks of the kind `container`, and scripts whose job says so.

    image ──► prepared image ──► create, or one of the warm pool ──► files ──► start, with its script said to it
          ──► follow its output ──► end ──► result, artefacts ──► remove

An engine that is away before the start costs no attempt: the run is given back, and this executor offers no containers
until it answers. One that is away later is waited for: its containers may go on.

Invariant: a run has one container on an engine that may start. Each container of an attempt is there, under its name,
before it looks for others of its run: an older one it removes, for a newer one it gives up. Of two attempts at once, at
least one sees the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from tickwise.adapters.runner.container.causes import ContainerFault, ending_of, is_engines_own, start_fault
from tickwise.adapters.runner.container.composing import (
    Handover,
    TaskStart,
    container_config,
    handover_of,
    reading,
    task_start,
    warm_handover_of,
)
from tickwise.adapters.runner.container.engine import (
    CONFLICT,
    ContainerState,
    Engine,
    EngineAway,
    EngineFacts,
    EngineRefused,
)
from tickwise.adapters.runner.container.following import ContainerEnd, Following
from tickwise.adapters.runner.container.handover import (
    ARCHIVE_BYTES,
    BEGUN,
    IDENTITY,
    RESULT,
    START,
    SYMPTOMS,
    packed,
    packed_token,
    unpacked,
)
from tickwise.adapters.runner.container.images import Images, exact_image
from tickwise.adapters.runner.container.kind import OWN_FOLDER, ContainerKind
from tickwise.adapters.runner.container.left_files import kept_files
from tickwise.adapters.runner.container.names import attempt_labels, attempt_name, executor_labels, owner_of
from tickwise.adapters.runner.container.pool import WarmPool
from tickwise.adapters.runner.container.prepared import PreparedImage, PreparedImages, is_image_missing
from tickwise.adapters.runner.container.references import read_image
from tickwise.adapters.runner.container.script_text import contained_text
from tickwise.adapters.runner.container.sweep import SWEEP_SECONDS, Sweep
from tickwise.adapters.runner.process.outcome.task_end import ending_with
from tickwise.adapters.runner.process.start import TaskText
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.observing.usage import ResourceUsage
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
UNREAD: Final = (0, 1, 2)
"""The statuses of shells whose input was empty, or ended in the middle of a group."""
SAY_SECONDS: Final = 10.0
"""The longest that a started container may take to read its start."""
TIDY_SECONDS: Final = 600.0
"""Between two looks for prepared images that nobody uses."""


class Made(NamedTuple):
    """A container that has not started."""

    container: str
    start: TaskStart
    handover: Handover
    image: str
    """The image exactly, with its digest."""


_Answer = TypeVar("_Answer")
_logger = logging.getLogger(__name__)


class ContainerRunner(SlotRunner):
    """The runner of the kind `container`, and of scripts in containers. Without an engine it offers nothing."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings, (ContainerKind(),))
        self._policy = settings.containers
        self._engine: Engine | None = None
        self._images: Images
        self._prepared: PreparedImages
        self._pool: WarmPool
        self._facts: EngineFacts | None = None
        self._executor = ""
        self._offered = (*self._labels, CONTAINER_LABEL)
        self._background: set[asyncio.Task[None]] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self._removing: set[tuple[UUID, int]] = set()
        """The attempts whose containers are being removed, by run and token."""
        self._containers: dict[UUID, str] = {}
        """Those that run, by their runs: renewed identity tokens go there."""
        self._tokens = count(1)
        self._is_up = asyncio.Event()

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Raises `Misconfigured` if the library is not installed, or the address of the engine is none."""
        await super().start(reports, now)
        if self._policy is None:
            return
        self._executor = self._settings.clock.random_bytes(10).hex()
        self._engine = Engine(self._policy.engine)
        self._images = Images(self._engine, self._policy)
        labels = executor_labels(self._policy, self._executor)
        clock = self._settings.clock
        self._prepared = PreparedImages(self._engine, clock, labels)
        self._pool = WarmPool(
            self._engine, clock, self._images, self._prepared, self._policy.warm, labels, self._policy.warm_watch
        )
        self._spawn(self._watch(self._engine))
        self._spawn(self._pool.keep_full())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_SECONDS):
                await self._is_up.wait()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def release_resources(self) -> None:
        await asyncio.gather(*self._removals, return_exceptions=True)
        background = list(self._background)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        engine, self._engine = self._engine, None
        if engine is not None:
            await self._pool.close()
            await engine.close()

    def labels(self) -> Sequence[str]:
        return self._offered if self._is_up.is_set() else ()

    @property
    def warm_ready(self) -> int:
        """The warm containers that wait now."""
        return self._pool.ready

    # ---------------------------------------------------------------------------------------- engine

    async def _watch(self, engine: Engine) -> None:
        """Ask the engine who it is, and sweep, for as long as this runner lives."""
        assert self._policy is not None
        sweep = Sweep(engine, self._policy, self._executor)
        clock = self._settings.clock
        swept, tidied = -SWEEP_SECONDS, clock.monotonic()
        while True:
            try:
                self._facts = await engine.facts()
                self._is_up.set()
                if clock.monotonic() - swept >= SWEEP_SECONDS:
                    swept = clock.monotonic()
                    await self._pool.beat()
                    await sweep.once(self._own, lambda: self._pool.known)
                if clock.monotonic() - tidied >= TIDY_SECONDS:
                    tidied = clock.monotonic()
                    await self._prepared.tidy()
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
        own = {(each.assignment.run_id, each.assignment.token) for each in self._attempts.values()}
        return frozenset(own | self._removing)

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
        made: Made | Ending | None = None
        is_over = False
        try:
            if not making.done():
                making.cancel()
                await asyncio.gather(making, return_exceptions=True)
                now = self._now()
                return Ending(Verdict.RELEASED, now, now)
            made = making.result()
            if isinstance(made, Ending):
                return made
            end = await self._run(attempt, engine, made)
            if isinstance(end, Ending):
                return end
            ending = await self._judge(attempt, engine, made, end)
            is_over = end is not None and end.state is not None
            return ending._replace(usage=ResourceUsage(image=made.image))
        except EngineAway as away:
            self._is_down(str(away))
            return self._given_back(ENGINE_AWAY, f"the container engine is away: {away}")
        finally:
            self._containers.pop(attempt.assignment.run_id, None)
            if not (isinstance(made, Ending) and made.verdict is Verdict.RELEASED):
                container = made.container if isinstance(made, Made) else None
                await self._remove(engine, attempt.assignment, container, is_over=is_over)

    def _given_back(self, reason: str, why: str) -> Ending:
        now = self._now()
        return Ending(Verdict.UNOFFERED, now, now, reason, why, retry_after_seconds=AWAY_SECONDS)

    async def _remove(self, engine: Engine, assignment: Assignment, container: str | None, *, is_over: bool) -> None:
        """Remove its container. Nothing runs in one that is over: its removal delays nobody, within a bound."""
        removal = asyncio.get_running_loop().create_task(self._removed(engine, assignment, container))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)
        if not is_over:
            await removal
        while len(self._removals) > self._settings.slots:
            await asyncio.wait(self._removals, return_when=asyncio.FIRST_COMPLETED)

    async def _removed(self, engine: Engine, assignment: Assignment, container: str | None) -> None:
        """Remove its own container, and never that of another attempt. Where that fails, a sweep does it. `container`:
        None if it may be there, and its number is not known."""
        attempt = (assignment.run_id, assignment.token)
        self._removing.add(attempt)
        try:
            await engine.remove(container or attempt_name(assignment))
        except (EngineAway, EngineRefused) as error:
            _logger.warning("the container of %s is not removed yet: %s", assignment.run_id, error)
        finally:
            self._removing.discard(attempt)
            self._pool.known.discard(container or "")

    async def _made(self, attempt: Attempt, engine: Engine) -> Made | Ending:
        """Its container, which has not started; or the end of the attempt. Raises `EngineAway`."""
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

    async def _created(self, assignment: Assignment, engine: Engine, text: TaskText) -> Made:
        task = assignment.task
        image = task["image"] if task["kind"] == "container" else assignment.confinement.container_image
        if not image:
            raise Invalid("its job says isolation container and names no image (container_image)")
        facts = await self._images.image_for(image, task.get("pull", "missing"))
        passed = {name: os.environ[name] for name in self._settings.pass_environment if name in os.environ}
        start = task_start(assignment, text, passed)
        try:
            made = await self._made_of(assignment, engine, image, await self._prepared.of(facts), start)
        except EngineRefused as refused:
            if not is_image_missing(refused):
                raise
            self._prepared.forget(facts)
            made = await self._made_of(assignment, engine, image, await self._prepared.of(facts), start)
        await self._alone(assignment, engine, made.container)
        if made.handover.archive is not None:
            await engine.put(made.container, OWN_FOLDER, packed(made.handover.archive))
        return made

    async def _made_of(
        self, assignment: Assignment, engine: Engine, image: str, prepared: PreparedImage, start: TaskStart
    ) -> Made:
        """A container of the warm pool, or a new one."""
        policy, name = self._policy, attempt_name(assignment)
        assert policy is not None
        config = container_config(assignment, prepared, start, policy)
        handover = warm_handover_of(start, prepared)
        try:
            if handover is not None:
                container = await self._pool.take(image, reading(config), name)
                if container is not None:
                    return Made(container, start, handover, exact_image(read_image(image), prepared.image))
            handover = handover_of(start, prepared)
            shown = [f"{name}={value.decode(errors='surrogateescape')}" for name, value in handover.shown.items()]
            labels = {**executor_labels(policy, self._executor), **attempt_labels(assignment, image)}
            config = config if handover.script is None else reading(config)
            container = await engine.create(name, {**config, "Env": shown, "Labels": labels})
        except EngineRefused as refused:
            if refused.status == CONFLICT or "already in use" in refused.message:
                raise ContainerFault("not_started", "its attempt has a container already", Verdict.RELEASED) from None
            raise
        return Made(container, start, handover, exact_image(read_image(image), prepared.image))

    async def _alone(self, assignment: Assignment, engine: Engine, container: str) -> None:
        """Remove the containers of earlier attempts. Raises `ContainerFault` if a later one has one."""
        for each in await engine.named(str(assignment.run_id)):
            owner = owner_of(each)
            if each.container_id == container or owner is None or owner.run_id != assignment.run_id:
                continue
            if owner.token > assignment.token:
                await engine.remove(container)
                raise ContainerFault("not_started", "a later attempt of its run has a container", Verdict.RELEASED)
            await engine.remove(each.container_id)

    async def _run(self, attempt: Attempt, engine: Engine, made: Made) -> ContainerEnd | Ending | None:
        """Start it, and see it to its end; None: it could not be ended."""
        attempt.started = self._now()
        was_away = False
        try:
            await self._started(engine, made)
        except EngineRefused as refused:
            fault = start_fault(refused.status, refused.message)
            return Ending(fault.verdict, attempt.started, self._now(), fault.reason, fault.error)
        except EngineAway as away:
            self._is_down(str(away))  # it may have started: that is found out when the engine is back
            was_away = True
        self._containers[attempt.assignment.run_id] = made.container
        token = attempt.assignment.identity_token
        if token is not None and token.encode() != made.start.hidden_files.get(IDENTITY):
            self.hand_over_token(attempt, token)  # it was renewed while the container was made
        self._reports.began(attempt.assignment.run_id, attempt.started)
        following = Following(engine, self._settings.clock, made.container, attempt, self._settings.kill_grace_seconds)
        following.was_away = was_away
        return await self._until_end(attempt, engine, made.container, following)

    async def _started(self, engine: Engine, made: Made) -> None:
        script = made.handover.script
        if script is None:
            await engine.start(made.container)
            return
        given = await engine.attach_input(made.container)
        saying = asyncio.get_running_loop().create_task(given.say(script))
        try:
            await engine.start(made.container)
        except BaseException:
            saying.cancel()
            raise
        finally:
            # A container that ends at once has read enough.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAY_SECONDS):
                    await asyncio.gather(saying, return_exceptions=True)

    def hand_over_token(self, attempt: Attempt, token: str) -> None:
        container, engine = self._containers.get(attempt.assignment.run_id), self._engine
        if container is not None and engine is not None:
            self._spawn(self._token_put(engine, container, token))

    async def _token_put(self, engine: Engine, container: str, token: str) -> None:
        try:
            await engine.put(container, START, packed_token(token, next(self._tokens)))
        except (EngineAway, EngineRefused) as error:
            _logger.warning("the container %s has no new identity token: %s", container, error)

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

    async def _judge(self, attempt: Attempt, engine: Engine, made: Made, end: ContainerEnd | None) -> Ending:
        ended = self._now()
        if end is None or end.state is None:
            if attempt.trouble.done():
                return attempt.ending_for(attempt.trouble.result(), attempt.started, ended)
            why = "its container was removed by somebody else"
            return Ending(Verdict.UNKNOWN, attempt.started, ended, OUTCOME_LOST, why)
        if attempt.trouble.done():
            ending = attempt.ending_for(attempt.trouble.result(), attempt.started, ended)
        elif not end.state.has_begun:
            return self._given_back(ENGINE_AWAY, "the container engine went away before it started the container")
        else:
            ending = await self._own_ending(attempt, engine, made, end, ended)
        await self._keep_files(attempt, engine, made)
        return ending

    async def _own_ending(
        self, attempt: Attempt, engine: Engine, made: Made, end: ContainerEnd, ended: float
    ) -> Ending:
        """The ending of an attempt whose container ended by itself."""
        state, facts = end.state, self._facts
        assert state is not None
        assert facts is not None
        if state.error and not attempt.sink.kept_bytes and state.exit_code:
            fault = start_fault(500, state.error)
            return Ending(fault.verdict, attempt.started, ended, fault.reason, fault.error)
        if made.handover.script is not None and await self._never_read(engine, made, state):
            return self._given_back(ENGINE_AWAY, "the connection to its container broke before the task began")
        was_away = end.was_away or (is_engines_own(state, facts) and await self._goes_away(engine))
        ending = ending_of(attempt, state, facts, ended, was_away=was_away)
        if ending.verdict is Verdict.OK:
            return await self._with_result(attempt, engine, made.container, ending)
        if ending.reason == "exit_code" and attempt.assignment.names_errors:
            noted = await self._left(engine, made.container, SYMPTOMS, MAX_SYMPTOMS_BYTES)
            names = (noted or b"").decode(errors="replace").split()
            return ending._replace(symptoms=(*ending.symptoms, *names))
        return ending

    async def _never_read(self, engine: Engine, made: Made, state: ContainerState) -> bool:
        """Check whether the shell of a container ended because its start never arrived as a whole."""
        return (
            state.exit_code in UNREAD
            and not state.memory_killed
            and await self._patiently(lambda: engine.changed(made.container, BEGUN)) is None
        )

    async def _patiently(self, ask: Callable[[], Awaitable[_Answer]]) -> _Answer | None:
        """The answer of an engine that is waited for if it is away; None also at the end of this runner."""
        while True:
            try:
                return await ask()
            except EngineAway:
                if self._closing:
                    return None
                await self._settings.clock.sleep(PING_SECONDS)

    async def _keep_files(self, attempt: Attempt, engine: Engine, made: Made) -> None:
        """Store the files that the task left in its work folder, and say so at the end of its output."""
        note = await kept_files(attempt, engine, made.container, made.start.files, self._settings)
        if note:
            attempt.sink.end_output()
            attempt.sink.write_own(*note.splitlines())

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
        archive = await self._patiently(lambda: engine.file(container, path, most + ARCHIVE_BYTES))
        if archive is None:
            return None
        file = unpacked(archive, most)
        if file is None:
            return None
        return file.content if file.is_whole else b" " * most
