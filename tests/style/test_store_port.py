"""The port of the store stays narrow: a second store has to fill each of its methods."""

from __future__ import annotations

import inspect
from typing import Final

from tickwise.ports.store import Searches, Store

MAX_METHODS: Final = 83
"""The aim is 60. Lower this number with each method that goes."""
MAX_SEARCHES: Final = 5
"""A replica or another index serves all of these, so the read model is counted apart as well."""


def _methods(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}


def test_the_port_of_the_store_gains_no_method() -> None:
    """A new method replaces another one, or a query or a request gets a field."""
    assert MAX_METHODS == len(_methods(Store))


def test_the_read_model_reads_and_does_nothing_else() -> None:
    """A replica can serve it: its methods list and tally."""
    searches = _methods(Searches)
    assert MAX_SEARCHES == len(searches)
    assert all(name.endswith(("_list", "_tally")) for name in searches)
