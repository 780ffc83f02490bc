"""A program that uses the SDK, for type checkers alone: `tests/style/test_sdk_modules.py` has it judged.

Each `type: ignore` stands where a checker must complain: one that is not needed is an error, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from typing_extensions import assert_type  # noqa: UP035 - that of Python 3.10

from tickwise_sdk import AsyncClient, AsyncSubmitted, BoundCall, Client, Context, Submitted, submit_many, sync, task
from tickwise_sdk.events import Event, follow, follow_async

if TYPE_CHECKING:
    from tickwise_sdk import TaskContext  # type: ignore[attr-defined]  # there is no such name
    from tickwise_sdk.types import JobBody, JobView, RunView

    assert TaskContext


@dataclass
class Order:
    """A payload."""

    number: int


@task("sample.nightly")
def nightly(context: Context, day: date, region: str = "eu") -> int:
    """A task with a context and arguments."""
    return day.day + len(region) + context.attempt


@task("sample.place", job={"queue": "orders", "max_retries": 3})
async def place(order: Order) -> Order:
    """An asynchronous task with one object."""
    return order


@task
def nothing() -> None:
    """A task without anything."""


DAY = date(2026, 1, 31)


def submits(client: Client, at: datetime) -> None:
    """Arguments are compared with those of the function."""
    assert_type(nightly.submit(DAY), Submitted[int])
    assert_type(nightly.submit(DAY, region="us", at=at, key="nightly"), Submitted[int])
    assert_type(nightly.bind(DAY), BoundCall[int])
    assert_type(place.submit(Order(1), client=client).result(), Order)
    assert_type(submit_many([nightly.bind(DAY)])[0].result(), int)
    nothing.submit()
    nightly.submit("2026-01-31")  # type: ignore[call-overload]  # a text is no date
    nightly.bind(DAY, "eu", "more")  # type: ignore[call-arg]  # there are two arguments
    place.bind(3)  # type: ignore[arg-type]  # a number is no order
    nightly.schedule(cron="0 2 * * *", timezone="Europe/Berlin", arguments=nightly.bind(DAY))
    sync(client, "sample")


async def awaits(client: AsyncClient) -> None:
    """The same with `await`."""
    submitted = await nightly.submit_async(DAY, client=client)
    assert_type(submitted, AsyncSubmitted[int])
    assert_type(await submitted.result(), int)
    async for run in client.list_runs(status=["FAILED"]):
        assert_type(run, RunView)
    async for event in follow_async(client, status="FAILED"):
        assert_type(event, Event)


def calls(client: Client) -> None:
    """Bodies and answers have types."""
    body: JobBody = {"name": "hello", "cron": "0 2 * * *", "task": {"kind": "shell", "command": "date"}}
    job_id = client.create_job(body)["job_id"]
    assert_type(client.get_job(job_id), JobView)
    for job in client.list_jobs(label=["team=billing"], limit=500):
        assert_type(job["next_run_at"], "str | None")
    client.create_job({"nmae": "hello"})  # type: ignore[typeddict-item]  # a typing error
    client.get_job(job_id)["nxt"]  # type: ignore[typeddict-item]  # as above
    for event in follow(client, job_id=job_id):
        assert_type(event, Event)


def called() -> None:
    """A task is still its function."""
    context = Context(job_id=..., run_id=...)  # type: ignore[call-arg, arg-type]  # it has more
    assert_type(nightly(context, DAY), int)
    nightly(DAY)  # type: ignore[call-arg, arg-type]  # the context is missing
    print(datetime.now(timezone.utc))  # noqa: T201, UP017 - a program of its own
