"""Jobs with labels, their runs, dead letters and operations, made for probes of what a caller can reach."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import UUID

import msgspec

from tests.security.label_routes import JOB_BODY
from tests.support.app import API, World
from tests.support.artefacts import keep_artefacts
from tickwise.domain.lifecycle import RunState
from tickwise.domain.retry import UNKNOWN_OUTCOME
from tickwise.ports.store import ClaimRequest, EndedOperation, OperationStatus
from tickwise.testing import factories
from tickwise.testing.factories import Factory, outcome

SECRET: Final = "a-name-that-others-must-not-read"
_NUMBERS: Final = count(1)
_LANE: Final = ("task:shell",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """A job, and all that belongs to it: the values of paths."""

    job_id: str
    key: str
    failed: str
    """A run that failed, with a dead letter that waits for a decision."""
    queued: str
    operation_id: str
    """An operation about jobs with the labels of the job alone."""

    def path(self, endpoint_path: str, name: str) -> str:
        """The path of a route, with these in it."""
        run_id = self.queued if name == "cancelRun" else self.failed
        values = {
            "job_id": self.job_id,
            "key": self.key,
            "run_id": run_id,
            "operation_id": self.operation_id,
            "artefact": "a",
            "backfill_id": "01a1fd81-8cdc-82e9-be4e-34f9a5bd159d",
        }
        for value in values:
            endpoint_path = endpoint_path.replace("{" + value + "}", values[value])
        return endpoint_path


async def made(here: World, namespace: str, labels: dict[str, str]) -> Things:
    """A job with these labels, in a namespace, with a run that failed and one that waits."""
    number = next(_NUMBERS)
    key = f"{SECRET}-key-{number}"
    body = {**JOB_BODY, "name": f"{SECRET}-{number}", "key": key, "labels": labels, "objective_start_seconds": 30}
    headers = {"Tickwise-Namespace": namespace}
    answer = await here.client.post(f"{API}/jobs", json=body, headers=headers)
    assert 201 == answer.status_code, answer.text
    job_id = answer.json()["job_id"]
    failed = await _demanded(here, job_id, headers)
    await _fail(here, UUID(failed))
    await keep_artefacts(here.control.context.blobs, UUID(failed), {"a": b"kept"})
    operation = Factory(await here.store.now(), seed=f"operation {number}").identifier()
    now = await here.store.now()
    request = {"filter": {"reason": SECRET}, "only": [labels] if labels else None}
    ended = EndedOperation(
        operation_id=operation, namespace=namespace, kind="runs:cancel", request=msgspec.json.encode(request).decode(),
        created_by="somebody", created_at=now, status=OperationStatus.DONE, problems="[]",
    )  # fmt: skip
    await here.store.operations.record([ended])
    return Things(
        job_id=job_id,
        key=key,
        failed=failed,
        queued=await _demanded(here, job_id, headers),
        operation_id=str(operation),
    )


async def _demanded(here: World, job_id: str, headers: dict[str, str]) -> str:
    answer = await here.client.post(f"{API}/jobs/{job_id}/runNow", json={"overlap": "allow"}, headers=headers)
    assert 202 == answer.status_code, answer.text
    run_id: str = answer.json()["run_id"]
    return run_id


async def _fail(here: World, run_id: UUID) -> None:
    """End the run as one whose outcome nobody knows."""
    executor = await here.store.executors.join(factories.executor(f"one-{next(_NUMBERS)}", labels=_LANE))
    claims = await here.store.attempts.claim(
        ClaimRequest(executor=executor, queues=("default",), labels=_LANE, limit=1_000, ahead_seconds=0.0)
    )
    mine = next(each for each in claims if each.run_id == run_id)
    ended = outcome(mine, RunState.FAILED, reason=UNKNOWN_OUTCOME, error=SECRET)
    assert [] == list(await here.store.attempts.finish(executor, [ended]))
    await here.store.executors.leave(executor)


async def rows_of(here: World, namespace: str, things: Things) -> Any:
    """All that the store has of these, for a comparison."""
    store = here.store
    return (
        await store.jobs.get(namespace, UUID(things.job_id)),
        await store.runs.get(namespace, UUID(things.failed)),
        await store.runs.get(namespace, UUID(things.queued)),
        await store.letters.get(namespace, UUID(things.failed), 30 * 86_400.0),
        await store.operations.get(namespace, UUID(things.operation_id)),
    )
