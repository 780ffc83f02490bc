"""Starts `drive` in namespaces of its own, and gives what it found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.security.isolation.drive import Outcome
from tickwise.domain.rules.confinement import Isolation

ROOT: Final = Path(__file__).resolve().parents[3]
SECONDS: Final = 400
NEEDED: Final = ("unshare", "ip", "mount", "umount")
NAMESPACES: Final = ("unshare", "--net", "--mount", "--propagation", "private", "--")


class Report(NamedTuple):
    """What came of a run of attacks."""

    levels: Sequence[Isolation]
    """Those that the executor offers."""
    outcomes: Mapping[tuple[Isolation, str], Outcome]
    """By the level and the attack's name."""
    shown: Mapping[str, Outcome]
    """What root got by the same, without a scheduler."""


def missing() -> str | None:
    """What this machine lacks for it."""
    if os.geteuid() != 0:
        return "needs root, whose installation is to be defended"
    found = [name for name in NEEDED if shutil.which(name) is None]
    return f"needs {', '.join(found)}" if found else None


def report(
    user: str,
    levels: Sequence[Isolation],
    names: Sequence[str],
    *,
    more: Sequence[str] = (),
    inside: Sequence[str] = NAMESPACES,
) -> Report:
    """Make these attacks. `more`: options of `drive`; `inside`: the command that gives it its namespaces."""
    options = [word for level in levels for word in ("--level", level)]
    options += [word for name in names for word in ("--name", name)]
    command = [*inside, sys.executable, "-m", "tests.security.isolation.drive", "--user", user, *options, *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout[-2_000:]}\n{done.stderr[-6_000:]}"
    return _read(json.loads(done.stdout.splitlines()[-1]))


def _read(told: Mapping[str, Any]) -> Report:
    outcomes = {
        (level, name): Outcome(*outcome) for level in Isolation for name, outcome in told.get(level, {}).items()
    }
    shown = {name: Outcome(*outcome) for name, outcome in told.get("shown", {}).items()}
    return Report([Isolation(level) for level in told["levels"]], outcomes, shown)
