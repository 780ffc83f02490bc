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

from tickwise.adapters.runner.container.composing import INSTALLATION, RUN
from tickwise.adapters.runner.container.kubernetes.cluster import GONE, Cluster, ClusterAway, ClusterRefused
from tickwise.adapters.runner.container.kubernetes.pods import ListMeta, Pod
from tickwise.ports.clock import Clock

FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
_logger = logging.getLogger(__name__)


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: ListMeta = ListMeta()


class TrackedPod:
    """What is known of the pod of one run."""

    def __init__(self) -> None:
        self.pod: Pod | None = None
        """As it was last seen; None: it was not."""
        self.is_gone = False
        self.changed = asyncio.Event()

    def see(self, pod: Pod, *, is_gone: bool) -> None:
        """Note what was seen of it. Another pod of the run, younger or older, is not: a Job has one."""
        if self.pod is not None and self.pod.metadata.uid != pod.metadata.uid:
            return
        self.pod, self.is_gone = pod, is_gone
        self.changed.set()

    def miss(self) -> None:
        """Note that it is not there."""
        if self.pod is not None and not self.is_gone:
            self.is_gone = True
            self.changed.set()


class PodWatch:
    """The watch of one namespace of Kubernetes."""

    def __init__(
        self, cluster: Cluster, clock: Clock, namespace: str, installation: str, told: Callable[[str | None], None]
    ) -> None:
        """`told`: is called with None when the cluster answers, else with the reason why it does not."""
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._selector = f"{INSTALLATION}={installation}"
        self._told = told
        self._tracked: dict[str, TrackedPod] = {}
        self.lists = 0
        """How often all pods were listed."""

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
