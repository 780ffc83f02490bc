"""What the judge is told of the faults of a row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos.evidence import faults_of
from tests.chaos.scene import Scene
from tickwise.domain.history.checker import Fault

EXECUTORS = [{"executor": 1, "gone": None}, {"executor": 2, "gone": 50.0}]


def _scene(**given: Any) -> Scene:
    return cast("Scene", SimpleNamespace(**{"faults": [], "idlers": (), "victims": (), **given}))


@pytest.mark.parametrize("stalls", [True, False])
def test_runs_that_a_active_executor_gave_back_at_its_leases_end_are_explained_by_a_stall(*, stalls: bool) -> None:
    """The machine did not let it speak for a whole lease, as with one that was given up: where that counts as a fault,
    this does too."""
    given_back = [{"executor": 1, "attempts": 3, "at": 40.0}]
    found = faults_of(_scene(), EXECUTORS, {}, given_back, stalls=stalls)
    assert found == ([Fault("stall", 40.0, "executor 1", 3, 1)] if stalls else [])


def test_what_an_executor_gave_back_and_what_was_taken_from_it_are_one_stall() -> None:
    """It gave back some in time, and was given up with the others."""
    given_back = [{"executor": 2, "attempts": 3, "at": 40.0}]
    found = faults_of(_scene(), EXECUTORS, {2: 4}, given_back, stalls=True)
    assert found == [Fault("stall", 50.0, "executor 2", 7, 2)]


def test_what_a_victim_gave_back_is_explained_by_what_was_done_to_it() -> None:
    """So it is no stall besides."""
    role = SimpleNamespace(events=lambda _name: [{"executor": 1}], log=SimpleNamespace(stem="executor-a"))
    given_back = [{"executor": 1, "attempts": 3, "at": 40.0}]
    scene = _scene(victims=[(role, "partition", 30.0)])
    found = faults_of(scene, EXECUTORS, {}, given_back, stalls=True)
    assert found == [Fault("partition", 30.0, "executor-a", 3, 1)]
