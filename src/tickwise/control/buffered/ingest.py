"""Requests that are answered before the store has them: checked here, sent through the broker, applied by recorders.

    POST, PUT, DELETE ──► composed and checked, as if for the store ──► Request ──► broker ──► 202
                              │ objects that a body names: from the store, within a short time limit,
                              └ else from the store's last answers; unknown: 503

Invariants: a request that is answered with 202 is with the broker, durably, under an id that the answer names. A
request that can be refused at once is refused at once; one that cannot be applied later ends as a failed operation
(`application`). A repeat of a request, under its `job_id` or Idempotency-Key, has the same ids in every process. Its
answer comes from memory only for the namespace that is there: recorders refuse what was accepted for a former one of
the same name, so the same request is sent anew for a later one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from tickwise.control.bodies import SCHEDULE_NAMED, JobBody
from tickwise.control.buffered.pending import AskedUnderKey, PendingRequest, Pendings, RequestKind
from tickwise.control.buffered.seen_scenes import SeenScenes
from tickwise.control.circuit_breaker import StoreCircuitBreaker
from tickwise.control.context import ControlContext
from tickwise.control.jobs.changes import JobChanges
from tickwise.control.jobs.composer import JobComposer
from tickwise.control.jobs.composing import Composed
from tickwise.control.jobs.planning import planned
from tickwise.control.jobs.policies import check_kept, policies
from tickwise.control.jobs.resolving import check_calendars, check_texts, checked_channels, resolve_task
from tickwise.control.jobs.scene import Scene
from tickwise.control.jobs.submission import id_taken, key_taken, size_of
from tickwise.control.jobs.successors import successors
from tickwise.control.receipts import KEY_REUSED, Once
from tickwise.control.tasks import TaskCheck
from tickwise.control.texts import clean_name
from tickwise.control.turns import Turns
from tickwise.domain.audit import Source
from tickwise.domain.errors import Invalid, KeyReused, NeverAccepted, NotFound, Refused, StoreUnavailable
from tickwise.domain.model import DEFAULT_NAMESPACE, Principal, id_instant, time_id
from tickwise.observability.buffers import Buffer
from tickwise.ports.broker import REQUESTS, Broker, Message
from tickwise.ports.shared_state import SharedState
from tickwise.ports.signing import Signer
from tickwise.ports.store import MarkedChannel, OperationStatus, earliest_mark
from tickwise.roles.shared.group_send import Sender, fits
from tickwise.roles.shared.messages import NewJobPart, Request, encode
from tickwise.roles.shared.signatures import signed

CLOCKS_SECONDS: Final = 5.0
"""The greatest difference between the clocks of broker, store and API for which the state of a request is right."""
MAX_SENDING_SECONDS: Final = 60.0
"""The longest time from a request's id to its arrival at the broker: its wait in line, and a late confirmation. An id
that was never sent counts as pending for this time."""
MAX_PENDING_SECONDS: Final = 7 * 86_400.0
"""A broker keeps requests for about this time; a request with an older id is not pending."""

_pack: Final = msgspec.msgpack.Encoder().encode


class BufferedIngest:
    """Takes requests in through the broker, and knows which of them may not be applied yet."""

    def __init__(
        self,
        context: ControlContext,
        *,
        composer: JobComposer,
        changes: JobChanges,
        breaker: StoreCircuitBreaker,
        sender: Sender,
        broker: Broker,
        signer: Signer | None,
        shared_state: SharedState | None,
    ) -> None:
        """`changes` tries a change on the job as it is. `signer` signs requests, so that recorders know that this API
        took them in. `shared_state` shows them to other processes."""
        self._context = context
        self._composer = composer
        self._changes = changes
        self._breaker = breaker
        self._sender = sender
        self._broker = broker
        self._signer = signer
        self._cluster = context.store.upkeep.cluster_id
        self.pendings = Pendings(context.clock, shared_state)
        self._scenes = SeenScenes(context)

    async def start(self) -> None:
        """Begin to take requests in."""
        await self._sender.start()
        await self.pendings.start()
        with contextlib.suppress(StoreUnavailable):  # else with the first that needs it
            await self._breaker.ask(self._context.time.now)

    async def stop(self) -> None:
        """Send the waiting requests, and take no more."""
        await self._sender.stop()
        await self.pendings.stop()

    def buffers(self) -> Mapping[str, Buffer]:
        """The requests that wait to be sent."""
        return self._sender.buffers()

    # ------------------------------------------------------------------------------------------ creates

    async def accept(self, who: Principal, body: JobBody, once: Once | None = None) -> PendingRequest | None:
        """Take one job in; None: it is larger than a message may be, so it goes to the store directly.

        Raises `Refused` kinds, `Busy`, `BrokerUnavailable`, and `StoreUnavailable` if the store must be asked and is
        away.
        """
        await self._context.namespaces.check_open(who.namespace, self._breaker)
        name = None
        if once is not None:
            name = self._name_of(who, once)
            if await self._is_repeat(who, name, once):
                known = self.pendings.own(who.namespace, body.job_id or _job_id_of(name, 0), "create")
                # In doubt it is sent again: it has the same ids.
                if known is not None and not await self._is_for_former(known, if_away=True):
                    return known
        if name is not None:
            body = _named(body, name, 0)
        if body.key:
            await self._check_key(who, body.key, body.job_id or None)
        made = await self._created(who, body)
        if not fits(made[1]):
            return None
        await self._send([made])
        if name is not None and once is not None:
            self.pendings.keep_key(name, AskedUnderKey(once.digest, made[0].accepted))
        return made[0]

    async def accept_many(
        self, who: Principal, bodies: Sequence[JobBody | Refused], once: Once | None = None
    ) -> Sequence[PendingRequest | Refused] | None:
        """Take each job of a batch in. None: one of them is too large. Raises as `accept` if none was taken in,
        or if this is unknown."""
        await self._context.namespaces.check_open(who.namespace, self._breaker)
        name = None if once is None else self._name_of(who, once)
        if name is not None and once is not None:
            await self._is_repeat(who, name, once)
        scene = await self._scene_at_hand(who, [body for body in bodies if isinstance(body, JobBody)])
        verdicts: list[PendingRequest | Refused] = []
        made: list[tuple[PendingRequest, Message]] = []
        turns = Turns(self._context.clock)
        for place, body in enumerate(bodies):
            if turns.is_over(size_of(body)):
                await turns.give()
            if isinstance(body, Refused):
                verdicts.append(body)
                continue
            try:
                job = await self._created(who, body if name is None else _named(body, name, place), scene)
            except Refused as refusal:
                verdicts.append(refusal)
                continue
            if not fits(job[1]):
                return None
            made.append(job)
            verdicts.append(job[0])
        await self._send(made)
        if name is not None and once is not None:
            self.pendings.keep_key(name, AskedUnderKey(once.digest, scene.now))
        return verdicts

    async def _created(
        self, who: Principal, body: JobBody, scene: Scene | None = None
    ) -> tuple[PendingRequest, Message]:
        """A create, ready to be sent. Raises `Refused` kinds."""
        scene = scene or await self._scene_at_hand(who, (body,))
        try:
            composed = self._composer.compose_now(who, body, scene)
        except Invalid as refusal:
            composed = await self._repeated_at_best(who, body, scene, refusal)
        job = composed.job
        operation = job.job_id
        if job.digest is not None:
            # An id may come again with another body: this is another operation, with an end of its own.
            operation = _id_of(hashlib.sha256(_pack((job.namespace, job.job_id, job.digest))).digest())
            known = self.pendings.own(who.namespace, job.job_id, "create")
            if known is not None and known.digest != job.digest and not await self._is_over(known):
                raise id_taken(job.job_id)
        request = _request(
            who, kind="create", operation_id=operation, job_id=job.job_id, accepted=scene.now, job=NewJobPart.of(job)
        )
        warnings = composed.warnings
        pending = PendingRequest(operation, job.job_id, "create", who.namespace, job.digest, warnings, scene.now)
        return pending, self._message(request)

    async def _repeated_at_best(self, who: Principal, body: JobBody, scene: Scene, refusal: Invalid) -> Composed:
        """The job of a create that is repeated after its time has passed (`JobComposer.as_it_was`). Raises the refusal
        of any other create, and `StoreUnavailable` if the store cannot say which of the two it is."""
        if not body.job_id or refusal.pointer not in ("/schedule_time", "/at"):
            raise refusal
        return await self._breaker.ask(lambda: self._composer.as_it_was(who, body, scene, refusal))

    async def _check_key(self, who: Principal, key: str, job_id: UUID | None) -> None:
        """Refuse a key that another job has, if the store can be asked; else the recorder refuses it. A repeat finds
        its own job under the key."""
        try:
            row = await self._breaker.ask(lambda: self._context.store.jobs.get(who.namespace, key))
        except StoreUnavailable:
            return
        if row is not None and row.job_id != job_id:
            raise key_taken(key)

    async def _is_over(self, request: PendingRequest) -> bool:
        """Check whether a create has left its id free: it failed to apply, or its namespace is gone. False while the
        store is away."""
        if await self._is_for_former(request, if_away=False):
            return True
        try:
            row = await self._breaker.ask(
                lambda: self._context.store.operations.get(request.namespace, request.operation_id)
            )
        except StoreUnavailable:
            return False
        return row is not None and row.status is OperationStatus.FAILED

    def _name_of(self, who: Principal, once: Once) -> bytes:
        """The name of a request under an Idempotency-Key, equal in every process and at every repetition. It contains
        the store's secret name, so that no client can compute it and take its ids first. Callers share it as they share
        stored answers."""
        return hashlib.sha256(_pack((self._cluster, who.answers_name, once.route, once.key))).digest()

    async def _is_repeat(self, who: Principal, name: bytes, once: Once) -> bool:
        """Check whether this process remembers this request. Raises `KeyReused` for another one with the key."""
        asked = self.pendings.of_key(name)
        if asked is None or asked.digest == once.digest:
            return asked is not None
        if await self._is_gone_since(who.namespace, asked.accepted, if_away=False):
            return False
        raise KeyReused(KEY_REUSED)

    # ------------------------------------------------------------------------------------------ former namespaces

    async def pending_of_job(self, namespace: str, job_id: UUID, kind: RequestKind) -> PendingRequest | None:
        """The pending request for a job of the present namespace, of any process that announced it."""
        return await self._present(await self.pendings.of_job(namespace, job_id, kind))

    async def pending_operation(self, namespace: str, operation: UUID) -> PendingRequest | None:
        """The pending request under this name, for the present namespace."""
        return await self._present(await self.pendings.of_operation(namespace, operation))

    async def _present(self, request: PendingRequest | None) -> PendingRequest | None:
        return None if request is None or await self._is_for_former(request, if_away=False) else request

    async def _is_for_former(self, request: PendingRequest, *, if_away: bool) -> bool:
        """Check whether the request was accepted for a namespace that is gone. `if_away`: while the store is away."""
        return await self._is_gone_since(request.namespace, request.accepted, if_away=if_away)

    async def _is_gone_since(self, namespace: str, accepted: float, *, if_away: bool) -> bool:
        """Check whether a namespace of this name went after that time: by the rule of the recorders, which refuse what
        was accepted before."""
        if namespace == DEFAULT_NAMESPACE:
            return False
        try:
            removed = await self._breaker.ask(lambda: self._context.store.namespaces.removed([namespace]))
        except StoreUnavailable:
            return if_away
        return accepted <= removed.get(namespace, -math.inf)

    # ------------------------------------------------------------------------------------------ changes and cancels

    async def accept_change(self, who: Principal, job_id: UUID, body: JobBody, text: bytes) -> PendingRequest | None:
        """Take a change in; `text` is the body as it was sent. The change is tried on the job as it is, if the
        store answers and no other request for the job is pending; else the body is checked alone. Raises and answers as
        `accept`."""
        scene = await self._scene_at_hand(who, (body,))
        if await self._is_foreseen(who.namespace, job_id) or not await self._is_judged(who, job_id, body):
            _judge_alone(job_id, body, scene, self._composer.check)
        return await self._asked_for(who, job_id, "change", text)

    async def accept_cancel(self, who: Principal, job_id: UUID) -> PendingRequest | None:
        """Take a cancel in. Raises and answers as `accept`."""
        if not await self._is_foreseen(who.namespace, job_id):
            try:
                row = await self._breaker.ask(lambda: self._context.store.jobs.get(who.namespace, job_id))
            except StoreUnavailable:
                pass
            else:
                if row is None:
                    await self._must_be_awaited(who, job_id)
        return await self._asked_for(who, job_id, "cancel", b"")

    async def _asked_for(self, who: Principal, job_id: UUID, kind: RequestKind, text: bytes) -> PendingRequest | None:
        now = self._context.time.at_best()
        operation = time_id(int(now * 1000), self._context.clock.random_bytes(10))
        request = _request(who, kind=kind, operation_id=operation, job_id=job_id, accepted=now, body=text)
        message = self._message(request)
        if not fits(message):
            return None
        pending = PendingRequest(operation, job_id, kind, who.namespace, accepted=now)
        await self._send([(pending, message)])
        return pending

    async def _is_judged(self, who: Principal, job_id: UUID, body: JobBody) -> bool:
        """Try the change on the job as it is; False if the store is away or the job is still pending. Raises the
        refusal."""
        try:
            await self._breaker.ask(lambda: self._changes.change(who, job_id, body, dry_run=True), probes=False)
        except StoreUnavailable:
            return False
        except NotFound:
            await self._must_be_awaited(who, job_id)
            return False
        return True

    async def _is_foreseen(self, namespace: str, job_id: UUID) -> bool:
        """Check whether this process took in a create or a change of the job that is not applied yet."""
        own = self.pendings.own(namespace, job_id, "create"), self.pendings.own(namespace, job_id, "change")
        found = [request for request in own if request is not None]
        # The latest counts: an earlier one may be for a former namespace.
        return bool(found) and await self._present(max(found, key=lambda request: request.accepted)) is not None

    async def _must_be_awaited(self, who: Principal, job_id: UUID) -> None:
        """Raise `NotFound` if the id is one of ours and its job would exist by now. With a client's own id, the job may
        be pending."""
        told = await self.pending_of_job(who.namespace, job_id, "create")
        if told is None and await self.is_past(job_id):
            raise NeverAccepted(f"there is no job {job_id} in the namespace {who.namespace}", job_id=job_id)

    async def is_past(self, identifier: UUID) -> bool:
        """Check whether all requests that were accepted up to the making of this id, if it is one of ours, are applied.
        Raises `StoreUnavailable`."""
        broker, made = self._broker, id_instant(identifier)
        now = self._context.time.at_best()
        if made < now - MAX_PENDING_SECONDS:
            return True
        if made > now + CLOCKS_SECONDS:
            return False
        partitions, store = broker.partitions(REQUESTS), self._context.store
        marks = await self._breaker.ask(lambda: store.marks.get(MarkedChannel.REQUESTS, range(partitions)))
        marked = earliest_mark(marks, partitions)
        return marked is not None and made < marked - CLOCKS_SECONDS - MAX_SENDING_SECONDS

    # ------------------------------------------------------------------------------------------ what is known

    async def _scene_at_hand(self, who: Principal, bodies: Sequence[JobBody]) -> Scene:
        """The scene of the bodies, with the findings on their scripts: from the store, or else as it was seen lately.
        Raises `StoreUnavailable` if neither knows an object that a body names."""
        scripts = await self._composer.scripts_of(bodies)
        scene = await self._scene_or_seen(who, bodies)
        return scene._replace(scripts=scripts) if scripts else scene

    async def _scene_or_seen(self, who: Principal, bodies: Sequence[JobBody]) -> Scene:
        named = any(body.task_id or body.calendars or body.then or body.on_failure or body.notify for body in bodies)
        if not named:
            now, serving = self._context.time.fresh(), self._context.executors.fresh_serving()
            if now is not None and serving is not None:
                return Scene(now, {}, serving)
        try:
            scene = await self._breaker.ask(lambda: self._composer.scene(who, bodies), probes=not named)
        except StoreUnavailable:
            return self._scenes.find(who.namespace, bodies)
        if named:
            self._scenes.keep(who.namespace, bodies, scene)
        return scene

    def _message(self, request: Request) -> Message:
        """The message of a request: signed, if there is a secret."""
        message = Message(encode(request), request.job_id.bytes)
        if self._signer is None:
            return message
        return signed(message, self._signer, broker=self._broker, channel=REQUESTS, cluster=self._cluster)

    async def _send(self, made: Sequence[tuple[PendingRequest, Message]]) -> None:
        """Returns when the broker has all of them. Raises `Busy`, `BrokerUnavailable`."""
        futures = self._sender.put([message for _, message in made])
        if len(futures) == 1:
            await futures[0]
        else:
            for answer in await asyncio.gather(*futures, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer
        self.pendings.accepted([pending for pending, _ in made])


def _request(who: Principal, **fields: Any) -> Request:
    """A request of this principal."""
    return Request(
        namespace=who.namespace,
        principal=who.name,
        key_id=who.key_id,
        user_id=who.user_id,
        owner_id=who.owner_id,
        **_source(who),
        **fields,
    )


def _judge_alone(job_id: UUID, body: JobBody, scene: Scene, check: TaskCheck) -> None:
    """Check a change as far as that is possible without the job. Raises `Invalid`."""
    if body.job_id and body.job_id != job_id:
        raise Invalid("a job keeps its job_id; leave it out", pointer="/job_id")
    check_texts(body)
    name = clean_name(body.name or "the job", "/name")
    resolved = resolve_task(body, scene, check)
    if any(getattr(body, field) is not UNSET for field in SCHEDULE_NAMED):
        planned(body, job_id, scene.now)
    if body.calendars:
        check_calendars(body.calendars, scene.calendars)
    if body.notify:
        checked_channels(body.notify, scene.channels)
    found = policies(body)
    successors(body, job_id, name, scene.successors)
    if body.limits and resolved is not None:
        check_kept(found["limits"], resolved.task.kind, check.rules_of(resolved.task.kind).limits, sent=True)


# ------------------------------------------------------------------------------------------ names


def _job_id_of(name: bytes, place: int) -> UUID:
    """The id of a job that is created under this name, at this place of a batch."""
    return _id_of(hashlib.sha256(name + place.to_bytes(4, "big")).digest())


def _id_of(digest: bytes) -> UUID:
    """A UUIDv8 of nothing but a hash. The time that it seems to hold says nothing."""
    return time_id(int.from_bytes(digest[:6], "big"), digest[6:16])


def _named(body: JobBody, name: bytes, place: int) -> JobBody:
    """With the id that follows from the name, unless the client chose one."""
    return body if body.job_id else msgspec.structs.replace(body, job_id=_job_id_of(name, place))


def _source(who: Principal) -> dict[str, Any]:
    """The fields of a request that say who makes it, for the audit log."""
    kind, caller_id, _, address, request_id = Source.of(who)
    return {"caller_kind": kind.value, "caller_id": caller_id, "address": address, "request_id": request_id}
