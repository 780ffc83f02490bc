"""`tickwise`, and `python -m tickwise`, which is the same."""

from __future__ import annotations

import sys

from tickwise.cli.interrupts import heed_interrupts, silent_interrupts


def program() -> int:
    """Run the command line of this process; its exit code."""
    with silent_interrupts():
        from tickwise.cli.main import main

        heed_interrupts()
        return main()


if __name__ == "__main__":
    sys.exit(program())
