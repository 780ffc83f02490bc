"""Objectives for starts: stored with a job, listed with their budget, and told of by schedulers while they burn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.api.resources.objectives import ObjectiveView
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.model import Principal
from tickwise.domain.selectors import labels_from
from tickwise.ports.identity import NewKey
from tickwise.roles.scheduler import objective_watch
from tickwise.roles.scheduler.objective_watch import BurningObjective, ObjectiveWatch

LABELLED = "a-labelled-key-for-tests-of-32-characters-or-mor"


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


async def with_objective(here: Scene, **body: object) -> str:
    """A job that runs each minute, and begins within 30 s."""
    return await here.create(every="1m", objective_start_seconds=30, overlap="allow", **body)


async def test_an_objective_is_stored_and_stands_by_its_runs(here: Scene) -> None:
    """Runs in time are good; those that wait too long are late before they end, and burn the budget."""
    job = await with_objective(here, name="bills")
    stored = await here.ask("GET", f"/jobs/{job}")
    assert (30.0, 0.99) == (stored["objective_start_seconds"], stored["objective_ratio"])
    await here.create(every="1m", name="without")
    [found] = await here.ask("GET", "/objectives")
    assert (job, "bills", "unknown", 0, 0, 1.0) == tuple(
        found[name] for name in ("job_id", "name", "state", "good", "late", "budget_left")
    )
    holder = await here.join()
    for _ in range(3):
        await here.schedule(60)
        await here.work(holder)
    [found] = await here.ask("GET", "/objectives")
    assert ("met", 0) == (found["state"], found["late"])
    assert found["good"] >= 3
    await here.schedule(300)
    [found] = await here.ask("GET", "/objectives")
    assert "burning" == found["state"]
    assert 30.0 == msgspec.convert(found, ObjectiveView).start_within_seconds
    assert found["late"] >= 4
    assert found["budget_left"] < 0
    assert [21_600.0, 3_600.0, 1_800.0, 300.0] == [each["window_seconds"] for each in found["burn"]]


async def test_schedulers_tell_of_budgets_that_burn(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all namespaces, page by page; an objective that is met is not told of. A page of more is followed at once."""
    told: list[BurningObjective] = []

    async def tell(burning: Sequence[BurningObjective]) -> None:
        told.extend(burning)

    monkeypatch.setattr(objective_watch, "PAGE", 1)
    watch = ObjectiveWatch(here.store.searches, tell)
    jobs = {await with_objective(here, name=name) for name in ("a", "b")}
    assert [0.0, 0.0, 60.0] == [await watch.step() for _ in range(3)]
    assert told == []
    await here.schedule(300)
    while await watch.step() == 0:
        pass
    assert jobs == {str(each.job_id) for each in told}
    assert {"default"} == {each.namespace for each in told}


async def test_pages_join_and_keep_to_labels(here: Scene) -> None:
    """By the id of the job; a caller with labels has its own jobs alone."""
    jobs = sorted([await with_objective(here, labels={"team": team}) for team in ("data", "web", "data")])
    path, seen = "/objectives?limit=1", []
    for _ in range(5):
        answer = await here.world.client.request("GET", f"/api/v1{path}")
        seen += [each["job_id"] for each in answer.json()]
        if "next" not in answer.links:
            break
        path = answer.links["next"]["url"].removeprefix("/api/v1")
    assert jobs == seen
    principal = Principal("labelled", "default", frozenset({"runs:read"}))
    digest, labels = secret_digest(LABELLED.encode()), labels_from({"team": "web"})
    await here.store.keys.add(NewKey(key_id=uuid4(), digest=digest, principal=principal, labels=labels))
    assert 1 == len(await here.ask("GET", "/objectives", key=LABELLED))


@pytest.mark.parametrize(
    ("name", "value"),
    [("objective_start_seconds", 0), ("objective_start_seconds", "x"), ("objective_ratio", 1), ("objective_ratio", 0)],
)
async def test_an_objective_that_makes_no_sense_is_refused(here: Scene, name: str, value: object) -> None:
    """No time, no share, or all runs: a budget of nothing is always used up."""
    job = {"name": "a", "every": "1m", "task": {"kind": "shell", "command": "date"}}
    problem = await here.ask("POST", "/jobs", 422, {**job, name: value})
    assert f"/{name}" == problem["pointer"]
