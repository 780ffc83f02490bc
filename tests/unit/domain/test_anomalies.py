"""Durations that are unlike those of earlier runs."""

from __future__ import annotations

import pytest

from tickwise.domain.observing.anomalies import AnomalyKind, duration_anomaly

MINUTES = [180.0 + 12.0 * number for number in range(11)]
"""3 to 5 minutes."""


@pytest.mark.parametrize(
    ("seconds", "earlier", "kind"),
    [
        (2_400.0, MINUTES, AnomalyKind.SLOW),
        (300.0, MINUTES, None),
        (550.0, MINUTES, None),
        (3.0, [600.0] * 20, AnomalyKind.FAST),
        (400.0, [600.0] * 20, None),
        (0.03, [0.01] * 20, None),
        (1.5, [0.01] * 20, AnomalyKind.SLOW),
        (2_400.0, MINUTES[:9], None),
        (2_400.0, [], None),
        (2_400.0, [*MINUTES, 9_000.0, 9_500.0], AnomalyKind.SLOW),
        (2_400.0, [10.0, 4_000.0] * 10, None),
    ],
)
def test_an_anomaly_is_far_from_what_is_usual(seconds: float, earlier: list[float], kind: AnomalyKind | None) -> None:
    """In both directions; not where runs vary as much, where nobody would notice, or too few of them are known."""
    found = duration_anomaly(seconds, earlier)
    assert (None if found is None else found.kind) is kind


def test_what_is_usual_is_told() -> None:
    """Nine of ten runs took less than the one time, and as many more than the other."""
    found = duration_anomaly(2_400.0, MINUTES)
    assert found is not None
    assert (found.low, found.high, found.runs) == (192.0, 288.0, 11)
