"""`make deploy-check`: everything in `deploy/`, judged by the programs that it is for.

CHECKS="chart units …" chooses. What this machine cannot check is named, with what is missing; that is no failure.
BASE=image is what the image is built on, TICKWISE_TEST_KUBECONFIG a cluster to ask, TICKWISE_TEST_TOOLS the cache.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys

from tests.deploy.checks import CHECKS
from tests.deploy.tools import NotHere


def _check(name: str) -> str:
    """One line of the list; the first word says how it ended."""
    try:
        return f"good         {name}: {asyncio.run(CHECKS[name]())}"
    except NotHere as reason:
        return f"not checked  {name}: {reason}"
    except (AssertionError, subprocess.TimeoutExpired) as failure:
        return f"bad          {name}: {failure}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make deploy-check", description=__doc__)
    parser.add_argument("checks", nargs="*", default=[*CHECKS], metavar="CHECK")
    # What ends us ends what we started: asyncio unwinds after Ctrl-C, and knows nothing of TERM.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    lines = []
    for name in parser.parse_args().checks:
        if name not in CHECKS:
            parser.error(f"there is no check {name}; there are {', '.join(CHECKS)}")
        lines.append(_check(name))
        print(lines[-1], flush=True)
    bad = sum(line.startswith("bad") for line in lines)
    left_out = sum(line.startswith("not checked") for line in lines)
    print(f"{len(lines) - bad - left_out} good, {bad} bad, {left_out} not checked")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
