"""A simulation shows what the product would do: the same scheduler, the same store, another clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tickwise.domain.errors import Invalid
from tickwise.roles.scheduler.simulator import Happening
from tickwise.wiring import simulation as simulations
from tickwise.wiring.simulation import Simulation, simulate, simulate_here, subject_of


def at(text: str) -> float:
    """Unix seconds of a time of 1 March 2027, UTC."""
    return datetime.fromisoformat(f"2027-03-01T{text}").replace(tzinfo=UTC).timestamp()


def clock(instant: float) -> str:
    """The same, the other way round."""
    return datetime.fromtimestamp(instant, UTC).strftime("%H:%M")


def of(*jobs: Mapping[str, Any], begin: str = "00:00", end: str = "01:00", **more: Any) -> Simulation:
    """A simulation of these jobs."""
    subjects = [subject_of(job, number) for number, job in enumerate(jobs, 1)]
    return Simulation(subjects=subjects, begin=at(begin), end=at(end), **more)


async def happenings(simulation: Simulation) -> list[Happening]:
    """All that happens, in this process."""
    return [each async for step in simulate_here(simulation) for each in step]


def told(found: Sequence[Happening]) -> list[str]:
    """Each in a word: `00:10` ran, `00:10-overlap` did not, `00:10..00:50-misfire` stands for several."""
    return [
        clock(each.nominal)
        + (f"..{clock(each.until)}" if each.until is not None else "")
        + (f"-{each.reason}" if each.reason else "")
        for each in found
    ]


async def test_every_named_time_from_the_begin_to_before_the_end_fires() -> None:
    """The begin belongs to it, the end does not."""
    found = await happenings(of({"name": "quarterly", "cron": "*/15 * * * *"}))
    assert ["00:00", "00:15", "00:30", "00:45"] == told(found)


async def test_an_interval_counts_from_the_begin() -> None:
    """As it would for a job that is created then."""
    assert ["00:25", "00:50"] == told(await happenings(of({"name": "often", "every": "25m"})))


async def test_a_one_time_job_fires_once() -> None:
    """At its time."""
    assert ["00:20"] == told(await happenings(of({"name": "once", "at": "2027-03-01T00:20:00Z"})))


async def test_an_outage_leaves_one_record_and_the_latest_run() -> None:
    """What was missed is counted, and nothing is made up."""
    outage = (at("00:10"), at("00:47"))
    found = await happenings(of({"name": "often", "cron": "*/5 * * * *"}, outages=[outage]))
    assert ["00:00", "00:05", "00:10..00:40-misfire", "00:45", "00:50", "00:55"] == sorted(told(found))


async def test_nothing_starts_in_an_outage() -> None:
    """Whatever is due in it, and also what is due at its begin."""
    begin, end = at("00:10"), at("00:30")
    found = await happenings(of({"name": "often", "cron": "* * * * *"}, outages=[(begin, end)]))
    assert [] == [each for each in found if each.reason is None and begin <= each.at < end]


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", ["00:00", "00:10-overlap", "00:20-overlap", "00:30", "00:40-overlap", "00:50-overlap"]),
        ("queue_one", ["00:00", "00:10", "00:20-overlap", "00:30", "00:40-overlap"]),
        ("cancel_running", ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50"]),
        ("allow", ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50"]),
    ],
)
async def test_runs_that_take_longer_than_their_interval_meet_the_overlap_policy(
    overlap: str, expected: list[str]
) -> None:
    """Of 25 minutes, every ten minutes. What still waits at the end of the simulation is not told."""
    job = {"name": "long", "cron": "*/10 * * * *", "overlap": overlap}
    found = await happenings(of(job, run_seconds=25 * 60.0))
    assert expected == sorted(told(found))


async def test_a_run_that_waits_starts_when_the_one_before_it_ends() -> None:
    """Neither earlier nor a step later."""
    job = {"name": "long", "cron": "0,10 0 * * *", "overlap": "queue_all"}
    found = await happenings(of(job, run_seconds=25 * 60.0))
    assert ["00:00", "00:25"] == [clock(each.at) for each in found]


async def test_the_same_simulation_gives_the_same_twice() -> None:
    """Jitter and `H` too: they follow from the job."""
    jobs: list[dict[str, Any]] = [
        {"name": "spread", "cron": "H/7 * * * *", "jitter_seconds": 300},
        {"name": "other", "cron": "H * * * *"},
    ]
    assert await happenings(of(*jobs)) == await happenings(of(*jobs))


async def test_shared_out_to_processes_it_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same order."""
    jobs = [{"name": f"job {number}", "cron": f"*/{number} * * * *"} for number in range(1, 8)]
    alone = await happenings(of(*jobs))
    monkeypatch.setattr(simulations, "SHARED_FROM_JOB_DAYS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert alone == [each async for step in simulate(of(*jobs)) for each in step]


@pytest.mark.parametrize("cpus", [1, 2])
async def test_a_job_of_every_second_takes_no_longer_than_its_runs(monkeypatch: pytest.MonkeyPatch, cpus: int) -> None:
    """Time is then moved in short steps, in every process: overlap is settled by looking at all that was made."""
    monkeypatch.setattr(simulations, "SHARED_FROM_JOB_DAYS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    simulation = of({"name": "busy", "every": "1s"}, {"name": "calm", "cron": "* * * * *"}, end="00:05")
    steps = [step async for step in simulate(simulation)]
    assert 5 == len(steps)
    assert 4 * 60 + 59 + 5 == sum(len(step) for step in steps)


async def test_a_bad_job_is_named_whichever_process_meets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is told."""
    monkeypatch.setattr(simulations, "SHARED_FROM_JOB_DAYS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    simulation = of({"name": "good", "cron": "* * * * *"}, {"name": "bad one", "cron": "99 * * * *"})
    with pytest.raises(Invalid, match="bad one: minute"):
        [each async for step in simulate(simulation) for each in step]


def test_a_field_of_the_wrong_type_is_named() -> None:
    """With the number of the job in its file."""
    with pytest.raises(Invalid, match=r"job 3: .*overlap"):
        subject_of({"name": "x", "cron": "* * * * *", "overlap": "sometimes"}, 3)


async def test_a_job_without_a_schedule_does_nothing_by_itself() -> None:
    """It is asked for, and nobody asks; what else it says is read and left out."""
    body = {"name": "asked", "schedule_type": "ON_DEMAND", "then": ["next"], "concurrency": {"limit": 1}}
    assert [] == await happenings(of(body))
