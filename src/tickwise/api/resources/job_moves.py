"""`/jobs/{job_id}/move`: a job goes from one namespace to another."""

from __future__ import annotations

from typing import Final

import msgspec

from tickwise.api.endpoint import Call, Endpoint, Reply, answer
from tickwise.api.reading import decode, field_names
from tickwise.api.resources.written import JobWrittenView, job_written, reads_jobs
from tickwise.api.wire import API, JobView, job_view
from tickwise.control.bodies import JobMoveBody
from tickwise.control.jobs.service import JobService
from tickwise.domain.errors import Bug

_move: Final = msgspec.json.Decoder(JobMoveBody)


async def job_move(call: Call) -> Reply:
    """Move it; what the caller may see of it there."""
    body = decode(_move, call.body, field_names(JobMoveBody))
    job_id = call.uuid("job_id", "job")
    if call.caller is None:
        raise Bug("a request without a caller came through to a route that needs one")
    there = await call.control.directory.principal(call.caller, body.namespace)
    row = await call.control.jobs.move(call.principal, job_id, there)
    if not reads_jobs(there):
        return answer(200, job_written(row, ()))
    [warnings] = await call.control.jobs.warnings(there, [row])
    return answer(200, job_view(row, warnings))


JOB_MOVES: Final = (
    Endpoint(
        method="POST", path=f"{API}/jobs/{{job_id}}/move", control=JobService.move, name="moveJob", tag="jobs",
        summary="Move a job to another namespace, with its id, key, schedule and standing.",
        description="Needs `jobs:write` in both. The job must have no unfinished run (409, `job_busy`). The stored "
        "task or script, the calendars and the successors that it names must be there, too (409, `references_missing`, "
        "names those that are not). Ended runs, with logs and dead letters, stay in the "
        "namespace in which they ran; from there nothing is run again. Sent again, it returns the job as it is.",
        handler=job_move, body=JobMoveBody, answers=(JobView, JobWrittenView), refuses=(404, 409),
    ),
)  # fmt: skip
