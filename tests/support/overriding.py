"""Puts something in place of one call of a store, or around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any


def override(store: object, name: str, around: Callable[..., Awaitable[Any]]) -> None:
    """From now on `name` (`jobs.add`) of this store is `around(call, *arguments)`; `call` is what it was before. With a
    `WrappedStore` the store below it stays as it is."""
    part, method = name.split(".")
    found = getattr(store, part)
    setattr(found, method, partial(around, getattr(found, method)))
