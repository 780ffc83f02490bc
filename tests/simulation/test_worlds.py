"""Simulated worlds, and what must have happened in them. `make sim SEEDS=1000` runs more, each twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest

from tickwise.testing.world import SOMETIMES, SeedReport, play

BLOCKS = 6
WORLDS_OF_A_BLOCK = 20
"""Everything that must happen sometimes has after a hundred worlds."""
FOUND_ONCE = (55, 181)
"""Worlds that have found something; those in the blocks are looked at there."""
MAX_STEPS_A_SECOND = 250
"""Of all worlds together; 205 are usual. At 15 µs a step, roles and store included, that is 500 times real time."""


@cache
def block(number: int) -> Sequence[SeedReport]:
    """The worlds of one block, each lived through once."""
    first = number * WORLDS_OF_A_BLOCK
    return [play(seed) for seed in range(first, first + WORLDS_OF_A_BLOCK)]


@pytest.mark.takes_up_to(390)
@pytest.mark.parametrize("number", range(BLOCKS))
def test_nothing_is_wrong_in_any_world(number: int) -> None:
    """Whatever goes wrong around the roles: nothing is lost, ended twice, run by nobody's leave, or left over."""
    assert "" == "\n".join(report.as_text() for report in block(number) if report.findings)


@pytest.mark.takes_up_to(390)
@pytest.mark.parametrize("seed", [seed for seed in FOUND_ONCE if seed >= BLOCKS * WORLDS_OF_A_BLOCK])
def test_nothing_is_wrong_in_a_world_that_has_found_something(seed: int) -> None:
    """Each of them showed a fault that no other test had shown."""
    report = play(seed)
    assert not report.findings, report.as_text()


@pytest.mark.takes_up_to(390)
def test_what_must_happen_sometimes_did() -> None:
    """A world in which nothing dangerous can happen would be good for ever, and show nothing."""
    seen = {what for number in range(BLOCKS) for report in block(number) for what in report.seen}
    assert [] == [what for what in SOMETIMES if what not in seen]


@pytest.mark.takes_up_to(390)
def test_each_witness_was_heard() -> None:
    """The history checker had something to judge of each kind: requests, changes, executions, faults."""
    reports = [report for number in range(BLOCKS) for report in block(number)]
    kinds = ("operations", "changes", "executions", "faults", "runs", "re_executions")
    assert [] == [kind for kind in kinds if not sum(report.counts[kind] for report in reports)]


@pytest.mark.takes_up_to(390)
def test_a_virtual_second_takes_few_steps() -> None:
    """So that a world is lived through some hundred times faster than real time. Steps are counted, not seconds: those
    depend on the machine."""
    reports = [report for number in range(BLOCKS) for report in block(number)]
    steps, seconds = sum(report.steps for report in reports), sum(report.virtual_seconds for report in reports)
    assert MAX_STEPS_A_SECOND * seconds > steps
