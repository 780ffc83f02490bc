"""The jobs that fire next, in the order of their timers: what a look at the time to come reads.

    timers, by due ──► at most `looked` of them ──► those of the query ──► the first of them
                              └── `known_until`: of what is due from then on, nothing is said

Invariant: the cost of a look depends on `looked`, `limit` and `bytes_most`, not on the number of timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tickwise.domain.selectors import Selector
from tickwise.ports.paging import Page
from tickwise.ports.store.definitions import JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuery:
    """The jobs of one namespace whose timer is due in a window; everything given must match."""

    namespace: str
    due_after: float
    """From this instant on, …"""
    due_before: float
    """… and before this one."""
    job_id: UUID | None = None
    name: str | None = None
    """A part of the name, any case."""
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    within: Selector | None = None
    """Jobs of this selector alone; None: all."""
    limit: int = 200
    looked: int = 1_000
    """The most timers that are read. A store that finds the candidates by another index (few jobs of a label, of a
    namespace) reads theirs alone, and may so know more."""
    bytes_most: int | None = None
    """The rows end before their definitions hold more (`paging`); None: never."""


class PlannedPage(Page[JobRow]):
    """The jobs of a look: the earliest due timer first; of one time, by id."""

    __slots__ = ("known_until",)

    known_until: float | None
    """Jobs whose timer is due from this instant on may be missing; None: none is."""

    def __init__(self, rows: Iterable[JobRow] = (), *, known_until: float | None = None) -> None:
        super().__init__(rows)
        self.known_until = known_until
