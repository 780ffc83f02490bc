"""A peer that cannot be measured is said to be so and why, and ends nobody else's measurement."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from bench.beside import Beside, prepared
from bench.harness import Case, Failed, Rig, Round
from bench.peers import Peer
from bench.peers.rig import PeerRig


async def _never(_: Rig) -> Round:
    raise AssertionError("nothing of ours is measured here")


CASE = Case("T1", "jobs/s", 1.0, True, _never, _never, "the least")
LATE = Case("L2", "ms", 1.0, False, _never, _never, "the least")


def _nothing() -> None:
    """All packages are there."""


def _peer(
    measured: list[float | Exception], *, needs: tuple[str, ...] = (), install: Callable[[], None] = _nothing
) -> Peer:
    rounds = iter(measured)

    async def case(_: PeerRig) -> Round:
        outcome = next(rounds)
        if isinstance(outcome, Exception):
            raise outcome
        return Round(outcome, {"runs": 1})

    return Peer(
        name="other",
        version="1.2",
        language="C",
        durability="durable",
        stores="nothing",
        settings="best",
        link="https://example.org",
        cases={"T1": case, "L2": case},
        install=install,
        needs=needs,
    )


async def _said(beside: Beside, rounds: int, *, case: Case = CASE, ours: float = 200.0) -> dict[str, Any]:
    for _ in range(rounds):
        await beside.measure(full=False)
    return beside.said(case, Round(ours))


async def test_a_peer_has_the_median_of_its_rounds_and_how_many_times_as_fast_ours_is() -> None:
    """With its range, its version, its setting and what it keeps."""
    said = await _said(Beside(_peer([90.0, 120.0, 100.0]), "T1"), 3)
    assert (100.0, 90.0, 120.0, 2.0) == (said["value"], said["low"], said["high"], said["ratio"])
    assert ("other-best", "1.2", "durable") == (said["title"], said["version"], said["durability"])


async def test_a_peer_that_is_later_is_slower() -> None:
    """Of lateness less is better, and the ratio still says how many times as good ours is."""
    assert 4.0 == (await _said(Beside(_peer([40.0]), "L2"), 1, case=LATE, ours=10.0))["ratio"]


@pytest.mark.parametrize("wrong", [Failed("1 of 4 jobs lost"), TimeoutError("too long"), OSError("no disk")])
async def test_a_round_that_goes_wrong_makes_the_peer_void(wrong: Exception) -> None:
    """However good its other rounds were; it is not measured again."""
    said = await _said(Beside(_peer([90.0, wrong]), "T1"), 3)
    assert f"{type(wrong).__name__}: {wrong}" == said["void"]
    assert "value" not in said


async def test_a_peer_without_its_tools_is_not_run() -> None:
    """And says which is missing."""
    beside = prepared(_peer([], needs=("a program that nobody has",)), CASE)
    assert "no a program that nobody has" == (await _said(beside, 3))["not_run"]


async def test_a_peer_that_cannot_be_installed_is_not_run() -> None:
    """No registry, no disk: the others are measured."""

    def install() -> None:
        raise subprocess.CalledProcessError(1, ["pip"])

    said = await _said(prepared(_peer([], install=install), CASE), 3)
    assert said["not_run"].startswith("its packages cannot be installed: ")
