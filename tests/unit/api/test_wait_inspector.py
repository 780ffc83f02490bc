"""The conditions behind the sentence of explain: each one, met or not, with what was seen and what would change it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.scene import HOUR, Scene, scene

ONE = {"concurrency": {"limit": 1, "key": "key:ledger"}}


@pytest_asyncio.fixture
async def here() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


def unmet(found: Any) -> dict[str, Any]:
    """The conditions that are not met, by name."""
    assert all((each["change"] is None) is each["met"] for each in found["conditions"])
    return {each["condition"]: each for each in found["conditions"] if not each["met"]}


async def waiting(here: Scene, **body: Any) -> Any:
    """The explanation of a run that waits."""
    job_id = await here.create(schedule_type="IMMEDIATE", **body)
    [run] = await here.ask("GET", f"/jobs/{job_id}/runs")
    return await here.explain_run(run["run_id"])


async def test_a_run_that_an_executor_can_take_has_every_condition_met(here: Scene) -> None:
    """Each is listed, with the time of the look."""
    await here.join()
    found = await waiting(here)
    assert {} == unmet(found)
    assert {
        "due", "stop", "pause", "queue", "earlier_runs", "concurrency", "quota", "rate", "ready", "circuit",
        "executor", "slots",
    } == {each["condition"] for each in found["conditions"]}  # fmt: skip
    assert {"2027-01-15T08:00:00Z"} == {each["looked_at"] for each in found["conditions"]}


async def test_without_an_executor_it_says_which_would_do(here: Scene) -> None:
    """Also where executors are active that cannot take it."""
    found = unmet(await waiting(here, queue="mail"))
    assert ["executor"] == list(found)
    assert "no executor is active" in found["executor"]["evidence"]
    await here.join()
    executor = unmet(await waiting(here, queue="mail"))["executor"]
    assert "no active executor serves the queue 'mail'" in executor["evidence"]
    assert "active executors: 1" in executor["evidence"]
    assert "queue 'mail'" in executor["change"]


async def test_several_conditions_can_be_unmet(here: Scene) -> None:
    """The sentence names one, the table all."""
    await here.ask("POST", "/queues/default/hold", 200, {"reason": "the database moves"})
    made = (await here.ask("POST", "/stops", 201, {"all": True, "reason": "a release"}))["stop"]
    found = await waiting(here)
    assert "waiting_stopped" == found["code"]
    table = unmet(found)
    assert {"stop", "queue", "executor"} == set(table)
    assert made["stop_id"] == table["stop"]["data"]["stop_id"]
    assert f"tickwise stops lift {made['stop_id']}" in table["stop"]["change"]
    assert "tickwise queues resume default" == table["queue"]["change"]
    assert "1 wait, 0 are handed out, 0 run" in table["queue"]["evidence"]


async def test_a_concurrency_limit_is_told_before_a_slot_is_asked_for(here: Scene) -> None:
    """With its key and its size."""
    await here.join()
    found = await waiting(here, **ONE)
    [concurrency] = [each for each in found["conditions"] if each["condition"] == "concurrency"]
    assert (True, True) == (concurrency["met"], concurrency["evidence"].startswith("1 at once"))
    assert "ledger" in concurrency["evidence"]


async def test_an_earlier_run_is_named(here: Scene) -> None:
    """The one that goes on, with the policy."""
    number = await here.join()
    job_id = await here.create(cron="0 * * * *", overlap="queue_all")
    first = (await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {}))["run_id"]
    claims = await here.take(number)
    await here.begin(number, claims)
    second = (await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {}))["run_id"]
    later = await here.take(number)
    assert 0 == await here.begin(number, later)
    table = unmet(await here.explain_run(second))
    assert [first] == table["earlier_runs"]["data"]["run_ids"]
    assert "overlap: queue_all" in table["earlier_runs"]["evidence"]


async def test_the_slots_of_executors_are_counted(here: Scene) -> None:
    """Of those that could take it."""
    number = await here.join(slots=1)
    await here.create(schedule_type="IMMEDIATE")
    await here.take(number)
    slots = unmet(await waiting(here))["slots"]
    assert "1 of their 1 slots are in use" == slots["evidence"]


async def test_a_job_that_does_not_fire_has_its_conditions(here: Scene) -> None:
    """Its schedule, a pause, a stop, a window: each for itself."""
    ten = {"periods": [{"from": "2027-01-15T08:30:00Z", "to": "2027-01-15T09:30:00Z"}]}
    await here.ask("PUT", "/windows/disks", 201, {"when": ten, "reason": "new disks"})
    job_id = await here.create(cron="0 * * * *")
    table = unmet(await here.explain(job_id))
    assert {"schedule", "calendar"} == set(table)
    assert "2027-01-15 09:00 (UTC)" in table["schedule"]["evidence"]
    assert "new disks" in table["calendar"]["evidence"]
    assert "2027-01-15 09:30 (UTC)" in table["calendar"]["evidence"]
    await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "moving house"})
    await here.ask("POST", "/stops", 201, {"job_id": job_id, "reason": "a release"})
    table = unmet(await here.explain(job_id))
    assert {"schedule", "calendar", "pause", "stop"} == set(table)
    assert "moving house" in table["pause"]["evidence"]


async def test_a_timer_that_nobody_looks_at_is_a_condition(here: Scene) -> None:
    """A scheduler is missing."""
    job_id = await here.create(cron="0 * * * *")
    await here.pass_time(HOUR + 60)
    table = unmet(await here.explain(job_id))
    assert ["scheduler"] == list(table)
    assert "due since 2027-01-15 09:00 (UTC)" in table["scheduler"]["evidence"]


@pytest.mark.parametrize("at", ["08:00:00", "12:00:00"])
async def test_another_time_than_now_has_no_conditions(here: Scene, at: str) -> None:
    """They are looked at now."""
    job_id = await here.create(cron="0 * * * *")
    assert [] == (await here.explain(job_id, at))["conditions"]


async def test_a_run_that_ended_has_no_conditions_and_names_who_asked(here: Scene) -> None:
    """The person or the key, by the audit log; and the schedule of one that has one."""
    number = await here.join()
    job_id = await here.create(cron="0 * * * *")
    run_id = (await here.ask("POST", f"/jobs/{job_id}/runNow", 202, {}))["run_id"]
    assert "admin" == (await here.explain_run(run_id))["data"]["asked_by"]
    await here.work(number)
    found = await here.explain_run(run_id)
    assert [] == found["conditions"]
    [asked] = [each for each in found["causes"] if each["code"] == "asked_for"] or [found]
    assert "admin" == (asked["data"].get("asked_by") or found["data"]["asked_by"])
    assert "admin asked for it" in found["sentence"] + asked["sentence"]
    await here.schedule(HOUR)
    [claimed] = await here.work(number)
    found = await here.explain_run(claimed.run_id)
    assert "at minute 0 of every hour (UTC)" == found["data"]["schedule"]
