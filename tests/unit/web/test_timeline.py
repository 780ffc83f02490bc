"""The time line: its values, and the page with what it reads and what it says of its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.support.app import API
from tests.support.pages import Markup, Rig, pages
from tickwise.control.schedules.plans import PlannedStart
from tickwise.control.schedules.previews import OccurrenceFate
from tickwise.control.schedules.stored_rules import CoveredStretch
from tickwise.domain.lifecycle import RunState
from tickwise.domain.model import run_id
from tickwise.ports.store import RunRow, Tally
from tickwise.web import timeline
from tickwise.web.timeline import Axis, Mark
from tickwise.web.views import timeline as view

START = 1_800_000_000.0
HOUR = 3_600.0
A, B = UUID(int=1), UUID(int=2)
HOURS = Axis(timeline.SCALES["day"], START)


def _run(at: float, seconds: float = 60.0, state: RunState = RunState.SUCCESS, job: UUID = A, **fields: Any) -> RunRow:
    given: dict[str, Any] = {
        "run_id": run_id(job, at), "job_id": job, "namespace": "default", "state": state, "trigger": 1, "due_at": at,
        "queued_at": at, "dispatched_at": at, "started_at": at, "ended_at": at + seconds, "ready_at": None,
        "attempt": 1, "failures": 0, "crashes": 0, "executor": 1, "reason": None, "error": None, "result": None,
        "origin": None, "definition": None, "nominal_at": at,
    }  # fmt: skip
    return RunRow(**{**given, **fields})


def _fire(at: float, job: UUID = A, fate: OccurrenceFate = OccurrenceFate.FIRE) -> PlannedStart:
    return PlannedStart(job, at, at, fate)


def _marks(*marks: tuple[float, float], kind: str = "success") -> list[Mark]:
    return [Mark(START + at, START + at, START + at + seconds, kind, A) for at, seconds in marks]


@pytest.mark.parametrize("name", timeline.SCALES)
@pytest.mark.parametrize("middle", [START, START + 1, START + 12_345.6, 0.0])
def test_an_axis_has_its_moment_near_the_middle(name: str, middle: float) -> None:
    """It begins at a whole tick, so that its ticks and bars are whole."""
    axis = Axis.around(timeline.SCALES[name], middle)
    assert axis.start % axis.scale.tick == 0.0
    assert axis.start <= middle < axis.end
    assert axis.ticks()[0] == axis.start
    assert axis.ticks()[-1] == axis.end
    assert axis.scale.tick % axis.scale.bucket == 0.0
    assert axis.scale.bucket % axis.scale.step == 0.0


def test_a_start_that_is_on_record_is_shown_once() -> None:
    """A person may have moved a run of an occurrence whose timer stands there still."""
    runs = [_run(START)]
    marks = timeline.marks_of(runs, [_fire(START), _fire(START + HOUR)], START + 60)
    assert [(mark.at, mark.kind) for mark in marks] == [(START, "success"), (START + HOUR, "planned")]


def test_a_start_to_come_takes_what_such_runs_took() -> None:
    """In the middle; of a job that has not run, what the others take; what is skipped takes nothing."""
    runs = [_run(START + at, seconds) for at, seconds in ((0, 10.0), (100, 20.0), (200, 900.0))]
    planned = [_fire(START + HOUR), _fire(START + HOUR, B), _fire(START + HOUR, B, OccurrenceFate.SKIP)]
    marks = timeline.marks_of(runs, planned, START + 1_000)[3:]
    assert [mark.end - mark.at for mark in marks] == [20.0, 20.0, 0.0]
    assert [mark.kind for mark in marks] == ["planned", "planned", "will-skip"]


def test_runs_are_told_apart_by_what_became_of_them() -> None:
    """Also those that go on, wait, or are skipped ahead of their time."""
    now = START + HOUR
    states = {
        "success": _run(START), "failed": _run(START + 1, state=RunState.FAILED),
        "cancelled": _run(START + 2, state=RunState.CANCELLED),
        "skipped": _run(START + 3, state=RunState.SKIPPED, started_at=None),
        "will-skip": _run(now + HOUR, state=RunState.SKIPPED, started_at=None),
        "goes-on": _run(START + 4, state=RunState.RUNNING, ended_at=None),
        "planned": _run(now + 5, state=RunState.QUEUED, started_at=None, ended_at=None),
    }  # fmt: skip
    marks = timeline.marks_of(states.values(), [], now)
    assert [mark.kind for mark in marks] == list(states)
    assert marks[5].end == now
    waits = states["planned"]._replace(due_at=START + 5)
    assert timeline.marks_of([waits], [], now)[0].kind == "goes-on"


def test_the_load_is_the_most_at_once() -> None:
    """In each step; ends before starts; a run counts in all the steps that it goes through."""
    marks = _marks((0, 600), (600, 600), (30, 100), (40, 2_000))[::-1]
    found = timeline.load(HOURS, marks, START + 1_200, 4)
    assert (found.steps[:4], found.most, found.most_at) == ([3, 2, 1, 1], 3, START)
    assert found.past
    assert found.ahead
    assert found.slots_y is not None


@pytest.mark.parametrize(("slots", "shown"), [(None, False), (0, False), (3, True), (400, False)])
def test_slots_are_drawn_where_they_tell_something(slots: int | None, *, shown: bool) -> None:
    """A line far above the load would flatten it."""
    found = timeline.load(HOURS, _marks((0, 60), (10, 60)), START + HOUR, slots)
    assert (found.slots_y is not None) == shown


def test_bars_count_each_start_once_and_the_highest_fills_the_chart() -> None:
    """Of all kinds together; with the counts of hours before the runs that were read."""
    marks = [*_marks((2 * HOUR, 1), (2 * HOUR + 5, 1)), *_marks((2 * HOUR + 9, 1), kind="failed")]
    tallies = [Tally(hour=START + at * HOUR, state=RunState.SUCCESS, runs=7) for at in (0, 2)]
    bars = timeline.bars(HOURS, marks, tallies, START + HOUR)
    assert [dict(bar.counts) for bar in bars[:4]] == [{"success": 7}, {}, {"success": 2, "failed": 1}, {}]
    assert [bar.counted for bar in bars[:3]] == [True, False, False]
    assert round(sum(part.height for part in bars[0].parts)) == 100
    assert timeline.total(bar.counts for bar in bars) == 10


def test_a_row_for_each_job_those_that_failed_first() -> None:
    """What lies on each other is one mark, and the gravest is seen."""
    marks = [
        *(Mark(START + 60 * n, START + 60 * n, START + 60 * n, "success", A) for n in range(50)),
        Mark(START + 1, START + 1, START + 1, "success", B, UUID(int=7)),
        Mark(START + 2, START + 2, START + 2, "failed", B, UUID(int=8)),
    ]
    rows, hidden = timeline.lanes(HOURS, marks)
    assert ([row.job_id for row in rows], hidden) == ([B, A], 0)
    [mark] = rows[0].marks
    assert (mark.kind, mark.runs, mark.run_id) == ("failed", 2, UUID(int=8))
    jobs = [Mark(START, START, START, "success", UUID(int=n)) for n in range(timeline.LANES + 5)]
    assert timeline.lanes(HOURS, jobs)[1] == 5


def test_many_marks_become_paths_but_failures_stay_apart() -> None:
    """So that a page stays small, and what failed can be opened."""
    step = 86_400.0 / timeline.LANE_COLUMNS
    marks = [
        Mark(
            START + step * (n + 0.5),
            0.0,
            START + step * (n + 0.5),
            "failed" if n % 50 == 0 else "success",
            UUID(int=job),
        )
        for job in range(6)
        for n in range(timeline.LANE_COLUMNS)
    ]
    for row in timeline.lanes(HOURS, marks)[0]:
        assert {mark.kind for mark in row.marks} == {"failed"}
        assert row.paths["success"].count("M") + len(row.marks) == timeline.LANE_COLUMNS


@pytest.mark.parametrize(("slots", "least"), [(None, 5), (16, 5), (2, 3), (1, 3), (3, 4)])
def test_many_starts_in_one_second_are_a_collision(slots: int | None, least: int) -> None:
    """Fewer are, where there are fewer slots. What is skipped does not start. Those to come are first."""
    now = START + HOUR
    crowd = [Mark(START + 5.2, START + 5.2, START, "success", UUID(int=n)) for n in range(9)]
    ahead = [Mark(now + 60, now + 60, now, "planned", UUID(int=n)) for n in range(least)]
    few = [Mark(now + 90, now + 90, now, "planned", UUID(int=n)) for n in range(least - 1)]
    skipped = [Mark(now + 120, now + 120, now, "will-skip", UUID(int=n)) for n in range(9)]
    found, count, found_least = timeline.crowds(HOURS, [*crowd, *ahead, *few, *skipped], now, slots)
    assert [(each.at, each.starts, each.ahead) for each in found] == [(now + 60, least, True), (START + 5, 9, False)]
    assert (count, found_least) == (2, least)


def test_closed_times_end_with_the_axis() -> None:
    """Also those without an end."""
    stretches = [
        CoveredStretch(START - HOUR, START + HOUR, "a"), CoveredStretch(START + 2 * HOUR, None, "b"),
        CoveredStretch(START + 90 * HOUR, None, "c"),
    ]  # fmt: skip
    found = timeline.bands(HOURS, stretches)
    assert [(round(band.x), round(band.x + band.width)) for band in found] == [(0, 42), (83, 1000)]


# ---------------------------------------------------------------------------------------------------- the page


@pytest_asyncio.fixture(scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with pages() as made:
        client = made.here.client
        for minutes in (10, 15, 20):
            body = {"name": f"every {minutes}", "every": f"{minutes}m", "labels": {"m": str(minutes)}}
            assert 201 == (await client.post(f"{API}/jobs", json=body)).status_code
        yield made


async def _words(rig: Rig, name: str, path: str, role: str = "viewer") -> str:
    browser = await rig.signed_in(name, (role, "default"))
    answer = await browser.get(path)
    assert 200 == answer.status_code, answer.text
    return Markup(answer.text).words


async def test_each_filter_is_an_address(rig: Rig) -> None:
    """Job, part of a name, label, queue; the links of the page keep them."""
    browser = await rig.signed_in("filters", ("viewer", "default"))
    job = (await rig.here.client.get(f"{API}/jobs?name=every%2010")).json()[0]["job_id"]
    for query, shown, hidden in (
        ("name=every+1", "every 15", "every 20"), (f"job_id={job}", "every 10", "every 20"),
        ("label=m%3D20", "every 20", "every 10"), ("queue=default", "every 10", "every 99"),
    ):  # fmt: skip
        page = Markup((await browser.get(f"/timeline?{query}")).text)
        assert shown in page.words, query
        assert hidden not in page.words, query
        later = next(each["href"] for each in page.named("a") if each.get("rel") == "next")
        assert query in later
        assert 200 == (await browser.get(later)).status_code
    assert "Nothing of this search" in await _words(rig, "none", "/timeline?queue=nowhere")


@pytest.mark.parametrize("query", ["view=year", "at=yesterday", "job_id=7", "label=x"])
async def test_an_address_that_is_none_says_what_is_wrong(rig: Rig, query: str) -> None:
    """422, and the field."""
    browser = await rig.signed_in(f"wrong {query}", ("viewer", "default"))
    answer = await browser.get(f"/timeline?{query}")
    assert 422 == answer.status_code
    assert f"/{query.split('=')[0]}" in answer.text


@pytest.mark.parametrize("at", ["1970-01-01T00:00", "2100-01-01T00:00", "9999-12-31T23:59", "0001-01-01T00:00"])
async def test_any_time_can_be_looked_at(rig: Rig, at: str) -> None:
    """Also the ends of the calendar."""
    for name in timeline.SCALES:
        await _words(rig, f"{name} {at}", f"/timeline?view={name}&at={at}")


async def test_a_page_says_where_its_knowledge_ends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs that were not read, and of starts that lie further ahead."""
    monkeypatch.setattr("tickwise.control.schedules.plans.STARTS_MAX", 5)
    assert "The starts are known until" in await _words(rig, "cut ahead", "/timeline")
    job = (await rig.here.client.get(f"{API}/jobs?name=every%2010")).json()[0]["job_id"]
    for _ in range(5):
        await rig.here.client.post(f"{API}/jobs/{job}/runNow", json={})
    monkeypatch.setattr(view, "RUNS_MAX", 3)
    assert "Only the newest runs were read, at most 3" in await _words(rig, "cut behind", "/timeline?view=hour")


async def test_a_visitor_without_jobs_sees_the_past_alone(rig: Rig) -> None:
    """What they may not see is left out."""
    role = {"permissions": ["runs:read"]}
    assert 201 == (await rig.here.client.put(f"{API}/namespaces/default/roles/runs-only", json=role)).status_code
    browser = await rig.signed_in("past", ("runs-only", "default"))
    page = Markup((await browser.get("/timeline")).text)
    assert "every" not in page.words
    assert not [each for each in page.elements if each[1].get("class") == "t-planned"]


async def test_labels_bound_what_is_seen_ahead(rig: Rig) -> None:
    """As they bound the jobs."""
    person: dict[str, Any] = {"name": "Fifteen", "password": "four quiet herons wade", "roles": [
        {"role": "operator", "namespace": "default", "labels": {"m": "15"}}]}  # fmt: skip
    assert 201 == (await rig.here.client.post(f"{API}/users", json=person)).status_code
    browser = rig.browser()
    assert 303 == (await browser.sign_in("Fifteen")).status_code
    words = Markup((await browser.get("/timeline")).text).words
    assert "every 15" in words
    assert "every 20" not in words


async def test_the_table_has_what_the_picture_shows(rig: Rig) -> None:
    """For those who read no picture: starts, load and closed times in words."""
    window = {"when": {"recurring": [{"cron": "0 * * * *", "duration": "20m"}]}, "labels": {"m": "20"}}
    assert 201 == (await rig.here.client.put(f"{API}/windows/hourly", json=window)).status_code
    browser = await rig.signed_in("table", ("viewer", "default"))
    page = Markup((await browser.get("/timeline")).text)
    rows = page.words.split("The same as a table")[1]
    assert "Planned" in rows
    assert "Will be skipped" in rows
    assert "hourly" in rows
