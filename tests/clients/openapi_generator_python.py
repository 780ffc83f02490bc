"""What somebody writes who made a client with openapi-generator for Python: create, find, cancel, read a refusal."""

from __future__ import annotations

import json
import os

import openapi_client
from openapi_client.exceptions import UnprocessableEntityException

name = os.environ["CLIENT_NAME"]
task = openapi_client.Task(openapi_client.ShellTask(kind="shell", command="date"))
configuration = openapi_client.Configuration(host=os.environ["CLIENT_URL"], access_token=os.environ["CLIENT_KEY"])
with openapi_client.ApiClient(configuration) as client:
    jobs = openapi_client.JobsApi(client)
    created = jobs.create_job(openapi_client.JobBody(name=name, cron="0 3 * * *", task=task))
    listed = jobs.list_jobs(name=name)
    cancelled = jobs.cancel_job(created.job_id)
    try:
        jobs.create_job(openapi_client.JobBody(name=name, cron="61 * * * *", task=task))
    except UnprocessableEntityException as refused:
        problem: openapi_client.Problem = refused.data
    else:
        raise AssertionError("a minute 61 was accepted")
print(
    json.dumps(
        {
            "job_id": str(created.job_id),
            "listed": [str(job.job_id) for job in listed],
            "hour": listed[0].next_run_at.hour,
            "cancelled": cancelled.status,
            "code": problem.code,
            "pointer": problem.pointer,
        }
    )
)
