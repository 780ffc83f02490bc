"""Bounded buffers, as metrics tell of them.

Invariant: each buffer that grows with the load has a limit, and both can be read; an operator sees a buffer fill long
before callers are told to come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Buffer(NamedTuple):
    """The fill of a buffer."""

    items: int
    """In the unit of its limit: things, or bytes where its name says so."""
    limit: int


Buffers = Callable[[], Mapping[str, tuple[int, int]]]
"""Returns at each scrape the buffers of a role by name, each as `Buffer` or as such a pair."""
