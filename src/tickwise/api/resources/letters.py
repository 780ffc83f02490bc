"""`/dead-letters`: runs that failed for good, and what is done about them."""

from __future__ import annotations

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, cursor_id, page_links, replayed, search_cursor
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.runs import Cursor, Limit
from tickwise.api.resources.written import LetterSettledView, letter_settled, reads_runs
from tickwise.api.wire import (
    API,
    AttemptView,
    Instant,
    RunDemanded,
    RunView,
    attempt_view,
    run_view,
    time_of,
    time_or_none,
)
from tickwise.control.bodies import DecideBody, DiscardBody, RedriveBody
from tickwise.control.filters import LettersFilter, Text, Time
from tickwise.control.runs.letters import LetterService
from tickwise.control.runs.payloads import run_payload
from tickwise.ports.paging import place_after
from tickwise.ports.store import LetterResolution, LetterRow, LetterStatus, Replay

Statuses = Annotated[list[LetterStatus], Meta(max_length=6, description="May be given several times. Default: all.")]

_redrive: Final = msgspec.json.Decoder(RedriveBody)
_discard: Final = msgspec.json.Decoder(DiscardBody)
_decide: Final = msgspec.json.Decoder(DecideBody)


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A search for dead letters; everything given must match."""

    status: Statuses = []
    job_id: UUID | UnsetType = UNSET
    task_kind: Text | UnsetType = UNSET
    reason: Text | UnsetType = UNSET
    error_id: Annotated[UUID, Meta(description="Of the runs of this group of errors.")] | UnsetType = UNSET
    ended_after: Time | UnsetType = UNSET
    ended_before: Time | UnsetType = UNSET
    limit: Limit = 50
    cursor: Cursor | UnsetType = UNSET


class LetterView(msgspec.Struct, kw_only=True):
    """A dead letter."""

    run_id: UUID
    """It is named by its run."""
    job_id: UUID
    job_name: str
    task_kind: str
    status: LetterStatus
    reason: str | None
    error_message: str | None
    attempt_number: int
    failures: int
    crashes: int
    due_time: Instant
    end_time: Instant | None
    log_url: str | None
    origin: UUID | None
    """The run that was repeated by it, or that started it."""
    redriven_as: UUID | None
    """The run that was made in its place."""
    outcome: LetterResolution | None
    """A person's decision on an unknown outcome."""
    note: str | None
    settled_time: Instant | None
    settled_by: str | None


class LetterDetailView(LetterView, kw_only=True):
    """A dead letter with all that is known of its run."""

    run: RunView
    payload: msgspec.Raw | None
    """The run's own payload, if it is not the job's."""
    attempts: list[AttemptView]
    chain: list[UUID]
    """The runs that were made of each other by retries and redrives, the first first, its own among them."""


def _fields(row: LetterRow) -> dict[str, Any]:
    run = row.run
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "job_name": row.job_name,
        "task_kind": row.task_kind,
        "status": row.status,
        "reason": run.reason,
        "error_message": run.error,
        "attempt_number": run.attempt,
        "failures": run.failures,
        "crashes": run.crashes,
        "due_time": time_of(run.due_at),
        "end_time": time_or_none(run.ended_at),
        "log_url": None if run.attempt == 0 else f"{API}/runs/{run.run_id}/logs",
        "origin": run.origin,
        "redriven_as": row.redriven_as,
        "outcome": row.resolution,
        "note": row.note,
        "settled_time": time_or_none(row.settled_at),
        "settled_by": row.settled_by,
    }


def letter_view(row: LetterRow) -> LetterView:
    """A dead letter as it is listed."""
    return LetterView(**_fields(row))


async def letters_list(call: Call) -> Reply:
    """A page of dead letters, newest first."""
    said: LettersQuery = call.query
    wanted = LettersFilter(
        status=said.status,
        job_id=said.job_id,
        task_kind=said.task_kind,
        reason=said.reason,
        error_id=said.error_id,
        ended_after=said.ended_after,
        ended_before=said.ended_before,
    )
    rows = await call.control.letters.search(
        call.principal, wanted, before=cursor_id(said.cursor), limit=said.limit + 1
    )
    goes_on = search_cursor(place_after(rows, said.limit, lambda row: row.run.run_id, is_rest=False))
    return answer(200, [letter_view(row) for row in rows[: said.limit]], headers=page_links(call, goes_on))


async def letter_get(call: Call) -> Reply:
    """One, with its attempts."""
    found = await call.control.letters.get(call.principal, call.uuid("run_id", "dead letter"))
    run = found.letter.run
    view = LetterDetailView(
        **_fields(found.letter),
        run=run_view(run),
        payload=run_payload(run),
        attempts=[attempt_view(run.run_id, attempt) for attempt in found.attempts],
        chain=list(found.chain),
    )
    return answer(200, view)


async def letter_redrive(call: Call) -> Reply:
    """A new run in its place."""
    body = decode(_redrive, call.body or b"{}", field_names(RedriveBody))
    claim = call.claim
    done = await call.control.letters.redrive(
        call.principal,
        call.uuid("run_id", "dead letter"),
        body,
        None if claim is None else lambda run_id: claim.receipt(answer(202, RunDemanded(run_id=run_id))),
    )
    if isinstance(done, Replay):
        return replayed(call, done)
    return answer(202, RunDemanded(run_id=done))


async def letter_discard(call: Call) -> Reply:
    """Discard a dead letter."""
    body = decode(_discard, call.body or b"{}", field_names(DiscardBody))
    return _settled(call, await call.control.letters.discard(call.principal, call.uuid("run_id", "dead letter"), body))


async def letter_decide(call: Call) -> Reply:
    """The truth about an unknown outcome."""
    body = decode(_decide, call.body, field_names(DecideBody))
    return _settled(call, await call.control.letters.decide(call.principal, call.uuid("run_id", "dead letter"), body))


def _settled(call: Call, row: LetterRow) -> Reply:
    return answer(200, letter_view(row) if reads_runs(call.principal) else letter_settled(row))


LETTERS: Final = (
    Endpoint(
        method="GET", path=f"{API}/dead-letters", control=LetterService.search,
        name="listDeadLetters", tag="dead letters",
        summary="Search dead letters: runs that failed for good, newest first.",
        description="A search looks at a bounded number of failed runs for each page: a page may be short or empty, "
        "and its `Link` leads on.",
        handler=letters_list, answers=(list[LetterView],), query=LettersQuery,
    ),
    Endpoint(
        method="GET", path=f"{API}/dead-letters/{{run_id}}", control=LetterService.get, name="getDeadLetter",
        tag="dead letters", summary="One dead letter with all attempts of its run, and its origin or its follow-up.",
        handler=letter_get, answers=(LetterDetailView,), refuses=(404,),
    ),
    Endpoint(
        method="POST", path=f"{API}/dead-letters/{{run_id}}/redrive", control=LetterService.redrive,
        name="redriveDeadLetter",
        tag="dead letters",
        summary="Run a dead letter again as a new run, with its payload or another; the two are linked.",
        handler=letter_redrive, body=RedriveBody, optional_body=True, answers=(RunDemanded,), status=202,
        refuses=(404, 409), foretold=True,
    ),
    Endpoint(
        method="POST", path=f"{API}/dead-letters/{{run_id}}/discard", control=LetterService.discard,
        name="discardDeadLetter",
        tag="dead letters", summary="Discard a dead letter; the run stays on record as FAILED.",
        handler=letter_discard, body=DiscardBody, optional_body=True, answers=(LetterView, LetterSettledView),
        refuses=(404, 409),
    ),
    Endpoint(
        method="POST", path=f"{API}/dead-letters/{{run_id}}/decide", control=LetterService.decide,
        name="decideDeadLetter",
        tag="dead letters", summary="Decide a run whose outcome is unknown (status `held`).",
        description="The run stays on record as FAILED, with reason `unknown_outcome`. A sequence continues by this "
        "decision. To run it again instead, redrive it.",
        handler=letter_decide, body=DecideBody, answers=(LetterView, LetterSettledView),
        refuses=(404, 409),
    ),
)  # fmt: skip
