"""A scheduler counts failures in groups: what a group is of, and that nothing is counted twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.roles.scheduler_rig import Rig
from tickwise.domain.errors import Unavailable
from tickwise.domain.lifecycle import RunState
from tickwise.ports.store import ClaimRequest, ErrorGroupQuery, ErrorGroupRow, FailedJob
from tickwise.roles.scheduler.error_folding import PAGE, ErrorFolding, task_name
from tickwise.testing.factories import executor, outcome

HTTP = {"kind": "http", "method": "POST", "url": "https://user:pw@api.example.com/v1/42"}


async def failed(rig: Rig, error: str, *, number: int = 1, **task: Any) -> None:
    """Jobs of one task each fail once."""
    kind = task.get("kind", "shell")
    definition = json.dumps({"schedule_type": "IMMEDIATE", "task": {"kind": "shell", **task}})
    await rig.store.jobs.add([rig.make.job(task_kind=kind, definition=definition) for _ in range(number)])
    holder = await rig.store.executors.join(executor(lease_seconds=1e6))
    request = ClaimRequest(executor=holder, queues=("default",), labels=(), limit=10_000, ahead_seconds=0.0)
    claims = await rig.store.attempts.claim(request)
    assert number == len(claims)
    ends = [outcome(claim, RunState.FAILED, reason="error", error=error) for claim in claims]
    assert [] == list(await rig.store.attempts.finish(holder, ends))


async def groups(rig: Rig) -> list[ErrorGroupRow]:
    """All groups."""
    return list(await rig.store.error_groups.search(ErrorGroupQuery(namespace="default")))


async def test_jobs_that_call_one_function_share_a_group() -> None:
    """And those that call one host."""
    rig = Rig()
    await failed(rig, "KeyError: 1", number=3, kind="function", name="pay.all")
    await failed(rig, "status 503", number=2, **HTTP)
    await ErrorFolding(rig.store.error_groups).step()
    found = {row.task: (row.failures, row.jobs, row.kind) for row in await groups(rig)}
    assert {"pay.all": (3, 3, "KeyError"), "POST api.example.com": (2, 2, "status 503")} == found


async def test_two_scripts_that_end_in_one_way_share_nothing() -> None:
    """An exit status means what its script means by it."""
    rig = Rig()
    await failed(rig, "exit status 1", number=2, kind="shell", command="false")
    await ErrorFolding(rig.store.error_groups).step()
    assert [(1, "nightly clean-up")] * 2 == [(row.failures, row.task) for row in await groups(rig)]


@pytest.mark.parametrize(
    ("kind", "definition", "name"),
    [
        ("function", '{"task": {"kind": "function", "name": "pay"}}', "pay"),
        ("function", '{"task": {"kind": "function", "name": 7}}', "7"),
        ("function", '{"task": {}}', ""),
        ("function", '{"task": []}', ""),
        ("function", "{", ""),
        ("function", None, ""),
        ("http", '{"task": {"url": "http://[", "method": "GET"}}', ""),
        ("http", '{"task": {"url": "http://a.b:1/c"}}', "GET a.b"),
        ("shell", '{"task": {"name": "x"}}', ""),
    ],
)
def test_a_task_has_a_name_if_many_jobs_may_share_it(kind: str, definition: str | None, name: str) -> None:
    """A definition that says otherwise than ours holds nothing up."""
    found = task_name("17", FailedJob("a job", kind, definition))
    assert (kind, name or "a job", f"{kind} {name}" if name else "job 17") == found


async def test_pages_go_on_until_all_is_counted() -> None:
    """A full page is followed by the next one at once."""
    rig = Rig()
    await failed(rig, "no!", number=PAGE + 1, kind="function", name="pay")
    folding = ErrorFolding(rig.store.error_groups)
    assert 0.0 == await folding.step()
    assert 0.0 < await folding.step()
    assert [PAGE + 1] == [row.failures for row in await groups(rig)]


@pytest.mark.parametrize("lost", ["away", "answers_lost"])
async def test_a_crash_while_it_counts_loses_nothing_and_counts_nothing_twice(lost: str) -> None:
    """Before the transaction or after it."""
    rig = Rig()
    await failed(rig, "no!", number=5, kind="function", name="pay")
    getattr(rig.flaky, lost).add("error_groups.fold")
    with pytest.raises(Unavailable):
        await ErrorFolding(rig.flaky.error_groups).step()
    getattr(rig.flaky, lost).clear()
    await ErrorFolding(rig.flaky.error_groups).step()
    await ErrorFolding(rig.store.error_groups).step()
    assert [5] == [row.failures for row in await groups(rig)]
