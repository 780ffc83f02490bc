"""A job that is stored or changed declares its environment, once for all that have the same; `explain` says that it
cannot be built."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.scene import Scene, scene
from tickwise.control.environments.declarations import AGAIN_SECONDS, EnvironmentDeclarations
from tickwise.domain.errors import StoreUnavailable
from tickwise.ports.environments import ENVIRONMENT_INVALID, EnvironmentDemand, EnvironmentFailure
from tickwise.ports.identity.namespaces import NewNamespace
from tickwise.ports.signals import Topic
from tickwise.ports.store.environments import DeclaredEnvironment, WantedQuery

HEADER = '# /// script\n# requires-python = ">=3.9"\n# dependencies = ["tickle"]\n# ///\n'
TICKLE = EnvironmentDemand("default", "tickle", python=">=3.9", from_source=True)
"""As of a job that is a plain process."""
REPORT = {"kind": "python", "source": "pass", "requirements": "requests<3"}
LOCK = "version = 1\n"
REQUESTS = EnvironmentDemand("default", "requests<3", from_source=True)


class Stage:
    """A scene, and the declarations in its store."""

    def __init__(self, here: Scene) -> None:
        self.here = here
        self.calls: list[list[DeclaredEnvironment]] = []
        self._declare = here.store.environments.declare
        here.store.environments.declare = self._counted  # type: ignore[method-assign]  # noted, then done

    async def _counted(self, environments: Any) -> None:
        self.calls.append(list(environments))
        await self._declare(environments)

    @property
    def declarations(self) -> EnvironmentDeclarations:
        return self.here.world.control._submissions.declarations

    async def wanted(self, *queues: str, labels: tuple[str, ...] = ()) -> list[EnvironmentDemand]:
        """For an executor of these queues, once all is noted."""
        await self.declarations.settle()
        query = WantedQuery(queues=queues or ("default",), labels=labels, namespaces=None, limit=100)
        return [each.demand for each in await self.here.store.environments.wanted(query)]


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    async with scene() as made:
        yield Stage(made)


@pytest.mark.parametrize(
    ("task", "demand"),
    [
        (REPORT, REQUESTS),
        ({"kind": "python", "source": HEADER}, TICKLE),
        ({"kind": "python", "source": "pass", "lock": LOCK}, EnvironmentDemand("default", lock=LOCK, from_source=True)),
        ({"kind": "python", "source": "pass"}, None),
        ({"kind": "python", "source": HEADER, "python": "/opt/python"}, None),
        ({"kind": "shell", "command": HEADER}, None),
    ],
)  # fmt: skip
async def test_a_job_declares_its_environment(stage: Stage, task: dict[str, Any], demand: Any) -> None:
    """By its fields or by the header of its script; executors are told."""
    await stage.here.create(task=task, cron="0 6 * * *")
    assert await stage.wanted() == ([] if demand is None else [demand])
    assert (Topic.ENVIRONMENTS in stage.here.world.bell.rung) == (demand is not None)


@pytest.mark.parametrize(
    ("plan", "declares"),
    [
        ({"schedule_type": "ON_DEMAND"}, True),
        ({"schedule_time": "2027-01-16T00:00:00Z"}, True),
        ({"schedule_type": "IMMEDIATE"}, False),
    ],
)
async def test_each_job_with_a_time_to_come_declares(stage: Stage, plan: dict[str, Any], declares: bool) -> None:
    """A run that begins at once builds for itself, at full speed."""
    await stage.here.create(task=REPORT, **plan)
    assert await stage.wanted() == ([REQUESTS] if declares else [])


async def test_a_stored_script_declares_for_the_jobs_that_name_it(stage: Stage) -> None:
    """The task itself, for the default queue, and from wheels: it does not say how it will run. A job that names it,
    for its own. The header lies in the blobs."""
    await stage.here.ask("POST", "/tasks", 201, {"taskId": "report", "name": "report", "script": HEADER})
    assert await stage.wanted() == [TICKLE._replace(from_source=False)]
    assert await stage.wanted("slow") == []
    job = {"name": "a", "taskId": "report", "queue": "slow", "cron": "0 6 * * *"}
    await stage.here.ask("POST", "/jobs", 201, job)
    assert await stage.wanted("slow") == [TICKLE]


async def test_a_job_in_a_sandbox_declares_wheels(stage: Stage) -> None:
    """Also one that was a plain process before."""
    job_id = await stage.here.create(task=REPORT, cron="0 6 * * *", isolation="sandbox")
    assert await stage.wanted() == [REQUESTS._replace(from_source=False)]
    await stage.here.ask("PUT", f"/jobs/{job_id}", 200, {"isolation": "process"})
    assert set(await stage.wanted()) == {REQUESTS, REQUESTS._replace(from_source=False)}


async def test_a_job_that_is_changed_declares_anew(stage: Stage) -> None:
    """Another task, another queue, another label."""
    job_id = await stage.here.create(task=REPORT, cron="0 6 * * *")
    await stage.here.ask("PUT", f"/jobs/{job_id}", 200, {"task": {"kind": "python", "source": HEADER}})
    assert set(await stage.wanted()) == {REQUESTS, TICKLE}
    await stage.here.ask("PUT", f"/jobs/{job_id}", 200, {"queue": "slow", "requires": ["gpu"]})
    assert await stage.wanted("slow") == []
    assert await stage.wanted("slow", labels=("gpu",)) == [TICKLE]


async def test_a_job_that_moves_declares_in_its_new_namespace(stage: Stage) -> None:
    """Which has environments of its own."""
    await stage.here.store.namespaces.add(NewNamespace(name="team-a", display_name="a", created_by="test"))
    job_id = await stage.here.create(task=REPORT, cron="0 6 * * *")
    await stage.here.ask("POST", f"/jobs/{job_id}/move", 200, {"namespace": "team-a"})
    assert set(await stage.wanted()) == {REQUESTS, REQUESTS._replace(namespace="team-a")}


async def test_a_dry_run_declares_nothing(stage: Stage) -> None:
    """It stores nothing."""
    job_id = await stage.here.create(cron="0 6 * * *")
    await stage.here.ask("PUT", f"/jobs/{job_id}?dry_run=true", 200, {"task": REPORT})
    assert await stage.wanted() == []


async def test_many_jobs_with_one_declaration_cost_one_row_and_one_write(stage: Stage) -> None:
    """Each hour at most, so that a row that is used stays among the last."""
    body = [{"name": f"job {number}", "task": REPORT, "cron": "0 6 * * *"} for number in range(300)]
    for begin in (0, 100, 200):
        answer = await stage.here.world.client.post(f"{API}/jobs:batch", json=body[begin : begin + 100])
        assert answer.status_code in (200, 201, 207), answer.text
    assert await stage.wanted() == [REQUESTS]
    assert 1 == len(stage.calls)
    await stage.here.pass_time(AGAIN_SECONDS + 1.0)
    await stage.here.create(task=REPORT, cron="0 6 * * *")
    assert await stage.wanted() == [REQUESTS]
    assert 2 == len(stage.calls)


async def test_a_store_that_is_away_afterwards_costs_no_job(stage: Stage) -> None:
    """The job is stored; the next one with its declaration notes it."""

    async def away(environments: Any) -> None:
        raise StoreUnavailable("away")

    stage.here.store.environments.declare = away  # type: ignore[method-assign]  # for this test
    await stage.here.create(task=REPORT, cron="0 6 * * *")
    assert await stage.wanted() == []
    stage.here.store.environments.declare = stage._counted  # type: ignore[method-assign]  # there again
    await stage.here.create(task=REPORT, cron="0 6 * * *")
    assert await stage.wanted() == [REQUESTS]


async def test_an_explanation_says_that_the_environment_cannot_be_built(stage: Stage) -> None:
    """Of the job, and of a run that waits; in the words of the tool. Until a build succeeds."""
    job_id = await stage.here.create(task=REPORT, cron="0 6 * * *")
    await stage.wanted()
    detail = "the environment that the script declares cannot be built: No solution\n  cause: no version of requests"
    words = " ".join(detail.split())
    store = stage.here.store.environments
    await store.report(REQUESTS, EnvironmentFailure(ENVIRONMENT_INVALID, detail), "host:1")
    found = await stage.here.explain(job_id)
    assert "not_due" == found["code"]
    assert f"The executor host:1 built its environment ahead, and failed: {words}." in found["sentence"]
    assert found["data"]["environment"] == {
        "reason": ENVIRONMENT_INVALID, "detail": detail, "failed_time": "2027-01-15T08:00:00Z", "executor": "host:1",
    }  # fmt: skip
    await stage.here.ask("POST", f"/jobs/{job_id}/runNow", 202, {})
    (run,) = await stage.here.ask("GET", f"/jobs/{job_id}/runs")
    assert words in (await stage.here.explain_run(run["run_id"]))["sentence"]
    assert "environment" not in (await stage.here.explain(job_id, "06:00:00"))["data"]
    await store.report(REQUESTS, None, "host:1")
    assert "environment" not in (await stage.here.explain(job_id))["data"]
