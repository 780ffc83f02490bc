"""What a stretch of work cost a run: the pure part, and the reading around the work.

Invariant: what is prepared before and cleared after is not in it, nor is what the reading itself costs.
"""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

from bench.costs.meter import Meter, Reading, Rows, total

OWN = frozenset({"costs_reset", "costs_sessions", "costs_statements", "costs_tables", "costs_wal"})
"""Statements of the meter, which are left out."""


@dataclass(frozen=True)
class Cost:
    """Of one run, in one stage, in one round."""

    client: float
    """Microseconds of CPU of the product's process."""
    database: float
    """Microseconds of CPU of the sessions that served it."""
    background: float
    """Microseconds of CPU of the server's other processes: log writer, checkpointer, vacuum."""
    wal: float
    """Bytes."""
    trips: float
    """Statements."""


class Span(NamedTuple):
    """One figure over several rounds."""

    middle: float
    """The median."""
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Span:
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if round(self.low, 1) == round(self.high, 1):
            return f"{self.middle:,.1f}"
        return f"{self.middle:,.1f} [{self.low:,.1f} – {self.high:,.1f}]"


def cost_of(used: Reading, runs: int, *, client_seconds: float) -> Cost:
    """A difference of readings, divided by the runs."""
    calls = sum(one.calls for name, one in used.statements.items() if name not in OWN)
    return Cost(
        client=client_seconds * 1e6 / runs,
        database=total(used.sessions.values()).cpu * 1e6 / runs,
        background=total(used.background.values()).cpu * 1e6 / runs,
        wal=used.wal / runs,
        trips=calls / runs,
    )


def rows_text(rows: Mapping[str, Rows], runs: int) -> str:
    """`runs +1 ~1 HOT −1`: rows that a run inserts, updates and deletes in each table. Next to nothing is left out."""
    found = []
    for name, row in sorted(rows.items()):
        parts = [
            f"{sign}{count / runs:.3g}{note}"
            for sign, count, note in (
                ("+", row.inserted, ""),
                ("~", row.updated, " HOT" if row.hot >= 0.99 * row.updated else ""),
                ("−", row.deleted, ""),
            )
            if count / runs >= 0.01
        ]
        if parts:
            found.append(f"{name} {' '.join(parts)}")
    return ", ".join(found) or "–"


@contextlib.contextmanager
def _nothing_else_alive() -> Iterator[None]:
    """What was prepared for the measurement is no work for the garbage collector during it."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def spent(meter: Meter, runs: int, work: Awaitable[object]) -> Cost:
    """Do the work, within this process, and say what each of its runs cost."""
    await meter.reset()
    with _nothing_else_alive():
        before, begun = await meter.read(), process_time()
        await work
        client_seconds = process_time() - begun
    return cost_of((await meter.read()).since(before), runs, client_seconds=client_seconds)
