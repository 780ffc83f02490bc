"""Resources, memory and the least isolation of a namespace, as callers of the API see them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.domain.lifecycle import RunState
from tickwise.domain.rules.capacities import MEMORY, Capacity, offered_of
from tickwise.domain.rules.confinement import SANDBOX_LABEL
from tickwise.ports.store import ClaimRequest
from tickwise.testing.factories import outcome

GB = 1 << 30
SHELL = {"kind": "shell", "command": "date"}
AT_ONCE: dict[str, Any] = {"name": "a", "task": SHELL, "schedule_type": "IMMEDIATE", "isolation": "process"}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    """A control on a memory store."""
    async with scene() as made:
        yield made


async def joined(here: Scene, name: str = "one", **capacities: Capacity) -> int:
    """An executor with these capacities; `memory_bytes` is its memory."""
    labels = [label for each, capacity in capacities.items() for label in offered_of(each, capacity.whole)]
    return await here.join(name=name, labels=("zone=a", *labels), capacities=capacities)


async def warned(here: Scene, **fields: Any) -> list[str]:
    """The warnings of a new job, which its page and the explanation of its run say too."""
    made = await here.ask("POST", "/jobs", 201, {**AT_ONCE, **fields})
    found: list[str] = list((await here.ask("GET", f"/jobs/{made['job_id']}"))["warnings"])
    assert list(made.get("warnings") or ()) == found
    for text in found:
        assert text in str(await here.ask("GET", f"/jobs/{made['job_id']}/explain"))
    return found


async def test_executors_show_what_they_offer_without_labels_of_our_own(here: Scene) -> None:
    await here.join(
        labels=("zone=a", SANDBOX_LABEL, "run_as:backup", *offered_of("gpu", 2), *offered_of(MEMORY, 8 * GB)),
        capacities={"gpu": Capacity(2, 1), MEMORY: Capacity(8 * GB, 3 * GB)},
    )
    [row] = await here.ask("GET", "/executors")
    assert (["zone=a"], ["process", "sandbox"], ["backup"]) == (row["labels"], row["isolation"], row["run_as"])
    assert {"gpu": {"total": 2, "free": 1}} == row["resources"]
    assert {"total_bytes": 8 * GB, "reserved_bytes": 3 * GB} == row["memory"]


async def test_an_executor_of_the_release_before_counts_nothing(here: Scene) -> None:
    await here.join(labels=())
    [row] = await here.ask("GET", "/executors")
    assert ({}, None, ["process"], []) == (row["resources"], row["memory"], row["isolation"], row["run_as"])


async def test_a_job_that_needs_more_than_any_executor_has_is_warned_of(here: Scene) -> None:
    """By the exact amount, though labels know powers of two alone."""
    await joined(here, gpu=Capacity(3, 0), memory_bytes=Capacity(3 * GB, 0))
    assert [] == await warned(here, resources={"gpu": 3}, limits={"memory_bytes": 3 * GB})
    [gpu] = await warned(here, resources={"gpu": 4})
    assert "no active executor of the queue 'default' has 4 of the resource 'gpu'" in gpu
    assert "--resources gpu=4" in gpu
    [license_] = await warned(here, resources={"license": 1})
    assert "has 1 of the resource 'license'" in license_
    [memory] = await warned(here, limits={"memory_bytes": 3 * GB + 1})
    assert "of memory; its runs wait until one does" in memory


async def test_what_nobody_offers_is_said_in_plain_words_with_what_to_do(here: Scene) -> None:
    await joined(here, memory_bytes=Capacity(GB, 0))
    [sandbox] = await warned(here, isolation="sandbox")
    assert "no active executor of the queue 'default' offers isolation:sandbox" in sandbox
    assert "`tickwise doctor`" in sandbox
    assert "--isolation process" in sandbox
    [user] = await warned(here, run_as="backup")
    assert "runs tasks as the user 'backup'" in user


async def test_a_run_that_waits_for_a_capacity_says_for_which(here: Scene) -> None:
    """In its explanation, in the wait inspector, and in its reasons to wait."""
    number = await joined(here, gpu=Capacity(2, 0), memory_bytes=Capacity(8 * GB, 0))
    taken = {"gpu": Capacity(2, 1), MEMORY: Capacity(8 * GB, 7 * GB)}
    await here.store.executors.beat(number, 9e6, capacities=taken)
    await here.pass_time(3)
    for fields, said in (
        ({"resources": {"gpu": 2}}, "it needs 2 of the resource 'gpu', and 1 of 2 are in use on one"),
        ({"limits": {"memory_bytes": 2 * GB}}, "it needs 2 GB of memory, and 7 GB of 8 GB are reserved on one"),
    ):
        await here.pass_time(1)
        assert [] == await warned(here, **fields)
        run = (await here.ask("GET", "/runs"))[0]
        found = await here.explain_run(run["run_id"])
        assert ("waiting_capacity", True) == (found["code"], said in found["sentence"])
        unmet = [each for each in found["conditions"] if not each["met"]]
        assert [("capacity", said)] == [(each["condition"], each["evidence"]) for each in unmet]
        assert said in str(await here.ask("GET", f"/runs/{run['run_id']}"))


async def test_a_namespace_that_demands_a_sandbox_says_so_of_each_job_below(here: Scene) -> None:
    """A job that is there is warned of, its runs wait and say why, and it cannot be run now; others are refused."""
    await here.join(labels=(SANDBOX_LABEL,))
    made = await here.ask("POST", "/jobs", 201, AT_ONCE)
    await here.ask("PUT", "/namespaces/default/quotas", 200, {"min_isolation": "sandbox"})
    assert "sandbox" == (await here.ask("GET", "/namespaces/default/quotas"))["min_isolation"]
    await here.pass_time(5)
    job = await here.ask("GET", f"/jobs/{made['job_id']}")
    assert "min_isolation" in str(job["warnings"])
    [run] = await here.ask("GET", "/runs")
    found = await here.explain_run(run["run_id"])
    assert "waiting_isolation" == found["code"]
    assert ["isolation"] == [each["condition"] for each in found["conditions"] if not each["met"]]
    refused = await here.ask("POST", f"/jobs/{made['job_id']}/runNow", 409, {})
    assert "isolation_below_minimum" == refused["code"]
    for method, path, body in (
        ("POST", "/jobs", AT_ONCE),
        ("PATCH", f"/jobs/{made['job_id']}", {"name": "b"}),
    ):
        refused = await here.ask(method, path, 422, body)
        assert ("/isolation", True) == (refused["pointer"], "min_isolation" in str(refused))
    await here.ask("PATCH", f"/jobs/{made['job_id']}", 200, {"isolation": "sandbox"})
    assert [] == (await here.ask("GET", f"/jobs/{made['job_id']}"))["warnings"]
    assert "waiting_isolation" != (await here.explain_run(run["run_id"]))["code"]


async def test_a_run_that_was_given_back_for_its_size_says_so(here: Scene) -> None:
    """An executor with half of it claims such a run, and gives it back for a while: labels know powers of two."""
    number = await joined(here, gpu=Capacity(2, 0))
    await here.ask("POST", "/jobs", 201, {**AT_ONCE, "resources": {"gpu": 3}})
    [claimed] = await here.store.attempts.claim(
        ClaimRequest(
            executor=number, queues=("default",), labels=("task:shell", *offered_of("gpu", 2)), limit=1, ahead_seconds=0
        )
    )
    back = outcome(claimed, RunState.QUEUED, started=0.0, retry_at=here.clock.now() + 10.0)
    assert [] == list(await here.store.attempts.finish(number, [back]))
    await here.pass_time(3)
    found = await here.explain_run(claimed.run_id)
    assert ("waiting_not_offered", True) == (found["code"], "has 3 of the resource 'gpu'" in found["sentence"])
