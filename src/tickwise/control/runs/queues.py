"""Queues: the waiting and the running runs of each, and holds on a queue.

Invariant: a hold stops nothing that has begun; what waits keeps its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from tickwise.control.access import requires
from tickwise.control.audit.entries import entry
from tickwise.control.bodies import QueueDrainBody, QueueHoldBody
from tickwise.control.context import ControlContext
from tickwise.control.texts import clean_reason
from tickwise.control.times import instant_within
from tickwise.domain.audit import AuditAction
from tickwise.domain.errors import Invalid, NotFound
from tickwise.domain.model import Principal
from tickwise.domain.permissions import Permission
from tickwise.ports.signals import Topic
from tickwise.ports.store import QueueHold, QueueRow

PAST_SECONDS: Final = 60.0
"""A hold from up to so long ago is one from now on: clocks differ, and people take their time."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)


class QueueService:
    """Everything about queues."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    @requires(Permission.QUEUES_READ)
    async def overview(self, who: Principal) -> Sequence[QueueRow]:
        """By name."""
        return await self._context.store.queues.all(who.namespace)

    @requires(Permission.QUEUES_READ)
    async def unserved(self, who: Principal, rows: Sequence[QueueRow]) -> Sequence[str]:
        """Of these queues of the namespace, the names of those in which runs wait and that no active executor
        serves."""
        active = await self._context.executors.rows()
        served = {queue for executor in active if executor.takes(who.namespace) for queue in executor.queues}
        return [row.queue for row in rows if row.queued and row.queue not in served]

    @requires(Permission.QUEUES_READ)
    async def get(self, who: Principal, queue: str) -> QueueRow:
        """One queue. Raises `NotFound` for one that no job has used and that is not on hold."""
        return await self._get(who, queue)

    @requires(Permission.QUEUES_WRITE)
    async def hold(self, who: Principal, queue: str, body: QueueHoldBody) -> QueueRow:
        """Let it stand still, in place of a hold that there is. One that no job has used yet can be held too.

        Raises `NotFound` for a name that no queue can have; `Invalid`."""
        return await self._hold(who, queue, body)

    @requires(Permission.QUEUES_WRITE)
    async def drain(self, who: Principal, queue: str, body: QueueDrainBody) -> QueueRow:
        """Hold it from now on; the answer tells what still goes on. Raises as `hold`."""
        return await self._hold(who, queue, QueueHoldBody(reason=body.reason, until=body.until))

    @requires(Permission.QUEUES_WRITE)
    async def resume(self, who: Principal, queue: str) -> QueueRow:
        """Let it go on. One that is not on hold goes on anyway. Raises `NotFound`."""
        audit = entry(who, AuditAction.QUEUE_RESUMED, "queue", queue)
        resumed = await self._context.surely(
            lambda: self._context.store.queues.resume(who.namespace, queue, audit=audit)
        )
        if resumed:
            # Before anything else is looked at: executors may claim from it now.
            self._context.signals.send(Topic.QUEUES)
        try:
            return await self._get(who, queue)
        except NotFound:
            if not resumed:
                raise
            # One that nothing but its hold was known of is gone with it.
            return QueueRow(queue=queue, hold=None, held=False, queued=0, dispatched=0, running=0)

    async def _get(self, who: Principal, queue: str) -> QueueRow:
        for row in await self._context.store.queues.all(who.namespace):
            if row.queue == queue:
                return row
        raise NotFound(f"no job of the namespace {who.namespace} has used a queue {queue[:100]!r}; it is not on hold")

    async def _hold(self, who: Principal, queue: str, body: QueueHoldBody) -> QueueRow:
        if _NAME.fullmatch(queue) is None:
            raise NotFound(
                f"{queue[:100]!r} is no name of a queue; they have letters, digits and _ . -, at most 100 of them"
            )
        reason = clean_reason(body.reason, "/reason")
        begin = None if body.begin is None else instant_within(body.begin, "/from")
        until = None if body.until is None else instant_within(body.until, "/until")
        now = await self._context.time.now()
        if begin is not None and begin < now - PAST_SECONDS:
            raise Invalid("from is in the past; leave it out to hold the queue from now on", pointer="/from")
        if until is not None and until <= (now if begin is None else max(now, begin)):
            what = "in the past" if until <= now else "not after from"
            raise Invalid(f"until is {what}; give a later time, or leave it out", pointer="/until")
        hold = QueueHold(
            namespace=who.namespace, queue=queue, begin=begin, until=until, reason=reason, by=who.name
        )  # fmt: skip
        detail = {"reason": reason, "from": begin, "until": until}
        audit = entry(who, AuditAction.QUEUE_HELD, "queue", queue, detail=detail)
        row = await self._context.surely(lambda: self._context.store.queues.hold(hold, audit=audit))
        # Executors are asked to return the runs of the queue that they hold and have not begun.
        self._context.signals.send(Topic.CANCELS)
        return row
