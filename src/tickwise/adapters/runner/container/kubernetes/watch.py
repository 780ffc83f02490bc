"""One watch for all pods of an installation in a namespace of Kubernetes, however many there are.

    list ──version──► watch ──line──► version ──► …
      ▲                 │ cut off, ended, API away: again from the last version
      └── 410 Gone ─────┘ the cluster does not know so old a version: list anew

Invariant: of a pod that somebody tracks, what was last seen is never older than what was seen before; a pod that a new
list lacks is gone. Between a loss of the connection and the next line nothing is made up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from tickwise.adapters.runner.container.kubernetes.cluster import GONE, ClusterAway, ClusterRefused, JobCluster
from tickwise.adapters.runner.container.kubernetes.pods import ListMeta, Pod
from tickwise.adapters.runner.container.names import INSTALLATION, RUN
from tickwise.ports.clock import Clock

FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
CONTROLLER: Final = "batch.kubernetes.io/controller-uid"
"""The label of a pod with the number of its Job."""
_logger = logging.getLogger(__name__)


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()


class TrackedPod:
    """The knowledge of the pod of one run: of the one Job that is chosen, once that is made or adopted."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Pod, bool]] = {}
        self._job = ""
        self.changed = asyncio.Event()

    @property
    def pod(self) -> Pod | None:
        """The pod, as it was last seen; None: it was not."""
        found = self._seen.get(self._job)
        return None if found is None else found[0]

    @property
    def is_gone(self) -> bool:
        """Check whether it was there and is not any more."""
        found = self._seen.get(self._job)
        return found is not None and found[1]

    def choose(self, job: str) -> None:
        """Look at the pod of this Job, by its number; those of earlier ones are forgotten."""
        self._job = job
        self._seen = {key: seen for key, seen in self._seen.items() if key == job}
        self.changed.set()

    def see(self, pod: Pod, *, is_gone: bool) -> None:
        """Note what was seen of a pod, unless it is older than what is known."""
        job = pod.metadata.labels.get(CONTROLLER, "")
        known = self._seen.get(job)
        if known is None or known[0].metadata.version <= pod.metadata.version:
            self._seen[job] = (pod, is_gone)
            self.changed.set()

    def miss(self) -> None:
        """Note that no pod of its run is there."""
        self._seen = {key: (pod, True) for key, (pod, _) in self._seen.items()}
        self.changed.set()


class PodWatch:
    """The watch of one namespace of Kubernetes."""

    def __init__(
        self, cluster: JobCluster, clock: Clock, namespace: str, installation: str, told: Callable[[str | None], None]
    ) -> None:
        """`told`: is called with None when the cluster answers, else with the reason why it does not."""
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._selector = f"{INSTALLATION}={installation}"
        self._told = told
        self._tracked: dict[str, TrackedPod] = {}
        self.lists = 0
        """The number of lists of all pods."""

    def track(self, run_id: UUID) -> TrackedPod:
        """Begin to follow the pod of a run."""
        return self._tracked.setdefault(str(run_id), TrackedPod())

    def forget(self, run_id: UUID) -> None:
        """Follow it no more."""
        self._tracked.pop(str(run_id), None)

    async def run(self) -> None:
        """Watch for as long as the caller lives. Raises nothing but its cancellation."""
        version: str | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if version is None:
                    version = await self._list()
                self._told(None)
                async for line in self._cluster.watch(self._namespace, self._selector, version):
                    version = self._take(line.type, line.object) or version
                    pause = FIRST_PAUSE_SECONDS
                continue
            except ClusterAway as away:
                self._told(str(away))
            except ClusterRefused as refused:
                if refused.status == GONE:
                    version = None
                    continue
                self._told(f"{refused.status}: {refused.message}")
            except Exception as error:  # the watch goes on after any answer
                _logger.exception("the watch of pods in %s failed", self._namespace)
                self._told(f"{type(error).__name__}: {error}")
                version = None
            await self._clock.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _list(self) -> str:
        self.lists += 1
        pods, version = await self._cluster.pods(self._namespace, self._selector)
        listed = {pod.metadata.labels.get(RUN, "") for pod in pods}
        for pod in pods:
            self._see(pod, is_gone=False)
        for run, tracked in self._tracked.items():
            if run not in listed:
                tracked.miss()
        return version

    def _take(self, kind: str, content: msgspec.Raw) -> str:
        """The version after a line."""
        if kind == "BOOKMARK":
            return msgspec.json.decode(content, type=_Bookmark).metadata.resource_version
        pod = msgspec.json.decode(content, type=Pod)
        self._see(pod, is_gone=kind == "DELETED")
        return pod.metadata.resource_version

    def _see(self, pod: Pod, *, is_gone: bool) -> None:
        tracked = self._tracked.get(pod.metadata.labels.get(RUN, ""))
        if tracked is not None:
            tracked.see(pod, is_gone=is_gone)
