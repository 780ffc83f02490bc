"""What benchmarks write: medians of rounds, demands met or missed, and a comparison that notices what became slower."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench import record, table
from bench.beside import demands
from bench.check import Pair, ratio, verdict
from bench.harness import Case, Check, Rig, Round


async def _never(_: Rig) -> Round:
    raise AssertionError("nothing is measured here")


CASE = Case(
    "X",
    "jobs/s",
    100.0,
    True,
    _never,
    _never,
    "the least",
    checks=(Check("p99 in ms", "p99_ms", 20.0), Check("slowest window", "slowest", 0.8, higher=True)),
)
AROUND: dict[str, Any] = {
    "full": False,
    "machine": {"cpu": "abacus", "cores": 2, "memory_gib": 1.0, "kernel": "none"},
    "postgresql": {"server_version": "18", "synchronous_commit": "on", "fsync": "on", "shared_buffers": "1MB"},
    "python": "3.11",
    "tickwise": "0",
    "commit": "abc",
    "at": "2026-01-01T00:00:00+00:00",
}


def _rounds(*values: float, **figures: tuple[float | None, ...]) -> list[Round]:
    return [Round(value, {name: each[number] for name, each in figures.items()}) for number, value in enumerate(values)]


def _result(product: list[Round], limits: list[Round]) -> dict[str, Any]:
    return record.result(CASE, product, limits, surroundings=AROUND)


ROUNDS = _rounds(90.0, 120.0, 110.0, p99_ms=(30.0, 10.0, 15.0), slowest=(0.9, 0.7, 0.75))
LIMITS = _rounds(200.0, 300.0, 220.0)


def test_a_result_is_the_median_of_its_rounds_with_their_range() -> None:
    """Each round's value is kept beside it."""
    said = _result(ROUNDS, LIMITS)
    assert (110.0, 90.0, 120.0, [90.0, 120.0, 110.0]) == (said["value"], said["low"], said["high"], said["rounds"])


def test_the_ratio_is_that_of_the_medians() -> None:
    """Of what was measured in the same run."""
    assert 0.5 == _result(ROUNDS, LIMITS)["ratio"]


def test_each_demand_has_its_figure_its_bound_and_its_verdict() -> None:
    """The figure is the median of the rounds, as the value is."""
    assert {
        "p99 in ms": {"figure": 15.0, "bound": 20.0, "met": True},
        "slowest window": {"figure": 0.75, "bound": 0.8, "met": False},
    } == _result(ROUNDS, LIMITS)["checks"]


def test_a_figure_that_one_round_could_not_have_misses_the_demand() -> None:
    """It never recovered once: the median of the other times would hide that."""
    product = _rounds(90.0, 120.0, 110.0, p99_ms=(None, 10.0, 15.0), slowest=(0.9, 0.9, 0.9))
    assert {"figure": None, "bound": 20.0, "met": False} == _result(product, LIMITS)["checks"]["p99 in ms"]


def test_what_else_was_seen_is_that_of_the_median_round() -> None:
    """Figures of different rounds are not mixed."""
    assert {"p99_ms": 15.0, "slowest": 0.75} == _result(ROUNDS, LIMITS)["more"]


def test_a_quick_look_does_not_replace_a_recorded_result() -> None:
    """Fewer rounds than the case asks for go to a folder that is not committed."""
    assert ("out", "results") == (record.folder(CASE, 1).name, record.folder(CASE, 3).name)


def test_a_ratio_that_fell_too_far_is_told() -> None:
    """With both figures, so that nobody has to look them up."""
    (said,) = verdict({"T1": 0.33, "T2": 0.5}, {"T1": 0.4, "T2": 0.5})
    assert said.startswith("T1: 0.330 of the limit beside it, 18% below the recorded 0.400")


def test_a_ratio_that_fell_little_or_rose_is_not_told() -> None:
    """Fifteen percent are within what a machine does by itself."""
    assert [] == verdict({"T1": 0.35, "T2": 0.9}, {"T1": 0.4, "T2": 0.5})


def test_a_ratio_of_which_nothing_is_recorded_is_told() -> None:
    """A check that compares with nothing would always pass."""
    assert ["T1: nothing is recorded; `make bench-check RECORD=1` records what is now"] == verdict({"T1": 0.4}, {})


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """Of each round's own: the machine may be twice as quick in one round as in another, for both."""
    assert 0.5 == ratio([Pair(100.0, 50.0), Pair(200.0, 98.0), Pair(50.0, 45.0)])


def test_the_table_replaces_what_stood_between_its_markers() -> None:
    """And nothing else of the page."""
    page = f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n"
    assert f"before\n{table.BEGIN}\n\nnew\n\n{table.END}\nafter\n" == table.placed(page, "new")


def test_a_page_without_markers_is_refused() -> None:
    """Rather than losing half of it."""
    with pytest.raises(ValueError, match="the page must have the lines"):
        table.placed(f"before {table.END} {table.BEGIN} after", "new")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(41_384.39, "41,384"), (0.8123, "0.812"), (12.345, "12.3"), (100.4, "100"), (None, "–")],
)
def test_figures_show_as_many_digits_as_they_are_worth(value: float | None, expected: str) -> None:
    """Three, or all of those before the point."""
    assert expected == table.number(value)


def test_the_table_says_what_was_missed() -> None:
    """Each demand has a row of its own, under its case."""
    text = table.markdown([_result(ROUNDS, LIMITS)], [])
    assert (
        "| X | 110 [90, 120] jobs/s | 220: the least | 0.5 | 100 | yes | 2026-01-01, `abc`, short, rounds: 3 |" in text
    )
    assert "| | slowest window: 0.75 | | | 0.8 | no | |" in text


def test_a_peer_that_did_not_run_is_in_the_table_with_the_reason() -> None:
    """Never left out silently: who reads the table sees who is missing."""
    about = {"name": "other", "version": "1", "settings": "best", "durability": "durable", "stores": "-", "link": "u"}
    beside = {
        **AROUND,
        "case": "X",
        "higher": True,
        "about": "jobs/s.",
        "headings": ["who", "version", "setting", "jobs/s", "ratio", "durability", "keeps"],
        "ours": {"value": 110.0, "low": 90.0, "high": 120.0},
        "durability": "durable",
        "stores": "history",
        "peers": [about | {"not_run": "no go"}, about | {"value": 55.0, "low": 50.0, "high": 60.0, "ratio": 2.0}],
    }
    text = table.markdown([], [beside])
    assert "| other | 1 | best | not run: no go | – |  |  |" in text
    assert "| [other](u) | 1 | best | 55 [50, 60] | 2 | durable | - |" in text


def test_the_best_peer_is_the_one_to_beat() -> None:
    """Of those that ran; a demand of a named peer looks at that peer's better setting alone."""
    peers: list[dict[str, Any]] = [
        {"name": "a", "title": "a-default", "ratio": 9.0},
        {"name": "a", "title": "a-best", "ratio": 2.0},
        {"name": "b", "title": "b-best", "ratio": 1.1},
        {"name": "c", "title": "c-best", "not_run": "no go"},
    ]
    case = replace(CASE, times_peers={"": 1.2, "a": 1.5, "c": 1.5})
    assert {
        "times b-best, the best of 3 settings of peers": {"figure": 1.1, "bound": 1.2, "met": False},
        "times a-best": {"figure": 2.0, "bound": 1.5, "met": True},
    } == demands(case, peers)
