"""A trial of the modules of functions, before a running `up` is ended for the next one.

`python -m tickwise.wiring.installation.functions MODULE…` imports them as a function worker does, with its program and
from its folder, and writes what keeps them from being loaded. It is a process of its own: an import may do anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

MAX_TRIAL_SECONDS: Final = 60.0
"""As long as a function worker may take to import its modules (`START_SECONDS`)."""
_LAST_CHARACTERS: Final = 2000


def loading_problems(modules: Sequence[str], folder: Path, environ: Mapping[str, str]) -> str | None:
    """Try to load these modules in `folder`; the words about what keeps them from it, None if nothing does."""
    command = [sys.executable, "-P", "-m", __name__, *modules]
    try:
        tried = subprocess.run(
            command, cwd=folder, env={**environ}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=MAX_TRIAL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"the modules {', '.join(modules)} take longer than {MAX_TRIAL_SECONDS:.0f} s to import"
    except OSError as failure:
        return f"{folder} cannot be entered: {failure.strerror}"
    if tried.returncode == 0:
        return None
    return tried.stderr.strip()[-_LAST_CHARACTERS:] or f"their import ended with exit status {tried.returncode}"


def main(modules: Sequence[str]) -> int:
    """Try to load the modules; 1 and the problems on stderr if that fails."""
    from tickwise.adapters.runner.function.worker import load_functions

    sys.path.insert(0, os.getcwd())  # as the worker does
    _, problems = load_functions(modules)
    sys.stderr.write("; ".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
