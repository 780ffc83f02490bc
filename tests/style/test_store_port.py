"""The port of the store stays narrow: a second store has to fill each of its methods."""

from __future__ import annotations

import inspect
from typing import Final, get_type_hints

import pytest

from tickwise.adapters.store.memory import MemoryStore
from tickwise.adapters.store.postgres import PostgresStore
from tickwise.ports import audit, feed, identity
from tickwise.ports import store as port
from tickwise.ports.store import Searches, Store, environments, notices, secrets, status_pages
from tickwise.ports.store.wrapping import PARTS

MAX_METHODS: Final = 92
"""Of the store and all of its parts but those of identity, notices, status pages, environments, secrets, the audit log
and the feed, ports of their own. The aim is 60. Lower this number with each method that goes."""


def _is_apart(part: type) -> bool:
    apart = (identity, audit, feed, notices, status_pages, environments, secrets)
    return part.__module__.startswith(tuple(each.__name__ for each in apart))


def _methods(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")}


def _parts() -> dict[str, type]:
    names = {**vars(port), **vars(identity), **vars(audit)}
    return {name: get_type_hints(vars(Store)[name].fget, names)["return"] for name in PARTS}


def test_the_port_of_the_store_gains_no_method() -> None:
    """A new method replaces another one, or a query or a request gets a field."""
    parts = [part for part in _parts().values() if not _is_apart(part)]
    methods = [*_methods(Store), *(name for part in parts for name in _methods(part))]
    assert MAX_METHODS == len(methods)


def test_each_part_is_a_port_of_its_own() -> None:
    """No part stands under two names, and none has so many methods that it is two."""
    parts = _parts()
    assert len(parts) == len(set(parts.values()))
    assert {name: len(_methods(part)) for name, part in parts.items() if len(_methods(part)) > 10} == {}


def test_the_read_model_is_a_part_of_its_own() -> None:
    """A replica can stand in for it: it lists, tallies and counts."""
    assert _parts()["searches"] is Searches
    assert {"jobs", "runs", "letters", "operations", "tally", "count", "analyse", "starts"} == _methods(Searches)


@pytest.mark.parametrize("store", [MemoryStore, PostgresStore])
def test_a_store_is_composed_and_inherits_nothing(store: type) -> None:
    """Its parts are attributes, so that each can be read, replaced and filled by itself."""
    assert (object,) == store.__bases__
