"""`tickwise`, and `python -m tickwise`, which is the same."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final

from tickwise.cli.interrupts import heed_interrupts, silent_interrupts

FIRST_LOOK: Final = 100_000
"""Objects that are made before a first search for circles among them. A command imports for most of its time, and a
tenth of that were searches among modules. Roles have bounds of their own (`wiring/processes.py`)."""


def program() -> int:
    """Run the command line of this process; its exit code."""
    _open_streams()
    gc.set_threshold(FIRST_LOOK)
    with silent_interrupts():
        from tickwise.cli.main import main

        heed_interrupts()
        return main()


def _open_streams() -> None:
    """Open what the caller closed (`>&-`) on nothing: else the next file or connection would stand for it."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  # open as long as the process
            setattr(sys, name, stream)


if __name__ == "__main__":
    sys.exit(program())
