"""Dead letters: runs that failed for good, and what people do about them.

    FAILED ──► open | held ──redrive──► a new run of the same job, linked both ways
                           ──discard──► nothing
                           ──decide───► what was true of an unknown outcome; sequences go on from it

Invariant: a letter is settled once, whoever asks at the same time, and its new run is made with that or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import UNSET

from tickwise.control.bodies import DecideBody, DiscardBody, RedriveBody, RunRetryBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.filters import LettersFilter, letters_query
from tickwise.control.jobs.policies import payload_of
from tickwise.control.texts import clean_text
from tickwise.control.wakeups import wake_for_runs
from tickwise.domain.decision import Overlap
from tickwise.domain.errors import Conflict, NotFound, Refused
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal, Trigger, run_id
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    AttemptRow,
    LetterRow,
    LetterStatus,
    NewRun,
    Receipt,
    Replay,
    Ruling,
    RunRow,
    Settled,
    Settlement,
)
from tickwise.roles.shared.definition import decode_plan, with_payload

MAX_CHAIN: Final = 50
"""So many runs before and after one are told of: who redrives more often than that has another problem."""
JOB_CANCELLED: Final = "the job is cancelled, for good; create a new one"


class LetterDetails(NamedTuple):
    """A dead letter with all that is known of its run."""

    letter: LetterRow
    attempts: Sequence[AttemptRow]
    chain: Sequence[UUID]
    """The runs that were made of each other, the first first, its own among them."""


class LetterService:
    """Everything about dead letters."""

    def __init__(self, context: ControlContext) -> None:
        self._context = context

    async def search(
        self, who: Principal, said: LettersFilter, *, before: UUID | None, limit: int
    ) -> Sequence[LetterRow]:
        """Newest first, for people: a replica may be asked. Those of every status if the filter names none."""
        query = letters_query(who.namespace, said, expire_seconds=self._context.dead_letter_seconds, limit=limit)
        return await self._context.searches.letters_list(replace(query, before=before))

    async def get(self, who: Principal, run: UUID) -> LetterDetails:
        """One letter with its attempts. Raises `NotFound`."""
        letter = await self._letter(who, run)
        attempts = await self._context.store.run_attempts(run)
        return LetterDetails(letter, attempts, await self._chain(who, letter))

    async def redrive(
        self, who: Principal, run: UUID, body: RedriveBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """A new run in place of a failed one; its id. Raises `NotFound`, `Invalid`; `Conflict` if the run has not
        failed, its letter is settled, or its job is cancelled."""
        note = _note(body.note)
        row = await self._context.run(who, run)
        _check_failed(row)
        new = await self.again(who, row, body)
        receipt = None if receipt_for is None else receipt_for(new.run_id)
        settled = await self.settle(who, Settlement(run, LetterStatus.REDRIVEN, note, new), receipt)
        if isinstance(settled, Replay):
            return settled
        await wake_for_runs(self._context, row.namespace, row.job_id, (new,))
        return new.run_id

    async def discard(self, who: Principal, run: UUID, body: DiscardBody) -> LetterRow:
        """Nothing more is done about it. Twice is once. Raises `NotFound`, `Conflict`."""
        _check_failed(await self._context.run(who, run))
        await self.settle(who, Settlement(run, LetterStatus.DISCARDED, _note(body.note)))
        return await self._letter(who, run)

    async def decide(self, who: Principal, run: UUID, body: DecideBody) -> LetterRow:
        """What was true of an unknown outcome. Twice the same is once. Raises `NotFound`, `Conflict`."""
        _check_failed(await self._context.run(who, run))
        settlement = Settlement(run, LetterStatus.DECIDED, _note(body.note), ruling=Ruling(body.outcome))
        await self.settle(who, settlement)
        # A sequence may go on from here, and it is a scheduler that lets it.
        self._context.signals.send(Topic.FOLLOWS)
        return await self._letter(who, run)

    # ------------------------------------------------------------------------------------------ for operations

    async def find(self, who: Principal, run: UUID) -> LetterRow | None:
        """One letter, if there is one."""
        return await self._context.store.letter_get(who.namespace, run, self._context.dead_letter_seconds)

    async def settle_many(self, who: Principal, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """Settle many letters in one transaction; what became of each."""
        results = await self._context.surely(
            lambda: self._context.store.letters_settle(who.namespace, settlements, by=who.name)
        )
        if isinstance(results, Replay):  # a write without a receipt has no earlier answer
            raise TypeError("the store answered a replay to a write without a receipt")
        if any(settlement.run is not None for settlement in settlements):
            self._context.signals.send(Topic.RUNS)
        return results

    # ------------------------------------------------------------------------------------------ shared with retries

    async def again(self, who: Principal, row: RunRow, body: RunRetryBody) -> NewRun:
        """A new run like one that has ended, with its payload or another."""
        payload = payload_of(body.payload, body.params)
        job = await self._context.job(who, row.job_id)
        definition = row.definition
        if payload is not None:
            definition = with_payload(definition or job.definition, payload)
        overlap = decode_plan(job.definition).overlap_of_asked() if body.overlap is UNSET else body.overlap
        now = await self._context.time.now()
        return new_run(row, now, definition=definition, overlap=overlap, request=self._context.clock.noise(16))

    async def settle(self, who: Principal, settlement: Settlement, receipt: Receipt | None = None) -> Settled | Replay:
        """Settle one letter. Raises `Conflict`, `NotFound` for what cannot be."""
        results = await self._context.surely(
            lambda: self._context.store.letters_settle(who.namespace, (settlement,), by=who.name, receipt=receipt)
        )
        if isinstance(results, Replay):
            return results
        settled = results[0]
        if settled not in (Settled.SETTLED, Settled.REPEATED):
            raise refusal(settled, settlement.run_id, await self.find(who, settlement.run_id))
        return settled

    async def _letter(self, who: Principal, run: UUID) -> LetterRow:
        found = await self.find(who, run)
        if found is None:
            raise NotFound(f"there is no dead letter {run} in the namespace {who.namespace}")
        return found

    async def _chain(self, who: Principal, letter: LetterRow) -> Sequence[UUID]:
        """From the first run that was tried, through retries and redrives, to the newest."""
        before: list[UUID] = []
        run: RunRow | None = letter.run
        while run is not None and run.trigger == Trigger.RETRY and run.origin is not None and len(before) < MAX_CHAIN:
            before.append(run.origin)
            run = await self._context.store.run_get(who.namespace, run.origin)
        after: list[UUID] = []
        following: LetterRow | None = letter
        while following is not None and following.redriven_as is not None and len(after) < MAX_CHAIN:
            after.append(following.redriven_as)
            following = await self.find(who, after[-1])
        return [*reversed(before), letter.run.run_id, *after]


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
    """What such a run is called."""
    return run_id(row.job_id, at, Trigger.RETRY, row.run_id.bytes + request)


def refusal(settled: Settled, run: UUID, letter: LetterRow | None) -> Refused:
    """Why a letter could not be settled."""
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
    LetterStatus.DECIDED: lambda letter: f"decided as {letter.ruling}",
}


def settled_how(letter: LetterRow) -> str:
    """For people: what was done about it, and by whom."""
    how = _HOW.get(letter.status)
    who = f" by {letter.settled_by}" if letter.settled_by else ""
    return f"it was {how(letter)}{who}" if how is not None else f"it is {letter.status}"


def _check_failed(row: RunRow) -> None:
    if row.state is not RunState.FAILED:
        raise Conflict(
            f"the run is {row.state}, not FAILED, so there is no dead letter of it; a retry repeats "
            "any run that has ended",
            code="run_not_failed",
        )


def _note(note: str | None) -> str | None:
    return None if note is None else clean_text(note, "/note")
