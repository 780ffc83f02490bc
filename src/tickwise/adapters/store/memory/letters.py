"""Runs that failed for good, and their settlements. A letter is an ended run; only its settlement is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tickwise.adapters.store.memory.definitions import in_window
from tickwise.adapters.store.memory.ended import Within
from tickwise.adapters.store.memory.history import with_texts
from tickwise.adapters.store.memory.records import EndedRun, LetterRecord
from tickwise.adapters.store.memory.state import Duty
from tickwise.domain import selectors
from tickwise.domain.audit import AuditEntry
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.ports.store import (
    JobAction,
    LetterQuery,
    LetterResolution,
    LetterRow,
    LetterStatus,
    OperationRow,
    Page,
    Receipt,
    Replay,
    Settled,
    Settlement,
    page_within,
)

KEPT: Final = frozenset({Settled.SETTLED, Settled.REPEATED})
"""Answers of a batch whose receipt is kept."""


class LetterViews(Duty):
    """Dead letters, as the port shows them."""

    # ------------------------------------------------------------------------------------------- looking up

    def _failed(self, namespace: str, run_id: UUID) -> EndedRun | None:
        ended = self._state.ended.get(run_id)
        if ended is None or ended.row.namespace != namespace or ended.row.state is not RunState.FAILED:
            return None
        return ended

    def _letter(self, ended: EndedRun, expire_seconds: float) -> LetterRow:
        run = ended.row
        job = self._state.job_of(run)
        name, kind = ("(moved)", "") if job is None else (job.name, job.task_kind)
        settled = self._state.letters.get(run.run_id)
        if settled is None:
            status = self._waiting(ended, expire_seconds)
            return LetterRow(run=run, job_name=name, task_kind=kind, status=status)
        return LetterRow(
            run=run,
            job_name=name,
            task_kind=kind,
            status=settled.status,
            settled_at=settled.at,
            settled_by=settled.by,
            note=settled.note,
            redriven_as=settled.redriven_as,
            resolution=settled.resolution,
        )

    def _waiting(self, ended: EndedRun, expire_seconds: float) -> LetterStatus:
        """The status of a letter that nobody settled."""
        if (ended.row.ended_at or 0.0) + expire_seconds <= self._state.now():
            return LetterStatus.EXPIRED
        return LetterStatus.HELD if ended.row.reason == UNKNOWN_OUTCOME else LetterStatus.OPEN


class Letters(LetterViews):
    """`LetterStore` of the port."""

    async def get(self, namespace: str, run_id: UUID, expire_seconds: float) -> LetterRow | None:
        ended = self._failed(namespace, run_id)
        return None if ended is None else self._letter(ended, expire_seconds)

    # ------------------------------------------------------------------------------------------- settling

    async def settle(
        self,
        namespace: str,
        settlements: Sequence[Settlement],
        *,
        by: str,
        receipt: Receipt | None = None,
        audit: AuditEntry | None = None,
    ) -> Sequence[Settled] | Replay:
        if (replay := self._state.replay(receipt)) is not None:
            return replay
        self._state.check_open(namespace, or_closing=any(one.run is not None for one in settlements))
        answers = [self._settle(namespace, settlement, by) for settlement in settlements]
        if KEPT.issuperset(answers):
            self._state.keep(receipt)
        done = [one.run_id for one, answer in zip(settlements, answers, strict=True) if answer is Settled.SETTLED]
        if audit is not None and done:
            self._state.audit.write(audit._replace(targets=done))
        return answers

    def _settle(self, namespace: str, settlement: Settlement, by: str) -> Settled:
        ended = self._failed(namespace, settlement.run_id)
        if ended is None:
            return Settled.NOT_FAILED
        if (answer := self._judge_settlement(ended, settlement)) is not Settled.SETTLED:
            return answer
        now = self._state.now()
        new = settlement.run if settlement.status is LetterStatus.REDRIVEN else None
        resolution = settlement.resolution if settlement.status is LetterStatus.RESOLVED else None
        self._state.letters[settlement.run_id] = LetterRecord(
            status=settlement.status,
            at=now,
            by=by,
            note=settlement.note,
            redriven_as=None if new is None else new.run_id,
            resolution=resolution,
        )
        if new is not None:
            self._state.make_now(self._state.job(namespace, ended.row.job_id), new)
        if resolution is not None:
            self._state.note_completion(ended, succeeded=resolution is LetterResolution.SUCCEEDED)
        return Settled.SETTLED

    def _judge_settlement(self, ended: EndedRun, settlement: Settlement) -> Settled:
        """The answer to a settlement: SETTLED if it may be carried out, else the reason why not."""
        before = self._state.letters.get(settlement.run_id)
        if before is not None:
            return settlement.answer(before.status, before.redriven_as, before.resolution)
        job = self._state.job_of(ended.row)
        refusal = settlement.refusal(
            is_held=ended.row.reason == UNKNOWN_OUTCOME,
            is_job_cancelled=job is None or job.standing is JobAction.CANCEL,
        )
        return refusal or Settled.SETTLED


class LetterSearches(LetterViews):
    """The searches for dead letters."""

    async def letters(self, query: LetterQuery) -> Page[LetterRow]:
        found: list[LetterRow] = []
        if query.job_id is not None and query.job_id not in self._state.jobs:
            return page_within(found, query.bytes_most)
        for ended in self._state.ended.newest(
            query.job_id, namespace=query.namespace, failed=True, within=Within(query.before), is_search=True
        ):
            if len(found) >= query.limit:
                break
            if query.error_group not in (None, self._state.error_letters.get(ended.row.run_id)):
                continue
            if not self._is_within(ended, query):
                continue
            if matches(row := self._letter(ended, query.expire_seconds), query):
                found.append(replace(row, run=with_texts(row.run, query.texts)))
        return page_within(found, query.bytes_most)

    def _is_within(self, ended: EndedRun, query: LetterQuery) -> bool:
        """Check the labels of the job. Of one that is gone, or in another namespace by now, nobody here knows the
        labels."""
        if query.within is None:
            return True
        job = self._state.job_of(ended.row)
        return job is not None and selectors.matches(job.labels, query.within)

    async def operations(
        self,
        namespace: str,
        before: UUID | None,
        limit: int,
        *,
        kinds: Sequence[str] | None = None,
        bytes_most: int | None = None,
    ) -> Page[OperationRow]:
        mine = [
            operation.row
            for operation_id, operation in self._state.operations.items()
            if operation.row.namespace == namespace
            and (before is None or operation_id < before)
            and (kinds is None or operation.row.kind in kinds)
        ]
        return page_within(sorted(mine, key=lambda row: row.operation_id, reverse=True)[:limit], bytes_most)


def matches(row: LetterRow, query: LetterQuery) -> bool:
    """Check whether the letter matches every condition of the search."""
    return (
        (not query.statuses or row.status in query.statuses)
        and (query.task_kind is None or row.task_kind == query.task_kind)
        and (query.reason is None or row.run.reason == query.reason)
        and in_window(row.run.ended_at, query.ended_after, query.ended_before)
    )
