"""One guard, and how the product is without it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """A guard, and how the product is without it."""

    guard: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Node ids for pytest; at least one of them must fail."""
