"""Runs in the log: each while there are few, failures and counts when there are many."""

from __future__ import annotations

from typing import Any

import structlog

from tests.unit.roles.rig import Rig, drive
from tickwise.adapters.clock import VirtualClock
from tickwise.observability.log_budget import LogBudget
from tickwise.ports.runner import Verdict


async def test_a_bound_lets_lines_through_until_it_is_reached_and_counts_the_rest() -> None:
    """A second over the bound is followed by silent ones, until the rate falls."""
    clock = VirtualClock()
    budget = LogBudget(3, clock.monotonic)
    assert [2, 1, 0] == [budget.take(2), budget.take(2), budget.take(1)]
    assert 0 == budget.left_out()
    await clock.advance(1.0)
    assert 0 == budget.take(4)
    await clock.advance(1.0)
    assert 2 + 4 == budget.left_out()
    assert 0 == budget.take(1)
    await clock.advance(1.0)
    assert 2 == budget.take(2)
    await clock.advance(5.0)
    assert (1, 0) == (budget.left_out(), budget.left_out())


async def test_what_is_gathered_in_one_second_and_logged_in_the_next_is_counted() -> None:
    """No line is neither written nor counted."""
    clock = VirtualClock()
    budget = LogBudget(10, clock.monotonic)
    assert 8 == budget.take(8)
    gathered = budget.room()
    assert 2 == gathered
    await clock.advance(1.0)
    assert 2 == budget.take(6, gathered)
    await clock.advance(1.0)
    assert 4 == budget.left_out()


async def logged(rig: Rig, verdicts: list[Verdict]) -> list[dict[str, Any]]:
    """What is logged of runs that end so."""
    await rig.executor.prepare()
    with structlog.testing.capture_logs() as logs:
        for verdict in verdicts:
            await rig.submit(max_retries=0)
            await rig.tick()
            await rig.clock.settle()
            (run_id,) = rig.runner.running
            rig.runner.end(run_id, verdict)
            await rig.tick()
        await rig.clock.advance(4.0)
        await drive(rig.clock, rig.executor.tick())
    return [dict(log) for log in logs if log["event"] in ("run_started", "run_ended", "run_failed", "runs_unlogged")]


async def test_start_and_end_of_a_run_are_one_line_each() -> None:
    """With job, run, attempt and executor; the end with its outcome."""
    rig = Rig(log_runs_per_second=100)
    started, ended, *more = await logged(rig, [Verdict.OK])
    assert [] == more
    assert ("run_started", "run_ended", "SUCCESS") == (started["event"], ended["event"], ended["outcome"])
    for name in ("namespace", "job_id", "run_id", "attempt", "executor"):
        assert started[name] == ended[name], name
    assert ("default", 1) == (started["namespace"], started["attempt"])


async def test_above_the_bound_failures_and_a_count_are_logged() -> None:
    """No failure is lost among many successes."""
    rig = Rig(log_runs_per_second=2)
    lines = await logged(rig, [*[Verdict.OK] * 5, Verdict.FAILED])
    failed = [line for line in lines if line.get("outcome") == "FAILED"]
    assert ["warning"] == [line["log_level"] for line in failed]
    (count,) = (line for line in lines if line["event"] == "runs_unlogged")
    assert (4, 3, 0) == (count["started"], count["succeeded"], count["failed"])


async def test_without_a_bound_nothing_is_logged() -> None:
    """As in a simulation."""
    assert [] == await logged(Rig(), [Verdict.OK, Verdict.FAILED])
