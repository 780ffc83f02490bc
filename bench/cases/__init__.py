"""All cases, by name. Each module of this package ends with its CASE, or with its CASES if one measurement is several.

Whoever adds a module adds a case: nothing else names it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from bench.harness import Case


def _of(module: ModuleType) -> tuple[Case, ...]:
    """What a module brings."""
    if hasattr(module, "CASES"):
        return tuple(module.CASES)
    return (module.CASE,)


def _all() -> Iterator[Case]:
    for found in pkgutil.iter_modules(__path__):
        yield from _of(importlib.import_module(f"{__name__}.{found.name}"))


CASES = {case.name: case for case in sorted(_all(), key=lambda case: case.name)}
