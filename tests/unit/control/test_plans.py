"""The starts to come of a namespace: what is told ahead is what a scheduler makes, and a look is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.scene import DAY, START, Scene, scene
from tickwise.control.schedules import plans
from tickwise.control.schedules.plans import NamespacePlan, PlanWindow
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.domain.errors import Invalid
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import Principal
from tickwise.ports.store import RunQuery

ADA = Principal("ada", "default", frozenset({"*"}))
NOON = {"periods": [{"from": "2027-01-15T11:50:00Z", "to": "2027-01-15T12:10:00Z"}]}
HOUR = 3_600.0


async def _plan(here: Scene, start: float = START, seconds: float = DAY, **fields: Any) -> NamespacePlan:
    window = PlanWindow(start=start, end=start + seconds, **fields)
    return await here.world.control.schedules.plan(ADA, window)


async def test_what_is_planned_is_what_starts() -> None:
    """A day of jobs with calendars, windows, jitter and bounds: the same jobs at the same times."""
    async with scene() as here:
        await here.ask("PUT", "/calendars/noon", 201, NOON)
        await here.ask(
            "PUT", "/windows/upgrade", 201,
            {"when": {"periods": [{"from": "2027-01-15T15:00:00Z", "to": "2027-01-15T16:00:00Z"}]},
             "labels": {"team": "data"}, "action": "skip"},
        )  # fmt: skip
        for body in (
            {"cron": "*/20 * * * *", "jitter_seconds": 300},
            {"every": "40m", "max_runs": 7},
            {"cron": "*/5 10-13 * * *", "calendars": [{"name": "noon", "otherwise": "defer"}]},
            {"cron": "0 * * * *", "labels": {"team": "data"}},
            {"at": "2027-01-15T12:00:00Z", "calendars": [{"name": "noon", "otherwise": "defer"}]},
            {"at": "2027-01-15T20:00:00Z"},
        ):
            await here.create(**body, overlap="allow")
        plan = await _plan(here)
        assert plan.known_until is None
        assert plan.starts
        await here.schedule(DAY + HOUR, step=60)
        rows = await here.store.searches.runs(RunQuery(namespace="default", limit=10_000))
        made = {
            (row.job_id, round(row.due_at, 3))
            for row in rows
            if row.state is not RunState.SKIPPED and row.due_at < START + DAY
        }
        told = {(each.job_id, round(each.due, 3)) for each in plan.starts if each.fate is not OccurrenceFate.SKIP}
        assert told == made
        skipped = {(row.job_id, row.nominal_at) for row in rows if row.reason == "maintenance"}
        assert {(each.job_id, each.nominal) for each in plan.starts if each.fate is OccurrenceFate.SKIP} == skipped


async def test_starts_come_in_the_order_of_their_times() -> None:
    """Of all jobs together; each names its job."""
    async with scene() as here:
        for minutes in (7, 11, 13):
            await here.create(every=f"{minutes}m")
        plan = await _plan(here, seconds=HOUR)
        assert [each.due for each in plan.starts] == sorted(each.due for each in plan.starts)
        assert {each.job_id for each in plan.starts} == plan.jobs.keys()
        assert len(plan.starts) == 8 + 5 + 4


async def test_a_window_that_begins_later_has_its_own_starts_alone() -> None:
    """And of a schedule with a most number of runs, those that are left then."""
    async with scene() as here:
        await here.create(cron="0 * * * *", max_runs=5)
        assert len((await _plan(here)).starts) == 5
        later = await _plan(here, START + 3 * HOUR)
        assert len(later.starts) == 3
        assert all(START + 3 * HOUR <= each.due for each in later.starts)


@pytest.mark.parametrize("bound", ["STARTS_MAX", "JOBS_MAX"])
async def test_a_look_is_bounded_and_says_how_far_it_knows(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before that time nothing is missing."""
    async with scene() as here:
        for minutes in (7, 11, 13, 17):
            await here.create(every=f"{minutes}m")
        whole = (await _plan(here, seconds=4 * HOUR)).starts
        monkeypatch.setattr(plans, bound, 3)
        plan = await _plan(here, seconds=4 * HOUR)
        assert plan.known_until is not None
        assert list(plan.starts) == [each for each in whole if each.due < plan.known_until]
        assert 0 < len(plan.starts) < len(whole)


async def test_costly_calendars_end_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page waits for no search of calendars beyond a bound."""
    async with scene() as here:
        await here.ask("PUT", "/calendars/noon", 201, NOON)
        await here.create(every="1m", calendars=[{"name": "noon"}])
        assert (await _plan(here, seconds=HOUR)).known_until is None
        monkeypatch.setattr(plans, "LOOKS_MAX", 10)
        assert (await _plan(here, seconds=HOUR)).known_until is not None


async def test_a_paused_job_has_no_starts_until_its_pause_ends() -> None:
    """With an end, its starts after that; without one, none."""
    async with scene() as here:
        job_id = await here.create(every="1h")
        await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "x", "until": "2027-01-15T12:30:00Z"})
        starts = (await _plan(here)).starts
        assert starts
        assert all(each.due > 1_800_016_200.0 for each in starts)
        await here.ask("POST", f"/jobs/{job_id}/pause", 200, {"reason": "x"})
        assert (await _plan(here)).starts == []


async def test_a_window_must_end_after_it_begins() -> None:
    """Else nothing is meant."""
    async with scene() as here:
        with pytest.raises(Invalid):
            await _plan(here, seconds=0.0)
