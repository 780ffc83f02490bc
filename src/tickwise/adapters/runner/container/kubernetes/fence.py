"""One Job for a run: its name is the fence of the cluster, its label with the token says whose it is.

    create Job ── 201 ──► ours
        └── 409: there is one, with the token of an earlier attempt. What does the store say of that attempt?
              lost with its executor ──► adopted: the label gets our token, if nobody has changed the Job meanwhile
              settled ──► deleted with its pod; we wait until both are gone, and begin anew
              held by an executor, or its token is not earlier ──► we are the one that is too late: given back

Invariant: while a pod of a run may run, its Job is there (it is deleted in the foreground), so a second one cannot be
made. An executor that ends a Job or a pod names the version in which it bears its own token: one that comes late cannot
end what another one has adopted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from tickwise.adapters.runner.container.causes import ContainerFault
from tickwise.adapters.runner.container.kubernetes.cluster import (
    CONFLICT,
    NOT_FOUND,
    ClusterRefused,
    JobCluster,
    job_path,
    pod_path,
)
from tickwise.adapters.runner.container.kubernetes.pods import JobObject
from tickwise.adapters.runner.container.names import EXECUTOR, RUN, TOKEN
from tickwise.adapters.runner.containers import AttemptFate, FateOf
from tickwise.domain.errors import Unavailable
from tickwise.domain.retry import POD_PENDING
from tickwise.ports.clock import Clock
from tickwise.ports.runner import Verdict

TRIES: Final = 60
PAUSE_SECONDS: Final = 0.5
"""Between two tries: half a minute for an earlier pod to end."""
CHANGES: Final = 8
"""The most changes of an object under our hands."""
_logger = logging.getLogger(__name__)


class FencedJob(NamedTuple):
    """The Job of a run, which bears our token."""

    uid: str
    is_adopted: bool


class JobFence:
    """The fence of one executor."""

    def __init__(self, cluster: JobCluster, clock: Clock, executor: str, fate_of: FateOf | None) -> None:
        self._cluster = cluster
        self._clock = clock
        self._executor = executor
        self._fate_of = fate_of

    async def obtain(self, namespace: str, manifest: Mapping[str, Any]) -> FencedJob:
        """The only Job of a run. Raises `ContainerFault` if another one stands in the way, and what the cluster
        raises."""
        name, token = manifest["metadata"]["name"], int(manifest["metadata"]["labels"][TOKEN])
        for _ in range(TRIES):
            try:
                return FencedJob((await self._cluster.create_job(namespace, manifest)).metadata.uid, is_adopted=False)
            except ClusterRefused as refused:
                if refused.status != CONFLICT:
                    raise
            found = await self._cluster.job(namespace, name)
            if found is not None and found.metadata.deletion_timestamp is None:
                theirs = int(found.metadata.labels.get(TOKEN, "0"))
                if theirs == token and found.metadata.labels.get(EXECUTOR) == self._executor:
                    return FencedJob(found.metadata.uid, is_adopted=False)  # the answer to our own call was lost
                if theirs >= token:
                    raise ContainerFault("not_started", "a later attempt of its run has a Job", Verdict.RELEASED)
                if await self._settled(found, namespace):
                    await self._cluster.delete(job_path(namespace, name), found)
                elif await self._adopted(found, namespace, token):
                    return FencedJob(found.metadata.uid, is_adopted=True)
            await self._clock.sleep(PAUSE_SECONDS)
        raise ContainerFault(
            POD_PENDING, "the pod of an earlier attempt of its run does not end", Verdict.UNOFFERED
        )  # fmt: skip

    async def _settled(self, found: JobObject, namespace: str) -> bool:
        """Check whether the attempt of a Job was reported as ended. Raises `ContainerFault` if it is held."""
        if self._fate_of is None:
            return False
        run, token = _key(found)
        try:
            fate = await self._fate_of(run, token)
        except Unavailable as away:
            raise ContainerFault(
                POD_PENDING, f"the store cannot say what became of an earlier attempt: {away}", Verdict.UNOFFERED
            ) from None
        if fate is AttemptFate.HELD:
            raise ContainerFault(
                "not_started", f"an executor holds the Job {found.metadata.name} in {namespace}", Verdict.RELEASED
            )
        return fate is AttemptFate.SETTLED

    async def _adopted(self, found: JobObject, namespace: str, token: int) -> bool:
        """Put our token on a Job and its pod; False: somebody has changed it meanwhile."""
        marks = {TOKEN: str(token), EXECUTOR: self._executor}
        path = job_path(namespace, found.metadata.name)
        try:
            await self._cluster.mark(path, marks, found.metadata.resource_version)
        except ClusterRefused as refused:
            if refused.status in (CONFLICT, NOT_FOUND):
                return False
            raise
        pods, _ = await self._cluster.pods(namespace, f"{RUN}={found.metadata.labels[RUN]}")
        for pod in pods:
            await self._mark_pod(namespace, pod.metadata.name, marks)
        _logger.warning("adopted the Job %s, which a dead executor had begun", found.metadata.name)
        return True

    async def _mark_pod(self, namespace: str, name: str, marks: Mapping[str, str]) -> None:
        path = pod_path(namespace, name)
        for _ in range(CHANGES):
            pod = await self._cluster.pod(namespace, name)
            if pod is None:
                return
            try:
                await self._cluster.mark(path, marks, pod.metadata.resource_version)
                return
            except ClusterRefused as refused:
                if refused.status != CONFLICT:
                    raise

    async def end_pod(self, namespace: str, name: str, token: int, *, grace_seconds: int) -> None:
        """Ask the pod to end, if it bears this token. Raises what the cluster raises."""
        for _ in range(CHANGES):
            pod = await self._cluster.pod(namespace, name)
            if pod is None or pod.metadata.labels.get(TOKEN) != str(token):
                return
            if await self._cluster.delete(pod_path(namespace, name), pod, grace_seconds=grace_seconds):
                return

    async def end_job(self, namespace: str, name: str, token: int) -> None:
        """Delete the Job with all that it owns, if it bears this token."""
        for _ in range(CHANGES):
            found = await self._cluster.job(namespace, name)
            if found is None or found.metadata.labels.get(TOKEN) != str(token):
                return
            if await self._cluster.delete(job_path(namespace, name), found):
                return


def _key(found: JobObject) -> tuple[UUID, int]:
    return UUID(found.metadata.labels[RUN]), int(found.metadata.labels.get(TOKEN, "0"))
