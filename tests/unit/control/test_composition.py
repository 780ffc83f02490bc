"""Control is composed of services. No service inherits from another; a role is handed only the part that it uses."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

import tickwise.control
from tests.support.app import Bell
from tickwise.adapters.blobs import open_blobs
from tickwise.adapters.clock import VirtualClock
from tickwise.adapters.store.memory import MemoryStore
from tickwise.control.bulk.pages import KINDS, OperationKind, OperationPages
from tickwise.control.context import ControlContext


def classes() -> Iterator[type]:
    """The classes of the layer that do something: no bodies of requests."""
    for module in pkgutil.walk_packages(tickwise.control.__path__, "tickwise.control."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if found.__module__ == module.name and not issubclass(found, msgspec.Struct):
                yield found


def test_no_service_inherits_from_another() -> None:
    """A reader finds all methods of a class in that class, and a service is made without the others."""
    found = list(classes())
    assert len(found) > 50
    inherited = {
        (one.__qualname__, base.__qualname__)
        for one in found
        for base in one.__mro__[1:]
        if base.__module__.startswith("tickwise.")
    }
    assert set() == inherited


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("job:")])
def test_each_kind_of_operation_that_is_asked_for_is_carried_out(kind: str) -> None:
    """What a scheduler is handed knows every kind that the API stores, and is made of a context alone."""
    clock = VirtualClock()
    context = ControlContext(store=MemoryStore(clock), blobs=open_blobs("memory://"), signals=Bell(), clock=clock)
    assert kind in OperationPages(context)._works


def test_kinds_of_one_job_are_carried_out_by_recorders_alone() -> None:
    """They are on record when they are over, and no page of them is ever taken."""
    assert {OperationKind.JOB_CREATE, OperationKind.JOB_CHANGE, OperationKind.JOB_CANCEL} == {
        kind for kind in KINDS if kind.startswith("job:")
    }
