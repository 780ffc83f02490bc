"""Runs attempts in pods of Kubernetes: tasks of the kind `container`, and scripts whose job says so.

    fence ──► Job, then its Secret ──► pod begins ──► follow its log ──► end ──► result ──► Job deleted

The Secret comes after the Job, which owns it from its first moment: nothing is left of an executor that dies in
between. A node that is quicker waits for it.

A cluster that is away before the Job is made costs no attempt. One that is away later is waited for: its pods go on.
Invariant: a run has one Job (`fence`), and when its end is reported, none.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import math
import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.images import image_refusal
from tickwise.adapters.runner.container.kind import ContainerKind
from tickwise.adapters.runner.container.kubernetes.causes import (
    PodEnd,
    ending_of,
    pending_fault,
    pending_sentence,
    unbegun_end,
)
from tickwise.adapters.runner.container.kubernetes.cluster import ClusterAway, ClusterRefused, JobCluster
from tickwise.adapters.runner.container.kubernetes.composing import (
    MESSAGE_BYTES,
    TOKEN_KEY,
    ComposedJob,
    composed,
    marks_of,
    name_of,
    secret_manifest,
)
from tickwise.adapters.runner.container.kubernetes.fence import FencedJob, JobFence
from tickwise.adapters.runner.container.kubernetes.following import LogPlaces, PodLogFollower
from tickwise.adapters.runner.container.kubernetes.pods import Pod, PodEvent
from tickwise.adapters.runner.container.kubernetes.policy import JobPlace, JobPlaces, read_template
from tickwise.adapters.runner.container.kubernetes.sweep import SWEEP_SECONDS, JobSweep
from tickwise.adapters.runner.container.kubernetes.watch import PodWatch, TrackedPod
from tickwise.adapters.runner.container.names import RUN
from tickwise.adapters.runner.container.references import read_image
from tickwise.adapters.runner.container.script_text import contained_text
from tickwise.adapters.runner.containers import CONTAINER_REFUSED, IMAGE_REFUSED
from tickwise.adapters.runner.process.outcome.task_end import ending_with
from tickwise.adapters.runner.settings import RunnerSettings
from tickwise.adapters.runner.slots import Attempt, SlotRunner
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.retry import ENGINE_AWAY, ISOLATION_MISSING, OUTPUT_LOST, POD_PENDING
from tickwise.domain.rules.confinement import CONTAINER_LABEL
from tickwise.ports.runner import Assignment, Ending, Reports, Verdict

AWAY_SECONDS: Final = 5.0
PENDING_AGAIN_SECONDS: Final = 30.0
"""For so long a run is another executor's whose pod no node took."""
FIRST_ANSWER_SECONDS: Final = 5.0
EVENTS_AFTER_SECONDS: Final = 3.0
"""A pod that has not begun by then is asked after: events cost a call each."""
EVENTS_PAUSE_SECONDS: Final = 10.0
MAX_KILL_SECONDS: Final = 20.0
"""After the KILL: the longest that an end is waited for, also of a node that is away."""
CUT_SECONDS: Final = 5.0
"""The longest that a log goes on after the end of its pod."""
POLICY_SECONDS: Final = 60.0
"""Between two looks at the network policy of a namespace."""
MAX_NOTES: Final = 20
NOTE_AFTER_SECONDS: Final = 1.0
"""The account of what a pod waits for shorter is not worth a line of its log."""
NETWORK_POLICY: Final = "tickwise-no-network"
_logger = logging.getLogger(__name__)


class _Life(NamedTuple):
    """The account of what belongs to one attempt."""

    place: JobPlace
    says_result: bool
    """Its result comes in lines of its log."""
    tracked: TrackedPod
    job: FencedJob
    since: float
    """Its Job was made, on the monotonic clock."""


class KubernetesRunner(SlotRunner):
    """The runner of the kind `container`, and of scripts in containers, on a cluster."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings, (ContainerKind(),))
        assert settings.containers is not None
        self._policy = settings.containers
        self._cluster: JobCluster
        self._fence: JobFence
        self._places: JobPlaces
        self._template: Any = {}
        self._watches: dict[str, PodWatch] = {}
        self._away: dict[str, str | None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._handing: set[asyncio.Task[None]] = set()
        self._network_seen: dict[str, float] = {}
        self._network_looks: dict[str, asyncio.Task[bool]] = {}
        self._log_places = LogPlaces()
        self._executor = ""
        self._offered = (*self._labels, CONTAINER_LABEL)
        self._is_up = asyncio.Event()

    async def start(self, reports: Reports, now: Callable[[], float]) -> None:
        """Raises `Misconfigured` if the library is not installed, or a rule or the pod template is none."""
        await super().start(reports, now)
        policy, clock = self._policy.kubernetes, self._settings.clock
        self._executor = clock.random_bytes(10).hex()
        self._places = JobPlaces(policy.places)
        self._template = await asyncio.to_thread(read_template, policy.template)
        self._cluster = JobCluster(self._policy.engine, policy.config, clock)
        self._fence = JobFence(self._cluster, clock, self._executor, policy.fate_of)
        self._tasks.append(asyncio.get_running_loop().create_task(self._begin()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ANSWER_SECONDS):
                await self._is_up.wait()

    async def _begin(self) -> None:
        """Watch and sweep, once the cluster has answered for the first time."""
        loop, clock = asyncio.get_running_loop(), self._settings.clock
        while True:
            try:
                await self._cluster.version()
                break
            except (ClusterAway, ClusterRefused) as away:
                _logger.warning("the cluster %s does not answer: %s", self._policy.engine, away)
                await clock.sleep(AWAY_SECONDS)
        for namespace in self._places.namespaces(self._cluster.namespace):

            def told(why: str | None, namespace: str = namespace) -> None:
                self._told(namespace, why)

            self._away[namespace] = "it was not asked yet"
            watch = PodWatch(self._cluster, clock, namespace, self._policy.installation, told)
            self._watches[namespace] = watch
            self._tasks.append(loop.create_task(watch.run()))
        self._tasks.append(loop.create_task(self._sweep()))

    def _told(self, namespace: str, why: str | None) -> None:
        if why is not None and self._away.get(namespace) is None:
            _logger.warning("the pods of %s cannot be watched: %s", namespace, why)
        self._away[namespace] = why
        if any(self._away.values()):
            self._is_up.clear()
        else:
            self._is_up.set()

    async def _sweep(self) -> None:
        sweep = JobSweep(self._cluster, self._policy, self._executor, self._settings.clock)

        def own() -> Collection[tuple[UUID, int]]:
            return {(each.assignment.run_id, each.assignment.token) for each in self._attempts.values()}

        while True:
            try:
                await sweep.once(list(self._watches), own)
            except (ClusterAway, ClusterRefused) as away:
                _logger.warning("Jobs cannot be swept: %s", away)
            except Exception:  # the sweep goes on after any answer
                _logger.exception("the sweep of Jobs failed")
            await self._settings.clock.sleep(SWEEP_SECONDS)

    async def release_resources(self) -> None:
        tasks: list[asyncio.Task[Any]] = [*self._tasks, *self._handing, *self._network_looks.values()]
        self._tasks = []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._cluster.close()

    def labels(self) -> Sequence[str]:
        return self._offered if self._is_up.is_set() else ()

    # ---------------------------------------------------------------------------------------- one attempt

    async def perform(self, attempt: Attempt) -> Ending:
        assignment = attempt.assignment
        lack = _lack(assignment)
        if lack is not None:
            return self._given_back(ISOLATION_MISSING, lack)
        if not self._watches:
            return self._given_back(ENGINE_AWAY, f"the cluster {self._policy.engine} does not answer")
        try:
            place = self._place_of(assignment)
        except ContainerFault as fault:
            return Ending(fault.verdict, self._now(), self._now(), fault.reason, fault.error)
        tracked = self._watches[place.namespace].track(assignment.run_id)
        try:
            making = asyncio.get_running_loop().create_task(self._made(attempt, place, tracked))
            signs: set[asyncio.Future[Any]] = {making, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                making.cancel()
                await asyncio.gather(making, return_exceptions=True)
                return Ending(Verdict.RELEASED, self._now(), self._now())
            life = making.result()
            return life if isinstance(life, Ending) else await self._seen_through(attempt, life)
        except ClusterAway as away:
            return self._given_back(ENGINE_AWAY, f"the cluster is away: {away}")
        finally:
            self._watches[place.namespace].forget(assignment.run_id)
            await self._removed(assignment, place)

    def _place_of(self, assignment: Assignment) -> JobPlace:
        place = self._places.of(assignment.namespace)
        return place._replace(namespace=place.namespace or self._cluster.namespace)

    def _given_back(self, reason: str, why: str, seconds: float = AWAY_SECONDS) -> Ending:
        now = self._now()
        return Ending(Verdict.UNOFFERED, now, now, reason, why, retry_after_seconds=seconds)

    async def _removed(self, assignment: Assignment, place: JobPlace) -> None:
        """Delete its own Job, and never that of another attempt, which has the same name. Where that fails, a sweep
        does it."""
        try:
            async with asyncio.timeout(MAX_KILL_SECONDS):
                await self._fence.end_job(place.namespace, name_of(assignment), assignment.token)
        except (ClusterAway, ClusterRefused, TimeoutError) as error:
            _logger.warning("the Job of %s is not deleted yet: %s", assignment.run_id, error)

    async def _made(self, attempt: Attempt, place: JobPlace, tracked: TrackedPod) -> _Life | Ending:
        """Its Job, made or adopted; or the end of the attempt. Raises `ClusterAway`."""
        now, assignment = self._now(), attempt.assignment
        try:
            if not await self._is_shut_off(assignment, place.namespace):
                return self._given_back(
                    ISOLATION_MISSING,
                    f"its job may use no network, and {place.namespace} has no NetworkPolicy {NETWORK_POLICY} that "
                    "keeps its pod from it",
                )
            manifests = await self._manifests(assignment, place)
            job = await self._fence.obtain(place.namespace, manifests.job)
            tracked.choose(job.uid)
            await self._hand_over(assignment, place, manifests, job)
            if job.is_adopted:  # what the watch told of it came before we listened
                for pod in (await self._cluster.pods(place.namespace, f"{RUN}={assignment.run_id}"))[0]:
                    tracked.see(pod, is_gone=False)
        except ContainerFault as fault:
            return self._fault_end(fault, now)
        except (NotFound, Invalid) as refused:
            return Ending(Verdict.INVALID, now, self._now(), "invalid", refused.detail)
        except ClusterRefused as refused:
            if refused.status == 403 and "exceeded quota" in refused.message:
                return self._given_back(POD_PENDING, f"a quota is full: {refused.message}", PENDING_AGAIN_SECONDS)
            error = f"the cluster refuses its Job: {refused.message}"
            verdict = Verdict.FAILED if refused.status == 403 else Verdict.INVALID
            return Ending(verdict, now, self._now(), CONTAINER_REFUSED, error)
        return _Life(place, manifests.says_result, tracked, job, self._settings.clock.monotonic())

    def _fault_end(self, fault: ContainerFault, started: float) -> Ending:
        asked = PENDING_AGAIN_SECONDS if fault.verdict is Verdict.UNOFFERED else None
        return Ending(fault.verdict, started, self._now(), fault.reason, fault.error, retry_after_seconds=asked)

    async def _is_shut_off(self, assignment: Assignment, namespace: str) -> bool:
        """Check whether a pod that may use no network is kept from it. Whether the network of the cluster heeds its
        policies nobody can ask."""
        if assignment.confinement.allow_network is True:
            return True
        clock = self._settings.clock
        seen = self._network_seen.get(namespace)
        if seen is not None and clock.monotonic() - seen <= POLICY_SECONDS:
            return True
        # One call for all runs that are due at one instant: a thousand would be a thousand connections.
        look = self._network_looks.get(namespace)
        if look is None:
            look = asyncio.get_running_loop().create_task(self._cluster.has_network_policy(namespace, NETWORK_POLICY))
            self._network_looks[namespace] = look
            look.add_done_callback(lambda done: self._looked(namespace, done))
        return await asyncio.shield(look)

    def _looked(self, namespace: str, done: asyncio.Task[bool]) -> None:
        del self._network_looks[namespace]
        if not done.cancelled() and done.exception() is None and done.result():
            self._network_seen[namespace] = self._settings.clock.monotonic()

    async def _manifests(self, assignment: Assignment, place: JobPlace) -> ComposedJob:
        task = assignment.task
        image = task["image"] if task["kind"] == "container" else assignment.confinement.container_image
        if not image:
            raise Invalid("its job says isolation container and names no image (container_image)")
        refused = image_refusal(read_image(image), self._policy)
        if refused is not None:
            raise ContainerFault(IMAGE_REFUSED, refused)
        text = await contained_text(assignment, self._settings.blobs)
        passed = {name: os.environ[name] for name in self._settings.pass_environment if name in os.environ}
        return composed(
            assignment, text, self._policy, place, self._executor, passed=passed, template=self._template,
            result_limit_bytes=self._settings.result_limit_bytes,
        )  # fmt: skip

    async def _hand_over(self, assignment: Assignment, place: JobPlace, made: ComposedJob, job: FencedJob) -> None:
        """Make the Secret of a Job. One that was adopted has its own, or its executor died before it made that."""
        if not made.data:
            return
        marks = marks_of(assignment, self._policy, self._executor)
        await self._cluster.create_secret(place.namespace, secret_manifest(assignment, made.data, marks, job.uid))
        if job.is_adopted and TOKEN_KEY in made.data:
            await self._cluster.change_secret(place.namespace, name_of(assignment), {TOKEN_KEY: made.data[TOKEN_KEY]})

    def hand_over_token(self, attempt: Attempt, token: str) -> None:
        """The node brings a changed Secret into the pod within a minute or so."""
        if attempt.task is None:
            return
        encoded = base64.b64encode(token.encode()).decode()

        async def changed() -> None:
            place = self._place_of(attempt.assignment)
            for _ in range(10):
                try:
                    await self._cluster.change_secret(
                        place.namespace, name_of(attempt.assignment), {TOKEN_KEY: encoded}
                    )
                    return
                except (ClusterAway, ClusterRefused) as error:
                    _logger.warning("the identity token of %s is not renewed yet: %s", attempt.assignment.run_id, error)
                await self._settings.clock.sleep(AWAY_SECONDS)

        handing = asyncio.get_running_loop().create_task(changed())
        self._handing.add(handing)
        handing.add_done_callback(self._handing.discard)

    # ---------------------------------------------------------------------------------------- from begin to end

    async def _seen_through(self, attempt: Attempt, life: _Life) -> Ending:
        """The end of an attempt whose Job is there."""
        follower = PodLogFollower(
            self._cluster, self._settings.clock, life.place.namespace, life.tracked, attempt, self._log_places,
            result_limit_bytes=self._settings.result_limit_bytes, grace_seconds=self._settings.kill_grace_seconds,
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        end = loop.create_task(self._end_of(attempt, life, follower))
        try:
            signs: set[asyncio.Future[Any]] = {end, attempt.trouble}
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                ending = loop.create_task(self._ended_early(attempt, life))
                signs = {end, ending}
                await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)
            if attempt.trouble.done() and not (end.done() and isinstance(end.result(), Ending)):
                pod = life.tracked.pod
                if pod is None or pod.started_at is None:
                    return Ending(Verdict.RELEASED, self._now(), self._now())
                return attempt.ending_for(attempt.trouble.result(), attempt.started, self._now())
            found = end.result()
            return found if isinstance(found, Ending) else self._judged(attempt, life, found, follower)
        finally:
            end.cancel()
            await asyncio.gather(end, return_exceptions=True)

    async def _end_of(self, attempt: Attempt, life: _Life, follower: PodLogFollower) -> PodEnd | Ending:
        """The end of its pod, its log read; or of the attempt, if that never begins."""
        fault = await self._begun(attempt, life)
        if fault is not None:
            return fault
        pod = life.tracked.pod
        assert pod is not None
        began = pod.started_at
        if began is None:
            return unbegun_end(PodEnd(pod, life.tracked.is_gone), self._now())
        attempt.started = self._now()
        self._reports.began(attempt.assignment.run_id, attempt.started)
        attempt.sink.begin_task()
        loop = asyncio.get_running_loop()
        log = loop.create_task(follower.to_end())
        deadline = self._deadline(attempt, life, began)
        try:
            while not (life.tracked.is_gone or (life.tracked.pod or pod).is_over):
                await life.tracked.changed.wait()
                life.tracked.changed.clear()
            follower.over()
            await asyncio.wait({log}, timeout=CUT_SECONDS)
            follower.cut()
            await log
        finally:
            if deadline:
                deadline.cancel()
            log.cancel()
            await asyncio.gather(log, return_exceptions=True)
        return PodEnd(life.tracked.pod or pod, life.tracked.is_gone)

    def _deadline(self, attempt: Attempt, life: _Life, began: float) -> asyncio.TimerHandle | None:
        seconds = attempt.assignment.timeout_seconds
        if seconds is None:
            return None
        if life.job.is_adopted:  # it has run for a while: on the cluster's clock, which is as exact as ours
            seconds = max(0.0, seconds - max(0.0, self._settings.clock.now() - began))
        loop = asyncio.get_running_loop()
        return loop.call_later(seconds, attempt.end_early, "timeout", self._settings.kill_grace_seconds)

    async def _begun(self, attempt: Attempt, life: _Life) -> Ending | None:
        """Return when its pod has begun, or is over; the end of the attempt, if it will not begin."""
        clock, tracked = self._settings.clock, life.tracked
        asked, notes, said = 0.0, 0, ""
        events: Sequence[PodEvent] = ()
        while True:
            tracked.changed.clear()
            pod = tracked.pod
            if pod is not None and (pod.started_at is not None or pod.is_over or tracked.is_gone):
                return None
            seconds = clock.monotonic() - life.since
            if seconds >= EVENTS_AFTER_SECONDS and seconds - asked >= EVENTS_PAUSE_SECONDS:
                asked, events = seconds, await self._events(attempt.assignment, life, pod)
            fault = pending_fault(
                pod, events, seconds, pull_seconds=self._policy.pull_seconds,
                place_seconds=self._policy.kubernetes.pending_seconds,
            )  # fmt: skip
            sentence = pending_sentence(pod, events)
            is_worth = fault is not None or seconds >= NOTE_AFTER_SECONDS
            if sentence and sentence != said and notes < MAX_NOTES and is_worth:
                said, notes = sentence, notes + 1
                attempt.sink.write_own(f"[its pod waits: {sentence[:1_000]}]")
            # Without the API nothing is known of it: it may have begun.
            if fault is not None and self._away.get(life.place.namespace) is None:
                return self._fault_end(fault, attempt.started)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await tracked.changed.wait()

    async def _events(self, assignment: Assignment, life: _Life, pod: Pod | None) -> Sequence[PodEvent]:
        """The account of what Kubernetes says of its pod; of its Job, while it has none: a quota shows there alone."""
        name = name_of(assignment) if pod is None else pod.metadata.name
        try:
            return await self._cluster.events(life.place.namespace, name)
        except (ClusterAway, ClusterRefused):
            return ()

    async def _ended_early(self, attempt: Attempt, life: _Life) -> None:
        """Ask its pod to end, then make it; return when that has taken too long."""
        grace = min(attempt.patience_seconds, 3_600.0)
        await self._told_to_end(attempt, life, max(1, math.ceil(grace)))
        await attempt.hurry
        await self._told_to_end(attempt, life, 1)
        await self._settings.clock.sleep(MAX_KILL_SECONDS)

    async def _told_to_end(self, attempt: Attempt, life: _Life, grace_seconds: int) -> None:
        """Pass it on; a cluster that is away cannot. A pod that is not there yet goes with its Job."""
        pod = life.tracked.pod
        name, assignment = name_of(attempt.assignment), attempt.assignment
        try:
            async with asyncio.timeout(MAX_KILL_SECONDS):
                if pod is None:
                    await self._fence.end_job(life.place.namespace, name, assignment.token)
                else:
                    await self._fence.end_pod(
                        life.place.namespace, pod.metadata.name, assignment.token, grace_seconds=grace_seconds
                    )
        except (ClusterAway, ClusterRefused, TimeoutError) as error:
            _logger.warning("the pod of %s was not told to end: %s", assignment.run_id, error)

    # ---------------------------------------------------------------------------------------- judge

    def _judged(self, attempt: Attempt, life: _Life, end: PodEnd, follower: PodLogFollower) -> Ending:
        ended = self._now()
        if follower.lost is not None:
            attempt.sink.end_output()
            attempt.sink.write_own(f"[the rest of its output could not be read: {follower.lost}]")
        ending = ending_of(attempt, end, ended)
        if ending.verdict is Verdict.OK:
            if follower.lost is not None:
                error = f"it ended well, but its output could not be read: {follower.lost}"
                return Ending(Verdict.FAILED, attempt.started, ended, OUTPUT_LOST, error)
            return self._with_result(attempt, life, end, follower, ending)
        if ending.reason == "exit_code" and attempt.assignment.names_errors:
            names = (follower.results.found("symptoms") or b"").decode(errors="replace").split()
            return ending._replace(symptoms=(*ending.symptoms, *names))
        return ending

    def _with_result(
        self, attempt: Attempt, life: _Life, end: PodEnd, follower: PodLogFollower, ending: Ending
    ) -> Ending:
        most = self._settings.result_limit_bytes
        if life.says_result:
            result = follower.results.found("result")
            return ending if result is None else ending_with(attempt, result, ending.ended, most=most)
        message = b"" if end.pod.end is None else end.pod.end.message.encode()
        if not message:
            return ending
        if len(message) >= MESSAGE_BYTES:
            error = f"a pod gives back results of less than {MESSAGE_BYTES} bytes of programs that are no scripts"
            return Ending(Verdict.FAILED, ending.started, ending.ended, "result", error)
        return ending_with(attempt, message, ending.ended, most=most)


def _lack(assignment: Assignment) -> str | None:
    """The limit that no pod can be held to."""
    if assignment.limits.cpu_seconds is not None:
        return "Kubernetes does not bound the processor time of a pod"
    if assignment.limits.processes is not None:
        return "Kubernetes does not bound the processes of a pod by itself: its nodes do, for all pods"
    return None
