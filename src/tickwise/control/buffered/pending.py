"""Requests that were accepted and are perhaps not applied yet: those of this process, and those that other processes
announced.

    accepted ──► memory (`STALE_SECONDS`, the newest `MAX_REMEMBERED`) ──► the shared state, if there is one
                                          read of something absent ──► memory, shared state, else the time inside its id

Invariant: nothing is decided by it but words: whether a reader is told "pending" or "not there". What is forgotten here
is applied all the same. It remembers by the name of a namespace, which another namespace may have by now:
`BufferedIngest` compares the time of each request with the end of the former one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple
from uuid import UUID

import structlog

from tickwise.control.circuit_breaker import STALE_SECONDS, Recent
from tickwise.domain.errors import Refused
from tickwise.observability.tasks import end_tasks
from tickwise.ports.clock import Clock
from tickwise.ports.shared_state import Note, SharedState

MAX_REMEMBERED: Final = 20_000
MAX_PUBLISHED: Final = 500
"""The most notes that one call writes to the shared state."""
MAX_UNPUBLISHED: Final = 10_000
"""The most requests that wait for a slow shared state; more are not written there."""
BOARD_KIND: Final = "request"
MAX_LOOK_SECONDS: Final = 0.25
"""The longest that a read waits for the shared state: its answer is a courtesy."""

logger = structlog.get_logger("tickwise.pending")

RequestKind = Literal["create", "change", "cancel"]

Place = tuple[str, UUID]
"""Namespace and id."""


class PendingRequest(NamedTuple):
    """A request that was accepted."""

    operation_id: UUID
    """Under which its end will be on record; of a create whose id is ours, the job's."""
    job_id: UUID | None = None
    """None: that it may be a request follows from the time inside its id alone."""
    kind: RequestKind = "create"
    namespace: str = ""
    digest: bytes | None = None
    """Of what was asked for, if the client named the job or the request."""
    warnings: tuple[str, ...] = ()
    accepted: float = math.inf
    """The store's clock when it was accepted; inf: unknown."""


class AskedUnderKey(NamedTuple):
    """The last request under an Idempotency-Key."""

    digest: bytes
    accepted: float


class PendingBatch(NamedTuple):
    """A batch of which each job was accepted or refused, in its order."""

    verdicts: Sequence[PendingRequest | Refused]


class Pendings:
    """The requests that were accepted lately."""

    def __init__(self, clock: Clock, shared_state: SharedState | None) -> None:
        self._shared_state = shared_state
        # Of each namespace for itself: a client chooses ids, and may choose those of others.
        self._by_job = {
            kind: Recent[Place, PendingRequest](clock, most=MAX_REMEMBERED) for kind in ("create", "change")
        }
        self._by_operation = Recent[Place, PendingRequest](clock, most=MAX_REMEMBERED)
        """Those whose name is not the job's id."""
        self._by_key = Recent[bytes, AskedUnderKey](clock, most=MAX_REMEMBERED)
        self._unpublished: list[PendingRequest] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to write notes for other processes, where there is a shared state."""
        if self._shared_state is not None:
            self._task = asyncio.create_task(self._publish_all())

    async def stop(self) -> None:
        """Tell no more."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])

    # ------------------------------------------------------------------------------------------ taken in

    def accepted(self, requests: Sequence[PendingRequest]) -> None:
        """The broker has these."""
        for request in requests:
            if request.job_id is not None:
                self._by_job[_slot(request.kind)].keep((request.namespace, request.job_id), request)
            if request.operation_id is not request.job_id:
                self._by_operation.keep((request.namespace, request.operation_id), request)
        if self._task is not None:
            self._unpublished += requests[: max(0, MAX_UNPUBLISHED - len(self._unpublished))]
            self._wake.set()

    def keep_key(self, key: bytes, asked: AskedUnderKey) -> None:
        """Under this Idempotency-Key that was asked for."""
        self._by_key.keep(key, asked)

    def of_key(self, key: bytes) -> AskedUnderKey | None:
        """The request under it, if it is remembered."""
        return self._by_key.find(key)

    def applied(self, request: PendingRequest) -> None:
        """Forget a request that is in the store now."""
        if request.job_id is not None:
            known, place = self._by_job[_slot(request.kind)], (request.namespace, request.job_id)
            if known.find(place) == request:
                known.drop(place)

    # ------------------------------------------------------------------------------------------ looked up

    def own(self, namespace: str, job_id: UUID, kind: RequestKind) -> PendingRequest | None:
        """The last one of this kind (a change or a cancel: of either) that this process accepted for the job."""
        return self._by_job[_slot(kind)].find((namespace, job_id))

    async def of_job(self, namespace: str, job_id: UUID, kind: RequestKind) -> PendingRequest | None:
        """The pending request of any process that announced it."""
        return self.own(namespace, job_id, kind) or await self._published(namespace, _slot(kind), job_id)

    async def of_operation(self, namespace: str, operation: UUID) -> PendingRequest | None:
        """The request under this name."""
        place = (namespace, operation)
        found = self._by_operation.find(place) or self._by_job["create"].find(place)
        if found is not None and found.operation_id == operation:
            return found
        return await self._published(namespace, "operation", operation)

    # ------------------------------------------------------------------------------------- the shared state

    async def _publish_all(self) -> None:
        shared_state = self._shared_state
        while shared_state is not None:
            if not self._unpublished:
                self._wake.clear()
                await self._wake.wait()
            requests = self._unpublished[:MAX_PUBLISHED]
            del self._unpublished[:MAX_PUBLISHED]
            try:
                await shared_state.put([note for request in requests for note in _notes(request)], STALE_SECONDS)
            except Exception:
                logger.exception("requests_untold", count=len(requests))

    async def _published(self, namespace: str, what: str, identifier: UUID) -> PendingRequest | None:
        if self._shared_state is None:
            return None
        name, found = _name(what, namespace, identifier), None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MAX_LOOK_SECONDS):
                found = await self._shared_state.look(BOARD_KIND, [name])
        if not found:
            return None
        facts = found[name]
        kind, job = facts.get("kind"), facts.get("job")
        try:
            request = PendingRequest(
                UUID(str(facts.get("operation"))),
                UUID(str(job)),
                kind if kind in ("change", "cancel") else "create",
                str(facts.get("namespace")),
                accepted=float(str(facts.get("accepted", math.inf))),
            )
        except ValueError:
            return None
        return _within(namespace, request)


def _slot(kind: RequestKind) -> Literal["create", "change"]:
    return "create" if kind == "create" else "change"


def _name(what: str, namespace: str, identifier: UUID) -> str:
    return f"{what}:{identifier}:{namespace}"


def _notes(request: PendingRequest) -> Iterator[Note]:
    facts = {
        "operation": str(request.operation_id),
        "job": str(request.job_id),
        "kind": request.kind,
        "namespace": request.namespace,
        "accepted": request.accepted,
    }
    yield Note(BOARD_KIND, _name("operation", request.namespace, request.operation_id), facts)
    if request.job_id is not None:
        yield Note(BOARD_KIND, _name(_slot(request.kind), request.namespace, request.job_id), facts)


def _within(namespace: str, request: PendingRequest | None) -> PendingRequest | None:
    """Of another namespace nothing is said."""
    return request if request is not None and request.namespace == namespace else None
