"""Worlds from the command line: `python -m tickwise.testing.world 1234`, or `--seeds 1000 [--first 0]`.

Each seed is run twice, and its traces must be equal byte for byte. A seed that fails shows what is wrong, the end of
its trace, and the line that runs it again. The exit code is 1 then, and also if something that must be seen at least
once in so many worlds was not.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

from tickwise.testing.world.world import SOMETIMES, SeedReport, play

ENOUGH: Final = 200
"""In so many worlds, everything that must happen sometimes has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tickwise.testing.world", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="one seed, shown with its trace")
    parser.add_argument("--seeds", type=int, default=ENOUGH, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--trace", action="store_true", help="show the whole trace of one seed")
    said = parser.parse_args(arguments)
    if said.seed is not None:
        return _one(said.seed, whole=said.trace)
    return _many(range(said.first, said.first + said.seeds))


def _one(seed: int, *, whole: bool) -> int:
    report = play(seed, whole=True) if whole else play(seed)
    if whole:
        _say(*report.tail)
    _say(report.as_text())
    _say(f"trace {report.digest}, seen: {', '.join(report.seen)}")
    return _again(report) or int(bool(report.findings))


def _many(seeds: Sequence[int]) -> int:
    seen: Counter[str] = Counter()
    failed = 0
    virtual = 0.0
    for number, seed in enumerate(seeds, 1):
        report = play(seed)
        virtual += report.virtual_seconds
        seen.update(dict.fromkeys(report.seen, 1))
        if report.findings:
            failed += 1
            _say(report.as_text())
        else:
            failed += _again(report)
        if number % 100 == 0:
            _say(f"{number} worlds, {failed} failed")
    missing = [what for what in SOMETIMES if not seen[what]] if len(seeds) >= ENOUGH else []
    for what in missing:
        _say(f"never seen in {len(seeds)} worlds: {what}")
    _say(f"{len(seeds)} worlds, {virtual:.0f} virtual seconds, {failed} failed")
    return int(bool(failed or missing))


def _again(report: SeedReport) -> int:
    """1 if the same seed does not come to the same trace."""
    if play(report.seed).digest == report.digest:
        return 0
    _say(f"seed {report.seed}: the second run came to another trace, so something in it is not decided by the seed")
    return 1


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
