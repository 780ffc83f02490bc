"""`python -m tickwise.testing.world`, which `make sim` runs."""

from __future__ import annotations

import pytest

from tests.simulation.test_guards import WORLDS, leases_never_end
from tickwise.testing.world import play
from tickwise.testing.world.__main__ import main


def test_a_good_world_is_told_of_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code is 0."""
    assert 0 == main(["4"])
    assert capsys.readouterr().out.startswith("seed 4: good, ")


def test_a_world_that_fails_tells_what_runs_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is wrong, and the end of its trace: the first world in which an executor dies with runs in hand."""
    leases_never_end(monkeypatch)
    seed = next(seed for seed in range(WORLDS) if play(seed).findings)
    assert 1 == main(["--first", str(seed), "--seeds", "1"])
    said = capsys.readouterr().out
    assert "  not everything has ended 900 s after the last fault\n" in said
    assert "  the trace ends so:\n" in said
    assert f"run it again with: make sim SEED={seed}\n" in said
    assert said.endswith("1 failed\n")


def test_the_whole_trace_of_a_world_can_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """From the first boot on."""
    assert 0 == main(["4", "--trace"])
    said = capsys.readouterr().out
    assert said.startswith("0.000000 scheduler-1.1 boots\n")
    assert "\n0.000000 executor-1.1 boots\n" in said
