"""Removes the files that a task left behind, of any form: a task may nest folders deeper than Python can follow."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

MAX_SECONDS: Final = 60.0
"""A folder that takes longer is left; the next start of an executor on this machine removes it."""


def remove_folder(folder: Path) -> None:
    """Remove it with all that is in it. Follows no link; raises nothing."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        # The system's own program goes down without recursion, by descriptors of folders.
        command = ["rm", "-rf", "--one-file-system", "--", str(folder)]
        try:
            subprocess.run(command, check=False, capture_output=True, timeout=MAX_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return
