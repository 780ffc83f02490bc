"""In which order several processes of pytest take the files.

    simulation, chaos, browser ── servers, processes ── contracts, attacks ── units, most tests first
    files of minutes              of seconds                                  of milliseconds

A file that takes a minute and is begun last leaves all other processes without work for that minute.

Each process reads all files. In a fresh checkout none is compiled yet, so each begins at another file and finds what
the others have compiled meanwhile: else each would compile all of them, for 11 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

FOLDERS: Final = (
    "chaos",
    "simulation",
    "browser",
    "deploy",
    "processes",
    "storage",
    "integration",
    "conformance",
    "isolation",
    "security",
    "reference",
    "style",
    "mutants",
)
"""Those whose files take longest first; those of `unit` follow."""


class _Place(NamedTuple):
    """Of a file; the smallest goes first."""

    patience_seconds: float
    """The time that its most patient test declares, below zero."""
    folder: int
    tests: int
    """The number of its tests, below zero."""
    file: Path


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by their files. Those of a file stay together, as they were."""
    tests = Counter(item.path for item in items)
    patience = dict.fromkeys(tests, 0.0)
    for item in items:
        for marker in item.iter_markers("takes_up_to"):
            patience[item.path] = max(patience[item.path], marker.args[0])
    items.sort(key=lambda item: _Place(-patience[item.path], _folder(item.path), -tests[item.path], item.path))


def begun_elsewhere(args: Sequence[str], root: Path, *, worker: int, workers: int) -> list[str]:
    """The files of tests that a command line names, itself or by their folders, from the share of this worker on."""
    files = [file for arg in args for file in _files(root / arg, arg)]
    first = len(files) * worker // workers
    return [*files[first:], *files[:first]]


def _files(place: Path, arg: str) -> list[str]:
    return sorted(map(str, place.rglob("test_*.py"))) if place.is_dir() else [arg]


def _folder(file: Path) -> int:
    name = file.parent.name
    return FOLDERS.index(name) if name in FOLDERS else len(FOLDERS)
