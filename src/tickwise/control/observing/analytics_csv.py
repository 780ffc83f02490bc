"""An analysis as a table of comma-separated values (RFC 4180), for spreadsheets.

Invariant: no cell is a formula. A text that a spreadsheet would compute stands behind an apostrophe.
"""

from __future__ import annotations

import csv
import io
from typing import Final

from tickwise.control.observing.analytics import AnalyticsAnswer
from tickwise.control.times import written
from tickwise.domain.lifecycle import RunState
from tickwise.domain.observing.analytics import GroupBy, RunGroup, Spread

STATES: Final = (RunState.SUCCESS, RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
_SPREAD: Final = ("p50", "p95", "p99", "mean", "max")
TITLES: Final = (
    "kind", "key", "name", "runs", *(state.value.lower() for state in STATES), "success_ratio", "retries", "seconds",
    *(f"duration_{each}" for each in _SPREAD), *(f"lateness_{each}" for each in _SPREAD), "cpu_seconds",
    *(f"cpu_{each}" for each in _SPREAD), *(f"memory_bytes_{each}" for each in _SPREAD), "coverage", "share", "since",
)  # fmt: skip
_COMPUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""The first characters of a cell that spreadsheets compute, or pass over on their way to one."""


def analytics_csv(answer: AnalyticsAnswer) -> str:
    """The table: its titles, the groups, and the total as its last row. Lines end with CRLF."""
    analysis = answer.analysis
    since = "" if analysis.since is None else written(analysis.since)
    how = (analysis.coverage.value, _number(analysis.share), since)
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(TITLES)
    for row in analysis.groups:
        table.writerow([row.kind.value, *_cells(answer, row), *how])
    table.writerow(["total", *_cells(answer, analysis.total), *how])
    return text.getvalue()


def shown_key(answer: AnalyticsAnswer, row: RunGroup) -> str | None:
    """The key of a row for a reader: an hour as its time."""
    if row.key is not None and answer.grouping.by is GroupBy.HOUR:
        return written(float(row.key))
    return row.key


def harmless(text: str) -> str:
    """The text as a cell that no spreadsheet computes."""
    return f"'{text}" if text.lstrip(" ").startswith(_COMPUTED) else text


def _cells(answer: AnalyticsAnswer, row: RunGroup) -> list[str]:
    return [
        harmless(shown_key(answer, row) or ""),
        harmless(row.name or ""),
        str(row.runs),
        *(str(row.states.get(state, 0)) for state in STATES),
        "" if row.success_ratio is None else _number(row.success_ratio),
        str(row.retries),
        _number(row.seconds),
        *_spread(row.duration),
        *_spread(row.lateness),
        _number(row.cpu_seconds),
        *_spread(row.cpu),
        *_spread(row.memory),
    ]


def _spread(spread: Spread | None) -> list[str]:
    if spread is None:
        return [""] * len(_SPREAD)
    return [_number(each) for each in (spread.p50, spread.p95, spread.p99, spread.mean, spread.most)]


def _number(value: float) -> str:
    """To six places, without an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".")
