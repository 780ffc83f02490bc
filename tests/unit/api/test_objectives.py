"""Objectives for starts: stored with a job, listed with their budget, and told of by schedulers while they burn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import msgspec
import pytest
import pytest_asyncio

from tests.support.scene import Scene, scene
from tickwise.api.resources.observing.objectives import ObjectiveView
from tickwise.control.keys.secrets import secret_digest
from tickwise.domain.model import Principal
from tickwise.domain.notices.rules import NoticeEvent
from tickwise.domain.selectors import labels_from
from tickwise.ports.identity import NewKey
from tickwise.ports.store import ObjectiveJobsQuery
from tickwise.roles.scheduler.alerting import Alerting
from tickwise.roles.scheduler.observing import objective_watch
from tickwise.roles.scheduler.observing.objective_watch import ObjectiveNotes, ObjectiveWatch, WatchedObjective
from tickwise.roles.shared.objective_standings import objective_of, standings

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


async def test_schedulers_note_budgets_that_burn_and_their_end(here: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all namespaces, page by page; an objective that is met is noted as what ends an alert, where one stands. One
    that goes on burning is noted once an hour, also by two schedulers. A page of more is followed at once."""
    monkeypatch.setattr(objective_watch, "PAGE", 1)
    alerts, searches = here.store.alerts, here.store.searches
    watches = [
        ObjectiveWatch(searches, here.store.objectives, ObjectiveNotes(alerts, here.clock).tell) for _ in range(2)
    ]
    await here.store.notification_rules.watch("default")
    jobs = {await with_objective(here, name=name) for name in ("a", "b")}

    async def noted() -> list[tuple[NoticeEvent | None, str]]:
        for watch in watches:
            while await watch.step() == 0:
                pass
        return [(each.event, each.subject) for each in (await alerts.events(100)).events]

    assert [0.0, 60.0] == [await watches[0].step() for _ in range(2)]
    assert [] == await noted()
    await here.schedule(300)
    burning = sorted((NoticeEvent.OBJECTIVE, f"objective/{job}") for job in jobs)
    assert burning == sorted(await noted())
    assert burning == sorted(await noted())


async def test_a_rule_about_objectives_opens_an_alert(here: Scene) -> None:
    """Of the objective, with the numbers; of one that burns no more it is closed."""
    channel = {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/tickwise"}
    await here.ask("POST", "/channels", 201, channel)
    rule = {"name": "starts", "on": ["objective", "recovery"], "channels": ["ops"]}
    await here.ask("POST", "/notification-rules", 201, rule)
    job = await with_objective(here)
    alerting = Alerting(here.store, here.clock)
    notes = ObjectiveNotes(here.store.alerts, here.clock)
    watch = ObjectiveWatch(here.store.searches, here.store.objectives, notes.tell)
    await here.schedule(300)
    await watch.step()
    await alerting.step()
    [alert] = await here.ask("GET", "/alerts")
    assert ("objective", "open", f"objective/{job}", "a") == tuple(
        alert[name] for name in ("event", "state", "subject", "subject_name")
    )
    assert "runs began more than 30 s after they were due; 0% of the error budget is left" in alert["sentence"]
    [row] = (await here.store.objectives.jobs(ObjectiveJobsQuery(namespace=None, limit=9))).jobs
    [found] = (await standings(here.store.searches, [row], each=100)).values()
    objective = objective_of(row)
    assert objective is not None
    calm = [WatchedObjective(row.namespace, row.job_id, row.name, objective, found.standing)]
    await ObjectiveNotes(here.store.alerts, here.clock).tell([], calm)
    await alerting.step()
    assert ["closed"] == [each["state"] for each in await here.ask("GET", "/alerts?state=closed")]
    await here.clock.advance(60.0)
    for told in (notes, ObjectiveNotes(here.store.alerts, here.clock)):
        await told.tell([], calm)
    assert [] == list((await here.store.alerts.events(100)).events)


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


# ------------------------------------------------------------------------------------------- by priority and labels

URGENT = {"name": "urgent", "start_within_seconds": 30, "priority": 9}


async def test_an_objective_by_priority_counts_the_runs_of_its_jobs(here: Scene) -> None:
    """Of jobs with that priority alone, from its making on; it burns while they wait too long."""
    made = await here.ask("POST", "/objectives", 201, URGENT)
    assert (None, "urgent", 9, {}, "unknown", 0.99) == tuple(
        made[name] for name in ("job_id", "name", "priority", "labels", "state", "ratio")
    )
    await here.create(every="1m", name="urgent", priority=9, overlap="allow")
    await here.create(every="1m", name="other", overlap="allow")
    holder = await here.join()
    for _ in range(3):
        await here.schedule(60)
        await here.work(holder)
    path = f"/objectives/{made['objective_id']}"
    found = await here.ask("GET", path)
    assert ("met", 0) == (found["state"], found["late"])
    assert 3 <= found["good"] <= 4
    await here.schedule(300)
    found = await here.ask("GET", path)
    assert "burning" == found["state"]
    assert 4 <= found["late"] <= 6
    assert [found] == await here.ask("GET", "/objectives")


async def test_objectives_of_jobs_and_by_labels_are_one_list(here: Scene) -> None:
    """By id, in pages that join, each on one of them."""
    ids = {await with_objective(here, name=name) for name in ("a", "b", "c")}
    for name in ("x", "y"):
        said = {"name": name, "start_within_seconds": 5, "labels": {"team": name}}
        ids.add((await here.ask("POST", "/objectives", 201, said))["objective_id"])
    for limit in (1, 2, 5, 50):
        path, seen = f"/objectives?limit={limit}", list[str]()
        for _ in range(6):
            answer = await here.world.client.request("GET", f"/api/v1{path}")
            seen += [each["job_id"] or each["objective_id"] for each in answer.json()]
            if "next" not in answer.links:
                break
            path = answer.links["next"]["url"].removeprefix("/api/v1")
        assert sorted(ids) == seen, limit


async def test_an_objective_is_removed_with_its_counts(here: Scene) -> None:
    """And answered as it was; its name is free again."""
    made = await here.ask("POST", "/objectives", 201, URGENT)
    path = f"/objectives/{made['objective_id']}"
    assert "name_taken" == (await here.ask("POST", "/objectives", 409, URGENT))["code"]
    assert made["objective_id"] == (await here.ask("DELETE", path))["objective_id"]
    await here.ask("DELETE", path, 404)
    await here.ask("GET", path, 404)
    await here.ask("POST", "/objectives", 201, URGENT)


@pytest.mark.parametrize(
    ("name", "value"),
    [("start_within_seconds", 0), ("ratio", 1), ("priority", 10), ("labels", {"": "x"}), ("name", " ")],
)
async def test_an_objective_for_many_that_makes_no_sense_is_refused(here: Scene, name: str, value: object) -> None:
    """At its field."""
    problem = await here.ask("POST", "/objectives", 422, {**URGENT, name: value})
    assert problem["pointer"].startswith(f"/{name}")


async def test_a_caller_with_labels_sees_no_objective_of_all(here: Scene) -> None:
    """It counts runs that the caller may not see; to make one takes more."""
    await here.ask("POST", "/objectives", 201, URGENT)
    principal = Principal("labelled", "default", frozenset({"runs:read", "jobs:write"}))
    digest, labels = secret_digest(LABELLED.encode()), labels_from({"team": "web"})
    await here.store.keys.add(NewKey(key_id=uuid4(), digest=digest, principal=principal, labels=labels))
    assert [] == await here.ask("GET", "/objectives", key=LABELLED)
    await here.ask("POST", "/objectives", 403, {**URGENT, "name": "mine"}, key=LABELLED)


async def test_a_budget_of_a_priority_that_burns_opens_an_alert(here: Scene) -> None:
    """Of the objective, by a rule for the whole namespace; when it burns no more it is closed."""
    channel = {"name": "ops", "kind": "webhook", "url": "https://hooks.example.com/tickwise"}
    await here.ask("POST", "/channels", 201, channel)
    rule = {"name": "starts", "on": ["objective", "recovery"], "channels": ["ops"]}
    await here.ask("POST", "/notification-rules", 201, rule)
    made = await here.ask("POST", "/objectives", 201, URGENT)
    await here.create(every="1m", name="urgent", priority=9, overlap="allow")
    notes = ObjectiveNotes(here.store.alerts, here.clock)
    watch = ObjectiveWatch(here.store.searches, here.store.objectives, notes.tell)
    alerting = Alerting(here.store, here.clock)
    await here.schedule(300)
    assert 60.0 == await watch.step()
    await alerting.step()
    [alert] = await here.ask("GET", "/alerts")
    assert ("objective", "open", f"objective/{made['objective_id']}", "urgent") == tuple(
        alert[name] for name in ("event", "state", "subject", "subject_name")
    )
    await here.work(await here.join())
    await here.clock.advance(7 * 3_600.0)
    await watch.step()
    await alerting.step()
    assert ["closed"] == [each["state"] for each in await here.ask("GET", "/alerts?state=closed")]
