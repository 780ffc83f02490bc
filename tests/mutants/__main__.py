"""`make mutants`: takes each guard of the product out, one at a time, and shows that a test fails without it.

    copy of the tree ──► all named tests pass ──► for each guard: patch, run its tests, put back ──► table, JSON

The copy is what is tested: its source stands before an installed one, which is checked. All tests use one PostgreSQL,
each run of them a database of its own. Exits 1 if a guard can be taken out unnoticed, 2 if something else went wrong
(a patch that does not apply, tests that fail without one).

ONLY="part of a guard's name" runs those alone, and writes no results.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.mutants.catalogue import MUTANTS, ROOT
from tests.mutants.mutant import Mutant
from tests.support import databases
from tickwise.adapters.clock import SystemClock

RESULTS: Final = ROOT / "bench" / "results" / "mutants.json"
COPIED: Final = ("src", "tests", "docs", "examples", "pyproject.toml")
TEST_SECONDS: Final = 600.0
FAILED: Final = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)
CLOCK: Final = SystemClock()


class Unusable(Exception):
    """What was run has shown nothing, neither way."""


@dataclass(frozen=True, slots=True)
class Killed:
    """What became of one mutant."""

    guard: str
    file: str
    killed_by: str | None
    """The first test that failed; None: it survived."""
    seconds: float


class Copy:
    """A copy of the tree, in which a guard may be missing for a while."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, folder / name)
        self.environ = os.environ | {"PYTHONPATH": str(folder / "src"), databases.VARIABLE: database_url}
        self._writes = 0
        self._is_used()

    def _write(self, file: Path, text: str) -> None:
        """Bytecode is kept by a source's second and size: no two texts of a file may share both."""
        file.write_text(text, encoding="utf-8")
        self._writes += 1
        os.utime(file, (self._writes, self._writes))

    def _is_used(self) -> None:
        """An installed Tickwise must not be what the tests see."""
        said = subprocess.run(
            [sys.executable, "-c", "import tickwise; print(tickwise.__file__)"],
            cwd=self.folder, env=self.environ, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        if not Path(said).is_relative_to(self.folder):
            raise Unusable(f"the tests would see {said}, not the copy")

    def tests(self, nodes: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run these until one fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-rf", *nodes]
        try:
            return subprocess.run(
                command, cwd=self.folder, env=self.environ, capture_output=True, text=True, timeout=TEST_SECONDS,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unusable(f"{' '.join(nodes)} did not end within {TEST_SECONDS:.0f} s") from None

    def without(self, mutant: Mutant) -> Killed:
        """Take the guard out, see what fails, put it back."""
        file = self.folder / mutant.file
        whole = file.read_text(encoding="utf-8")
        begun = CLOCK.monotonic()
        self._write(file, patched(whole, mutant))
        try:
            ran = self.tests(mutant.tests)
        finally:
            self._write(file, whole)
        failed = FAILED.search(ran.stdout)
        if ran.returncode not in (0, 1) or (ran.returncode == 1 and failed is None):
            raise Unusable(f"without {mutant.guard!r} the tests could not be run:\n{ran.stdout[-3000:]}{ran.stderr}")
        killer = None if failed is None else failed[1]
        return Killed(mutant.guard, mutant.file, killer, round(CLOCK.monotonic() - begun, 1))


def patched(whole: str, mutant: Mutant) -> str:
    """The text without the guard. Raises `Unusable` unless the guard is there exactly once."""
    if whole.count(mutant.old) != 1:
        raise Unusable(
            f"{mutant.file} has {mutant.old!r} {whole.count(mutant.old)} times: {mutant.guard!r} must be found"
        )
    return whole.replace(mutant.old, mutant.new)


async def main() -> int:
    """All of them, or those that ONLY names."""
    only = os.environ.get("ONLY", "")
    mutants = [mutant for mutant in MUTANTS if only in mutant.guard]
    try:
        with tempfile.TemporaryDirectory(prefix="tickwise-mutants-") as folder:
            async with databases.server() as database_url:
                found = await asyncio.to_thread(_take_out, mutants, Path(folder), database_url)
    except Unusable as error:
        print(error, file=sys.stderr)  # noqa: T201  # this is a command, and its output a table
        return 2
    survived = [one.guard for one in found if one.killed_by is None]
    missed = f"{len(found)} guards, {len(found) - len(survived)} missed as soon as they are out"
    print(f"\n{missed}")  # noqa: T201  # this is a command, and its output a table
    if not only:
        kept = {"case": "mutants", "guards": len(found), "survived": survived, "found": [asdict(one) for one in found]}
        RESULTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return 1 if survived else 0


def _take_out(mutants: Sequence[Mutant], folder: Path, database_url: str) -> list[Killed]:
    """One after the other, after all of their tests passed with every guard in place."""
    copy = Copy(folder, database_url)
    for mutant in mutants:
        patched((ROOT / mutant.file).read_text(encoding="utf-8"), mutant)
    whole = copy.tests(sorted({node for mutant in mutants for node in mutant.tests}))
    if whole.returncode:
        raise Unusable(f"with all guards in place the tests do not pass:\n{whole.stdout[-3000:]}{whole.stderr}")
    return [_told(copy.without(mutant)) for mutant in mutants]


def _told(one: Killed) -> Killed:
    killer = "SURVIVED" if one.killed_by is None else one.killed_by.rpartition("::")[2]
    print(f"{one.guard:<62} {one.seconds:6.1f} s  {killer}", flush=True)  # noqa: T201  # this is a command, and its output a table
    return one


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
