"""Durations and outputs that are unlike those of earlier runs."""

from __future__ import annotations

import pytest

from tickwise.domain.observing.anomalies import (
    Anomaly,
    AnomalyKind,
    AnomalyQuantity,
    MeasuredEnd,
    anomalies_of,
    anomaly_of,
)

MINUTES = [180.0 + 12.0 * number for number in range(11)]
"""3 to 5 minutes."""


@pytest.mark.parametrize(
    ("seconds", "earlier", "kind"),
    [
        (2_400.0, MINUTES, AnomalyKind.MORE),
        (300.0, MINUTES, None),
        (550.0, MINUTES, None),
        (3.0, [600.0] * 20, AnomalyKind.LESS),
        (400.0, [600.0] * 20, None),
        (0.03, [0.01] * 20, None),
        (1.5, [0.01] * 20, AnomalyKind.MORE),
        (2_400.0, MINUTES[:9], None),
        (2_400.0, [], None),
        (2_400.0, [*MINUTES, 9_000.0, 9_500.0], AnomalyKind.MORE),
        (2_400.0, [10.0, 4_000.0] * 10, None),
        (100.0, [1.0] * 35 + [100.0] * 15, None),
        (110.0, [1.0] * 45 + [90.0] * 5, None),
        (110.0, [1.0] * 46 + [90.0] * 4, AnomalyKind.MORE),
        (1_000.0, [1.0] * 35 + [100.0] * 15, AnomalyKind.MORE),
    ],
)
def test_an_anomaly_is_far_from_what_is_usual(seconds: float, earlier: list[float], kind: AnomalyKind | None) -> None:
    """In both directions; not where runs vary as much, where nobody would notice, or too few of them are known."""
    found = anomaly_of(AnomalyQuantity.DURATION, seconds, earlier)
    assert (None if found is None else found.kind) is kind


def test_what_is_usual_is_told() -> None:
    """Nine of ten runs took less than the one time, and as many more than the other."""
    found = anomaly_of(AnomalyQuantity.DURATION, 2_400.0, MINUTES)
    assert found is not None
    assert (found.low, found.high, found.runs) == (192.0, 288.0, 11)


def test_a_constant_output_needs_a_difference_that_counts() -> None:
    """Of a history without any spread: 4 kB, and twice as much or half."""
    for value, usual, kind in (
        (5_000.0, 0.0, AnomalyKind.MORE),
        (4_000.0, 0.0, None),
        (0.0, 10_000.0, AnomalyKind.LESS),
        (0.0, 4_000.0, None),
        (18_000.0, 10_000.0, None),
        (10_000.0, 10_000.0, None),
    ):
        found = anomaly_of(AnomalyQuantity.OUTPUT, value, [usual] * 50)
        assert (None if found is None else found.kind) is kind, (value, usual)


def test_a_run_is_compared_by_each_quantity_that_was_measured() -> None:
    """With the newest earlier runs; those whose output is not known count for the duration alone."""
    earlier = [MeasuredEnd(2.0, 1_000)] * 9 + [MeasuredEnd(2.0)] * 3
    assert anomalies_of(MeasuredEnd(2.0, 9_000_000), earlier) == []
    earlier = [MeasuredEnd(2.0, 1_000)] * 10 + [MeasuredEnd(2.0)] * 3
    assert [
        Anomaly(AnomalyQuantity.DURATION, AnomalyKind.MORE, 60.0, 2.0, 2.0, 13),
        Anomaly(AnomalyQuantity.OUTPUT, AnomalyKind.MORE, 9_000_000.0, 1_000.0, 1_000.0, 10),
    ] == anomalies_of(MeasuredEnd(60.0, 9_000_000), earlier)
    assert [] == anomalies_of(MeasuredEnd(2.0), earlier)
    assert [] == anomalies_of(MeasuredEnd(60.0), [MeasuredEnd(60.0)] * 50 + [MeasuredEnd(2.0)] * 50)


def test_an_anomaly_is_told_in_one_line() -> None:
    """With units, and what is usual."""
    slow, loud = anomalies_of(MeasuredEnd(600.0, 3_200_000), [MeasuredEnd(2.5, 12_000)] * 20)
    assert "a run took 600 s, usually 2.5 s to 2.5 s" == slow.sentence
    assert "a run wrote 3.2 MB, usually 12 kB to 12 kB" == loud.sentence
