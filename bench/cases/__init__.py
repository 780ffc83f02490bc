"""All cases, by name. Each module of this package ends with its CASE, or with its CASES if one measurement is several.

Whoever adds a module adds a case: nothing else names it. A module that cannot be imported takes no other case with it;
UNUSABLE says why.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from bench.harness import Case


def _of(name: str) -> Iterable[Case]:
    """What a module brings."""
    module = importlib.import_module(f"{__name__}.{name}")
    return (module.CASE,) if hasattr(module, "CASE") else module.CASES


def _collect() -> tuple[dict[str, Case], dict[str, str]]:
    """Cases by name; and by module, why it has none."""
    cases: dict[str, Case] = {}
    unusable: dict[str, str] = {}
    for found in pkgutil.iter_modules(__path__):
        try:
            cases |= {case.name: case for case in _of(found.name)}
        except (ImportError, AttributeError, SyntaxError) as wrong:
            unusable[found.name] = f"{type(wrong).__name__}: {wrong}"
    return dict(sorted(cases.items())), unusable


CASES, UNUSABLE = _collect()
