"""Settling dead letters: the part that one request, a retry and a bulk operation share.

Invariant: a letter is settled once, however many ask at the same time, and its new run is made with that or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from msgspec import UNSET

from tickwise.control.audit.entries import entry
from tickwise.control.bodies import RunRetryBody
from tickwise.control.context import ControlContext
from tickwise.control.jobs.policies import payload_of
from tickwise.documents.definition import decode_plan, with_payload
from tickwise.domain.audit import AuditAction, AuditEntry
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Conflict, NotFound, Refused
from tickwise.domain.model import Principal, Trigger, run_id
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    LetterRow,
    LetterStatus,
    NewRun,
    Receipt,
    Replay,
    RunRow,
    Settled,
    Settlement,
)

JOB_CANCELLED: Final = "the job is cancelled, for good; create a new one"


class Settlements:
    """Finds and settles dead letters, and makes the runs in place of failed ones. It checks no permission."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def find(self, who: Principal, run: UUID) -> LetterRow | None:
        """One letter, if there is one."""
        return await self._context.store.letters.get(who.namespace, run, self._context.dead_letter_seconds)

    async def settle_many(self, who: Principal, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """Settle many letters in one transaction; what became of each."""
        audit = _settled_by(who, settlements)
        results = await self._context.surely(
            lambda: self._context.store.letters.settle(who.namespace, settlements, by=who.name, audit=audit)
        )
        if isinstance(results, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        if any(settlement.run is not None for settlement in settlements):
            self._context.signals.send(Topic.RUNS)
        return results

    async def again(self, who: Principal, row: RunRow, body: RunRetryBody) -> NewRun:
        """Repeat a run that has ended, as a new run, with its payload or another."""
        payload = payload_of(body.payload, body.params)
        job = await self._context.job(who, row.job_id)
        definition = row.definition
        if payload is not None:
            definition = with_payload(definition or job.definition, payload)
        overlap = decode_plan(job.definition).overlap_of_asked() if body.overlap is UNSET else body.overlap
        now = await self._context.time.now()
        return new_run(row, now, definition=definition, overlap=overlap, request=self._context.clock.random_bytes(16))

    async def settle(self, who: Principal, settlement: Settlement, receipt: Receipt | None = None) -> Settled | Replay:
        """Settle one letter. Raises `Conflict`, `NotFound` for what cannot be."""
        audit = _settled_by(who, (settlement,))
        results = await self._context.surely(
            lambda: self._context.store.letters.settle(
                who.namespace, (settlement,), by=who.name, receipt=receipt, audit=audit
            )
        )
        if isinstance(results, Replay):
            return results
        settled = results[0]
        if settled not in (Settled.SETTLED, Settled.REPEATED):
            raise refusal(settled, settlement.run_id, await self.find(who, settlement.run_id))
        return settled


def _settled_by(who: Principal, settlements: Sequence[Settlement]) -> AuditEntry | None:
    """The entry of settlements that are made in one way; the store names the letters."""
    if not settlements:
        return None
    first = settlements[0]
    facts = {"status": first.status.value, "note": first.note, "resolution": first.resolution}
    detail = {name: value for name, value in facts.items() if value is not None}
    return entry(who, AuditAction.LETTER_SETTLED, "run", detail=detail)


def new_run(row: RunRow, at: float, *, definition: str | None, overlap: Overlap, request: bytes) -> NewRun:
    """A run in place of one that has ended; `request` tells several that ask for it apart."""
    return NewRun(
        run_id=new_run_id(row, at, request),
        due=at,
        trigger=Trigger.RETRY,
        definition=definition,
        origin=row.run_id,
        overlap=overlap,
    )


def new_run_id(row: RunRow, at: float, request: bytes) -> UUID:
    """The name of such a run."""
    return run_id(row.job_id, at, Trigger.RETRY, row.run_id.bytes + request)


def refusal(settled: Settled, run: UUID, letter: LetterRow | None) -> Refused:
    """The reason why a letter could not be settled."""
    if settled is Settled.JOB_CANCELLED:
        return Conflict(JOB_CANCELLED, code="job_cancelled")
    if settled is Settled.NOT_HELD:
        return Conflict(
            "the outcome of this run is known, so there is nothing to decide; redrive or discard its dead letter",
            code="letter_not_held",
        )
    if settled is Settled.TAKEN and letter is not None:
        instead = "retry that run" if letter.redriven_as else "ask for a new run of its job (POST /jobs/{id}/runNow)"
        return Conflict(
            f"the dead letter is settled: {settled_how(letter)}; to run it again, {instead}", code="letter_settled"
        )
    return NotFound(f"there is no dead letter {run}")


_HOW: Final[dict[LetterStatus, Callable[[LetterRow], str]]] = {
    LetterStatus.REDRIVEN: lambda letter: f"redriven as the run {letter.redriven_as}",
    LetterStatus.DISCARDED: lambda _letter: "discarded",
    LetterStatus.RESOLVED: lambda letter: f"decided as {letter.resolution}",
}


def settled_how(letter: LetterRow) -> str:
    """The settlement of a letter for people: the action, and its author."""
    how = _HOW.get(letter.status)
    who = f" by {letter.settled_by}" if letter.settled_by else ""
    return f"it was {how(letter)}{who}" if how is not None else f"it is {letter.status}"
