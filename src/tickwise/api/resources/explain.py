"""`explain`: why a job, or a run, did what it did, waits, or will do what it will."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tickwise.api.endpoint import Call, Endpoint, Reply, answer, given_instant
from tickwise.api.wire import API, Instant, time_of
from tickwise.control.explain.explanations import Because, ConditionName, Explanation
from tickwise.control.explain.service import ExplainService


class ExplainQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Of which time."""

    at: (
        Annotated[
            datetime,
            Meta(tz=True, description="Past or future, to the second. Default: the present state of the job."),
        ]
        | UnsetType
    ) = UNSET


class CauseView(msgspec.Struct, kw_only=True):
    """Other facts that contributed."""

    code: Because
    sentence: str
    data: dict[str, Any]
    """The facts of the sentence, for programs."""


class ConditionView(msgspec.Struct, kw_only=True):
    """A condition for the start."""

    condition: ConditionName
    """Stable. New ones may come."""
    met: bool
    evidence: str
    """The figures, names and ids that were seen."""
    looked_at: Instant
    change: str | None
    """The event that would make it met; null: it is met."""
    data: dict[str, Any]
    """The ids and figures of the evidence, for programs."""


class ExplanationView(msgspec.Struct, kw_only=True):
    """An explanation."""

    code: Because
    """Stable. New ones may come."""
    sentence: str
    """For people, with times on the job's clock."""
    job_id: UUID | None
    run_id: UUID | None
    """The run, or the record, that it speaks of."""
    nominal_time: Instant | None
    data: dict[str, Any]
    """The facts of the sentence, for programs; which members there are follows from the code."""
    causes: list[CauseView]
    conditions: list[ConditionView]
    """Of a run that waits, and of a job at present: each condition for the start, met or not. Else empty."""


async def job_explain(call: Call) -> Reply:
    """An explanation a job did, or did not, run."""
    query: ExplainQuery = call.query
    job_id = call.uuid("job_id", "job")
    found = await call.control.explain.job(call.principal, job_id, given_instant(query.at))
    return answer(200, _view(found, job_id))


async def run_explain(call: Call) -> Reply:
    """An explanation a run is where it is."""
    return answer(200, _view(await call.control.explain.run(call.principal, call.uuid("run_id", "run")), None))


def _view(found: Explanation, job_id: UUID | None) -> ExplanationView:
    run = found.run
    return ExplanationView(
        code=found.code,
        sentence=found.sentence,
        job_id=job_id if run is None else run.job_id,
        run_id=None if run is None else run.run_id,
        nominal_time=None if run is None else time_of(run.nominal_at),
        data=found.data,
        causes=[CauseView(code=cause.code, sentence=cause.sentence, data=cause.data) for cause in found.causes],
        conditions=[
            ConditionView(
                condition=each.name,
                met=each.met,
                evidence=each.evidence,
                looked_at=time_of(each.looked_at),
                change=each.change,
                data=each.data,
            )
            for each in found.conditions
        ],
    )


EXPLAIN: Final = (
    Endpoint(
        method="GET", path=f"{API}/jobs/{{job_id}}/explain", control=ExplainService.job, name="explainJob", tag="jobs",
        summary="Explain why a job did, or did not, run at a time, or does not run now.",
        handler=job_explain, answers=(ExplanationView,), query=ExplainQuery, refuses=(404,),
    ),
    Endpoint(
        method="GET", path=f"{API}/runs/{{run_id}}/explain", control=ExplainService.run, name="explainRun", tag="runs",
        summary="Explain why a run was late, was skipped, waits, or ran as it did.",
        handler=run_explain, answers=(ExplanationView,), refuses=(404,),
    ),
)  # fmt: skip
