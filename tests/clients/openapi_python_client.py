"""What somebody writes who made a client with openapi-python-client: create, find, cancel, read a refusal."""

from __future__ import annotations

import json
import os

from tickwise_client import AuthenticatedClient
from tickwise_client.api.jobs import cancel_job, create_job, list_jobs
from tickwise_client.models import JobBody, JobCreated, JobView, Problem, ShellTask, ShellTaskKind

name = os.environ["CLIENT_NAME"]
task = ShellTask(kind=ShellTaskKind.SHELL, command="date")
with AuthenticatedClient(base_url=os.environ["CLIENT_URL"], token=os.environ["CLIENT_KEY"]) as client:
    created = create_job.sync(client=client, body=JobBody(name=name, cron="0 3 * * *", task=task))
    assert isinstance(created, JobCreated), created
    listed = list_jobs.sync(client=client, name=name)
    assert isinstance(listed, list), listed
    cancelled = cancel_job.sync(created.job_id, client=client)
    assert isinstance(cancelled, JobView), cancelled
    refused = create_job.sync(client=client, body=JobBody(name=name, cron="61 * * * *", task=task))
    assert isinstance(refused, Problem), refused
print(
    json.dumps(
        {
            "job_id": str(created.job_id),
            "listed": [str(job.job_id) for job in listed],
            "hour": listed[0].next_run_at.hour,
            "cancelled": cancelled.status,
            "code": refused.code,
            "pointer": refused.pointer,
        }
    )
)
