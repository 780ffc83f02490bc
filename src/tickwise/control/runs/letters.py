"""Dead letters: runs that failed for good, and what people do about them.

    FAILED ──► open | held ──redrive──► a new run of the same job, linked both ways
                           ──discard──► nothing
                           ──decide───► what was true of an unknown outcome; sequences go on from it

Invariant: a letter is settled once, however many ask at the same time, and its new run is made with that or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from tickwise.control.access import requires
from tickwise.control.bodies import DecideBody, DiscardBody, RedriveBody
from tickwise.control.context import ControlContext, ReceiptFor
from tickwise.control.filters import LettersFilter, letters_query
from tickwise.control.runs.settlements import Settlements
from tickwise.control.texts import clean_reason
from tickwise.control.wakeups import wake_for_runs
from tickwise.domain.errors import Conflict, NotFound
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal, Trigger
from tickwise.domain.permissions import Permission
from tickwise.ports.signals import Topic
from tickwise.ports.store import (
    NO_TEXT,
    PAGE_BYTES,
    AttemptRow,
    LetterResolution,
    LetterRow,
    LetterStatus,
    Page,
    Replay,
    RunRow,
    Settlement,
)

MAX_CHAIN: Final = 50
"""The most runs before and after one that are listed. A longer chain of redrives points to another problem."""


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
        self._settlements = Settlements(context)

    @requires(Permission.RUNS_READ, by_labels=True)
    async def search(self, who: Principal, said: LettersFilter, *, before: UUID | None, limit: int) -> Page[LetterRow]:
        """Newest first, for people: a replica may be asked. A page is bounded in bytes, and tells of its runs neither
        definition nor result. It may pause (`Page.paused_at`). Those of every status if the filter names none."""
        query = letters_query(
            who.namespace,
            said,
            expire_seconds=self._context.dead_letter_seconds,
            limit=limit,
            within=who.within,
        )
        return await self._context.searches.letters(
            replace(query, before=before, may_pause=True, bytes_most=PAGE_BYTES, texts=NO_TEXT)
        )

    @requires(Permission.RUNS_READ, by_labels=True)
    async def get(self, who: Principal, run: UUID) -> LetterDetails:
        """One letter with its attempts. Raises `NotFound`."""
        letter = await self._letter(who, run)
        if not await self._context.is_about(who, letter.run.job_id):
            raise _no_letter(who, run)
        attempts = await self._context.store.runs.attempts(run)
        return LetterDetails(letter, attempts, await self._chain(who, letter))

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def redrive(
        self, who: Principal, run: UUID, body: RedriveBody, receipt_for: ReceiptFor[UUID] | None = None
    ) -> UUID | Replay:
        """A new run in place of a failed one; its id. Raises `NotFound`, `Invalid`; `Conflict` if the run has not
        failed, its letter is settled, or its job is cancelled."""
        note = _note(body.note)
        row = await self._context.run(who, run)
        _check_failed(row)
        new = await self._settlements.again(who, row, body)
        receipt = None if receipt_for is None else receipt_for(new.run_id)
        settled = await self._settlements.settle(who, Settlement(run, LetterStatus.REDRIVEN, note, new), receipt)
        if isinstance(settled, Replay):
            return settled
        await wake_for_runs(self._context, row.namespace, row.job_id, (new,))
        return new.run_id

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def discard(self, who: Principal, run: UUID, body: DiscardBody) -> LetterRow:
        """Discard a dead letter. A repeat changes nothing. Raises `NotFound`, `Conflict`."""
        _check_failed(await self._context.run(who, run))
        await self._settlements.settle(who, Settlement(run, LetterStatus.DISCARDED, _note(body.note)))
        return await self._letter(who, run)

    @requires(Permission.RUNS_WRITE, by_labels=True)
    async def decide(self, who: Principal, run: UUID, body: DecideBody) -> LetterRow:
        """Record the truth about an unknown outcome. A repeated decision has no second effect. Raises `NotFound`,
        `Conflict`."""
        _check_failed(await self._context.run(who, run))
        settlement = Settlement(run, LetterStatus.RESOLVED, _note(body.note), resolution=LetterResolution(body.outcome))
        await self._settlements.settle(who, settlement)
        # A sequence may go on from here, and it is a scheduler that lets it.
        self._context.signals.send(Topic.COMPLETIONS)
        return await self._letter(who, run)

    async def _letter(self, who: Principal, run: UUID) -> LetterRow:
        found = await self._settlements.find(who, run)
        if found is None:
            raise _no_letter(who, run)
        return found

    async def _chain(self, who: Principal, letter: LetterRow) -> Sequence[UUID]:
        """From the first run that was tried, through retries and redrives, to the newest."""
        before: list[UUID] = []
        run: RunRow | None = letter.run
        while run is not None and run.trigger == Trigger.RETRY and run.origin is not None and len(before) < MAX_CHAIN:
            before.append(run.origin)
            run = await self._context.store.runs.get(who.namespace, run.origin)
        after: list[UUID] = []
        following: LetterRow | None = letter
        while following is not None and following.redriven_as is not None and len(after) < MAX_CHAIN:
            after.append(following.redriven_as)
            following = await self._settlements.find(who, after[-1])
        return [*reversed(before), letter.run.run_id, *after]


def _no_letter(who: Principal, run: UUID) -> NotFound:
    return NotFound(f"there is no dead letter {run} in the namespace {who.namespace}")


def _check_failed(row: RunRow) -> None:
    if row.state is not RunState.FAILED:
        raise Conflict(
            f"the run is {row.state}, not FAILED, so there is no dead letter of it; a retry repeats "
            "any run that has ended",
            code="run_not_failed",
        )


def _note(note: str | None) -> str | None:
    return clean_reason(note, "/note")
